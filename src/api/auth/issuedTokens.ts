import { decodeJwt } from 'jose';
import { Counter, type Registry } from 'prom-client';
import { claimOf, missingClaim } from '../../gateway/user/credentials.ts';
import type { UserNamespace } from '../../gateway/user/requestIssuers.ts';
import type { TokenIssuer } from '../../gateway/user/tokens.ts';
import { GatewayError } from '../../model/errors.ts';
import type { RoleMapping } from './privileges.ts';

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
