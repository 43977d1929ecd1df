import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { PickRequest } from '../../routing/strategies/strategy.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isOwnFault } from '../upstreams/clusterError.ts';
import type { AnsweringCluster } from './addedLines.ts';
import type { ClusterTargets } from './clusterTargets.ts';
import type { ExchangeDependencies } from './exchange.ts';
import { type FailedForward, ForwardExchange } from './forwardExchange.ts';

export interface OtherDependencies extends ExchangeDependencies {
  readonly targets: ClusterTargets;
}

/** Destination of a request without a query, by a decision like that of a submission. */
export interface OtherRoute {
  readonly decision: GroupDecision;
  readonly cluster: ClusterEntry;
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** A step of an OAuth2 login, whose cookie the response sets or ends; null for all other requests. */
  readonly handshake: Handshake | null;
}

export function anybody({ request }: ProxiedRequest): PickRequest {
  return { user: null, headers: request.rawHeaders };
}

/** A request that is neither a submission nor about a query. The next cluster takes it where one cannot be connected to. */
export class OtherExchange extends ForwardExchange<OtherDependencies> {
  #route: OtherRoute;
  /** Clusters that could not be connected to, with the reasons; null for none. */
  #excluded: Map<string, string> | null = null;

  constructor(dependencies: OtherDependencies, proxied: ProxiedRequest, route: OtherRoute) {
    super(dependencies, proxied, route.decision);
    this.#route = route;
  }

  protected override clusterName(): string {
    return this.#route.cluster.name;
  }

  protected override answering(): AnsweringCluster {
    return this.#route;
  }

  protected override queryId(): null {
    return null;
  }

  protected override onClusterFailure(failure: FailedForward): void {
    const mayGoElsewhere = failure.stage === 'connecting' && !isOwnFault(failure.error) && this.outgoing.body === null;
    if (mayGoElsewhere) this.#elsewhere(failure.reason);
    else this.giveUp(failure);
  }

  /** The next cluster of the group takes over, as nothing was sent yet. */
  #elsewhere(reason: string): void {
    const { targets } = this.dependencies;
    const { decision, cluster: failed, handshake } = this.#route;
    this.#excluded ??= new Map();
    this.#excluded.set(failed.name, reason);
    const target = targets.choose(decision, anybody(this.proxied), this.#excluded, handshake?.login ?? null);
    if (target.cluster === null) this.refuse({ ...target.refusal, reason: 'no_cluster' });
    else if (target.upstream === null) {
      const message = `proxyTo of cluster ${target.cluster.name} is not an HTTP URL`;
      this.refuse({ reason: 'no_cluster', message, queryId: null });
    } else {
      const { cluster, fallback, steps } = target;
      this.#route = { decision, cluster, fallback, steps, handshake };
      this.sendTo(target.upstream);
    }
  }
}
