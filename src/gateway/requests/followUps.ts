import { coordinatorSuffix, isPlausible } from '../../routing/queryId.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';

import { type FollowUpDependencies, FollowUpExchange } from '../exchanges/followUpExchange.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { CoordinatorSearch } from '../ownership/coordinatorSearch.ts';
import type { OwnershipReport } from '../ownership/ownershipReport.ts';
import type { QueryOwner } from '../ownership/queryOwner.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import { disownedQuery, undecidedQuery, unknownQuery } from '../ownership/unknownQueries.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import type { EnginePages } from './enginePages.ts';
import type { RequestSteps } from './requestSteps.ts';

export interface FollowUpsDependencies {
  readonly stickiness: Stickiness;
  /** Asks clusters for queries that no one knows. */
  readonly search: CoordinatorSearch;
  readonly ownership: OwnershipReport;
  readonly upstreams: Pick<Upstreams, 'get'>;
  readonly enginePages: EnginePages;
  readonly exchange: FollowUpDependencies;
  readonly steps: RequestSteps;
  readonly answers: Pick<GatewayAnswers, 'refuse'>;
  readonly metrics: Pick<DataPlaneMetrics, 'lookup'>;
  readonly settings: Pick<DataPlaneSettings, 'askClusters'>;
}

/** Requests about a query: they go to the cluster that owns it. */
export class FollowUps {
  readonly #dependencies: FollowUpsDependencies;
  readonly #steps: RequestSteps;

  constructor(dependencies: FollowUpsDependencies) {
    this.#dependencies = dependencies;
    this.#steps = dependencies.steps;
  }

  /** Finds the owner of the query that a request names, and sends the request there. */
  followUp(proxied: ProxiedRequest, id: string): void {
    const { stickiness, metrics } = this.#dependencies;
    const owner = stickiness.ownerNow(id);
    if (owner !== null) {
      metrics.lookup('memory');
      this.toOwner(proxied, id, owner);
    } else if (!isPlausible(id) || stickiness.isMiss(id)) {
      metrics.lookup('missed');
      this.#dependencies.answers.refuse(proxied, unknownQuery(id));
    } else if (stickiness.isDisowned(id)) {
      metrics.lookup('missed');
      this.#dependencies.answers.refuse(proxied, disownedQuery(id));
    } else {
      proxied.trace?.step('lookup');
      this.#steps.settle(proxied, stickiness.find(id), (lookup) => {
        if (typeof lookup === 'string') this.#ask(proxied, id, lookup);
        else {
          metrics.lookup(lookup.source);
          this.toOwner(proxied, id, lookup.owner);
        }
      });
    }
  }

  /** Sends a request to the owner of its query, or its client there. */
  toOwner(proxied: ProxiedRequest, queryId: string, owner: QueryOwner): void {
    const { enginePages, upstreams, answers, exchange } = this.#dependencies;
    if (enginePages.replaces(proxied)) {
      enginePages.redirect(proxied, exchange.queries.clusterOf(owner).name);
      return;
    }
    const upstream = upstreams.get(owner.proxyTo);
    if (upstream === null) answers.refuse(proxied, unknownQuery(queryId));
    else new FollowUpExchange(exchange, proxied, { queryId, owner }).start(upstream);
  }

  /**
   * Asks all clusters which coordinator they are, for a query that the gateway has never heard of. Nothing of the client's
   * request leaves the gateway before one of them is confirmed as the owner.
   * @param stored what the database said
   */
  #ask(proxied: ProxiedRequest, id: string, stored: 'unknown' | 'undecided'): void {
    const suffix = coordinatorSuffix(id);
    const { enginePages, settings } = this.#dependencies;
    if (suffix === null || settings.askClusters === 'off' || enginePages.replaces(proxied)) {
      this.#notFound(proxied, id, stored);
      return;
    }
    proxied.trace?.step('ask clusters');
    this.#steps.settle(proxied, this.#dependencies.search.find(suffix), (result) => {
      if (typeof result === 'string') this.#notFound(proxied, id, stored === 'unknown' ? result : stored);
      else this.#claim(proxied, id, result, stored);
    });
  }

  /** The cluster becomes the owner of the id's suffix, unless the database knows another one. */
  #claim(proxied: ProxiedRequest, id: string, owner: QueryOwner, stored: 'unknown' | 'undecided'): void {
    const { stickiness, metrics, ownership } = this.#dependencies;
    this.#steps.settle(proxied, stickiness.learn(id, owner) ?? Promise.resolve(null), (conflict) => {
      if (conflict === null) {
        metrics.lookup('asked');
        this.toOwner(proxied, id, owner);
      } else {
        ownership.conflict(owner.cluster, id, conflict);
        this.#notFound(proxied, id, stored);
      }
    });
  }

  #notFound(proxied: ProxiedRequest, id: string, why: 'unknown' | 'undecided'): void {
    const { stickiness, metrics } = this.#dependencies;
    metrics.lookup(why);
    if (why === 'unknown') stickiness.noteMiss(id);
    this.#dependencies.answers.refuse(proxied, why === 'unknown' ? unknownQuery(id) : undecidedQuery(id));
  }
}
