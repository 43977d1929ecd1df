import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { growingTo } from '../model/growingCache.ts';
import { coordinatorSuffix, isPlausible } from '../routing/queryId.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import { KnownCoordinators } from './knownCoordinators.ts';
import { StoredOwners } from './storedOwners.ts';

/** The cluster that a query runs on. */
export interface QueryOwner {
  /** Registry name when it was learned; "" when only the address is known. */
  readonly cluster: string;
  /** URL without trailing slash. */
  readonly baseUrl: string;
}

/** Where an owner was found, or why not; label of the lookup metric. */
export type LookupSource =
  | 'prefix'
  | 'memory'
  | 'coordinator'
  | 'query'
  | 'history'
  | 'asked'
  | 'missed'
  | 'unknown'
  | 'undecided';

/**
 * What a look into the database found. `unknown`: it does not know the query. `undecided`: it could not be read, or was
 * away until a moment ago, so that other replicas may not have told it yet what they learned meanwhile.
 */
export type Lookup = { readonly owner: QueryOwner; readonly source: LookupSource } | 'unknown' | 'undecided';

/** Times and bounds of stickiness (design.md, fixed point 7); times in milliseconds. */
export interface StickinessOptions {
  /** Longest wait for the database before a client sees the first id of a new suffix. */
  readonly learnTimeout: number;
  /** Longest wait for a lookup in the database. */
  readonly lookupTimeout: number;
  /** Time for which an unknown id is remembered as unknown. */
  readonly missTtl: number;
  /** Time after the database was away in which other replicas may still be writing down what they learned meanwhile. */
  readonly catchUpTime: number;
  /** Time between two tellings of the database which coordinators were seen. */
  readonly touchInterval: number;
}

/** The values of design.md. */
export const defaultStickinessOptions: StickinessOptions = {
  learnTimeout: 250,
  lookupTimeout: 2_000,
  missTtl: 10_000,
  // A write waits up to 10 s for a database that hangs, and is repeated within a second.
  catchUpTime: 15_000,
  touchInterval: 600_000,
};

const MAX_FULL_IDS = 100_000;
const MAX_MISSES = 10_000;

/** Knows which cluster a query runs on: in memory, in the database, on every replica (design.md, fixed point 7). */
export class Stickiness {
  readonly #store: Pick<Store, 'coordinators' | 'queries' | 'history'>;
  readonly #history: Pick<HistoryWriter, 'buffered'>;
  readonly #clusterAt: (baseUrl: string) => string;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #options: StickinessOptions;
  readonly #coordinators = new KnownCoordinators();
  readonly #storedOwners: StoredOwners;
  readonly #fullIds = new LRUCache<string, QueryOwner>(growingTo(MAX_FULL_IDS));
  readonly #misses: LRUCache<string, true>;
  readonly #lookups = new Map<string, Promise<Lookup>>();
  /** Writes that the database could not take yet, by key. */
  readonly #unwritten = new Map<string, () => Promise<unknown>>();
  #timer: NodeJS.Timeout | null = null;
  #nextMaintenance = 0;
  /** Until then the database may lack what other replicas know. */
  #undecidedUntil = 0;

  /** @param clusterAt registry name of the cluster at a base URL, "" for none */
  constructor(
    dependencies: {
      readonly store: Pick<Store, 'coordinators' | 'queries' | 'history'>;
      readonly history: Pick<HistoryWriter, 'buffered'>;
      readonly clusterAt: (baseUrl: string) => string;
      readonly logger: Logger;
      readonly clock: Clock;
    },
    options: StickinessOptions,
  ) {
    this.#store = dependencies.store;
    this.#history = dependencies.history;
    this.#clusterAt = dependencies.clusterAt;
    this.#logger = dependencies.logger;
    this.#clock = dependencies.clock;
    this.#options = options;
    this.#storedOwners = new StoredOwners(this.#store.coordinators, this.#clock);
    this.#misses = new LRUCache({
      max: MAX_MISSES,
      ttl: options.missTtl,
      perf: { now: () => this.#clock.monotonic() },
    });
  }

  /** Loads the coordinators known to the database and starts looking after their rows. Never rejects. */
  async start(): Promise<void> {
    this.#nextMaintenance = this.#clock.monotonic() + this.#options.touchInterval;
    this.#timer = setInterval(() => this.#tick(), 1_000).unref();
    try {
      const rows = await this.#store.coordinators.all();
      for (const row of [...rows].sort((a, b) => a.lastSeen - b.lastSeen)) {
        if (!this.#coordinators.has(row.suffix)) this.#coordinators.remember(row.suffix, row);
      }
    } catch (error) {
      this.#noteAway();
      this.#logger.warn({ err: error }, 'coordinators could not be loaded; they are looked up one by one');
    }
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** The owner as far as memory knows. */
  ownerNow(id: string): QueryOwner | null {
    const suffix = coordinatorSuffix(id);
    if (suffix !== null) {
      const known = this.#coordinators.get(suffix);
      if (known !== undefined && !known.clashing) {
        known.seen = true;
        return known.owner;
      }
    }
    return this.#fullIds.get(id) ?? null;
  }

  /** The owner that was learned last among those that fulfil a condition, as far as memory knows. */
  newestOwner(condition: (owner: QueryOwner) => boolean): QueryOwner | null {
    return this.#coordinators.newestOwner(condition);
  }

  /** Looks for such an owner in the database. Never rejects. */
  async findNewestOwner(condition: (owner: QueryOwner) => boolean): Promise<QueryOwner | 'unknown' | 'undecided'> {
    try {
      const stored = await within(this.#storedOwners.newest(), this.#options.lookupTimeout, null);
      if (stored !== null) {
        const found = [...stored.values()].find(condition);
        return found ?? this.#whileUnknown();
      }
      this.#logger.warn('the owners of queries could not be looked up in time');
    } catch (error) {
      this.#logger.warn({ err: error }, 'the owners of queries could not be looked up');
    }
    this.#noteAway();
    return 'undecided';
  }

  /** Whether the id was unknown everywhere a moment ago. */
  isMiss(id: string): boolean {
    return this.#misses.has(id);
  }

  /** Remembers that nobody knows the id. */
  noteMiss(id: string): void {
    this.#misses.set(id, true);
  }

  /** Looks an id up in the database. Never rejects. */
  find(id: string): Promise<Lookup> {
    if (!isPlausible(id)) return Promise.resolve('unknown');
    let running = this.#lookups.get(id);
    if (running === undefined) {
      running = this.#lookUp(id).finally(() => this.#lookups.delete(id));
      this.#lookups.set(id, running);
    }
    return running;
  }

  /**
   * The owner by full id, for an id whose suffix led to a cluster that does not know it (clashing suffixes, a changed
   * address). Never rejects.
   */
  async findByFullId(id: string): Promise<QueryOwner | null> {
    const known = this.#fullIds.get(id);
    if (known !== undefined) return known;
    try {
      const row = await within(this.#store.queries.get(id), this.#options.lookupTimeout, null);
      if (row === null) return null;
      const owner = { cluster: row.cluster, baseUrl: row.baseUrl };
      this.#fullIds.set(id, owner);
      return owner;
    } catch (error) {
      this.#noteAway();
      this.#logger.warn({ err: error, queryId: id }, 'the owner of a query could not be looked up by its full id');
      return null;
    }
  }

  /** Whether the cluster of the id's coordinator is back under a new suffix: the query died with its coordinator. */
  isSuperseded(id: string): boolean {
    const suffix = coordinatorSuffix(id);
    return suffix !== null && this.#coordinators.isSuperseded(suffix);
  }

  /**
   * Notes the owner of a query.
   * @returns null when all is stored already; else a promise that resolves once it is, or after the learn timeout (it
   *   is then written later). Never rejects.
   */
  learn(id: string, owner: QueryOwner): Promise<void> | null {
    const suffix = coordinatorSuffix(id);
    if (suffix === null) return this.#learnFullId(id, owner);
    const known = this.#coordinators.get(suffix);
    if (known === undefined) return this.#learnCoordinator(suffix, id, owner);
    known.seen = true;
    if (known.owner.baseUrl === owner.baseUrl) return known.stored;
    if (known.owner.cluster === owner.cluster && owner.cluster !== '') {
      // The same coordinator at a new address. The stored row keeps the old one: full ids tell other replicas.
      this.#coordinators.remember(suffix, owner);
    } else {
      known.clashing = true;
      this.#logger.warn({ suffix, clusters: [known.owner.cluster, owner.cluster] }, 'two coordinators use one suffix');
    }
    return this.#learnFullId(id, owner);
  }

  #learnCoordinator(suffix: string, id: string, owner: QueryOwner): Promise<void> {
    const known = this.#coordinators.remember(suffix, owner);
    const row = { suffix, cluster: owner.cluster, baseUrl: owner.baseUrl, lastSeen: this.#clock.now() };
    const learn = async () => {
      const stored = await this.#store.coordinators.learn(row);
      if (stored.baseUrl === owner.baseUrl) return;
      // Another replica was first, with another cluster (or another address of this one).
      if (stored.cluster !== owner.cluster) known.clashing = true;
      this.#fullIds.set(id, owner);
      await this.#store.queries.put({ queryId: id, ...owner, created: this.#clock.now() });
    };
    known.stored = this.#write(`coordinator ${suffix}`, learn).finally(() => {
      known.stored = null;
    });
    return known.stored;
  }

  #learnFullId(id: string, owner: QueryOwner): Promise<void> {
    this.#fullIds.set(id, owner);
    const row = { queryId: id, ...owner, created: this.#clock.now() };
    return this.#write(`query ${id}`, () => this.#store.queries.put(row));
  }

  /** Writes now, waiting no longer than the learn timeout; a write that fails is repeated until it succeeds. */
  #write(key: string, write: () => Promise<unknown>): Promise<void> {
    const writing = write().then(
      () => undefined,
      (error: unknown) => {
        this.#noteAway();
        if (this.#unwritten.size < MAX_FULL_IDS) this.#unwritten.set(key, write);
        this.#logger.warn({ err: error, key }, 'the owner of a query could not be stored; it is kept in memory');
      },
    );
    return within(writing, this.#options.learnTimeout, undefined);
  }

  /** The database cannot be read or written right now. */
  #noteAway(): void {
    this.#undecidedUntil = this.#clock.monotonic() + this.#options.catchUpTime;
  }

  /** What it means that the database does not know a query. */
  #whileUnknown(): 'unknown' | 'undecided' {
    return this.#clock.monotonic() < this.#undecidedUntil ? 'undecided' : 'unknown';
  }

  async #lookUp(id: string): Promise<Lookup> {
    try {
      const found = await within(this.#find(id), this.#options.lookupTimeout, 'undecided' as const);
      if (found === 'unknown') return this.#whileUnknown();
      if (found !== 'undecided') return found;
      this.#logger.warn({ queryId: id }, 'the owner of a query could not be looked up in time');
    } catch (error) {
      this.#logger.warn({ err: error, queryId: id }, 'the owner of a query could not be looked up');
    }
    this.#noteAway();
    return 'undecided';
  }

  async #find(id: string): Promise<Exclude<Lookup, 'undecided'>> {
    const suffix = coordinatorSuffix(id);
    const [query, coordinator] = await Promise.all([
      this.#store.queries.get(id),
      suffix === null || this.#coordinators.has(suffix) ? null : this.#store.coordinators.get(suffix),
    ]);
    if (query !== null) {
      const owner = { cluster: query.cluster, baseUrl: query.baseUrl };
      this.#fullIds.set(id, owner);
      return { owner, source: 'query' };
    }
    if (coordinator !== null && suffix !== null) {
      return { owner: this.#coordinators.remember(suffix, coordinator).owner, source: 'coordinator' };
    }
    const record = this.#history.buffered(id) ?? (await this.#store.history.get(id));
    if (record !== null && record.backendUrl !== '') {
      const baseUrl = record.backendUrl.replace(/\/+$/, '');
      const owner = { cluster: record.cluster === '' ? this.#clusterAt(baseUrl) : record.cluster, baseUrl };
      this.#fullIds.set(id, owner);
      return { owner, source: 'history' };
    }
    // A clashing suffix whose full id nobody wrote down: the first cluster of that suffix is the best guess.
    const known = suffix === null ? undefined : this.#coordinators.get(suffix);
    return known === undefined ? 'unknown' : { owner: known.owner, source: 'coordinator' };
  }

  #tick(): void {
    for (const [key, write] of [...this.#unwritten].slice(0, 100)) {
      this.#unwritten.delete(key);
      void write().catch(() => this.#unwritten.set(key, write));
    }
    if (this.#clock.monotonic() < this.#nextMaintenance) return;
    this.#nextMaintenance = this.#clock.monotonic() + this.#options.touchInterval;
    void this.#maintain().catch((error: unknown) =>
      this.#logger.warn({ err: error }, 'coordinators could not be looked after'),
    );
  }

  async #maintain(): Promise<void> {
    const seen = this.#coordinators.takeSeen();
    if (seen.length > 0) await this.#store.coordinators.touch(seen, this.#clock.now());
  }
}

/** The promise's value, or `otherwise` once the time is over; the promise itself goes on. */
function within<T, Late>(promise: Promise<T>, timeoutMs: number, otherwise: Late): Promise<T | Late> {
  const { promise: result, resolve, reject } = Promise.withResolvers<T | Late>();
  const timer = setTimeout(() => resolve(otherwise), timeoutMs);
  promise.then(resolve, reject).finally(() => clearTimeout(timer));
  return result;
}
