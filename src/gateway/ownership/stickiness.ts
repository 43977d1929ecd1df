import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { within } from '../../model/timeLimit.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { coordinatorSuffix, PLAUSIBLE_ID } from '../../routing/statementProtocol.ts';
import type { HistoryWriter, Store } from '../../store/store.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import { fullIdKey, KnownOwners, OwnerClaims, OwnerPresence, ownerKey } from './ownerClaims.ts';
import { identified, ownerOf, type QueryOwner } from './queryOwner.ts';

/** Source of an owner, or the reason that it is missing; label of the lookup metric. */
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
 * Result of a database lookup. `unknown`: it does not know the query. `undecided`: it could not be read, or was
 * unavailable until a moment ago, so that other replicas may not have stored recent information yet.
 */
export type Lookup = { readonly owner: QueryOwner; readonly source: LookupSource } | 'unknown' | 'undecided';

/** Times and bounds of stickiness; times in milliseconds. */
export interface StickinessOptions {
  /** Longest wait for the database before a client sees the first id of a new suffix. */
  readonly learnTimeout: number;
  /** Longest wait for a lookup in the database. */
  readonly lookupTimeout: number;
  /** Time for which an unknown id is remembered as unknown. */
  readonly missTtl: number;
  /** Time after an outage of the database in which other replicas may still be storing what they learned meanwhile. */
  readonly catchUpTime: number;
  /** Longest time between two updates of the stored coordinators; shorter where `routing.ownerTakeover` is short. */
  readonly touchInterval: number;
  /** Time between two polls of what has to be done. */
  readonly tick: number;
}

export const defaultStickinessOptions: StickinessOptions = {
  learnTimeout: 250,
  lookupTimeout: 2_000,
  missTtl: 10_000,
  // A write waits up to 10 s for a database that hangs, and is repeated within a second.
  catchUpTime: 15_000,
  touchInterval: 600_000,
  tick: 1_000,
};

const MAX_MISSES = 10_000;
/** Milliseconds between two reads of all owners: a client that invents keys of clusters must not keep the database busy. */
const READ_ALL_INTERVAL = 1_000;

/** Parts of the data plane that stickiness works with. */
interface StickinessParts {
  readonly store: Pick<Store, 'coordinators' | 'queries' | 'history'>;
  readonly history: Pick<HistoryWriter, 'findBuffered'>;
  readonly table: { readonly current: RoutingTable };
  readonly upstreams: Pick<Upstreams, 'byProxyTo'>;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Knows which cluster a query runs on: in memory, in the database, on every replica (docs/routing.md). */
export class Stickiness {
  readonly #parts: StickinessParts;
  readonly #takeover: number;
  readonly #options: StickinessOptions;
  readonly #owners = new KnownOwners();
  readonly #presence: OwnerPresence;
  readonly claims: OwnerClaims;
  readonly #misses: LRUCache<string, true>;
  readonly #lookups = new Map<string, Promise<Lookup>>();
  #timer: NodeJS.Timeout | null = null;
  #nextRefresh = 0;
  /** The owners that the database knows of, those that only other replicas have seen among them. */
  #reading: Promise<readonly QueryOwner[]> | null = null;
  #readAgainAt = 0;
  /** Until then the database may lack what other replicas know. */
  #undecidedUntil = 0;

  /** @param takeover `routing.ownerTakeover`, milliseconds */
  constructor(parts: StickinessParts, takeover: number, options: StickinessOptions) {
    const { table, upstreams, clock } = parts;
    const { learnTimeout, missTtl } = options;
    this.#parts = parts;
    this.#takeover = takeover;
    this.#options = options;
    this.#presence = new OwnerPresence(table, upstreams, clock);
    this.claims = new OwnerClaims(this.#owners, this.#presence, parts, { takeover, learnTimeout }, () =>
      this.#noteAway(),
    );
    this.#misses = new LRUCache({ max: MAX_MISSES, ttl: missTtl, perf: { now: () => clock.monotonic() } });
  }

  /** Loads the coordinators known to the database and starts looking after their rows. Never rejects. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => this.#tick(), this.#options.tick).unref();
    this.#nextRefresh = this.#parts.clock.monotonic() + this.#interval();
    try {
      await this.#load();
    } catch (error) {
      this.#noteAway();
      this.#parts.logger.warn({ err: error }, 'failed to load coordinators; looked up individually');
    }
    this.#presence.sample(this.#owners.addresses());
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** The owner as far as memory knows. */
  ownerNow(id: string): QueryOwner | null {
    const entry = this.#owners.ofId(id);
    if (entry === undefined || this.claims.isDisowned(id)) return null;
    entry.isUsed = true;
    return entry.owner;
  }

  /** The owner that was learned last among those that fulfil a condition, in memory or in the database. Never rejects. */
  async findNewestOwner(condition: (owner: QueryOwner) => boolean): Promise<QueryOwner | 'unknown' | 'undecided'> {
    const newest = this.#owners.newestOwner(condition);
    if (newest !== null) return newest;
    const { logger } = this.#parts;
    try {
      const stored = await within(this.#allStored(), this.#options.lookupTimeout, null);
      if (stored !== null) return stored.find(condition) ?? this.#whileUnknown();
      logger.warn('timeout while looking up owners of queries');
    } catch (error) {
      logger.warn({ err: error }, 'failed to look up owners of queries');
    }
    this.#noteAway();
    return 'undecided';
  }

  /** The owner that was seen last of each cluster; up to a second old. */
  #allStored(): Promise<readonly QueryOwner[]> {
    const { store, clock } = this.#parts;
    const now = clock.monotonic();
    if (this.#reading === null || now >= this.#readAgainAt) {
      this.#readAgainAt = now + READ_ALL_INTERVAL;
      this.#reading = store.coordinators.all().then((rows) => {
        const named = rows.filter(({ cluster }) => cluster !== '').sort((a, b) => a.lastSeen - b.lastSeen);
        return [...new Map(named.map(({ cluster, proxyTo }) => [cluster, { cluster, proxyTo }])).values()];
      });
    }
    return this.#reading;
  }

  /** True if the id was unknown everywhere a moment ago. */
  isMiss(id: string): boolean {
    return this.#misses.has(id);
  }

  noteMiss(id: string): void {
    this.#misses.set(id, true);
  }

  /** Looks an id up in the database. Never rejects. */
  find(id: string): Promise<Lookup> {
    if (!PLAUSIBLE_ID.test(id)) return Promise.resolve('unknown');
    let running = this.#lookups.get(id);
    if (running === undefined) {
      running = this.#lookUp(id).finally(() => this.#lookups.delete(id));
      this.#lookups.set(id, running);
    }
    return running;
  }

  /**
   * The owner as the database has it now, for an id whose owner in memory does not know it: another replica may have seen
   * its coordinator move. Never rejects.
   */
  async findStored(id: string): Promise<QueryOwner | null> {
    const key = ownerKey(id);
    try {
      const owner = await within<QueryOwner | null, null>(this.claims.stored(key), this.#options.lookupTimeout, null);
      if (owner !== null) this.#adopt(key, owner);
      return owner;
    } catch (error) {
      this.#noteAway();
      this.#parts.logger.warn({ err: error, queryId: id }, 'failed to repeat lookup of query owner');
      return null;
    }
  }

  /** True if the cluster of the id's coordinator is back under a new suffix: the query died with its coordinator. */
  isSuperseded(id: string): boolean {
    return this.#owners.isSuperseded(ownerKey(id));
  }

  /** Milliseconds between two updates of the stored coordinators. */
  #interval(): number {
    return Math.min(this.#options.touchInterval, Math.max(this.#options.tick, this.#takeover / 4));
  }

  async #load(): Promise<void> {
    const rows = await this.#parts.store.coordinators.all();
    for (const row of [...rows].sort((a, b) => a.lastSeen - b.lastSeen)) this.#adopt(row.suffix, ownerOf(row));
  }

  /** Takes over what the database has, unless memory waits to write something else. */
  #adopt(key: string, stored: QueryOwner): void {
    const entry = this.#owners.get(key);
    if (entry !== undefined && (!entry.settled || entry.owner.proxyTo === stored.proxyTo)) return;
    this.#owners.remember(key, identified(this.#parts.table.current, stored), true);
  }

  /** The database cannot be read or written right now. */
  #noteAway(): void {
    this.#undecidedUntil = this.#parts.clock.monotonic() + this.#options.catchUpTime;
  }

  /** Meaning of a query that the database does not know. */
  #whileUnknown(): 'unknown' | 'undecided' {
    return this.#parts.clock.monotonic() < this.#undecidedUntil ? 'undecided' : 'unknown';
  }

  async #lookUp(id: string): Promise<Lookup> {
    const { logger } = this.#parts;
    try {
      const lookup = await within(this.#find(id), this.#options.lookupTimeout, 'undecided' as const);
      if (lookup === 'unknown') return this.#whileUnknown();
      if (lookup !== 'undecided') return lookup;
      logger.warn({ queryId: id }, 'timeout while looking up query owner');
    } catch (error) {
      logger.warn({ err: error, queryId: id }, 'failed to look up query owner');
    }
    this.#noteAway();
    return 'undecided';
  }

  async #find(id: string): Promise<Exclude<Lookup, 'undecided'>> {
    const { store, history, table } = this.#parts;
    const suffix = coordinatorSuffix(id);
    const [query, coordinator] = await Promise.all([
      store.queries.get(id),
      suffix === null ? null : store.coordinators.get(suffix),
    ]);
    // The owner of the suffix first: a row by full id may be older than the claim of the suffix.
    if (coordinator !== null && suffix !== null) {
      this.#adopt(suffix, ownerOf(coordinator));
      return { owner: this.#owners.get(suffix)?.owner ?? ownerOf(coordinator), source: 'coordinator' };
    }
    if (query !== null) {
      const owner = identified(table.current, ownerOf(query));
      this.#owners.remember(fullIdKey(id), owner, true);
      return { owner, source: 'query' };
    }
    const record = history.findBuffered(id) ?? (await store.history.get(id));
    if (record === null || record.backendUrl === '') return 'unknown';
    const proxyTo = record.backendUrl.replace(/\/+$/, '');
    const cluster = record.cluster === '' ? clusterAt(table.current, proxyTo) : record.cluster;
    const owner = identified(table.current, { cluster, proxyTo });
    if (suffix === null) this.#owners.remember(fullIdKey(id), owner, true);
    // The suffix has no other owner since: it is that of the coordinator that ran this query.
    else await this.claims.claim(suffix, owner, () => true);
    return { owner, source: 'history' };
  }

  /** Notes who is alive, and writes what the database could not take. */
  #tick(): void {
    const { store, clock, logger } = this.#parts;
    this.#presence.sample(this.#owners.addresses());
    this.claims.writeAgain();
    const interval = this.#interval();
    if (clock.monotonic() < this.#nextRefresh) return;
    this.#nextRefresh = clock.monotonic() + interval;
    // Rows of coordinators that are alive are kept, and what other replicas have changed is adopted.
    const used = this.#owners.takeUsed((proxyTo) => this.#presence.silentFor(proxyTo) < interval);
    const touched = used.length === 0 ? Promise.resolve() : store.coordinators.touch(used, clock.now());
    touched
      .then(() => this.#load())
      .catch((error: unknown) => logger.warn({ err: error }, 'failed to update stored coordinators'));
  }
}

/** Registry name of the cluster at a `proxyTo`; "" for none. */
function clusterAt(table: RoutingTable, proxyTo: string): string {
  for (const cluster of table.clusters.values()) if (cluster.proxyTo === proxyTo) return cluster.name;
  return '';
}
