import type { Clock } from '../../model/clock.ts';
import { DEFAULT_QUEUE } from '../../routing/admissionPolicy.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import type { Refusal } from '../../routing/refusal.ts';
import { QUEUE_SUFFIX } from '../../routing/statementProtocol.ts';
import type { AdmissionWait, QuerySlots, WaitPlace } from '../admission/admission.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { StoredOutcome, SubmissionOutcome } from './storedSubmission.ts';

const refusal = (reason: Refusal['reason'], message: string): Refusal => ({ reason, message, queryId: null });

/** Rejections of queued queries. */
export const rejections = {
  unavailable: refusal(
    'queue_unavailable',
    'The query would have to wait, and the database that keeps waiting queries does not answer; send it again in a moment.',
  ),
  full: refusal('queue_full', 'This gateway holds 20,000 waiting queries already; send the query again later.'),
  late: refusal('queue_timeout', 'The query waited too long.'),
  killed: refusal('queue_dropped', 'An administrator of the gateway took the query out of the queue.'),
  failed: refusal('queue_lost', 'The gateway failed; its log says why.'),
  unreadable: refusal(
    'queue_lost',
    'The query waited at a replica that ended, and what it had to send cannot be read here: set authentication.session.secret to the same value on all replicas. Run the query again.',
  ),
  lost: (why: string) =>
    refusal(
      'queue_lost',
      `The query was sent to a cluster, and its answer did not come (${why}). It may have run: look before it is run again.`,
    ),
  displaced: (by: string, group: string) =>
    refusal(
      'queue_full',
      `The queue of routing group ${group} is full (queue.maxQueuedQueries), and this ${by} has most of it: its newest query gave its place to another ${by}. Send it again later.`,
    ),
};

/** Maximum number of waiting requests for one query; of more, the oldest gets an immediate response. */
const MAX_POLLS = 4;
/** Maximum number of times that a query is queued again because no cluster accepted it. */
const MAX_PUT_BACKS = 5;

/** State of a queued query as clients see it, in addition to its waiting time. */
export interface QueuedState {
  readonly group: string;
  /** Origin of the group decision, and its rule; null if unknown here. */
  readonly decidedBy: GroupDecision['decidedBy'] | null;
  readonly rule: string | null;
  /** Null if another replica has it. */
  readonly place: WaitPlace | null;
}

interface Poll {
  readonly token: number;
  readonly end: () => void;
  readonly late: () => void;
}

/** A query that this replica holds, or that a client asks for here. Times are monotonic milliseconds. */
export class ClientQuery {
  readonly id: string;
  /**
   * `elsewhere`: another replica holds it, as far as is known; `ended`: only remembered until the database has its
   * outcome.
   */
  stage: 'elsewhere' | 'adopting' | 'waiting' | 'submitting' | 'ended';
  /** When its client sent it; null until its row is read. */
  since: number | null;
  state: QueuedState = { group: '', decidedBy: null, rule: null, place: null };
  /** Its wait for admission; null before it, and if it was admitted immediately. */
  wait: AdmissionWait | null = null;
  slots: QuerySlots | null = null;
  giveUp = new AbortController();
  /** True if the counters of the queue have a place for it. */
  hasPlace = false;
  /** Time at which an administrator moved it to the front, by the database's clock; null for never. */
  movedAt: number | null = null;
  polledAt: number;
  /** Time at which the database recorded the last poll. */
  touchedAt: number;
  /** True if its client cancelled it while it was being forwarded. */
  isCancelled = false;
  putBacks = 0;
  outcome: StoredOutcome | null = null;
  readonly #polls = new Map<ProxiedRequest, Poll>();

  constructor(id: string, stage: ClientQuery['stage'], since: number | null, now: number) {
    this.id = id;
    this.stage = stage;
    this.since = since;
    this.polledAt = now;
    this.touchedAt = now;
  }

  get isPolled(): boolean {
    return this.#polls.size > 0;
  }

  get deadline(): number {
    return (this.since ?? 0) + (this.wait?.atMost ?? DEFAULT_QUEUE.maxWaitMs);
  }

  /** Reason of its wait for administrators. */
  get reason(): string {
    return this.state.place?.why() ?? `group ${this.state.group}`;
  }

  /** Sets the state by the decision about its group and its wait. */
  decide({ group, decidedBy, rule }: GroupDecision, wait: AdmissionWait | null, slots: QuerySlots | undefined): void {
    this.state = { group, decidedBy, rule, place: wait?.place ?? null };
    this.wait = wait;
    this.slots = slots ?? null;
    if (this.movedAt !== null) wait?.place?.moveFirst();
  }

  /** Moves it to the front of its group. @returns false if it was moved before */
  moveFirst(movedAt: number | null): boolean {
    if (this.movedAt === movedAt) return false;
    this.movedAt = movedAt;
    this.state.place?.moveFirst();
    return true;
  }

  /** True if it is queued again after a submission, as no cluster could take it. */
  goesBack(outcome: SubmissionOutcome, now: number): boolean {
    if (outcome.kind === 'lost' || now >= this.deadline) return false;
    if (outcome.kind === 'answer') return outcome.response.status === 503;
    const { reason } = outcome.refusal;
    if (reason === 'no_cluster') return this.putBacks < MAX_PUT_BACKS;
    return reason === 'queue_full' || reason === 'pending' || reason === 'overloaded' || reason === 'starting';
  }

  /** The rejection when its time is over. */
  late(): Refusal {
    return this.wait?.late() ?? rejections.late;
  }

  /**
   * Holds a request.
   * @param holdMs maximum wait
   * @param late called after it
   */
  hold(proxied: ProxiedRequest, token: number, holdMs: number, late: () => void, onEnd: () => void): void {
    if (this.#polls.size >= MAX_POLLS) this.#polls.values().next().value?.late();
    const end = () => {
      clearTimeout(timer);
      if (this.#polls.delete(proxied)) onEnd();
    };
    const endLate = () => {
      end();
      late();
    };
    const timer = setTimeout(endLate, holdMs);
    this.#polls.set(proxied, { token, end, late: endLate });
    proxied.response.once('close', end);
  }

  respondAll(respond: (proxied: ProxiedRequest, token: number) => void): void {
    for (const [proxied, { token, end }] of [...this.#polls]) {
      end();
      respond(proxied, token);
    }
  }
}

export function outcomeForClient(
  id: string,
  outcome: SubmissionOutcome,
  continued: readonly string[] = [],
): StoredOutcome {
  if (outcome.kind === 'answer') {
    const { headers, ...response } = outcome.response;
    return { kind: 'answer', ...response, headers: [...headers, ...continued] };
  }
  const rejection = outcome.kind === 'lost' ? rejections.lost(outcome.why) : outcome.refusal;
  return { kind: 'refusal', refusal: { ...rejection, queryId: id } };
}

/**
 * Returns a function that makes ids of queued queries: `20261121_015745_471130200042_queue`, unique across replicas.
 * @param random number in [0, 1) that identifies this replica
 */
export function queuedIds(random: number, clock: Clock): () => string {
  const replica = String(Math.floor(random * 10_000_000)).padStart(7, '0');
  let count = 0;
  return () => {
    const time = new Date(clock.now()).toISOString().replace(/[-:]/g, '').replace('T', '_').slice(0, 15);
    count = (count + 1) % 100_000;
    return `${time}_${replica}${String(count).padStart(5, '0')}_${QUEUE_SUFFIX}`;
  };
}
