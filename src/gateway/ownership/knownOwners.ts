import { FairMap } from '../../model/fairMap.ts';
import { coordinatorSuffix } from '../../routing/queryId.ts';
import type { QueryOwner } from './queryOwner.ts';

/** The owner of a coordinator's ids from its start to its end, or of one id that ends in no suffix. */
export interface KnownOwner {
  readonly key: string;
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
export const MAX_FULL_IDS = 100_000;

/** Before ids that end in no suffix, so that none has the form of a suffix. */
const FULL_ID = '=';

/** The key of an id's owner: the suffix that all ids of its coordinator end in, or the whole id. */
export function ownerKey(id: string): string {
  return coordinatorSuffix(id) ?? fullIdKey(id);
}

export function fullIdKey(id: string): string {
  return FULL_ID + id;
}

/** The id that a key stands for; null for a suffix. */
export function fullIdOf(key: string): string | null {
  return key.startsWith(FULL_ID) ? key.slice(1) : null;
}

/** The owners that this replica knows, by key. */
export class KnownOwners {
  readonly #bySuffix = new FairMap<string, KnownOwner>({
    max: MAX_COORDINATORS,
    maxPerGroup: MAX_COORDINATORS_PER_CLUSTER,
    onDrop: (_suffix, coordinator) => this.#forgetNewest(coordinator),
  });
  readonly #byId = new FairMap<string, KnownOwner>({ max: MAX_FULL_IDS });
  /** Coordinators by `proxyTo`: the one that was learned last. */
  readonly #newestAt = new Map<string, KnownOwner>();
  #order = 0;

  get(key: string): KnownOwner | undefined {
    return this.#bySuffix.get(key) ?? this.#byId.get(key);
  }

  /** The owner of an id: that of its suffix, else one that an older row names for the whole id. */
  ofId(id: string): KnownOwner | undefined {
    const suffix = coordinatorSuffix(id);
    return (suffix === null ? undefined : this.#bySuffix.get(suffix)) ?? this.#byId.get(fullIdKey(id));
  }

  /** `proxyTo` of all owners of coordinators. */
  addresses(): IterableIterator<string> {
    return this.#newestAt.keys();
  }

  remember(key: string, owner: QueryOwner, settled: boolean): KnownOwner {
    const known: KnownOwner = { key, owner, order: ++this.#order, settled, isUsed: true };
    if (fullIdOf(key) !== null) this.#byId.set(key, owner.cluster, known);
    else {
      const before = this.#bySuffix.get(key);
      if (before !== undefined) this.#forgetNewest(before);
      this.#bySuffix.set(key, owner.cluster, known);
      this.#newestAt.set(owner.proxyTo, known);
    }
    return known;
  }

  /** The owner of a coordinator that was learned last among those that fulfil a condition. */
  newestOwner(condition: (owner: QueryOwner) => boolean): QueryOwner | null {
    let newest: KnownOwner | null = null;
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
      if (isAlive(proxyTo)) used.push(coordinator.key);
    }
    return used;
  }

  /** The newest of the others takes its place; seldom, as the newest of a cluster is hardly ever the one to go. */
  #forgetNewest(coordinator: KnownOwner): void {
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
