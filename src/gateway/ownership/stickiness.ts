import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { FairMap } from '../../model/fairMap.ts';
import { within } from '../../model/timeLimit.ts';
import { coordinatorSuffix, isPlausible, QUEUE_SUFFIX } from '../../routing/queryId.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { HistoryWriter, Store } from '../../store/store.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import { ClaimBudget } from './claimBudget.ts';
import { KnownCoordinators } from './knownCoordinators.ts';
import { type ClaimConditions, type Claimed, type KnownOwner, OwnerClaims } from './ownerClaims.ts';
import { OwnerPresence } from './ownerPresence.ts';
import { coordinatorRecords, ownerOf, queryRecords } from './ownerRecords.ts';
import { identified, type QueryOwner } from './queryOwner.ts';

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

const MAX_FULL_IDS = 100_000;
const MAX_MISSES = 10_000;
/** Suffixes whose claim the database gave to another cluster than this replica's memory did. */
const MAX_CONTESTED = 10_000;

/** Parts of the data plane that stickiness works with. */
interface StickinessParts {
  readonly store: Pick<Store, 'coordinators' | 'queries' | 'history'>;
  readonly history: Pick<HistoryWriter, 'findBuffered'>;
  readonly table: { readonly current: RoutingTable };
  readonly upstreams: Pick<Upstreams, 'peek'>;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Milliseconds between two reads of all owners: a client that invents keys of clusters must not keep the database busy. */
const READ_ALL_INTERVAL = 1_000;

/** Knows which cluster a query runs on: in memory, in the database, on every replica (docs/routing.md). */
export class Stickiness {
  readonly #dependencies: StickinessParts;
  readonly #takeover: number;
  readonly #options: StickinessOptions;
  readonly #coordinators = new KnownCoordinators();
  /** Owners of ids that end in no suffix. */
  readonly #fullIds = new FairMap<string, KnownOwner>({ max: MAX_FULL_IDS });
  /** Clusters that responded with an id whose suffix the database has not confirmed yet. */
  readonly #unsettled = new FairMap<string, QueryOwner>({ max: MAX_FULL_IDS });
  readonly #contested = new LRUCache<string, true>({ max: MAX_CONTESTED });
  readonly #suffixClaims: OwnerClaims;
  readonly #idClaims: OwnerClaims;
  readonly #budget: ClaimBudget;
  readonly #presence: OwnerPresence;
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
    const { store, table, upstreams, clock, logger } = parts;
    this.#dependencies = parts;
    this.#takeover = takeover;
    this.#options = options;
    this.#budget = new ClaimBudget(clock);
    this.#presence = new OwnerPresence(table, upstreams, clock);
    this.#misses = new LRUCache({
      max: MAX_MISSES,
      ttl: options.missTtl,
      perf: { now: () => clock.monotonic() },
    });
    const conditions: ClaimConditions = {
      table,
      silentFor: (proxyTo) => this.#presence.silentFor(proxyTo),
      takeover,
      learnTimeout: options.learnTimeout,
      unavailable: () => this.#noteAway(),
      logger,
    };
    const bySuffix = coordinatorRecords(store, clock);
    this.#suffixClaims = new OwnerClaims(this.#coordinators, bySuffix, conditions, (suffix, claimant, owner) => {
      this.#contested.set(suffix, true);
      const clusters = [owner.cluster, claimant.cluster];
      logger.warn({ suffix, clusters }, 'suffix claimed by two clusters during an outage; the first stored keeps it');
    });
    const fullIds = {
      get: (id: string) => this.#fullIds.get(id),
      remember: (id: string, owner: QueryOwner, settled: boolean) => this.#rememberId(id, owner, settled),
    };
    this.#idClaims = new OwnerClaims(fullIds, queryRecords(store, clock), conditions, () => undefined);
  }

  /** Loads the coordinators known to the database and starts looking after their rows. Never rejects. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => this.#tick(), this.#options.tick).unref();
    this.#nextRefresh = this.#dependencies.clock.monotonic() + this.#interval();
    try {
      await this.#load();
    } catch (error) {
      this.#noteAway();
      this.#dependencies.logger.warn({ err: error }, 'failed to load coordinators; looked up individually');
    }
    this.#presence.sample(this.#coordinators.addresses());
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** The owner as far as memory knows. */
  ownerNow(id: string): QueryOwner | null {
    const suffix = coordinatorSuffix(id);
    if (suffix === null) return this.#fullIds.get(id)?.owner ?? null;
    const coordinator = this.#coordinators.get(suffix);
    if (coordinator === undefined) return this.#fullIds.get(id)?.owner ?? null;
    if (this.isDisowned(id)) return null;
    coordinator.isUsed = true;
    return coordinator.owner;
  }

  /**
   * True if a cluster responded with the id while the database was unavailable, which then confirmed another cluster as
   * the owner of the id's suffix. Which of the two runs the query cannot be known: neither gets its requests.
   */
  isDisowned(id: string): boolean {
    if (this.#contested.size === 0) return false;
    const suffix = coordinatorSuffix(id);
    if (suffix === null || !this.#contested.has(suffix)) return false;
    const claimant = this.#unsettled.get(id);
    return claimant !== undefined && claimant.proxyTo !== this.#coordinators.get(suffix)?.owner.proxyTo;
  }

  /** The owner that was learned last among those that fulfil a condition, as far as memory knows. */
  newestOwner(condition: (owner: QueryOwner) => boolean): QueryOwner | null {
    return this.#coordinators.newestOwner(condition);
  }

  /** Looks for such an owner in the database. Never rejects. */
  async findNewestOwner(condition: (owner: QueryOwner) => boolean): Promise<QueryOwner | 'unknown' | 'undecided'> {
    const { logger } = this.#dependencies;
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
    const { store, clock } = this.#dependencies;
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
    if (!isPlausible(id)) return Promise.resolve('unknown');
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
    const { store, logger } = this.#dependencies;
    const suffix = coordinatorSuffix(id);
    try {
      const row = await within<QueryOwner | null, null>(
        suffix === null ? store.queries.get(id) : store.coordinators.get(suffix),
        this.#options.lookupTimeout,
        null,
      );
      if (row === null) return null;
      const owner = ownerOf(row);
      if (suffix === null) this.#rememberId(id, owner, true);
      else this.#adopt(suffix, owner);
      return owner;
    } catch (error) {
      this.#noteAway();
      logger.warn({ err: error, queryId: id }, 'failed to repeat lookup of query owner');
      return null;
    }
  }

  /** True if the cluster of the id's coordinator is back under a new suffix: the query died with its coordinator. */
  isSuperseded(id: string): boolean {
    const suffix = coordinatorSuffix(id);
    return suffix !== null && this.#coordinators.isSuperseded(suffix);
  }

  /**
   * A cluster responded with a query id, which makes it the owner where no one else is.
   * @param id a plausible one
   * @returns null when it is the owner and that is stored already; else a promise of the outcome, within the learn
   * timeout
   * (the owner is then stored later). Never rejects.
   */
  learn(id: string, owner: QueryOwner): null | Promise<Claimed> {
    const suffix = coordinatorSuffix(id);
    if (suffix === null) return this.#idClaims.learn(id, owner, () => true);
    // The gateway's own: a cluster that could own them would get the requests for queries that wait.
    if (suffix === QUEUE_SUFFIX) return Promise.resolve({ kind: 'owned', owner: gatewayItself });
    const claimed = this.#suffixClaims.learn(suffix, owner, () => this.#budget.take(owner.cluster));
    if (claimed === null) {
      this.#noteUnsettled(suffix, id, owner);
      return null;
    }
    return claimed.then((outcome) => {
      if (outcome === null) this.#noteUnsettled(suffix, id, owner);
      return outcome;
    });
  }

  /**
   * Updates the stored rows of coordinators that are alive, and takes over what other replicas have changed. Called by a
   * timer. Rejects while the database is unavailable.
   */
  async refresh(): Promise<void> {
    const { store, clock } = this.#dependencies;
    const interval = this.#interval();
    const used = this.#coordinators.takeUsed((proxyTo) => this.#presence.silentFor(proxyTo) < interval);
    if (used.length > 0) await store.coordinators.touch(used, clock.now());
    await this.#load();
  }

  /** Notes who is alive, and writes what the database could not take. Called by a timer. */
  sample(): void {
    this.#presence.sample(this.#coordinators.addresses());
    this.#suffixClaims.writeAgain();
    this.#idClaims.writeAgain();
  }

  #noteUnsettled(suffix: string, id: string, owner: QueryOwner): void {
    const coordinator = this.#coordinators.get(suffix);
    if (coordinator === undefined || coordinator.owner.proxyTo !== owner.proxyTo) return;
    coordinator.isUsed = true;
    if (!coordinator.settled) this.#unsettled.set(id, owner.cluster, owner);
  }

  #rememberId(id: string, owner: QueryOwner, settled: boolean): KnownOwner {
    const entry = { owner, settled };
    this.#fullIds.set(id, owner.cluster, entry);
    return entry;
  }

  /** Milliseconds between two updates of the stored coordinators. */
  #interval(): number {
    return Math.min(this.#options.touchInterval, Math.max(this.#options.tick, this.#takeover / 4));
  }

  async #load(): Promise<void> {
    const rows = await this.#dependencies.store.coordinators.all();
    for (const row of [...rows].sort((a, b) => a.lastSeen - b.lastSeen)) this.#adopt(row.suffix, ownerOf(row));
  }

  /** Takes over what the database has, unless memory waits to write something else. */
  #adopt(suffix: string, stored: QueryOwner): void {
    const coordinator = this.#coordinators.get(suffix);
    if (coordinator !== undefined && (!coordinator.settled || coordinator.owner.proxyTo === stored.proxyTo)) return;
    this.#coordinators.remember(suffix, identified(this.#dependencies.table.current, stored), true);
  }

  /** The database cannot be read or written right now. */
  #noteAway(): void {
    this.#undecidedUntil = this.#dependencies.clock.monotonic() + this.#options.catchUpTime;
  }

  /** Meaning of a query that the database does not know. */
  #whileUnknown(): 'unknown' | 'undecided' {
    return this.#dependencies.clock.monotonic() < this.#undecidedUntil ? 'undecided' : 'unknown';
  }

  async #lookUp(id: string): Promise<Lookup> {
    const { logger } = this.#dependencies;
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
    const { store, history, table } = this.#dependencies;
    const suffix = coordinatorSuffix(id);
    const [query, coordinator] = await Promise.all([
      store.queries.get(id),
      suffix === null ? null : store.coordinators.get(suffix),
    ]);
    // The owner of the suffix first: a row by full id may be older than the claim of the suffix.
    if (coordinator !== null && suffix !== null) {
      this.#adopt(suffix, ownerOf(coordinator));
      return { owner: this.#coordinators.get(suffix)?.owner ?? ownerOf(coordinator), source: 'coordinator' };
    }
    if (query !== null) {
      const owner = identified(table.current, ownerOf(query));
      this.#rememberId(id, owner, true);
      return { owner, source: 'query' };
    }
    const record = history.findBuffered(id) ?? (await store.history.get(id));
    if (record !== null && record.backendUrl !== '') {
      const proxyTo = record.backendUrl.replace(/\/+$/, '');
      const cluster = record.cluster === '' ? clusterAt(table.current, proxyTo) : record.cluster;
      const owner = identified(table.current, { cluster, proxyTo });
      if (suffix === null) this.#rememberId(id, owner, true);
      // Nobody has claimed the suffix since: it is that of the coordinator that ran this query.
      else await this.#suffixClaims.learn(suffix, owner, () => true);
      return { owner, source: 'history' };
    }
    return 'unknown';
  }

  #tick(): void {
    const { clock, logger } = this.#dependencies;
    this.sample();
    if (clock.monotonic() < this.#nextRefresh) return;
    this.#nextRefresh = clock.monotonic() + this.#interval();
    void this.refresh().catch((error: unknown) => logger.warn({ err: error }, 'failed to update stored coordinators'));
  }
}

/** Stands for the gateway where ids of its own are claimed by a cluster. */
const gatewayItself: QueryOwner = { cluster: '', proxyTo: '' };

/** Registry name of the cluster at a `proxyTo`; "" for none. */
function clusterAt(table: RoutingTable, proxyTo: string): string {
  for (const cluster of table.clusters.values()) if (cluster.proxyTo === proxyTo) return cluster.name;
  return '';
}
