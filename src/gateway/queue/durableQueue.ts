import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { durationText } from '../../model/durationText.ts';
import { firstHeader } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { inTime } from '../../model/timeLimit.ts';
import type { Refusal } from '../../routing/refusal.ts';
import { QUEUE_SUFFIX } from '../../routing/statementProtocol.ts';
import type { QueuedQueryRepository } from '../../store/queuedQueryRepository.ts';
import type { QueuedQueryRow } from '../../store/store.ts';
import type { Admission, AdmissionWait, QuerySlots, WaitPlace } from '../admission/admission.ts';
import type { Submission } from '../exchanges/queryRecorder.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { CapturedResponse } from './capturedResponse.ts';
import type { QueuedEnd, QueuedEnds } from './queuedEnds.ts';
import { type PollResponses, QueuedPolls, type QueuedState } from './queuedPolls.ts';
import { QueuedIds } from './queuedResponse.ts';
import type { QueueKey } from './queueKey.ts';
import {
  decodeOutcome,
  encodeOutcome,
  nextTargetOf,
  type SendSubmission,
  type StoredOutcome,
  type SubmissionOutcome,
  sendStored,
} from './storedOutcome.ts';
import {
  cancellationOf,
  decodeSubmission,
  encodeSubmission,
  isStorable,
  type StoredSubmission,
  storedSubmission,
} from './storedSubmission.ts';

const MAX_QUERIES = 20_000;
/** Timeout for storing a query, after which its client is rejected. */
const PUT_TIMEOUT_MS = 5_000;
/** Time without a heartbeat after which a replica counts as dead. */
export const REPLICA_TTL_MS = 15_000;
/** Time without a poll after which a query is dropped, as in engines. */
const ABANDONED_AFTER_MS = 300_000;
/** Time without a poll after which a query is only forwarded when its client polls again: the client may be gone. */
const SUSPEND_AFTER_MS = 30_000;
/** Maximum age of the last poll's time in the database. */
const TOUCH_AFTER_MS = 60_000;
/** Retention of a cluster's response for repeated polls. */
const RESPONSE_RETENTION_MS = 600_000;
/** Age of the last poll at which orphaned rows are deleted. */
const ORPHAN_AFTER_MS = 900_000;
/** Interval of deletions of old rows. */
const TIDY_MS = 60_000;
const RETRY_MS = 1_000;
/** Maximum number of times that a query is queued again because no cluster accepted it. */
const MAX_PUT_BACKS = 5;
const MAX_REASONS = 50;
/** Time that the client's response waits for the database; then it is sent from memory, and stored later. */
const STORE_PATIENCE_MS = 2_000;

export interface DurableQueueDependencies {
  readonly names: ProductNames;
  readonly repository: QueuedQueryRepository;
  readonly key: QueueKey;
  /** Name of this replica, unique among current and former ones. */
  readonly replica: string;
  readonly admission: Admission;
  readonly send: SendSubmission;
  readonly followUp: (proxied: ProxiedRequest, engineId: string) => void;
  readonly responses: PollResponses;
  /** Stores outcomes of queries that ended in the queue. */
  readonly ends: Pick<QueuedEnds, 'note'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** In [0, 1): identifies this replica in ids. */
  readonly random: number;
}

export interface BegunWait {
  readonly wait: Pick<AdmissionWait, 'atMost' | 'late' | 'noteLate' | 'place'>;
  /** Settles as `AdmissionWait.begin` does. */
  readonly turn: Promise<Refusal | null>;
  readonly giveUp: AbortController;
  /** Monotonic milliseconds at which its client sent it. */
  readonly since: number;
  /** Its slots, or null. */
  readonly slots: QuerySlots | null;
}

/** A query of this replica. Times are monotonic milliseconds. */
interface LocalQuery {
  readonly id: string;
  readonly since: number;
  readonly polls: QueuedPolls;
  giveUp: AbortController;
  slots: QuerySlots | null;
  state: QueuedState;
  reason: string;
  /** Time at which an administrator moved it to the front here, by the database's clock; null for never. */
  movedAt: number | null;
  deadline: number;
  late: () => Refusal;
  /** Records that it was rejected with `late`. */
  noteLate: (() => void) | undefined;
  polledAt: number;
  /** Time at which the database recorded the last poll. */
  touchedAt: number;
  stage: 'waiting' | 'submitting' | 'ended';
  /** True while it waits for its client's poll, not for its turn. */
  isSuspended: boolean;
  /** True if its client cancelled it while it was being forwarded. */
  isCancelled: boolean;
  putBacks: number;
  outcome: StoredOutcome | null;
}

export type EnteredQueue =
  | { readonly id: string; readonly waitedMs: number; readonly state: QueuedState }
  | { readonly id: null; readonly refusal: Refusal };

const unavailable: Refusal = {
  reason: 'queue_unavailable',
  message:
    'The query would have to wait, and the database that keeps waiting queries does not answer; send it again in a moment.',
  queryId: null,
};
const full: Refusal = {
  reason: 'queue_full',
  message: `This gateway holds ${MAX_QUERIES} waiting queries already; send the query again later.`,
  queryId: null,
};
const killed: Refusal = {
  reason: 'queue_dropped',
  message: 'An administrator of the gateway took the query out of the queue.',
  queryId: null,
};
const lostText = (why: string) =>
  `The query was sent to a cluster, and its answer did not come (${why}). It may have run: look before it is run again.`;

/**
 * The queries queued at this replica, each with a row in the database. The row exists before the client knows of the
 * query, is `submitting` before a cluster gets the query, and has the cluster's response before the client gets it. So
 * another replica can continue if this one dies, and nothing runs twice (docs/decisions/0021-durable-queue.md).
 */
export class DurableQueue {
  readonly #dependencies: DurableQueueDependencies;
  readonly #queries = new Map<string, LocalQuery>();
  readonly #ids: QueuedIds;
  readonly #sourceHeader: string;
  readonly #submissions = new Set<Promise<void>>();
  /** Monotonic end of this replica's registration in the database. */
  #aliveUntil = Number.NEGATIVE_INFINITY;
  #stopping = false;
  #isObeying = false;
  /** Time of the last queued query, and of the next deletion of rows; monotonic milliseconds. */
  #usedAt = Number.NEGATIVE_INFINITY;
  #tidyAt = 0;

  constructor(dependencies: DurableQueueDependencies) {
    this.#dependencies = dependencies;
    this.#sourceHeader = dependencies.names.headerKey('Source');
    this.#ids = new QueuedIds(dependencies.random, QUEUE_SUFFIX);
  }

  get size(): number {
    return this.#queries.size;
  }

  /** True if a submission can be stored: its body is complete. */
  canKeep(submission: Submission): boolean {
    return isStorable(submission);
  }

  /** Stores and queues a submission. Never rejects. */
  async enter(
    proxied: ProxiedRequest,
    submission: Submission,
    { wait, turn, giveUp, since, slots }: BegunWait,
  ): Promise<EnteredQueue> {
    const { repository, key, clock, logger, replica } = this.#dependencies;
    const rejection = (refusal: Refusal): EnteredQueue => {
      giveUp.abort();
      turn.catch(() => undefined);
      return { id: null, refusal };
    };
    if (this.#queries.size >= MAX_QUERIES) return rejection(full);
    const id = this.#ids.next(clock.now());
    const request = key.seal('request', id, encodeSubmission(storedSubmission(proxied, submission)));
    const query = this.#newQuery(id, since, giveUp, wait, stateOf(submission, wait.place));
    query.slots = slots;
    query.reason = reasonOf(query);
    this.#queries.set(id, query);
    try {
      if (!this.#stopping) await this.renew();
      await inTime(
        repository.put({
          id,
          group: submission.decision.group,
          user: submission.user.user,
          source: firstHeader(proxied.request.rawHeaders, this.#sourceHeader) ?? null,
          reason: query.reason,
          request,
          replica: this.#stopping ? '' : replica,
        }),
        PUT_TIMEOUT_MS,
      );
    } catch (error) {
      this.#queries.delete(id);
      logger.warn({ err: error }, 'failed to store queued query');
      return rejection(unavailable);
    }
    if (this.#stopping) {
      // Too late to be handed over with the others.
      this.#release(query);
      turn.catch(() => undefined);
      void repository.adopt(id, replica, '').catch(() => undefined);
    } else {
      slots?.keepPlace?.(id);
      this.#follow(query, turn);
    }
    return { id, waitedMs: clock.monotonic() - since, state: query.state };
  }

  /** State of a locally queued query; null for others. */
  placeOf(id: string): WaitPlace | null {
    const query = this.#queries.get(id);
    return query?.stage === 'waiting' ? query.state.place : null;
  }

  /** Holds a request for a query of this replica; false for other queries. */
  poll(proxied: ProxiedRequest, id: string, token: number, holdMs: number): boolean {
    const query = this.#queries.get(id);
    if (query === undefined) return false;
    this.#holdPoll(query, proxied, token, holdMs);
    return true;
  }

  /**
   * Adopts a query of a dead replica, with its position.
   * @returns false if another replica was first
   * @throws GatewayError while the database is unavailable
   */
  async adopt(row: QueuedQueryRow): Promise<boolean> {
    const { repository, replica, clock, logger } = this.#dependencies;
    if (this.#stopping || this.#queries.size >= MAX_QUERIES) return false;
    if (this.#queries.has(row.id)) return true;
    await this.renew();
    if (!(await repository.adopt(row.id, row.replica, replica))) return false;
    const sealed = await repository.request(row.id, replica);
    const since = clock.monotonic() - row.waitingMs;
    const unread: QueuedState = { group: row.group, decidedBy: null, rule: null, place: null };
    const query = this.#newQuery(row.id, since, new AbortController(), { atMost: 0, late: () => full }, unread);
    query.movedAt = row.movedAt;
    this.#queries.set(row.id, query);
    const stored = this.#opened(row.id, sealed);
    if (stored === null) {
      const message =
        'The query waited at a replica that ended, and what it had to send cannot be read here: set authentication.session.secret to the same value on all replicas. Run the query again.';
      await this.#end(query, 'waiting', { reason: 'queue_lost', message, queryId: row.id });
      return true;
    }
    logger.info({ queryId: row.id, from: row.replica, waitedMs: row.waitingMs }, 'adopted queued query');
    this.#admit(query, stored);
    return true;
  }

  /**
   * Ends a query of a replica that died during its submission: a cluster may have it.
   * @throws GatewayError while the database is unavailable
   */
  async endLost({ id, replica, waitingMs }: QueuedQueryRow): Promise<void> {
    const { repository, ends } = this.#dependencies;
    const message = lostText('the gateway replica that sent it ended');
    const refusal: Refusal = { reason: 'queue_lost', message, queryId: id };
    const stored = this.#opened(id, await repository.request(id, replica));
    const answer = this.#sealed(id, { kind: 'refusal', refusal });
    const isEnded = await repository.end(id, replica, 'submitting', { state: 'failed', engineId: null, answer });
    if (isEnded) ends.note(id, stored, waitingMs, refusal);
  }

  /** Outcome of a query from its row; null if it was deleted. */
  outcomeOf({ id, answer }: QueuedQueryRow): StoredOutcome | null {
    const bytes = answer === null ? null : this.#dependencies.key.open('answer', id, answer);
    return bytes === null ? null : decodeOutcome(bytes);
  }

  /**
   * Removes a query from the queue; cancels a submitted one at its cluster.
   * @param end its client's response, or the reason for the removal
   * @returns false for queries of other replicas
   */
  drop(id: string, end: QueuedEnd = 'CANCELLED'): boolean {
    const query = this.#queries.get(id);
    if (query === undefined) return false;
    if (query.stage === 'submitting') {
      query.isCancelled = true;
      return true;
    }
    if (query.stage === 'ended') return true;
    if (typeof end !== 'string') {
      void this.#end(query, 'waiting', end);
      return true;
    }
    this.#release(query);
    query.polls.respondAll((proxied) =>
      this.#dependencies.responses.reject(proxied, id, 'unknown_query', `Query ${id} was cancelled.`),
    );
    void this.#remove(query, end);
    return true;
  }

  /** Removes a waiting query for its client, whichever replica holds it. */
  async dropAnywhere({ id, isHeld }: Pick<QueuedQueryRow, 'id' | 'isHeld'>): Promise<void> {
    if (this.drop(id)) return;
    const { repository, admission } = this.#dependencies;
    if (isHeld) await repository.setCommand(id, 'drop');
    else if (await repository.remove(id)) admission.endQueued?.(id);
  }

  async #remove({ id, since }: LocalQuery, end: QueuedEnd): Promise<void> {
    const { repository, ends, clock } = this.#dependencies;
    const stored = await this.#readBack(id);
    const isRemoved = await this.#persist('delete', id, () => repository.remove(id));
    if (isRemoved === true) ends.note(id, stored, clock.monotonic() - since, end);
  }

  /** The stored submission of a local query; null if it cannot be read now. Never rejects. */
  async #readBack(id: string): Promise<StoredSubmission | null> {
    const { repository, replica } = this.#dependencies;
    try {
      return this.#opened(id, await inTime(repository.request(id, replica), STORE_PATIENCE_MS));
    } catch {
      return null;
    }
  }

  /**
   * Rejects the newest query of the user (or source) with the most of a group, if these are more than one more than
   * those of another one. @returns true if there is a place then. Never rejects
   */
  async displace(group: string, by: 'user' | 'source', flow: string): Promise<boolean> {
    const { repository, ends, logger } = this.#dependencies;
    try {
      const row = await repository.newestOfMost(group, by, flow);
      if (row === null) return false;
      const { id, replica, waitingMs } = row;
      const refusal: Refusal = { reason: 'queue_full', message: displacedText(by, group), queryId: id };
      const stored = this.#opened(id, await repository.request(id, replica));
      const response = this.#sealed(id, { kind: 'refusal', refusal });
      if (!(await repository.displace(id, replica, response))) return false;
      ends.note(id, stored, waitingMs, refusal);
      this.#dependencies.admission.endQueued?.(id);
      return true;
    } catch (error) {
      logger.debug({ err: error, group }, 'no queued query displaced');
      return false;
    }
  }

  /** Moves a local query to the front of its group. @returns false for queries of other replicas */
  #moveFirst(id: string, movedAt: number): boolean {
    const query = this.#queries.get(id);
    if (query === undefined) return false;
    if (query.movedAt === movedAt) return true;
    query.movedAt = movedAt;
    query.state.place?.moveFirst();
    this.#dependencies.logger.info({ queryId: id }, 'queued query moved to the front by an administrator');
    return true;
  }

  /** Executes requests of administrators and other replicas; called by a timer. Never rejects. */
  async obey(): Promise<void> {
    if (this.#stopping || this.#queries.size === 0 || this.#isObeying) return;
    const { repository, replica, logger } = this.#dependencies;
    this.#isObeying = true;
    try {
      for (const { id, command, movedAt } of await repository.commands(replica)) {
        if (command === 'displaced') await this.#leaveDisplaced(id);
        else if (command !== null) this.drop(id, command === 'kill' ? { ...killed, queryId: id } : 'CANCELLED');
        else if (movedAt !== null) this.#moveFirst(id, movedAt);
      }
    } catch (error) {
      logger.debug({ err: error }, 'failed to read requests for queued queries');
    } finally {
      this.#isObeying = false;
    }
  }

  /** A query has ended by another replica: its row has the client's response. */
  async #leaveDisplaced(id: string): Promise<void> {
    const query = this.#queries.get(id);
    if (query?.stage === 'waiting') {
      this.#release(query);
      this.#respondLater(query);
    }
    await this.#dependencies.repository.forgetCommand(id);
  }

  /** Renews this replica's registration if due. Rejects while the database is unavailable. */
  async renew(): Promise<void> {
    const { repository, clock, replica } = this.#dependencies;
    const now = clock.monotonic();
    if (this.#aliveUntil - now > REPLICA_TTL_MS / 2) return;
    await repository.renew(replica, REPLICA_TTL_MS);
    this.#aliveUntil = now + REPLICA_TTL_MS;
  }

  /** Maintenance of queued queries; called by a timer. Never rejects. */
  async maintain(): Promise<void> {
    if (this.#stopping) return;
    await this.#tidy();
    if (this.#queries.size === 0) return;
    const { repository, clock, logger } = this.#dependencies;
    const now = clock.monotonic();
    const silent: string[] = [];
    const touched: LocalQuery[] = [];
    const suspended: string[] = [];
    for (const query of this.#queries.values()) {
      if (query.stage !== 'waiting') continue;
      if (query.isSuspended) suspended.push(query.id);
      if (query.polls.size > 0) query.polledAt = now;
      if (now >= query.deadline) {
        query.noteLate?.();
        void this.#end(query, 'waiting', { ...query.late(), queryId: query.id });
      } else if (now - query.polledAt >= ABANDONED_AFTER_MS) silent.push(query.id);
      else if (query.polledAt - query.touchedAt >= TOUCH_AFTER_MS) touched.push(query);
    }
    try {
      await this.renew();
      if (touched.length > 0) {
        await repository.touch(touched.map(({ id }) => id));
        for (const query of touched) query.touchedAt = now;
        await this.#noteReasons(touched);
      }
      for (const id of silent.length === 0 ? [] : await repository.unpolled(silent, ABANDONED_AFTER_MS)) {
        logger.info({ queryId: id }, 'queued query dropped; not polled for 5 minutes');
        this.drop(id, 'ABANDONED');
      }
      if (suspended.length > 0) await this.#resumePolled(suspended);
    } catch (error) {
      logger.debug({ err: error }, 'queue maintenance failed');
    }
  }

  /** Writes changed reasons to rows. Queries of a group mostly wait for the same. */
  async #noteReasons(queries: readonly LocalQuery[]): Promise<void> {
    const changed = new Map<string, LocalQuery[]>();
    for (const query of queries) {
      const reason = reasonOf(query);
      if (reason === query.reason || query.stage !== 'waiting') continue;
      const others = changed.get(reason);
      if (others !== undefined) others.push(query);
      else if (changed.size < MAX_REASONS) changed.set(reason, [query]);
    }
    for (const [reason, those] of changed) {
      await this.#dependencies.repository.setReason(
        those.map(({ id }) => id),
        reason,
      );
      for (const query of those) query.reason = reason;
    }
  }

  /** Deletes old rows while queries are queued here and for some time afterwards. */
  async #tidy(): Promise<void> {
    const { repository, clock, logger } = this.#dependencies;
    const now = clock.monotonic();
    if (this.#queries.size > 0) this.#usedAt = now;
    if (now < this.#tidyAt || now - this.#usedAt > 2 * ORPHAN_AFTER_MS) return;
    this.#tidyAt = now + TIDY_MS;
    try {
      await repository.forgetResponses(RESPONSE_RETENTION_MS);
      await repository.deleteAbandoned(ORPHAN_AFTER_MS);
    } catch (error) {
      logger.debug({ err: error }, 'failed to delete old rows of the queue');
    }
  }

  /** Hands queued queries over to other replicas, and waits for pending submissions. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const { repository, replica, responses, logger, clock } = this.#dependencies;
    const waiting = [...this.#queries.values()].filter(({ stage }) => stage === 'waiting');
    for (const query of waiting) {
      this.#release(query);
      query.polls.respondAll((proxied, token) =>
        responses.waiting(proxied, query.id, token, clock.monotonic() - query.since, query.state),
      );
    }
    await Promise.all(this.#submissions);
    await inTime(repository.handOver(replica), PUT_TIMEOUT_MS).catch((error: unknown) =>
      logger.warn({ err: error }, 'failed to hand over queued queries; other replicas adopt them within seconds'),
    );
  }

  #newQuery(
    id: string,
    since: number,
    giveUp: AbortController,
    wait: Pick<BegunWait['wait'], 'atMost' | 'late' | 'noteLate'>,
    state: QueuedState,
  ): LocalQuery {
    const now = this.#dependencies.clock.monotonic();
    return {
      id,
      since,
      polls: new QueuedPolls(),
      giveUp,
      slots: null,
      state,
      reason: '',
      movedAt: null,
      deadline: since + wait.atMost,
      late: wait.late,
      noteLate: wait.noteLate,
      polledAt: now,
      touchedAt: now,
      stage: 'waiting',
      isSuspended: false,
      isCancelled: false,
      putBacks: 0,
      outcome: null,
    };
  }

  #holdPoll(query: LocalQuery, proxied: ProxiedRequest, token: number, holdMs: number): void {
    const { responses, clock } = this.#dependencies;
    query.polledAt = clock.monotonic();
    if (query.outcome !== null) {
      responses.outcome(proxied, query.id, query.outcome);
      return;
    }
    query.polls.hold(proxied, token, holdMs, (late, lateToken) => {
      query.polledAt = clock.monotonic();
      responses.waiting(late, query.id, lateToken, query.polledAt - query.since, query.state);
    });
    if (query.isSuspended) {
      this.#wake(query).catch((error: unknown) =>
        this.#dependencies.logger.debug({ err: error, queryId: query.id }, 'wake-up of queued query deferred'),
      );
    }
  }

  /** Requests admission with the query's position. */
  #admit(query: LocalQuery, { decision, user, headers }: StoredSubmission): void {
    const { admission, clock } = this.#dependencies;
    const waitedMs = clock.monotonic() - query.since;
    const response = admission.admit({ decision, user, headers, waitedMs, queuedAs: query.id });
    const place = response.kind === 'wait' ? response.place : undefined;
    query.state = stateOf({ decision }, place);
    if (query.movedAt !== null) place?.moveFirst();
    query.stage = 'waiting';
    query.slots = response.kind === 'reject' ? null : (response.slots ?? null);
    if (response.kind === 'reject') void this.#end(query, 'waiting', response.refusal);
    else if (response.kind === 'now') this.#submit(query);
    else {
      query.giveUp = new AbortController();
      query.deadline = query.since + response.atMost;
      query.late = response.late;
      query.noteLate = response.noteLate;
      this.#follow(query, response.begin(query.giveUp.signal));
    }
  }

  /** Waits for a query's admission. */
  #follow(query: LocalQuery, turn: Promise<Refusal | null>): void {
    const { logger } = this.#dependencies;
    const { signal } = query.giveUp;
    turn.then(
      (refusal) => {
        if (signal.aborted || query.stage !== 'waiting') return;
        if (refusal !== null) void this.#end(query, 'waiting', refusal);
        else if (this.#isUnpolled(query)) void this.#suspend(query);
        else this.#submit(query);
      },
      (error: unknown) => {
        if (signal.aborted) return;
        logger.error({ err: error, queryId: query.id }, 'queued query failed');
        const message = 'The gateway failed; its log says why.';
        void this.#end(query, 'waiting', { reason: 'queue_lost', message, queryId: query.id });
      },
    );
  }

  #isUnpolled({ polls, polledAt }: LocalQuery): boolean {
    return polls.size === 0 && this.#dependencies.clock.monotonic() - polledAt >= SUSPEND_AFTER_MS;
  }

  /**
   * Puts an admitted query to sleep, as its client may be gone: others go first. It requests admission again, with its
   * position, when its client polls it, here or at another replica.
   */
  async #suspend(query: LocalQuery): Promise<void> {
    query.slots?.release();
    query.slots = null;
    query.isSuspended = true;
    await this.#resumePolled([query.id]);
  }

  /** Wakes queries that were polled at any replica. */
  async #resumePolled(ids: readonly string[]): Promise<void> {
    const { repository, logger } = this.#dependencies;
    try {
      const silent = new Set(await repository.unpolled(ids, SUSPEND_AFTER_MS));
      for (const id of ids) {
        const query = this.#queries.get(id);
        if (query !== undefined && !silent.has(id)) await this.#wake(query);
      }
    } catch (error) {
      logger.debug({ err: error }, 'check for clients of queued queries deferred');
    }
  }

  /** The client of a query polls it again. Rejects while the database is unavailable; then it stays asleep. */
  async #wake(query: LocalQuery): Promise<void> {
    const { repository, replica, clock } = this.#dependencies;
    if (!query.isSuspended) return;
    query.isSuspended = false;
    query.polledAt = clock.monotonic();
    try {
      const stored = this.#opened(query.id, await repository.request(query.id, replica));
      if (query.stage !== 'waiting') return;
      if (stored === null) this.#release(query);
      else this.#admit(query, stored);
    } catch (error) {
      query.isSuspended = true;
      throw error;
    }
  }

  #submit(query: LocalQuery): void {
    query.stage = 'submitting';
    const submission = this.#submitNow(query).catch((error: unknown) =>
      this.#dependencies.logger.error({ err: error, queryId: query.id }, 'failed to forward queued query'),
    );
    this.#submissions.add(submission);
    void submission.finally(() => this.#submissions.delete(submission));
  }

  async #submitNow(query: LocalQuery): Promise<void> {
    const { send, repository, replica, clock } = this.#dependencies;
    const sealed = await this.#begin(query);
    if (sealed === null) {
      // Cancelled, or adopted by another replica: its row has the client's response.
      this.#release(query);
      this.#respondLater(query);
      return;
    }
    const stored = this.#opened(query.id, sealed);
    if (stored === null) throw new Error('what was sealed here cannot be opened here');
    const outcome = await sendStored(send, stored, query, clock.monotonic());
    if (this.#goesBack(query, outcome)) {
      query.putBacks++;
      await pause(RETRY_MS);
      if (this.#stopping || query.isCancelled) {
        await repository.putBack(query.id, replica);
        this.#release(query);
        if (query.isCancelled && (await repository.remove(query.id))) {
          this.#dependencies.ends.note(query.id, stored, clock.monotonic() - query.since, 'CANCELLED');
        }
      } else if (await repository.putBack(query.id, replica)) this.#admit(query, stored);
      else this.#release(query);
      return;
    }
    await this.#end(query, 'submitting', outcomeForClient(query.id, outcome), engineIdOf(outcome), stored);
    if (query.isCancelled && outcome.kind === 'answer') this.#cancelAtCluster(stored, outcome);
  }

  /** Cancels a submitted query like its client. */
  #cancelAtCluster(
    stored: StoredSubmission,
    { response, engineId }: SubmissionOutcome & { readonly kind: 'answer' },
  ): void {
    const next = nextTargetOf({ kind: 'answer', ...response });
    if (next === null || engineId === null) return;
    const { followUp, clock } = this.#dependencies;
    const discarded = new CapturedResponse().asResponse;
    followUp(cancellationOf(stored, next, discarded, clock.monotonic()), engineId);
  }

  /** `waiting` becomes `submitting`; null if another replica has the query. Retries until the database responds. */
  async #begin(query: LocalQuery): Promise<string | null> {
    const { repository, replica, clock, logger } = this.#dependencies;
    for (let attempt = 1; ; attempt++) {
      try {
        const sealed = await repository.begin(query.id, replica);
        if (sealed !== null || attempt === 1) return sealed;
        // The response to an earlier attempt may have been lost: then the row has its result.
        const row = await repository.get(query.id);
        return row?.state === 'submitting' && row.replica === replica
          ? await repository.request(query.id, replica)
          : null;
      } catch (error) {
        logger.warn({ err: error, queryId: query.id }, 'queued query waits for the database');
        if (this.#stopping || clock.monotonic() >= query.deadline) return null;
        await pause(RETRY_MS);
      }
    }
  }

  #goesBack(query: LocalQuery, outcome: SubmissionOutcome): boolean {
    if (this.#dependencies.clock.monotonic() >= query.deadline) return false;
    if (outcome.kind === 'answer') return outcome.response.status === 503;
    if (outcome.kind === 'lost') return false;
    const { reason } = outcome.refusal;
    if (reason === 'no_cluster') return query.putBacks < MAX_PUT_BACKS;
    return reason === 'queue_full' || reason === 'pending' || reason === 'overloaded' || reason === 'starting';
  }

  /** Ends a query in the queue: stores the client's response, then sends it. */
  async #end(
    query: LocalQuery,
    from: 'waiting' | 'submitting',
    end: Refusal | StoredOutcome,
    engineId: string | null = null,
    submitted: StoredSubmission | null = null,
  ): Promise<void> {
    const { repository, replica, responses, ends, clock } = this.#dependencies;
    const { id } = query;
    const outcome: StoredOutcome = 'kind' in end ? end : { kind: 'refusal', refusal: { ...end, queryId: id } };
    if (from === 'waiting') {
      query.giveUp.abort();
      query.slots?.release();
    }
    query.stage = 'ended';
    const refusal = outcome.kind === 'refusal' ? outcome.refusal : null;
    const submission = refusal === null ? null : (submitted ?? (await this.#readBack(id)));
    const answer = this.#sealed(id, outcome);
    const state = engineId === null ? 'failed' : 'submitted';
    const stored = this.#persist('end', id, () => repository.end(id, replica, from, { state, engineId, answer }));
    const isStored = await Promise.race([stored, pause(STORE_PATIENCE_MS).then(() => null)]);
    if (isStored === false) {
      // Another replica considered it lost: its client has that response.
      this.#queries.delete(id);
      this.#respondLater(query);
      return;
    }
    if (refusal !== null) ends.note(id, submission, clock.monotonic() - query.since, refusal);
    query.outcome = outcome;
    query.polls.respondAll((proxied) => responses.outcome(proxied, id, outcome));
    await stored;
    this.#queries.delete(id);
    query.polls.respondAll((proxied) => responses.outcome(proxied, id, outcome));
  }

  /**
   * Writes a change of a row, with retries for some minutes while the database is unavailable; null if it was never
   * written.
   */
  async #persist(what: string, id: string, change: () => Promise<boolean>): Promise<boolean | null> {
    const { clock, logger } = this.#dependencies;
    const until = clock.monotonic() + ABANDONED_AFTER_MS;
    while (clock.monotonic() < until) {
      try {
        return await change();
      } catch (error) {
        logger.warn({ err: error, queryId: id, what }, 'failed to update queued query in the database');
        if (this.#stopping) return null;
        await pause(RETRY_MS);
      }
    }
    return null;
  }

  /** Open requests get a "queued" response: the next ones read the row. */
  #respondLater(query: LocalQuery): void {
    const { responses, clock } = this.#dependencies;
    query.polls.respondAll((proxied, token) =>
      responses.waiting(proxied, query.id, token, clock.monotonic() - query.since, query.state),
    );
  }

  #release(query: LocalQuery): void {
    query.stage = 'ended';
    query.giveUp.abort();
    query.slots?.release();
    this.#queries.delete(query.id);
  }

  #sealed(id: string, outcome: StoredOutcome): string {
    return this.#dependencies.key.seal('answer', id, encodeOutcome(outcome));
  }

  #opened(id: string, sealed: string | null): StoredSubmission | null {
    const bytes = sealed === null ? null : this.#dependencies.key.open('request', id, sealed);
    return bytes === null ? null : decodeSubmission(bytes);
  }
}

const displacedText = (by: string, group: string) =>
  `The queue of routing group ${group} is full (queue.maxQueuedQueries), and this ${by} has most of it: its newest query gave its place to another ${by}. Send it again later.`;

function stateOf({ decision }: Pick<Submission, 'decision'>, place: WaitPlace | undefined): QueuedState {
  const { group, decidedBy, rule } = decision;
  return { group, decidedBy, rule, place: place ?? null };
}

function reasonOf({ state: { group, place } }: Pick<LocalQuery, 'state'>): string {
  return place?.why() ?? `group ${group}`;
}

function outcomeForClient(id: string, outcome: SubmissionOutcome): StoredOutcome {
  switch (outcome.kind) {
    case 'answer':
      return { kind: 'answer', ...outcome.response };
    case 'rejected':
      return { kind: 'refusal', refusal: { ...outcome.refusal, queryId: id } };
    default:
      return { kind: 'refusal', refusal: { reason: 'queue_lost', message: lostText(outcome.why), queryId: id } };
  }
}

function engineIdOf(outcome: SubmissionOutcome): string | null {
  return outcome.kind === 'answer' ? outcome.engineId : null;
}

export const abandonedText = durationText(ABANDONED_AFTER_MS);

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds).unref();
  });
}
