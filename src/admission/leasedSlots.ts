import type { Clock, Random } from '../model/clock.ts';
import type { CounterChange, LockedCounter, SlotRow, TokenBucket } from '../store/store.ts';
import type { AcquiredSlots, RateLimit, SlotDemand, SlotLedger, SlotResult } from './slotLedger.ts';
import { shareOf } from './slotShares.ts';

/** Dependencies of `LeasedSlots`. */
export interface LeasedSlotsDependencies {
  readonly replica: string;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly random: Random;
}

/**
 * Lease duration: after this time without a heartbeat other replicas may adopt the queries of this one, by the
 * database's clock.
 */
export const LEASE_MS = 15_000;
/** This replica stops acquiring slots this much earlier: covers clocks that run at different rates. */
const LEASE_MARGIN_MS = 3_000;
/**
 * Heartbeat interval of a counter with local waiters: together with the database's latency, a free slot is used within
 * 300 ms.
 */
const WAITING_HEARTBEAT_MS = 150;
/**
 * Heartbeat interval of a counter with waiters at other replicas; also the polling interval of waiters at other
 * replicas.
 */
export const SHORT_HEARTBEAT_MS = 250;
/** Heartbeat interval of a counter with changes. */
const LONG_HEARTBEAT_MS = 2_000;
/** Heartbeat interval of any other counter: renews its lease. */
const RENEWAL_MS = 5_000;
/** Minimum time between two heartbeats of a counter. */
const MIN_HEARTBEAT_MS = 20;
/** Retry delay after the database failed. */
const FAILED_HEARTBEAT_MS = 500;
/** Idle time after which a counter is released and removed. */
const IDLE_MS = 5_000;
const BATCH = 200;
/**
 * Maximum number of counters of a replica: user names create them. A further one is full until idle ones are removed.
 */
const MAX_COUNTERS = 20_000;
/** Time for which an indivisible slot belongs to the same replica. */
const TURN_MS = 1_000;

interface Counter {
  readonly key: string;
  limit: number;
  rate: RateLimit | null;
  inUse: number;
  waiting: number;
  granted: number;
  /** Slots may be acquired while fewer are in use: the share, as far as it is granted. */
  allowed: number;
  leaseUntil: number;
  /** Whole tokens drawn from the bucket. */
  tokens: number;
  spent: number;
  waitingElsewhere: number;
  usedElsewhere: number;
  /** True keeps it while it is unused, so that the next query need not wait for a heartbeat. */
  isReserved: boolean;
  changed: boolean;
  lastUsed: number;
  /** Monotonic time before which local waiters claim no slots, as they wait for another counter. */
  claimAfter: number;
  lastHeartbeat: number;
  due: number;
  /** Pending values of the current heartbeat; null: its row is deleted, undefined: none. */
  pending: PendingShare | null | undefined;
}

interface PendingShare {
  readonly granted: number;
  allowed: number;
  readonly drawn: number;
  readonly waitingElsewhere: number;
  readonly usedElsewhere: number;
}

/** A heartbeat: reports counters and gets their shares. Each is ended by `commit` or `fail`. */
export interface Heartbeat {
  /** Sorted. */
  readonly keys: readonly string[];
  /** Decides within the transaction; may be called again on a retry. */
  decide(now: number, counters: ReadonlyMap<string, LockedCounter>): readonly CounterChange[];
  commit(): void;
  fail(): void;
}

export interface CounterState {
  readonly key: string;
  readonly limit: number;
  readonly inUse: number;
  readonly waiting: number;
  readonly granted: number;
  readonly usedElsewhere: number;
  readonly waitingElsewhere: number;
}

/**
 * Slots leased by this replica (docs/architecture.md#slots). The sum of all granted slots never exceeds a limit, so
 * each replica acquires slots from its part without coordination. A heartbeat reports usage and waiters, releases slots
 * that others need, and acquires free ones. Without the database no replica receives more, and a replica that could not
 * report in time acquires nothing.
 *
 * A state machine without I/O: its owner runs the heartbeats, one at a time.
 */
export class LeasedSlots implements SlotLedger {
  readonly #dependencies: LeasedSlotsDependencies;
  readonly #counters = new Map<string, Counter>();
  readonly #listeners = new Set<(keys: readonly string[]) => void>();
  #earliest = Number.POSITIVE_INFINITY;
  #onDue: () => void = () => {};
  #isRetired = false;
  /** True if a heartbeat did not find a row that an earlier one had written. */
  #lacksRow = false;
  /** Time of the last removal of idle counters, because there were too many. */
  #forgot = Number.NEGATIVE_INFINITY;

  constructor(dependencies: LeasedSlotsDependencies) {
    this.#dependencies = dependencies;
  }

  take(demands: readonly SlotDemand[]): SlotResult {
    const now = this.#dependencies.clock.monotonic();
    let full: string[] | null = null;
    const counters: Counter[] = [];
    for (const demand of demands) {
      const counter = this.#counterOf(demand);
      if (counter !== null && hasFree(counter, now)) counters.push(counter);
      else {
        full ??= [];
        full.push(demand.key);
      }
    }
    if (full !== null) return { acquired: null, full };
    for (const counter of counters) this.#use(counter, now);
    return { acquired: new LocalSlots(counters, (all) => this.#return(all)), full: null };
  }

  hasCapacity(demand: SlotDemand): boolean {
    const now = this.#dependencies.clock.monotonic();
    const counter = this.#counterOf(demand);
    return counter !== null && hasFree(counter, now);
  }

  setWaiting(demand: SlotDemand, waiting: number): void {
    const now = this.#dependencies.clock.monotonic();
    const counter = waiting > 0 ? this.#addCounter(demand, now) : this.#counters.get(demand.key);
    if (counter === undefined || counter.waiting === waiting) return;
    const isMore = waiting > counter.waiting;
    counter.waiting = waiting;
    counter.lastUsed = now;
    counter.changed = true;
    if (isMore && !hasFree(counter, now)) this.#soon(counter, MIN_HEARTBEAT_MS);
    else this.#soon(counter, SHORT_HEARTBEAT_MS);
  }

  onCapacity(listener: (keys: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Applies changed limits: if one is lower, nothing is acquired before the next heartbeat.
   * @param demandOf the current demand of a key; null if no limit has it any more
   */
  revise(demandOf: (key: string) => Pick<SlotDemand, 'limit' | 'rate'> | null): void {
    const now = this.#dependencies.clock.monotonic();
    for (const counter of this.#counters.values()) {
      const demand = demandOf(counter.key);
      if (demand !== null) this.#adjust(counter, demand);
      else {
        counter.isReserved = false;
        counter.lastUsed = now - IDLE_MS;
      }
    }
  }

  keep(demand: SlotDemand): void {
    const now = this.#dependencies.clock.monotonic();
    const counter = this.#addCounter(demand, now);
    if (counter === undefined || counter.isReserved) return;
    counter.isReserved = true;
    this.#soon(counter, MIN_HEARTBEAT_MS);
  }

  /** True if all slots of a counter are in use on all replicas, or no token is left, as far as this replica knows. */
  isExhausted({ key, limit }: SlotDemand): boolean {
    const counter = this.#counters.get(key);
    if (counter === undefined || counter.leaseUntil === Number.NEGATIVE_INFINITY) return false;
    return counter.rate === null ? counter.inUse + counter.usedElsewhere >= limit : counter.tokens === 0;
  }

  /** Slots of a counter in use on all replicas, as far as this replica knows. */
  inUse(key: string): number {
    const counter = this.#counters.get(key);
    return counter === undefined ? 0 : counter.inUse + counter.usedElsewhere;
  }

  /** True if all slots of a counter of this replica are in use, so that each released one counts. */
  get isScarce(): boolean {
    for (const { inUse, allowed, waiting } of this.#counters.values()) {
      if (waiting > 0 || (inUse > 0 && inUse >= allowed)) return true;
    }
    return false;
  }

  /** True if this replica has all free slots of a counter, such as the only replica. */
  get holdsAllUnused(): boolean {
    for (const { inUse, granted, usedElsewhere, limit } of this.#counters.values()) {
      if (granted > inUse && granted + usedElsewhere >= limit) return true;
    }
    return false;
  }

  /** Submissions queued for a counter at other replicas, as of the last heartbeat. */
  waitingElsewhere(key: string): number {
    return this.#counters.get(key)?.waitingElsewhere ?? 0;
  }

  /** Counts slots of a query that runs in any case, regardless of the limit, without tokens. */
  adopt(demands: readonly SlotDemand[]): AcquiredSlots {
    return this.#adopt(demands, false);
  }

  /**
   * Like `adopt` for a query that the database already counts for this replica, regardless of the number of counters.
   */
  takeOver(demands: readonly SlotDemand[]): AcquiredSlots {
    return this.#adopt(demands, true);
  }

  #adopt(demands: readonly SlotDemand[], isCounted: boolean): AcquiredSlots {
    const now = this.#dependencies.clock.monotonic();
    const counters = demands.flatMap((demand) => (demand.rate ? [] : (this.#addCounter(demand, now, isCounted) ?? [])));
    for (const counter of counters) {
      counter.inUse += 1;
      counter.lastUsed = now;
      counter.changed = true;
      this.#soon(counter, MIN_HEARTBEAT_MS);
    }
    return new LocalSlots(counters, (all) => this.#return(all));
  }

  /** True if other replicas may have considered this replica dead and adopted its queries since the last call. */
  takeLostRow(): boolean {
    const lacksRow = this.#lacksRow;
    this.#lacksRow = false;
    return lacksRow;
  }

  /** True if this replica has slots that others may wait for without its knowledge. */
  get holdsUnused(): boolean {
    for (const { granted, inUse, tokens } of this.#counters.values()) if (granted > inUse || tokens > 0) return true;
    return false;
  }

  /** Stops acquiring; the next heartbeat releases unused slots. */
  retire(): void {
    this.#isRetired = true;
    for (const counter of this.#counters.values()) {
      counter.allowed = 0;
      counter.waiting = 0;
      counter.isReserved = false;
      counter.lastUsed = Number.NEGATIVE_INFINITY;
      this.#soon(counter, 0);
    }
  }

  /** Records counters with waiters at other replicas, from the database. */
  noteWaitingElsewhere(keys: Iterable<string>): void {
    for (const key of keys) {
      const counter = this.#counters.get(key);
      if (counter === undefined || counter.waitingElsewhere > 0) continue;
      counter.waitingElsewhere = 1;
      if (counter.granted > counter.inUse || counter.tokens > 0) this.#soon(counter, MIN_HEARTBEAT_MS);
    }
  }

  /** Calls the listener if the next heartbeat becomes due earlier. */
  onDue(listener: () => void): void {
    this.#onDue = listener;
  }

  /** Milliseconds to the next heartbeat; null: none is due. */
  get dueIn(): number | null {
    if (this.#counters.size === 0) return null;
    return Math.max(0, this.#earliest - this.#dependencies.clock.monotonic());
  }

  *states(): Iterable<CounterState> {
    yield* this.#counters.values();
  }

  /** Begins a heartbeat; null if none is due. Its owner ends it before the next one begins. */
  begin(): Heartbeat | null {
    const now = this.#dependencies.clock.monotonic();
    const due: Counter[] = [];
    let earliest = Number.POSITIVE_INFINITY;
    for (const counter of this.#counters.values()) {
      if (counter.due <= now && due.length < BATCH) due.push(counter);
      else earliest = Math.min(earliest, counter.due);
    }
    this.#earliest = earliest;
    if (due.length === 0) return null;
    for (const counter of due) {
      counter.changed = false;
      counter.due = Number.POSITIVE_INFINITY;
      counter.lastHeartbeat = now;
      counter.pending = undefined;
    }
    due.sort((one, other) => (one.key < other.key ? -1 : 1));
    return {
      keys: due.map(({ key }) => key),
      decide: (databaseNow, rows) => due.map((counter) => this.#decide(counter, databaseNow, rows.get(counter.key))),
      commit: () => this.#commit(due, now),
      fail: () => this.#fail(due),
    };
  }

  #decide(counter: Counter, now: number, locked: LockedCounter | undefined): CounterChange {
    const rows = locked?.rows ?? [];
    const { replica, clock, random } = this.#dependencies;
    const { key, inUse, limit } = counter;
    if (counter.leaseUntil !== Number.NEGATIVE_INFINITY && !rows.some((row) => row.replica === replica))
      this.#lacksRow = true;
    const others = rows.filter((row) => row.replica !== replica).map((row) => (row.expires > now ? row : inFull(row)));
    const waitingElsewhere = others.reduce((sum, row) => sum + row.waiting, 0);
    const usedElsewhere = others.reduce((sum, row) => sum + row.inUse, 0);
    const monotonic = clock.monotonic();
    if (inUse === 0 && counter.waiting === 0 && !counter.isReserved && monotonic - counter.lastUsed >= IDLE_MS) {
      counter.allowed = 0;
      counter.pending = null;
      const { rate } = counter;
      const bucket = rate === null ? null : stored(rate, putBack(counter, filled(rate, locked?.bucket ?? null, now)));
      counter.tokens = 0;
      return { key, own: null, expired: [], bucket, isUnused: others.length === 0 && bucket === null };
    }
    // Waiters despite free capacity lack slots of another counter. They release the slot at random, for a time: two
    // replicas, each with the slot that the other one needs, would otherwise deadlock or livelock.
    const available = hasFree(counter, monotonic) ? Math.max(0, counter.allowed - inUse) : 0;
    const blocked = available > 0 && counter.waiting > 0 && waitingElsewhere > 0;
    const givesUp = blocked && random() >= 0.5;
    if (givesUp) counter.claimAfter = monotonic + random() * LONG_HEARTBEAT_MS;
    const claims = !givesUp && (waitingElsewhere === 0 || monotonic >= counter.claimAfter);
    const waiting = !claims ? 0 : blocked ? Math.min(available, counter.waiting) : counter.waiting;
    if (counter.rate !== null) {
      const live = others.filter((row) => row.expires > now);
      const expired = others.filter((row) => row.expires <= now).map((row) => row.replica);
      return this.#draw(counter, counter.rate, { now, others: live.length, expired, waitingElsewhere, locked });
    }
    const demands = [...others, { replica, inUse, waiting }];
    const share = this.#isRetired ? 0 : shareOf(replica, limit, demands, turnOf(key, now));
    const free = limit - others.reduce((sum, row) => sum + row.granted, 0);
    const allowed = Math.max(0, Math.min(share, free));
    // May exceed the limit if it was lowered, or if this replica could not report: nothing new until enough queries
    // ended.
    const granted = Math.max(inUse, allowed);
    // Effective regardless of the transaction's result, as others may rely on it.
    counter.allowed = Math.min(counter.allowed, allowed);
    counter.pending = { granted, allowed, drawn: 0, waitingElsewhere, usedElsewhere };
    return {
      key,
      own: { granted, inUse, waiting, expires: now + LEASE_MS },
      expired: [],
      bucket: null,
      isUnused: false,
    };
  }

  /** Returns unused tokens of this replica, and draws new ones. */
  #draw(
    counter: Counter,
    rate: RateLimit,
    shares: {
      readonly now: number;
      readonly others: number;
      readonly expired: readonly string[];
      readonly waitingElsewhere: number;
      readonly locked: LockedCounter | undefined;
    },
  ): CounterChange {
    const { now, others, expired, waitingElsewhere, locked } = shares;
    const { key, waiting, spent } = counter;
    const full = putBack(counter, filled(rate, locked?.bucket ?? null, now));
    counter.tokens = 0;
    const available = Math.floor(full.tokens / 1000);
    const needed = waiting + 2 * spent + 1;
    const spare = available - Math.floor(available / (others + 2));
    const fair = waitingElsewhere > 0 ? Math.ceil(available / (others + 1)) : available;
    const drawn = Math.min(available, fair, Math.max(needed, Math.floor(spare / (others + 1))));
    counter.pending = { granted: 0, allowed: 0, drawn, waitingElsewhere, usedElsewhere: 0 };
    const bucket = stored(rate, { tokens: full.tokens - drawn * 1000, filled: full.filled });
    const own = { granted: 0, inUse: 0, waiting, expires: now + LEASE_MS };
    return { key, own, expired, bucket, isUnused: false };
  }

  #commit(due: readonly Counter[], began: number): void {
    const now = this.#dependencies.clock.monotonic();
    const roomy: string[] = [];
    for (const counter of due) {
      const { pending } = counter;
      counter.pending = undefined;
      if (pending === null || pending === undefined) {
        if (counter.inUse === 0 && counter.waiting === 0) this.#counters.delete(counter.key);
        else this.#notGranted(counter, now);
        continue;
      }
      counter.granted = pending.granted;
      counter.allowed = pending.allowed;
      counter.tokens += pending.drawn;
      counter.spent = 0;
      counter.waitingElsewhere = pending.waitingElsewhere;
      counter.usedElsewhere = pending.usedElsewhere;
      counter.leaseUntil = began + LEASE_MS - LEASE_MARGIN_MS;
      this.#setDue(counter, began + this.#intervalOf(counter));
      if (counter.waiting > 0 && hasFree(counter, now)) roomy.push(counter.key);
    }
    if (roomy.length > 0) this.#reportCapacity(roomy);
  }

  /** The row was released, but a new request arrived: starts over. */
  #notGranted(counter: Counter, now: number): void {
    counter.granted = 0;
    counter.allowed = 0;
    this.#setDue(counter, now);
  }

  #fail(due: readonly Counter[]): void {
    const now = this.#dependencies.clock.monotonic();
    for (const counter of due) {
      counter.pending = undefined;
      counter.changed = true;
      counter.due = Number.POSITIVE_INFINITY;
      counter.lastHeartbeat = now + FAILED_HEARTBEAT_MS;
      this.#setDue(counter, counter.lastHeartbeat);
    }
  }

  #intervalOf({ waiting, changed, waitingElsewhere, granted, inUse, tokens }: Counter): number {
    if (waiting > 0) return WAITING_HEARTBEAT_MS;
    if (waitingElsewhere > 0 && (granted > inUse || tokens > 0)) return SHORT_HEARTBEAT_MS;
    return changed ? LONG_HEARTBEAT_MS : RENEWAL_MS;
  }

  #use(counter: Counter, now: number): void {
    counter.lastUsed = now;
    counter.changed = true;
    if (counter.rate === null) counter.inUse += 1;
    else {
      counter.tokens -= 1;
      counter.spent += 1;
    }
    const isScarce = counter.waitingElsewhere > 0 || counter.rate !== null || counter.inUse >= counter.allowed;
    this.#soon(counter, isScarce ? SHORT_HEARTBEAT_MS : LONG_HEARTBEAT_MS);
  }

  #return(counters: readonly Counter[]): void {
    const now = this.#dependencies.clock.monotonic();
    const keys: string[] = [];
    for (const counter of counters) {
      if (counter.rate !== null) continue;
      counter.inUse -= 1;
      counter.lastUsed = now;
      counter.changed = true;
      if (counter.waitingElsewhere > 0 && counter.granted > counter.inUse) this.#soon(counter, MIN_HEARTBEAT_MS);
      else this.#soon(counter, LONG_HEARTBEAT_MS);
      if (counter.waiting === 0) continue;
      if (hasFree(counter, now)) keys.push(counter.key);
      else this.#soon(counter, MIN_HEARTBEAT_MS);
    }
    if (keys.length > 0) this.#reportCapacity(keys);
  }

  #reportCapacity(keys: readonly string[]): void {
    for (const listener of [...this.#listeners]) listener(keys);
  }

  /** The counter of a demand with the demand's limit, or null. */
  #counterOf(demand: SlotDemand): Counter | null {
    const counter = this.#counters.get(demand.key);
    if (counter === undefined) return null;
    if (counter.limit !== demand.limit) this.#adjust(counter, demand);
    return counter;
  }

  #addCounter(demand: SlotDemand, now: number, isCounted = false): Counter | undefined {
    const entry = this.#counterOf(demand);
    if (entry !== null) return entry;
    if (this.#counters.size >= MAX_COUNTERS && !isCounted) {
      this.#forgetIdle(now);
      return undefined;
    }
    const counter: Counter = {
      key: demand.key,
      limit: demand.limit,
      rate: demand.rate ?? null,
      inUse: 0,
      waiting: 0,
      granted: 0,
      allowed: 0,
      leaseUntil: Number.NEGATIVE_INFINITY,
      tokens: 0,
      spent: 0,
      waitingElsewhere: 0,
      usedElsewhere: 0,
      isReserved: false,
      changed: true,
      lastUsed: now,
      claimAfter: Number.NEGATIVE_INFINITY,
      lastHeartbeat: Number.NEGATIVE_INFINITY,
      due: Number.POSITIVE_INFINITY,
      pending: undefined,
    };
    this.#counters.set(demand.key, counter);
    return counter;
  }

  /** Lets the next heartbeat release and remove unused counters. */
  #forgetIdle(now: number): void {
    if (now - this.#forgot < SHORT_HEARTBEAT_MS) return;
    this.#forgot = now;
    for (const counter of this.#counters.values()) {
      if (counter.inUse > 0 || counter.waiting > 0 || counter.isReserved) continue;
      counter.lastUsed = now - IDLE_MS;
      this.#soon(counter, MIN_HEARTBEAT_MS);
    }
  }

  #adjust(counter: Counter, { limit, rate = null }: Pick<SlotDemand, 'limit' | 'rate'>): void {
    const isLess = limit < counter.limit;
    const differs = limit !== counter.limit;
    counter.limit = limit;
    counter.rate = rate;
    if (isLess) {
      // Nothing before the next heartbeat: not even a released slot is free, as too many may run at other replicas.
      counter.allowed = 0;
      if (counter.pending != null) counter.pending.allowed = 0;
    }
    if (!differs) return;
    counter.changed = true;
    this.#soon(counter, MIN_HEARTBEAT_MS);
  }

  /** Schedules the next heartbeat of a counter relative to the last one, unless it is due earlier. */
  #soon(counter: Counter, afterLast: number): void {
    const earliest = counter.lastHeartbeat + afterLast;
    // The usual case: avoids reading the clock.
    if (counter.due <= earliest) return;
    const due = Math.max(this.#dependencies.clock.monotonic(), earliest);
    if (due < counter.due) this.#setDue(counter, due);
  }

  #setDue(counter: Counter, due: number): void {
    counter.due = Math.min(due, counter.due);
    if (counter.due >= this.#earliest) return;
    this.#earliest = counter.due;
    this.#onDue();
  }
}

/** An expired row as other replicas count it until it is adopted: queries may use all granted slots. */
function inFull(row: SlotRow): SlotRow {
  return { ...row, inUse: row.granted, waiting: 0 };
}

function hasFree({ rate, tokens, inUse, allowed, leaseUntil }: Counter, now: number): boolean {
  return rate === null ? inUse < allowed && now < leaseUntil : tokens > 0;
}

function filled({ queries, periodMs, burst }: RateLimit, bucket: TokenBucket | null, now: number): TokenBucket {
  if (bucket === null) return { tokens: burst * 1000, filled: now };
  const since = Math.max(0, now - bucket.filled);
  const more = Math.floor((since * queries * 1000) / periodMs);
  if (more === 0) return { tokens: Math.min(burst * 1000, bucket.tokens), filled: Math.min(bucket.filled, now) };
  return { tokens: Math.min(burst * 1000, bucket.tokens + more), filled: now };
}

function putBack({ tokens, rate }: Counter, bucket: TokenBucket): TokenBucket {
  const most = (rate?.burst ?? 0) * 1000;
  return { tokens: Math.min(most, bucket.tokens + tokens * 1000), filled: bucket.filled };
}

/** The bucket with the time at which it is full again: a full bucket needs no row. */
function stored({ queries, periodMs, burst }: RateLimit, bucket: TokenBucket): NonNullable<CounterChange['bucket']> {
  const missing = burst * 1000 - bucket.tokens;
  return { ...bucket, expires: bucket.filled + Math.ceil((missing * periodMs) / (queries * 1000)) };
}

/** A number that increments each second, at another moment for each counter. */
function turnOf(key: string, now: number): number {
  let hash = 0;
  for (let index = 0; index < key.length; index++) hash = (hash * 31 + key.charCodeAt(index)) % 1_000_003;
  return Math.floor((now + hash) / TURN_MS);
}

class LocalSlots implements AcquiredSlots {
  readonly #counters: readonly Counter[];
  #return: ((counters: readonly Counter[]) => void) | null;

  constructor(counters: readonly Counter[], returnSlots: (counters: readonly Counter[]) => void) {
    this.#counters = counters;
    this.#return = returnSlots;
  }

  get keys(): readonly string[] {
    return this.#counters.map(({ key }) => key);
  }

  release(): void {
    const returnSlots = this.#return;
    this.#return = null;
    returnSlots?.(this.#counters);
  }
}
