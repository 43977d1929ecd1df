import { decodeJwt } from 'jose';
import { Counter, type Registry } from 'prom-client';
import type { RoleMapping } from './privileges.ts';
import type { ProviderUser } from './providerClaims.ts';

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
  refusalOf(token: string): string {
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
