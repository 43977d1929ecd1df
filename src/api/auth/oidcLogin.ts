import { EncryptJWT, jwtDecrypt } from 'jose';
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  ClientError,
  calculatePKCECodeChallenge,
  ResponseBodyError,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client';
import { FIRST_PROVIDER } from '../../config/issuerChecks.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { type OidcProvider, providerAway } from './oidcProvider.ts';
import type { RoleMapping } from './privileges.ts';
import { type ClaimRules, type ProviderUser, userOfClaims } from './providerClaims.ts';
import type { Revocations } from './revocations.ts';
import type { SessionKeyring } from './sessionKeys.ts';

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
