import { coordinatorSuffix, isPlausible } from '../../routing/queryId.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import { FollowUpExchange } from '../exchanges/followUpExchange.ts';
import { CoordinatorSearch } from '../ownership/coordinatorSearch.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import type { QueryOwner } from '../ownership/queryOwner.ts';
import { disownedQuery, undecidedQuery, unknownQuery } from '../ownership/unknownQueries.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Requests about a query: they go to the cluster that owns it. */
export class FollowUps {
  readonly #context: DataPlaneContext;
  readonly #steps: RequestSteps;
  readonly #search: CoordinatorSearch;

  constructor(context: DataPlaneContext, steps: RequestSteps) {
    this.#context = context;
    this.#steps = steps;
    this.#search = new CoordinatorSearch(context.table, context.upstreams, context.clock);
  }

  /** Finds the owner of the query that a request names, and sends the request there. */
  followUp(proxied: ProxiedRequest, id: string): void {
    const { stickiness, metrics } = this.#context;
    const owner = stickiness.ownerNow(id);
    if (owner !== null) {
      metrics.lookup('memory');
      this.toOwner(proxied, id, owner);
    } else if (!isPlausible(id) || stickiness.isMiss(id)) {
      metrics.lookup('missed');
      this.#context.refuse(proxied, unknownQuery(id));
    } else if (stickiness.isDisowned(id)) {
      metrics.lookup('missed');
      this.#context.refuse(proxied, disownedQuery(id));
    } else {
      proxied.trace?.step('lookup');
      this.#steps.settle(proxied, stickiness.find(id), (found) => {
        if (typeof found === 'string') this.#ask(proxied, id, found);
        else {
          metrics.lookup(found.source);
          this.toOwner(proxied, id, found.owner);
        }
      });
    }
  }

  /** Sends a request to the owner of its query, or its client there. */
  toOwner(proxied: ProxiedRequest, queryId: string, owner: QueryOwner): void {
    const { enginePages } = this.#context;
    if (enginePages.replaces(proxied)) {
      enginePages.redirect(proxied, ownerCluster(this.#context.table.current, owner), true);
      return;
    }
    const upstream = this.#context.upstreams.get(owner.baseUrl);
    if (upstream === null) this.#context.refuse(proxied, unknownQuery(queryId));
    else new FollowUpExchange(this.#context, proxied, { queryId, owner }).start(upstream);
  }

  /**
   * Asks all clusters which coordinator they are, for a query that the gateway has never heard of. Nothing of the client's
   * request leaves the gateway before one of them is confirmed as the owner.
   * @param stored what the database said
   */
  #ask(proxied: ProxiedRequest, id: string, stored: 'unknown' | 'undecided'): void {
    const suffix = coordinatorSuffix(id);
    const { enginePages, settings } = this.#context;
    if (suffix === null || settings().askClusters === 'off' || enginePages.replaces(proxied)) {
      this.#notFound(proxied, id, stored);
      return;
    }
    proxied.trace?.step('ask clusters');
    this.#steps.settle(proxied, this.#search.find(suffix), (found) => {
      if (typeof found === 'string') this.#notFound(proxied, id, stored === 'unknown' ? found : stored);
      else this.#claim(proxied, id, found, stored);
    });
  }

  /** The cluster becomes the owner of the id's suffix, unless the database knows another one. */
  #claim(proxied: ProxiedRequest, id: string, owner: QueryOwner, stored: 'unknown' | 'undecided'): void {
    const { stickiness, metrics, ownership } = this.#context;
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
    const { stickiness, metrics } = this.#context;
    metrics.lookup(why);
    if (why === 'unknown') stickiness.noteMiss(id);
    this.#context.refuse(proxied, why === 'unknown' ? unknownQuery(id) : undecidedQuery(id));
  }
}
