import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { hostMatches, hostOf } from '../../model/hostPattern.ts';
import type { SigningKeys } from './signingKeys.ts';

/** What tokens say, and who gets them (`clientCertificateJwtAuthentication`, docs/client-certificates.md). */
export interface ClusterTokenSettings {
  /** Claim that holds the user beside `sub`; `sub` for none. */
  readonly principalClaim: string;
  readonly issuer: string | null;
  /** Audiences of every cluster, in which `{cluster}` is its name; null for none. */
  readonly audiences: readonly string[] | null;
  /** Audiences of single clusters, by name, in their place. */
  readonly clusterAudiences: Readonly<Record<string, readonly string[]>>;
  /** Milliseconds that tokens are valid. */
  readonly lifetime: number;
  /** Hosts whose clusters get tokens, over TLS and in clear text; null: all over TLS, none in clear text. */
  readonly hosts: readonly string[] | null;
}

/** What makes tokens. */
export interface ClusterTokensDependencies {
  readonly settings: ClusterTokenSettings;
  readonly keys: SigningKeys;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Tokens that are kept. */
const MOST_TOKENS = 10_000;
/** Addresses of clusters without tokens that the log has named. */
const MOST_WARNINGS = 1_000;
/** Clocks of clusters may be behind by this. */
const NOT_BEFORE_S = 60;

/**
 * Makes the short-lived tokens by which clusters recognise users of client certificates. A token is used again until the
 * last fifth of its life, at most a minute, so that what it goes with has time to arrive.
 */
export class ClusterTokens {
  readonly #dependencies: ClusterTokensDependencies;
  readonly #tokens = new LRUCache<string, { readonly token: string; readonly until: number }>(growingTo(MOST_TOKENS));
  readonly #warned = new LRUCache<string, true>(growingTo(MOST_WARNINGS));

  constructor(dependencies: ClusterTokensDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * The token of a user for a cluster.
   * @param name registry name; "" where it is not known
   * @returns null for a cluster that gets none
   */
  tokenFor(user: string, { name, proxyTo }: { readonly name: string; readonly proxyTo: string }): string | null {
    const { settings, keys, clock } = this.#dependencies;
    // Nobody has said that an address without a cluster is to have tokens.
    if (name === '') return null;
    if (!this.#mayHave(name, proxyTo)) return null;
    const audiences = this.#audiencesOf(name);
    const key = keys.current;
    const id = JSON.stringify([key.published.kid, audiences, user]);
    const now = clock.now();
    const entry = this.#tokens.get(id);
    if (entry !== undefined && now < entry.until) return entry.token;
    const seconds = Math.trunc(now / 1000);
    const { principalClaim, issuer, lifetime } = settings;
    const token = key.sign({
      sub: user,
      ...(principalClaim === 'sub' ? {} : { [principalClaim]: user }),
      ...(issuer === null ? {} : { iss: issuer }),
      ...(audiences === null ? {} : { aud: audiences }),
      iat: seconds,
      nbf: seconds - NOT_BEFORE_S,
      exp: seconds + Math.trunc(lifetime / 1000),
    });
    this.#tokens.set(id, { token, until: now + lifetime - Math.min(60_000, lifetime / 5) });
    return token;
  }

  #audiencesOf(cluster: string): readonly string[] | null {
    const { audiences, clusterAudiences } = this.#dependencies.settings;
    if (Object.hasOwn(clusterAudiences, cluster)) return clusterAudiences[cluster] ?? null;
    return audiences?.map((audience) => audience.replaceAll('{cluster}', cluster)) ?? null;
  }

  /** Who has a token can be its user for as long as it lives. */
  #mayHave(cluster: string, proxyTo: string): boolean {
    const { settings, logger } = this.#dependencies;
    const { hosts } = settings;
    if (hosts === null ? /^https:/i.test(proxyTo) : hostMatches(hosts, proxyTo)) return true;
    if (!this.#warned.has(proxyTo)) {
      this.#warned.set(proxyTo, true);
      const why = hosts === null ? 'it is in clear text' : 'tokenHosts does not name its host';
      const fix = `add ${hostOf(proxyTo)} to clientCertificateJwtAuthentication.tokenHosts, or give the cluster an https address that it names`;
      logger.warn({ cluster, proxyTo }, `the cluster gets no tokens of client certificates, as ${why}; ${fix}`);
    }
    return false;
  }
}
