import { backTo } from '../../routing/groupDecision.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import type { FollowUps } from './followUps.ts';
import type { OtherRequests } from './otherRequests.ts';
import type { OwnAnswers } from './ownAnswers.ts';
import { routeByPrefix } from './prefixRouting.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Requests whose URL says which cluster they belong to (`routing.prefixSticky`). */
export class PrefixedRequests {
  readonly #context: DataPlaneContext;
  readonly #steps: RequestSteps;
  readonly #answers: OwnAnswers;
  readonly #followUps: FollowUps;
  readonly #others: OtherRequests;

  constructor(
    context: DataPlaneContext,
    steps: RequestSteps,
    answers: OwnAnswers,
    followUps: FollowUps,
    others: OtherRequests,
  ) {
    this.#context = context;
    this.#steps = steps;
    this.#answers = answers;
    this.#followUps = followUps;
    this.#others = others;
  }

  /** Sends a request to the cluster of the key in front of its path. */
  route(proxied: ProxiedRequest, key: string): void {
    const { prefixes, metrics } = this.#context;
    if (prefixes === null) return;
    this.#steps.settle(proxied, routeByPrefix(this.#context, prefixes, proxied, key), (route) => {
      switch (route.to) {
        case 'owner':
          metrics.lookup('prefix');
          this.#followUps.toOwner(proxied, route.queryId, route.owner);
          break;
        case 'cluster': {
          const { cluster } = route;
          const decision = backTo(cluster, 'prefix');
          this.#others.forwardTo(proxied, { decision, cluster, fallback: false, handshake: null });
          break;
        }
        case 'redirect':
          this.#answers.answer(proxied, 307, ['location', route.location], '');
          break;
        default:
          this.#context.refuse(proxied, route.refusal);
      }
    });
  }
}
