import type { IncomingMessage, ServerResponse } from 'node:http';
import { firstHeader } from '../../model/rawHeaders.ts';
import { namesOneOf, parseHost, type RequestHost } from '../../model/requestHost.ts';
import { splitTarget } from '../../routing/proxiedPaths.ts';
import { answer } from '../exchanges/ownResponses.ts';
import type { ClientView } from '../headers/forwardedHeaders.ts';

/** Content of an address of the gateway: its API and pages, or proxied paths; `unclear` if a request names two. */
export type Side = 'admin' | 'queries' | 'unclear';

/** Separates API and pages from what is proxied, so that a page of an engine is of another origin (docs/serving.md). */
export interface Origins {
  sideOf(request: IncomingMessage): Side;
  /** Address of API and pages, for responses of the other side, e.g. `admin.example (server.adminHosts)`. */
  readonly adminAddress: string;
  /** Paths of probes and metrics, which every address serves to GET and HEAD: kubelets ask by the pod's address. */
  readonly sharedPaths: ReadonlySet<string>;
}

const MAX_KNOWN_HOSTS = 1000;

/**
 * Distinguishes the sides by the host that a request names: by `Host` or `:authority`, and by what trusted proxies say
 * that it was. A request of which either is an admin host is never proxied; one from a page of the other side gets no
 * response.
 * @param adminHosts `server.adminHosts`
 * @param clientOf what the client called the gateway, after trusted proxies
 */
export function sideByHost(
  adminHosts: readonly RequestHost[],
  clientOf: (request: IncomingMessage) => ClientView,
): Origins['sideOf'] {
  const answers = new Map<string, boolean>();
  const isAdmin = (text: string): boolean => {
    let isServed = answers.get(text);
    if (isServed === undefined) {
      const host = parseHost(text);
      isServed = host !== null && namesOneOf(adminHosts, host);
      if (answers.size >= MAX_KNOWN_HOSTS) answers.clear();
      answers.set(text, isServed);
    }
    return isServed;
  };
  return (request) => {
    const host = firstHeader(request.rawHeaders, 'host') ?? '';
    const direct = isAdmin(host);
    const target = request.url ?? '';
    // RFC 9112 §3.2.2: the authority of an absolute target counts instead of Host; no browser sends either apart.
    const authority = target.charCodeAt(0) === 47 ? null : /^https?:\/\/([^/?#]*)/i.exec(target)?.[1];
    if (authority != null && isAdmin(authority) !== direct) return 'unclear';
    if (direct) return 'admin';
    const view = clientOf(request);
    if (!isAdmin(`${view.host}:${view.port}`)) return 'queries';
    // A proxy that passes X-Forwarded-Host on as it came lets pages of the other side write it, but not Origin.
    const origin = firstHeader(request.rawHeaders, 'origin');
    return origin === undefined || isAdmin(URL.parse(origin)?.host ?? '') ? 'admin' : 'unclear';
  };
}

/** True if a request asks for a probe or for metrics. */
export function isShared({ sharedPaths }: Origins, { method, url }: IncomingMessage): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const path = splitTarget(url ?? '')?.path;
  return path !== undefined && sharedPaths.has(path);
}

/** Responds to a request that came to the wrong address: 404 with the right one, 400 where it names two. */
export function respondElsewhere(response: ServerResponse, { adminAddress }: Origins, side: Side): void {
  const message =
    side === 'admin'
      ? `This address serves the REST API and the pages of the gateway: ${adminAddress}. Send queries to another host name or port of the gateway.`
      : side === 'queries'
        ? `This address serves queries only. The REST API and the pages of the gateway are at ${adminAddress}.`
        : 'The request names different hosts: its target and Host, or Origin and what a proxy says, must agree.';
  const type = ['content-type', 'text/plain; charset=utf-8', 'x-content-type-options', 'nosniff'];
  answer(response, side === 'unclear' ? 400 : 404, [...type, 'cache-control', 'no-store'], `${message}\n`);
}
