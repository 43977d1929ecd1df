import { errors, jwtVerify } from 'jose';
import { CLOCK_TOLERANCE_S } from '../../gateway/user/tokenIssuer.ts';
import type { Clock } from '../../model/clock.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import type { TokenAuthority } from './issuedTokens.ts';
import { type OidcProvider, providerAway } from './oidcProvider.ts';
import type { RoleMapping } from './privileges.ts';
import { type ClaimRules, type ProviderUser, userOfClaims } from './providerClaims.ts';

/** Bearer tokens that an OpenID provider of logins issued as JWTs: id tokens or access tokens (RFC 9068). */
export class ProviderTokens implements TokenAuthority {
  readonly name: string;
  readonly rolesOf: RoleMapping | null;
  readonly #provider: OidcProvider;
  readonly #rules: ClaimRules;
  readonly #clock: Clock;

  constructor(name: string, provider: OidcProvider, rules: ClaimRules, rolesOf: RoleMapping | null, clock: Clock) {
    this.name = name;
    this.rolesOf = rolesOf;
    this.#provider = provider;
    this.#rules = rules;
    this.#clock = clock;
  }

  isNamed(issuer: string): boolean {
    return sameIssuer(issuer, this.#provider.options.issuer);
  }

  async verify(token: string): Promise<ProviderUser | string> {
    const issuer = (await this.#provider.configuration()).serverMetadata().issuer;
    const keys = await this.#provider.keys();
    try {
      const { payload } = await jwtVerify(token, keys, {
        algorithms: [...signatureAlgorithms],
        issuer,
        requiredClaims: ['exp', 'aud'],
        clockTolerance: CLOCK_TOLERANCE_S,
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
function sameIssuer(issuer: string, configured: string): boolean {
  return issuer.replace(/\/$/, '') === configured.replace(/\/$/, '');
}
