import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign as signBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { followFiles } from '../../config/followedFiles.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { growingTo } from '../../model/growingCache.ts';
import { hostMatches, hostOf } from '../../model/hostPattern.ts';
import type { ProductNames } from '../../model/names.ts';
import { linesWithout } from '../headers/requestHeaders.ts';

/** Signature algorithms of keys for tokens (RFC 7518 §3.1). */
export type SignatureAlgorithm = 'RS256' | 'ES256' | 'ES384' | 'ES512';

/** Algorithms of elliptic curves by their name in OpenSSL (RFC 7518 §3.4). */
const CURVES: ReadonlyMap<string | undefined, SignatureAlgorithm> = new Map([
  ['prime256v1', 'ES256'],
  ['secp384r1', 'ES384'],
  ['secp521r1', 'ES512'],
]);

/** Minimum RSA modulus in bits for RS256 (RFC 7518 §3.3). */
export const MIN_RSA_BITS = 2048;

export const USABLE_KEYS = `must hold an RSA key of at least ${MIN_RSA_BITS} bits, or an EC key of P-256, P-384 or P-521`;

/** Signature algorithm of a key; null for unsupported keys. */
export function signatureAlgorithm({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): SignatureAlgorithm | null {
  if (asymmetricKeyType === 'ec') return CURVES.get(asymmetricKeyDetails?.namedCurve) ?? null;
  const bits = asymmetricKeyDetails?.modulusLength ?? 0;
  return asymmetricKeyType === 'rsa' && bits >= MIN_RSA_BITS ? 'RS256' : null;
}

/** A public key in a JWKS (RFC 7517 §4). */
export type PublishedKey = Readonly<Record<string, string>> & { readonly kid: string };

type SigningKey = ReturnType<typeof signingKey>;

/**
 * A public key for a JWKS.
 * @param kid its id; null: the thumbprint of the key (RFC 7638)
 */
function publishedKey(key: KeyObject, kid: string | null): PublishedKey {
  const jwk = key.export({ format: 'jwk' }) as Readonly<Record<string, string>>;
  const members = jwk.kty === 'EC' ? ['crv', 'kty', 'x', 'y'] : ['e', 'kty', 'n'];
  const required = JSON.stringify(Object.fromEntries(members.map((name) => [name, jwk[name]])));
  const thumbprint = createHash('sha256').update(required).digest('base64url');
  return { ...jwk, kid: kid ?? thumbprint, use: 'sig', alg: signatureAlgorithm(key) ?? '' };
}

/**
 * Creates a signing key from a supported private key.
 * @param kid see `publishedKey`
 */
function signingKey(key: KeyObject, kid: string | null) {
  const published = publishedKey(createPublicKey(key as never), kid);
  const { alg = '' } = published;
  const head = base64Json({ alg, typ: 'JWT', kid: published.kid });
  const hash = `sha${alg.slice(2)}`;
  return {
    published,
    /** Returns a token in compact form with these claims (RFC 7519). */
    sign(claims: Readonly<Record<string, unknown>>): string {
      const signed = `${head}.${base64Json(claims)}`;
      // RFC 7518 §3.4: both numbers of the signature concatenated, not in DER.
      const signature = signBytes(hash, Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
      return `${signed}.${signature.toString('base64url')}`;
    },
  };
}

function base64Json(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** Settings `clientCertificateJwtAuthentication` (docs/client-certificates.md). */
type TokenSettings = NonNullable<GatewayConfig['clientCertificateJwtAuthentication']>;

const SECTION = 'clientCertificateJwtAuthentication';
/** Maximum number of published keys: bounds memory if files change continuously. */
const MAX_KEYS = 16;

interface KeyFiles {
  readonly signing: SigningKey;
  readonly published: readonly PublishedKey[];
  readonly contents: string;
}

/**
 * Reads the files of keys.
 * @throws GatewayError EG_IMPOSSIBLE naming the configuration key of an unusable file
 */
export async function readKeyFiles(settings: TokenSettings): Promise<KeyFiles> {
  const { privateKey, publicKey } = settings.jwtSigningKeyPair;
  const pair = `${SECTION}.jwtSigningKeyPair`;
  const [secret, secretText] = await readKey(privateKey, `${pair}.privateKey`, createPrivateKey);
  const texts = [secretText];
  if (publicKey !== null) {
    const field = `${pair}.publicKey`;
    const [open, text] = await readKey(publicKey, field, createPublicKey);
    if (!bytesOf(open).equals(bytesOf(createPublicKey(secret as never)))) {
      throw new GatewayError('EG_IMPOSSIBLE', `${field}: ${publicKey} is not the public key of privateKey.`, { field });
    }
    texts.push(text);
  }
  const published: PublishedKey[] = [];
  for (const [index, path] of settings.jwtPublishedKeys.entries()) {
    const [key, text] = await readKey(path, `${SECTION}.jwtPublishedKeys[${index}]`, createPublicKey);
    published.push(publishedKey(key, null));
    texts.push(text);
  }
  return { signing: signingKey(secret, settings.jwtKeyId || null), published, contents: texts.join('\0') };
}

/**
 * Reads the keys and follows their files: a new key is published immediately and signs after `publishAhead`, so that
 * clusters have read it by then; the previous one stays published for twice the lifetime of its last token.
 * @param refreshTime milliseconds between two reads of the files
 * @throws GatewayError EG_IMPOSSIBLE for unusable files at the start
 */
export async function openSigningKeys(settings: TokenSettings, refreshTime: number, clock: Clock, logger: Logger) {
  const { jwtKeyId, jwtLifetime: lifetime, jwtPublishAhead: publishAhead } = settings;
  /** The next signing key, with its start in monotonic milliseconds. */
  let next: { readonly key: SigningKey; readonly from: number } | null = null;
  /** Keys that no longer sign, with the end of their publication. */
  let retired: { readonly key: PublishedKey; readonly until: number }[] = [];
  // Keys are parsed at each reading, and compared by the texts of their files.
  let latest = await readKeyFiles(settings);
  let { signing } = latest;
  const current = (): SigningKey => {
    if (next === null || clock.monotonic() < next.from) return signing;
    const { kid } = next.key.published;
    logger.info({ kid, before: signing.published.kid }, 'signing key of cluster tokens changed');
    // Other replicas may start using the new one later.
    retired.unshift({ key: signing.published, until: clock.monotonic() + lifetime + publishAhead });
    retired.length = Math.min(retired.length, MAX_KEYS);
    signing = next.key;
    next = null;
    return signing;
  };
  const report = (reason: string | null, { signing: key }: KeyFiles): void => {
    if (reason !== null) logger.error({ reason }, 'changed token keys rejected; last valid ones stay active');
    // Reverted before it was used.
    else if (samePublicKey(key.published, current().published)) next = null;
    else {
      // Two keys with one id are indistinguishable: the new one cannot be published next to the old one.
      const signsIn = jwtKeyId ? 0 : publishAhead;
      next = { key, from: clock.monotonic() + signsIn };
      logger.info({ kid: key.published.kid, signsIn }, 'next signing key of cluster tokens published');
    }
  };
  const read = async (): Promise<string> => {
    latest = await readKeyFiles(settings);
    return latest.contents;
  };
  const files = await followFiles(read, () => latest, report, refreshTime);
  signing = latest.signing;
  return {
    current,
    /** The public keys, as the body of a JWKS (RFC 7517 §5), the signing key first. */
    published() {
      const { published } = current();
      const now = clock.monotonic();
      retired = retired.filter(({ until }) => now < until);
      const further = [...(next === null ? [] : [next.key.published]), ...files.current.published];
      const all = [published, ...further, ...retired.map(({ key }) => key)];
      // Engines reject a set with duplicate key ids.
      return { keys: [...new Map(all.toReversed().map((key) => [key.kid, key])).values()].toReversed() };
    },
    stop: () => files.stop(),
  };
}

/** Rotating keys for signing and verifying tokens. */
export type SigningKeys = Awaited<ReturnType<typeof openSigningKeys>>;

function samePublicKey(one: PublishedKey, other: PublishedKey): boolean {
  return ['kty', 'crv', 'x', 'y', 'n', 'e'].every((member) => one[member] === other[member]);
}

function bytesOf(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' });
}

async function readKey(
  path: string,
  field: string,
  parse: (pem: string) => KeyObject,
): Promise<readonly [KeyObject, string]> {
  const fail = (why: string) => new GatewayError('EG_IMPOSSIBLE', `${field}: ${path} ${why}.`, { field });
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw fail(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  let key: KeyObject;
  try {
    key = parse(text);
  } catch {
    // The parser's message may repeat the file.
    throw fail('holds no key in PEM form that can be read without a password');
  }
  if (signatureAlgorithm(key) === null) throw fail(USABLE_KEYS);
  return [key, text];
}

const MAX_TOKENS = 10_000;
/** Maximum number of logged addresses of clusters without tokens. */
const MAX_WARNINGS = 1_000;
/** Tolerated clock difference of clusters. */
const NOT_BEFORE_S = 60;

/**
 * Adds the users of client certificates to the headers for clusters, with short-lived tokens by which clusters identify
 * them (docs/client-certificates.md). A token is reused until the last fifth of its lifetime, at most a minute, so that
 * its request has time to arrive.
 */
export class CertificateIdentities {
  readonly #settings: TokenSettings;
  readonly #keys: SigningKeys;
  readonly #userHeaders: readonly string[];
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #tokens = new LRUCache<string, { readonly token: string; readonly until: number }>(growingTo(MAX_TOKENS));
  readonly #warned = new LRUCache<string, true>(growingTo(MAX_WARNINGS));

  constructor(settings: TokenSettings, keys: SigningKeys, names: ProductNames, clock: Clock, logger: Logger) {
    const suffixes = settings.overrideTrinoUser ? ['User', 'Original-User'] : [];
    this.#settings = settings;
    this.#keys = keys;
    this.#userHeaders = suffixes.flatMap((suffix) => names.clusterNames(names.header(suffix)));
    this.#clock = clock;
    this.#logger = logger;
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
    const token = this.#tokenFor(user, cluster);
    const own = [
      ...(token === null ? [] : ['Authorization', `Bearer ${token}`]),
      ...this.#userHeaders.flatMap((name) => [name, headerText(user)]),
    ];
    if (own.length === 0) return lines;
    const replaced = new Set(own.flatMap((name, index) => (index % 2 === 0 ? [name.toLowerCase()] : [])));
    return [...linesWithout(lines, replaced), ...own];
  }
  /**
   * The token of a user for a cluster.
   * @param name registry name; "" if unknown
   * @returns null for a cluster without tokens
   */
  #tokenFor(user: string, { name, proxyTo }: { readonly name: string; readonly proxyTo: string }): string | null {
    // An address without a cluster is not configured to receive tokens.
    if (name === '' || !this.#mayHave(name, proxyTo)) return null;
    const audiences = this.#audiencesOf(name);
    const key = this.#keys.current();
    const id = JSON.stringify([key.published.kid, audiences, user]);
    const now = this.#clock.now();
    const entry = this.#tokens.get(id);
    if (entry !== undefined && now < entry.until) return entry.token;
    const seconds = Math.trunc(now / 1000);
    const { jwtPrincipalClaim: claim, jwtIssuer: issuer, jwtLifetime: lifetime } = this.#settings;
    const token = key.sign({
      sub: user,
      ...(claim === 'sub' ? {} : { [claim]: user }),
      ...(issuer ? { iss: issuer } : {}),
      ...(audiences === null ? {} : { aud: audiences }),
      iat: seconds,
      nbf: seconds - NOT_BEFORE_S,
      exp: seconds + Math.trunc(lifetime / 1000),
    });
    this.#tokens.set(id, { token, until: now + lifetime - Math.min(60_000, lifetime / 5) });
    return token;
  }

  #audiencesOf(cluster: string): readonly string[] | null {
    const { jwtAudiences, jwtClusterAudiences } = this.#settings;
    if (Object.hasOwn(jwtClusterAudiences, cluster)) return jwtClusterAudiences[cluster] ?? null;
    if (jwtAudiences === null || jwtAudiences.length === 0) return null;
    return jwtAudiences.map((audience) => audience.replaceAll('{cluster}', cluster));
  }

  /** The holder of a token can act as its user for its lifetime. */
  #mayHave(cluster: string, proxyTo: string): boolean {
    const { tokenHosts: hosts } = this.#settings;
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

/**
 * A name as header value. Headers are bytes: ISO-8859-1, as Trino Gateway sends them, and UTF-8 for names beyond it.
 */
export function headerText(user: string): string {
  return Buffer.from(user, 'latin1').toString('latin1') === user ? user : Buffer.from(user).toString('latin1');
}
