import type { TokenIssuer } from '../../gateway/user/tokenIssuer.ts';
import { GatewayError } from '../../model/errors.ts';
import type { TokenAuthority } from './issuedTokens.ts';
import type { RoleMapping } from './privileges.ts';
import { type ClaimRules, type ProviderUser, userOfClaims } from './providerClaims.ts';

/** An issuer of programs' tokens (`authentication.tokenIssuers`): nobody logs in there. */
export class ApiTokenIssuer implements TokenAuthority {
  readonly name: string;
  readonly rolesOf: RoleMapping;
  readonly #issuer: TokenIssuer;
  readonly #rules: ClaimRules;

  constructor(name: string, issuer: TokenIssuer, rules: ClaimRules, rolesOf: RoleMapping) {
    this.name = name;
    this.rolesOf = rolesOf;
    this.#issuer = issuer;
    this.#rules = rules;
  }

  isNamed(issuer: string): boolean {
    return issuer === this.#issuer.settings.issuer;
  }

  async verify(token: string): Promise<ProviderUser | string> {
    const verified = await this.#issuer.verify(token);
    switch (verified.kind) {
      case 'accepted':
        return userOfClaims(verified.claims, this.#rules);
      case 'refused':
        return verified.why;
      case 'unavailable': {
        const message = `The keys of the issuer ${this.name} cannot be had (authentication.tokenIssuers.${this.name}); try again soon.`;
        throw new GatewayError('EG_IDENTITY_UNAVAILABLE', message, { cause: verified.cause });
      }
    }
  }
}
