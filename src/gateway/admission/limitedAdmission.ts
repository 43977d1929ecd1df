import type { Attempt } from '../../admission/fairQueue.ts';
import type { LeasedSlots } from '../../admission/leasedSlots.ts';
import type { SlotDemand, TakenSlots } from '../../admission/slotLedger.ts';
import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import { type AdmissionPolicy, DEFAULT_QUEUE, noPolicy, type QueuePolicy } from '../../routing/admissionPolicy.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import { findTakers } from '../../routing/takers.ts';
import type { Admission, AdmissionAnswer, AdmissionRequest, QuerySlots, QueuePosition } from './admission.ts';
import type { AdmissionMetrics } from './admissionMetrics.ts';
import {
  clusterDemand,
  type Demands,
  groupKey,
  groupQueueKey,
  LimitDemands,
  limitKey,
  limitOfKey,
  noDemands,
  sharedDemands,
} from './limitDemands.ts';
import type { QueueCounts } from './queueCounts.ts';
import type { RunningSlots } from './runningSlots.ts';
import type { SharedCounts } from './sharedCounts.ts';
import type { WaitingRoom, WaitingSubmission } from './waitingRoom.ts';

/** What limits are applied with. */
export interface LimitedAdmissionDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly ledger: LeasedSlots;
  readonly running: RunningSlots;
  readonly room: WaitingRoom;
  readonly queueCounts: QueueCounts;
  readonly counts: Pick<SharedCounts, 'noteRefused'>;
  readonly metrics: AdmissionMetrics;
  readonly clock: Clock;
  /** Whether the database is unavailable. */
  readonly isDatabaseAway: () => boolean;
  readonly settings: LimitedAdmissionSettings;
}

/** Settings of `LimitedAdmission`. */
export interface LimitedAdmissionSettings {
  /** `admission.onDatabaseUnavailable` */
  readonly onDatabaseUnavailable: 'refuse' | 'admit';
  readonly defaultRoutingGroup: string;
}

const now: AdmissionAnswer = { answer: 'now' };
/** Counters that a text names. */
const MAX_TEXTS = 3;

/**
 * Admits submissions within the limits of groups, clusters and `QueryLimit`s: by slots that this replica has, without I/O. Those
 * that lack one wait.
 */
export class LimitedAdmission implements Admission {
  readonly #dependencies: LimitedAdmissionDependencies;
  readonly #demands = new LimitDemands();
  readonly #sourceHeader: string;
  /** How many wait here for each counter. */
  readonly #waiting = new Map<string, number>();
  #version = -1;
  #policy: AdmissionPolicy = noPolicy;
  /** Of clusters that have a limit, by name. */
  #clusters: ReadonlyMap<string, SlotDemand> = new Map();
  /** Demands that many submissions have: of clusters, groups, and limits with one counter. */
  #shared: ReadonlyMap<string, SlotDemand> = new Map();
  #isLimited = false;

  constructor(dependencies: LimitedAdmissionDependencies) {
    this.#dependencies = dependencies;
    this.#sourceHeader = dependencies.names.headerKey('Source');
    dependencies.ledger.onRoom(() => dependencies.room.admit());
  }

  admit(request: AdmissionRequest): AdmissionAnswer {
    const { table, metrics, counts, room } = this.#dependencies;
    const { current } = table;
    if (current.version !== this.#version) this.#learn(current);
    if (!this.#isLimited) return now;
    const user = request.user.user ?? '';
    const source = firstHeader(request.headers, this.#sourceHeader) ?? '';
    const { group } = request.decision;
    const demands = this.#demands.of(this.#policy, group, user, source, request.user.membership);
    if (demands.enforced.length + demands.observed.length + this.#clusters.size === 0) return now;
    const slots = new SubmissionSlots(this, request, demands);
    if (demands.observed.length > 0) slots.observe();
    if (!room.hasQueue(group) && slots.tryTake(new Set()) === 'admitted') {
      metrics.admitted();
      return { answer: 'now', slots };
    }
    const queue = this.#policy.groups.get(group)?.queue ?? DEFAULT_QUEUE;
    const full = request.waitedMs === undefined ? this.#fullQueue(group, queue, demands) : null;
    if (full !== null) {
      slots.release();
      metrics.refused();
      counts.noteRefused(full.keys);
      return { answer: 'refuse', refusal: full.refusal };
    }
    slots.beginWait(queue, queue.fairBy === 'user' ? user : source);
    return { answer: 'wait', slots, noteLate: () => slots.noteRefused(), ...room.wait(slots) };
  }

  countBound({ decision }: AdmissionRequest): QuerySlots | null {
    const { current } = this.#dependencies.table;
    if (current.version !== this.#version) this.#learn(current);
    if (this.#clusters.size === 0) return null;
    return new SubmissionSlots(this, null, noDemands, decision.group);
  }

  /** Whether a cluster may run one more query. */
  hasRoom(cluster: string): boolean {
    const demand = this.#clusters.get(cluster);
    return demand === undefined || this.#dependencies.ledger.hasRoom(demand);
  }

  whyItWaits(request: AdmissionRequest): string | null {
    this.refresh();
    if (!this.#isLimited) return null;
    const { ledger } = this.#dependencies;
    const user = request.user.user ?? '';
    const source = firstHeader(request.headers, this.#sourceHeader) ?? '';
    const demands = this.#demands.of(this.#policy, request.decision.group, user, source, request.user.membership);
    const clusters = this.clustersOf(request) ?? [];
    const areFull = clusters.length > 0 && clusters.every((demand) => ledger.isExhausted(demand));
    const full = [...demands.enforced.filter((demand) => ledger.isExhausted(demand)), ...(areFull ? clusters : [])];
    return full.length === 0 ? null : this.textOf(full.map(({ key }) => key));
  }

  /** What people read of counters that are full. */
  textOf(keys: readonly string[]): string {
    return keys
      .slice(0, MAX_TEXTS)
      .map((key) => this.#textOfCounter(key))
      .join(', ');
  }

  #textOfCounter(key: string): string {
    const [kind = '', ...rest] = key.split(':');
    const [name = '', value] = rest.map((part) => decodedText(part));
    const inUse = () => this.#dependencies.ledger.inUse(key);
    if (kind === 'cluster') {
      const limit = this.demandOfCluster(name)?.limit;
      return `cluster ${name}: ${inUse()} of ${limit} running (maxRunningQueries)`;
    }
    if (kind === 'group') {
      const limit = this.#policy.groups.get(name)?.maxRunning;
      return `group ${name}: ${inUse()} of ${limit} running (maxRunningQueries of the group)`;
    }
    const limit = limitOfKey(this.#policy, key);
    const of = value === undefined ? '' : ` of ${limit?.per ?? 'user'} ${value}`;
    if (kind === 'rate') {
      const { queries = 0, periodMs = 0 } = limit?.rate ?? {};
      return `limit ${name}${of}: ${queries} queries in ${periodMs / 1000} s (rate)`;
    }
    return `limit ${name}${of}: ${inUse()} of ${limit?.maxRunning} running (maxRunning)`;
  }

  watchCoordinators(isSuperseded: (queryId: string) => boolean): void {
    this.#dependencies.running.watchCoordinators(isSuperseded);
  }

  /** Takes changed limits, also while no submission comes. */
  refresh(): void {
    const { current } = this.#dependencies.table;
    if (current.version !== this.#version) this.#learn(current);
  }

  /** What the wait of submissions works with. */
  get parts(): LimitedAdmissionDependencies {
    return this.#dependencies;
  }

  get policy(): AdmissionPolicy {
    return this.#policy;
  }

  demandOfCluster(cluster: string): SlotDemand | null {
    return this.#clusters.get(cluster) ?? null;
  }

  /**
   * A cluster whose slot a submission can take, before it is known which one is chosen.
   * @returns null where no cluster of the decision has a limit, or none can take it at all; else the demands of those that could,
   *   of which one with room is the first
   */
  clustersOf({ decision, excluded = null }: AdmissionRequest): readonly SlotDemand[] | null {
    if (this.#clusters.size === 0) return null;
    const { table, settings } = this.#dependencies;
    const { candidates } = findTakers({
      table: table.current,
      decision,
      defaultGroup: settings.defaultRoutingGroup,
      excluded,
      hasRoom: (cluster) => this.hasRoom(cluster),
    });
    const demands: SlotDemand[] = [];
    for (const { name } of candidates) {
      const demand = this.#clusters.get(name);
      if (demand === undefined) return null;
      demands.push(demand);
    }
    return demands.length === 0 ? null : demands;
  }

  /** Counts a submission among those that wait. @param by 1 or -1 */
  countQueued(group: string, { queues }: Demands, by: 1 | -1): void {
    const { queueCounts } = this.#dependencies;
    queueCounts.count(groupQueueKey(group), by);
    for (const { key } of queues) queueCounts.count(key, by);
  }

  /** Why no more may wait, and what refuses it; null: there is room. */
  #fullQueue(
    group: string,
    { maxQueued }: QueuePolicy,
    { queues }: Demands,
  ): { readonly refusal: Refusal; readonly keys: readonly string[] } | null {
    const { queueCounts } = this.#dependencies;
    if (queueCounts.waiting(groupQueueKey(group)) >= maxQueued) {
      const refusal = queueFull(`wait for routing group ${group} do, ${maxQueued} (queue.maxQueued)`, null);
      return { refusal, keys: [groupKey(group)] };
    }
    const full = queues.find(({ key, maxQueued: most }) => queueCounts.waiting(key) >= most);
    if (full === undefined) return null;
    const message = this.#policy.limits.find(({ key }) => key === full.limit)?.message ?? null;
    const refusal = queueFull(`wait under limit ${full.limit} do, ${full.maxQueued} (maxQueued)`, message);
    return { refusal, keys: [groupKey(group), limitKey(full.limit)] };
  }

  /** Counts a submission that was refused, or would have been. @param keys counters of its group and of limits */
  noteRefused(keys: readonly string[]): void {
    const named = keys.flatMap((key) => {
      const limit = limitOfKey(this.#policy, key);
      return limit === null ? (key.startsWith('group:') ? [key] : []) : [limitKey(limit.key)];
    });
    this.#dependencies.counts.noteRefused(named);
  }

  /** Counts those that wait for counters. @param by 1 or -1 */
  countWaiting(demands: readonly SlotDemand[], by: 1 | -1): void {
    for (const demand of demands) {
      const count = (this.#waiting.get(demand.key) ?? 0) + by;
      if (count === 0) this.#waiting.delete(demand.key);
      else this.#waiting.set(demand.key, count);
      this.#dependencies.ledger.setWaiting(demand, count);
    }
  }

  #learn({ version, admission, clusters }: RoutingTable): void {
    this.#version = version;
    const limited = new Map<string, SlotDemand>();
    let isSame = admission === this.#policy;
    for (const cluster of clusters.values()) {
      const demand = clusterDemand(cluster);
      if (demand === null) continue;
      limited.set(cluster.name, demand);
      if (this.#clusters.get(cluster.name)?.limit !== demand.limit) isSame = false;
    }
    if (isSame && limited.size === this.#clusters.size) return;
    this.#policy = admission;
    this.#clusters = limited;
    const hasGroups = [...admission.groups.values()].some(({ maxRunning }) => maxRunning !== null);
    this.#isLimited = hasGroups || limited.size > 0 || admission.limits.length > 0;
    const { ledger, running } = this.#dependencies;
    running.share(this.#isLimited);
    const shared = new Map([...limited.values(), ...sharedDemands(admission)].map((demand) => [demand.key, demand]));
    this.#shared = shared;
    ledger.revise((key) => this.demandOf(key));
    for (const demand of shared.values()) ledger.keep(demand);
  }

  /** The present demand of a counter; null where no limit has it. */
  demandOf(key: string): SlotDemand | null {
    const demand = this.#shared.get(key);
    if (demand !== undefined) return demand;
    const limit = limitOfKey(this.#policy, key);
    if (limit === null || limit.per === 'all') return null;
    if (key.startsWith('rate:')) return limit.rate === null ? null : { key, limit: limit.rate.burst, rate: limit.rate };
    return limit.maxRunning === null ? null : { key, limit: limit.maxRunning, rate: null };
  }
}

/** What one submission takes of limits. */
class SubmissionSlots implements QuerySlots, WaitingSubmission {
  readonly group: string;
  readonly weight: number;
  holdMs = 0;
  maxWaitMs = 0;
  readonly waitedMs: number;
  flow = '';
  readonly #admission: LimitedAdmission;
  /** Null: it is bound to a cluster, and never waits. */
  readonly #request: AdmissionRequest | null;
  readonly #demands: Demands;
  /** Of its group and its limits. */
  #taken: TakenSlots | null = null;
  #observed: TakenSlots | null = null;
  /** Of a cluster: the one that is chosen, or one that is kept free until it is. */
  #cluster: TakenSlots | null = null;
  #isOver = false;
  #waitingSince: number | null = null;
  #wait: WaitText | null = null;
  /** What the wait came to, once it is over. */
  #waited: string | null = null;
  /** Cluster that was chosen. */
  #chosen: string | null = null;
  /** Counters that it waits for. */
  #waitsFor: readonly SlotDemand[] = [];
  #full: readonly string[] = [];

  constructor(admission: LimitedAdmission, request: AdmissionRequest | null, demands: Demands, group?: string) {
    this.#admission = admission;
    this.#request = request;
    this.#demands = demands;
    this.weight = demands.weight;
    this.waitedMs = request?.waitedMs ?? 0;
    this.group = group ?? request?.decision.group ?? '';
  }

  /** Counts what is only observed, and whether it would have waited. */
  observe(): void {
    const { ledger, metrics } = this.#admission.parts;
    const { observed } = this.#demands;
    const exhausted = observed.filter((demand) => ledger.isExhausted(demand));
    for (const { key } of exhausted) metrics.wouldWait(key);
    if (exhausted.length > 0) this.#admission.noteRefused(exhausted.map(({ key }) => key));
    for (const demand of observed) if (demand.rate != null) ledger.take([demand]);
    this.#observed = ledger.adopt(observed);
  }

  /** From now on it waits. */
  beginWait({ holdMs, maxWaitMs, fairBy }: QueuePolicy, flow: string): void {
    this.#wait = new WaitText(fairBy, this.weight);
    this.holdMs = holdMs;
    this.maxWaitMs = maxWaitMs;
    this.flow = flow;
    this.#waitingSince = this.#admission.parts.clock.monotonic();
    this.#admission.countQueued(this.group, this.#demands, 1);
    const missing = this.#missing();
    // One that others wait before was not tried.
    if (this.#full.length === 0) this.#full = this.#fullOf(missing);
    this.#waitFor(missing);
  }

  #fullOf(demands: readonly SlotDemand[]): readonly string[] {
    const { ledger } = this.#admission.parts;
    return demands.flatMap((demand) => (ledger.hasRoom(demand) ? [] : [demand.key]));
  }

  #waitFor(demands: readonly SlotDemand[]): void {
    const added = demands.filter(({ key }) => !this.#waitsFor.some((other) => other.key === key));
    if (added.length === 0) return;
    this.#waitsFor = [...this.#waitsFor, ...added];
    this.#admission.countWaiting(added, 1);
  }

  tryTake(fullCounters: Set<string>): Attempt {
    if (this.#isOver || this.#request === null) return 'blocked';
    // Without looking at all of them again for each that waits.
    if (fullCounters.size > 0 && this.#demands.enforced.some(({ key }) => fullCounters.has(key))) return 'blocked';
    const { ledger, metrics } = this.#admission.parts;
    const clusters = this.#admission.clustersOf(this.#request);
    const open = clusters === null ? null : clusters.find((demand) => ledger.hasRoom(demand));
    if (open === undefined) {
      this.#full = (clusters ?? []).map(({ key }) => key);
      if (this.#waitingSince !== null) this.#waitFor(clusters ?? []);
      const { cluster, onUnavailable } = this.#request.decision;
      return cluster === null && onUnavailable === 'fallback' ? 'full' : 'blocked';
    }
    const { taken, full } = ledger.take(this.#demands.enforced);
    if (taken === null) {
      this.#full = full;
      for (const key of full) fullCounters.add(key);
      return full.some((key) => key.startsWith('group:')) ? 'full' : 'blocked';
    }
    this.#taken = taken;
    if (open !== null) this.#cluster = ledger.take([open]).taken;
    if (this.#waitingSince !== null) {
      const waited = this.#endWait();
      metrics.waited();
      this.#waited = `${this.#fullText()}; ${this.#waitText(waited)}`;
    }
    return 'admitted';
  }

  /** Counts that it was refused, by its group and the limits that it waited for. */
  noteRefused(): void {
    this.#admission.noteRefused([groupKey(this.group), ...this.#full]);
  }

  takeAnyway(): boolean {
    const { ledger, metrics, isDatabaseAway, settings } = this.#admission.parts;
    const waited = this.#endWait();
    if (!isDatabaseAway() || settings.onDatabaseUnavailable === 'refuse') {
      metrics.refused();
      this.noteRefused();
      return false;
    }
    metrics.admittedAnyway();
    this.#taken = ledger.adopt(this.#demands.enforced);
    this.#waited = `${this.#fullText()}; ${this.#waitText(waited)}; not held longer as the database is unavailable`;
    return true;
  }

  noteEntry(position: QueuePosition | null): void {
    this.#wait?.noteEntry(position);
  }

  noteMoved(): void {
    this.#wait?.noteMoved();
  }

  why(): string {
    return this.#fullText();
  }

  get note(): string | null {
    if (this.#waited !== null)
      return this.#chosen === null ? this.#waited : `${this.#waited}; admitted to ${this.#chosen}`;
    return this.#wait === null ? null : `${this.#fullText()}; waits${this.#wait.place}`;
  }

  #waitText(waitedMs: number): string {
    const all = this.waitedMs + waitedMs;
    return `waited ${(all / 1000).toFixed(1)} s${this.#wait?.place ?? ''}`;
  }

  refusal(): Refusal {
    const { isDatabaseAway } = this.#admission.parts;
    const message = this.#messageOfLimit();
    const what = isDatabaseAway()
      ? 'The database of the gateway is unavailable, so that it cannot get slots that may be free elsewhere; send the query again later.'
      : 'Send the query again when others have ended.';
    const text = `Too many queries run: ${this.#fullText()}. ${what}${message === null ? '' : ` ${message}`}`;
    return { reason: 'queue_full', message: text, queryId: null };
  }

  beginChoice(): void {
    this.#cluster?.release();
    this.#cluster = null;
  }

  takeCluster({ name }: ClusterEntry): Refusal | null {
    const { ledger } = this.#admission.parts;
    this.#chosen = name;
    this.beginChoice();
    const demand = this.#admission.demandOfCluster(name);
    if (demand === null) return null;
    // One that is bound to its cluster runs in any case, and is counted.
    if (this.#request === null) {
      this.#cluster = ledger.adopt([demand]);
      return null;
    }
    this.#cluster = ledger.take([demand]).taken;
    if (this.#cluster !== null) return null;
    this.#full = [demand.key];
    return this.refusal();
  }

  bind(queryId: string, cluster: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const taken = [this.#taken, this.#observed, this.#cluster].filter((one) => one !== null);
    if (taken.length > 0) this.#admission.parts.running.bind(queryId, cluster, taken);
  }

  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#waitingSince !== null) this.#waited = `${this.#fullText()}; ${this.#waitText(this.#endWait())}`;
    this.#taken?.release();
    this.#observed?.release();
    this.#cluster?.release();
  }

  /** @returns how long it waited, milliseconds */
  #endWait(): number {
    if (this.#waitingSince === null) return 0;
    const waited = this.#admission.parts.clock.monotonic() - this.#waitingSince;
    this.#waitingSince = null;
    this.#admission.countQueued(this.group, this.#demands, -1);
    this.#admission.countWaiting(this.#waitsFor, -1);
    this.#waitsFor = [];
    return waited;
  }

  #missing(): readonly SlotDemand[] {
    const clusters = this.#request === null ? null : this.#admission.clustersOf(this.#request);
    const { ledger } = this.#admission.parts;
    const isFull = clusters !== null && !clusters.some((demand) => ledger.hasRoom(demand));
    return [...this.#demands.enforced, ...(isFull ? clusters : [])];
  }

  #fullText(): string {
    return this.#full.length === 0 ? `others wait for group ${this.group}` : this.#admission.textOf(this.#full);
  }

  #messageOfLimit(): string | null {
    for (const key of this.#full) {
      const message = limitOfKey(this.#admission.policy, key)?.message;
      if (message != null) return message;
    }
    return null;
  }
}

/** What the trace says of the place of a submission that waits. */
class WaitText {
  readonly #fairness: string;
  #entry: QueuePosition | null = null;
  #isMoved = false;

  constructor(fairBy: QueuePolicy['fairBy'], weight: number) {
    this.#fairness = ` (fair by ${fairBy}, weight ${weight})`;
  }

  noteEntry(position: QueuePosition | null): void {
    this.#entry = position;
  }

  noteMoved(): void {
    this.#isMoved = true;
  }

  /** `as 3rd of 12 (fair by user, weight 1)`; empty before it has a place. */
  get place(): string {
    const place = this.#entry === null ? '' : ` as ${ordinal(this.#entry.position)} of ${this.#entry.waiting}`;
    return `${place}${this.#fairness}${this.#isMoved ? ', moved first by an administrator' : ''}`;
  }
}

function ordinal(place: number): string {
  const last = Math.floor(place / 10) % 10 === 1 ? 0 : place % 10;
  return `${place}${['th', 'st', 'nd', 'rd'][last] ?? 'th'}`;
}

/** @param rest of the sentence that says what is full @param message text of the limit for people */
function queueFull(rest: string, message: string | null): Refusal {
  const text = `As many queries as may ${rest}; send the query again later.`;
  return { reason: 'queue_full', message: message === null ? text : `${text} ${message}`, queryId: null };
}

function decodedText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
