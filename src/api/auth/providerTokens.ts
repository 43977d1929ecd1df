import { decodeJwt, errors, jwtVerify } from 'jose';
import type { Clock } from '../../model/clock.ts';
import { type OidcProvider, providerAway, signatureAlgorithms } from './oidcProvider.ts';
import { type ClaimRules, type ProviderUser, userOfClaims } from './providerClaims.ts';

/** Clock difference to the provider that is forgiven, in seconds. */
const TOLERANCE_S = 30;

/** Bearer tokens that the OpenID provider issued as JWTs: id tokens or access tokens (RFC 9068). */
export class ProviderTokens {
  readonly #provider: OidcProvider;
  readonly #rules: ClaimRules;
  readonly #clock: Clock;

  constructor(provider: OidcProvider, rules: ClaimRules, clock: Clock) {
    this.#provider = provider;
    this.#rules = rules;
    this.#clock = clock;
  }

  /** Whether a token says that it is this provider's; nothing about it is believed yet. */
  isMeantFor(token: string): boolean {
    try {
      return sameIssuer(decodeJwt(token).iss, this.#provider.options.issuer);
    } catch {
      return false;
    }
  }

  /**
   * Verifies signature, issuer, times, audience and claims.
   * @returns why it is not accepted, where it is not
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE when the provider's keys cannot be had
   */
  async verify(token: string): Promise<ProviderUser | string> {
    const issuer = (await this.#provider.configuration()).serverMetadata().issuer;
    const keys = await this.#provider.keys();
    try {
      const { payload } = await jwtVerify(token, keys, {
        algorithms: signatureAlgorithms,
        issuer,
        requiredClaims: ['exp', 'aud'],
        clockTolerance: TOLERANCE_S,
        currentDate: new Date(this.#clock.now()),
      });
      return userOfClaims(payload, this.#rules);
    } catch (error) {
      if (error instanceof errors.JWTExpired) return 'The token has run out.';
      if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError)) throw providerAway(error);
      // jose says "Expected 200 OK" when the keys could not be fetched.
      if (error.code === 'ERR_JOSE_GENERIC') throw providerAway(error);
      return 'The token is not a valid one of the provider.';
    }
  }
}

/** Discovery gives the issuer with or without the slash that the configuration has. */
function sameIssuer(issuer: string | undefined, configured: string): boolean {
  return issuer !== undefined && issuer.replace(/\/$/, '') === configured.replace(/\/$/, '');
}
