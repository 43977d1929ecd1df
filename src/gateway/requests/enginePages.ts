import { firstHeader } from '../../model/rawHeaders.ts';
import { parseHost } from '../../model/requestHost.ts';
import { toRefusal } from '../../routing/refusal.ts';
import type { DataPlaneParts } from '../dataPlaneComposition.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/**
 * `server.enginePages`: engines' web pages (paths below `/ui`) are proxied, redirected to the cluster's `externalUrl`, or
 * rejected.
 */
export type EnginePagesMode = 'proxy' | 'redirect' | 'off';

export function isReplacedPage({ enginePages }: DataPlaneParts, { pathKind }: ProxiedRequest): boolean {
  return pathKind === 'ui' && enginePages !== 'proxy';
}

/**
 * Responds to a request that goes to no cluster: for a page where `server.enginePages` is `off`, with a method that
 * cannot be redirected, or for the script of a service worker. One cluster's worker would stand between a browser and
 * the pages of all other clusters, and stay. Browsers mark such requests, and scripts cannot take that away (Service
 * Workers, 6.3).
 * @returns false where the request continues
 */
export function rejectPage(parts: DataPlaneParts, proxied: ProxiedRequest): boolean {
  const { method, request } = proxied;
  if (method === 'GET' && firstHeader(request.rawHeaders, 'service-worker') !== undefined) {
    return refuse(parts, proxied, 'Scripts of service workers are not proxied.');
  }
  if (!isReplacedPage(parts, proxied)) return false;
  if (parts.enginePages === 'off') {
    return refuse(parts, proxied, 'The web pages of engines are not served here (server.enginePages: off).');
  }
  if (method === 'GET' || method === 'HEAD') return false;
  const message =
    'The web pages of engines are redirected to the address of the cluster itself (server.enginePages: redirect): only GET and HEAD are answered here.';
  return refuse(parts, proxied, message);
}

/**
 * Redirects to the same page at the cluster's own address.
 * @param name of the cluster; one that is not registered any more has no address
 */
export function redirectPage(parts: DataPlaneParts, proxied: ProxiedRequest, name: string): void {
  const { answers, headers, table } = parts;
  const entry = table.current.clusters.get(name);
  // The default of externalUrl is proxyTo, the gateway's way to the cluster, which is not for browsers.
  const isStated = entry !== undefined && (entry.externalUrl !== entry.proxyTo || entry.hasExternalUrl === true);
  const base = isStated ? entry.externalUrl : '';
  const url = URL.parse(base);
  // Rows of Trino Gateway may hold any text.
  if (url === null || !/^https?:$/.test(url.protocol)) {
    const message = `The web pages of engines are not proxied here (server.enginePages: redirect), and cluster "${name}" has no address for browsers. Set its externalUrl.`;
    refuse(parts, proxied, message);
    return;
  }
  const view = headers.clientOf(proxied.request);
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  if (url.hostname === parseHost(view.host)?.name && port === view.port) {
    const message = `The externalUrl of cluster "${name}" is the address of this gateway, where the web pages of engines are not served (server.enginePages: redirect). Set it to the address of the cluster itself.`;
    refuse(parts, proxied, message);
    return;
  }
  const target = proxied.rawTarget.replace(
    /[^\x21-\x7e]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  const lines = ['location', `${base}${target}`, 'cache-control', 'no-store', 'referrer-policy', 'no-referrer'];
  answers.answer(proxied, 307, lines, '');
}

function refuse({ answers }: DataPlaneParts, proxied: ProxiedRequest, message: string): true {
  answers.refuse(proxied, toRefusal('engine_pages', message));
  return true;
}
