import { type Heartbeat, LEASE_MS, LeasedSlots, SHORT_HEARTBEAT_MS } from '../../src/admission/leasedSlots.ts';
import type { AcquiredSlots, SlotDemand } from '../../src/admission/slotLedger.ts';
import { adoptSlots } from '../../src/admission/takeover.ts';
import { CONTACT_MS, DEAD_POLL_MS, GRACE_MS, PAUSE_MS } from '../../src/gateway/admission/deadReplicas.ts';
import {
  ABANDONED_AFTER_MS,
  LATE_NOTE_MS,
  LATE_RENEWAL_MS,
  NOTE_AFTER_MS,
  SWEEP_INTERVAL_MS,
} from '../../src/gateway/admission/runningSlots.ts';
import type { CounterChange, LockedCounter, SlotQuery, SlotRow } from '../../src/store/store.ts';

/** Something that must never be so. */
export class BrokenPromise extends Error {}

interface Query {
  readonly id: string;
  readonly demands: readonly SlotDemand[];
  readonly keys: readonly string[];
  /** When a cluster began it. */
  started: number;
  /** When its client asks next, and where; of a client that left, when the cluster gives the query up. */
  nextPoll: number;
  turn: number;
  lastPoll: number;
  isLeft: boolean;
}

/** A query that a replica counts (`RunningSlots`). */
interface Held {
  readonly keys: readonly string[];
  readonly taken: AcquiredSlots;
  readonly since: number;
  lastSeen: number;
  isNoted: boolean;
}

/** A query that clients follow through a replica (`RunningQueries`). */
interface Followed {
  readonly started: number;
  lastSeen: number;
  stored: number | null;
}

interface Replica {
  readonly name: string;
  /** How fast its clock goes. */
  readonly pace: number;
  readonly ledger: LeasedSlots;
  readonly held: Map<string, Held>;
  readonly gone: Map<string, AcquiredSlots>;
  readonly ended: Set<string>;
  readonly followed: Map<string, Followed>;
  readonly followedEnds: Set<string>;
  mark: number | null;
  hasRows: boolean;
  isUncertain: boolean;
  contactSince: number | null;
  lastContact: number | null;
  nextExchange: number;
  nextSweep: number;
  nextLook: number;
  nextWrite: number;
  readonly waiting: Query[];
  /** Limits as it knows them. */
  readonly limits: Map<string, number>;
  isPaused: boolean;
  isPartitioned: boolean;
  losesResponse: boolean;
  beat: { readonly beat: Heartbeat; stage: 'sent' | 'done' | 'failed'; at: number } | null;
  /** Earliest time of the next beat, after one failed. */
  notBefore: number;
  /** When it asks next who waits elsewhere. */
  nextQuestion: number;
}

/** Half of the longest transaction. */
const SLOWEST_RESPONSE_MS = 30;
/** Clients ask so often. */
const POLL_MS = 1_500;
/** `RunningQueries` writes so often, and then queries of that age; it renews the time of the last request so often. */
const WRITE_MS = 5_000;
const RENEW_MS = 60_000;
/** Ends of queries are read again for so long. */
const LATE_MS = 2_000;
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
 * A few replicas with a database and a cluster, all of them made up, and everything that can go wrong between them. Queries
 * outlive the replicas that sent them. It is driven by numbers, each of which is a command; the same numbers make the same
 * history.
 */
export class SlotWorld {
  readonly log: string[] = [];
  #time = 0;
  #seed: number;
  #replicas: Replica[] = [];
  #names = 0;
  #ids = 0;
  #isDatabaseUp = true;
  readonly #rows = new Map<string, { rows: Map<string, SlotRow>; bucket: { tokens: number; filled: number } | null }>();
  /** `eg_slot_queries`, `eg_ended_queries`, `eg_running_queries`. */
  readonly #notes = new Map<string, { replica: string; readonly keys: readonly string[]; readonly noted: number }>();
  readonly #ends = new Map<string, number>();
  readonly #follows = new Map<string, { readonly started: number; lastSeen: number }>();
  /** What the cluster runs. */
  readonly #queries = new Map<string, Query>();
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
        if (!replica.isPaused) this.#finish(replica, argument);
        break;
      case 'abandon':
        this.#abandon(argument);
        break;
      case 'leave':
        if (!replica.isPaused) this.#leave(replica, argument);
        break;
      case 'stop':
        if (!replica.isPaused && replica.beat === null) this.#stop(replica);
        break;
      case 'crash':
        this.#replace(replica);
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
      case 'loseResponse':
        replica.losesResponse = true;
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
      replica.losesResponse = false;
      this.#learnLimits(replica);
    }
    this.advance(30_000);
    // Queries that dead replicas did not come to note: as long as they run, slots that they may use stay taken.
    for (const query of [...this.#queries.values()]) {
      if (this.#replicas.some(({ held }) => held.has(query.id)) || this.#notes.has(query.id)) continue;
      this.#end(this.#replicas[this.#random(this.#replicas.length)] as Replica, query);
    }
    // What died is taken over after its lease, and what ended unseen is given up after five minutes; those that need slots of
    // several counters get them by chance.
    const isUnsettled = () => this.#needless() !== null || this.#countsInVain() || this.#hasAbandoned();
    for (let waited = 0; waited < 1_600 && isUnsettled(); waited++) this.advance(LEASE_MS / 30);
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
      const query = [...this.#queries.values()].find(({ keys }) => keys.length === 1 && keys[0] === key);
      const holder = this.#replicas.find(({ held }) => query !== undefined && held.has(query.id));
      if (query === undefined || holder === undefined) continue;
      this.#twoBeats();
      this.#end(holder, query);
      this.#twoBeats();
      this.#checkNothingWaits(
        'two beats after a slot was given back',
        ({ keys }) => keys.length === 1 && keys[0] === key,
      );
    }
  }

  /** Everything ends: nothing may be left. */
  end(): void {
    for (const replica of this.#replicas) while (replica.waiting.length > 0) this.#leave(replica, 0);
    for (const query of [...this.#queries.values()]) {
      this.#end(this.#replicas[this.#random(this.#replicas.length)] as Replica, query);
    }
    this.advance(30_000);
    // Ends that nobody has seen.
    for (let waited = 0; waited < 400 && this.#left() !== null; waited++) this.advance(2_500);
    const left = this.#left();
    if (left !== null) this.#broken(left);
  }

  /** What is still counted; null for nothing. */
  #left(): string | null {
    for (const { name, ledger } of this.#replicas) {
      const states = [...ledger.states()];
      if (states.length > 0) return `${name} still counts ${JSON.stringify(states)}`;
    }
    for (const [key, { rows }] of this.#rows) {
      if (rows.size > 0) return `the database still has rows of ${key} for ${[...rows.keys()].join()}`;
    }
    return this.#notes.size === 0 ? null : `still noted are ${[...this.#notes.keys()].join()}`;
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
      let polled: Query | null = null;
      for (const query of this.#queries.values()) {
        if (query.nextPoll >= next) continue;
        next = query.nextPoll;
        polled = query;
      }
      this.#time = Math.max(this.#time, next);
      if (polled !== null) this.#poll(polled);
      else if (who !== null) this.#step(who);
      else return;
    }
  }

  #nextOf(replica: Replica): number {
    if (replica.isPaused) return Number.POSITIVE_INFINITY;
    return Math.max(this.#time, Math.min(replica.nextWrite, this.#nextBeatOf(replica)));
  }

  #nextBeatOf(replica: Replica): number {
    if (replica.beat !== null) return replica.beat.at;
    const { dueIn, holdsUnused } = replica.ledger;
    const due = dueIn === null ? Number.POSITIVE_INFINITY : this.#time + Math.ceil(dueIn / replica.pace);
    const question = holdsUnused ? replica.nextQuestion : Number.POSITIVE_INFINITY;
    const exchange = isWatching(replica) ? replica.nextExchange : Number.POSITIVE_INFINITY;
    return Math.max(replica.notBefore, Math.min(due, question, exchange, replica.nextLook));
  }

  #step(replica: Replica): void {
    if (replica.nextWrite <= this.#time) {
      this.#writeFollowed(replica);
      return;
    }
    const { beat } = replica;
    if (beat === null) {
      if (!this.#prepare(replica)) {
        this.#fail(replica);
        return;
      }
      const begun = replica.ledger.begin();
      if (begun !== null)
        replica.beat = { beat: begun, stage: 'sent', at: this.#time + this.#random(SLOWEST_RESPONSE_MS) };
      return;
    }
    if (beat.stage === 'sent') {
      // As in `SlotHeartbeats`: after a pause, queries are to be noted first.
      const isReached = this.#isReached(replica) && !this.#isLate(replica);
      // One that gets nowhere may have decided already.
      if (isReached || this.#random(2) === 0) this.#transaction(replica, beat.beat, isReached);
      beat.stage = isReached && !replica.losesResponse ? 'done' : 'failed';
      replica.losesResponse = false;
      beat.at = this.#time + this.#random(SLOWEST_RESPONSE_MS);
      return;
    }
    replica.beat = null;
    if (beat.stage === 'done') {
      beat.beat.commit();
      if (replica.ledger.takeLostRow()) replica.isUncertain = true;
    } else {
      beat.beat.fail();
      this.#fail(replica);
    }
    this.#note(`${replica.name} ${beat.stage}`);
  }

  #fail(replica: Replica): void {
    replica.isUncertain = true;
    replica.contactSince = null;
    replica.notBefore = this.#time + 500;
  }

  #isReached(replica: Replica): boolean {
    return this.#isDatabaseUp && !replica.isPartitioned;
  }

  /** What comes before a beat, as `SlotHeartbeats` does it; false where the database fails. */
  #prepare(replica: Replica): boolean {
    if ((replica.isUncertain || this.#wasPaused(replica)) && !this.#reconcile(replica)) return false;
    replica.isUncertain = false;
    if (isWatching(replica) && replica.nextExchange <= this.#time) this.#exchange(replica);
    this.#askWhoWaits(replica);
    if (replica.nextLook <= this.#time) {
      this.#exchange(replica);
      if (!this.#look(replica)) return false;
    }
    return this.#noteLate(replica);
  }

  /** As `RunningSlots.isLate`. */
  #isLate(replica: Replica): boolean {
    const late = this.#time - LATE_NOTE_MS;
    return [...replica.held.values()].some(({ isNoted, since }) => !isNoted && since <= late);
  }

  /** As `RunningSlots.noteLate`. */
  #noteLate(replica: Replica): boolean {
    if (!this.#isLate(replica)) return true;
    if (!this.#isReached(replica)) return false;
    this.#noteHeld(replica, NOTE_AFTER_MS);
    return true;
  }

  /** As `RunningSlots.reconcile`. */
  #reconcile(replica: Replica): boolean {
    for (const held of replica.held.values()) held.lastSeen = this.#time;
    if (!replica.hasRows) return true;
    if (!this.#isReached(replica)) return false;
    for (const [id, { isNoted }] of [...replica.held]) {
      if (!isNoted || this.#notes.get(id)?.replica === replica.name) continue;
      replica.held.get(id)?.taken.release();
      replica.held.delete(id);
    }
    const own = [...this.#notes].filter(([id, note]) => note.replica === replica.name && !replica.gone.has(id));
    this.#inherit(
      replica,
      own.map(([queryId, { keys }]) => ({ queryId, cluster: 'x', keys })),
      null,
    );
    return true;
  }

  /** As `RunningSlots.exchange`. */
  #exchange(replica: Replica): void {
    replica.nextExchange = this.#time + SHORT_HEARTBEAT_MS;
    if (!this.#isReached(replica)) return;
    for (const id of replica.gone.keys()) {
      if (this.#notes.get(id)?.replica === replica.name) this.#notes.delete(id);
      else this.#ends.set(id, this.#time);
    }
    const free = [...replica.gone.values()];
    replica.gone.clear();
    for (const taken of free) taken.release();
    for (const id of replica.ended) if (!this.#ends.has(id)) this.#ends.set(id, this.#time);
    replica.ended.clear();
    this.#noteHeld(replica, NOTE_AFTER_MS);
    if (replica.held.size === 0) {
      replica.mark = null;
      return;
    }
    const { mark } = replica;
    replica.mark = this.#time - LATE_MS;
    if (mark !== null) for (const [id, at] of this.#ends) if (at >= mark) this.#endHere(replica, id);
    if (replica.nextSweep > this.#time) return;
    replica.nextSweep = this.#time + SWEEP_INTERVAL_MS;
    const since = this.#time - ABANDONED_AFTER_MS;
    for (const [id, { lastSeen }] of [...replica.held]) {
      const stored = this.#follows.get(id)?.lastSeen ?? 0;
      if (lastSeen < since && stored < since - LATE_RENEWAL_MS) this.#endHere(replica, id);
    }
  }

  #noteHeld(replica: Replica, after: number): void {
    for (const [id, held] of replica.held) {
      if (held.isNoted || this.#time - held.since < after) continue;
      held.isNoted = true;
      replica.hasRows = true;
      if (!this.#notes.has(id)) this.#notes.set(id, { replica: replica.name, keys: held.keys, noted: this.#time });
    }
  }

  /** As `DeadReplicas.wasPaused`. */
  #wasPaused({ lastContact }: Replica): boolean {
    return lastContact !== null && this.#time - lastContact > PAUSE_MS;
  }

  /** As `DeadReplicas.look`. */
  #look(replica: Replica): boolean {
    replica.nextLook = this.#time + DEAD_POLL_MS;
    if (!this.#isReached(replica)) return false;
    if (replica.contactSince === null || this.#wasPaused(replica)) replica.contactSince = this.#time;
    replica.lastContact = this.#time;
    if (this.#time - replica.contactSince < CONTACT_MS) return true;
    for (const dead of this.#deadNames(replica.name)) {
      replica.hasRows = true;
      const { queries, mark } = this.#takeOver(dead, replica);
      if (replica.losesResponse) {
        replica.losesResponse = false;
        return false;
      }
      this.#inherit(replica, queries, mark);
    }
    return true;
  }

  #deadNames(own: string): readonly string[] {
    const expires = new Map<string, number>();
    for (const { rows } of this.#rows.values()) {
      for (const row of rows.values()) expires.set(row.replica, Math.max(expires.get(row.replica) ?? 0, row.expires));
    }
    const names = [...expires].flatMap(([name, at]) => (at <= this.#time - GRACE_MS ? [name] : []));
    for (const { replica, noted } of this.#notes.values()) {
      if (!expires.has(replica) && noted <= this.#time - 60_000) names.push(replica);
    }
    return [...new Set(names)].filter((name) => name !== own);
  }

  /** As `SlotQueryRepository.takeOver`. */
  #takeOver(dead: string, heir: Replica): { queries: readonly SlotQuery[]; mark: number } {
    const slots = [...this.#rows].flatMap(([key, { rows }]) => {
      const row = rows.get(dead);
      return row === undefined ? [] : [{ key, ...row }];
    });
    const queries: SlotQuery[] = [];
    const over: SlotQuery[] = [];
    for (const [queryId, note] of this.#notes) {
      if (note.replica !== dead) continue;
      (this.#ends.has(queryId) ? over : queries).push({ queryId, cluster: 'x', keys: note.keys });
      if (this.#ends.has(queryId)) this.#notes.delete(queryId);
      else note.replica = heir.name;
    }
    const expired = Math.max(0, ...slots.map((row) => row.expires));
    let followed = 0;
    for (const [id, { started, lastSeen }] of this.#follows) {
      const isThen = started >= expired - 30_000 && started <= expired + 10_000;
      const isFollowed = lastSeen >= this.#time - ABANDONED_AFTER_MS - LATE_RENEWAL_MS;
      if (expired > 0 && isThen && isFollowed && !this.#notes.has(id) && !this.#ends.has(id)) followed += 1;
    }
    const { adopted, left } = adoptSlots({ slots, queries, over, followed: new Map([['x', followed]]) }, () => true);
    for (const [key, more] of adopted) {
      const stored = this.#rows.get(key) ?? { rows: new Map<string, SlotRow>(), bucket: null };
      this.#rows.set(key, stored);
      const { granted = 0, inUse = 0, waiting = 0 } = stored.rows.get(heir.name) ?? {};
      stored.rows.set(heir.name, {
        replica: heir.name,
        granted: granted + more,
        inUse: inUse + more,
        waiting,
        expires: this.#time + LEASE_MS,
      });
    }
    for (const { key, ...row } of slots) {
      const count = left.get(key) ?? 0;
      const stored = this.#rows.get(key)?.rows;
      if (count === 0) stored?.delete(dead);
      else stored?.set(dead, { ...row, granted: count, inUse: count, waiting: 0 });
    }
    this.#note(
      `${heir.name} takes ${dead} over: ${queries.map(({ queryId }) => queryId).join()}; ${followed} followed`,
    );
    return { queries, mark: this.#time - LATE_MS };
  }

  /** As `RunningSlots.inherit`. */
  #inherit(replica: Replica, queries: readonly SlotQuery[], mark: number | null): void {
    if (queries.length === 0) return;
    replica.mark ??= mark;
    for (const { queryId, keys } of queries) {
      const known = replica.held.get(queryId);
      if (known !== undefined) {
        known.isNoted = true;
        continue;
      }
      const taken = replica.ledger.takeOver(
        keys.map((key) => ({ key, limit: replica.limits.get(key) as number, rate: null })),
      );
      if (replica.ended.has(queryId)) replica.gone.set(queryId, taken);
      else {
        replica.held.set(queryId, { keys, taken, since: this.#time, lastSeen: this.#time, isNoted: true });
      }
    }
    this.#tellWaiting(replica);
  }

  /** As `RunningQueries` writes. */
  #writeFollowed(replica: Replica): void {
    replica.nextWrite = this.#time + WRITE_MS;
    for (const [id, { lastSeen }] of replica.followed)
      if (lastSeen < this.#time - ABANDONED_AFTER_MS) replica.followed.delete(id);
    if (!this.#isReached(replica)) return;
    for (const [id, entry] of replica.followed) {
      const { started, lastSeen, stored } = entry;
      if (stored === null ? this.#time - started < WRITE_MS : lastSeen - stored < RENEW_MS) continue;
      entry.stored = lastSeen;
      const row = this.#follows.get(id);
      if (row === undefined) this.#follows.set(id, { started, lastSeen });
      else row.lastSeen = Math.max(row.lastSeen, lastSeen);
    }
    for (const id of replica.followedEnds) this.#follows.delete(id);
    replica.followedEnds.clear();
  }

  /** The client of a query asks for more, at one replica after the other; or the cluster gives the query up. */
  #poll(query: Query): void {
    if (query.isLeft) {
      this.#note(`the cluster gives ${query.id} up`);
      this.#queries.delete(query.id);
      return;
    }
    query.nextPoll = this.#time + POLL_MS;
    for (let tries = 0; tries < this.#replicas.length; tries++) {
      const replica = this.#replicas[query.turn++ % this.#replicas.length] as Replica;
      if (replica.isPaused) continue;
      query.lastPoll = this.#time;
      const held = replica.held.get(query.id);
      if (held !== undefined) held.lastSeen = this.#time;
      const followed = replica.followed.get(query.id);
      if (followed !== undefined) followed.lastSeen = this.#time;
      else replica.followed.set(query.id, { started: query.started, lastSeen: this.#time, stored: null });
      return;
    }
  }

  #askWhoWaits(replica: Replica): void {
    if (this.#time < replica.nextQuestion || !replica.ledger.holdsUnused) return;
    replica.nextQuestion = this.#time + SHORT_HEARTBEAT_MS;
    if (!this.#isReached(replica)) return;
    const waits = ({ replica: name, waiting, expires }: SlotRow) =>
      name !== replica.name && waiting > 0 && expires > this.#time;
    replica.ledger.noteWaitingElsewhere(
      [...this.#rows].flatMap(([key, { rows }]) => ([...rows.values()].some(waits) ? [key] : [])),
    );
  }

  #transaction(replica: Replica, beat: Heartbeat, isCommitted: boolean): void {
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
      if (row !== undefined && (row.expires > this.#time || row.granted > 0))
        this.#broken(`${replica.name} deletes the row of ${other}, which counts`);
      stored.rows.delete(other);
    }
    stored.bucket = bucket;
    if (own === null) stored.rows.delete(replica.name);
    else {
      stored.rows.set(replica.name, { replica: replica.name, ...own });
      const sum = [...stored.rows.values()].reduce((total, { granted }) => total + granted, 0);
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

  #submit(replica: Replica, keys: readonly string[]): void {
    const demands = keys.map((key) =>
      key === RATE_KEY
        ? { key, limit: rate.burst, rate }
        : { key, limit: replica.limits.get(key) as number, rate: null },
    );
    const id = `q${this.#ids++}`;
    const turn = this.#random(4);
    replica.waiting.push({ id, demands, keys, turn, started: 0, nextPoll: 0, lastPoll: 0, isLeft: false });
    this.#pump(replica);
  }

  #pump(replica: Replica): void {
    for (const query of [...replica.waiting]) {
      const demands = query.demands.map((demand) => ({
        ...demand,
        limit: replica.limits.get(demand.key) ?? demand.limit,
      }));
      const { acquired } = replica.ledger.take(demands);
      if (acquired === null) continue;
      replica.waiting.splice(replica.waiting.indexOf(query), 1);
      this.#run(replica, query, acquired);
    }
    this.#tellWaiting(replica);
  }

  #run(replica: Replica, query: Query, taken: AcquiredSlots): void {
    const { id } = query;
    const started = this.#time;
    query.started = started;
    query.lastPoll = started;
    query.nextPoll = started + POLL_MS;
    this.#queries.set(id, query);
    const keys = query.keys.filter((key) => key !== RATE_KEY);
    replica.held.set(id, { keys, taken, since: started, lastSeen: started, isNoted: false });
    replica.followed.set(id, { started, lastSeen: started, stored: null });
    this.#checkTaken(replica, query);
  }

  #tellWaiting({ ledger, waiting, limits }: Replica): void {
    for (const key of [...counters, RATE_KEY]) {
      const count = waiting.filter(({ keys }) => keys.includes(key)).length;
      const limit = limits.get(key) ?? rate.burst;
      ledger.setWaiting({ key, limit, rate: key === RATE_KEY ? rate : null }, count);
    }
  }

  #checkTaken(replica: Replica, { id, keys }: Query): void {
    this.#note(`${replica.name} takes ${keys.join()} for ${id}`);
    for (const key of keys) {
      if (key === RATE_KEY) {
        this.#tokensTaken += 1;
        const most = rate.burst + (this.#time * rate.queries) / rate.periodMs;
        if (this.#tokensTaken > most + 0.01) this.#broken(`${this.#tokensTaken} tokens were taken, of ${most}`);
        continue;
      }
      const row = this.#rows.get(key)?.rows.get(replica.name);
      if (row === undefined || row.expires <= this.#time) this.#broken(`${replica.name} takes ${key} without a lease`);
      const limit = Math.max(...this.#replicas.map(({ limits }) => limits.get(key) as number));
      const running = this.#running(key);
      if (running > limit) this.#broken(`${running} queries run by ${key}, of ${limit}`);
    }
  }

  /** Queries that the cluster runs, whatever became of the replicas that sent them. */
  #running(key: string): number {
    let count = 0;
    for (const { keys } of this.#queries.values()) if (keys.includes(key)) count += 1;
    return count;
  }

  #checkNothingWaits(when: string, which: (query: Query) => boolean = () => true): void {
    const needless = this.#needless(which);
    if (needless !== null) this.#broken(`${when}, ${needless} although there is room`);
  }

  /** Whether anything is counted that does not run: slots of dead replicas, and queries that ended unseen. */
  #countsInVain(): boolean {
    const names = new Set(this.#replicas.map(({ name }) => name));
    return (
      [...this.#rows.values()].some(({ rows }) => [...rows.keys()].some((name) => !names.has(name))) ||
      this.#replicas.some(({ held }) => [...held.keys()].some((id) => !this.#queries.has(id)))
    );
  }

  /** Whether a query runs that its cluster gives up before long; its slot stays taken for some time after that. */
  #hasAbandoned(): boolean {
    return [...this.#queries.values()].some(({ isLeft }) => isLeft);
  }

  /** What waits although there is room; null when nothing does. */
  #needless(which: (query: Query) => boolean = () => true): string | null {
    const isFull = (key: string) => this.#running(key) >= (this.#limits.get(key) as number);
    for (const { name, waiting } of this.#replicas) {
      for (const query of waiting) {
        if (!which(query) || query.keys.includes(RATE_KEY) || query.keys.some(isFull)) continue;
        return `${query.keys.join()} waits at ${name}`;
      }
    }
    return null;
  }

  /** The last page of a query passes a replica, any of them. */
  #finish(replica: Replica, which: number): void {
    const followed = [...this.#queries.values()].filter(({ isLeft }) => !isLeft);
    const query = followed[which % Math.max(1, followed.length)];
    if (query !== undefined) this.#end(replica, query);
  }

  #end(replica: Replica, { id }: Query): void {
    this.#note(`${id} ends at ${replica.name}`);
    this.#queries.delete(id);
    replica.followed.delete(id);
    replica.followedEnds.add(id);
    if (replica.held.has(id)) this.#endHere(replica, id);
    else replica.ended.add(id);
    this.#tellWaiting(replica);
  }

  /** As `RunningSlots` ends a query. */
  #endHere(replica: Replica, id: string): void {
    const held = replica.held.get(id);
    if (held === undefined) return;
    replica.held.delete(id);
    if (held.isNoted) {
      replica.gone.set(id, held.taken);
      replica.nextExchange = Math.min(replica.nextExchange, this.#time + 20);
    } else held.taken.release();
  }

  /** A client asks no more, for a query that the database knows of: for others clients ask again within seconds. */
  #abandon(which: number): void {
    const known = [...this.#queries.values()].filter(
      ({ id, isLeft }) => !isLeft && (this.#notes.has(id) || this.#follows.has(id)),
    );
    const query = known[which % Math.max(1, known.length)];
    if (query === undefined) return;
    this.#note(`the client of ${query.id} leaves`);
    query.isLeft = true;
    query.nextPoll = query.lastPoll + ABANDONED_AFTER_MS;
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
    this.advance(2 * (SHORT_HEARTBEAT_MS / 0.95 + 3 * SLOWEST_RESPONSE_MS));
  }

  /** A replica is stopped as it should be, and another one takes its place. */
  #stop(replica: Replica): void {
    replica.ledger.retire();
    if (this.#isReached(replica) && (!replica.isUncertain || this.#reconcile(replica))) {
      this.#exchange(replica);
      for (let beat = replica.ledger.begin(); beat !== null; beat = replica.ledger.begin()) {
        this.#transaction(replica, beat, true);
        beat.commit();
      }
      this.#exchange(replica);
      this.#noteHeld(replica, 0);
      for (const { rows } of this.#rows.values()) {
        const row = rows.get(replica.name);
        if (row !== undefined) rows.set(replica.name, { ...row, expires: this.#time - GRACE_MS - 1 });
      }
    }
    this.#replace(replica);
  }

  #replace(replica: Replica): void {
    this.#replicas = this.#replicas.filter((other) => other !== replica);
    this.#start();
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
      held: new Map(),
      gone: new Map(),
      ended: new Set(),
      followed: new Map(),
      followedEnds: new Set(),
      mark: null,
      hasRows: false,
      isUncertain: false,
      contactSince: null,
      lastContact: null,
      nextExchange: 0,
      nextSweep: 0,
      nextLook: this.#time,
      nextWrite: this.#time + this.#random(WRITE_MS),
      waiting: [],
      limits: new Map(this.#limits),
      isPaused: false,
      isPartitioned: false,
      losesResponse: false,
      beat: null,
      notBefore: 0,
      nextQuestion: 0,
    };
    ledger.onCapacity(() => this.#pump(replica));
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

/** As `RunningSlots.isWatching`. */
function isWatching({ held, gone, ended }: Replica): boolean {
  return held.size + gone.size + ended.size > 0;
}

/**
 * The number of a command.
 * @param time index of {@link times}
 */
export function commandNumber(
  time: number,
  replica: number,
  what: (typeof commands)[number],
  argument: number,
  replicas: number,
): number {
  return time + times.length * (replica + replicas * (commands.indexOf(what) + commands.length * argument));
}

/** Times before commands: mostly less than a beat. */
export const times = [0, 0, 1, 5, 10, 30, 60, 100, 200, 300, 500, 1_000, 2_500, 6_000, 20_000];

const commands = [
  ...Array<'submit'>(14).fill('submit'),
  ...Array<'finish'>(9).fill('finish'),
  'leave',
  'leave',
  'abandon',
  'crash',
  'stop',
  'pause',
  'resume',
  'resume',
  'partition',
  'database',
  'loseResponse',
  'loseResponse',
  'limit',
  'learnLimits',
  'learnLimits',
] as const;
