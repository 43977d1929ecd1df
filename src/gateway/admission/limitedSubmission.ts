import type { EventEmitter } from 'node:events';
import type { Acquisition, Decision, Demand } from '../../admission/acquisitions.ts';
import type { Acquired, Slot } from '../../admission/limitCounters.ts';
import { durationText } from '../../model/durationText.ts';
import type { QueuePolicy } from '../../routing/admissionPolicy.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { AdmissionRequest, AdmissionWait, QuerySlots, QueuePosition, WaitPlace } from './admission.ts';
import {
  clusterCounter,
  type Demands,
  groupCounter,
  groupQueueCounter,
  limitOfKey,
  placeDemands,
} from './limitDemands.ts';
import type { LimitedAdmission } from './limitedAdmission.ts';

/** A submission that limits apply to: its slots, its place in the queue, and the reason of its wait. */
export class LimitedSubmission implements AdmissionWait, QuerySlots, WaitPlace {
  readonly kind = 'wait';
  readonly slots = this;
  readonly place = this;
  readonly group: string;
  readonly flow: string;
  readonly weight: number;
  readonly queue: QueuePolicy;
  readonly decision: GroupDecision;
  isMoved = false;
  readonly hasToWait: Promise<void>;
  /** Monotonic milliseconds at which it began to wait, at any replica. */
  waitsSince = Number.POSITIVE_INFINITY;
  readonly #admission: LimitedAdmission;
  readonly #request: AdmissionRequest;
  readonly #demands: Demands;
  readonly #isBound: boolean;
  #slot: Slot | null = null;
  #placeSlot: Slot | null = null;
  #cluster: string | null = null;
  #chosen: string | null = null;
  #full: readonly string[] = [];
  #entry: QueuePosition | null = null;
  #resolve: ((refusal: Refusal | null) => void) | null = null;
  #endWaiting: (() => void) | null = null;
  /** Description of a wait that is over, or null. */
  #waited: string | null = null;
  #isOver = false;
  #hasTried = false;
  readonly #noteWait: () => void;

  /** @param isBound true if it only goes to the cluster of its transaction or query, and never waits */
  constructor(
    admission: LimitedAdmission,
    request: AdmissionRequest,
    demands: Demands,
    queue: QueuePolicy,
    flow: string,
    isBound = false,
  ) {
    this.#admission = admission;
    this.#request = request;
    this.#demands = demands;
    this.#isBound = isBound;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.hasToWait = promise;
    this.#noteWait = resolve;
    this.decision = request.decision;
    this.group = request.decision.group;
    this.weight = demands.weight;
    this.queue = queue;
    this.flow = flow;
  }

  get atMost(): number {
    return this.queue.maxWaitMs;
  }

  get hold(): number {
    return this.queue.holdMs;
  }

  /** Order among submissions of the same user: a submission that waited before gets its position again. */
  get order(): number {
    return this.#request.waitedMs === undefined && !this.#hasTried ? Number.POSITIVE_INFINITY : this.waitsSince;
  }

  mayUse(cluster: string): boolean {
    if (this.#isBound || this.#cluster === cluster) return true;
    return this.#cluster === null && this.#admission.clusterLimit(cluster) === undefined;
  }

  acquisition(place: readonly Demand[] | null, mode: Acquisition['mode']): Acquisition {
    const { enforced: demands, observed } = this.#demands;
    return { demands, observed, clusters: this.#isBound ? [] : this.#admission.clustersOf(this.#request), place, mode };
  }

  /** Counters that it waits for. */
  keys(): readonly string[] {
    const clusters = this.#full.filter((key) => key.startsWith('cluster:'));
    return [...this.#demands.enforced.map(({ key }) => key), ...clusters];
  }

  /**
   * Acquires the slots, or waits for them.
   * @returns null once it is admitted, or its rejection
   */
  async begin(signal: AbortSignal): Promise<Refusal | null> {
    const { metrics, clock } = this.#admission.parts;
    const { waitedMs, user, bytes = 0 } = this.#request;
    const isNew = waitedMs === undefined;
    const isBlocked = this.#admission.hasQueue(this.group) || this.#admission.isUnavailable(this.decision);
    const bounds = { group: this.group, maxQueued: this.queue.maxQueued, user: user.user ?? '', bytes };
    const place = isNew ? placeDemands(bounds, this.#demands.queues) : null;
    if (isNew || !isBlocked) {
      let acquired = await this.#acquire(place, isBlocked ? 'blocked' : 'normal');
      if (acquired.kind === 'full' && acquired.fullPlace !== null && !acquired.fullPlace.startsWith('bytes:user:')) {
        const hasPlace = await this.#admission.plane.displace(this.group, this.queue.fairBy, this.flow);
        if (hasPlace) acquired = await this.#acquire(place, isBlocked ? 'blocked' : 'normal');
      }
      if (signal.aborted || this.#isOver) {
        acquired.slot?.release();
        return null;
      }
      if (acquired.kind === 'acquired') {
        metrics.submissions.inc({ answer: 'now' });
        this.#accept(acquired);
        return null;
      }
      if (acquired.kind === 'unavailable') return this.reject(this.refusal());
      if (acquired.fullPlace !== null) return this.#rejectFull(acquired.fullPlace);
      this.#placeSlot = acquired.slot;
      this.#full = acquired.full;
    }
    this.waitsSince = clock.monotonic() - (waitedMs ?? 0);
    return await this.#wait(signal);
  }

  /** Tries to acquire the slots again, and returns to its position if another query was faster. Never rejects. */
  async tryAgain(): Promise<void> {
    this.#hasTried = true;
    const acquired = await this.#acquire(null, 'normal');
    if (this.#resolve === null) acquired.slot?.release();
    else if (acquired.kind === 'acquired') {
      this.#noteWaited();
      this.#admission.parts.metrics.submissions.inc({ answer: 'waited' });
      this.#accept(acquired);
      this.resolve(null);
    } else {
      if (acquired.kind !== 'unavailable') this.noteFull(acquired.full);
      this.#admission.enter(this);
    }
  }

  /** Acquires the slots of a bound submission. @param isForced true regardless of limits */
  async acquireBound(isForced: boolean): Promise<boolean> {
    const { enforced, observed } = this.#demands;
    if (enforced.length + observed.length === 0) return true;
    const acquired = await this.#acquire(null, isForced ? 'forced' : 'normal');
    if (acquired.kind === 'acquired') this.#accept(acquired);
    else if (acquired.kind !== 'unavailable') this.#full = acquired.full;
    return acquired.kind === 'acquired';
  }

  noteFull(full: readonly string[]): void {
    if (full.length > 0) this.#full = full;
  }

  /** Ends the wait. */
  resolve(refusal: Refusal | null): void {
    const resolve = this.#resolve;
    this.#leave();
    resolve?.(refusal);
  }

  /**
   * Acquires its slots regardless of limits: the database is unavailable, and the configuration allows it.
   * @returns null, or the rejection
   */
  whenNotStored(): Refusal | null {
    const { counters, metrics } = this.#admission.parts;
    const acquired = counters.isAway ? counters.acquireAlone(this.acquisition(null, 'forced')) : null;
    if (acquired?.kind !== 'acquired') return this.reject(this.refusal());
    metrics.submissions.inc({ answer: 'unavailable' });
    this.#noteWaited('; not held longer as the database is unavailable');
    this.#accept(acquired);
    return null;
  }

  accept(slot: Slot | null, cluster: string | null): void {
    this.#slot = slot;
    this.#cluster = cluster;
    if (this.#isOver) slot?.release();
  }

  /** Records its rejection. */
  reject(refusal: Refusal): Refusal {
    this.#admission.parts.metrics.submissions.inc({ answer: 'refused' });
    this.#noteRejected();
    return refusal;
  }

  /** Counts the rejection by its group and the limits that it waited for. */
  #noteRejected(): void {
    this.#admission.noteRejected([groupCounter(this.group), ...this.#full]);
  }

  why(): string {
    if (this.#admission.isUnavailable(this.decision))
      return `no cluster of routing group ${this.group} is available (whenUnavailable: Wait)`;
    return this.#full.length === 0 ? `others wait for group ${this.group}` : this.#admission.textOf(this.#full);
  }

  position(): QueuePosition | null {
    return this.#resolve === null ? null : (this.#admission.positionOf(this) ?? this.#entry);
  }

  moveFirst(): void {
    this.isMoved = true;
    if (this.#resolve !== null) this.#admission.moveFirst(this);
  }

  get note(): string | null {
    if (this.#waited === null) return this.#resolve === null ? null : `${this.why()}; waits${this.#placeText()}`;
    return this.#chosen === null ? this.#waited : `${this.#waited}; admitted to ${this.#chosen}`;
  }

  refusal(): Refusal {
    const message = this.#messageOfLimit(this.#full);
    const what = this.#admission.parts.counters.isAway
      ? 'The database of the gateway is unavailable, so that it cannot count what runs; send the query again later.'
      : 'Send the query again when others have ended.';
    const text = `Too many queries run: ${this.why()}. ${what}${message === null ? '' : ` ${message}`}`;
    return { reason: 'queue_full', message: text, queryId: null };
  }

  late(): Refusal {
    this.#noteRejected();
    const waited = durationText(this.queue.maxWaitMs);
    const message = this.#admission.isUnavailable(this.decision)
      ? `No cluster of routing group ${JSON.stringify(this.group)} became available within ${waited} (queue.maxWait); send the query again later.`
      : `The query waited for ${waited} (queue.maxWait of its routing group). ${this.refusal().message}`;
    return { reason: 'queue_timeout', message, queryId: null };
  }

  takeCluster({ name }: ClusterEntry): Refusal | null {
    this.#chosen = name;
    if (this.mayUse(name)) return null;
    this.#full = [clusterCounter(name)];
    return this.refusal();
  }

  bind(queryId: string, cluster: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#slot?.bind(queryId, cluster);
  }

  keepPlace(id: string): void {
    this.#placeSlot?.bind(id, '');
    this.#placeSlot = null;
  }

  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#resolve !== null) this.#noteWaited();
    this.#leave();
    this.#slot?.release();
  }

  async #acquire(place: readonly Demand[] | null, mode: Acquisition['mode']): Promise<Acquired> {
    const acquired = await this.#admission.parts.counters.acquire(this.acquisition(place, mode));
    if (acquired.kind === 'acquired' && acquired.exceeded.length > 0) {
      for (const key of acquired.exceeded) this.#admission.parts.metrics.wouldWait(key);
      this.#admission.noteRejected(acquired.exceeded);
    }
    return acquired;
  }

  #accept(acquired: Decision & { readonly slot: Slot | null }): void {
    this.accept(acquired.slot, acquired.cluster === null ? null : this.#admission.clusterOf(acquired.cluster));
  }

  #wait(signal: AbortSignal): Promise<Refusal | null> {
    const { promise, resolve } = Promise.withResolvers<Refusal | null>();
    const end = this.#admission.parts.metrics.beginWait(this.group);
    const leave = () => this.#leave();
    signal.addEventListener('abort', leave);
    this.#resolve = resolve;
    this.#endWaiting = () => {
      signal.removeEventListener('abort', leave);
      end();
    };
    this.#admission.enter(this);
    this.#entry = this.#admission.positionOf(this, true);
    this.#noteWait();
    return promise;
  }

  /** Leaves the queue, and gives the place back unless it is bound. */
  #leave(): void {
    if (this.#resolve === null) return;
    this.#resolve = null;
    this.#endWaiting?.();
    this.#admission.leave(this);
    this.#placeSlot?.release();
    this.#placeSlot = null;
  }

  #noteWaited(more = ''): void {
    const waited = (this.#admission.parts.clock.monotonic() - this.waitsSince) / 1000;
    this.#waited = `${this.why()}; waited ${Math.max(0, waited).toFixed(1)} s${this.#placeText()}${more}`;
  }

  /** ` as 3rd of 12 (fair by user, weight 1)` */
  #placeText(): string {
    const place = this.#entry === null ? '' : ` as ${ordinal(this.#entry.position)} of ${this.#entry.waiting}`;
    const moved = this.isMoved ? ', moved first by an administrator' : '';
    return `${place} (fair by ${this.queue.fairBy}, weight ${this.weight})${moved}`;
  }

  #rejectFull(key: string): Refusal {
    const { maxQueued } = this.queue;
    if (key === groupQueueCounter(this.group)) {
      this.reject(this.refusal());
      const again = 'send the query again later.';
      const message = this.#admission.isUnavailable(this.decision)
        ? `No cluster of routing group ${JSON.stringify(this.group)} is available, and ${maxQueued} queries wait for one already (queue.maxQueuedQueries); ${again}`
        : `As many queries as may wait for routing group ${this.group} do, ${maxQueued} (queue.maxQueuedQueries); ${again}`;
      return { reason: 'queue_full', message, queryId: null };
    }
    const limit = limitOfKey(this.#admission.policy, key);
    this.#full = [key];
    this.reject(this.refusal());
    const name =
      limit === null
        ? `wait at this gateway${key.startsWith('bytes:user:') ? ' for one user' : ''} do`
        : `wait under limit ${limit.key} do, ${limit.maxQueued} (maxQueuedQueries)`;
    const message = this.#messageOfLimit([key]);
    const text = `As many queries as may ${name}; send the query again later.`;
    return { reason: 'queue_full', message: message === null ? text : `${text} ${message}`, queryId: null };
  }

  #messageOfLimit(keys: readonly string[]): string | null {
    for (const key of keys) {
      const message = limitOfKey(this.#admission.policy, key)?.message;
      if (message != null) return message;
    }
    return null;
  }
}

function ordinal(place: number): string {
  const last = Math.floor(place / 10) % 10 === 1 ? 0 : place % 10;
  return `${place}${['th', 'st', 'nd', 'rd'][last] ?? 'th'}`;
}

const MAX_WAITING = 10_000;

/**
 * End of a request's wait: admitted (null) or rejected; or its time is over, its client disconnected, or the gateway
 * stops.
 */
export type WaitEnd = Refusal | null | 'late' | 'left' | 'stopped';

const tooMany: Refusal = {
  reason: 'overloaded',
  message: 'Too many queries wait at this gateway; send it again in a moment.',
  queryId: null,
};

/**
 * A request that waits. It releases the request when that is over: the pending turn, which references this object, may
 * come hours later.
 */
interface Waiting {
  end: ((how: WaitEnd) => void) | null;
  fail: ((error: Error) => void) | null;
}

/** Requests that wait until their submissions are admitted. */
export class WaitingRequests {
  readonly #waiting = new Set<Waiting>();

  /**
   * Lets a request wait. Events cannot interleave between the end and its use, which is a microtask: no submission is
   * admitted and abandoned.
   * @param response emits `close` when its client disconnects
   * @param turn its admission (null) or rejection
   * @param atMost maximum wait in milliseconds, from the time when `hasToWait` is fulfilled
   * @throws the error of the turn: a defect
   */
  hold(
    response: EventEmitter,
    turn: Promise<Refusal | null>,
    atMost: number,
    hasToWait: Promise<unknown> = Promise.resolve(),
  ): Promise<WaitEnd> {
    if (this.#waiting.size >= MAX_WAITING) return Promise.resolve(tooMany);
    const { promise, resolve, reject } = Promise.withResolvers<WaitEnd>();
    let timer: NodeJS.Timeout | undefined;
    const leave = () => waiting.end?.('left');
    const over = () => {
      clearTimeout(timer);
      response.off('close', leave);
      this.#waiting.delete(waiting);
      waiting.end = null;
      waiting.fail = null;
    };
    const waiting: Waiting = {
      end: (how) => {
        over();
        resolve(how);
      },
      fail: (error) => {
        over();
        reject(error);
      },
    };
    this.#waiting.add(waiting);
    response.on('close', leave);
    follow(turn, waiting);
    void hasToWait.then(() => {
      if (waiting.end !== null) timer = setTimeout(() => waiting.end?.('late'), atMost);
    });
    return promise;
  }

  /** Ends all waits when the gateway stops. */
  endAll(): void {
    for (const { end } of [...this.#waiting]) end?.('stopped');
  }
}

/** Separate from functions with access to the request: the closure would keep the request in memory. */
function follow(turn: Promise<Refusal | null>, waiting: Waiting): void {
  turn.then(
    (refusal) => waiting.end?.(refusal),
    (error: unknown) => waiting.fail?.(error as Error),
  );
}
