import { backTo } from '../../routing/groupDecision.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { ClusterKeys } from '../ownership/clusterKeys.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import type { QueryOwner } from '../ownership/queryOwner.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { OtherRequests } from './otherRequests.ts';
import type { OwnAnswers } from './ownAnswers.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Parts that requests with a cluster's key are sent on with. */
export interface KeyedRequestsDependencies {
  readonly keys: ClusterKeys;
  readonly stickiness: Stickiness;
  readonly table: { readonly current: RoutingTable };
  readonly steps: RequestSteps;
  readonly answers: OwnAnswers;
  readonly metrics: DataPlaneMetrics;
  readonly others: OtherRequests;
}

/** Methods of the URLs that carry a key: clients poll, cancel, download and acknowledge with these. */
export const KEYED_METHODS = 'GET, HEAD, DELETE, OPTIONS';

/**
 * Requests whose path begins with the key of a cluster (docs/routing.md#spooled-segments). Only a spooled segment goes to
 * the key's cluster, as its id names no query. With anything else, a client that invents a key could choose its cluster.
 */
export class KeyedRequests {
  readonly #dependencies: KeyedRequestsDependencies;

  constructor(dependencies: KeyedRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Responds to a request that its path or method does not lead anywhere. @returns false if the request is proxied */
  answer(proxied: ProxiedRequest, key: string, isOfQuery: boolean): boolean {
    const { answers, steps, metrics, others } = this.#dependencies;
    const { method, pathKind, target } = proxied;
    if (method === 'POST' || method === 'PUT') {
      const message = `A URL of a query takes ${KEYED_METHODS}; submit queries without its first path segment.`;
      answers.refuse(proxied, { reason: 'method', message, queryId: null, allow: KEYED_METHODS });
    } else if (pathKind === 'other' && isBelow(target.path, '/v1/spooled')) {
      steps.settle(proxied, this.#clusterOf(key), (result) => {
        if ('reason' in result) answers.refuse(proxied, result);
        else {
          metrics.lookup('prefix');
          const decision = backTo(result, 'prefix');
          others.forwardTo(proxied, { decision, cluster: result, fallback: false, steps: null, handshake: null });
        }
      });
    } else if (pathKind === 'statement') {
      if (isOfQuery) return false;
      answers.refuse(proxied, notOfAQuery);
    } else if (method === 'DELETE' || !(pathKind === 'ui' || isBelow(target.path, '/oauth2'))) {
      answers.refuse(proxied, notOfAQuery);
    } else answers.answer(proxied, 307, ['location', withoutKey(proxied)], '');
    return true;
  }

  /** The cluster that has the key: registered, or the newest owner that this replica or another one knows. */
  #clusterOf(key: string): ClusterEntry | Refusal | Promise<ClusterEntry | Refusal> {
    const { keys, stickiness, table } = this.#dependencies;
    const cluster = keys.clusterOf(key);
    if (cluster !== null) return cluster;
    const hasKey = ({ cluster: name }: QueryOwner) => name !== '' && keys.keyOf(name) === key;
    const owner = stickiness.newestOwner(hasKey);
    if (owner !== null) return ownerCluster(table.current, owner);
    return stickiness.findNewestOwner(hasKey).then((lookup) => {
      if (lookup === 'undecided') return undecidedSegment;
      return lookup === 'unknown' ? unknownKey : ownerCluster(table.current, lookup);
    });
  }
}

function isBelow(path: string, base: string): boolean {
  return path.startsWith(base) && path.charCodeAt(base.length) === 47;
}

/** The same path without the key; relative, as a proxy in front may have removed a prefix. */
function withoutKey({ target, rawTarget }: Pick<ProxiedRequest, 'target' | 'rawTarget'>): string {
  const depth = target.path.split('/').length - 1;
  return '../'.repeat(depth) + rawTarget.slice(1);
}

const unknownKey: Refusal = {
  reason: 'unknown_prefix',
  message: 'The first segment of the URL names no cluster behind this gateway. Run the query again.',
  queryId: null,
};

/** The refusal of a segment whose cluster only another replica may have heard of. */
const undecidedSegment: Refusal = {
  reason: 'undecided_query',
  message: 'Which cluster holds this segment of a result is not known at the moment; ask again in a second.',
  queryId: null,
};

const notOfAQuery: Refusal = {
  reason: 'unknown_prefix',
  message: 'Only the URLs of a query begin with the key of a cluster; ask without the first path segment.',
  queryId: null,
};
