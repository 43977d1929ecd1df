export type Credentials =
  | { readonly kind: 'none' }
  | { readonly kind: 'basic'; readonly name: string; readonly password: string }
  | { readonly kind: 'bearer'; readonly token: string }
  | { readonly kind: 'cookie'; readonly token: string }
  /** An `Authorization` that cannot be read; the text states why. */
  | { readonly kind: 'unreadable'; readonly why: string };

/** Longest token that is looked at, in characters. */
const MAX_TOKEN = 16_384;

/**
 * Reads what a request shows: `Authorization` before the session's cookie, as a program that sends the header means it.
 */
export function readCredentials(authorization: string | undefined, sessionCookie: string | undefined): Credentials {
  if (authorization !== undefined) return readAuthorization(authorization);
  if (sessionCookie === undefined || sessionCookie === '' || sessionCookie.length > MAX_TOKEN) return { kind: 'none' };
  return { kind: 'cookie', token: sessionCookie };
}

function readAuthorization(header: string): Credentials {
  const match = /^\s*([A-Za-z]+) +([^\s]+)\s*$/.exec(header);
  const [, scheme = '', text = ''] = match ?? [];
  switch (scheme.toLowerCase()) {
    case 'bearer':
      return text.length <= MAX_TOKEN
        ? { kind: 'bearer', token: text }
        : { kind: 'unreadable', why: 'The token is too long.' };
    case 'basic':
      return readBasic(text);
    default:
      return { kind: 'unreadable', why: 'Authorization must be "Bearer TOKEN" or "Basic NAME:PASSWORD in base64".' };
  }
}

/** RFC 7617: the name ends at the first colon. UTF-8 where it is that, else ISO-8859-1, as old clients send. */
function readBasic(text: string): Credentials {
  const bytes = Buffer.from(text, 'base64');
  let decoded: string;
  try {
    decoded = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    decoded = bytes.toString('latin1');
  }
  const colon = decoded.indexOf(':');
  if (colon < 0) return { kind: 'unreadable', why: 'Basic credentials must be NAME:PASSWORD in base64.' };
  return { kind: 'basic', name: decoded.slice(0, colon), password: decoded.slice(colon + 1) };
}
