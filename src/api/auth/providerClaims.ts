/** Which claims of a provider's token mean what, and whom it must be for (`authentication.oauth`). */
export interface ClaimRules {
  readonly clientId: string;
  readonly userIdField: string;
  /** Null: privileges are looked up by name. */
  readonly privilegesField: string | null;
  /** Audiences of which the token must name one; null: the client id. */
  readonly audiences: readonly string[] | null;
}

/** What a verified token says of its user. */
export interface ProviderUser {
  readonly user: string;
  /** Null where no claim holds them. */
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
  const ownAudiences = rules.audiences ?? [rules.clientId];
  const audiences = [claims.aud ?? []].flat();
  if (!ownAudiences.some((audience) => audiences.includes(audience))) return 'The token is meant for another audience.';
  const user = ownClaim(claims, rules.userIdField);
  if (typeof user !== 'string' || user === '' || user.length > MAX_NAME || /\p{Cc}/u.test(user)) {
    return `The token has no claim ${rules.userIdField} that names a user.`;
  }
  if (rules.privilegesField === null) return { user, privileges: null };
  const privileges = ownClaim(claims, rules.privilegesField);
  const text = Array.isArray(privileges) ? privileges.join('_') : privileges;
  if (typeof text !== 'string') return `The token has no claim ${rules.privilegesField} with privileges.`;
  return { user, privileges: text };
}

/** A claim by its name, which may hold dots (namespaced claims), else by the path that the dots make. */
function ownClaim(claims: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let value: unknown = claims;
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}
