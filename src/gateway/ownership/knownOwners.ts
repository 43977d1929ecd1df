import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { FairMap } from '../../model/fairMap.ts';
import { growingTo } from '../../model/growingCache.ts';
import { coordinatorSuffix } from '../../routing/queryId.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
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
  readonly #bySuffix = new FairMap<string, KnownOwner>(MAX_COORDINATORS, MAX_COORDINATORS_PER_CLUSTER);
  readonly #byId = new FairMap<string, KnownOwner>(MAX_FULL_IDS);
  /** Coordinators by `proxyTo`: the one that was learned last. */
  readonly #newestAt = new LRUCache<string, KnownOwner>(growingTo(MAX_COORDINATORS));
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
  addresses(): Iterable<string> {
    return this.#newestAt.keys();
  }

  remember(key: string, owner: QueryOwner, settled: boolean): KnownOwner {
    const entry: KnownOwner = { key, owner, order: ++this.#order, settled, isUsed: true };
    if (fullIdOf(key) !== null) this.#byId.set(key, owner.cluster, entry);
    else {
      this.#bySuffix.set(key, owner.cluster, entry);
      this.#newestAt.set(owner.proxyTo, entry);
    }
    return entry;
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
}

/**
 * When each owner of queries showed its last sign of life: a response to any request, or, while it is registered, a
 * health check that does not find it UNHEALTHY. A cluster that was deleted is present for as long as its queries are
 * followed.
 */
export class OwnerPresence {
  readonly #table: { readonly current: RoutingTable };
  readonly #upstreams: Pick<Upstreams, 'peek'>;
  readonly #clock: Clock;
  readonly #lastAlive = new Map<string, number>();

  constructor(table: { readonly current: RoutingTable }, upstreams: Pick<Upstreams, 'peek'>, clock: Clock) {
    this.#table = table;
    this.#upstreams = upstreams;
    this.#clock = clock;
  }

  /**
   * Notes who is alive now; called every second.
   * @param owners `proxyTo` of all known owners
   */
  sample(owners: Iterable<string>): void {
    const now = this.#clock.monotonic();
    const present = new Set(owners);
    // One that is seen for the first time, after a start, is given the whole time.
    for (const proxyTo of present) if (!this.#lastAlive.has(proxyTo)) this.#lastAlive.set(proxyTo, now);
    for (const { proxyTo, health } of this.#table.current.clusters.values()) {
      present.add(proxyTo);
      const isAlive =
        health.status !== 'UNHEALTHY' && (this.#upstreams.peek(proxyTo)?.unreachableSince ?? null) === null;
      if (isAlive || !this.#lastAlive.has(proxyTo)) this.#lastAlive.set(proxyTo, now);
    }
    for (const proxyTo of this.#lastAlive.keys()) if (!present.has(proxyTo)) this.#lastAlive.delete(proxyTo);
  }

  /** Milliseconds since the last sign of life at a `proxyTo`; 0 for one that was never sampled. */
  silentFor(proxyTo: string): number {
    const now = this.#clock.monotonic();
    return now - Math.max(this.#lastAlive.get(proxyTo) ?? now, this.#upstreams.peek(proxyTo)?.lastResponded ?? 0);
  }
}
