import type { Attempt } from '../../admission/fairQueue.ts';
import type { LeasedSlots } from '../../admission/leasedSlots.ts';
import type { AcquiredSlots, SlotDemand } from '../../admission/slotLedger.ts';
import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import { type AdmissionPolicy, DEFAULT_QUEUE, noPolicy, type QueuePolicy } from '../../routing/admissionPolicy.ts';
import { findEligible } from '../../routing/clusterChoice.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { Admission, AdmissionRequest, AdmissionResponse, QuerySlots, QueuePosition } from './admission.ts';
import type { AdmissionMetrics } from './admissionMetrics.ts';
import type { AdmissionQueue, WaitingSubmission } from './admissionQueue.ts';
import {
  clusterDemand,
  type Demands,
  groupCounter,
  groupQueueCounter,
  LimitDemands,
  limitCounter,
  limitOfKey,
  noDemands,
  sharedDemands,
} from './limitDemands.ts';
import type { QueueCounts } from './queueCounts.ts';
import type { RunningSlots } from './runningSlots.ts';
import type { SharedCounts } from './sharedCounts.ts';

export interface LimitedAdmissionDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly ledger: LeasedSlots;
  readonly running: RunningSlots;
  readonly admissionQueue: AdmissionQueue;
  readonly queueCounts: QueueCounts;
  readonly counts: Pick<SharedCounts, 'noteRejected'>;
  readonly metrics: AdmissionMetrics;
  readonly clock: Clock;
  readonly isDatabaseAway: () => boolean;
  readonly settings: LimitedAdmissionSettings;
}

/** Settings of `LimitedAdmission`. */
export interface LimitedAdmissionSettings {
  /** `admission.onDatabaseUnavailable` */
  readonly onDatabaseUnavailable: 'refuse' | 'admit';
  readonly defaultRoutingGroup: string;
}

const now: AdmissionResponse = { kind: 'now' };
const MAX_TEXTS = 3;

/**
 * Admits submissions within the limits of groups, clusters and `QueryLimit`s: by slots of this replica, without I/O.
 * Submissions without a slot wait.
 */
export class LimitedAdmission implements Admission {
  readonly #dependencies: LimitedAdmissionDependencies;
  readonly #demands = new LimitDemands();
  readonly #sourceHeader: string;
  /** Number of local waiters by counter. */
  readonly #waiting = new Map<string, number>();
  #version = -1;
  #policy: AdmissionPolicy = noPolicy;
  #clusters: ReadonlyMap<string, SlotDemand> = new Map();
  /** Shared demands: of clusters, groups, and limits with one counter. */
  #shared: ReadonlyMap<string, SlotDemand> = new Map();
  #isLimited = false;

  constructor(dependencies: LimitedAdmissionDependencies) {
    this.#dependencies = dependencies;
    this.#sourceHeader = dependencies.names.headerKey('Source');
    dependencies.ledger.onCapacity(() => dependencies.admissionQueue.admit());
  }

  admit(request: AdmissionRequest): AdmissionResponse {
    const { table, metrics, counts, admissionQueue } = this.#dependencies;
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
    if (!admissionQueue.hasQueue(group) && slots.tryTake(new Set()) === 'admitted') {
      metrics.admitted();
      return { kind: 'now', slots };
    }
    const queue = this.#policy.groups.get(group)?.queue ?? DEFAULT_QUEUE;
    const full = request.waitedMs === undefined ? this.#fullQueue(group, queue, demands) : null;
    if (full !== null) {
      slots.release();
      metrics.rejected();
      counts.noteRejected(full.keys);
      return { kind: 'reject', refusal: full.refusal };
    }
    slots.beginWait(queue, queue.fairBy === 'user' ? user : source);
    return { kind: 'wait', slots, noteLate: () => slots.noteRejected(), ...admissionQueue.wait(slots) };
  }

  countBound({ decision }: AdmissionRequest): QuerySlots | null {
    const { current } = this.#dependencies.table;
    if (current.version !== this.#version) this.#learn(current);
    if (this.#clusters.size === 0) return null;
    return new SubmissionSlots(this, null, noDemands, decision.group);
  }

  hasCapacity(cluster: string): boolean {
    const demand = this.#clusters.get(cluster);
    return demand === undefined || this.#dependencies.ledger.hasCapacity(demand);
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

  /** Describes full counters. */
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
    return `limit ${name}${of}: ${inUse()} of ${limit?.maxRunning} running (maxRunningQueries)`;
  }

  watchCoordinators(isSuperseded: (queryId: string) => boolean): void {
    this.#dependencies.running.watchCoordinators(isSuperseded);
  }

  /** Applies changed limits even without submissions. */
  refresh(): void {
    const { current } = this.#dependencies.table;
    if (current.version !== this.#version) this.#learn(current);
  }

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
   * Demands of the eligible clusters before one is chosen.
   * @returns null if no eligible cluster has a limit, or none is eligible; else their demands, one with capacity first
   */
  clustersOf({ decision, excluded = null }: AdmissionRequest): readonly SlotDemand[] | null {
    if (this.#clusters.size === 0) return null;
    const { table, settings } = this.#dependencies;
    const { candidates } = findEligible({
      table: table.current,
      decision,
      defaultGroup: settings.defaultRoutingGroup,
      excluded,
      hasCapacity: (cluster) => this.hasCapacity(cluster),
    });
    const demands: SlotDemand[] = [];
    for (const { name } of candidates) {
      const demand = this.#clusters.get(name);
      if (demand === undefined) return null;
      demands.push(demand);
    }
    return demands.length === 0 ? null : demands;
  }

  /** Counts a queued submission. @param by 1 or -1 */
  countQueued(group: string, { queues }: Demands, by: 1 | -1): void {
    const { queueCounts } = this.#dependencies;
    queueCounts.count(groupQueueCounter(group), by);
    for (const { key } of queues) queueCounts.count(key, by);
  }

  /** The full queue and its rejection; null if there is capacity. */
  #fullQueue(
    group: string,
    { maxQueued }: QueuePolicy,
    { queues }: Demands,
  ): { readonly refusal: Refusal; readonly keys: readonly string[] } | null {
    const { queueCounts } = this.#dependencies;
    if (queueCounts.waiting(groupQueueCounter(group)) >= maxQueued) {
      const refusal = queueFull(`wait for routing group ${group} do, ${maxQueued} (queue.maxQueuedQueries)`, null);
      return { refusal, keys: [groupCounter(group)] };
    }
    const full = queues.find(({ key, maxQueued: most }) => queueCounts.waiting(key) >= most);
    if (full === undefined) return null;
    const message = this.#policy.limits.find(({ key }) => key === full.limit)?.message ?? null;
    const refusal = queueFull(`wait under limit ${full.limit} do, ${full.maxQueued} (maxQueuedQueries)`, message);
    return { refusal, keys: [groupCounter(group), limitCounter(full.limit)] };
  }

  /** Counts a submission that was rejected, or would have been. @param keys counters of its group and of limits */
  noteRejected(keys: readonly string[]): void {
    const named = keys.flatMap((key) => {
      const limit = limitOfKey(this.#policy, key);
      return limit === null ? (key.startsWith('group:') ? [key] : []) : [limitCounter(limit.key)];
    });
    this.#dependencies.counts.noteRejected(named);
  }

  /** Counts waiters for counters. @param by 1 or -1 */
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

  /** The current demand of a counter; null if no limit has it. */
  demandOf(key: string): SlotDemand | null {
    const demand = this.#shared.get(key);
    if (demand !== undefined) return demand;
    const limit = limitOfKey(this.#policy, key);
    if (limit === null || limit.per === 'all') return null;
    if (key.startsWith('rate:')) return limit.rate === null ? null : { key, limit: limit.rate.burst, rate: limit.rate };
    return limit.maxRunning === null ? null : { key, limit: limit.maxRunning, rate: null };
  }
}

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
  #acquired: AcquiredSlots | null = null;
  #observed: AcquiredSlots | null = null;
  /** Slot of the chosen cluster, or of one that is reserved until the choice. */
  #cluster: AcquiredSlots | null = null;
  #isOver = false;
  #waitingSince: number | null = null;
  #wait: WaitText | null = null;
  #waited: string | null = null;
  #chosen: string | null = null;
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

  /** Counts observed limits, and whether it would have waited. */
  observe(): void {
    const { ledger, metrics } = this.#admission.parts;
    const { observed } = this.#demands;
    const exhausted = observed.filter((demand) => ledger.isExhausted(demand));
    for (const { key } of exhausted) metrics.wouldWait(key);
    if (exhausted.length > 0) this.#admission.noteRejected(exhausted.map(({ key }) => key));
    for (const demand of observed) if (demand.rate != null) ledger.take([demand]);
    this.#observed = ledger.adopt(observed);
  }

  beginWait({ holdMs, maxWaitMs, fairBy }: QueuePolicy, flow: string): void {
    this.#wait = new WaitText(fairBy, this.weight);
    this.holdMs = holdMs;
    this.maxWaitMs = maxWaitMs;
    this.flow = flow;
    this.#waitingSince = this.#admission.parts.clock.monotonic();
    this.#admission.countQueued(this.group, this.#demands, 1);
    const missing = this.#missing();
    // A submission behind others was not tried.
    if (this.#full.length === 0) this.#full = this.#fullOf(missing);
    this.#waitFor(missing);
  }

  #fullOf(demands: readonly SlotDemand[]): readonly string[] {
    const { ledger } = this.#admission.parts;
    return demands.flatMap((demand) => (ledger.hasCapacity(demand) ? [] : [demand.key]));
  }

  #waitFor(demands: readonly SlotDemand[]): void {
    const added = demands.filter(({ key }) => !this.#waitsFor.some((other) => other.key === key));
    if (added.length === 0) return;
    this.#waitsFor = [...this.#waitsFor, ...added];
    this.#admission.countWaiting(added, 1);
  }

  tryTake(fullCounters: Set<string>): Attempt {
    if (this.#isOver || this.#request === null) return 'blocked';
    // Avoids checking all counters again for each waiter.
    if (fullCounters.size > 0 && this.#demands.enforced.some(({ key }) => fullCounters.has(key))) return 'blocked';
    const { ledger, metrics } = this.#admission.parts;
    const clusters = this.#admission.clustersOf(this.#request);
    const open = clusters === null ? null : clusters.find((demand) => ledger.hasCapacity(demand));
    if (open === undefined) {
      this.#full = (clusters ?? []).map(({ key }) => key);
      if (this.#waitingSince !== null) this.#waitFor(clusters ?? []);
      const { cluster, onUnavailable } = this.#request.decision;
      return cluster === null && onUnavailable === 'fallback' ? 'full' : 'blocked';
    }
    const { acquired, full } = ledger.take(this.#demands.enforced);
    if (acquired === null) {
      this.#full = full;
      for (const key of full) fullCounters.add(key);
      return full.some((key) => key.startsWith('group:')) ? 'full' : 'blocked';
    }
    this.#acquired = acquired;
    if (open !== null) this.#cluster = ledger.take([open]).acquired;
    if (this.#waitingSince !== null) {
      const waited = this.#endWait();
      metrics.waited();
      this.#waited = `${this.#fullText()}; ${this.#waitText(waited)}`;
    }
    return 'admitted';
  }

  /** Counts the rejection by its group and the limits that it waited for. */
  noteRejected(): void {
    this.#admission.noteRejected([groupCounter(this.group), ...this.#full]);
  }

  takeAnyway(): boolean {
    const { ledger, metrics, isDatabaseAway, settings } = this.#admission.parts;
    const waited = this.#endWait();
    if (!isDatabaseAway() || settings.onDatabaseUnavailable === 'refuse') {
      metrics.rejected();
      this.noteRejected();
      return false;
    }
    metrics.admittedAnyway();
    this.#acquired = ledger.adopt(this.#demands.enforced);
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
    // A bound submission runs in any case, and is counted.
    if (this.#request === null) {
      this.#cluster = ledger.adopt([demand]);
      return null;
    }
    this.#cluster = ledger.take([demand]).acquired;
    if (this.#cluster !== null) return null;
    this.#full = [demand.key];
    return this.refusal();
  }

  bind(queryId: string, cluster: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const acquired = [this.#acquired, this.#observed, this.#cluster].filter((one) => one !== null);
    if (acquired.length > 0) this.#admission.parts.running.bind(queryId, cluster, acquired);
  }

  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#waitingSince !== null) this.#waited = `${this.#fullText()}; ${this.#waitText(this.#endWait())}`;
    this.#acquired?.release();
    this.#observed?.release();
    this.#cluster?.release();
  }

  /** @returns the duration of the wait, milliseconds */
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
    const isFull = clusters !== null && !clusters.some((demand) => ledger.hasCapacity(demand));
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

/** Description of a queued submission's position for the trace. */
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

  /** `as 3rd of 12 (fair by user, weight 1)`; empty before it has a position. */
  get place(): string {
    const place = this.#entry === null ? '' : ` as ${ordinal(this.#entry.position)} of ${this.#entry.waiting}`;
    return `${place}${this.#fairness}${this.#isMoved ? ', moved first by an administrator' : ''}`;
  }
}

function ordinal(place: number): string {
  const last = Math.floor(place / 10) % 10 === 1 ? 0 : place % 10;
  return `${place}${['th', 'st', 'nd', 'rd'][last] ?? 'th'}`;
}

/** @param rest end of the sentence, which names the full queue @param message the limit's text for users */
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
