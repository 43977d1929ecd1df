import type { Logger } from 'pino';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { QueryOutcomes } from '../outcomes/queryOutcomes.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import { movedOwner, type QueryOwner } from '../ownership/queryOwner.ts';
import type { RunningQueries } from '../ownership/runningQueries.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import type { Transactions } from '../ownership/transactions.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { Upstream, Upstreams } from '../upstreams/upstreams.ts';
import { AnswerWatch } from './answerWatch.ts';
import { cancelQuery } from './cancelQuery.ts';
import type { OutgoingRequest } from './outgoingRequests.ts';

/** Another owner of a query: the one that the database has, or the same cluster at the address that it moved to. */
export interface OtherOwner {
  readonly source: 'database' | 'moved';
  readonly owner: QueryOwner;
  readonly upstream: Upstream;
}

export interface OwnedQueriesDependencies {
  readonly table: { readonly current: RoutingTable };
  readonly upstreams: Pick<Upstreams, 'get'>;
  readonly stickiness: Pick<Stickiness, 'findStored' | 'isSuperseded' | 'learn'>;
  readonly transactions: Pick<Transactions, 'noteAnswer'>;
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly outcomes: Pick<QueryOutcomes, 'page' | 'end' | 'cancel' | 'lose' | 'awaitsRows'>;
  readonly settings: Pick<DataPlaneSettings, 'statementErrors' | 'ownerGoneAfter' | 'cancelQueryOnDisconnect'>;
  readonly logger: Logger;
}

/** Queries that clients follow, and the clusters that own them. */
export class OwnedQueries {
  readonly #dependencies: OwnedQueriesDependencies;

  constructor(dependencies: OwnedQueriesDependencies) {
    this.#dependencies = dependencies;
  }

  clusterOf(owner: QueryOwner): ClusterEntry {
    return ownerCluster(this.#dependencies.table.current, owner);
  }

  /** Watches the response to a follow-up for the end of its query; null if the response does not state it. */
  watch({ statementPath, method }: ProxiedRequest, queryId: string, { cluster }: QueryOwner): AnswerWatch | null {
    return statementPath ? new AnswerWatch(this.#dependencies, queryId, cluster, method) : null;
  }

  /** Notes that a query is lost, as its owner does not know it or is gone, unless a response of it comes soon. */
  noteLost(queryId: string, { cluster }: QueryOwner): void {
    this.#dependencies.outcomes.lose(queryId, cluster);
  }

  /** Notes a transaction that a response begins or ends; see `Transactions.noteAnswer`. */
  noteAnswer(queryId: string, headers: IncomingHttpHeaders, owner: QueryOwner): Promise<void> | null {
    return this.#dependencies.transactions.noteAnswer(queryId, headers, owner);
  }

  /** Notes that the owner answers at a new address: the next request goes there at once. */
  noteMoved(queryId: string, owner: QueryOwner): void {
    void this.#dependencies.stickiness.learn(queryId, owner);
  }

  /** True if an owner that cannot be connected to counts as gone; before, it is given time to come back. */
  isGone(upstream: Upstream): boolean {
    return upstream.unreachableFor() >= this.#dependencies.settings.ownerGoneAfter;
  }

  /**
   * Reason that a query is lost if its owner does not know it; null if the owner's response is sufficient.
   * @param status of that response
   */
  lossReason({ statementPath, method }: ProxiedRequest, queryId: string, status: number): string | null {
    const { stickiness, settings } = this.#dependencies;
    if (!statementPath || settings.statementErrors === 'http') return null;
    if (stickiness.isSuperseded(queryId)) return 'it was restarted since';
    // A GET that gets a response 404 ends the query for its client, who learns more from the reason than from the bare status.
    return status === 404 && method === 'GET' ? 'it does not know the query any more' : null;
  }

  /**
   * Looks for another owner of a query: that of the database, which another replica may have changed. Never rejects.
   * @param mayHaveMoved whether the address that the cluster has now counts too: its coordinator may have moved there,
   * and
   * the replica that noticed could not record it
   * @returns null if there is no other one that requests can be sent to
   */
  async findOther(queryId: string, failed: QueryOwner, mayHaveMoved: boolean): Promise<OtherOwner | null> {
    const { table, stickiness } = this.#dependencies;
    const stored = await stickiness.findStored(queryId);
    if (isElsewhere(stored, failed)) return this.#otherOwner('database', stored);
    const moved = mayHaveMoved ? movedOwner(table.current, failed) : null;
    return isElsewhere(moved, failed) ? this.#otherOwner('moved', moved) : null;
  }

  #otherOwner(source: OtherOwner['source'], owner: QueryOwner): OtherOwner | null {
    const upstream = this.#dependencies.upstreams.get(owner.proxyTo);
    return upstream === null ? null : { source, owner, upstream };
  }

  /**
   * The client that polled a query is gone: with it the query, where that is wanted.
   * @param cluster registry name of its owner
   * @param request what the client asked the cluster
   */
  abandon(queryId: string, cluster: string, upstream: Upstream, request: () => OutgoingRequest): void {
    const { settings, runningQueries, outcomes, logger } = this.#dependencies;
    if (!settings.cancelQueryOnDisconnect) return;
    const onEnd = () => {
      runningQueries.noteEnd(queryId, cluster);
      outcomes.cancel(queryId, cluster);
    };
    cancelQuery({ logger, onEnd }, queryId, upstream, request());
  }
}

function isElsewhere(owner: QueryOwner | null, failed: QueryOwner): owner is QueryOwner {
  return owner !== null && owner.proxyTo !== failed.proxyTo;
}
