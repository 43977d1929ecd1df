import { createRemoteJWKSet, EncryptJWT, errors, type JWTVerifyGetKey, jwtDecrypt, jwtVerify } from 'jose';
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
import { FIRST_PROVIDER } from '../../config/issuerChecks.ts';
import { CLOCK_TOLERANCE_S } from '../../gateway/user/tokens.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { Secret } from '../../model/secret.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import { type ClaimRules, type ProviderUser, type TokenAuthority, userOfClaims } from './issuedTokens.ts';
import type { RoleMapping } from './privileges.ts';
import type { SessionKeyring } from './sessionKeys.ts';
import type { Revocations } from './sessions.ts';

export const STATE_SECONDS = 900;

/** An OpenID provider at which users log in. */
export interface LoginProvider {
  /** Name in sessions and callback URLs; `oauth` of `authentication.oauth`. */
  readonly name: string;
  /** Name on the login page. */
  readonly label: string;
  /** Roles by the privileges of its tokens; null: by those of `authorization`. */
  readonly rolesOf: RoleMapping | null;
  /** Where the browser goes after a login. */
  readonly redirectWebUrl: string;
  readonly provider: OidcProvider;
  /** Our callback as the provider knows it. */
  readonly redirectUrl: string;
  /**
   * Destination of browsers after a logout at the provider, as registered there; null: sessions of the provider stay.
   */
  readonly logoutRedirectUrl: string | null;
  readonly scopes: readonly string[];
  readonly rules: ClaimRules;
}

/** Content of a sealed state; an earlier release sealed it without `provider`. */
interface Begun {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly provider?: string;
}

/**
 * Logins by authorization code with PKCE (OpenID Connect Core §3.1, RFC 7636, RFC 9700 §2.1). State, nonce and code
 * verifier travel in a sealed cookie, so that any replica can finish what another began; each state works once.
 */
export class OidcLogin {
  readonly of: LoginProvider;
  readonly #keyring: SessionKeyring;
  readonly #issuer: string;
  readonly #revocations: Revocations;
  readonly #clock: Clock;

  constructor(of: LoginProvider, keyring: SessionKeyring, issuer: string, revocations: Revocations, clock: Clock) {
    this.of = of;
    this.#keyring = keyring;
    this.#issuer = issuer;
    this.#revocations = revocations;
    this.#clock = clock;
  }

  /**
   * Begins a login.
   * @returns where the browser goes, and the sealed state for its cookie
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE
   */
  async begin(): Promise<{ readonly url: string; readonly state: string }> {
    const { name, provider, redirectUrl, scopes } = this.of;
    const configuration = await provider.configuration();
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
    const now = Math.floor(this.#clock.now() / 1000);
    const [keys] = await this.#keyring();
    const sealed = await new EncryptJWT({ state, nonce, verifier, provider: name })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .setIssuer(this.#issuer)
      .setIssuedAt(now)
      .setExpirationTime(now + STATE_SECONDS)
      .encrypt(keys.seal);
    return { url: url.href, state: sealed };
  }

  /**
   * Finishes a login.
   * @param query the query string of the callback
   * @param sealed the state's cookie
   * @throws GatewayError EG_UNAUTHENTICATED when anything does not fit, EG_IDENTITY_UNAVAILABLE
   */
  async finish(query: string, sealed: string | undefined): Promise<ProviderUser> {
    const { name, provider, redirectUrl, rules } = this.of;
    const begun = sealed === undefined ? null : await this.#open(sealed);
    if (begun === null) throw failed('This login was not begun here, or too long ago. Start again.');
    // RFC 9700 §4.4: what one provider responses is never shown to another.
    if ((begun.provider ?? FIRST_PROVIDER) !== name)
      throw failed('The answer belongs to a login elsewhere. Start again.');
    const url = new URL(redirectUrl);
    url.search = query;
    if (url.searchParams.get('state') !== begun.state)
      throw failed('The answer belongs to another login. Start again.');
    const first = await this.#revocations.revoke(`state ${begun.state}`, this.#clock.now() + STATE_SECONDS * 1000);
    if (!first) throw failed('This answer was used before. Start again.');
    const configuration = await provider.configuration();
    let claims: Readonly<Record<string, unknown>> | undefined;
    try {
      const tokens = await authorizationCodeGrant(configuration, url, {
        pkceCodeVerifier: begun.verifier,
        expectedState: begun.state,
        expectedNonce: begun.nonce,
        idTokenExpected: true,
      });
      claims = tokens.claims();
    } catch (error) {
      throw failure(error);
    }
    const user = userOfClaims(claims ?? {}, rules);
    if (typeof user === 'string') throw failed(user);
    return user;
  }

  /**
   * URL that ends a session at the provider (RP-Initiated Logout 1.0 §2); null if the provider's sessions stay, or if
   * it has no such URL.
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE
   */
  async logoutUrl(): Promise<string | null> {
    const { provider, logoutRedirectUrl } = this.of;
    if (logoutRedirectUrl === null) return null;
    const configuration = await provider.configuration();
    const endpoint = configuration.serverMetadata().end_session_endpoint;
    if (endpoint === undefined || !/^https?:/i.test(endpoint)) return null;
    return buildEndSessionUrl(configuration, { post_logout_redirect_uri: logoutRedirectUrl }).href;
  }

  async #open(sealed: string): Promise<Begun | null> {
    for (const { seal } of await this.#keyring()) {
      try {
        const { payload } = await jwtDecrypt(sealed, seal, {
          issuer: this.#issuer,
          contentEncryptionAlgorithms: ['A256GCM'],
          keyManagementAlgorithms: ['dir'],
          requiredClaims: ['exp', 'state', 'nonce', 'verifier'],
          currentDate: new Date(this.#clock.now()),
        });
        return payload as unknown as Begun;
      } catch {
        // Sealed with other keys, expired, or not by a gateway.
      }
    }
    return null;
  }
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

/** Provider and client settings (`authentication.oauth`, `authentication.providers`). */
export interface OidcProviderOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  /** Null: all three are discovered from the issuer. */
  readonly endpoints: { readonly authorization: string; readonly token: string; readonly jwks: string } | null;
}

const TIMEOUT_S = 10;

/** Keys are fetched again after this time, and for an unknown key id at most once in the other (milliseconds). */
const KEYS_MAX_AGE_MS = 600_000;
const KEYS_COOLDOWN_MS = 30_000;

/** After a failed discovery the provider is not called for this time, in milliseconds. */
const DISCOVERY_PAUSE_MS = 2_000;

/** The OpenID provider: found when it is first needed, so that the gateway starts without it. */
export class OidcProvider {
  readonly options: OidcProviderOptions;
  #configuration: Promise<Configuration> | null = null;
  #keys: JWTVerifyGetKey | null = null;

  constructor(options: OidcProviderOptions) {
    this.options = options;
  }

  /** @throws GatewayError EG_IDENTITY_UNAVAILABLE when it cannot be found */
  async configuration(): Promise<Configuration> {
    await this.options.clientSecret.read();
    this.#configuration ??= this.#find().catch((cause: unknown) => {
      setTimeout(() => {
        this.#configuration = null;
      }, DISCOVERY_PAUSE_MS).unref();
      throw providerAway(cause);
    });
    return await this.#configuration;
  }

  /** The provider's keys, cached. @throws GatewayError EG_IDENTITY_UNAVAILABLE when it cannot be found */
  async keys(): Promise<JWTVerifyGetKey> {
    if (this.#keys !== null) return this.#keys;
    const url = (await this.configuration()).serverMetadata().jwks_uri;
    if (url === undefined) throw providerAway(new Error('the provider names no jwks_uri'));
    this.#keys = createRemoteJWKSet(new URL(url), {
      timeoutDuration: TIMEOUT_S * 1000,
      cacheMaxAge: KEYS_MAX_AGE_MS,
      cooldownDuration: KEYS_COOLDOWN_MS,
    });
    return this.#keys;
  }

  async #find(): Promise<Configuration> {
    const { issuer, clientId, clientSecret, endpoints } = this.options;
    const authentication: ClientAuth = (...request) => ClientSecretBasic(clientSecret.text)(...request);
    const plain = [issuer, ...Object.values(endpoints ?? {})].some((url) => url.startsWith('http:'));
    // Clear text only where the configuration itself states http://.
    const execute = [enableNonRepudiationChecks, ...(plain ? [allowInsecureRequests] : [])];
    if (endpoints === null) {
      return discovery(new URL(issuer), clientId, undefined, authentication, { execute, timeout: TIMEOUT_S });
    }
    const server = {
      issuer,
      authorization_endpoint: endpoints.authorization,
      token_endpoint: endpoints.token,
      jwks_uri: endpoints.jwks,
      id_token_signing_alg_values_supported: [...signatureAlgorithms],
    };
    const configuration = new Configuration(server, clientId, undefined, authentication);
    configuration.timeout = TIMEOUT_S;
    for (const apply of execute) apply(configuration);
    return configuration;
  }
}

export function providerAway(cause: unknown): GatewayError {
  return new GatewayError('EG_IDENTITY_UNAVAILABLE', 'The OpenID provider does not answer properly; try again soon.', {
    cause,
  });
}

/** Bearer tokens that an OpenID provider of logins issued as JWTs: id tokens or access tokens (RFC 9068). */
export function providerTokens({ name, rolesOf, provider, rules }: LoginProvider, clock: Clock): TokenAuthority {
  return {
    ...{ name, rolesOf },
    isNamed: (issuer) => withoutSlash(issuer) === withoutSlash(provider.options.issuer),
    verify: async (token) => {
      const issuer = (await provider.configuration()).serverMetadata().issuer;
      const keys = await provider.keys();
      try {
        const { payload } = await jwtVerify(token, keys, {
          algorithms: [...signatureAlgorithms],
          issuer,
          requiredClaims: ['exp', 'aud'],
          clockTolerance: CLOCK_TOLERANCE_S,
          currentDate: new Date(clock.now()),
        });
        return userOfClaims(payload, rules);
      } catch (error) {
        if (error instanceof errors.JWTExpired) return 'The token has run out.';
        if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError)) throw providerAway(error);
        // jose reports "Expected 200 OK" if the keys could not be fetched.
        if (error.code === 'ERR_JOSE_GENERIC') throw providerAway(error);
        return 'The token is not a valid one of the provider.';
      }
    },
  };
}

/** Discovery returns the issuer with or without the slash that the configuration has. */
function withoutSlash(issuer: string): string {
  return issuer.replace(/\/$/, '');
}
