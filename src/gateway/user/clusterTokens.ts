import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { hostMatches, hostOf } from '../../model/hostPattern.ts';
import type { ProductNames } from '../../model/names.ts';
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
  readonly #settings: ClusterTokenSettings;
  readonly #keys: SigningKeys;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #tokens = new LRUCache<string, { readonly token: string; readonly until: number }>(growingTo(MAX_TOKENS));
  readonly #warned = new LRUCache<string, true>(growingTo(MAX_WARNINGS));

  constructor(settings: ClusterTokenSettings, keys: SigningKeys, clock: Clock, logger: Logger) {
    this.#settings = settings;
    this.#keys = keys;
    this.#clock = clock;
    this.#logger = logger;
  }

  /**
   * The token of a user for a cluster.
   * @param name registry name; "" if unknown
   * @returns null for a cluster without tokens
   */
  tokenFor(user: string, { name, proxyTo }: { readonly name: string; readonly proxyTo: string }): string | null {
    // An address without a cluster is not configured to receive tokens.
    if (name === '' || !this.#mayHave(name, proxyTo)) return null;
    const audiences = this.#audiencesOf(name);
    const key = this.#keys.current;
    const id = JSON.stringify([key.published.kid, audiences, user]);
    const now = this.#clock.now();
    const entry = this.#tokens.get(id);
    if (entry !== undefined && now < entry.until) return entry.token;
    const seconds = Math.trunc(now / 1000);
    const { principalClaim, issuer, lifetime } = this.#settings;
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
    const { audiences, clusterAudiences } = this.#settings;
    if (Object.hasOwn(clusterAudiences, cluster)) return clusterAudiences[cluster] ?? null;
    return audiences?.map((audience) => audience.replaceAll('{cluster}', cluster)) ?? null;
  }

  /** The holder of a token can act as its user for its lifetime. */
  #mayHave(cluster: string, proxyTo: string): boolean {
    const { hosts } = this.#settings;
    if (hosts === null ? /^https:/i.test(proxyTo) : hostMatches(hosts, proxyTo)) return true;
    if (!this.#warned.has(proxyTo)) {
      this.#warned.set(proxyTo, true);
      const why = hosts === null ? 'it is in clear text' : 'tokenHosts does not name its host';
      const fix = `add ${hostOf(proxyTo)} to clientCertificateJwtAuthentication.tokenHosts, or give the cluster an https address that it names`;
      this.#logger.warn({ cluster, proxyTo }, `the cluster gets no tokens of client certificates, as ${why}; ${fix}`);
    }
    return false;
  }
}

/** Adds the user of a client certificate to the headers for clusters (docs/client-certificates.md). */
export class CertificateIdentities {
  readonly #tokens: ClusterTokens;
  readonly #userHeaders: readonly string[];

  /** @param replacesUser true if the user headers of the client are replaced too (`overrideTrinoUser`) */
  constructor(tokens: ClusterTokens, replacesUser: boolean, names: ProductNames) {
    this.#tokens = tokens;
    this.#userHeaders = replacesUser
      ? ['User', 'Original-User'].flatMap((suffix) => names.clusterNames(names.header(suffix)))
      : [];
  }

  /**
   * Returns the headers for a cluster with a user's identity: a token replaces the client's authorization, unless the
   * cluster gets none, and if configured the user's name replaces the client's.
   * @param lines names and values in turn
   */
  named(
    lines: readonly string[],
    user: string,
    cluster: { readonly name: string; readonly proxyTo: string },
  ): readonly string[] {
    const token = this.#tokens.tokenFor(user, cluster);
    const own = [
      ...(token === null ? [] : ['Authorization', `Bearer ${token}`]),
      ...this.#userHeaders.flatMap((name) => [name, headerText(user)]),
    ];
    if (own.length === 0) return lines;
    const replaced = new Set(own.flatMap((name, index) => (index % 2 === 0 ? [name.toLowerCase()] : [])));
    const others: string[] = [];
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      if (!replaced.has(name.toLowerCase())) others.push(name, lines[index + 1] as string);
    }
    return [...others, ...own];
  }
}

/**
 * A name as header value. Headers are bytes: ISO-8859-1, as Trino Gateway sends them, and UTF-8 for names beyond it.
 */
export function headerText(user: string): string {
  return Buffer.from(user, 'latin1').toString('latin1') === user ? user : Buffer.from(user).toString('latin1');
}
