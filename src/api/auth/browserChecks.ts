import type { IncomingHttpHeaders } from 'node:http';
import type { ClientView } from '../../gateway/headers/forwardedHeaders.ts';
import { GatewayError } from '../../model/errors.ts';
import { sameText } from './passwords.ts';

/** True if a method is one that changes nothing (RFC 9110 §9.2.1). */
export function isSafeMethod(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS' || method === 'TRACE';
}

/** True if a browser sent the request: those name the way of fetching, and scripts cannot take that away. */
export function isBrowser(headers: IncomingHttpHeaders): boolean {
  return headers['sec-fetch-mode'] !== undefined;
}

/**
 * Rejects a call that a page of another site makes a browser send. Programs send neither header and pass.
 * @throws GatewayError EG_FORBIDDEN
 */
export function refuseForeignPages(headers: IncomingHttpHeaders, view: ClientView): void {
  const site = headers['sec-fetch-site'];
  const { origin } = headers;
  const own =
    site === undefined ? origin === undefined || isOwnOrigin(origin, view) : site === 'same-origin' || site === 'none';
  if (own) return;
  throw new GatewayError('EG_FORBIDDEN', `Calls from pages of ${origin ?? 'another site'} are not accepted.`);
}

/**
 * Rejects a write whose only credential is a cookie unless it repeats the session's token in a header.
 * @throws GatewayError EG_FORBIDDEN naming the header
 */
export function requireTokenHeader(
  headerValue: string | undefined,
  csrfToken: string,
  header: string,
  cookie: string,
): void {
  if (headerValue !== undefined && sameText(headerValue, csrfToken)) return;
  const message = `Calls by cookie must send the value of the cookie ${cookie} in the header ${header}.`;
  throw new GatewayError('EG_FORBIDDEN', message);
}

/**
 * A proxy before the gateway may end TLS without a header that states so, hence the default ports count as the same.
 */
function isOwnOrigin(origin: string, view: ClientView): boolean {
  const url = URL.parse(origin);
  if (url === null || !/^https?:$/.test(url.protocol)) return false;
  const port = (number: number) => (number === 443 ? 80 : number);
  const originPort = url.port === '' ? 80 : Number(url.port);
  return url.hostname === view.host.toLowerCase() && port(originPort) === port(view.port);
}
