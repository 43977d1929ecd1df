import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { firstHeader, headerValues } from '../../model/rawHeaders.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { cookieValue } from '../headers/cookies.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { ClusterIdentities, ClusterIdentity } from './clusterIdentities.ts';
import { IDENTITY_FORM } from './clusterIdentities.ts';

/** How browsers are kept on one cluster's pages. */
export interface PageCookieOptions {
  /** The same on all replicas; signs the cookie and makes clusters' keys. */
  readonly secret: string;
  /** `uiGatewayCookieConfiguration.lifetime`, milliseconds. */
  readonly lifetime: number;
}

/** What the places of browsers are worked out with. */
export interface BrowserPlaceDependencies {
  /** `ProductNames.pageCookie` */
  readonly name: string;
  readonly identities: ClusterIdentities;
  readonly headers: Pick<RequestHeaders, 'clientOf' | 'prefixOf'>;
  readonly clock: Clock;
}

/** The cluster that a cookie names, while it can serve pages. */
interface Place {
  readonly cluster: ClusterEntry;
  /** Milliseconds since the cookie was made. */
  readonly age: number;
}

/** An answer that goes to a browser. */
export interface PageAnswer {
  readonly cluster: ClusterIdentity;
  readonly status: number;
  /** Whether the URL names a query, whose owner the cluster is. */
  readonly ofQuery: boolean;
}

/** Cluster, whether it was inactive then, time in milliseconds, signature. */
const content = new RegExp(`^(${IDENTITY_FORM})\\.([ai])(\\d{1,15})\\.([\\w-]{43})$`);

/**
 * Keeps each browser on the pages of one cluster, which alone knows its logins, by a signed cookie
 * (docs/routing.md#engines-web-pages). What a client makes up, and what is expired, does not count, but is no error.
 */
export class BrowserPlaces {
  readonly #options: PageCookieOptions;
  readonly #dependencies: BrowserPlaceDependencies;

  constructor(options: PageCookieOptions, dependencies: BrowserPlaceDependencies) {
    this.#options = options;
    this.#dependencies = dependencies;
  }

  /** The cluster whose pages the browser is on; null for none, and where that cluster cannot serve them any more. */
  clusterOf(proxied: Pick<ProxiedRequest, 'pathKind' | 'request'>): ClusterEntry | null {
    return proxied.pathKind === 'ui' ? (this.#placeOf(proxied)?.cluster ?? null) : null;
  }

  /** Lines of an answer: they set the cookie where it is missing, old, or names another cluster than the browser is on now. */
  linesFor(
    proxied: Pick<ProxiedRequest, 'pathKind' | 'request' | 'target'>,
    { cluster: { name, uid }, status, ofQuery }: PageAnswer,
  ): readonly string[] {
    if (proxied.pathKind !== 'ui' || status >= 500) return [];
    const { identities } = this.#dependencies;
    const key = identities.keyOf({ name, uid });
    const cluster = identities.clusterOf(key);
    // Of a cluster that is deleted only pages of its queries are left.
    if (cluster === null || cluster.health.status === 'UNHEALTHY') return [];
    const place = this.#placeOf(proxied);
    if (place?.cluster === cluster) {
      return place.age < this.#options.lifetime / 2 ? [] : this.#line(proxied, key, cluster);
    }
    // Open pages go on asking for their queries while the browser is on another cluster: they do not take it back.
    if (place !== null && ofQuery && !isNavigation(proxied) && !asksToLogIn(status)) return [];
    return this.#line(proxied, key, cluster);
  }

  #placeOf({ request }: Pick<ProxiedRequest, 'request'>): Place | null {
    const { clock, identities, name } = this.#dependencies;
    const [, key = '', state, ts, signature = ''] =
      content.exec(cookieValue(headerValues(request.rawHeaders, 'cookie'), name) ?? '') ?? [];
    if (state === undefined || ts === undefined) return null;
    const age = clock.now() - Number(ts);
    const cluster = age < this.#options.lifetime ? identities.clusterOf(key) : null;
    if (cluster === null || cluster.health.status === 'UNHEALTHY' || !(cluster.active || state === 'i')) return null;
    const expected = Buffer.from(this.#sign(`${key}.${state}${ts}`));
    return timingSafeEqual(expected, Buffer.from(signature)) ? { cluster, age } : null;
  }

  #line({ request }: Pick<ProxiedRequest, 'request'>, key: string, { active }: ClusterEntry): readonly string[] {
    const { clock, headers, name } = this.#dependencies;
    const text = `${key}.${active ? 'a' : 'i'}${clock.now()}`;
    const secure = headers.clientOf(request).scheme === 'https' ? '; Secure' : '';
    const attributes = `Max-Age=${Math.floor(this.#options.lifetime / 1000)}; Path=${headers.prefixOf(request)}/ui`;
    return ['Set-Cookie', `${name}=${text}.${this.#sign(text)}; ${attributes}${secure}; HttpOnly; SameSite=Lax`];
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#options.secret).update(`${this.#dependencies.name} ${text}`).digest('base64url');
  }
}

/**
 * Whether a request is for a page that a user opens, not for the data of an open one. Browsers say so to addresses they
 * trust (Fetch Metadata Request Headers, 2.1); over clear text the path has to do.
 */
function isNavigation({ request, target }: Pick<ProxiedRequest, 'request' | 'target'>): boolean {
  const destination = firstHeader(request.rawHeaders, 'sec-fetch-dest');
  return destination === undefined ? !target.path.startsWith('/ui/api/') : destination === 'document';
}

/** Whether the user has to log in at the answering cluster: at his next step he does. */
function asksToLogIn(status: number): boolean {
  return status === 401 || status === 403 || (status >= 300 && status < 400 && status !== 304);
}
