import { setTimeout as pause } from 'node:timers/promises';
import { inTime } from '../../model/timeLimit.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { NewQueuedQuery, QueuedQueryRow } from '../../store/store.ts';
import type { AdmissionWait, WaitPlace } from '../admission/admission.ts';
import type { DataPlaneParts, QueueOptions } from '../dataPlane.ts';
import type { Submission } from '../exchanges/queryRecorder.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { ClientQuery, outcomeForClient, queuedIds, rejections } from './clientQuery.ts';
import type { QueueResponses } from './queuedRequests.ts';
import {
  CapturedResponse,
  cancellationOf,
  decodeOutcome,
  decodeSubmission,
  type EndOfClient,
  encodeOutcome,
  encodeSubmission,
  nextTargetOf,
  rejectedQuery,
  type SendSubmission,
  type StoredOutcome,
  type StoredSubmission,
  sendStored,
  storedSubmission,
} from './storedSubmission.ts';
import { firstError, isMarked } from './survival.ts';

/** Maximum number of queries that a replica holds, or has requests for. */
const MAX_QUERIES = 20_000;
/** Timeout for storing a query, after which its client is rejected. */
const PUT_TIMEOUT_MS = 5_000;
/** Time without a heartbeat after which a replica counts as dead. */
const REPLICA_TTL_MS = 15_000;
/** Time without a poll after which a query is dropped, as in engines. */
export const ABANDONED_AFTER_MS = 300_000;
/** Time without a poll after which a query is only forwarded when its client polls again: the client may be gone. */
const SUSPEND_AFTER_MS = 30_000;
/** Maximum age of the last poll's time in the database, of own queries and of those of other replicas. */
const TOUCH_AFTER_MS = 60_000;
const TOUCH_ELSEWHERE_AFTER_MS = 15_000;
/** Retention of a cluster's response for repeated polls. */
const RESPONSE_RETENTION_MS = 600_000;
/** Time after the last held query for which rows are maintained here. */
const USED_MS = 1_800_000;
const LOOP_MS = 250;
const ROUNDS_A_SECOND = 1_000 / LOOP_MS;
const ROUNDS_A_MINUTE = 60 * ROUNDS_A_SECOND;
/** Delay of reads of rows that clients ask for, to batch them. */
const READ_MS = 10;
const RETRY_MS = 1_000;
/** Time that the client's response waits for the database; then it is sent from memory, and stored later. */
const STORE_PATIENCE_MS = 2_000;

const lostWithReplica = rejections.lost('the gateway replica that sent it ended');

/** A query of any replica. */
type AnyQuery = Pick<ClientQuery, 'id' | 'since' | 'hasPlace'>;

/**
 * The queued queries of a replica: those that it holds, and those that clients ask for here. Their rows are the truth:
 * one exists before the client knows of the query, is `submitting` before a cluster gets the query, and has the
 * cluster's response before the client gets it. So another replica can continue if this one dies, and nothing runs twice
 * (docs/architecture.md#the-queue).
 */
export class DurableQueue {
  readonly #parts: DataPlaneParts;
  readonly #options: QueueOptions;
  readonly #responses: QueueResponses;
  readonly #send: SendSubmission;
  readonly #followUp: (proxied: ProxiedRequest, engineId: string) => void;
  readonly #queries = new Map<string, ClientQuery>();
  /** Running queries that another cluster can take over: times of the last poll here, and of that in the database. */
  readonly #running = new Map<string, { polledAt: number; touchedAt: number }>();
  /** Those of them that cannot continue elsewhere any more, to be updated soon. */
  readonly #settled = new Set<string>();
  /** Ids of queries elsewhere, to be read soon. */
  readonly #unread = new Set<string>();
  /** Rows being added, and submissions: a stop waits for them. */
  readonly #pending = new Set<Promise<unknown>>();
  readonly #sourceHeader: string;
  readonly #newId: () => string;
  #loop: NodeJS.Timeout | undefined;
  #reading: NodeJS.Timeout | null = null;
  #roundAt = 0;
  #rounds = 0;
  #isAtWork = false;
  #stopping = false;
  /** Monotonic end of this replica's registration in the database. */
  #aliveUntil = Number.NEGATIVE_INFINITY;
  /** Time of the last held query. */
  #usedAt = Number.NEGATIVE_INFINITY;

  /** @param followUp sends a request about a query to its cluster */
  constructor(
    parts: DataPlaneParts,
    options: QueueOptions,
    responses: QueueResponses,
    send: SendSubmission,
    followUp: (proxied: ProxiedRequest, engineId: string) => void,
  ) {
    this.#parts = parts;
    this.#options = options;
    this.#responses = responses;
    this.#send = send;
    this.#followUp = followUp;
    this.#sourceHeader = parts.names.headerKey('Source');
    this.#newId = queuedIds(parts.random(), parts.clock);
  }

  /** Stores and queues a submission that waits for its turn. Never rejects. */
  async enter(
    proxied: ProxiedRequest,
    submission: Submission,
    wait: AdmissionWait,
    turn: Promise<Refusal | null>,
    giveUp: AbortController,
  ): Promise<ClientQuery | Refusal> {
    const { repository } = this.#options;
    const { decision } = submission;
    if (this.#queries.size >= MAX_QUERIES) return rejections.full;
    const query = new ClientQuery(this.#newId(), 'waiting', proxied.startedAt, this.#now());
    const { id } = query;
    query.decide(decision, wait, wait.slots);
    query.giveUp = giveUp;
    this.#add(query);
    const row = this.#rowOf(id, proxied, submission, query.reason);
    try {
      await this.#track(
        inTime(
          this.#renew().then(() => repository.put(row)),
          PUT_TIMEOUT_MS,
        ),
      );
    } catch (error) {
      this.#queries.delete(id);
      this.#parts.logger.warn({ err: error }, 'failed to store queued query');
      return rejections.unavailable;
    }
    wait.slots?.keepPlace?.(id);
    query.hasPlace = true;
    if (this.#stopping) this.#leave(query);
    else this.#follow(query, turn);
    return query;
  }

  /**
   * Stores a query that a cluster has, and another one can take over.
   * @returns its id in the queue; null if it cannot be stored now. Never rejects
   */
  async store(proxied: ProxiedRequest, submission: Submission, engineId: string): Promise<string | null> {
    const id = this.#newId();
    const row = { ...this.#rowOf(id, proxied, submission, 'runs'), engineId };
    try {
      await this.#track(inTime(this.#options.repository.put(row), STORE_PATIENCE_MS));
    } catch (error) {
      this.#parts.logger.warn({ err: error, queryId: engineId }, 'failed to store running query');
      return null;
    }
    this.noteRunning(id, false, this.#now());
    return id;
  }

  /**
   * Notes a request about a query that another cluster can take over: its row stays while its client polls.
   * @param isSettled true if its client gets rows, or the end: its request is deleted
   * @param touchedAt when the database had its last poll; default: never
   */
  noteRunning(id: string, isSettled: boolean, touchedAt = Number.NEGATIVE_INFINITY): void {
    if (isSettled) {
      this.#running.delete(id);
      // One that is left out loses its request five minutes after its last poll.
      if (this.#settled.size < MAX_QUERIES) this.#settled.add(id);
    } else if (!this.#running.has(id) && this.#running.size < MAX_QUERIES) {
      this.#running.set(id, { polledAt: this.#now(), touchedAt });
    }
    const running = this.#running.get(id);
    if (running !== undefined) running.polledAt = this.#now();
    this.#start();
  }

  #rowOf(id: string, proxied: ProxiedRequest, submission: Submission, reason: string): NewQueuedQuery {
    const { key, replica } = this.#options;
    const { decision, user } = submission;
    const request = key.seal('request', id, encodeSubmission(storedSubmission(proxied, submission)));
    const source = proxied.fields.get(this.#sourceHeader)?.[0] ?? null;
    return { id, group: decision.group, user: user.user, source, reason, request, replica };
  }

  /** Place of a query that waits here; null for others. */
  placeOf(id: string): WaitPlace | null {
    return this.#queries.get(id)?.state.place ?? null;
  }

  /** Holds a request for a query until it has an outcome, at most for a time (milliseconds). */
  poll(proxied: ProxiedRequest, id: string, token: number, holdMs: number): void {
    const now = this.#now();
    const query = this.#queries.get(id) ?? new ClientQuery(id, 'elsewhere', null, now);
    query.polledAt = now;
    if (query.outcome !== null) {
      this.#responses.outcome(proxied, id, query.outcome);
      return;
    }
    if (this.#queries.size >= 2 * MAX_QUERIES && !this.#queries.has(id)) {
      this.#responses.undecided(proxied, id);
      return;
    }
    this.#add(query);
    const isElsewhere = query.stage === 'elsewhere';
    const late = () => {
      query.polledAt = this.#now();
      if (query.since === null) this.#responses.undecided(proxied, id);
      else this.respondWaiting(query, proxied, token);
    };
    // Of a query elsewhere, only open requests are remembered.
    const onEnd = () => query.stage === 'elsewhere' && !query.isPolled && this.#queries.delete(id);
    query.hold(proxied, token, isElsewhere ? Math.max(holdMs, LOOP_MS) : holdMs, late, onEnd);
    if (!isElsewhere) return;
    this.#unread.add(id);
    this.#readSoon();
  }

  respondWaiting(query: ClientQuery, proxied: ProxiedRequest, token: number): void {
    const now = this.#now();
    this.#responses.waiting(proxied, query.id, token, now - (query.since ?? now), query.state);
  }

  /** Outcome of a query from its row; null if it was deleted. */
  outcomeOf({ id, answer }: QueuedQueryRow): StoredOutcome | null {
    const bytes = answer === null ? null : this.#options.key.open('answer', id, answer);
    return bytes === null ? null : decodeOutcome(bytes);
  }

  /** The stored submission of a query; null if it has none, or it cannot be read here. Rejects without the database. */
  async stored(id: string): Promise<StoredSubmission | null> {
    return this.#opened(id, await this.#options.repository.request(id));
  }

  /**
   * Takes a query of this replica out of the queue for its client; a submitted one is cancelled at its cluster.
   * @returns false for queries of other replicas
   */
  drop(id: string, end: EndOfClient = 'CANCELLED'): boolean {
    const query = this.#queries.get(id);
    if (query === undefined || query.stage === 'elsewhere' || query.stage === 'adopting') return false;
    if (query.stage === 'submitting') query.isCancelled = true;
    else if (query.stage === 'waiting') {
      const respond = (proxied: ProxiedRequest) =>
        this.#responses.reject(proxied, id, 'unknown_query', `Query ${id} was cancelled.`);
      query.respondAll(respond);
      this.#leave(query);
      void this.#persist(id, () => this.#endRow(query, this.#options.replica, 'cancel', end));
    }
    return true;
  }

  /** Takes a query out of the queue for its client, whichever replica holds it. Rejects without the database. */
  async dropAnywhere(row: QueuedQueryRow): Promise<void> {
    const { id, replica, isHeld } = row;
    if (this.drop(id)) return;
    if (isHeld && replica !== this.#options.replica) await this.#options.repository.setCommand(id, 'drop');
    else await this.#endRow(this.#queryOf(row), replica, 'cancel', 'CANCELLED');
  }

  /**
   * Rejects the newest query of the user (or source) with the most of a group, if these are more than one more than
   * those of another one. @returns true if there is a place then. Never rejects
   */
  async displace(group: string, by: 'user' | 'source', flow: string): Promise<boolean> {
    try {
      const row = await this.#options.repository.newestOfMost(group, by, flow);
      if (row === null) return false;
      const rejection = rejections.displaced(by, group);
      return await this.#endRow(this.#queryOf(row), row.replica, 'reject', rejection, 'displaced');
    } catch (error) {
      this.#parts.logger.debug({ err: error, group }, 'no queued query displaced');
      return false;
    }
  }

  /** Hands queued queries over to other replicas, and waits for pending submissions. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#loop);
    const { repository, replica } = this.#options;
    for (const query of [...this.#queries.values()]) if (query.stage === 'waiting') this.#leave(query);
    // Requests that are held enter the queue now.
    await pause(0);
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    await inTime(repository.handOver(replica), PUT_TIMEOUT_MS).catch((error: unknown) =>
      this.#parts.logger.warn(
        { err: error },
        'failed to hand over queued queries; other replicas adopt them within seconds',
      ),
    );
  }

  /** Adds a query; the loop runs from the first one on. */
  #add(query: ClientQuery): void {
    this.#queries.set(query.id, query);
    this.#start();
  }

  #start(): void {
    this.#loop ??= setInterval(() => void this.#work(), LOOP_MS).unref();
  }

  #readSoon(): void {
    this.#reading ??= setTimeout(() => {
      this.#reading = null;
      void this.#work();
    }, READ_MS);
  }

  /** The loop: reads rows that clients ask for, and maintains those that this replica holds. Never rejects. */
  async #work(): Promise<void> {
    const now = this.#parts.clock.monotonic();
    const isUsed = this.#queries.size + this.#running.size + this.#settled.size > 0 || now - this.#usedAt <= USED_MS;
    if (this.#isAtWork || !isUsed) return;
    this.#isAtWork = true;
    try {
      await this.#readElsewhere([...this.#unread], false);
      if (now >= this.#roundAt) {
        this.#roundAt = now + LOOP_MS / 2;
        const elsewhere = [...this.#queries.values()].filter(({ stage }) => stage === 'elsewhere');
        await this.#readElsewhere(
          elsewhere.map(({ id }) => id),
          true,
        );
        if (!this.#stopping) await this.#maintain();
      }
      if (this.#unread.size > 0) this.#readSoon();
    } catch (error) {
      this.#parts.logger.debug({ err: error }, 'queue maintenance failed');
    } finally {
      this.#isAtWork = false;
    }
  }

  /** Reads rows that other replicas hold. @param settledOnly only those that do not wait there any more */
  async #readElsewhere(ids: readonly string[], settledOnly: boolean): Promise<void> {
    if (ids.length === 0) return;
    const rows = new Map((await this.#options.repository.many(ids, settledOnly)).map((row) => [row.id, row]));
    const learn = async (id: string) => {
      this.#unread.delete(id);
      const query = this.#queries.get(id);
      if (query?.stage === 'elsewhere') await this.#learn(query, rows.get(id) ?? null);
    };
    await Promise.all((settledOnly ? [...rows.keys()] : ids).map(learn));
    const old = [...rows.values()].filter(({ unpolledMs }) => unpolledMs >= TOUCH_ELSEWHERE_AFTER_MS);
    if (old.length > 0) await this.#options.repository.touch(old.map(({ id }) => id));
  }

  /** Applies what the row of a query elsewhere states: its client gets the outcome, or it is adopted. */
  async #learn(query: ClientQuery, row: QueuedQueryRow | null): Promise<void> {
    const { id } = query;
    if (row === null) {
      query.respondAll((proxied) => this.#responses.unknown(proxied, id));
      return;
    }
    query.since = this.#now() - row.waitingMs;
    query.state = { ...query.state, group: row.group };
    const isLeft = !row.isHeld || row.replica === this.#options.replica;
    if (row.state === 'waiting') {
      if (isLeft) await this.#adopt(query, row);
    } else if (row.state === 'submitting') {
      if (isLeft) await this.#endRow(this.#queryOf(row), row.replica, 'fail', lostWithReplica);
    } else {
      const outcome = this.outcomeOf(row);
      query.respondAll((proxied) => {
        if (outcome === null) this.#responses.unknown(proxied, id);
        else this.#responses.outcome(proxied, id, outcome);
      });
    }
  }

  /** Takes over a query that no replica holds, with its position. */
  async #adopt(query: ClientQuery, { id, replica: from, movedAt, waitingMs }: QueuedQueryRow): Promise<void> {
    const { repository, replica } = this.#options;
    if (this.#stopping || this.#queries.size >= MAX_QUERIES) return;
    query.stage = 'adopting';
    try {
      await this.#renew();
      const adopted = await repository.apply('adopt', id, from, { replica });
      // After a stop it is handed over with the others.
      if (adopted === null || this.#stopping) return;
      query.stage = 'waiting';
      query.hasPlace = true;
      query.movedAt = movedAt;
      this.#parts.logger.info({ queryId: id, from, waitedMs: waitingMs }, 'adopted queued query');
      const stored = this.#opened(id, adopted.request);
      if (stored === null) this.#reject(query, rejections.unreadable);
      else this.#admit(query, stored);
    } finally {
      if (query.stage === 'adopting') query.stage = 'elsewhere';
      if (query.stage === 'elsewhere' && !query.isPolled) this.#queries.delete(id);
    }
  }

  /** Executes commands; ends late and abandoned queries; records polls and reasons of waits; deletes old responses. */
  async #maintain(): Promise<void> {
    const { repository, replica } = this.#options;
    const now = this.#now();
    const round = this.#rounds++;
    const own = [...this.#queries.values()].filter(({ stage }) => stage === 'waiting' || stage === 'submitting');
    if (own.length > 0) {
      this.#usedAt = now;
      for (const { id, command, movedAt } of await repository.commands(replica)) {
        const query = this.#queries.get(id);
        if (command === 'displaced') await repository.forgetCommand(id);
        if (query === undefined) continue;
        // Its row has the client's response.
        if (command === 'displaced') this.#leave(query);
        else if (command === 'kill' && query.stage === 'waiting') this.#reject(query, rejections.killed);
        else if (command !== null) this.drop(id);
        else if (query.moveFirst(movedAt))
          this.#parts.logger.info({ queryId: id }, 'queued query moved to the front by an administrator');
      }
    }
    if (round % ROUNDS_A_SECOND !== 0) return;
    const waiting = own.filter(({ stage }) => stage === 'waiting');
    for (const query of waiting) {
      if (query.isPolled) query.polledAt = now;
      if (now >= query.deadline) this.#reject(query, query.late());
    }
    if (own.length > 0) await this.#renew();
    const polled = waiting.filter(({ polledAt, touchedAt }) => polledAt - touchedAt >= TOUCH_AFTER_MS);
    // Queries of a group mostly wait for the same.
    for (const [reason, queries] of Map.groupBy(polled, (query) => query.reason)) {
      await repository.touch(
        queries.map(({ id }) => id),
        reason,
      );
      for (const query of queries) query.touchedAt = now;
    }
    for (const row of await repository.abandoned(ABANDONED_AFTER_MS)) await this.#dropAbandoned(row, now);
    await this.#maintainRunning(now);
    if (round % ROUNDS_A_MINUTE !== 0) return;
    await repository.forgetResponses(RESPONSE_RETENTION_MS);
    await repository.settleUnpolled(ABANDONED_AFTER_MS);
  }

  /** Records polls of running queries, and deletes the requests of those that cannot continue elsewhere any more. */
  async #maintainRunning(now: number): Promise<void> {
    const { repository } = this.#options;
    if (this.#running.size > 0) this.#usedAt = now;
    const settled = [...this.#settled];
    if (settled.length > 0) await repository.settle(settled);
    for (const id of settled) this.#settled.delete(id);
    const polled: string[] = [];
    for (const [id, running] of this.#running) {
      if (now - running.polledAt >= ABANDONED_AFTER_MS) this.#running.delete(id);
      else if (running.polledAt - running.touchedAt >= TOUCH_AFTER_MS) polled.push(id);
    }
    if (polled.length > 0) await repository.touch(polled);
    for (const id of polled) Object.assign(this.#running.get(id) ?? {}, { touchedAt: now });
  }

  /** Drops a query that no client polls, unless another replica holds it. */
  async #dropAbandoned(row: QueuedQueryRow, now: number): Promise<void> {
    const own = this.#queries.get(row.id);
    const isElsewhere = row.isHeld && row.replica !== this.#options.replica;
    if (own === undefined ? isElsewhere : now - own.polledAt < ABANDONED_AFTER_MS) return;
    this.#parts.logger.info({ queryId: row.id }, 'queued query dropped; not polled for 5 minutes');
    if (!this.drop(row.id, 'ABANDONED')) await this.#endRow(this.#queryOf(row), row.replica, 'cancel', 'ABANDONED');
  }

  /** Renews this replica's registration if due. Rejects without the database. */
  async #renew(): Promise<void> {
    const now = this.#now();
    if (this.#aliveUntil - now > REPLICA_TTL_MS / 2) return;
    await this.#options.repository.renew(this.#options.replica, REPLICA_TTL_MS);
    this.#aliveUntil = now + REPLICA_TTL_MS;
  }

  /** Requests admission with the query's position. */
  #admit(query: ClientQuery, { decision, user, headers, body: bytes, survival }: StoredSubmission): void {
    const waitedMs = this.#now() - (query.since ?? 0);
    const body = {
      get text() {
        return bytes.toString();
      },
    };
    const excluded = new Map(survival?.lost.map(({ cluster, reason }) => [cluster, reason]));
    const admitted = this.#parts.admission.admit({ decision, user, headers, body, waitedMs, excluded });
    query.stage = 'waiting';
    query.decide(decision, admitted.kind === 'wait' ? admitted : null, admitted.slots);
    if (admitted.kind === 'now') this.#submit(query);
    else {
      query.giveUp = new AbortController();
      this.#follow(query, admitted.begin(query.giveUp.signal));
    }
  }

  /** Waits for a query's admission. */
  #follow(query: ClientQuery, turn: Promise<Refusal | null>): void {
    const { signal } = query.giveUp;
    turn.then(
      (rejection) => {
        if (signal.aborted || query.stage !== 'waiting') return;
        if (rejection !== null) this.#reject(query, rejection);
        else if (query.isPolled || this.#now() - query.polledAt < SUSPEND_AFTER_MS) this.#submit(query);
        else this.#suspend(query);
      },
      (error: unknown) => {
        if (signal.aborted) return;
        this.#parts.logger.error({ err: error, queryId: query.id }, 'queued query failed');
        this.#reject(query, rejections.failed);
      },
    );
  }

  /** Gives a query up that has its turn, as its client may be gone: the replica that the client polls next adopts it. */
  #suspend(query: ClientQuery): void {
    const { repository, replica } = this.#options;
    this.#leave(query);
    this.#endPlace(query);
    void this.#persist(query.id, () => repository.apply('adopt', query.id, replica, { replica: '' }));
  }

  #submit(query: ClientQuery): void {
    query.stage = 'submitting';
    this.#endPlace(query);
    void this.#track(this.#submitNow(query)).catch((error: unknown) =>
      this.#parts.logger.error({ err: error, queryId: query.id }, 'failed to forward queued query'),
    );
  }

  async #submitNow(query: ClientQuery): Promise<void> {
    const { repository, replica } = this.#options;
    const { id } = query;
    const isTooLate = () => this.#stopping || this.#now() >= query.deadline;
    const begun = await this.#persist(id, () => repository.apply('begin', id, replica), isTooLate);
    if (begun === undefined || begun === null) {
      // Cancelled, or adopted by another replica: its row has the client's response.
      this.#leave(query);
      return;
    }
    const stored = this.#opened(id, begun.request);
    if (stored === null) throw new Error('what was sealed here cannot be opened here');
    const source = { id, since: query.since ?? 0, slots: query.slots };
    const outcome = await sendStored(this.#send, stored, source, this.#now());
    if (!query.goesBack(outcome, this.#now())) {
      const engineId = outcome.kind === 'answer' ? outcome.engineId : null;
      const isMarkedResponse = outcome.kind === 'answer' && isMarked(outcome.response.body);
      const event = engineId === null ? 'fail' : isMarkedResponse ? 'accept' : 'respond';
      const error = engineId === null && stored.survival !== undefined ? firstError(stored.survival) : null;
      const lost =
        stored.survival?.lost.map(({ cluster, queryId }) => `${encodeURIComponent(cluster)} ${queryId}`) ?? [];
      const continued = lost.length === 0 ? [] : [this.#parts.names.header('Continued-From'), lost.join(', ')];
      const own = outcomeForClient(id, outcome, continued);
      await this.#end(query, event, error ?? own, engineId);
      const target = outcome.kind === 'answer' ? nextTargetOf(outcome.response.body) : null;
      if (!query.isCancelled || target === null || engineId === null) return;
      const nowhere = new CapturedResponse().asResponse;
      this.#followUp(cancellationOf(stored, target, nowhere, this.#now()), engineId);
      return;
    }
    query.putBacks++;
    await pause(RETRY_MS, undefined, { ref: false });
    const isBack = await this.#persist(id, () => repository.apply('putBack', id, replica));
    if (isBack && !this.#stopping && !query.isCancelled) this.#admit(query, stored);
    else {
      this.#leave(query);
      if (isBack && query.isCancelled)
        await this.#persist(id, () => this.#endRow(query, replica, 'cancel', 'CANCELLED'));
    }
  }

  /** Ends a query of this replica that waits. */
  #reject(query: ClientQuery, rejection: Refusal): void {
    if (query.stage !== 'waiting') return;
    query.giveUp.abort();
    query.slots?.release();
    const outcome: StoredOutcome = { kind: 'refusal', refusal: { ...rejection, queryId: query.id } };
    void this.#end(query, 'reject', outcome, null);
  }

  /** Stores the outcome of a query for its client, then sends it. */
  async #end(
    query: ClientQuery,
    event: 'reject' | 'fail' | 'respond' | 'accept',
    outcome: StoredOutcome,
    engineId: string | null,
  ): Promise<void> {
    const { repository, replica } = this.#options;
    const { id } = query;
    query.stage = 'ended';
    this.#endPlace(query);
    const answer = this.#sealed(id, outcome);
    const storing = this.#persist(id, () => repository.apply(event, id, replica, { engineId, answer }));
    const isStored = await Promise.race([storing, pause(STORE_PATIENCE_MS, undefined, { ref: false })]);
    if (isStored === null) {
      // Another replica considered it lost: its client has that response.
      this.#leave(query);
      return;
    }
    query.outcome = outcome;
    query.respondAll((proxied) => this.#responses.outcome(proxied, id, outcome));
    const ended = await storing;
    this.#queries.delete(id);
    query.respondAll((proxied) => this.#responses.outcome(proxied, id, outcome));
    if (ended && outcome.kind === 'refusal') this.#noteEnd(query, ended.request, outcome.refusal);
  }

  /** Ends a query of any replica. Rejects without the database. @returns false if it was changed meanwhile */
  async #endRow(
    query: AnyQuery,
    holder: string,
    event: 'reject' | 'fail' | 'cancel',
    end: Refusal | EndOfClient,
    command: QueuedQueryRow['command'] = null,
  ): Promise<boolean> {
    const { id } = query;
    const answer =
      typeof end === 'string' ? null : this.#sealed(id, { kind: 'refusal', refusal: { ...end, queryId: id } });
    const ended = await this.#options.repository.apply(event, id, holder, { answer, command });
    if (ended === null) return false;
    this.#endPlace(query);
    this.#noteEnd(query, ended.request, end);
    return true;
  }

  /** Records the end of a query in the history. */
  #noteEnd({ id, since }: AnyQuery, request: string | null, end: Refusal | EndOfClient): void {
    const stored = this.#opened(id, request);
    const now = this.#now();
    const rejected = stored === null ? null : rejectedQuery(id, stored, this.#sourceHeader, now - (since ?? now), end);
    if (rejected !== null) this.#parts.outcomes.reject(rejected);
  }

  /** Gives the place of a query in the counters of the queue to others. */
  #endPlace(query: AnyQuery): void {
    if (query.hasPlace) this.#parts.admission.endQueued?.(query.id);
    query.hasPlace = false;
  }

  /** Forgets a query that this replica does not hold any more: its client asks again, and gets what the row states. */
  #leave(query: ClientQuery): void {
    query.stage = 'ended';
    query.giveUp.abort();
    query.slots?.release();
    this.#queries.delete(query.id);
    query.respondAll((proxied, token) => this.respondWaiting(query, proxied, token));
  }

  /** Changes a row, with retries for some minutes without the database; undefined if it was never changed. */
  async #persist<T>(id: string, change: () => Promise<T>, isTooLate = () => this.#stopping): Promise<T | undefined> {
    const until = this.#now() + ABANDONED_AFTER_MS;
    while (this.#now() < until) {
      try {
        return await change();
      } catch (error) {
        this.#parts.logger.warn({ err: error, queryId: id }, 'failed to update queued query in the database');
        if (isTooLate()) return undefined;
        await pause(RETRY_MS, undefined, { ref: false });
      }
    }
    return undefined;
  }

  #track<T>(work: Promise<T>): Promise<T> {
    this.#pending.add(work);
    return work.finally(() => this.#pending.delete(work));
  }

  #queryOf({ id, waitingMs, state }: QueuedQueryRow): AnyQuery {
    return { id, since: this.#now() - waitingMs, hasPlace: state === 'waiting' };
  }

  #now(): number {
    return this.#parts.clock.monotonic();
  }

  #sealed(id: string, outcome: StoredOutcome): string {
    return this.#options.key.seal('answer', id, encodeOutcome(outcome));
  }

  #opened(id: string, sealed: string | null): StoredSubmission | null {
    const bytes = sealed === null ? null : this.#options.key.open('request', id, sealed);
    return bytes === null ? null : decodeSubmission(bytes);
  }
}
