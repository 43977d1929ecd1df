import { firstHeader } from '../../model/rawHeaders.ts';
import { parseHost } from '../../model/requestHost.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { ClientView } from '../headers/forwardedHeaders.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { OwnAnswers } from './ownAnswers.ts';

/**
 * `server.enginePages`: whether engines' web pages are proxied, redirected to the cluster's `externalUrl`, or rejected.
 */
export type EnginePagesMode = 'proxy' | 'redirect' | 'off';

export interface EnginePagesDependencies {
  readonly mode: EnginePagesMode;
  readonly answers: OwnAnswers;
  readonly headers: Pick<RequestHeaders, 'clientOf'>;
  readonly table: { readonly current: RoutingTable };
}

/** Answers requests for engines' web pages (paths below `/ui`) where those are not proxied. */
export class EnginePages {
  readonly #dependencies: EnginePagesDependencies;

  constructor(dependencies: EnginePagesDependencies) {
    this.#dependencies = dependencies;
  }

  replaces({ pathKind }: Pick<ProxiedRequest, 'pathKind'>): boolean {
    return pathKind === 'ui' && this.#dependencies.mode !== 'proxy';
  }

  /**
   * Responds to a request that goes to no cluster: for a page where `server.enginePages` is `off`, with a method that
   * cannot be redirected, or for the script of a service worker. One cluster's worker would stand between a browser and
   * the pages of all other clusters, and stay. Browsers mark such requests, and scripts cannot take that away (Service
   * Workers, 6.3).
   * @returns false where the request continues
   */
  refuse(proxied: ProxiedRequest): boolean {
    const { method, request } = proxied;
    if (method === 'GET' && firstHeader(request.rawHeaders, 'service-worker') !== undefined) {
      this.#answer(proxied, 'Scripts of service workers are not proxied.');
      return true;
    }
    if (!this.replaces(proxied)) return false;
    if (this.#dependencies.mode === 'off') {
      this.#answer(proxied, 'The web pages of engines are not served here (server.enginePages: off).');
      return true;
    }
    if (method === 'GET' || method === 'HEAD') return false;
    this.#answer(
      proxied,
      'The web pages of engines are redirected to the address of the cluster itself (server.enginePages: redirect): only GET and HEAD are answered here.',
    );
    return true;
  }

  /**
   * Redirects to the same page at the cluster's own address.
   * @param cluster one that is not registered any more has no address
   * @param ofQuery whether the URL names a query, whose owner the cluster is
   */
  redirect(proxied: ProxiedRequest, name: string): void {
    const { answers, headers, table } = this.#dependencies;
    const entry = table.current.clusters.get(name);
    // The default of externalUrl is proxyTo, the gateway's way to the cluster, which is not for browsers.
    const base =
      entry === undefined || (entry.externalUrl === entry.proxyTo && entry.hasExternalUrl !== true)
        ? null
        : entry.externalUrl;
    const url = base === null ? null : URL.parse(base);
    // Rows of Trino Gateway may hold any text.
    if (url === null || !/^https?:$/.test(url.protocol)) {
      this.#answer(
        proxied,
        `The web pages of engines are not proxied here (server.enginePages: redirect), and cluster "${name}" has no address for browsers. Set its externalUrl.`,
      );
      return;
    }
    const view = headers.clientOf(proxied.request);
    if (isSameHost(url, view)) {
      this.#answer(
        proxied,
        `The externalUrl of cluster "${name}" is the address of this gateway, where the web pages of engines are not served (server.enginePages: redirect). Set it to the address of the cluster itself.`,
      );
      return;
    }
    const target = proxied.rawTarget.replace(
      /[^\x21-\x7e]/g,
      (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
    );
    const lines = ['location', `${base}${target}`, 'cache-control', 'no-store', 'referrer-policy', 'no-referrer'];
    answers.answer(proxied, 307, lines, '');
  }

  #answer(proxied: ProxiedRequest, message: string): void {
    this.#dependencies.answers.refuse(proxied, { reason: 'engine_pages', message, queryId: null });
  }
}

function isSameHost({ hostname, port, protocol }: URL, view: Pick<ClientView, 'host' | 'port'>): boolean {
  const host = parseHost(view.host);
  return hostname === host?.name && Number(port || (protocol === 'https:' ? 443 : 80)) === view.port;
}
