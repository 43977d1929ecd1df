import type { ProxiedPaths } from '../../routing/proxiedPaths.ts';
import { isPlausible, recognizeQueryId } from '../../routing/queryId.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { ClusterKeys } from '../ownership/clusterKeys.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import type { QueryOwner } from '../ownership/queryOwner.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import { undecidedQuery, unknownQuery } from '../ownership/unknownQueries.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/** Where a request goes whose path began with a cluster's key. */
export type PrefixRoute =
  | { readonly to: 'owner'; readonly queryId: string; readonly owner: QueryOwner }
  | { readonly to: 'cluster'; readonly cluster: ClusterEntry }
  | { readonly to: 'refusal'; readonly refusal: Refusal }
  /** The same path without the key; relative, as a proxy in front may have taken a prefix of its own off. */
  | { readonly to: 'redirect'; readonly location: string };

/** What routing by a cluster's key looks at. */
export interface PrefixRoutingDependencies {
  readonly keys: ClusterKeys;
  readonly paths: ProxiedPaths;
  readonly stickiness: Stickiness;
  readonly table: { readonly current: RoutingTable };
}

/** Methods of the URLs that carry a key: clients poll, cancel, download and acknowledge with these. */
export const PREFIXED_METHODS = 'GET, HEAD, DELETE, OPTIONS';

/**
 * Routes by the key in front of the path (`routing.prefixSticky`). Only what belongs to a query goes to the key's
 * cluster: paths that hold a query id, and spooled segments. With anything else, a client that invents a key could choose
 * the cluster that serves him, also one that takes no queries at the moment.
 */
export function routeByPrefix(
  dependencies: PrefixRoutingDependencies,
  proxied: Pick<ProxiedRequest, 'method' | 'pathKind' | 'target' | 'rawTarget'>,
  key: string,
): PrefixRoute | Promise<PrefixRoute> {
  const { method, pathKind, target } = proxied;
  if (method !== 'GET' && method !== 'HEAD' && method !== 'DELETE') {
    const message = `A URL of a query takes ${PREFIXED_METHODS}; submit queries without its first path segment.`;
    return refused({ reason: 'method', message, queryId: null, allow: PREFIXED_METHODS });
  }
  if (pathKind === 'other') {
    if (isBelow(target.path, '/v1/spooled')) return routeSegment(dependencies, key);
    return isBelow(target.path, '/oauth2') ? withoutKey(proxied) : notOfAQuery();
  }
  // Only pages of the web interface name their query in the query string.
  const id = recognizeQueryId(dependencies.paths, pathKind, target.path, pathKind === 'ui' ? target.query : null);
  if (id === null) {
    // Pages load scripts and styles relative to themselves.
    return pathKind === 'ui' && method !== 'DELETE' ? withoutKey(proxied) : notOfAQuery();
  }
  if (!isPlausible(id)) return refused(unknownQuery(id));
  return routeQuery(dependencies, key, id);
}

function routeQuery(
  { keys, stickiness }: PrefixRoutingDependencies,
  key: string,
  queryId: string,
): PrefixRoute | Promise<PrefixRoute> {
  // Memory first: it knows the address that the query was submitted to, also when the cluster has moved since.
  const owner = stickiness.ownerNow(queryId);
  if (owner !== null && keys.keyOf(owner.cluster) === key) return { to: 'owner', queryId, owner };
  const cluster = keys.clusterOf(key);
  if (cluster !== null) {
    // A cluster cannot get the requests of another one's query by handing out URLs with its own key.
    if (owner !== null && owner.proxyTo !== cluster.proxyTo) return unknownKey(queryId);
    return { to: 'owner', queryId, owner: { cluster: cluster.name, proxyTo: cluster.proxyTo, uid: cluster.uid } };
  }
  // Deleted from the registry, or not yet in this replica's table: the database may know whose query it is.
  return stickiness.find(queryId).then((lookup) => {
    if (lookup === 'undecided') return refused(undecidedQuery(queryId));
    return lookup !== 'unknown' && keys.keyOf(lookup.owner.cluster) === key
      ? { to: 'owner', queryId, owner: lookup.owner }
      : unknownKey(queryId);
  });
}

function routeSegment(
  { keys, stickiness, table }: PrefixRoutingDependencies,
  key: string,
): PrefixRoute | Promise<PrefixRoute> {
  const cluster = keys.clusterOf(key);
  if (cluster !== null) return { to: 'cluster', cluster };
  const hasKey = ({ cluster: name }: QueryOwner) => name !== '' && keys.keyOf(name) === key;
  const toOwner = (owner: QueryOwner): PrefixRoute => ({
    to: 'cluster',
    cluster: ownerCluster(table.current, owner),
  });
  const owner = stickiness.newestOwner(hasKey);
  if (owner !== null) return toOwner(owner);
  // As with queries: another replica may have heard of the cluster.
  return stickiness.findNewestOwner(hasKey).then((lookup) => {
    if (lookup === 'undecided') return refused(undecidedSegment);
    return lookup === 'unknown' ? unknownKey(null) : toOwner(lookup);
  });
}

function isBelow(path: string, base: string): boolean {
  return path.startsWith(base) && path.charCodeAt(base.length) === 47;
}

function withoutKey({ target, rawTarget }: Pick<ProxiedRequest, 'target' | 'rawTarget'>): PrefixRoute {
  const depth = target.path.split('/').length - 1;
  return { to: 'redirect', location: '../'.repeat(depth) + rawTarget.slice(1) };
}

function refused(refusal: Refusal): PrefixRoute {
  return { to: 'refusal', refusal };
}

function unknownKey(queryId: string | null): PrefixRoute {
  const message = 'The first segment of the URL names no cluster behind this gateway. Run the query again.';
  return refused({ reason: 'unknown_prefix', message, queryId });
}

/** The refusal of a segment whose cluster only another replica may have heard of. */
const undecidedSegment: Refusal = {
  reason: 'undecided_query',
  message: 'Which cluster holds this segment of a result is not known at the moment; ask again in a second.',
  queryId: null,
};

function notOfAQuery(): PrefixRoute {
  const message = 'Only the URLs of a query begin with the key of a cluster; ask without the first path segment.';
  return refused({ reason: 'unknown_prefix', message, queryId: null });
}
