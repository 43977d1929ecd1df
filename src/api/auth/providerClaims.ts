import { claimOf, missingClaim } from '../../gateway/user/jwtClaims.ts';
import type { UserNamespace } from '../../gateway/user/userNamespace.ts';

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
