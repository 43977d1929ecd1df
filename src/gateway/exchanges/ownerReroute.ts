import type { RoutingTable } from '../../routing/routingTable.ts';
import { movedOwner, type QueryOwner } from '../ownership/queryOwner.ts';
import type { Stickiness } from '../ownership/stickiness.ts';

/** What another owner is looked for with. */
export interface OwnerRerouteDependencies {
  readonly table: { readonly current: RoutingTable };
  readonly stickiness: Pick<Stickiness, 'findStored'>;
}

/** Another owner of a query: the one that the database has, or the same cluster at the address that it moved to. */
export interface OtherOwner {
  readonly source: 'database' | 'moved';
  readonly owner: QueryOwner;
}

/** Looks for another owner of a query whose cluster failed, or does not know the query; for each request once. */
export class OwnerReroute {
  readonly #dependencies: OwnerRerouteDependencies;
  readonly #queryId: string;
  readonly #failed: QueryOwner;

  /** @param failed the owner that was asked */
  constructor(dependencies: OwnerRerouteDependencies, queryId: string, failed: QueryOwner) {
    this.#dependencies = dependencies;
    this.#queryId = queryId;
    this.#failed = failed;
  }

  /**
   * Finds the owner of the database, which another replica may have changed. Never rejects.
   * @param mayHaveMoved whether the address that the cluster has now counts too: its coordinator may have moved there, and
   *   the replica that noticed could not record it
   * @returns null where there is no other one
   */
  async find(mayHaveMoved: boolean): Promise<OtherOwner | null> {
    const { table, stickiness } = this.#dependencies;
    const stored = await stickiness.findStored(this.#queryId);
    if (this.#isElsewhere(stored)) return { source: 'database', owner: stored };
    if (!mayHaveMoved) return null;
    const moved = movedOwner(table.current, this.#failed);
    return this.#isElsewhere(moved) ? { source: 'moved', owner: moved } : null;
  }

  #isElsewhere(owner: QueryOwner | null): owner is QueryOwner {
    return owner !== null && owner.proxyTo !== this.#failed.proxyTo;
  }
}
