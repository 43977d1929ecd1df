import { FairMap } from '../../model/fairMap.ts';
import type { QueryOwner } from './queryOwner.ts';

/** A coordinator from its start to its end: all its query ids end in the same suffix. */
export interface Coordinator {
  readonly suffix: string;
  owner: QueryOwner;
  /** Order of learning, to distinguish a restarted coordinator from its predecessor. */
  readonly order: number;
  /** True if the database confirmed the owner. */
  settled: boolean;
  /** True if a request named a query of it since `takeUsed`. */
  isUsed: boolean;
}

/** Suffixes are one for each start of a coordinator: far more than 7 days bring. */
const MAX_COORDINATORS = 50_000;
/** Coordinators of one cluster; a cluster that claims more forgets its own oldest. */
export const MAX_COORDINATORS_PER_CLUSTER = 256;

/** The coordinators that this replica knows, by suffix. */
export class KnownCoordinators {
  readonly #bySuffix = new FairMap<string, Coordinator>({
    max: MAX_COORDINATORS,
    maxPerGroup: MAX_COORDINATORS_PER_CLUSTER,
    onDrop: (_suffix, coordinator) => this.#forgetNewest(coordinator),
  });
  /** By `proxyTo`: the one that was learned last. */
  readonly #newestAt = new Map<string, Coordinator>();
  #order = 0;

  has(suffix: string): boolean {
    return this.#bySuffix.has(suffix);
  }

  get(suffix: string): Coordinator | undefined {
    return this.#bySuffix.get(suffix);
  }

  /** `proxyTo` of all owners. */
  addresses(): IterableIterator<string> {
    return this.#newestAt.keys();
  }

  remember(suffix: string, owner: QueryOwner, settled: boolean): Coordinator {
    const before = this.#bySuffix.get(suffix);
    if (before !== undefined) this.#forgetNewest(before);
    const coordinator: Coordinator = { suffix, owner, order: ++this.#order, settled, isUsed: true };
    this.#bySuffix.set(suffix, owner.cluster, coordinator);
    this.#newestAt.set(owner.proxyTo, coordinator);
    return coordinator;
  }

  /** The owner that was learned last among those that fulfil a condition. */
  newestOwner(condition: (owner: QueryOwner) => boolean): QueryOwner | null {
    let newest: Coordinator | null = null;
    for (const coordinator of this.#bySuffix.values()) {
      if ((newest === null || coordinator.order > newest.order) && condition(coordinator.owner)) newest = coordinator;
    }
    return newest === null ? null : newest.owner;
  }

  /** True if the cluster of a coordinator is back under a new suffix. */
  isSuperseded(suffix: string): boolean {
    const coordinator = this.#bySuffix.get(suffix);
    if (coordinator === undefined) return false;
    const newest = this.#newestAt.get(coordinator.owner.proxyTo);
    return newest !== undefined && newest !== coordinator && newest.order > coordinator.order;
  }

  /**
   * Suffixes whose owner is alive and that were asked about since the last call, or are the newest of their cluster.
   * @param isAlive whether the cluster at a `proxyTo` showed a sign of life lately
   */
  takeUsed(isAlive: (proxyTo: string) => boolean): readonly string[] {
    const used: string[] = [];
    for (const coordinator of this.#bySuffix.values()) {
      const { proxyTo } = coordinator.owner;
      if (!coordinator.isUsed && this.#newestAt.get(proxyTo) !== coordinator) continue;
      coordinator.isUsed = false;
      if (isAlive(proxyTo)) used.push(coordinator.suffix);
    }
    return used;
  }

  /** The newest of the others takes its place; seldom, as the newest of a cluster is hardly ever the one to go. */
  #forgetNewest(coordinator: Coordinator): void {
    const { proxyTo } = coordinator.owner;
    if (this.#newestAt.get(proxyTo) !== coordinator) return;
    this.#newestAt.delete(proxyTo);
    for (const other of this.#bySuffix.values()) {
      if (other === coordinator || other.owner.proxyTo !== proxyTo) continue;
      const newest = this.#newestAt.get(proxyTo);
      if (newest === undefined || other.order > newest.order) this.#newestAt.set(proxyTo, other);
    }
  }
}
