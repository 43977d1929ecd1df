import { createHash } from 'node:crypto';
import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { Agent, request } from 'undici';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { Clock } from '../../model/clock.ts';
import { recordIn } from '../../model/record.ts';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import { userAgent } from '../../model/version.ts';
import { limitedText } from '../upstreams/upstreams.ts';
import {
  byTokenReview,
  type Claims,
  credentialsOf,
  EvidentUser,
  missingClaim,
  unverifiedClaims,
  userName,
} from './userExtractor.ts';

type Settings = GatewayConfig['requestAnalyzerConfig'];

/** A response about a token, and the time for which it is cached. */
interface TimedResponse<Result> {
  readonly result: Result;
  readonly forMs: number;
}

/** Maximum number of cached responses; least recently used ones are evicted first. */
const MAX_ENTRIES = 10_000;

/**
 * Returns a single-flight cache of responses about tokens, which are only stored as hashes: a function that returns the
 * response about a token, synchronously if cached. What requests it must not reject.
 * @param overloaded result, not cached, if there are too many concurrent requests
 */
function tokenMemory<Result extends object>(maxPending: number, overloaded: Result, clock: Clock) {
  const entries = new LRUCache<string, { readonly result: Result; readonly until: number }>({ max: MAX_ENTRIES });
  const pending = new Map<string, Promise<Result>>();
  return (token: string, ask: () => Promise<TimedResponse<Result>>): Result | Promise<Result> => {
    const key = createHash('sha256').update(token).digest('base64');
    const entry = entries.get(key);
    if (entry !== undefined && clock.monotonic() < entry.until) return entry.result;
    const running = pending.get(key);
    if (running !== undefined) return running;
    if (pending.size >= maxPending) return overloaded;
    const request = ask()
      .then(({ result, forMs }) => {
        if (forMs > 0) entries.set(key, { result, until: clock.monotonic() + forMs });
        return result;
      })
      .finally(() => pending.delete(key));
    pending.set(key, request);
    return request;
  };
}

export const CLOCK_TOLERANCE_S = 30;
/** Cache time of a response about a token (docs/request-user.md#token-exchange), and of a failure. */
const TOKEN_MEMORY_MS = 10 * 60_000;
const FAILURE_MEMORY_MS = 30_000;
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

type TokenVerification =
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
interface Verified {
  readonly claims: Claims | null;
}

const unverified: Verified = { claims: null };

/** Returns the claims of a token, if it is valid; synchronously if cached. Never rejects. */
export type JwtVerifier = (token: string) => Verified | Promise<Verified>;

/**
 * Verifies JWTs of one issuer, with a cache: successes until the token expires, at most 10 minutes, and failures for 30
 * seconds.
 * @param name in `requestAnalyzerConfig.tokenIssuers`; empty for `requestAnalyzerConfig.jwksUrl`
 */
export function jwtVerifier(
  name: string,
  settings: TokenIssuerSettings,
  clock: Clock,
  logger: Logger,
  count: TokenCounter,
): JwtVerifier {
  const tokens = new TokenIssuer(settings, clock);
  const memory = tokenMemory(MAX_VERIFICATIONS, unverified, clock);
  const verify = async (token: string): Promise<TimedResponse<Verified>> => {
    const verified = await tokens.verify(token);
    count('verification', verified.kind === 'unavailable' ? 'failed' : verified.kind, name);
    if (verified.kind === 'refused') return { result: unverified, forMs: FAILURE_MEMORY_MS };
    if (verified.kind === 'unavailable') {
      const { jwksUrl, issuer } = settings;
      logger.warn({ issuer, jwksUrl, reason: verified.reason }, 'failed to fetch JWKS');
      return { result: unverified, forMs: KEYS_FAILURE_MEMORY_MS };
    }
    const { claims } = verified;
    const { exp = Number.POSITIVE_INFINITY } = claims as { readonly exp?: number };
    const left = (exp + CLOCK_TOLERANCE_S) * 1000 - clock.now();
    return { result: { claims }, forMs: Math.max(0, Math.min(TOKEN_MEMORY_MS, left)) };
  };
  return (token) => memory(token, () => verify(token));
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
  const text = body === null ? '' : await tokenText(body);
  // Statuses without a body allow none.
  return new Response(text === '' ? null : text, { status });
}

/** The body as text. @throws Error if it is too long; the connection is closed then */
async function tokenText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const text = await limitedText(body, MAX_RESPONSE_LENGTH);
  if (text === null) throw Object.assign(new Error('the answer is too long'), { code: 'EG_ANSWER_TOO_LONG' });
  return text;
}

/** Default timeout of an exchange. */
export const EXCHANGE_TIMEOUT_MS = 5_000;
const MAX_EXCHANGES = 64;

const FOREIGN =
  'the token exchange names a user whose name begins with the userPrefix of one of requestAnalyzerConfig.tokenIssuers: the user is not recognised; give that issuer another userPrefix if the names are those of the exchange';

/**
 * Exchanges bearer tokens for user information (OpenID Connect Core 1.0 §5.3): the user is the claim `sub`. Failures
 * mean no user, and so does the name of a user of an issuer of tokens. Responses are cached for 10 minutes, failures
 * for 30 seconds; single-flight per token.
 * @param url `requestAnalyzerConfig.oauthTokenInfoUrl`: an OpenID Connect UserInfo endpoint
 * @param timeoutMs of one exchange, milliseconds
 */
export function tokenExchange(
  url: string,
  users: UserNamespace,
  timeoutMs: number,
  clock: Clock,
  logger: Logger,
  count: TokenCounter,
) {
  const agent = new Agent({ connect: { timeout: EXCHANGE_TIMEOUT_MS }, connections: MAX_EXCHANGES });
  const memory = tokenMemory<RequestUser>(MAX_EXCHANGES, noUser, clock);
  const ask = async (token: string): Promise<TimedResponse<RequestUser>> => {
    try {
      const late = () => Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' });
      const { status, text } = await withTimeLimit(timeoutMs, late, async (signal) => {
        const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'user-agent': userAgent };
        const { statusCode, body } = await request(url, { dispatcher: agent, headers, signal });
        return { status: statusCode, text: await tokenText(body) };
      });
      const user = status === 200 ? userOf(text) : null;
      if (user !== null && users.nameOf(user.user) !== null) {
        count('exchange', 'accepted');
        return { result: user, forMs: TOKEN_MEMORY_MS };
      }
      const isRejected = user !== null || status === 401 || status === 403;
      count('exchange', isRejected ? 'refused' : 'failed');
      if (user !== null) logger.warn({ url }, FOREIGN);
      else if (!isRejected) logger.warn({ url, status }, 'token exchange returned no user information');
    } catch (error) {
      count('exchange', 'failed');
      logger.warn({ url, reason: reasonOf(error) }, 'token exchange failed');
    }
    return { result: noUser, forMs: FAILURE_MEMORY_MS };
  };
  return {
    /** The user of a token; synchronously if cached. Never rejects. */
    user: (token: string) => memory(token, () => ask(token)),
    close: () => agent.destroy(),
  };
}

/** Failure text that cannot contain the token: the error's code or name. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return (error as NodeJS.ErrnoException).code ?? error.name;
}

function userOf(text: string): (RequestUser & { readonly user: string }) | null {
  const info = recordIn(text);
  const user = userName(info?.sub);
  return user === null ? null : { user, userInfo: info };
}

/** Settings `requestAnalyzerConfig.kubernetesTokens` (docs/request-user.md#kubernetes). */
export type KubernetesTokenSettings = Omit<NonNullable<Settings['kubernetesTokens']>, 'timeout'>;

/**
 * Requests a TokenReview from the API server, with its own timeout. Null: not authenticated. A rejection means that it
 * is unavailable.
 */
export type ReviewToken = (
  token: string,
) => Promise<{ readonly name: string; readonly groups: readonly string[] } | null>;

const MAX_REVIEWS = 16;
const UNAVAILABLE_MEMORY_MS = 2_000;

/**
 * Users of service account tokens by TokenReview of the API server. Tokens are stored as hashes, and results cached no
 * longer than the token is valid.
 * @returns a function that returns the user of a token, synchronously if cached, and never rejects; null: not a service
 * account token for the audiences
 */
export function kubernetesUsers(
  { audiences, cacheDuration }: KubernetesTokenSettings,
  review: ReviewToken,
  clock: Clock,
  logger: Logger,
  count: TokenCounter,
) {
  const memory = tokenMemory<RequestUser>(MAX_REVIEWS, noUser, clock);
  const ask = async (token: string, end: number): Promise<TimedResponse<RequestUser>> => {
    try {
      const identity = await review(token);
      const name = userName(identity?.name);
      count('review', name === null ? 'refused' : 'accepted');
      if (identity === null || name === null) return { result: noUser, forMs: FAILURE_MEMORY_MS };
      const user = new EvidentUser(name, byTokenReview(identity.groups));
      return { result: user, forMs: Math.min(cacheDuration, end - clock.now()) };
    } catch (error) {
      count('review', 'failed');
      const reason = error instanceof Error ? error.message : String(error);
      logger.warn({ reason }, 'failed to review service account token; request has no user');
      return { result: noUser, forMs: UNAVAILABLE_MEMORY_MS };
    }
  };
  return (token: string, claims: Claims): RequestUser | Promise<RequestUser> | null => {
    if (!isServiceAccountToken(claims, audiences)) return null;
    const { exp } = claims;
    if (typeof exp !== 'number' || exp * 1000 <= clock.now()) return noUser;
    return memory(token, () => ask(token, exp * 1000));
  };
}

/**
 * True if headers contain a service account token for the audiences, valid or not.
 * @param authorization value of the header
 */
export function holdsServiceAccountToken(authorization: string, audiences: readonly string[]): boolean {
  const token = credentialsOf(authorization, 'bearer');
  const claims = token === null ? null : unverifiedClaims(token);
  return claims !== null && isServiceAccountToken(claims, audiences);
}

function isServiceAccountToken(claims: Claims, audiences: readonly string[]): boolean {
  if (!('kubernetes.io' in claims)) return false;
  return [claims.aud].flat().some((audience) => typeof audience === 'string' && audiences.includes(audience));
}

/**
 * Names of users or groups of several issuers, separated by prefixes: an issuer cannot give the names of another
 * (docs/authentication.md#several-issuers). If one prefix begins with another, a name belongs to the longer one.
 */
export class UserNamespace {
  readonly prefix: string;
  readonly #others: readonly string[];

  /**
   * @param prefix of the issuer; empty: its names equal unprefixed names
   * @param all prefixes of all issuers, with or without its own
   */
  constructor(prefix: string, all: readonly string[]) {
    this.prefix = prefix;
    this.#others = all.filter((other) => !prefix.startsWith(other));
  }

  /** The full name of an issuer's user or group; null if it would be a name of another issuer. */
  nameOf(named: string): string | null {
    const name = this.prefix + named;
    return this.#others.some((other) => name.startsWith(other)) ? null : name;
  }
}

/** Prefix of an issuer's names: the configured one, else its name and a slash. */
export function userPrefixOf(name: string, configured: string | null): string {
  return configured ?? `${name}/`;
}

/** Settings of token verification (`requestAnalyzerConfig`). */
export interface RequestIssuerSettings
  extends Pick<Settings, 'tokenUserField' | 'jwksUrl' | 'issuer' | 'audience'>,
    Partial<Pick<Settings, 'tokenIssuers'>> {
  /** True trusts claims without verification, for described requests. */
  readonly believesClaims?: boolean;
}

export interface IssuerNames {
  readonly users: UserNamespace;
  /** Null: any, as there are no other issuers. */
  readonly groups: UserNamespace | null;
}

/** Names and verifier of one issuer's tokens. */
export interface RequestIssuer extends IssuerNames {
  readonly userField: string;
  /** Null: claims are trusted. */
  readonly verifier: JwtVerifier | null;
}

/** Minimum interval of warnings about tokens of unknown issuers, in milliseconds. */
const WARNING_PAUSE_MS = 60_000;
/** Maximum length of a logged issuer, in characters. */
const MAX_NAME_LENGTH = 200;

type Issuers = Settings['tokenIssuers'];

function namespace(issuers: Issuers, key: 'userPrefix' | 'groupPrefix', prefix: string): UserNamespace {
  return new UserNamespace(
    prefix,
    Object.entries(issuers).map(([name, issuer]) => userPrefixOf(name, issuer[key])),
  );
}

/** Names that a source of users without an issuer can give. */
export function namesWithoutPrefix(issuers: Issuers): IssuerNames {
  return {
    users: namespace(issuers, 'userPrefix', ''),
    groups: Object.keys(issuers).length === 0 ? null : namespace(issuers, 'groupPrefix', ''),
  };
}

/**
 * The issuers of tokens that identify users (docs/request-user.md#several-issuers): selected by the token's `iss`; no
 * other issuer's keys are tried.
 * @returns a function that returns the issuer of a token with unverified claims; null: its tokens are rejected
 */
export function requestIssuers(
  settings: RequestIssuerSettings,
  clock: Clock,
  logger: Logger,
  count: TokenCounter,
): (claims: Claims) => RequestIssuer | null {
  const { jwksUrl, issuer, audience, tokenUserField, tokenIssuers = {}, believesClaims = false } = settings;
  const verifier = (name: string, tokens: TokenIssuerSettings) =>
    believesClaims ? null : jwtVerifier(name, tokens, clock, logger, count);
  const byIssuer = new Map(
    Object.entries(tokenIssuers).map(([name, each]): [string, RequestIssuer] => [
      each.issuer,
      {
        userField: each.tokenUserField ?? tokenUserField,
        users: namespace(tokenIssuers, 'userPrefix', userPrefixOf(name, each.userPrefix)),
        groups: namespace(tokenIssuers, 'groupPrefix', userPrefixOf(name, each.groupPrefix)),
        verifier: verifier(name, { ...each, mustExpire: true }),
      },
    ]),
  );
  const tokens = {
    ...{ issuer, jwksUrl, requiredClaims: {}, mustExpire: false, algorithms: signatureAlgorithms },
    audiences: audience === null ? null : [audience],
  };
  const hasOnly = jwksUrl !== null || byIssuer.size === 0;
  const only: RequestIssuer | null = hasOnly
    ? {
        ...{ userField: tokenUserField, ...namesWithoutPrefix(tokenIssuers) },
        verifier: jwksUrl === null ? null : verifier('', tokens),
      }
    : null;
  let warned = Number.NEGATIVE_INFINITY;
  const noteUnknown = (iss: unknown): void => {
    count('verification', 'refused');
    const now = clock.monotonic();
    if (now - warned < WARNING_PAUSE_MS) return;
    warned = now;
    logger.warn(
      { issuer: typeof iss === 'string' ? iss.slice(0, MAX_NAME_LENGTH) : null },
      'a JWT names an issuer that is not one of requestAnalyzerConfig.tokenIssuers: its user is not recognised; add it there, or have clients send tokens of those',
    );
  };
  return ({ iss }) => {
    const named = typeof iss === 'string' ? byIssuer.get(iss) : undefined;
    if (named !== undefined) return named;
    if (byIssuer.size === 0 || (only !== null && iss === issuer)) return only;
    noteUnknown(iss);
    return null;
  };
}
