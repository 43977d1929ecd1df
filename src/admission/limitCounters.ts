import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { within } from '../model/timeLimit.ts';
import { type LimitCounterRepository, noChanges } from '../store/limitCounterRepository.ts';
import type { LimitCounter, NewSlot } from '../store/store.ts';
import {
  type Acquisition,
  type Decision,
  type Demand,
  decideAcquisitions,
  decisionOf,
  isPlain,
  optionsOf,
} from './acquisitions.ts';

/** Result of an acquisition; `unavailable`: the database is, and the configuration admits nothing then. */
export type Acquired =
  | (Decision & { readonly slot: Slot | null })
  | { readonly kind: 'unavailable'; readonly slot: null };

/** Time after which an acquisition is decided without the database. */
const ACQUIRE_TIMEOUT_MS = 5_000;
const MAX_BATCH = 200;
/** Delay of ends, to batch several; queries that wait get the slots sooner than their clients ask again. */
const END_DELAY_MS = 10;
/** The same while all limits have much capacity: most of them join the statement of a submission. */
const RELAXED_DELAY_MS = 100;
/** Delay of places in the queue, which join a statement that releases slots. */
const PLACE_DELAY_MS = 50;
/** Time after which limits that were nearly full no longer are. */
const TIGHT_MS = 2_000;
/** Time for which a replica keeps a slot for the next query with the same counters, of one that came as soon before. */
const SPARE_MS = 200;
const MAX_SPARES = 1_000;
const RETRY_MS = 500;
/** Delays of the attempts to find the row of an ended query: the replica that sent the query may still be binding it. */
const END_RETRIES_MS = [50, 250, 1_000];
/** Rows of this replica's own slots are renewed so often; others are removed after UNBOUND_MS. */
const RENEWAL_MS = 10_000;
const SEEN_MS = 30_000;
/** A row of a dead replica whose query no cluster has named. */
const UNBOUND_MS = 30_000;
/** Engines abandon a query without a poll for five minutes; its time is renewed each 30 seconds. */
const UNSEEN_MS = 300_000 + SEEN_MS;
/** Time for which a full counter is taken as full, and for which its use is remembered. */
const RECENT_MS = 2_000;
const REMEMBERED_MS = 60_000;
const MAX_REMEMBERED = 100_000;
const MAX_KNOWN = 20_000;

/** Slots of a query, or its place in the queue. Unbound until a cluster names the query. */
export class Slot {
  slotId: string = randomUUID();
  readonly taken: readonly Demand[];
  /** False until the database has its row. */
  isRecorded = false;
  isReleased = false;
  /** Monotonic time of its acquisition. */
  readonly since: number;
  binding: { readonly queryId: string; readonly cluster: string } | null = null;
  readonly #counters: LimitCounters;

  constructor(counters: LimitCounters, taken: readonly Demand[], since: number) {
    this.#counters = counters;
    this.taken = taken;
    this.since = since;
  }

  /** From now on the end of the query releases it, at any replica. */
  bind(queryId: string, cluster: string): void {
    if (this.isReleased) return;
    this.binding = { queryId, cluster };
    this.#counters.bind(this);
  }

  /** Idempotent. */
  release(): void {
    if (this.isReleased) return;
    this.isReleased = true;
    this.#counters.release(this);
  }
}

interface Pending {
  readonly acquisition: Acquisition;
  /** Null once it is decided without the database. */
  resolve: ((acquired: Acquired) => void) | null;
  /** Slot that was taken without the database; null: the decision makes one. */
  readonly slot: Slot | null;
}

interface QueryEnd {
  readonly endsTransaction: boolean;
  /** Statements that found no row of it. */
  readonly attempts: number;
  /** Its slot, of a query that this replica sent. */
  readonly slot: Slot | null;
}

/** Counters that a query acquired lately. */
interface Spare {
  /** A slot for the next query, counted as all others; null before it is acquired, and after its use. */
  readonly slot: Slot | null;
  /** Monotonic time. */
  readonly since: number;
}

/** Work for the next group of statements. */
interface Work {
  readonly pending: readonly Pending[];
  readonly bindings: ReadonlySet<Slot>;
  readonly transactions: ReadonlyMap<string, string>;
  /** Ended queries. */
  readonly ends: ReadonlyMap<string, QueryEnd>;
  readonly released: ReadonlySet<Slot>;
}

/**
 * The counters of limits, as one replica uses them: acquisitions and ends that come while a group of statements is at
 * work are the next one (docs/architecture.md#limits). Without the database it counts its own queries in addition to
 * the last known use.
 */
export class LimitCounters {
  readonly #repository: LimitCounterRepository;
  readonly #replica: string;
  readonly #admitsWhenAway: boolean;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Counters as of the last statement, most recent last, and the monotonic times of these statements. */
  readonly #lastUse = new Map<string, LimitCounter>();
  readonly #times = new Map<string, number>();
  #pending: Pending[] = [];
  #bindings = new Set<Slot>();
  #transactions = new Map<string, string>();
  #ends = new Map<string, QueryEnd>();
  #released = new Set<Slot>();
  /** Slots without a query, and places in the queue: renewed by this replica. */
  readonly #ownSlots = new Set<Slot>();
  /** By counters. */
  readonly #spares = new Map<string, Spare>();
  /** Slots by query, to release them without the database. */
  readonly #bound = new Map<string, Slot>();
  #served = new Set<string>();
  #flushing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  /** Monotonic time until which ends are written soon. */
  #tightUntil = 0;
  #isAway = false;
  #awaySince = 0;
  /** Until the limits are known, every end may release a slot. */
  isEnabled = true;
  #isUsed = false;
  #isStopped = false;
  #onChange: (isRelease: boolean) => void = () => {};
  #onRelease: (slots: number) => void = () => {};
  #renewAt = 0;
  #seeAt = 0;
  #sweepAt = 0;

  /** @param admitsWhenAway false rejects what needs a limit while the database is unavailable */
  constructor(
    repository: LimitCounterRepository,
    replica: string,
    admitsWhenAway: boolean,
    clock: Clock,
    logger: Logger,
  ) {
    this.#repository = repository;
    this.#replica = replica;
    this.#admitsWhenAway = admitsWhenAway;
    this.#clock = clock;
    this.#logger = logger;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  /** Milliseconds for which the database has been unavailable; 0 if it is not. */
  get awayMs(): number {
    return this.#isAway ? this.#clock.monotonic() - this.#awaySince : 0;
  }

  /**
   * @param isEnabled true if any limit is declared: ends of queries matter
   * @param hasQueues true if queries may wait for other reasons
   */
  enable(isEnabled: boolean, hasQueues = false): void {
    this.isEnabled = isEnabled;
    this.#isUsed = isEnabled || hasQueues;
  }

  /**
   * @param onChange called after counters became known, with true if slots were released here
   * @param onRelease called before slots are released: what acquires some meanwhile gets them in the same call
   */
  listen(onChange: (isRelease: boolean) => void, onRelease: (slots: number) => void): void {
    this.#onChange = onChange;
    this.#onRelease = onRelease;
  }

  /** True if counters were read in the last milliseconds. */
  areRecent(keys: readonly string[], ms: number): boolean {
    const since = this.#clock.monotonic() - ms;
    return keys.every((key) => (this.#times.get(key) ?? Number.NEGATIVE_INFINITY) > since);
  }

  /** Use of a counter on all replicas, as far as this one knows. */
  use(key: string): number {
    return this.#lastUse.get(key)?.inUse ?? 0;
  }

  /** True if a counter had no capacity a moment ago: without news the next acquisition finds out. */
  isFull({ key, limit }: Demand): boolean {
    const isRecent = this.#isAway || this.#clock.monotonic() - (this.#times.get(key) ?? 0) < RECENT_MS;
    return isRecent && this.use(key) >= limit;
  }

  /** Use of the counters that this replica knows. */
  *used(): Iterable<readonly [key: string, inUse: number]> {
    for (const [key, { inUse }] of this.#lastUse) yield [key, inUse];
  }

  /** Decides by what is known, without a change. Several in order, as if each was done. */
  foresee(acquisitions: readonly Acquisition[], counters = new Map<string, LimitCounter>()): readonly Decision[] {
    for (const { demands, clusters } of acquisitions) {
      for (const demand of [...demands, ...clusters]) {
        const key = demand?.key ?? '';
        const counter = this.#lastUse.get(key);
        if (counter !== undefined && !counters.has(key)) counters.set(key, { ...counter });
      }
    }
    return decideAcquisitions(acquisitions, counters, this.#clock.now());
  }

  acquire(acquisition: Acquisition): Promise<Acquired> {
    if (this.#isAway) return Promise.resolve(this.acquireAlone(acquisition));
    const present = this.#takeSpare(acquisition);
    if (present !== null) return Promise.resolve(present);
    return new Promise((resolve) => {
      const pending: Pending = { acquisition, resolve, slot: null };
      this.#pending.push(pending);
      const timer = setTimeout(() => {
        if (pending.resolve === null) return;
        pending.resolve = null;
        this.#noteAway(new Error(`no response within ${ACQUIRE_TIMEOUT_MS} ms`));
        resolve(this.acquireAlone(acquisition));
      }, ACQUIRE_TIMEOUT_MS);
      pending.resolve = (acquired) => {
        clearTimeout(timer);
        pending.resolve = null;
        resolve(acquired);
      };
      this.#schedule(acquisition.mode === 'blocked' ? PLACE_DELAY_MS : 0);
    });
  }

  bind(slot: Slot): void {
    const { binding } = slot;
    if (binding === null) return;
    if (this.#bound.size >= MAX_REMEMBERED) {
      const [oldest] = this.#bound.keys();
      if (oldest !== undefined) this.#bound.delete(oldest);
    }
    this.#bound.set(binding.queryId, slot);
    if (!slot.taken.some(({ key }) => key.startsWith('queue:'))) this.#ownSlots.delete(slot);
    if (!slot.isRecorded) return;
    this.#bindings.add(slot);
    // Before the end of a short query: another replica that sees it would have to look for the slot again.
    this.#schedule(this.#delay === END_DELAY_MS ? 0 : this.#delay);
  }

  release(slot: Slot): void {
    this.#ownSlots.delete(slot);
    this.#bindings.delete(slot);
    if (slot.binding !== null) this.#bound.delete(slot.binding.queryId);
    if (this.#isAway || !slot.isRecorded) this.#countDown(slot.taken);
    if (!slot.isRecorded) {
      this.#onChange(true);
      return;
    }
    this.#released.add(slot);
    this.#schedule(this.#delay);
  }

  /** Records the end of a query from a cluster's response. */
  ended(queryId: string, endsTransaction = false): void {
    const slot = this.#bound.get(queryId);
    this.#served.delete(queryId);
    if (slot !== undefined && !slot.isRecorded) {
      slot.release();
      return;
    }
    if (slot !== undefined && this.#isAway) this.#countDown(slot.taken);
    this.#bound.delete(queryId);
    if (slot === undefined && !this.isEnabled) return;
    if (slot !== undefined) this.#ownSlots.delete(slot);
    this.#addEnd(queryId, { endsTransaction, attempts: 0, slot: slot ?? null });
    this.#schedule(this.#delay);
  }

  /** Records a poll of a query. */
  served(queryId: string): void {
    if (this.#served.size < MAX_REMEMBERED) this.#served.add(queryId);
  }

  /** The slots of a query are those of the transaction that it began. */
  began(queryId: string, transactionId: string): void {
    if (!this.isEnabled) return;
    this.#transactions.set(queryId, transactionId);
    this.#schedule(this.#delay);
  }

  /** Acquires the slot of a transaction for a statement; null if another one has it, or there is none. */
  async ofTransaction(transactionId: string): Promise<Slot | null> {
    const statement = `statement:${randomUUID()}`;
    const taking = this.#repository.take(transactionId, statement);
    const row = await within(taking, ACQUIRE_TIMEOUT_MS, null).catch(() => null);
    if (row === null) return null;
    const slot = new Slot(this, [], this.#clock.monotonic());
    slot.slotId = row.slotId;
    slot.isRecorded = true;
    slot.binding = { queryId: statement, cluster: row.cluster ?? '' };
    this.#ownSlots.add(slot);
    // It returns to the transaction.
    slot.release = () => this.ended(slot.binding?.queryId ?? statement);
    return slot;
  }

  /** Reads counters. Never rejects. */
  async refresh(keys: readonly string[]): Promise<void> {
    try {
      const counters = await this.#repository.counters(keys);
      for (const key of keys) {
        const counter = counters.get(key);
        this.#learn(key, counter ?? { inUse: 0, tokens: null, refilled: 0, expires: 0 });
      }
      this.#onChange(false);
    } catch (error) {
      this.#noteAway(error);
    }
  }

  /**
   * Maintenance, called each second.
   * @param isLeader true removes rows of all replicas
   * @param isLost true if the coordinator of a query was replaced, or its cluster removed
   */
  async maintain(isLeader: boolean, isLost: (queryId: string, cluster: string | null) => boolean): Promise<void> {
    if (!this.#isUsed && this.#ownSlots.size + this.#bound.size === 0) return;
    const now = this.#clock.monotonic();
    try {
      if (this.#isAway) await this.#repository.counters(['']);
      else this.#forgetUntil(now - REMEMBERED_MS);
      if (now >= this.#renewAt) {
        this.#renewAt = now + RENEWAL_MS;
        const own = [...this.#ownSlots].filter(({ isRecorded }) => isRecorded).map(({ slotId }) => slotId);
        if (own.length > 0) await this.#repository.see('slot_id', own);
      }
      if (now >= this.#seeAt) {
        this.#seeAt = now + SEEN_MS;
        const served = [...this.#served];
        this.#served = new Set();
        if (served.length > 0) await this.#repository.see('query_id', served);
      }
      if (isLeader && now >= this.#sweepAt) {
        this.#sweepAt = now + RENEWAL_MS;
        await this.#sweep(isLost);
      }
      this.#noteHere();
    } catch (error) {
      this.#noteAway(error);
    }
  }

  /** Writes what is left. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const slot of [...this.#ownSlots]) if (slot.binding === null) slot.release();
    await this.#flushing;
    this.#releaseSpares();
    await this.#flush();
  }

  async #sweep(isLost: (queryId: string, cluster: string | null) => boolean): Promise<void> {
    const removed = (await this.#repository.all()).filter(({ queryId, transactionId, cluster, unseenMs }) => {
      if (queryId === null && transactionId === null) return unseenMs >= UNBOUND_MS;
      return unseenMs >= UNSEEN_MS || (queryId !== null && cluster !== null && isLost(queryId, cluster));
    });
    for (let start = 0; start < removed.length; start += MAX_BATCH) {
      this.#learnAll(await this.#repository.change(this.#replica, removed.slice(start, start + MAX_BATCH), []));
    }
    const corrected = await this.#repository.recount();
    if (removed.length + corrected > 0) {
      this.#logger.info({ slots: removed.length, counters: corrected }, 'slots of ended queries released');
      this.#onChange(false);
    }
  }

  get #delay(): number {
    return this.#clock.monotonic() >= this.#tightUntil ? RELAXED_DELAY_MS : END_DELAY_MS;
  }

  /** Notes whether a limit is nearly full. */
  #noteUse(decision: Decision): void {
    const isTight = ({ key, limit }: Demand) => 5 * this.use(key) > 4 * limit;
    if (decision.full.length === 0 && !decision.taken.some(isTight)) return;
    this.#tightUntil = this.#clock.monotonic() + TIGHT_MS;
    this.#releaseSpares();
  }

  /** Uses the slot that is kept for the next query with these counters. @returns null without such a slot */
  #takeSpare(acquisition: Acquisition): Acquired | null {
    const isUsual = this.#spares.size > 0 && acquisition.mode === 'normal' && isPlain(acquisition);
    const [decision] = isUsual ? this.foresee([acquisition]) : [];
    const key = decision === undefined ? '' : keysText(decision);
    const slot = this.#spares.get(key)?.slot ?? null;
    if (decision?.kind !== 'acquired' || slot === null) return null;
    this.#spares.set(key, { slot: null, since: this.#clock.monotonic() });
    return { ...decision, slot };
  }

  /** One more slot for counters of which two queries follow each other, while all of their limits have much capacity. */
  #newSpares(acquisitions: readonly Acquisition[]): readonly Slot[] {
    const now = this.#clock.monotonic();
    const spares: Slot[] = [];
    const decisions = this.foresee(acquisitions.filter(({ mode }) => mode === 'normal'));
    for (const [key, { kind, taken }] of new Map(decisions.map((decision) => [keysText(decision), decision]))) {
      if (kind !== 'acquired' || taken.length === 0) continue;
      const last = this.#spares.get(key);
      const isAmple = taken.every(({ key, limit }) => 3 * this.use(key) < 2 * limit);
      if (last?.slot === null && isAmple) spares.push(new Slot(this, taken, now));
      else if (last === undefined && this.#spares.size < MAX_SPARES) this.#spares.set(key, { slot: null, since: now });
    }
    return spares;
  }

  #keepSpare(slot: Slot): void {
    slot.isRecorded = true;
    this.#ownSlots.add(slot);
    this.#spares.set(keysText(slot), { slot, since: slot.since });
  }

  /** Releases spare slots that were not used in time, or all of them. */
  #releaseSpares(since = Number.POSITIVE_INFINITY): void {
    for (const [key, spare] of this.#spares) {
      if (spare.since > since) continue;
      this.#spares.delete(key);
      spare.slot?.release();
    }
  }

  #schedule(delay: number): void {
    if (this.#isStopped || this.#flushing !== null) return;
    const at = this.#clock.monotonic() + delay;
    if (this.#timer !== null) {
      if (this.#timerAt <= at) return;
      clearTimeout(this.#timer);
    }
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      // Later, so that what it lets acquire slots schedules no other one.
      const flush = Promise.resolve().then(() => this.#flush());
      this.#flushing = flush.finally(() => {
        this.#flushing = null;
        const isUrgent =
          this.#clock.monotonic() < this.#tightUntil ||
          this.#pending.some(({ acquisition: { mode } }) => mode !== 'blocked');
        if (this.#hasWork) this.#schedule(this.#isAway ? RETRY_MS : isUrgent ? 0 : this.#delay);
        else if (this.#spares.size > 0) this.#schedule(SPARE_MS);
      });
    }, delay);
  }

  get #hasWork(): boolean {
    const all = [
      this.#pending.length,
      this.#bindings.size,
      this.#transactions.size,
      this.#ends.size,
      this.#released.size,
    ];
    return all.some((size) => size > 0);
  }

  async #flush(): Promise<void> {
    this.#releaseSpares(this.#clock.monotonic() - SPARE_MS);
    const releases = this.#ends.size + this.#released.size;
    if (releases > 0 && !this.#isAway && !this.#isStopped) this.#onRelease(releases);
    if (!this.#hasWork) return;
    const work: Work = {
      pending: this.#pending.splice(0, MAX_BATCH),
      bindings: this.#bindings,
      transactions: this.#transactions,
      ends: this.#ends,
      released: this.#released,
    };
    this.#bindings = new Set();
    this.#transactions = new Map();
    this.#ends = new Map();
    this.#released = new Set();
    try {
      await this.#write(work);
      this.#noteHere();
    } catch (error) {
      this.#noteAway(error);
      this.#putBack(work);
    }
  }

  /** One statement on PostgreSQL, and a transaction for submissions with rates or observed limits. */
  async #write({ pending, bindings, transactions, ends, released }: Work): Promise<void> {
    const over = new Set([...ends.values()].map(({ slot }) => slot));
    let bound = [...bindings].flatMap((slot) =>
      slot.binding === null || slot.isReleased || (over.has(slot) && transactions.size === 0)
        ? []
        : [{ slotId: slot.slotId, ...slot.binding }],
    );
    if (transactions.size > 0 && bound.length > 0) {
      const { unbound } = await this.#repository.changeAtOnce(this.#replica, { ...noChanges, bindings: bound });
      this.#noteUnbound(bindings, unbound);
      bound = [];
    }
    for (const [queryId, transactionId] of transactions) await this.#repository.attach(queryId, transactionId);
    const plain = pending.every(({ acquisition }) => isPlain(acquisition)) ? pending : [];
    const spares = this.#newSpares(plain.map(({ acquisition }) => acquisition));
    if (bound.length + ends.size + released.size + plain.length > 0) {
      const slotIds = plain.map(({ slot }) => slot?.slotId ?? randomUUID());
      const asks = plain.map(({ acquisition }, index) => ({
        slotId: slotIds[index] ?? '',
        options: optionsOf(acquisition).map((parts) =>
          acquisition.mode === 'forced' ? parts.map((part) => ({ ...part, limit: null })) : parts,
        ),
      }));
      const changed = await this.#repository.changeAtOnce(this.#replica, {
        bindings: bound,
        released: [...released].map(({ slotId }) => slotId),
        ends: [...ends].map(([queryId, { endsTransaction, slot }]) => ({
          queryId,
          endsTransaction,
          slotId: slot?.slotId ?? null,
        })),
        asks: [...asks, ...spares.map(({ slotId, taken }) => ({ slotId, options: [taken.map(reduced)] }))],
      });
      this.#learnAll(changed.counters);
      this.#noteUnbound(bindings, changed.unbound);
      this.#retry([...ends].filter(([queryId]) => changed.unknown.has(queryId)));
      for (const [index, each] of plain.entries()) {
        const decision = decisionOf(each.acquisition, changed.chosen[index] ?? -1, this.#lastUse);
        const slot = decision.taken.length === 0 ? null : (each.slot ?? this.#newSlot(decision, slotIds[index] ?? ''));
        this.#settle(each, decision, slot);
      }
      for (const [index, slot] of spares.entries())
        if (changed.chosen[plain.length + index] === 0) this.#keepSpare(slot);
      this.#onChange(changed.removed > 0);
    }
    if (plain.length < pending.length) await this.#decide(pending);
  }

  #newSlot({ taken }: Decision, slotId: string): Slot {
    const slot = new Slot(this, taken, this.#clock.monotonic());
    slot.slotId = slotId;
    return slot;
  }

  /** Decides on submissions in a transaction. */
  async #decide(pending: readonly Pending[]): Promise<void> {
    let decisions: readonly Decision[] = [];
    let slots: readonly (Slot | null)[] = [];
    const keys = pending.flatMap(({ acquisition: { demands, clusters, observed, place } }) =>
      [...demands, ...clusters, ...observed, ...(place ?? [])].flatMap((demand) => demand?.key ?? []),
    );
    const counters = await this.#repository.change(this.#replica, [], keys, (now, locked) => {
      decisions = decideAcquisitions(
        pending.map(({ acquisition }) => acquisition),
        locked,
        now,
      );
      slots = decisions.map(({ taken }, index) =>
        taken.length === 0 ? null : (pending[index]?.slot ?? new Slot(this, taken, this.#clock.monotonic())),
      );
      return slots.flatMap((slot): readonly NewSlot[] =>
        slot === null ? [] : [{ slotId: slot.slotId, parts: slot.taken }],
      );
    });
    this.#learnAll(counters);
    for (const [index, each] of pending.entries())
      this.#settle(each, decisions[index] as Decision, slots[index] ?? null);
    this.#onChange(false);
  }

  #addEnd(queryId: string, { endsTransaction, attempts, slot }: QueryEnd): void {
    const earlier = this.#ends.get(queryId);
    if (earlier === undefined && this.#ends.size >= MAX_REMEMBERED) return;
    const isOver = endsTransaction || earlier?.endsTransaction === true;
    this.#ends.set(queryId, { endsTransaction: isOver, attempts, slot: slot ?? earlier?.slot ?? null });
  }

  /** Tries again to release what ended before its row was found; most of it never had one. */
  #retry(all: readonly (readonly [queryId: string, end: QueryEnd])[]): void {
    for (const [attempts, delay] of END_RETRIES_MS.entries()) {
      const ends = all.filter(([, end]) => end.attempts === attempts);
      if (ends.length === 0) continue;
      setTimeout(() => {
        for (const [queryId, end] of ends) this.#addEnd(queryId, { ...end, attempts: attempts + 1, slot: null });
        this.#schedule(this.#delay);
      }, delay).unref();
    }
  }

  #noteUnbound(bindings: ReadonlySet<Slot>, slotIds: readonly string[]): void {
    const missing = new Set(slotIds);
    if (missing.size === 0) return;
    const now = this.#clock.monotonic();
    for (const slot of bindings) {
      if (!missing.has(slot.slotId)) continue;
      // This replica was paused, and the leader has removed the slot; else its query was bound before, and has ended.
      if (now - slot.since >= UNBOUND_MS) this.#recordLater(slot);
      else slot.isReleased = true;
    }
  }

  #settle({ resolve, slot: own }: Pending, decision: Decision, slot: Slot | null): void {
    this.#noteUse(decision);
    if (slot !== null) slot.isRecorded = true;
    if (own !== null) {
      if (own.isReleased) this.#released.add(own);
      else if (own.binding !== null) this.#bindings.add(own);
      return;
    }
    if (slot !== null) {
      if (resolve === null) {
        // It was decided without the database meanwhile.
        slot.isReleased = true;
        this.#released.add(slot);
      } else this.#ownSlots.add(slot);
    }
    resolve?.({ ...decision, slot });
  }

  /** Decides without the database: by the last known use. */
  acquireAlone(acquisition: Acquisition): Acquired {
    if (!this.#admitsWhenAway && acquisition.mode !== 'forced') return { kind: 'unavailable', slot: null };
    const [decision] = decideAcquisitions([acquisition], this.#lastUse, this.#clock.now());
    if (decision === undefined) throw new Error('an acquisition without a decision');
    const slot = decision.taken.length === 0 ? null : new Slot(this, decision.taken, this.#clock.monotonic());
    if (slot !== null) {
      this.#ownSlots.add(slot);
      this.#recordLater(slot);
    }
    return { ...decision, slot };
  }

  /** Writes the row of a slot that this replica counts in any case. */
  #recordLater(slot: Slot): void {
    slot.isRecorded = false;
    slot.slotId = randomUUID();
    const acquisition: Acquisition = { demands: slot.taken, clusters: [], observed: [], place: null, mode: 'forced' };
    this.#pending.push({ acquisition, resolve: null, slot });
    this.#schedule(RETRY_MS);
  }

  #putBack({ pending, bindings, transactions, ends, released }: Work): void {
    for (const slot of bindings) this.#bindings.add(slot);
    for (const slot of released) this.#released.add(slot);
    for (const [queryId, id] of transactions) this.#transactions.set(queryId, id);
    for (const [queryId, end] of ends) this.#addEnd(queryId, end);
    for (const each of pending) {
      if (each.slot !== null) {
        if (!each.slot.isReleased) this.#recordLater(each.slot);
      } else each.resolve?.(this.acquireAlone(each.acquisition));
    }
  }

  #countDown(taken: readonly Demand[]): void {
    for (const { key, amount = 1 } of taken) {
      const counter = this.#lastUse.get(key);
      if (counter !== undefined) counter.inUse = Math.max(0, counter.inUse - amount);
    }
  }

  #learnAll(counters: ReadonlyMap<string, LimitCounter>): void {
    for (const [key, counter] of counters) this.#learn(key, counter);
  }

  #learn(key: string, counter: LimitCounter): void {
    this.#lastUse.delete(key);
    this.#lastUse.set(key, counter);
    this.#times.set(key, this.#clock.monotonic());
    if (this.#lastUse.size > MAX_KNOWN) this.#forgetUntil(Number.NEGATIVE_INFINITY);
  }

  /** Forgets the oldest counter, and all that are older than a time. */
  #forgetUntil(time: number): void {
    for (const key of this.#lastUse.keys()) {
      const isOld = (this.#times.get(key) ?? 0) < time;
      if (!isOld && this.#lastUse.size <= MAX_KNOWN) return;
      this.#lastUse.delete(key);
      this.#times.delete(key);
    }
  }

  #noteHere(): void {
    if (this.#isAway) this.#logger.info('limits counted in the database again');
    this.#isAway = false;
  }

  #noteAway(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    if (this.#isAway) return;
    this.#logger.warn({ reason }, 'limits not counted in the database');
    this.#isAway = true;
    this.#awaySince = this.#clock.monotonic();
  }
}

function keysText({ taken }: { readonly taken: readonly Demand[] }): string {
  return taken.map(({ key }) => key).join(' ');
}

/** A demand of two thirds. */
function reduced(demand: Demand): Demand {
  return { ...demand, limit: Math.floor((2 * demand.limit) / 3) };
}
