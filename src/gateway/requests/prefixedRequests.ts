import { backTo } from '../../routing/groupDecision.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { FollowUps } from './followUps.ts';
import type { OtherRequests } from './otherRequests.ts';
import type { OwnAnswers } from './ownAnswers.ts';
import { type PrefixRoutingDependencies, routeByPrefix } from './prefixRouting.ts';
import type { RequestSteps } from './requestSteps.ts';

/** What requests with a cluster's key are sent on with. */
export interface PrefixedRequestsDependencies extends PrefixRoutingDependencies {
  readonly steps: RequestSteps;
  readonly answers: OwnAnswers;
  readonly metrics: DataPlaneMetrics;
  readonly followUps: FollowUps;
  readonly others: OtherRequests;
}

/** Requests whose URL says which cluster they belong to (`routing.prefixSticky`). */
export class PrefixedRequests {
  readonly #dependencies: PrefixedRequestsDependencies;

  constructor(dependencies: PrefixedRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Sends a request to the cluster of the key in front of its path. */
  route(proxied: ProxiedRequest, key: string): void {
    const { steps, answers, metrics, followUps, others } = this.#dependencies;
    steps.settle(proxied, routeByPrefix(this.#dependencies, proxied, key), (route) => {
      switch (route.to) {
        case 'owner':
          metrics.lookup('prefix');
          followUps.toOwner(proxied, route.queryId, route.owner);
          break;
        case 'cluster': {
          const { cluster } = route;
          const decision = backTo(cluster, 'prefix');
          others.forwardTo(proxied, { decision, cluster, fallback: false, steps: null, handshake: null });
          break;
        }
        case 'redirect':
          answers.answer(proxied, 307, ['location', route.location], '');
          break;
        default:
          answers.refuse(proxied, route.refusal);
      }
    });
  }
}
