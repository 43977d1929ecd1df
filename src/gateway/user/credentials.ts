import { userName } from './userName.ts';

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
