import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { transactionIdOf } from '../../routing/transactionId.ts';
import type { Submission } from '../exchanges/submission.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import type { QueryOwner } from '../ownership/queryOwner.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import type { Transactions } from '../ownership/transactions.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/** Binding of a submission, or the reason that it cannot be determined now. */
export type Binding =
  | (Pick<Submission, 'about' | 'transaction'> & { readonly refusal: null })
  | { readonly refusal: Refusal };

export interface SubmissionBindingDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly transactions: Pick<Transactions, 'ownerNow' | 'find'>;
  readonly stickiness: Pick<Stickiness, 'ownerNow' | 'find'>;
}

/** Finds the one cluster that can take a submission: that of its transaction, or of the query that it is about. */
export class SubmissionBinding {
  readonly #dependencies: SubmissionBindingDependencies;
  readonly #transactionHeader: string;

  constructor(dependencies: SubmissionBindingDependencies) {
    this.#dependencies = dependencies;
    this.#transactionHeader = dependencies.names.headerKey('Transaction-Id');
  }

  /**
   * Looks for a binding. Never rejects.
   * @param killed the query that a call of kill_query names; null for all other statements
   * @returns null for a submission that any cluster can take
   */
  find({ request }: ProxiedRequest, killed: string | null): null | Binding | Promise<Binding> {
    const transaction = transactionIdOf(firstHeader(request.rawHeaders, this.#transactionHeader));
    if (transaction !== null) return this.#ofTransaction(transaction);
    return killed === null ? null : this.#ofQuery(killed);
  }

  /**
   * A statement of a transaction goes to the cluster that began it. One that no one knows goes the usual way: the
   * engine that gets it states so in its own words.
   */
  #ofTransaction(id: string): Binding | Promise<Binding> {
    const { transactions, table } = this.#dependencies;
    const bind = (owner: QueryOwner | 'unknown' | 'undecided'): Binding => {
      if (owner === 'undecided') {
        const message = `Which cluster began transaction ${id} is not known at the moment; ask again in a second.`;
        return { refusal: { reason: 'undecided_transaction', message, queryId: null } };
      }
      const cluster = owner === 'unknown' ? null : ownerCluster(table.current, owner);
      return { refusal: null, about: null, transaction: { id, cluster } };
    };
    const owner = transactions.ownerNow(id);
    return owner === null ? transactions.find(id).then(bind) : bind(owner);
  }

  /** A call of kill_query goes to the cluster of the query it names. */
  #ofQuery(queryId: string): Binding | Promise<Binding> {
    const { stickiness, table } = this.#dependencies;
    const bind = (owner: QueryOwner): Binding => {
      return { refusal: null, about: { queryId, cluster: ownerCluster(table.current, owner) }, transaction: null };
    };
    const owner = stickiness.ownerNow(queryId);
    if (owner !== null) return bind(owner);
    // If no replica knows it, the cluster of a new query may be the right one.
    const anyCluster: Binding = { refusal: null, about: null, transaction: null };
    return stickiness.find(queryId).then((lookup) => (typeof lookup === 'string' ? anyCluster : bind(lookup.owner)));
  }
}
