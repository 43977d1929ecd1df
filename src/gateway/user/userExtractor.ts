import type { Logger } from 'pino';
import { Counter, Registry } from 'prom-client';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { CertificateNames } from '../../model/certificateNames.ts';
import type { Clock } from '../../model/clock.ts';
import { type HeaderFields, headerFields, type RawHeaders } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { type NameMapping, noUser, type RequestUser } from '../../model/requestUser.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';
import { cookieValue } from '../headers/cookies.ts';
import type { Analysis, ProxiedRequest } from '../proxiedRequest.ts';
import type { ClientCertificates } from './clientCertificates.ts';
import type { UserGroups } from './groups/userGroups.ts';
import {
  EXCHANGE_TIMEOUT_MS,
  type KubernetesTokenSettings,
  kubernetesUsers,
  namesWithoutPrefix,
  type RequestIssuer,
  type RequestIssuerSettings,
  type ReviewToken,
  requestIssuers,
  type TokenCounter,
  tokenExchange,
  type UserNamespace,
} from './tokens.ts';
import type { MappedUsers } from './userMapping.ts';

export interface UserEvidence {
  /**
   * `exchange`: the provider's response about a bearer token; `tokenReview`: that of the Kubernetes API server;
   * `login`: of the API; `none`: there is no user.
   */
  readonly source: UserSource | 'exchange' | 'tokenReview' | 'certificate' | 'login' | 'none';
  /** Claims of the user's JWT, or null. */
  readonly claims: Claims | null;
  /** Valid group names of these claims, with several issuers; default: any. */
  readonly groupNamespace?: UserNamespace;
  readonly isVerified: boolean;
  readonly certificate?: CertificateNames;
  /** The provider's response about the user's token, if any. */
  readonly userInfo?: Claims;
  /** Groups of the user's service account, if any. */
  readonly kubernetesGroups?: readonly string[];
}

const none: UserEvidence = { source: 'none', claims: null, isVerified: false };

export function byCertificate(certificate: CertificateNames): UserEvidence {
  return { source: 'certificate', claims: null, isVerified: true, certificate };
}

export function byTokenReview(kubernetesGroups: readonly string[]): UserEvidence {
  return { source: 'tokenReview', claims: null, isVerified: true, kubernetesGroups };
}

export const byLogin: UserEvidence = { source: 'login', claims: null, isVerified: true };

const byExchange: UserEvidence = { source: 'exchange', claims: null, isVerified: true };

/** A user with its evidence, which stays in this process: it is not stored. */
export class EvidentUser implements RequestUser {
  readonly user: string;
  readonly userInfo = null;
  readonly mapping?: NameMapping;
  readonly #evidence: UserEvidence;

  /** @param mapping result of the user mapping; absent if the name is not mapped */
  constructor(user: string, evidence: UserEvidence, mapping?: NameMapping) {
    this.user = user;
    if (mapping !== undefined) this.mapping = mapping;
    this.#evidence = evidence;
  }

  static evidenceOf(user: RequestUser): UserEvidence {
    if (#evidence in user) return user.#evidence;
    return user.userInfo === null ? none : { ...byExchange, userInfo: user.userInfo };
  }
}

/** Sources of a user's name, in the order of docs/request-user.md#sources-in-this-order. */
export type UserSource = 'header' | 'basic' | 'bearer' | 'cookie';

/** Settings of user extraction (`requestAnalyzerConfig`, docs/request-user.md). */
export interface UserSettings
  extends RequestIssuerSettings,
    Pick<GatewayConfig['requestAnalyzerConfig'], 'oauthTokenInfoUrl' | 'trustedUserSources'> {
  /** Service account tokens; null or absent: disabled. */
  readonly kubernetesTokens?: KubernetesTokenSettings | null;
}

export interface UserExtractorDependencies {
  readonly names: ProductNames;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Timeout of one token exchange in milliseconds: `EXCHANGE_TIMEOUT_MS`. */
  readonly exchangeTimeoutMs: number;
  /** TokenReview at the Kubernetes API server; null or absent: disabled. */
  readonly reviewToken?: ReviewToken | null;
}

const byHeader: UserEvidence = { source: 'header', claims: null, isVerified: false };
const byPassword: UserEvidence = { source: 'basic', claims: null, isVerified: false };

/** A step that may be asynchronous: the user, or null to try the next source. */
type Step = RequestUser | null | Promise<RequestUser | null>;

/**
 * Extracts the user of a request (docs/request-user.md#sources-in-this-order): the user header, Basic credentials, a
 * bearer token as a JWT or exchanged, a JWT in one of two cookies. Malformed values are ignored and the next source is
 * tried; client input never makes it throw or reject. Waits only for an exchange or for keys without a cached result.
 */
export class UserExtractor {
  readonly #trusted: ReadonlySet<UserSource>;
  readonly #names: ProductNames;
  readonly #userKey: string;
  readonly #originalUserKey: string;
  readonly #exchange: ReturnType<typeof tokenExchange> | null;
  readonly #issuerOf: ReturnType<typeof requestIssuers>;
  readonly #serviceAccountOf: ReturnType<typeof kubernetesUsers> | null;

  constructor(settings: UserSettings, dependencies: UserExtractorDependencies) {
    const { names, clock, logger, registry, exchangeTimeoutMs, reviewToken: review = null } = dependencies;
    this.#trusted = new Set(settings.trustedUserSources);
    this.#names = names;
    this.#userKey = names.headerKey('User');
    this.#originalUserKey = names.headerKey('Original-User');
    const count = tokenCounter(registry);
    const { oauthTokenInfoUrl: url, kubernetesTokens = null, tokenIssuers = {} } = settings;
    const { users } = namesWithoutPrefix(tokenIssuers);
    this.#exchange = url === null ? null : tokenExchange(url, users, exchangeTimeoutMs, clock, logger, count);
    const reviews = kubernetesTokens !== null && review !== null;
    this.#serviceAccountOf = reviews ? kubernetesUsers(kubernetesTokens, review, clock, logger, count) : null;
    this.#issuerOf = requestIssuers(settings, clock, logger, count);
  }

  /** The user of a request, or `noUser`. */
  user(headers: RawHeaders, fields = headerFields(headers)): RequestUser | Promise<RequestUser> {
    if (this.#trusted.has('header')) {
      const user = userName(fields.get(this.#userKey)?.[0]);
      if (user !== null) return new EvidentUser(user, byHeader);
    }
    const authorization = fields.get('authorization')?.[0];
    if (authorization !== undefined) {
      if (this.#trusted.has('basic')) {
        const credentials = credentialsOf(authorization, 'basic');
        const user = credentials === null ? null : basicUser(credentials);
        if (user !== null) return new EvidentUser(user, byPassword);
      }
      if (this.#trusted.has('bearer')) {
        const token = credentialsOf(authorization, 'bearer');
        const step = token === null ? null : this.#bearer(token);
        if (step instanceof Promise) return step.then((user) => user ?? this.#withoutLogin(fields, authorization));
        if (step !== null) return step;
      }
    }
    return this.#withoutLogin(fields, authorization);
  }

  async close(): Promise<void> {
    await this.#exchange?.close();
  }

  /**
   * The user of a request without a user in the user header or `Authorization`. An engine without authentication uses
   * the original user then, but only without Basic credentials.
   */
  #withoutLogin(fields: HeaderFields, authorization: string | undefined): RequestUser | Promise<RequestUser> {
    if (
      this.#trusted.has('header') &&
      (authorization === undefined || credentialsOf(authorization, 'basic') === null)
    ) {
      const user = userName(fields.get(this.#originalUserKey)?.[0]);
      if (user !== null) return new EvidentUser(user, byHeader);
    }
    return this.#cookie(fields);
  }

  #bearer(token: string): Step {
    if (token.length > MAX_TOKEN_LENGTH || /[\s,]/.test(token)) return null;
    const claimed = unverifiedClaims(token);
    if (claimed === null) return this.#exchanged(token);
    const reviewed = this.#serviceAccountOf?.(token, claimed) ?? null;
    if (reviewed instanceof Promise) return reviewed.then(named);
    if (reviewed !== null) return named(reviewed);
    const issuer = this.#issuerOf(claimed);
    if (issuer?.verifier !== null) return this.#verified(token, 'bearer', issuer);
    return this.#userOf(claimed, 'bearer', issuer, false) ?? this.#exchanged(token);
  }

  /** The user of an exchange, or null. */
  #exchanged(token: string): Step {
    const exchanged = this.#exchange === null ? null : this.#exchange.user(token);
    if (exchanged instanceof Promise) return exchanged.then(named);
    return exchanged === null ? null : named(exchanged);
  }

  /**
   * The user of a JWT that must be valid: an invalid one is not tried elsewhere.
   * @param issuer null: the issuer is not accepted
   */
  #verified(token: string, source: 'bearer' | 'cookie', issuer: RequestIssuer | null): Step {
    const verified = issuer?.verifier?.(token) ?? null;
    if (issuer === null || verified === null) return null;
    if (!(verified instanceof Promise)) return this.#userOf(verified.claims, source, issuer, true);
    return verified.then(({ claims }) => this.#userOf(claims, source, issuer, true));
  }

  #cookie(fields: HeaderFields): RequestUser | Promise<RequestUser> {
    if (!this.#trusted.has('cookie')) return noUser;
    const lines = fields.get('cookie');
    if (lines === undefined) return noUser;
    const { uiTokenCookies, idTokenCookies } = this.#names;
    const token = [...uiTokenCookies, ...idTokenCookies]
      .map((name) => cookieValue(lines, name))
      .find((value) => value !== null);
    const claimed = token == null ? null : unverifiedClaims(token);
    if (token == null || claimed === null) return noUser;
    const issuer = this.#issuerOf(claimed);
    if (issuer?.verifier === null) return this.#userOf(claimed, 'cookie', issuer, false) ?? noUser;
    const verified = this.#verified(token, 'cookie', issuer);
    return verified instanceof Promise ? verified.then((user) => user ?? noUser) : (verified ?? noUser);
  }

  #userOf(
    claims: Claims | null,
    source: 'bearer' | 'cookie',
    { userField, users, groups }: RequestIssuer,
    isVerified: boolean,
  ): RequestUser | null {
    const named = claims === null ? null : userName(claims[userField]);
    const user = named === null ? null : userName(users.nameOf(named));
    if (user === null) return null;
    const evidence: UserEvidence = { source, claims, isVerified };
    return new EvidentUser(user, groups === null ? evidence : { ...evidence, groupNamespace: groups });
  }
}

/**
 * Users of described requests: the same steps as for real ones, without token exchange and key fetching, so that
 * explanations need no network access. Claims of tokens are trusted.
 */
export function localUsers(
  settings: UserSettings,
  dependencies: Pick<UserExtractorDependencies, 'names' | 'clock' | 'logger'>,
): (headers: RawHeaders) => RequestUser {
  // Separate metrics: explanations are not requests.
  const separate = { registry: new Registry(), exchangeTimeoutMs: EXCHANGE_TIMEOUT_MS };
  const local = { ...settings, oauthTokenInfoUrl: null, believesClaims: true };
  const users = new UserExtractor(local, { ...dependencies, ...separate });
  return (headers) => {
    const user = users.user(headers);
    return user instanceof Promise ? noUser : user;
  };
}

function tokenCounter(registry: Registry): TokenCounter {
  const tokens = new Counter({
    name: 'engine_gateway_user_tokens_total',
    help: 'Tokens asked about, by kind (exchange, verification, review), result (accepted, refused, failed) and issuer, its name in requestAnalyzerConfig.tokenIssuers; answers from memory are not counted.',
    labelNames: ['kind', 'result', 'issuer'],
    registers: [registry],
  });
  return (kind, result, issuer = '') => tokens.inc({ kind, result, issuer });
}

/** Null without a user: the next source is tried. */
function named(user: RequestUser): RequestUser | null {
  return user.user === null ? null : user;
}

type Asking = Pick<ProxiedRequest, 'request' | 'fields'>;

/**
 * Extracts user and query properties of requests. A defect is logged and means "unknown": it never fails a query.
 * @param certificates users of client certificates, which have precedence; null: disabled
 * @param mapping of user names; null: disabled
 * @param groups of users; null: disabled
 */
export function userAndQueryAnalyzer(
  users: UserExtractor,
  certificates: ClientCertificates | null,
  mapping: MappedUsers | null,
  groups: UserGroups | null,
  analyze: AnalyzeLongRequest,
  logger: Logger,
) {
  const withoutUser = (error: unknown): RequestUser => {
    logger.error({ err: error }, 'failed to determine user of request');
    return noUser;
  };
  const withoutAnalysis = (error: unknown): null => {
    logger.error({ err: error }, 'failed to analyse request');
    return null;
  };
  const userOf = ({ request, fields }: Asking, sources: UserGroups | null): RequestUser | Promise<RequestUser> => {
    try {
      const { rawHeaders: headers, socket } = request;
      const certificate = certificates?.of(request);
      let user: RequestUser | Promise<RequestUser> =
        certificate?.kind === 'user'
          ? new EvidentUser(certificate.user, certificate.evidence)
          : users.user(headers, fields);
      if (mapping !== null) user = after(user, (one) => mapping.of(one));
      if (sources !== null) {
        user = after(user, (one) =>
          one.rejection === undefined ? sources.of(one, { headers, address: socket.remoteAddress }) : one,
        );
      }
      return user instanceof Promise ? user.catch(withoutUser) : user;
    } catch (error) {
      return withoutUser(error);
    }
  };
  return {
    user: (asking: Asking) => userOf(asking, groups),
    /** The user without groups. Neither throws nor rejects. */
    identity: (asking: Asking) => userOf(asking, null),
    analyze(proxied: ProxiedRequest, body: BodyStart | null): Analysis | Promise<Analysis> {
      const { method = '', rawHeaders: headers } = proxied.request;
      const isSubmission = proxied.kind === 'submission';
      const text = body === null ? { body } : { body: body.bytes, utf8Body: body.text };
      const properties = guarded(() => analyze({ method, isSubmission, headers, ...text }), withoutAnalysis);
      const user = userOf(proxied, groups);
      if (!(user instanceof Promise) && !(properties instanceof Promise)) return { user, queryProperties: properties };
      return Promise.all([user, properties]).then(([one, queryProperties]) => ({ user: one, queryProperties }));
    },
  };
}

/** Continues with a value: synchronously unless it is a promise. */
function after<T, Next>(value: T | Promise<T>, next: (value: T) => Next | Promise<Next>): Next | Promise<Next> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Runs a step; its errors are handled, also those of a promise. */
function guarded<T>(step: () => T | Promise<T>, onError: (error: unknown) => T): T | Promise<T> {
  try {
    const result = step();
    return result instanceof Promise ? result.catch(onError) : result;
  } catch (error) {
    return onError(error);
  }
}

const MAX_NAME_LENGTH = 1_024;

/** The text if it is a valid user name: not empty, without control characters, not overlong; null otherwise. */
export function userName(value: unknown): string | null {
  if (typeof value !== 'string' || value.length === 0 || value.length > MAX_NAME_LENGTH) return null;
  if (value.trim() === '') return null;
  for (let i = 0; i < value.length; i += 1) {
    const unit = value.charCodeAt(i);
    if (unit < 32 || unit === 127) return null;
  }
  return value;
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Credentials of an Authorization header with a scheme (RFC 9110 §11.4: case-insensitive).
 * @param scheme in lower case
 * @returns the rest after the scheme; null for another scheme and for none
 */
export function credentialsOf(authorization: string, scheme: string): string | null {
  const value = authorization.trim();
  if (value.slice(0, scheme.length).toLowerCase() !== scheme) return null;
  const rest = value.slice(scheme.length);
  if (!/^[ \t]/.test(rest)) return null;
  const credentials = rest.trim();
  return credentials === '' ? null : credentials;
}

/**
 * User of Basic credentials: base64 of UTF-8 text before the first colon. Without a colon, which RFC 7617 does not
 * allow, the whole text is the user, as for an engine. Null if malformed.
 */
export function basicUser(credentials: string): string | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(credentials) || credentials.length % 4 === 1) return null;
  let text: string;
  try {
    text = utf8.decode(Buffer.from(credentials, 'base64'));
  } catch {
    return null;
  }
  const colon = text.indexOf(':');
  return userName(colon < 0 ? text : text.slice(0, colon));
}

export const MAX_TOKEN_LENGTH = 64 * 1024;

export type Claims = Readonly<Record<string, unknown>>;

const claimsText = new TextDecoder('utf-8', { fatal: true });

/**
 * Claims of a JWT in compact form (RFC 7519) without verification; null if it is not a JWT. Accepts any header and any
 * signature, even an empty one: trusting these claims means trusting the client.
 */
export function unverifiedClaims(token: string): Claims | null {
  if (token.length > MAX_TOKEN_LENGTH) return null;
  const parts = token.split('.');
  if (parts.length !== 3) return null;
  if (jsonPart(parts[0] as string) === null) return null;
  return jsonPart(parts[1] as string);
}

/** The object of base64url-encoded JSON. */
function jsonPart(part: string): Claims | null {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(part)) return null;
  try {
    const value: unknown = JSON.parse(claimsText.decode(Buffer.from(part, 'base64url')));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Claims) : null;
  } catch {
    return null;
  }
}

/** A claim by its name, which may contain dots (namespaced claims), else by the dotted path. */
export function claimOf(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let value: unknown = claims;
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}

/**
 * The first missing required claim.
 * @param required values by the name of the claim; a list must contain the value
 * @returns null if none is missing
 */
export function missingClaim(claims: Claims, required: Readonly<Record<string, string>>): string | null {
  const isScalar = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value);
  const isMissing = ([name, value]: [string, string]) =>
    ![claimOf(claims, name)].flat().some((each) => isScalar(each) && String(each) === value);
  return Object.entries(required).find(isMissing)?.[0] ?? null;
}
