import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { Counter, Registry } from 'prom-client';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { CertificateNames } from '../../model/certificateNames.ts';
import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import { firstHeader, headerValues, type RawHeaders } from '../../model/rawHeaders.ts';
import { type NameMapping, noUser, type RequestUser } from '../../model/requestUser.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import type { Analysis } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';
import { cookieValue } from '../headers/protocolHeaders.ts';
import type { ClientCertificates } from './clientCertificates.ts';
import { basicUser, type Claims, credentialsOf, MAX_TOKEN_LENGTH, unverifiedClaims, userName } from './credentials.ts';
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
  user(headers: RawHeaders): RequestUser | Promise<RequestUser> {
    if (this.#trusted.has('header')) {
      const user = userName(headerValues(headers, this.#userKey)[0]);
      if (user !== null) return new EvidentUser(user, byHeader);
    }
    const authorization = headerValues(headers, 'authorization')[0];
    if (authorization !== undefined) {
      if (this.#trusted.has('basic')) {
        const credentials = credentialsOf(authorization, 'basic');
        const user = credentials === null ? null : basicUser(credentials);
        if (user !== null) return new EvidentUser(user, byPassword);
      }
      if (this.#trusted.has('bearer')) {
        const token = credentialsOf(authorization, 'bearer');
        const step = token === null ? null : this.#bearer(token);
        if (step instanceof Promise) return step.then((user) => user ?? this.#withoutLogin(headers, authorization));
        if (step !== null) return step;
      }
    }
    return this.#withoutLogin(headers, authorization);
  }

  async close(): Promise<void> {
    await this.#exchange?.close();
  }

  /**
   * The user of a request without a user in the user header or `Authorization`. An engine without authentication uses
   * the original user then, but only without Basic credentials.
   */
  #withoutLogin(headers: RawHeaders, authorization: string | undefined): RequestUser | Promise<RequestUser> {
    if (
      this.#trusted.has('header') &&
      (authorization === undefined || credentialsOf(authorization, 'basic') === null)
    ) {
      const user = userName(firstHeader(headers, this.#originalUserKey));
      if (user !== null) return new EvidentUser(user, byHeader);
    }
    return this.#cookie(headers);
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

  #cookie(headers: RawHeaders): RequestUser | Promise<RequestUser> {
    if (!this.#trusted.has('cookie')) return noUser;
    const lines = headerValues(headers, 'cookie');
    if (lines.length === 0) return noUser;
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
  const userOf = (request: IncomingMessage, sources: UserGroups | null) =>
    guarded(() => {
      const { rawHeaders: headers, socket } = request;
      const certificate = certificates?.of(request);
      const claimed: RequestUser | Promise<RequestUser> =
        certificate?.kind === 'user' ? new EvidentUser(certificate.user, certificate.evidence) : users.user(headers);
      const mapped = mapping === null ? claimed : after(claimed, (one) => mapping.of(one));
      if (sources === null) return mapped;
      return after(mapped, (one) =>
        one.rejection === undefined ? sources.of(one, { headers, address: socket.remoteAddress }) : one,
      );
    }, withoutUser);
  return {
    user: (request: IncomingMessage) => userOf(request, groups),
    /** The user without groups. Neither throws nor rejects. */
    identity: (request: IncomingMessage) => userOf(request, null),
    analyze(request: IncomingMessage, body: BodyStart | null, isSubmission: boolean): Analysis | Promise<Analysis> {
      const { method = '', rawHeaders: headers } = request;
      const text = body === null ? { body } : { body: body.bytes, utf8Body: body.text };
      const properties = guarded(() => analyze({ method, isSubmission, headers, ...text }), withoutAnalysis);
      const user = userOf(request, groups);
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
