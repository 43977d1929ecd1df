export const MAX_TOKEN_LENGTH = 64 * 1024;

export type Claims = Readonly<Record<string, unknown>>;

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Claims of a JWT in compact form (RFC 7519) without verification; null if it is not a JWT. Accepts any header and any
 * signature, even an empty one: trusting these claims means trusting the client.
 */
export function unverifiedClaims(token: string): Claims | null {
  if (token.length > MAX_TOKEN_LENGTH) return null;
  const parts = token.split('.');
  if (parts.length !== 3) return null;
  if (jsonPart(parts[0] as string) === null) return null;
  return jsonPart(parts[1] as string);
}

/** The object of base64url-encoded JSON. */
function jsonPart(part: string): Claims | null {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(part)) return null;
  try {
    const value: unknown = JSON.parse(utf8.decode(Buffer.from(part, 'base64url')));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Claims) : null;
  } catch {
    return null;
  }
}

/** A claim by its name, which may contain dots (namespaced claims), else by the dotted path. */
export function claimOf(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let value: unknown = claims;
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}

/**
 * The first missing required claim.
 * @param required values by the name of the claim; a list must contain the value
 * @returns null if none is missing
 */
export function missingClaim(claims: Claims, required: Readonly<Record<string, string>>): string | null {
  const isScalar = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value);
  const isMissing = ([name, value]: [string, string]) =>
    ![claimOf(claims, name)].flat().some((each) => isScalar(each) && String(each) === value);
  return Object.entries(required).find(isMissing)?.[0] ?? null;
}
