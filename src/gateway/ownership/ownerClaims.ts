import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { within } from '../../model/timeLimit.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { COORDINATOR_ID, coordinatorSuffix, QUEUE_SUFFIX, SUFFIX_LENGTH } from '../../routing/statementProtocol.ts';
import type { Store } from '../../store/store.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import { mayHaveMoved, type OwnershipConflict, ownerOf, type QueryOwner } from './queryOwner.ts';

/** Parts of the data plane that claims work with. */
interface ClaimParts {
  readonly store: Pick<Store, 'coordinators' | 'queries'>;
  readonly table: { readonly current: RoutingTable };
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Times of claims, milliseconds. */
interface ClaimTimes {
  /** `routing.ownerTakeover`. */
  readonly takeover: number;
  /** Longest wait for the database. */
  readonly learnTimeout: number;
}

/** The outcome of a claim; null: the claimant is the owner. */
export type Claimed = OwnershipConflict | null;

interface Pending {
  readonly owner: QueryOwner;
  readonly outcome: Promise<Claimed>;
}

/** Writes that wait for the database. */
const MAX_UNWRITTEN = 100_000;
const REPEATED_AT_ONCE = 100;
/** Suffixes whose claim the database gave to another cluster than this replica's memory did. */
const MAX_CONTESTED = 10_000;
/** Milliseconds after which a cluster may claim one more suffix: 360 an hour, more than any restarting cluster needs. */
const REFILL_MS = 10_000;
const MAX_CLUSTERS = 10_000;

/** Stands for the gateway if a cluster claims ids of the gateway. */
const gatewayItself: QueryOwner = { cluster: '', proxyTo: '' };

/**
 * Decides who owns a suffix or a query id: the first to claim it, by an insert into the database, keeps it. The owner
 * loses it only when it moves to another address, or when no replica saw a sign of life of it for
 * `routing.ownerTakeover`. While the database is unavailable this replica's memory decides, and the database settles the
 * claim later: the first one that is stored wins.
 */
export class OwnerClaims {
  readonly #owners: KnownOwners;
  readonly #presence: OwnerPresence;
  readonly #parts: ClaimParts;
  readonly #times: ClaimTimes;
  readonly #noteAway: () => void;
  readonly #pending = new Map<string, Pending>();
  readonly #unwritten = new FairMap<string, QueryOwner>(MAX_UNWRITTEN);
  /** Clusters that responded with an id whose suffix the database has not confirmed yet. */
  readonly #unsettled = new FairMap<string, QueryOwner>(MAX_FULL_IDS);
  readonly #contested = new LRUCache<string, true>({ max: MAX_CONTESTED });
  /** Limit of new coordinators per cluster: a burst of 256, then one every 10 s. */
  readonly #budgets = new LRUCache<string, { left: number; at: number }>({ max: MAX_CLUSTERS });

  /** @param noteAway called when the database cannot be read or written */
  constructor(
    owners: KnownOwners,
    presence: OwnerPresence,
    parts: ClaimParts,
    times: ClaimTimes,
    noteAway: () => void,
  ) {
    this.#owners = owners;
    this.#presence = presence;
    this.#parts = parts;
    this.#times = times;
    this.#noteAway = noteAway;
  }

  /**
   * A cluster responded with a query id, which makes it the owner where no one else is.
   * @param id a plausible one
   * @returns null when it is the owner and all is stored; else a promise of the outcome, which takes no longer than the
   *   learn timeout (the owner is then stored later) and never rejects
   */
  learn(id: string, owner: QueryOwner): null | Promise<Claimed> {
    const suffix = COORDINATOR_ID.test(id) ? id.slice(-SUFFIX_LENGTH) : null;
    const entry = suffix === null ? undefined : this.#owners.get(suffix);
    if (entry?.settled === true && entry.owner.proxyTo === owner.proxyTo && entry.owner.cluster === owner.cluster) {
      entry.isUsed = true;
      return null;
    }
    const key = suffix ?? fullIdKey(id);
    // The gateway's own: a cluster that could own them would get the requests for queries that wait.
    if (key === QUEUE_SUFFIX) return Promise.resolve({ kind: 'owned', owner: gatewayItself });
    const isFullId = fullIdOf(key) !== null;
    const claimed = this.claim(key, owner, isFullId ? () => true : () => this.#takeBudget(owner.cluster));
    if (isFullId) return claimed;
    if (claimed === null) {
      this.#noteUnsettled(key, id, owner);
      return null;
    }
    return claimed.then((outcome) => {
      if (outcome === null) this.#noteUnsettled(key, id, owner);
      return outcome;
    });
  }

  /**
   * Claims a suffix or an id for a cluster, as `learn` does.
   * @param mayClaim asked for a key that no one owns: whether the claimant may have one more
   */
  claim(key: string, claimant: QueryOwner, mayClaim: () => boolean): null | Promise<Claimed> {
    const entry = this.#owners.get(key);
    if (entry === undefined) return this.#claimNew(key, claimant, mayClaim);
    if (entry.owner.proxyTo !== claimant.proxyTo) return this.#dispute(key, claimant, entry);
    if (entry.owner.cluster !== claimant.cluster) this.#rename(entry, claimant);
    return null;
  }

  /**
   * True if a cluster responded with the id while the database was unavailable, which then confirmed another cluster as
   * the owner of the id's suffix. Which of the two runs the query cannot be known: neither gets its requests.
   */
  isDisowned(id: string): boolean {
    if (this.#contested.size === 0) return false;
    const key = ownerKey(id);
    if (!this.#contested.has(key)) return false;
    const claimant = this.#unsettled.get(id);
    return claimant !== undefined && claimant.proxyTo !== this.#owners.get(key)?.owner.proxyTo;
  }

  /** The owner in the database. Rejects while the database is unavailable. */
  async stored(key: string): Promise<QueryOwner | null> {
    const { coordinators, queries } = this.#parts.store;
    const id = fullIdOf(key);
    const row: QueryOwner | null = await (id === null ? coordinators.get(key) : queries.get(id));
    return row === null ? null : ownerOf(row);
  }

  /** Repeats writes that the database could not take. */
  writeAgain(): void {
    let left = REPEATED_AT_ONCE;
    for (const [key, owner] of this.#unwritten.entries()) {
      if (left-- === 0) return;
      this.#unwritten.delete(key);
      this.#store(key, owner).then(
        (stored) => this.#settle(key, owner, stored),
        () => this.#unwritten.set(key, owner.cluster, owner),
      );
    }
  }

  #noteUnsettled(suffix: string, id: string, owner: QueryOwner): void {
    const coordinator = this.#owners.get(suffix);
    if (coordinator === undefined || coordinator.owner.proxyTo !== owner.proxyTo) return;
    coordinator.isUsed = true;
    if (!coordinator.settled) this.#unsettled.set(id, owner.cluster, owner);
  }

  #takeBudget(cluster: string): boolean {
    const now = this.#parts.clock.monotonic();
    const budget = this.#budgets.get(cluster) ?? { left: MAX_COORDINATORS_PER_CLUSTER, at: now };
    const left = Math.min(MAX_COORDINATORS_PER_CLUSTER, budget.left + (now - budget.at) / REFILL_MS);
    this.#budgets.set(cluster, { left: left < 1 ? left : left - 1, at: now });
    return left >= 1;
  }

  /** Stores an owner where the key has none. @returns the owner that is stored afterwards */
  async #store(key: string, owner: QueryOwner): Promise<QueryOwner> {
    const { store, clock } = this.#parts;
    const { cluster, proxyTo } = owner;
    const id = fullIdOf(key);
    const now = clock.now();
    if (id !== null) return ownerOf(await store.queries.learn({ queryId: id, cluster, proxyTo, created: now }));
    return ownerOf(await store.coordinators.learn({ suffix: key, ...ownerOf(owner), lastSeen: now }));
  }

  /**
   * Replaces a stored owner.
   * @param silentFor milliseconds for which no replica may have seen a sign of life of `from`; null if it does not
   * matter
   * @returns the owner that is stored afterwards
   */
  async #replace(key: string, from: QueryOwner, to: QueryOwner, silentFor: number | null): Promise<QueryOwner> {
    const { store, clock } = this.#parts;
    const { cluster, proxyTo } = to;
    const id = fullIdOf(key);
    const now = clock.now();
    if (id !== null) {
      return ownerOf(await store.queries.replace({ queryId: id, cluster, proxyTo, created: now }, from.proxyTo));
    }
    const row = { suffix: key, ...ownerOf(to), lastSeen: now };
    return ownerOf(await store.coordinators.replace(row, from.proxyTo, silentFor === null ? null : now - silentFor));
  }

  /** Two clusters are registered with one URL, or one has a new name: the owner's name is one that is registered. */
  #rename(entry: KnownOwner, claimant: QueryOwner): void {
    const { clusters } = this.#parts.table.current;
    if (clusters.get(entry.owner.cluster)?.proxyTo === entry.owner.proxyTo) return;
    if (clusters.get(claimant.cluster)?.proxyTo === claimant.proxyTo) entry.owner = claimant;
  }

  #claimNew(key: string, claimant: QueryOwner, mayClaim: () => boolean): Promise<Claimed> {
    const pending = this.#pending.get(key);
    if (pending !== undefined) {
      if (pending.owner.proxyTo === claimant.proxyTo) return pending.outcome;
      return pending.outcome.then(() => this.claim(key, claimant, mayClaim));
    }
    if (!mayClaim()) return Promise.resolve({ kind: 'tooMany' });
    const outcome = this.#decide(key, claimant).finally(() => this.#pending.delete(key));
    this.#pending.set(key, { owner: claimant, outcome });
    return outcome;
  }

  async #decide(key: string, claimant: QueryOwner): Promise<Claimed> {
    const owners = this.#owners;
    let isLate = false;
    const writing = this.#store(key, claimant).then(
      (stored) => {
        if (isLate) this.#settle(key, claimant, stored);
        return stored;
      },
      (error: unknown) => {
        this.#noteAway();
        this.#unwritten.set(key, claimant.cluster, claimant);
        this.#parts.logger.warn({ err: error, ...named(key) }, 'failed to store owner of queries; kept in memory');
        return null;
      },
    );
    const stored = await within(writing, this.#times.learnTimeout, 'late' as const);
    if (stored === 'late') isLate = true;
    // A lookup may have found the owner meanwhile.
    const entry = owners.get(key);
    if (entry !== undefined && entry.owner.proxyTo !== claimant.proxyTo) return this.#dispute(key, claimant, entry);
    const isStored = stored !== null && stored !== 'late';
    if (isStored && stored.proxyTo !== claimant.proxyTo) {
      return this.#dispute(key, claimant, owners.remember(key, stored, true));
    }
    owners.remember(key, claimant, isStored);
    return null;
  }

  async #dispute(key: string, claimant: QueryOwner, { owner, settled }: KnownOwner): Promise<Claimed> {
    const { table, logger } = this.#parts;
    const { takeover, learnTimeout } = this.#times;
    const isMoved = mayHaveMoved(table.current, owner, claimant);
    try {
      if (isMoved) {
        this.#owners.remember(key, claimant, settled);
        await this.#takeOver(key, owner, claimant, null);
        return null;
      }
      if (this.#presence.silentFor(owner.proxyTo) < takeover) return { kind: 'owned', owner };
      const stored = (await within(this.stored(key), learnTimeout, null)) ?? owner;
      if (stored.proxyTo === claimant.proxyTo) {
        this.#owners.remember(key, claimant, true);
        return null;
      }
      if (stored.proxyTo !== owner.proxyTo) this.#owners.remember(key, stored, true);
      if (this.#presence.silentFor(stored.proxyTo) < takeover) return { kind: 'owned', owner: stored };
      return await this.#takeOver(key, stored, claimant, takeover);
    } catch (error) {
      this.#noteAway();
      logger.debug({ err: error, ...named(key) }, 'failed to decide claim of query ids in the database');
      return isMoved ? null : { kind: 'owned', owner };
    }
  }

  /** Replaces an owner in the database, and in memory as the database has it then. @param silence as of `#replace` */
  async #takeOver(key: string, from: QueryOwner, to: QueryOwner, silence: number | null): Promise<Claimed> {
    const stored = await within(this.#replace(key, from, to, silence), this.#times.learnTimeout, null);
    if (stored === null) return { kind: 'owned', owner: from };
    const isOwner = stored.proxyTo === to.proxyTo;
    this.#owners.remember(key, isOwner ? to : stored, true);
    if (isOwner && silence !== null) {
      this.#parts.logger.warn({ ...named(key), from: from.cluster, to: to.cluster }, 'owner of query ids changed');
    }
    return isOwner ? null : { kind: 'owned', owner: stored };
  }

  /** The database settled what memory had decided. */
  #settle(key: string, claimant: QueryOwner, stored: QueryOwner): void {
    const { table, logger } = this.#parts;
    const entry = this.#owners.get(key);
    if (stored.proxyTo === claimant.proxyTo) {
      if (entry?.owner.proxyTo === stored.proxyTo) entry.settled = true;
      return;
    }
    if (entry !== undefined && entry.owner.proxyTo !== claimant.proxyTo) return;
    if (mayHaveMoved(table.current, stored, claimant)) {
      this.#replace(key, stored, claimant, null).catch(this.#noteAway);
      return;
    }
    this.#owners.remember(key, stored, true);
    if (fullIdOf(key) !== null) return;
    this.#contested.set(key, true);
    const clusters = [stored.cluster, claimant.cluster];
    logger.warn(
      { suffix: key, clusters },
      'suffix claimed by two clusters during an outage; the first stored keeps it',
    );
  }
}

/** The key for log messages. */
function named(key: string): { readonly suffix: string } | { readonly queryId: string } {
  const id = fullIdOf(key);
  return id === null ? { suffix: key } : { queryId: id };
}

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
    const suffix = COORDINATOR_ID.test(id) ? id.slice(-SUFFIX_LENGTH) : null;
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
  readonly #upstreams: Pick<Upstreams, 'byProxyTo'>;
  readonly #clock: Clock;
  readonly #lastAlive = new Map<string, number>();

  constructor(table: { readonly current: RoutingTable }, upstreams: Pick<Upstreams, 'byProxyTo'>, clock: Clock) {
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
        health.status !== 'UNHEALTHY' && (this.#upstreams.byProxyTo.get(proxyTo)?.unreachableSince ?? null) === null;
      if (isAlive || !this.#lastAlive.has(proxyTo)) this.#lastAlive.set(proxyTo, now);
    }
    for (const proxyTo of this.#lastAlive.keys()) if (!present.has(proxyTo)) this.#lastAlive.delete(proxyTo);
  }

  /** Milliseconds since the last sign of life at a `proxyTo`; 0 for one that was never sampled. */
  silentFor(proxyTo: string): number {
    const now = this.#clock.monotonic();
    return (
      now - Math.max(this.#lastAlive.get(proxyTo) ?? now, this.#upstreams.byProxyTo.get(proxyTo)?.lastResponded ?? 0)
    );
  }
}

/**
 * A bounded map with entries in groups. A full group evicts its own oldest entries; a full map evicts the oldest
 * entries of its largest group. So a client that fills one group never displaces the entries of the others.
 */
export class FairMap<Key, Value> {
  readonly #max: number;
  readonly #maxPerGroup: number;
  readonly #entries = new Map<Key, { readonly group: string; readonly value: Value }>();
  readonly #groups = new Map<string, Set<Key>>();

  /** @param max bound in entries */
  constructor(max: number, maxPerGroup: number = max) {
    this.#max = max;
    this.#maxPerGroup = maxPerGroup;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Entries in insertion order. */
  *entries(): IterableIterator<readonly [Key, Value]> {
    for (const [key, { value }] of this.#entries) yield [key, value];
  }

  *values(): IterableIterator<Value> {
    for (const { value } of this.#entries.values()) yield value;
  }

  /** Sets an entry, which becomes the newest of its group. */
  set(key: Key, group: string, value: Value): void {
    this.delete(key);
    let members = this.#groups.get(group);
    if (members !== undefined && members.size >= this.#maxPerGroup) this.#dropOldest(group, members, this.#maxPerGroup);
    if (this.#entries.size >= this.#max) {
      const [largest, its] = this.#largest();
      this.#dropOldest(largest, its, this.#max);
    }
    members = this.#groups.get(group);
    if (members === undefined) {
      members = new Set();
      this.#groups.set(group, members);
    }
    members.add(key);
    this.#entries.set(key, { group, value });
  }

  delete(key: Key): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    const members = this.#groups.get(entry.group);
    members?.delete(key);
    if (members?.size === 0) this.#groups.delete(entry.group);
  }

  #largest(): readonly [string, Set<Key>] {
    let largest: readonly [string, Set<Key>] = ['', new Set()];
    for (const one of this.#groups) if (one[1].size > largest[1].size) largest = one;
    return largest;
  }

  /**
   * Evicts several entries of a large group at a time: a Set keeps the slots of deleted entries until it is rebuilt,
   * and a search for its first entry scans all of them.
   */
  #dropOldest(group: string, members: Set<Key>, bound: number): void {
    let left = Math.min(members.size, 1 + (bound >> 7));
    for (const key of members) {
      members.delete(key);
      this.#entries.delete(key);
      if (--left === 0) break;
    }
    if (members.size === 0) this.#groups.delete(group);
  }
}
