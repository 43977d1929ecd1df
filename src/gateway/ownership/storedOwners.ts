import type { Clock } from '../../model/clock.ts';
import type { Store } from '../../store/store.ts';
import type { QueryOwner } from './queryOwner.ts';

/** Milliseconds between two looks: a client that invents keys of clusters must not keep the database busy. */
const LOOK_INTERVAL = 1_000;

/** The owners of queries that the database knows of, those that only other replicas have seen among them. */
export class StoredOwners {
  readonly #coordinators: Pick<Store['coordinators'], 'all'>;
  readonly #clock: Clock;
  #looking: Promise<ReadonlyMap<string, QueryOwner>> | null = null;
  #lookAgainAt = 0;

  constructor(coordinators: Pick<Store['coordinators'], 'all'>, clock: Clock) {
    this.#coordinators = coordinators;
    this.#clock = clock;
  }

  /**
   * The owner that was seen last of each cluster, by its registry name; up to a second old.
   * @throws what the store throws while the database is unavailable
   */
  newest(): Promise<ReadonlyMap<string, QueryOwner>> {
    const now = this.#clock.monotonic();
    if (this.#looking === null || now >= this.#lookAgainAt) {
      this.#lookAgainAt = now + LOOK_INTERVAL;
      this.#looking = this.#look();
    }
    return this.#looking;
  }

  async #look(): Promise<ReadonlyMap<string, QueryOwner>> {
    const rows = await this.#coordinators.all();
    const newest = new Map<string, QueryOwner>();
    for (const { cluster, proxyTo } of [...rows].sort((a, b) => a.lastSeen - b.lastSeen)) {
      if (cluster !== '') newest.set(cluster, { cluster, proxyTo });
    }
    return newest;
  }
}
