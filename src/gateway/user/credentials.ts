const MAX_NAME_LENGTH = 1_024;

/** The text if it is a valid user name: not empty, without control characters, not overlong; null otherwise. */
export function userName(value: unknown): string | null {
  if (typeof value !== 'string' || value.length === 0 || value.length > MAX_NAME_LENGTH) return null;
  if (value.trim() === '') return null;
  for (let i = 0; i < value.length; i += 1) {
    const unit = value.charCodeAt(i);
    if (unit < 32 || unit === 127) return null;
  }
  return value;
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Credentials of an Authorization header with a scheme (RFC 9110 §11.4: case-insensitive).
 * @param scheme in lower case
 * @returns the rest after the scheme; null for another scheme and for none
 */
export function credentialsOf(authorization: string, scheme: string): string | null {
  const value = authorization.trim();
  if (value.slice(0, scheme.length).toLowerCase() !== scheme) return null;
  const rest = value.slice(scheme.length);
  if (!/^[ \t]/.test(rest)) return null;
  const credentials = rest.trim();
  return credentials === '' ? null : credentials;
}

/**
 * User of Basic credentials: base64 of UTF-8 text before the first colon. Without a colon, which RFC 7617 does not
 * allow, the whole text is the user, as for an engine. Null if malformed.
 */
export function basicUser(credentials: string): string | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(credentials) || credentials.length % 4 === 1) return null;
  let text: string;
  try {
    text = utf8.decode(Buffer.from(credentials, 'base64'));
  } catch {
    return null;
  }
  const colon = text.indexOf(':');
  return userName(colon < 0 ? text : text.slice(0, colon));
}

export const MAX_TOKEN_LENGTH = 64 * 1024;

export type Claims = Readonly<Record<string, unknown>>;

const claimsText = new TextDecoder('utf-8', { fatal: true });

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
    const value: unknown = JSON.parse(claimsText.decode(Buffer.from(part, 'base64url')));
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
