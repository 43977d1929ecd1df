import { type Beat, LEASE_MS, LeasedSlots, SHORT_BEAT_MS } from '../../src/admission/leasedSlots.ts';
import type { SlotDemand, TakenSlots } from '../../src/admission/slotLedger.ts';
import type { CounterChange, LockedCounter, SlotRow } from '../../src/store/store.ts';

/** Something that must never be so. */
export class BrokenPromise extends Error {}

interface Query {
  readonly demands: readonly SlotDemand[];
  readonly keys: readonly string[];
  taken: TakenSlots | null;
  /**
   * Since when it is counted by those that have a beat after that. Infinity while its replica's lease is over: others may use
   * its slots, until it is reported again and they have seen it.
   */
  countedSince: number;
}

interface Replica {
  readonly name: string;
  /** How fast its clock goes. */
  readonly pace: number;
  readonly ledger: LeasedSlots;
  readonly running: Query[];
  readonly waiting: Query[];
  /** Limits as it knows them. */
  readonly limits: Map<string, number>;
  isPaused: boolean;
  isPartitioned: boolean;
  losesAnswer: boolean;
  /** The last write of its rows, by counter. */
  readonly written: Map<string, number>;
  beat: { readonly beat: Beat; stage: 'sent' | 'done' | 'failed'; at: number } | null;
  /** Earliest time of the next beat, after one failed. */
  notBefore: number;
  /** When it asks next who waits elsewhere. */
  nextQuestion: number;
}

/** Half of the longest transaction. */
const SLOWEST_ANSWER_MS = 30;
const counters = ['a', 'b', 'c'];
const RATE_KEY = 'rate';
const rate = { queries: 10, periodMs: 1_000, burst: 5 };
/** What submissions need. */
const kinds: readonly (readonly string[])[] = [
  ['a'],
  ['a'],
  ['a', 'b'],
  ['a', 'c'],
  ['b', 'c'],
  ['b'],
  [RATE_KEY],
  ['a', RATE_KEY],
];

/**
 * A few replicas with a database, all of them made up, and everything that can go wrong between them. It is driven by
 * numbers, each of which is a command; the same numbers make the same history.
 */
export class SlotWorld {
  readonly log: string[] = [];
  #time = 0;
  /** Counts what the database has written: two writes may have the same time. */
  #writes = 0;
  #seed: number;
  #replicas: Replica[] = [];
  #names = 0;
  #isDatabaseUp = true;
  readonly #rows = new Map<string, { rows: Map<string, SlotRow>; bucket: { tokens: number; filled: number } | null }>();
  readonly #limits = new Map(counters.map((key, index) => [key, index + 1]));
  #tokensTaken = 0;
  readonly #isLogged: boolean;

  constructor(seed: number, replicas: number, isLogged = false) {
    this.#seed = seed >>> 0;
    this.#isLogged = isLogged;
    for (let index = 0; index < replicas; index++) this.#start();
  }

  /** Lets some time pass, and then something happens. */
  command(number: number): void {
    this.advance(times[number % times.length] as number);
    const bits = Math.floor(number / times.length);
    const replica = this.#replicas[bits % this.#replicas.length] as Replica;
    const rest = Math.floor(bits / this.#replicas.length);
    const what = commands[rest % commands.length] as (typeof commands)[number];
    const argument = Math.floor(rest / commands.length);
    this.#note(`${what} ${replica.name} ${argument % 1000}`);
    switch (what) {
      case 'submit':
        if (!replica.isPaused) this.#submit(replica, kinds[argument % kinds.length] as readonly string[]);
        break;
      case 'finish':
        this.#finish(replica, argument);
        break;
      case 'leave':
        if (!replica.isPaused) this.#leave(replica, argument);
        break;
      case 'crash':
        this.#replicas = this.#replicas.filter((other) => other !== replica);
        this.#start();
        break;
      case 'pause':
        replica.isPaused = true;
        break;
      case 'resume':
        replica.isPaused = false;
        break;
      case 'partition':
        replica.isPartitioned = !replica.isPartitioned;
        break;
      case 'database':
        this.#isDatabaseUp = !this.#isDatabaseUp;
        break;
      case 'loseAnswer':
        replica.losesAnswer = true;
        break;
      case 'limit':
        this.#limits.set(counters[argument % counters.length] as string, Math.floor(argument / 4) % 6);
        break;
      case 'learnLimits':
        if (!replica.isPaused) this.#learnLimits(replica);
        break;
    }
  }

  /** Ends all faults, and lets all that waits have the slots that are free. */
  heal(): void {
    this.#note('heal');
    this.#isDatabaseUp = true;
    for (const replica of this.#replicas) {
      replica.isPaused = false;
      replica.isPartitioned = false;
      replica.losesAnswer = false;
      this.#learnLimits(replica);
    }
    // What died is freed after its lease; then those that need slots of several counters get them, by chance.
    this.advance(this.#hasRowsOfDead() ? LEASE_MS + 1_000 : 1_000);
    for (let waited = 0; waited < 120 && this.#needless() !== null; waited++) this.advance(LEASE_MS / 30);
    this.#checkNothingWaits('after all faults have ended');
  }

  /**
   * Without faults, and while nobody needs slots of several counters: a slot that is given back is taken within two beats.
   * Who has a slot of one counter and lacks another one gives the first up by chance, so that takes a few beats.
   */
  checkConservation(): void {
    for (const replica of this.#replicas) {
      for (const query of replica.waiting.filter(({ keys }) => keys.length > 1))
        this.#leave(replica, replica.waiting.indexOf(query));
    }
    for (const key of counters) {
      for (const replica of this.#replicas) this.#submit(replica, [key]);
      const holder = this.#replicas.find(({ running }) =>
        running.some(({ keys }) => keys.length === 1 && keys[0] === key),
      );
      if (holder === undefined) continue;
      this.#twoBeats();
      this.#finish(
        holder,
        holder.running.findIndex(({ keys }) => keys.length === 1 && keys[0] === key),
      );
      this.#twoBeats();
      this.#checkNothingWaits(
        'two beats after a slot was given back',
        (query) => query.keys.length === 1 && query.keys[0] === key,
      );
    }
  }

  /** Everything ends: nothing may be left. */
  end(): void {
    for (const replica of this.#replicas) {
      while (replica.waiting.length > 0) this.#leave(replica, 0);
      while (replica.running.length > 0) this.#finish(replica, 0);
    }
    this.advance(30_000);
    for (const { name, ledger } of this.#replicas) {
      const left = [...ledger.states()];
      if (left.length > 0) this.#broken(`${name} still counts ${JSON.stringify(left)}`);
    }
    // Rows of replicas that died stay where nobody has used the counter since: they are purged like other old rows.
    for (const [key, { rows }] of this.#rows) {
      for (const { replica, expires } of rows.values()) {
        if (expires > this.#time || this.#replicas.some(({ name }) => name === replica)) {
          this.#broken(`the database still has a row of ${key} for ${replica}`);
        }
      }
    }
  }

  /** Lets time pass, with all beats in it. */
  advance(by: number): void {
    const until = this.#time + by;
    for (;;) {
      let next = until;
      let who: Replica | null = null;
      for (const replica of this.#replicas) {
        const at = this.#nextOf(replica);
        if (at <= next && (at < next || who === null)) {
          next = at;
          who = replica;
        }
      }
      this.#time = Math.max(this.#time, next);
      this.#expire();
      if (who === null) return;
      this.#step(who);
    }
  }

  #nextOf(replica: Replica): number {
    if (replica.isPaused) return Number.POSITIVE_INFINITY;
    if (replica.beat !== null) return replica.beat.at;
    const { dueIn, holdsUnused } = replica.ledger;
    const due = dueIn === null ? Number.POSITIVE_INFINITY : this.#time + Math.ceil(dueIn / replica.pace);
    return Math.max(replica.notBefore, holdsUnused ? Math.min(due, Math.max(this.#time, replica.nextQuestion)) : due);
  }

  #step(replica: Replica): void {
    const { beat } = replica;
    if (beat === null) {
      this.#askWhoWaits(replica);
      const begun = replica.ledger.begin();
      if (begun !== null)
        replica.beat = { beat: begun, stage: 'sent', at: this.#time + this.#random(SLOWEST_ANSWER_MS) };
      return;
    }
    if (beat.stage === 'sent') {
      const isReached = this.#isDatabaseUp && !replica.isPartitioned;
      // One that gets nowhere may have decided already.
      if (isReached || this.#random(2) === 0) this.#transaction(replica, beat.beat, isReached);
      beat.stage = isReached && !replica.losesAnswer ? 'done' : 'failed';
      replica.losesAnswer = false;
      beat.at = this.#time + this.#random(SLOWEST_ANSWER_MS);
      return;
    }
    replica.beat = null;
    if (beat.stage === 'done') {
      beat.beat.commit();
    } else {
      beat.beat.fail();
      replica.notBefore = this.#time + 500;
    }
    this.#note(`${replica.name} ${beat.stage}`);
  }

  #askWhoWaits(replica: Replica): void {
    if (this.#time < replica.nextQuestion || !replica.ledger.holdsUnused) return;
    replica.nextQuestion = this.#time + SHORT_BEAT_MS;
    if (!this.#isDatabaseUp || replica.isPartitioned) return;
    const waits = ({ replica: name, waiting, expires }: SlotRow) =>
      name !== replica.name && waiting > 0 && expires > this.#time;
    replica.ledger.noteWaitingElsewhere(
      [...this.#rows].flatMap(([key, { rows }]) => ([...rows.values()].some(waits) ? [key] : [])),
    );
  }

  #transaction(replica: Replica, beat: Beat, isCommitted: boolean): void {
    const locked = new Map<string, LockedCounter>();
    for (const key of beat.keys) {
      const stored = this.#rows.get(key);
      if (stored !== undefined) locked.set(key, { rows: [...stored.rows.values()], bucket: stored.bucket });
    }
    // A transaction that met a conflict is repeated.
    if (this.#random(8) === 0) beat.decide(this.#time, locked);
    const changes = beat.decide(this.#time, locked);
    if (isCommitted) for (const change of changes) this.#write(replica, change);
  }

  #write(replica: Replica, { key, own, expired, bucket, isUnused }: CounterChange): void {
    const stored = this.#rows.get(key) ?? { rows: new Map<string, SlotRow>(), bucket: null };
    this.#rows.set(key, stored);
    for (const other of expired) {
      const row = stored.rows.get(other);
      if (row !== undefined && row.expires > this.#time)
        this.#broken(`${replica.name} deletes the live row of ${other}`);
      stored.rows.delete(other);
    }
    stored.bucket = bucket;
    if (own === null) stored.rows.delete(replica.name);
    else {
      stored.rows.set(replica.name, { replica: replica.name, ...own });
      replica.written.set(key, ++this.#writes);
      for (const query of replica.running) {
        if (query.countedSince === Number.POSITIVE_INFINITY && this.#isLeased(replica.name, query))
          query.countedSince = this.#writes;
      }
      const live = [...stored.rows.values()].filter((row) => row.expires > this.#time);
      const sum = live.reduce((total, { granted }) => total + granted, 0);
      const limit = replica.limits.get(key) ?? 0;
      if (key !== RATE_KEY && own.granted > own.inUse && sum > limit) {
        this.#broken(`${sum} slots of ${key} are granted, of ${limit}`);
      }
    }
    if (isUnused) {
      if (stored.rows.size > 0) this.#broken(`${key} is forgotten while replicas have rows`);
      this.#rows.delete(key);
    }
    this.#note(`${replica.name} writes ${key} ${JSON.stringify(own)}`);
  }

  /** Leases that have ended by the database's clock: their slots may be taken by others from now on. */
  #expire(): void {
    for (const { name, running } of this.#replicas) {
      for (const query of running) if (!this.#isLeased(name, query)) query.countedSince = Number.POSITIVE_INFINITY;
    }
  }

  #isLeased(name: string, { keys }: Query): boolean {
    return keys.every((key) => key === RATE_KEY || (this.#rows.get(key)?.rows.get(name)?.expires ?? 0) > this.#time);
  }

  #submit(replica: Replica, keys: readonly string[]): void {
    const demands = keys.map((key) =>
      key === RATE_KEY
        ? { key, limit: rate.burst, rate }
        : { key, limit: replica.limits.get(key) as number, rate: null },
    );
    const query: Query = { demands, keys, taken: null, countedSince: 0 };
    replica.waiting.push(query);
    this.#pump(replica);
  }

  #pump(replica: Replica): void {
    for (const query of [...replica.waiting]) {
      const demands = query.demands.map((demand) => ({
        ...demand,
        limit: replica.limits.get(demand.key) ?? demand.limit,
      }));
      const { taken } = replica.ledger.take(demands);
      if (taken === null) continue;
      query.taken = taken;
      replica.waiting.splice(replica.waiting.indexOf(query), 1);
      replica.running.push(query);
      this.#checkTaken(replica, query);
    }
    this.#tellWaiting(replica);
  }

  #tellWaiting({ ledger, waiting, limits }: Replica): void {
    for (const key of [...counters, RATE_KEY]) {
      const count = waiting.filter(({ keys }) => keys.includes(key)).length;
      const limit = limits.get(key) ?? rate.burst;
      ledger.setWaiting({ key, limit, rate: key === RATE_KEY ? rate : null }, count);
    }
  }

  #checkTaken(replica: Replica, query: Query): void {
    this.#note(`${replica.name} takes ${query.keys.join()}`);
    for (const key of query.keys) {
      if (key === RATE_KEY) {
        this.#tokensTaken += 1;
        const most = rate.burst + (this.#time * rate.queries) / rate.periodMs;
        if (this.#tokensTaken > most + 0.01) this.#broken(`${this.#tokensTaken} tokens were taken, of ${most}`);
        continue;
      }
      const row = this.#rows.get(key)?.rows.get(replica.name);
      if (row === undefined || row.expires <= this.#time) this.#broken(`${replica.name} takes ${key} without a lease`);
      const inUse = this.#inUse(key, replica.written.get(key) as number);
      const limit = Math.max(...this.#replicas.map(({ limits }) => limits.get(key) as number));
      if (inUse > limit) this.#broken(`${inUse} slots of ${key} are in use, of ${limit}`);
    }
  }

  /** @param seenUntil the last write of the replica that counts */
  #inUse(key: string, seenUntil: number): number {
    return this.#replicas.reduce(
      (sum, { running }) =>
        sum + running.filter(({ keys, countedSince }) => keys.includes(key) && countedSince <= seenUntil).length,
      0,
    );
  }

  #hasRowsOfDead(): boolean {
    const names = new Set(this.#replicas.map(({ name }) => name));
    return [...this.#rows.values()].some(({ rows }) => [...rows.keys()].some((name) => !names.has(name)));
  }

  #checkNothingWaits(when: string, which: (query: Query) => boolean = () => true): void {
    const needless = this.#needless(which);
    if (needless !== null) this.#broken(`${when}, ${needless} although there is room`);
  }

  /** What waits although there is room; null when nothing does. */
  #needless(which: (query: Query) => boolean = () => true): string | null {
    const isFull = (key: string) => this.#inUse(key, Number.POSITIVE_INFINITY) >= (this.#limits.get(key) as number);
    for (const { name, waiting } of this.#replicas) {
      for (const query of waiting) {
        if (!which(query) || query.keys.includes(RATE_KEY) || query.keys.some(isFull)) continue;
        return `${query.keys.join()} waits at ${name}`;
      }
    }
    return null;
  }

  #finish(replica: Replica, which: number): void {
    const query = replica.running[which % Math.max(1, replica.running.length)];
    if (query === undefined || replica.isPaused) return;
    replica.running.splice(replica.running.indexOf(query), 1);
    query.taken?.release();
    this.#tellWaiting(replica);
  }

  #leave(replica: Replica, which: number): void {
    replica.waiting.splice(which % Math.max(1, replica.waiting.length), 1);
    this.#tellWaiting(replica);
  }

  #learnLimits(replica: Replica): void {
    for (const [key, limit] of this.#limits) replica.limits.set(key, limit);
    replica.ledger.revise((key) =>
      key === RATE_KEY ? { limit: rate.burst, rate } : { limit: replica.limits.get(key) as number, rate: null },
    );
  }

  /** Two beats of each replica, with the time that the database takes. */
  #twoBeats(): void {
    this.advance(2 * (SHORT_BEAT_MS / 0.95 + 3 * SLOWEST_ANSWER_MS));
  }

  #start(): void {
    const name = `r${this.#names++}`;
    const pace = [1, 0.95, 1.05][this.#random(3)] as number;
    const start = this.#random(1_000_000);
    const ledger = new LeasedSlots({
      replica: name,
      clock: { monotonic: () => start + this.#time * pace },
      random: () => this.#random(1000) / 1000,
    });
    const replica: Replica = {
      name,
      pace,
      ledger,
      running: [],
      waiting: [],
      limits: new Map(this.#limits),
      isPaused: false,
      isPartitioned: false,
      losesAnswer: false,
      written: new Map(),
      beat: null,
      notBefore: 0,
      nextQuestion: 0,
    };
    ledger.onRoom(() => this.#pump(replica));
    this.#replicas.push(replica);
  }

  #random(below: number): number {
    // xorshift32
    let x = this.#seed || 0x9e3779b9;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#seed = x >>> 0;
    return this.#seed % below;
  }

  #note(line: string): void {
    if (this.#isLogged) this.log.push(`${this.#time} ${line}`);
  }

  #broken(what: string): never {
    throw new BrokenPromise(`at ${this.#time} ms: ${what}\n${this.log.join('\n')}`);
  }
}

/** Times before commands: mostly less than a beat. */
const times = [0, 0, 1, 5, 10, 30, 60, 100, 200, 300, 500, 1_000, 2_500, 6_000, 20_000];

const commands = [
  ...Array<'submit'>(14).fill('submit'),
  ...Array<'finish'>(9).fill('finish'),
  'leave',
  'leave',
  'crash',
  'pause',
  'resume',
  'resume',
  'partition',
  'database',
  'loseAnswer',
  'loseAnswer',
  'limit',
  'learnLimits',
  'learnLimits',
] as const;
