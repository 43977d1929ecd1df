import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { explainNoCluster } from '../../routing/clusterChoice.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isOwnFault } from '../upstreams/clusterError.ts';
import type { OtherDependencies } from './exchangeDependencies.ts';
import { explainLine } from './explain.ts';
import { type FailedForward, ForwardExchange } from './forwardExchange.ts';

/** Where a request goes that is about no query, by a decision like that of a submission. */
export interface OtherRoute {
  readonly decision: GroupDecision;
  readonly cluster: ClusterEntry;
  readonly fallback: boolean;
  /** A step of an OAuth2 login, whose cookie the answer sets or ends; null for all other requests. */
  readonly handshake: Handshake | null;
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

  protected override clusterIdentity(): ClusterEntry {
    return this.#route.cluster;
  }

  protected override queryId(): null {
    return null;
  }

  protected override clusterFailed(failure: FailedForward): void {
    const mayGoElsewhere = failure.stage === 'connecting' && !isOwnFault(failure.error) && this.outgoing.body === null;
    if (mayGoElsewhere) this.#elsewhere(failure.reason);
    else this.giveUp(failure);
  }

  /** The next cluster of the group takes over, as nothing was sent yet. */
  #elsewhere(reason: string): void {
    const { table, settings, chooser, upstreams } = this.dependencies;
    const { decision, cluster: failed, handshake } = this.#route;
    this.#excluded ??= new Map();
    this.#excluded.set(failed.name, reason);
    const { defaultRoutingGroup } = settings();
    const choice = chooser.choose(table.current, decision, null, this.#excluded, handshake?.login ?? null);
    const upstream = choice.cluster === null ? null : upstreams.get(choice.cluster.proxyTo);
    if (choice.cluster === null || upstream === null) {
      const notTaken = choice.cluster === null ? choice.notTaken : [];
      const message = explainNoCluster(decision, notTaken, defaultRoutingGroup);
      this.refuse({ reason: 'no_cluster', message, queryId: null });
      return;
    }
    this.#route = { decision, cluster: choice.cluster, fallback: choice.fallback, handshake };
    this.sendTo(upstream);
  }

  protected override extraLines(headers: IncomingHttpHeaders): readonly string[] | null {
    const { names, handshakes, places, settings } = this.dependencies;
    const { explainHeader } = settings();
    const isPage = places !== null && this.proxied.pathKind === 'ui';
    if (handshakes === null && !explainHeader && !isPage) return null;
    const { decision, cluster, fallback, handshake } = this.#route;
    const lines: string[] = [];
    if (handshakes !== null) {
      const ofLogin = handshakes.linesOfLogin(headers, cluster.name);
      lines.push(...(ofLogin.length > 0 ? ofLogin : (handshake?.linesFor(cluster.name) ?? [])));
    }
    if (isPage) lines.push(...places.linesFor(this.proxied, { cluster, status: this.status, ofQuery: false }));
    if (explainHeader) lines.push(...explainLine(names, decision, cluster.name, fallback));
    return lines;
  }
}
