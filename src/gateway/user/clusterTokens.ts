import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { hostMatches, hostOf } from '../../model/hostPattern.ts';
import type { SigningKeys } from './signingKeys.ts';

/** Content and recipients of tokens (`clientCertificateJwtAuthentication`, docs/client-certificates.md). */
export interface ClusterTokenSettings {
  /** Claim with the user in addition to `sub`; `sub` for none. */
  readonly principalClaim: string;
  readonly issuer: string | null;
  /** Audiences of every cluster; `{cluster}` is replaced by its name; null for none. */
  readonly audiences: readonly string[] | null;
  /** Audiences of single clusters, by name, which replace those. */
  readonly clusterAudiences: Readonly<Record<string, readonly string[]>>;
  /** Lifetime of tokens in milliseconds. */
  readonly lifetime: number;
  /** Hosts of clusters that receive tokens, over TLS and in clear text; null: all over TLS, none in clear text. */
  readonly hosts: readonly string[] | null;
}

export interface ClusterTokensDependencies {
  readonly settings: ClusterTokenSettings;
  readonly keys: SigningKeys;
  readonly clock: Clock;
  readonly logger: Logger;
}

const MAX_TOKENS = 10_000;
/** Maximum number of logged addresses of clusters without tokens. */
const MAX_WARNINGS = 1_000;
/** Tolerated clock difference of clusters. */
const NOT_BEFORE_S = 60;

/**
 * Issues the short-lived tokens by which clusters identify users of client certificates. A token is reused until the
 * last fifth of its lifetime, at most a minute, so that its request has time to arrive.
 */
export class ClusterTokens {
  readonly #dependencies: ClusterTokensDependencies;
  readonly #tokens = new LRUCache<string, { readonly token: string; readonly until: number }>(growingTo(MAX_TOKENS));
  readonly #warned = new LRUCache<string, true>(growingTo(MAX_WARNINGS));

  constructor(dependencies: ClusterTokensDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * The token of a user for a cluster.
   * @param name registry name; "" if unknown
   * @returns null for a cluster without tokens
   */
  tokenFor(user: string, { name, proxyTo }: { readonly name: string; readonly proxyTo: string }): string | null {
    const { settings, keys, clock } = this.#dependencies;
    // An address without a cluster is not configured to receive tokens.
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

  /** The holder of a token can act as its user for its lifetime. */
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
