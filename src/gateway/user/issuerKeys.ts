import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey } from 'jose';
import type { Clock } from '../../model/clock.ts';

/** Timeout of fetching keys or their location, in milliseconds. */
const TIMEOUT_MS = 5_000;
/** Cache time of keys, and minimum interval of refetches for an unknown key id. */
const KEYS_MAX_AGE_MS = 10 * 60_000;
const KEYS_COOLDOWN_MS = 30_000;
/** Time after a failed discovery without a retry, in milliseconds. */
const DISCOVERY_PAUSE_MS = 5_000;
/** Maximum size of a response, in bytes: more than a hundred keys. */
const MAX_ANSWER_LENGTH = 256 * 1024;

export interface IssuerKeysOptions {
  /** Null: discovered from the issuer (OpenID Connect Discovery 1.0 §4). */
  readonly jwksUrl: string | null;
  /** Null if `jwksUrl` is given and its keys verify tokens of any issuer. */
  readonly issuer: string | null;
  readonly clock: Clock;
}

/** The keys of one issuer: fetched on demand, of bounded size. */
export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  #keys: JWTVerifyGetKey | null;
  #discovery: Promise<JWTVerifyGetKey> | null = null;
  #pauseEnd = Number.NEGATIVE_INFINITY;

  constructor(options: IssuerKeysOptions) {
    this.#options = options;
    this.#keys = options.jwksUrl === null ? null : keysAt(options.jwksUrl);
  }

  /** Finds the key of a token; for `jwtVerify`. Rejects if it does not exist, or if the keys are unavailable. */
  readonly get: JWTVerifyGetKey = async (header, token) => {
    const keys = this.#keys ?? (await this.#discover());
    return keys(header, token);
  };

  #discover(): Promise<JWTVerifyGetKey> {
    const { clock } = this.#options;
    if (this.#discovery !== null) return this.#discovery;
    if (clock.monotonic() < this.#pauseEnd) return Promise.reject(new KeysUnavailable('the discovery failed just now'));
    const discovery = this.#find();
    this.#discovery = discovery;
    discovery.then(
      (keys) => {
        this.#keys = keys;
      },
      () => {
        this.#discovery = null;
        this.#pauseEnd = clock.monotonic() + DISCOVERY_PAUSE_MS;
      },
    );
    return discovery;
  }

  async #find(): Promise<JWTVerifyGetKey> {
    const issuer = this.#options.issuer ?? '';
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const response = await limitedFetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: 'manual' });
    if (response.status !== 200) throw new KeysUnavailable(`${url} answers ${response.status}`);
    const document = (await response.json()) as { readonly issuer?: unknown; readonly jwks_uri?: unknown } | null;
    // The document must be the issuer's own (OpenID Connect Discovery 1.0 §4.3).
    if (document?.issuer !== issuer) throw new KeysUnavailable(`${url} is about another issuer`);
    const address = typeof document.jwks_uri === 'string' ? document.jwks_uri : '';
    const isSafe = /^https:/i.test(address) || (/^http:/i.test(issuer) && /^http:/i.test(address));
    if (!isSafe || !URL.canParse(address)) throw new KeysUnavailable(`${url} names no jwks_uri that can be used`);
    return keysAt(address);
  }
}

/** The keys, or their location, could not be fetched. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable';
}

/** True if verifying a token failed because the keys are unavailable, not because of the token. */
export function isKeysFailure(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return true;
  return ['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC'].includes(error.code);
}

function keysAt(url: string): JWTVerifyGetKey {
  return createRemoteJWKSet(new URL(url), {
    timeoutDuration: TIMEOUT_MS,
    cacheMaxAge: KEYS_MAX_AGE_MS,
    cooldownDuration: KEYS_COOLDOWN_MS,
    [customFetch]: limitedFetch,
  });
}

/** As `fetch`, with a limit for the size of the response. */
async function limitedFetch(url: string, options: RequestInit): Promise<Response> {
  const { status, body } = await fetch(url, options);
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > MAX_ANSWER_LENGTH) throw new KeysUnavailable('the answer is too long');
    chunks.push(chunk);
  }
  // Statuses without a body allow none.
  return new Response(length === 0 ? null : Buffer.concat(chunks), { status });
}
