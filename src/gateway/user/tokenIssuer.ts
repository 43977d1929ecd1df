import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { type Claims, missingClaim } from './jwtClaims.ts';
import { type TimedResponse, TokenMemory } from './tokenMemory.ts';

export const CLOCK_TOLERANCE_S = 30;
/** Cache time of a response about a token (docs/request-user.md#token-exchange), and of a failure. */
export const TOKEN_MEMORY_MS = 10 * 60_000;
export const FAILURE_MEMORY_MS = 30_000;
const KEYS_FAILURE_MEMORY_MS = 5_000;
/** Timeout of fetching keys or their location, in milliseconds. */
const TIMEOUT_MS = 5_000;
/** Cache time of keys, and minimum interval of refetches for an unknown key id. */
const KEYS_MAX_AGE_MS = 10 * 60_000;
const KEYS_COOLDOWN_MS = 30_000;
/** Time after a failed discovery without a retry, in milliseconds. */
const DISCOVERY_PAUSE_MS = 5_000;
/** Maximum size of a response, in bytes: more than a hundred keys. */
const MAX_RESPONSE_LENGTH = 256 * 1024;
const MAX_VERIFICATIONS = 256;

/** Counts requests about tokens. @param issuer name of a configured one; left out for others */
export type TokenCounter = (
  kind: 'exchange' | 'verification' | 'review',
  result: 'accepted' | 'refused' | 'failed',
  issuer?: string,
) => void;

export interface TokenIssuerSettings {
  /** The `iss` of its tokens; null: any, only for a single set of keys. */
  readonly issuer: string | null;
  /** Null: discovered from the issuer (OpenID Connect Discovery 1.0 §4). */
  readonly jwksUrl: string | null;
  /** Accepted audiences; null: any. */
  readonly audiences: readonly string[] | null;
  readonly algorithms: readonly string[];
  readonly requiredClaims: Readonly<Record<string, string>>;
  /** True rejects tokens without expiry. */
  readonly mustExpire: boolean;
}

export type TokenVerification =
  | { readonly kind: 'accepted'; readonly claims: Claims }
  /** `why` is a sentence for users, without content of the token. */
  | { readonly kind: 'refused'; readonly why: string }
  /** `reason` is a code or a name. */
  | { readonly kind: 'unavailable'; readonly reason: string; readonly cause: unknown };

/**
 * Verifies JWTs of one issuer with its keys: algorithm, signature, issuer, times, audience and further claims (RFC
 * 8725). Key ids are only valid within the issuer's keys, which are fetched on demand.
 */
export class TokenIssuer {
  readonly settings: TokenIssuerSettings;
  readonly #clock: Clock;
  #keys: JWTVerifyGetKey | null;
  #discovery: Promise<JWTVerifyGetKey> | null = null;
  #pauseEnd = Number.NEGATIVE_INFINITY;

  constructor(settings: TokenIssuerSettings, clock: Clock) {
    this.settings = settings;
    this.#clock = clock;
    this.#keys = settings.jwksUrl === null ? null : keysAt(settings.jwksUrl);
  }

  /** Never rejects. */
  async verify(token: string): Promise<TokenVerification> {
    const { issuer, audiences, algorithms, requiredClaims, mustExpire } = this.settings;
    try {
      const { payload } = await jwtVerify(
        token,
        async (header, input) => (this.#keys ?? (await this.#discover()))(header, input),
        {
          algorithms: [...algorithms],
          clockTolerance: CLOCK_TOLERANCE_S,
          currentDate: new Date(this.#clock.now()),
          requiredClaims: mustExpire ? ['exp'] : [],
          ...(issuer === null ? {} : { issuer }),
          ...(audiences === null ? {} : { audience: [...audiences] }),
        },
      );
      const missing = missingClaim(payload, requiredClaims);
      if (missing !== null)
        return { kind: 'refused', why: `The token lacks the required value of its claim ${missing}.` };
      return { kind: 'accepted', claims: payload };
    } catch (error) {
      if (isKeysFailure(error)) {
        const reason = error instanceof errors.JOSEError ? error.code : error instanceof Error ? error.name : 'unknown';
        return { kind: 'unavailable', reason, cause: error };
      }
      return { kind: 'refused', why: whyRejected(error) };
    }
  }

  #discover(): Promise<JWTVerifyGetKey> {
    if (this.#discovery !== null) return this.#discovery;
    if (this.#clock.monotonic() < this.#pauseEnd) {
      return Promise.reject(new KeysUnavailable('the discovery failed just now'));
    }
    const discovery = discoveredKeys(this.settings.issuer ?? '');
    this.#discovery = discovery;
    discovery.then(
      (keys) => {
        this.#keys = keys;
      },
      () => {
        this.#discovery = null;
        this.#pauseEnd = this.#clock.monotonic() + DISCOVERY_PAUSE_MS;
      },
    );
    return discovery;
  }
}

/** Claims of a verified token; null if it was rejected. */
export interface Verified {
  readonly claims: Claims | null;
}

const unverified: Verified = { claims: null };

/**
 * Verifies JWTs of one issuer, with a cache: successes until the token expires, at most 10 minutes, and failures for 30
 * seconds.
 */
export class JwtVerifier {
  readonly #name: string;
  readonly #issuer: TokenIssuer;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #count: TokenCounter;
  readonly #memory: TokenMemory<Verified>;

  /** @param name in `requestAnalyzerConfig.tokenIssuers`; empty for `requestAnalyzerConfig.jwksUrl` */
  constructor(name: string, settings: TokenIssuerSettings, clock: Clock, logger: Logger, count: TokenCounter) {
    this.#name = name;
    this.#issuer = new TokenIssuer(settings, clock);
    this.#clock = clock;
    this.#logger = logger;
    this.#count = count;
    this.#memory = new TokenMemory(MAX_VERIFICATIONS, clock);
  }

  /** Claims of a token, if it is valid; synchronously if cached. Never rejects. */
  verify(token: string): Verified | Promise<Verified> {
    return this.#memory.get(token, () => this.#verify(token), unverified);
  }

  async #verify(token: string): Promise<TimedResponse<Verified>> {
    const verified = await this.#issuer.verify(token);
    this.#count('verification', verified.kind === 'unavailable' ? 'failed' : verified.kind, this.#name);
    if (verified.kind === 'refused') return { answer: unverified, forMs: FAILURE_MEMORY_MS };
    if (verified.kind === 'unavailable') {
      const { jwksUrl, issuer } = this.#issuer.settings;
      this.#logger.warn({ issuer, jwksUrl, reason: verified.reason }, 'failed to fetch JWKS');
      return { answer: unverified, forMs: KEYS_FAILURE_MEMORY_MS };
    }
    const { claims } = verified;
    const { exp = Number.POSITIVE_INFINITY } = claims as { readonly exp?: number };
    const left = (exp + CLOCK_TOLERANCE_S) * 1000 - this.#clock.now();
    return { answer: { claims }, forMs: Math.max(0, Math.min(TOKEN_MEMORY_MS, left)) };
  }
}

/** The keys, or their location, could not be fetched. */
class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable';
}

/** True if verifying a token failed because the keys are unavailable, not because of the token. */
function isKeysFailure(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return true;
  return ['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC'].includes(error.code);
}

function whyRejected(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'The token has run out.';
  if (error instanceof errors.JWTClaimValidationFailed && error.claim === 'aud') {
    return 'The token is meant for another audience.';
  }
  return 'The token is not a valid one of its issuer.';
}

async function discoveredKeys(issuer: string): Promise<JWTVerifyGetKey> {
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
  const text = await limitedText(body ?? []);
  // Statuses without a body allow none.
  return new Response(text === '' ? null : text, { status });
}

/** The body as text. @throws Error if it is too long; the connection is closed then */
export async function limitedText(body: AsyncIterable<Uint8Array> | readonly Uint8Array[]): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > MAX_RESPONSE_LENGTH) {
      throw Object.assign(new Error('the answer is too long'), { code: 'EG_ANSWER_TOO_LONG' });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
