import { createRemoteJWKSet, decodeJwt, errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  type ClientAuth,
  ClientError,
  ClientSecretBasic,
  Configuration,
  calculatePKCECodeChallenge,
  discovery,
  enableNonRepudiationChecks,
  ResponseBodyError,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client';
import { Counter, type Registry } from 'prom-client';
import { type ConfiguredProvider, FIRST_PROVIDER } from '../../config/consistency.ts';
import { CLOCK_TOLERANCE_S, type TokenIssuer, type UserNamespace } from '../../gateway/user/tokens.ts';
import { claimOf, missingClaim } from '../../gateway/user/userExtractor.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import type { Revocations, SealedTexts } from './sessions.ts';
import type { RoleMapping } from './users.ts';

export const STATE_SECONDS = 900;

/** Content of a sealed state. */
interface Begun {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly provider: string;
  /** Milliseconds since 1970. */
  readonly expires: number;
}

/** Context of sealed states. */
const LOGIN = 'login';

const TIMEOUT_S = 10;

/** Keys are fetched again after this time, and for an unknown key id at most once in the other (milliseconds). */
const KEYS_MAX_AGE_MS = 600_000;
const KEYS_COOLDOWN_MS = 30_000;

/** After a failed discovery the provider is not called for this time, in milliseconds. */
const DISCOVERY_PAUSE_MS = 2_000;

/**
 * An OpenID provider at which users log in by authorization code with PKCE (OpenID Connect Core §3.1, RFC 7636, RFC 9700 §2.1). State,
 * nonce and code verifier travel in a sealed cookie, so that any replica can finish what another began; each state works once. JWTs that
 * it issued, id tokens or access tokens (RFC 9068), are accepted as bearer tokens. It is found when it is first needed, so that the
 * gateway starts without it.
 */
export class OidcProvider implements TokenAuthority {
  /** Name in sessions and callback URLs; `oauth` of `authentication.oauth`. */
  readonly name: string;
  readonly settings: ConfiguredProvider;
  readonly rolesOf: RoleMapping | null;
  readonly #rules: ClaimRules;
  readonly #logins: LoginStates;
  #configuration: Promise<Configuration> | null = null;
  #keys: JWTVerifyGetKey | null = null;

  /** @param rolesOf roles by the privileges of its tokens; null: by those of `authorization` */
  constructor(
    name: string,
    settings: ConfiguredProvider,
    rolesOf: RoleMapping | null,
    users: UserNamespace,
    logins: LoginStates,
  ) {
    this.name = name;
    this.settings = settings;
    this.rolesOf = rolesOf;
    this.#rules = { ...settings, audiences: settings.audiences ?? [settings.clientId], users };
    this.#logins = logins;
  }

  /** Name on the login page. */
  get label(): string {
    const { label, issuer } = this.settings;
    return label ?? (this.name === FIRST_PROVIDER ? (URL.parse(issuer)?.host ?? this.name) : this.name);
  }

  /**
   * Begins a login.
   * @returns where the browser goes, and the sealed state for its cookie
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE
   */
  async begin(): Promise<{ readonly url: string; readonly state: string }> {
    const { redirectUrl, scopes } = this.settings;
    const configuration = await this.#find();
    const state = randomState();
    const nonce = randomNonce();
    const verifier = randomPKCECodeVerifier();
    const url = buildAuthorizationUrl(configuration, {
      response_type: 'code',
      redirect_uri: redirectUrl,
      scope: scopes.includes('openid') ? scopes.join(' ') : ['openid', ...scopes].join(' '),
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    const { seals, clock } = this.#logins;
    const begun: Begun = { state, nonce, verifier, provider: this.name, expires: clock.now() + STATE_SECONDS * 1000 };
    return { url: url.href, state: await seals.seal(JSON.stringify(begun), LOGIN) };
  }

  /**
   * Finishes a login.
   * @param query the query string of the callback
   * @param sealed the state's cookie
   * @throws GatewayError EG_UNAUTHENTICATED when anything does not fit, EG_IDENTITY_UNAVAILABLE
   */
  async finish(query: string, sealed: string | undefined): Promise<ProviderUser> {
    const { seals, revocations, clock } = this.#logins;
    const text = sealed === undefined ? null : await seals.open(sealed, LOGIN);
    const begun = text === null ? null : (JSON.parse(text) as Begun);
    if (begun === null || begun.expires <= clock.now()) {
      throw failed('This login was not begun here, or too long ago. Start again.');
    }
    // RFC 9700 §4.4: what one provider responses is never shown to another.
    if (begun.provider !== this.name) throw failed('The answer belongs to a login elsewhere. Start again.');
    const url = new URL(this.settings.redirectUrl);
    url.search = query;
    if (url.searchParams.get('state') !== begun.state)
      throw failed('The answer belongs to another login. Start again.');
    const first = await revocations.revoke(`state ${begun.state}`, clock.now() + STATE_SECONDS * 1000);
    if (!first) throw failed('This answer was used before. Start again.');
    const configuration = await this.#find();
    const tokens = await authorizationCodeGrant(configuration, url, {
      pkceCodeVerifier: begun.verifier,
      expectedState: begun.state,
      expectedNonce: begun.nonce,
      idTokenExpected: true,
    }).catch((error: unknown) => {
      throw failure(error);
    });
    const user = userOfClaims(tokens.claims() ?? {}, this.#rules);
    if (typeof user === 'string') throw failed(user);
    return user;
  }

  /**
   * URL that ends a session at the provider (RP-Initiated Logout 1.0 §2); null if the provider's sessions stay, or if
   * it has no such URL.
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE
   */
  async logoutUrl(): Promise<string | null> {
    const { logoutRedirectUrl } = this.settings;
    if (logoutRedirectUrl === null) return null;
    const configuration = await this.#find();
    const endpoint = configuration.serverMetadata().end_session_endpoint;
    if (endpoint === undefined || !/^https?:/i.test(endpoint)) return null;
    return buildEndSessionUrl(configuration, { post_logout_redirect_uri: logoutRedirectUrl }).href;
  }

  isNamed(issuer: string): boolean {
    return withoutSlash(issuer) === withoutSlash(this.settings.issuer);
  }

  async verify(token: string): Promise<ProviderUser | string> {
    const { issuer, jwks_uri: url } = (await this.#find()).serverMetadata();
    if (url === undefined) throw providerAway(new Error('the provider names no jwks_uri'));
    this.#keys ??= createRemoteJWKSet(new URL(url), {
      timeoutDuration: TIMEOUT_S * 1000,
      cacheMaxAge: KEYS_MAX_AGE_MS,
      cooldownDuration: KEYS_COOLDOWN_MS,
    });
    try {
      const { payload } = await jwtVerify(token, this.#keys, {
        algorithms: [...signatureAlgorithms],
        issuer,
        requiredClaims: ['exp', 'aud'],
        clockTolerance: CLOCK_TOLERANCE_S,
        currentDate: new Date(this.#logins.clock.now()),
      });
      return userOfClaims(payload, this.#rules);
    } catch (error) {
      if (error instanceof errors.JWTExpired) return 'The token has run out.';
      if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError)) throw providerAway(error);
      // jose reports "Expected 200 OK" if the keys could not be fetched.
      if (error.code === 'ERR_JOSE_GENERIC') throw providerAway(error);
      return 'The token is not a valid one of the provider.';
    }
  }

  /** @throws GatewayError EG_IDENTITY_UNAVAILABLE when it cannot be found */
  async #find(): Promise<Configuration> {
    await this.settings.clientSecret.read();
    this.#configuration ??= discovered(this.settings).catch((cause: unknown) => {
      setTimeout(() => {
        this.#configuration = null;
      }, DISCOVERY_PAUSE_MS).unref();
      throw providerAway(cause);
    });
    return await this.#configuration;
  }
}

/** Parts that all providers share. */
export interface LoginStates {
  readonly seals: SealedTexts;
  readonly revocations: Revocations;
  readonly clock: Clock;
}

/** Discovers a provider, or takes its endpoints from the configuration: all three or none. */
async function discovered(settings: ConfiguredProvider): Promise<Configuration> {
  const { issuer, clientId, clientSecret, authorizationEndpoint, tokenEndpoint, jwkEndpoint } = settings;
  const authentication: ClientAuth = (...request) => ClientSecretBasic(clientSecret.text)(...request);
  const plain = [issuer, authorizationEndpoint, tokenEndpoint, jwkEndpoint].some((url) => url?.startsWith('http:'));
  // Clear text only where the configuration itself states http://.
  const execute = [enableNonRepudiationChecks, ...(plain ? [allowInsecureRequests] : [])];
  if (authorizationEndpoint === null || tokenEndpoint === null || jwkEndpoint === null) {
    return discovery(new URL(issuer), clientId, undefined, authentication, { execute, timeout: TIMEOUT_S });
  }
  const server = {
    issuer,
    authorization_endpoint: authorizationEndpoint,
    token_endpoint: tokenEndpoint,
    jwks_uri: jwkEndpoint,
    id_token_signing_alg_values_supported: [...signatureAlgorithms],
  };
  const configuration = new Configuration(server, clientId, undefined, authentication);
  configuration.timeout = TIMEOUT_S;
  for (const apply of execute) apply(configuration);
  return configuration;
}

function failed(message: string, cause?: unknown): GatewayError {
  return new GatewayError('EG_UNAUTHENTICATED', message, { cause });
}

/** Distinguishes a rejected login from a provider that is unavailable; the provider's own words stay in the log. */
function failure(error: unknown): GatewayError {
  if (error instanceof ResponseBodyError && error.status >= 500) return providerAway(error);
  const { code, name, cause } = error as { code?: string; name?: string; cause?: unknown };
  if (error instanceof TypeError && code === undefined) return providerAway(error);
  if (name === 'TimeoutError' || code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT') return providerAway(error);
  if (error instanceof ClientError && cause instanceof Error && cause.name === 'TimeoutError')
    return providerAway(error);
  return failed('The provider did not confirm the login. Start again.', error);
}

function providerAway(cause: unknown): GatewayError {
  return new GatewayError('EG_IDENTITY_UNAVAILABLE', 'The OpenID provider does not answer properly; try again soon.', {
    cause,
  });
}

/** Discovery returns the issuer with or without the slash that the configuration has. */
function withoutSlash(issuer: string): string {
  return issuer.replace(/\/$/, '');
}

export interface TokenAuthority {
  /** Name in the configuration; `oauth` of `authentication.oauth`. */
  readonly name: string;
  /** Roles by the privileges of its tokens; null: by those of `authorization`. */
  readonly rolesOf: RoleMapping | null;
  /** True if an `iss` is its own. */
  isNamed(issuer: string): boolean;
  /**
   * Verifies a token by the issuer's own keys.
   * @returns why it is not accepted, where it is not
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE when its keys cannot be had
   */
  verify(token: string): Promise<ProviderUser | string>;
}

/** The user of a token, or the reason for its rejection. */
export interface IssuedUser extends ProviderUser {
  readonly authority: TokenAuthority;
}

/** Longest issuer that a message repeats, in characters. */
const MAX_NAME_LENGTH = 200;

/**
 * Bearer tokens of issuers (docs/authentication.md#several-issuers): a token is verified by the issuer that it names and by
 * no other one.
 */
export class IssuedTokens {
  readonly #authorities: readonly TokenAuthority[];
  readonly #tokens: Counter<'issuer' | 'result'>;

  constructor(authorities: readonly TokenAuthority[], metrics: Registry) {
    this.#authorities = authorities;
    this.#tokens = new Counter({
      name: 'engine_gateway_api_tokens_total',
      help: 'Bearer tokens of issuers that callers of the API sent, by issuer (its name in authentication.tokenIssuers or providers, oauth for authentication.oauth) and result (accepted, refused, failed).',
      labelNames: ['issuer', 'result'],
      registers: [metrics],
    });
  }

  get isEmpty(): boolean {
    return this.#authorities.length === 0;
  }

  /**
   * The user of a token; null if no issuer is the one that it names, which `refusalOf` explains.
   * @returns why it is not accepted, where it is not
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE
   */
  async userOf(token: string): Promise<IssuedUser | string | null> {
    const issuer = issuerOf(token);
    const authority = issuer === null ? undefined : this.#authorities.find((each) => each.isNamed(issuer));
    if (authority === undefined) return null;
    const count = (result: string) => this.#tokens.inc({ issuer: authority.name, result });
    try {
      const user = await authority.verify(token);
      count(typeof user === 'string' ? 'refused' : 'accepted');
      return typeof user === 'string' ? user : { ...user, authority };
    } catch (error) {
      count('failed');
      throw error;
    }
  }

  /** Returns the reason that a token of no issuer is rejected. */
  rejectionOf(token: string): string {
    const issuer = issuerOf(token);
    if (this.isEmpty || issuer === null) return 'The token is not accepted here.';
    return `The token is of the issuer ${JSON.stringify(issuer.slice(0, MAX_NAME_LENGTH))}, which is not one of authentication.tokenIssuers, authentication.providers or authentication.oauth.`;
  }
}

/** The issuer that a token states it is of; nothing about it is believed yet. */
function issuerOf(token: string): string | null {
  try {
    const { iss } = decodeJwt(token);
    return typeof iss === 'string' ? iss : null;
  } catch {
    return null;
  }
}

/** Bearer tokens of an issuer of programs' tokens (`authentication.tokenIssuers`), at which users cannot log in. */
export function apiTokens(name: string, issuer: TokenIssuer, rules: ClaimRules, rolesOf: RoleMapping): TokenAuthority {
  return {
    ...{ name, rolesOf },
    isNamed: (named) => named === issuer.settings.issuer,
    verify: async (token) => {
      const verified = await issuer.verify(token);
      if (verified.kind === 'accepted') return userOfClaims(verified.claims, rules);
      if (verified.kind === 'refused') return verified.why;
      const message = `The keys of the issuer ${name} cannot be had (authentication.tokenIssuers.${name}); try again soon.`;
      throw new GatewayError('EG_IDENTITY_UNAVAILABLE', message, { cause: verified.cause });
    },
  };
}

/** Which claims of an issuer's tokens mean what, and whom they must be for (docs/authentication.md#openid-provider). */
export interface ClaimRules {
  readonly userIdField: string;
  /** Null: privileges are looked up by name. */
  readonly privilegesField: string | null;
  readonly audiences: readonly string[];
  readonly requiredClaims: Readonly<Record<string, string>>;
  readonly users: UserNamespace;
}

export interface ProviderUser {
  /** As they are called here: with the prefix of the issuer, where it has one. */
  readonly user: string;
  /** Null if no claim holds them. */
  readonly privileges: string | null;
}

/** Longest user name that is taken from a token. */
const MAX_NAME = 256;

/**
 * Reads the claims of a token whose signature, issuer and times have been checked
 * (docs/authentication.md#openid-provider). Issued for another audience, or without the claims that are configured: not
 * authenticated.
 * @returns why it is not accepted, where it is not
 */
export function userOfClaims(claims: Readonly<Record<string, unknown>>, rules: ClaimRules): ProviderUser | string {
  const audiences = [claims.aud ?? []].flat();
  if (!rules.audiences.some((audience) => audiences.includes(audience))) {
    return 'The token is meant for another audience.';
  }
  const missing = missingClaim(claims, rules.requiredClaims);
  if (missing !== null) return `The token lacks the required value of its claim ${missing}.`;
  const named = claimOf(claims, rules.userIdField);
  if (typeof named !== 'string' || named === '' || named.length > MAX_NAME || /\p{Cc}/u.test(named)) {
    return `The token has no claim ${rules.userIdField} that names a user.`;
  }
  const user = rules.users.nameOf(named);
  if (user === null) return `The claim ${rules.userIdField} of the token names a user of another issuer.`;
  if (rules.privilegesField === null) return { user, privileges: null };
  const privileges = claimOf(claims, rules.privilegesField);
  const text = Array.isArray(privileges) ? privileges.join('_') : privileges;
  if (typeof text !== 'string') return `The token has no claim ${rules.privilegesField} with privileges.`;
  return { user, privileges: text };
}
