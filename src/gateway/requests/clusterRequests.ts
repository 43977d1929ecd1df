import type { IncomingMessage } from 'node:http';
import { firstHeader } from '../../model/rawHeaders.ts';
import { parseHost } from '../../model/requestHost.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { backTo } from '../../routing/groupDecision.ts';
import { coordinatorSuffix, isPlausible } from '../../routing/queryId.ts';
import { type Refusal, toRefusal, userRefusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { Analysis } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';
import type { DataPlaneParts } from '../dataPlane.ts';
import { anybody, FollowUpExchange, OtherExchange, type OtherRoute } from '../exchanges/forwardExchange.ts';
import { chooseTarget, onlyTarget } from '../exchanges/outgoingRequests.ts';
import { disownedQuery, undecidedQuery, unknownQuery } from '../exchanges/ownResponses.ts';
import type { ClientView, RequestHeaders } from '../headers/requestHeaders.ts';
import { ownerCluster, type QueryOwner } from '../ownership/queryOwner.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isAuthenticated } from '../user/clientCertificates.ts';

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
    return reject(parts, proxied, 'Scripts of service workers are not proxied.');
  }
  if (!isReplacedPage(parts, proxied)) return false;
  if (parts.enginePages === 'off') {
    return reject(parts, proxied, 'The web pages of engines are not served here (server.enginePages: off).');
  }
  if (method === 'GET' || method === 'HEAD') return false;
  const message =
    'The web pages of engines are redirected to the address of the cluster itself (server.enginePages: redirect): only GET and HEAD are answered here.';
  return reject(parts, proxied, message);
}

/**
 * Redirects to the same page at the cluster's own address.
 * @param name of the cluster; one that is not registered any more has no address
 */
export function redirectPage(parts: DataPlaneParts, proxied: ProxiedRequest, name: string): void {
  const { responses, headers, table } = parts;
  const entry = table.current.clusters.get(name);
  // The default of externalUrl is proxyTo, the gateway's way to the cluster, which is not for browsers.
  const isStated = entry !== undefined && (entry.externalUrl !== entry.proxyTo || entry.hasExternalUrl === true);
  const base = isStated ? entry.externalUrl : '';
  const url = URL.parse(base);
  // Rows of Trino Gateway may hold any text.
  if (url === null || !/^https?:$/.test(url.protocol)) {
    const message = `The web pages of engines are not proxied here (server.enginePages: redirect), and cluster "${name}" has no address for browsers. Set its externalUrl.`;
    reject(parts, proxied, message);
    return;
  }
  const view = headers.clientOf(proxied.request);
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  if (url.hostname === parseHost(view.host)?.name && port === view.port) {
    const message = `The externalUrl of cluster "${name}" is the address of this gateway, where the web pages of engines are not served (server.enginePages: redirect). Set it to the address of the cluster itself.`;
    reject(parts, proxied, message);
    return;
  }
  const target = proxied.rawTarget.replace(
    /[^\x21-\x7e]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  const lines = ['location', `${base}${target}`, 'cache-control', 'no-store', 'referrer-policy', 'no-referrer'];
  responses.send(proxied, 307, lines, '');
}

function reject({ responses }: DataPlaneParts, proxied: ProxiedRequest, message: string): true {
  responses.reject(proxied, toRefusal('engine_pages', message));
  return true;
}

/** Methods of the URLs that carry a key: clients poll, cancel, download and acknowledge with these. */
export const KEYED_METHODS = 'GET, HEAD, DELETE, OPTIONS';

/** Has clusters get the name of the user of a request, where the user mapping states so. */
export function noteUser(proxied: ProxiedRequest, { user, mapping }: RequestUser): void {
  if (user !== null && mapping?.isForwarded === true) proxied.forwardedUser = user;
}

/** Requests that are no submissions: about queries, for spooled segments, for pages, logins and probes. */
export class ClusterRequests {
  readonly #parts: DataPlaneParts;

  constructor(parts: DataPlaneParts) {
    this.#parts = parts;
  }

  /**
   * Serves a request.
   * @param id of the query that it is about; null for none
   */
  async serve(proxied: ProxiedRequest, id: string | null): Promise<void> {
    const { clusterKey, method, response } = proxied;
    const isOfQuery = id !== null || (clusterKey !== null && method !== 'POST');
    const { mapping = null, responses } = this.#parts;
    // A query that a cluster has taken continues whatever has become of its user. Pages, logins and probes have no user.
    const isMapped = mapping !== null && isAuthenticated(proxied.target.path);
    if (isMapped && (!isOfQuery || mapping.users.rewritesHeader)) {
      const user = await mapping.identity(proxied.request);
      if (response.destroyed) return;
      const refusal = isOfQuery ? null : userRefusal(user);
      if (refusal !== null) {
        responses.reject(proxied, refusal);
        return;
      }
      noteUser(proxied, user);
    }
    if (clusterKey !== null && !(id !== null && isKeyedQuery(proxied))) await this.#keyed(proxied, clusterKey);
    else if (id === null) await this.#other(proxied);
    else await this.followUp(proxied, id);
  }

  /** Finds the owner of the query that a request names, and sends the request there. */
  async followUp(proxied: ProxiedRequest, id: string): Promise<void> {
    const { stickiness, metrics, responses, search, ownership, settings } = this.#parts;
    const remembered = stickiness.ownerNow(id);
    if (remembered !== null) {
      metrics.lookup('memory');
      this.#toOwner(proxied, id, remembered);
      return;
    }
    const isMissed = !isPlausible(id) || stickiness.isMiss(id);
    if (isMissed || stickiness.isDisowned(id)) {
      metrics.lookup('missed');
      responses.reject(proxied, isMissed ? unknownQuery(id) : disownedQuery(id));
      return;
    }
    proxied.trace?.step('lookup');
    const stored = await stickiness.find(id);
    if (proxied.response.destroyed) return;
    if (typeof stored !== 'string') {
      metrics.lookup(stored.source);
      this.#toOwner(proxied, id, stored.owner);
      return;
    }
    let why: 'unknown' | 'undecided' = stored;
    const suffix = coordinatorSuffix(id);
    if (suffix !== null && settings.askClusters !== 'off' && !isReplacedPage(this.#parts, proxied)) {
      // The gateway has never heard of the query: asks all clusters which coordinator they are. Nothing of the client's
      // request leaves the gateway before one of them is confirmed as the owner.
      proxied.trace?.step('ask clusters');
      const owner = await search.find(suffix);
      if (proxied.response.destroyed) return;
      if (typeof owner !== 'string') {
        // It becomes the owner of the id's suffix, unless the database knows another one.
        const conflict = await stickiness.learn(id, owner);
        if (proxied.response.destroyed) return;
        if (conflict === null) {
          metrics.lookup('asked');
          this.#toOwner(proxied, id, owner);
          return;
        }
        ownership.conflict(owner.cluster, id, conflict);
      } else if (stored === 'unknown') why = owner;
    }
    metrics.lookup(why);
    if (why === 'unknown') stickiness.noteMiss(id);
    responses.reject(proxied, why === 'unknown' ? unknownQuery(id) : undecidedQuery(id));
  }

  /** Sends a request to the owner of its query, or its client there. */
  #toOwner(proxied: ProxiedRequest, queryId: string, owner: QueryOwner): void {
    const { table, upstreams, responses } = this.#parts;
    if (isReplacedPage(this.#parts, proxied)) {
      redirectPage(this.#parts, proxied, ownerCluster(table.current, owner).name);
      return;
    }
    const upstream = upstreams.get(owner.proxyTo);
    if (upstream === null) responses.reject(proxied, unknownQuery(queryId));
    else new FollowUpExchange(this.#parts, proxied, queryId, owner).start(upstream);
  }

  /** Decides where a request without a query goes, and sends it there. */
  async #other(proxied: ProxiedRequest): Promise<void> {
    const { handshakes, router, analyzer, headers, table, responses } = this.#parts;
    const { request, response, target, trace } = proxied;
    const handshake = handshakes?.read(target.path, () => request.headers.cookie) ?? null;
    const cluster = handshake?.cluster ?? null;
    if (cluster !== null) {
      const decision = backTo(cluster, 'cookie');
      this.#forwardTo(proxied, { decision, cluster, fallback: false, steps: null, handshake });
      return;
    }
    const { current } = table;
    const analysis = router.needsAnalysis(current) ? await analyzer.analyze(request, null, false) : null;
    const sender = analysis?.user ?? (current.rules?.needsSender === true ? await analyzer.user(request) : null);
    const ruleRequest = new ProxiedRuleRequest(proxied, analysis, sender, null, headers);
    const routed = await router.decide(ruleRequest, current, trace);
    if (response.destroyed) return;
    if (routed.refusal !== null) {
      responses.reject(proxied, routed.refusal);
      return;
    }
    const { decision } = routed;
    trace?.step('choice');
    const chosen = chooseTarget(this.#parts, decision, anybody(proxied), null, handshake?.login ?? null);
    if (chosen.cluster === null) responses.reject(proxied, chosen.refusal);
    else {
      const { fallback, steps } = chosen;
      this.#forwardTo(proxied, { decision, cluster: chosen.cluster, fallback, steps, handshake });
    }
  }

  /**
   * Serves a request whose path begins with the key of a cluster (docs/routing.md#spooled-segments). Only a spooled segment
   * goes to the key's cluster, as its id names no query. With anything else, a client that invents a key could choose its
   * cluster.
   */
  async #keyed(proxied: ProxiedRequest, key: string): Promise<void> {
    const { responses, metrics } = this.#parts;
    const { method, pathKind, target, rawTarget, response } = proxied;
    if (method === 'POST' || method === 'PUT') {
      const message = `A URL of a query takes ${KEYED_METHODS}; submit queries without its first path segment.`;
      responses.reject(proxied, { reason: 'method', message, queryId: null, allow: KEYED_METHODS });
    } else if (pathKind === 'other' && isBelow(target.path, '/v1/spooled')) {
      const cluster = await this.#clusterOf(key);
      if (response.destroyed) return;
      if ('reason' in cluster) responses.reject(proxied, cluster);
      else {
        metrics.lookup('prefix');
        const decision = backTo(cluster, 'prefix');
        this.#forwardTo(proxied, { decision, cluster, fallback: false, steps: null, handshake: null });
      }
    } else if (method !== 'DELETE' && (pathKind === 'ui' || isBelow(target.path, '/oauth2'))) {
      // The same path without the key; relative, as a proxy in front may have removed a prefix.
      const depth = target.path.split('/').length - 1;
      responses.send(proxied, 307, ['location', '../'.repeat(depth) + rawTarget.slice(1)], '');
    } else responses.reject(proxied, notOfAQuery);
  }

  /** The cluster that has the key: registered, or the newest owner that this replica or another one knows. */
  async #clusterOf(key: string): Promise<ClusterEntry | Refusal> {
    const { keys, stickiness, table } = this.#parts;
    const cluster = keys.clusterOf(key);
    if (cluster !== null) return cluster;
    const hasKey = ({ cluster: name }: QueryOwner) => name !== '' && keys.keyOf(name) === key;
    const owner = await stickiness.findNewestOwner(hasKey);
    if (owner === 'undecided') return undecidedSegment;
    return owner === 'unknown' ? unknownKey : ownerCluster(table.current, owner);
  }

  /** Sends a request to the cluster that was decided on, or its client there. */
  #forwardTo(proxied: ProxiedRequest, route: OtherRoute): void {
    if (isReplacedPage(this.#parts, proxied)) {
      redirectPage(this.#parts, proxied, route.cluster.name);
      return;
    }
    const { upstream } = onlyTarget(this.#parts, route.cluster);
    if (upstream === null) this.#parts.responses.failure(proxied, new Error('proxyTo is not an HTTP URL'), false);
    else new OtherExchange(this.#parts, proxied, route).start(upstream);
  }
}

/** True if a URL with a cluster's key is one of a query, so that the key does not matter. */
function isKeyedQuery({ method, pathKind }: ProxiedRequest): boolean {
  return pathKind === 'statement' && method !== 'POST' && method !== 'PUT';
}

function isBelow(path: string, base: string): boolean {
  return path.startsWith(base) && path.charCodeAt(base.length) === 47;
}

const unknownKey = toRefusal(
  'unknown_prefix',
  'The first segment of the URL names no cluster behind this gateway. Run the query again.',
);

/** The refusal of a segment whose cluster only another replica may have heard of. */
const undecidedSegment = toRefusal(
  'undecided_query',
  'Which cluster holds this segment of a result is not known at the moment; ask again in a second.',
);

const notOfAQuery = toRefusal(
  'unknown_prefix',
  'Only the URLs of a query begin with the key of a cluster; ask without the first path segment.',
);

/**
 * A proxied request as rules and the external rules service see it. Where the client is, and whether it sent a form, is
 * found out when a user asks: few rules do, and each search of the header lines costs as much as a rule.
 */
export class ProxiedRuleRequest implements RuleRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string | null;
  readonly headers: readonly string[];
  readonly remoteUser = null;
  readonly isSubmission: boolean;
  readonly user: RequestUser | null;
  readonly sender: RequestUser | null;
  readonly queryProperties: QueryProperties | null;
  readonly #request: IncomingMessage;
  readonly #views: RequestHeaders;
  readonly #body: BodyStart | null;
  #client: ClientView | null = null;

  /**
   * @param analysis null if the request was not analyzed
   * @param sender null if no rule needs it
   * @param body null if it is not read before the decision
   * @param views states where the client is
   */
  constructor(
    proxied: ProxiedRequest,
    analysis: Analysis | null,
    sender: RequestUser | null,
    body: BodyStart | null,
    views: RequestHeaders,
  ) {
    const { request, target } = proxied;
    this.method = proxied.method;
    this.path = target.path;
    this.query = target.query;
    this.headers = request.rawHeaders;
    this.isSubmission = proxied.kind === 'submission';
    this.sender = sender;
    this.user = analysis === null ? null : analysis.user;
    this.queryProperties = analysis === null ? null : analysis.queryProperties;
    this.#request = request;
    this.#views = views;
    this.#body = body;
  }

  get scheme(): 'http' | 'https' {
    return this.#view().scheme;
  }

  get serverName(): string {
    return this.#view().host;
  }

  get serverPort(): number {
    return this.#view().port;
  }

  get remoteAddr(): string {
    return this.#view().address;
  }

  get formBody(): string | null {
    const body = this.#body;
    if (body === null || !body.complete) return null;
    const contentType = firstHeader(this.#request.rawHeaders, 'content-type')?.toLowerCase();
    return contentType?.startsWith('application/x-www-form-urlencoded') === true ? body.text : null;
  }

  #view(): ClientView {
    this.#client ??= this.#views.clientOf(this.#request);
    return this.#client;
  }
}
