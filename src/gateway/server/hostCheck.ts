import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { GatewayError } from '../../model/errors.ts';
import { parseHost } from '../../model/requestHost.ts';
import { rejectUnread } from './framing.ts';

/** Returns the reason that a request may not be answered under the host that it names; null if it may. */
export type HostCheck = (request: IncomingMessage) => GatewayError | null;

/** Longest part of a host that a message repeats. */
const MAX_SHOWN = 100;

/**
 * Makes the check of `Host` (`:authority` in HTTP/2) for a gateway without authentication. A page of another site can
 * give its own host name the gateway's address (DNS rebinding) and is then of the same origin as the gateway; what the
 * page cannot do is to send another `Host` than its own. So a name gets a response only where it is known to be the
 * gateway's. Addresses need no DNS, so no one can rebind them; a request without `Host` (HTTP/1.0) is of no browser.
 * @param allowed `server.allowedHosts`: names, `*.example.com` for all names below, `*` for any
 */
export function hostCheck(allowed: readonly string[]): HostCheck {
  const names = new Set(allowed.map((name) => name.toLowerCase()));
  const endings = [...names].filter((name) => name.startsWith('*.')).map((name) => name.slice(1));
  if (names.has('*')) return () => null;
  return ({ headers }) => {
    if (headers.host === undefined) return null;
    const host = parseHost(headers.host)?.name.replace(/^\[|\]$/g, '') ?? headers.host;
    if (isIP(host) !== 0 || host === 'localhost' || host.endsWith('.localhost') || names.has(host)) return null;
    if (endings.some((ending) => host.endsWith(ending) && host.length > ending.length)) return null;
    const quoted = JSON.stringify(host.slice(0, MAX_SHOWN));
    return new GatewayError(
      'EG_UNKNOWN_HOST',
      `${quoted} is not known as a name of this gateway, which runs without authentication. Use its address, or have its administrator add the name to server.allowedHosts.`,
      { field: 'Host' },
    );
  };
}

/** Responds to a request under a host that is not the gateway's; what else the connection holds is not read. */
export function rejectHost(request: IncomingMessage, response: ServerResponse, refusal: GatewayError): void {
  const body = JSON.stringify(refusal.toBody());
  rejectUnread(request, response, refusal.status, 'application/json; charset=utf-8', body);
}
