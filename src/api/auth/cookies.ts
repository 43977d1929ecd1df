import type { FastifyReply } from 'fastify';
import type { ProductNames } from '../../model/names.ts';

/**
 * Cookies that the gateway sets for its own API, for its host alone. Over TLS their names begin with `__Host-`:
 * browsers reject them from any other host of the domain (RFC 6265bis §4.1.3.2). Ports do not separate cookies.
 */
export interface OwnCookies {
  /** The session; scripts cannot read it. */
  readonly session: string;
  /** CSRF token that writes with a cookie repeat in a header; scripts of our pages read it. */
  readonly csrf: string;
  /** State of a login at a provider, sealed. */
  readonly oidc: string;
}

/** Path of the provider's response. */
export const CALLBACK_PATH = '/oidc/callback';

/** Path of the cookie of a login's state: as narrow as its name allows, `__Host-` asks for `/`. */
export function statePath(secure: boolean): string {
  return secure ? '/' : CALLBACK_PATH;
}

/** Cookie in which Trino Gateway takes the token of a login; read, never set (docs/authentication.md#sessions). */
export const REFERENCE_TOKEN_COOKIE = 'token';

export function cookieNames(names: ProductNames, secure: boolean): OwnCookies {
  const base = `${names.product}-Gateway`;
  return secure
    ? { session: `__Host-${base}-Session`, csrf: `__Host-${base}-CSRF`, oidc: `__Host-${base}-OIDC` }
    : { session: `${base}-Session`, csrf: `${base}-CSRF`, oidc: `${base}-OIDC` };
}

/**
 * All names of cookies that belong to the gateway: the data plane never sends them to a cluster
 * (docs/authentication.md#sessions).
 */
export function ownCookies(names: ProductNames): readonly string[] {
  const own = [true, false].flatMap((secure) => Object.values(cookieNames(names, secure)));
  return names.isReference ? [...own, REFERENCE_TOKEN_COOKIE] : own;
}

/** Value of a cookie of a request; of a name that comes twice the first (RFC 6265 §5.4 order). */
export function readCookie(header: string | undefined, name: string): string | undefined {
  // Nothing else is made of the header: a client may send hundreds of thousands of pairs.
  for (let at = header?.indexOf(name) ?? -1; header !== undefined && at >= 0; at = header.indexOf(name, at + 1)) {
    const before = header.lastIndexOf(';', at) + 1;
    const semicolon = header.indexOf(';', at);
    const pair = header.slice(before, semicolon < 0 ? undefined : semicolon);
    const equals = pair.indexOf('=');
    if (equals >= 0 && pair.slice(0, equals).trim() === name) return pair.slice(equals + 1).trim();
    if (semicolon < 0) return undefined;
    at = semicolon;
  }
  return undefined;
}

export interface CookieLine {
  readonly name: string;
  /** Characters of base64url and dots. */
  readonly value: string;
  /** Seconds; 0 removes the cookie. */
  readonly maxAge: number;
  readonly path?: string;
  readonly readable?: boolean;
  readonly sameSite: 'Strict' | 'Lax';
  readonly secure: boolean;
}

/** Adds a `Set-Cookie` line to a response. */
export function setCookie(reply: FastifyReply, cookie: CookieLine): void {
  const { name, value, maxAge, path = '/', readable = false, sameSite, secure } = cookie;
  const parts = [`${name}=${value}`, `Max-Age=${maxAge}`, `Path=${path}`, `SameSite=${sameSite}`];
  if (!readable) parts.push('HttpOnly');
  if (secure) parts.push('Secure');
  reply.header('set-cookie', parts.join('; '));
}

type Credentials =
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
