import type { Demand } from '../../admission/acquisitions.ts';
import { type Attempt, FairQueue } from '../../admission/fairQueue.ts';
import type { LimitCounters } from '../../admission/limitCounters.ts';
import type { Clock, Random } from '../../model/clock.ts';
import { firstHeader, headerValues } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import type { SizeEstimates } from '../../model/sizeEstimates.ts';
import { type AdmissionPolicy, DEFAULT_QUEUE, noPolicy, type QueuePolicy } from '../../routing/admissionPolicy.ts';
import { findEligible, isServed, unlimitedCapacity } from '../../routing/clusterChooser.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { LimitCounter } from '../../store/store.ts';
import { digestsOfBody } from '../outcomes/recordedStatement.ts';
import type {
  Admission,
  AdmissionPlane,
  AdmissionRequest,
  AdmissionResponse,
  BoundSubmission,
  QuerySlots,
  QueuePosition,
} from './admission.ts';
import type { AdmissionMetrics } from './admissionMetrics.ts';
import { clusterDemand, type Demands, LimitDemands, limitCounter, limitOfKey, noDemands } from './limitDemands.ts';
import { LimitedSubmission } from './limitedSubmission.ts';
import type { SharedCounts } from './sharedCounts.ts';

export interface LimitedAdmissionParts {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly counters: LimitCounters;
  readonly estimates: SizeEstimates;
  readonly counts: Pick<SharedCounts, 'noteRejected'>;
  readonly metrics: AdmissionMetrics;
  readonly clock: Clock;
  readonly random: Random;
  /** `routing.defaultRoutingGroup` */
  readonly defaultGroup: string;
}

const now: AdmissionResponse = { kind: 'now' };
const MAX_TEXTS = 3;
/**
 * Interval in which queued submissions look for slots that other replicas released, and for clusters: random, so that no
 * replica is favored.
 */
const TICK_MS = [20, 80] as const;
/** Replicas that share the ticks: with more of them each looks no less often. */
const MAX_TICK_SHARES = 2;
const MAX_TICK_KEYS = 500;
/** Age of counters that a tick does not read again. */
const RECENT_MS = 40;
/** Time without the database after which queued submissions are sent over the limits. A shorter one is a slow response. */
const OUTAGE_MS = 5_000;
/** Up to this number, the position of a new submission is computed. */
const MAX_COUNTED = 2_000;
/** Maximum age of the positions that clients receive. */
const POSITIONS_MS = 1_000;
/** Time for which a statement of a transaction waits for the end of the one before to be recorded. */
const STATEMENT_PATIENCE_MS = 500;
const STATEMENT_RETRY_MS = 25;

interface Positions {
  readonly at: number;
  readonly positions: ReadonlyMap<LimitedSubmission, number>;
}

/** Before the data plane is there. */
const noPlane: AdmissionPlane = {
  isSuperseded: () => false,
  preferred: () => null,
  displace: () => Promise.resolve(false),
};

/**
 * Admits submissions within the limits of groups, clusters and `QueryLimit`s (docs/limits.md). Others wait in fair
 * order within their routing group, as do those of a group with `whenUnavailable: Wait` without a healthy cluster.
 */
export class LimitedAdmission implements Admission {
  readonly parts: LimitedAdmissionParts;
  plane = noPlane;
  /** The declared limits, as of the last refresh. */
  policy: AdmissionPolicy = noPolicy;
  readonly #demands = new LimitDemands();
  readonly #sourceHeader: string;
  readonly #queues = new Map<string, FairQueue<LimitedSubmission>>();
  readonly #positions = new Map<string, Positions>();
  #version = -1;
  #clusters: ReadonlyMap<string, Demand> = new Map();
  #isLimited = false;
  #isScheduled = false;
  #ticking: NodeJS.Timeout | null = null;

  constructor(parts: LimitedAdmissionParts) {
    this.parts = parts;
    this.#sourceHeader = parts.names.headerKey('Source');
    parts.counters.listen(
      (isRelease) => this.#admitQueued(isRelease),
      (slots) => this.#tryFirst(slots),
    );
  }

  connect(plane: AdmissionPlane): void {
    this.plane = plane;
  }

  admit(request: AdmissionRequest): AdmissionResponse {
    this.refresh();
    const { decision } = request;
    const isUnavailable = this.isUnavailable(decision);
    if (!this.#isLimited && !isUnavailable) return now;
    const demands = this.#demandsOf(request);
    const { enforced, observed } = demands;
    if (enforced.length + observed.length + this.#clusters.size === 0 && !isUnavailable) return now;
    const submission = new LimitedSubmission(
      this,
      request,
      demands,
      this.queueOf(decision.group),
      this.#flowOf(request),
    );
    const isUncounted = enforced.length + observed.length === 0 && !isUnavailable;
    if (isUncounted && (this.clustersOf(request)[0] ?? null) === null) return { kind: 'now', slots: submission };
    return submission;
  }

  async admitBound(request: AdmissionRequest, bound: BoundSubmission): Promise<QuerySlots | Refusal | null> {
    this.refresh();
    if (!this.#isLimited) return null;
    const { cluster, transaction } = bound;
    const { counters, clock } = this.parts;
    const ofCluster = cluster === null ? undefined : this.#clusters.get(cluster);
    const { enforced, observed, ...rest } = transaction === null ? noDemands : this.#demandsOf(request);
    const demands: Demands = {
      ...rest,
      observed,
      enforced: ofCluster === undefined ? enforced : [...enforced, ofCluster],
    };
    const submission = new LimitedSubmission(this, request, demands, this.queueOf(request.decision.group), '', true);
    const until = clock.monotonic() + STATEMENT_PATIENCE_MS;
    for (;;) {
      const shared = transaction === null ? null : await counters.ofTransaction(transaction);
      if (shared !== null) submission.accept(shared, null);
      if (shared !== null || (await submission.acquireBound(transaction === null))) return submission;
      // Its last statement may have ended just now.
      if (clock.monotonic() >= until) return submission.reject(submission.refusal());
      await new Promise((resolve) => setTimeout(resolve, STATEMENT_RETRY_MS));
    }
  }

  hasCapacity(cluster: string): boolean {
    const demand = this.#clusters.get(cluster);
    return demand === undefined || !this.parts.counters.isFull(demand);
  }

  whyItWaits(request: AdmissionRequest): string | null {
    this.refresh();
    if (!this.#isLimited) return null;
    const { enforced: demands } = this.#demandsOf(request);
    const clusters = this.clustersOf(request);
    const acquisition = { demands, clusters, observed: [], place: null, mode: 'normal' as const };
    const full = this.parts.counters.foresee([acquisition])[0]?.full ?? [];
    return full.length === 0 ? null : this.textOf(full);
  }

  noteTransaction(queryId: string, transactionId: string | null): void {
    const { counters } = this.parts;
    if (transactionId === null) counters.ended(queryId, true);
    else counters.began(queryId, transactionId);
  }

  endQueued(id: string): void {
    this.parts.counters.ended(id);
  }

  /** True if the coordinator of a query was replaced, or its cluster removed. */
  isLost(queryId: string, cluster: string | null): boolean {
    if (cluster === null || cluster === '') return false;
    return this.plane.isSuperseded(queryId) || !this.parts.table.current.clusters.has(cluster);
  }

  /** Applies changed limits even without submissions. */
  refresh(): void {
    const { version, admission, clusters } = this.parts.table.current;
    if (version === this.#version) return;
    this.#version = version;
    this.policy = admission;
    const limited = [...clusters.values()].flatMap((cluster) => {
      const demand = clusterDemand(cluster);
      return demand === null ? [] : [[cluster.name, demand] as const];
    });
    this.#clusters = new Map(limited);
    const hasGroups = [...admission.groups.values()].some(({ maxRunning }) => maxRunning !== null);
    this.#isLimited = hasGroups || limited.length > 0 || admission.limits.length > 0;
    this.parts.counters.enable(this.#isLimited, admission.groups.size > 0);
  }

  queueOf(group: string): QueuePolicy {
    return this.policy.groups.get(group)?.queue ?? DEFAULT_QUEUE;
  }

  clusterLimit(cluster: string): number | undefined {
    return this.#clusters.get(cluster)?.limit;
  }

  /** Name of the cluster that a demand is about; null if its limit was removed. */
  clusterOf({ key }: Demand): string | null {
    return [...this.#clusters].find(([, demand]) => demand.key === key)?.[0] ?? null;
  }

  /** True if submissions wait for a cluster of the group. Pinned clusters are not waited for. */
  isUnavailable(decision: GroupDecision): boolean {
    const { current: table } = this.parts.table;
    if (table.admission.groups.size === 0 || decision.cluster !== null) return false;
    if (table.admission.groups.get(decision.group)?.queue.whenUnavailable !== 'wait') return false;
    const { defaultGroup } = this.parts;
    return !isServed({ table, decision, defaultGroup, excluded: null, hasCapacity: unlimitedCapacity });
  }

  /** Demands of the eligible clusters, the preferred one first; null for those without limits, empty if none has one. */
  clustersOf(request: AdmissionRequest): readonly (Demand | null)[] {
    if (this.#clusters.size === 0) return [];
    const { decision, excluded = null } = request;
    const { candidates } = findEligible({
      ...{ table: this.parts.table.current, decision, defaultGroup: this.parts.defaultGroup, excluded },
      hasCapacity: (cluster) => this.hasCapacity(cluster),
      user: request.user.user,
    });
    if (!candidates.some(({ name }) => this.#clusters.has(name))) return [];
    const demands: (Demand | null)[] = [];
    const preferred = candidates.length > 1 ? this.plane.preferred(request) : null;
    for (const { name } of candidates) {
      const demand = this.#clusters.get(name) ?? null;
      if (name === preferred) demands.unshift(demand);
      else demands.push(demand);
    }
    return demands;
  }

  /** Counts a submission that was rejected, or would have been. @param keys counters of its group and of limits */
  noteRejected(keys: readonly string[]): void {
    const named = keys.flatMap((key) => {
      const limit = limitOfKey(this.policy, key);
      return limit === null ? (key.startsWith('group:') ? [key] : []) : [limitCounter(limit.key)];
    });
    this.parts.counts.noteRejected(named);
  }

  /** Describes full counters. */
  textOf(keys: readonly string[]): string {
    return keys
      .slice(0, MAX_TEXTS)
      .map((key) => this.#textOfCounter(key))
      .join(', ');
  }

  /** True if a routing group has queued submissions: new ones must not overtake them. */
  hasQueue(group: string): boolean {
    return this.#queues.has(group);
  }

  enter(submission: LimitedSubmission): void {
    const { group, flow, weight, order } = submission;
    const queue = this.#queues.get(group) ?? new FairQueue<LimitedSubmission>();
    this.#queues.set(group, queue);
    queue.push(flow, weight, submission, order);
    if (submission.isMoved) queue.moveFirst(submission);
    this.#tick();
  }

  leave(submission: LimitedSubmission): void {
    const queue = this.#queues.get(submission.group);
    queue?.remove(submission);
    if (queue?.size === 0) this.#forget(submission.group);
  }

  moveFirst(submission: LimitedSubmission): void {
    this.#positions.delete(submission.group);
    this.#queues.get(submission.group)?.moveFirst(submission);
    this.#admitQueued(false);
  }

  /**
   * At most a second old, as all clients of a group ask each second; null for newer submissions.
   * @param isNew true computes it now, in a short queue
   */
  positionOf(submission: LimitedSubmission, isNew = false): QueuePosition | null {
    const { group } = submission;
    const queue = this.#queues.get(group);
    if (queue === undefined) return null;
    let last = this.#positions.get(group);
    const at = this.parts.clock.monotonic();
    if (last === undefined || at - last.at >= POSITIONS_MS || (isNew && queue.size <= MAX_COUNTED)) {
      last = { at, positions: new Map(queue.inOrder().map((one, index) => [one, index + 1])) };
      this.#positions.set(group, last);
    }
    const position = last.positions.get(submission);
    return position === undefined ? null : { position, waiting: last.positions.size };
  }

  /**
   * Lets queued submissions try, in fair order, as many as have capacity by what is known.
   * @param isRelease true if this replica released slots: it leaves some to others, by the share of what waits here
   */
  #admitQueued(isRelease: boolean): void {
    if (this.#isScheduled || this.#queues.size === 0) return;
    if (isRelease && this.#leavesToOthers()) return;
    this.#isScheduled = true;
    // Lets newly acquired slots be used first.
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#admitNow();
    });
  }

  /** True if others get a released slot: by chance, with the share of what waits at them. */
  #leavesToOthers(): boolean {
    return this.parts.random() * this.#shares() >= 1;
  }

  /** Number of submissions that wait at all replicas, for each one here. */
  #shares(): number {
    const here = [...this.#queues.values()].reduce((sum, { size }) => sum + size, 0);
    return Math.max(1, this.parts.counters.use('queue:all') / here);
  }

  /** Lets the first queued submissions try for slots that this replica is about to release. */
  #tryFirst(slots: number): void {
    if (this.#queues.size === 0 || this.#leavesToOthers()) return;
    let left = slots;
    for (const queue of [...this.#queues.values()]) {
      queue.admit((submission): Attempt => {
        if (left === 0) return 'full';
        if (this.isUnavailable(submission.decision)) return 'blocked';
        left -= 1;
        void submission.tryAgain();
        return 'admitted';
      });
    }
  }

  #admitNow(): void {
    this.refresh();
    const counters = new Map<string, LimitCounter>();
    for (const [group, queue] of [...this.#queues]) {
      queue.admit((submission): Attempt => {
        if (this.isUnavailable(submission.decision)) return 'blocked';
        const [foreseen] = this.parts.counters.foresee([submission.acquisition(null, 'normal')], counters);
        if (foreseen?.kind === 'acquired') {
          void submission.tryAgain();
          return 'admitted';
        }
        submission.noteFull(foreseen?.full ?? []);
        return foreseen?.full.some((key) => key.startsWith('group:')) === true ? 'full' : 'blocked';
      });
      this.#queues.delete(group);
      // At the end, so that each group is first at times: limits may count several of them.
      if (queue.size > 0) this.#queues.set(group, queue);
      else this.#forget(group);
    }
  }

  #forget(group: string): void {
    this.#queues.delete(group);
    this.#positions.delete(group);
  }

  /** Reads what other replicas released, as long as something waits here. */
  #tick(): void {
    if (this.#ticking !== null || this.#queues.size === 0) return;
    const { counters, random, clock } = this.parts;
    const [least, most] = TICK_MS;
    this.#ticking = setTimeout(
      async () => {
        const keys = new Set(['queue:all']);
        for (const queue of this.#queues.values()) {
          for (const submission of queue.inOrder()) {
            if (counters.awayMs >= OUTAGE_MS && submission.waitsSince + submission.queue.holdMs <= clock.monotonic()) {
              if (submission.whenNotStored() === null) submission.resolve(null);
            }
            if (keys.size < MAX_TICK_KEYS) for (const key of submission.keys()) keys.add(key);
          }
        }
        const limits = [...keys].filter((key) => key !== 'queue:all');
        if (counters.isAway || counters.areRecent(limits, RECENT_MS)) this.#admitQueued(false);
        else await counters.refresh([...keys]);
        this.#ticking = null;
        this.#tick();
      },
      Math.min(MAX_TICK_SHARES, this.#shares()) * (least + random() * (most - least)),
    ).unref();
  }

  #demandsOf({ decision, user, headers, body }: AdmissionRequest): Demands {
    const source = firstHeader(headers, this.#sourceHeader) ?? '';
    const query = { group: decision.group, user: user.user ?? '', source, groups: user.membership?.groups ?? [] };
    return this.#demands.of(this.policy, query, user.membership?.digest, (hasSizes) => {
      if (body === undefined) return [];
      const lines = headerValues(headers, this.parts.names.headerKey('Prepared-Statement'));
      const digests = digestsOfBody(body, lines);
      const { exact, shape } = digests;
      if (!hasSizes) return [exact, shape];
      const { sizeClass } = this.parts.estimates.read(digests);
      return [exact, shape, sizeClass === 'unknown' ? 'Unknown' : sizeClass];
    });
  }

  #flowOf({ decision, user, headers }: AdmissionRequest): string {
    const isByUser = this.queueOf(decision.group).fairBy === 'user';
    return (isByUser ? user.user : firstHeader(headers, this.#sourceHeader)) ?? '';
  }

  #textOfCounter(key: string): string {
    const [kind = '', ...rest] = key.split(':');
    const [name = '', value] = rest.map((part) => decodedText(part));
    const inUse = this.parts.counters.use(key);
    if (kind === 'cluster')
      return `cluster ${name}: ${inUse} of ${this.clusterLimit(name)} running (maxRunningQueries)`;
    if (kind === 'group') {
      const limit = this.policy.groups.get(name)?.maxRunning;
      return `group ${name}: ${inUse} of ${limit} running (maxRunningQueries of the group)`;
    }
    const limit = limitOfKey(this.policy, key);
    const of = value === undefined ? '' : ` of ${limit?.per ?? 'user'} ${value}`;
    if (kind === 'rate') {
      const { queries = 0, periodMs = 0 } = limit?.rate ?? {};
      return `limit ${name}${of}: ${queries} queries in ${periodMs / 1000} s (rate)`;
    }
    return `limit ${name}${of}: ${inUse} of ${limit?.maxRunning} running (maxRunningQueries)`;
  }
}

function decodedText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
