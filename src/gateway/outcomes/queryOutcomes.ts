import type { Logger } from 'pino';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import { queryStart } from '../../routing/statementProtocol.ts';
import type { QueryOutcomeRepository } from '../../store/outcomeRepository.ts';
import {
  certainty,
  isUserError,
  type QueryOutcomeRecord,
  type QueryState,
  RUNNING,
  type StatementFacts,
} from '../../store/queryOutcome.ts';
import type { RecordWriter } from '../../store/recordWriter.ts';
import type { RunningQueryRepository } from '../../store/runningQueryRepository.ts';
import type { FinalPage, PageError } from './finalPage.ts';

export interface QueryFacts {
  /** Registry name; null if no cluster received it. */
  readonly cluster: string | null;
  readonly routingGroup: string | null;
  readonly user: string | null;
  readonly source: string | null;
  /** Rule that decided its routing group, or that denied it. */
  readonly rule: string | null;
  /** Time in the gateway's queue, milliseconds; null if it did not wait. */
  readonly gatewayQueuedMillis: number | null;
  readonly groups?: readonly string[];
  readonly statement?: StatementFacts;
}

export interface RejectedQuery {
  readonly queryId: string;
  readonly state: 'REFUSED' | 'FAILED' | 'DENIED' | 'CANCELLED' | 'ABANDONED' | 'LOST';
  readonly facts: QueryFacts;
  readonly queryText: string;
  /** `StoredDecision` as JSON; null without a decision. */
  readonly decision: string | null;
  readonly error: { readonly name: string; readonly type: string; readonly code: number; readonly message: string };
}

/** Age at which a running query gets a row: shorter ones cost one write. */
const WRITE_AFTER_MS = 5_000;
const SWEEP_INTERVAL_MS = 5_000;
const MAX_ROWS = 2_000;
/** Engines abandon a query without a poll for this time (Trino: `query.client.timeout`). */
const ABANDONED_AFTER_MS = 300_000;
/** The database may have the time of a client's last request with this delay. */
const LATE_RENEWAL_MS = 70_000;
/** Delay of the end of a query that another replica submitted, so that the history has its facts. */
const LATE_MS = 800;
/** Time without another response after which a cluster's "unknown query" response is final. */
const LOST_AFTER_MS = 30_000;
/** Maximum number of tracked queries that this replica does not follow and that their clusters do not know. */
const MAX_MISSED = 10_000;
/** Maximum number of followed queries; above, the oldest are left to other replicas and to their row. */
const MAX_OPEN = 100_000;
const FORGOTTEN_AT_ONCE = 1_000;
/** Maximum number of remembered ends, so that a repeated last page counts once. */
const MAX_ENDED = 20_000;

interface OpenQuery {
  facts: QueryFacts;
  /** Milliseconds since 1970. */
  readonly created: number;
  lastSeen: number;
  pages: number;
  bytes: number;
  /** Milliseconds from `created` to the first response with rows, or null. */
  firstRow: number | null;
  isWritten: boolean;
  isLost: boolean;
}

/** A query that its owner does not know, or with a lost owner. */
interface MissedQuery {
  readonly cluster: string;
  /** Milliseconds since 1970. */
  readonly since: number;
}

const noPage: Omit<FinalPage, 'error'> = {
  elapsedMillis: null,
  queuedMillis: null,
  cpuMillis: null,
  processedRows: null,
  processedBytes: null,
  peakMemoryBytes: null,
  physicalInputBytes: null,
  planningMillis: null,
  analysisMillis: null,
  spilledBytes: null,
};

/** Engines' errors of queries that did not fail by themselves. */
export const statesOfErrors: ReadonlyMap<string, QueryState> = new Map([
  ['USER_CANCELED', 'CANCELLED'],
  ['ABANDONED_QUERY', 'ABANDONED'],
]);

/**
 * Outcomes of queries, observed in responses: the last page of an engine, a cancellation, or silence. Each gets a row
 * of `eg_query_outcomes` at its end, or earlier if it runs for long, so that another replica that observes the end need
 * not know the submission.
 */
export class QueryOutcomes {
  readonly #writer: Pick<RecordWriter<QueryOutcomeRecord>, 'add'>;
  readonly #running: Pick<RunningQueryRepository, 'lastSeen'>;
  readonly #stored: Pick<QueryOutcomeRepository, 'unended' | 'ended'>;
  readonly #metrics: OutcomeMetrics;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #open = new Map<string, OpenQuery>();
  readonly #ended = new Set<string>();
  /** Queries of other replicas that their clusters do not know. */
  readonly #missed = new Map<string, MissedQuery>();
  /** Ends that wait for the history, and when they began to. */
  #lateEnds: { readonly record: QueryOutcomeRecord; readonly since: number }[] = [];
  #lateTimer: NodeJS.Timeout | null = null;
  #timer: NodeJS.Timeout | null = null;
  #sweeping: Promise<void> | null = null;

  /** @param running shared state of the replicas about queries that clients follow */
  constructor(
    writer: Pick<RecordWriter<QueryOutcomeRecord>, 'add'>,
    running: Pick<RunningQueryRepository, 'lastSeen'>,
    stored: Pick<QueryOutcomeRepository, 'unended' | 'ended'>,
    registry: Registry,
    clock: Clock,
    logger: Logger,
  ) {
    this.#writer = writer;
    this.#running = running;
    this.#stored = stored;
    this.#metrics = new OutcomeMetrics(registry);
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Starts the sweeps for long and abandoned queries. */
  start(): void {
    this.#timer = setInterval(() => void this.sweep(), SWEEP_INTERVAL_MS).unref();
  }

  /** Writes rows of all running queries: other replicas will observe their ends. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#sweeping;
    for (const [queryId, query] of this.#open) if (!query.isWritten) this.#writeOpen(queryId, query);
    this.#open.clear();
    this.#writeLateEnds(true);
  }

  begin(queryId: string, facts: QueryFacts): void {
    const query = this.#open.get(queryId);
    if (query !== undefined) query.facts = facts;
    else this.#follow(queryId, facts, this.#clock.now());
  }

  awaitsRows(queryId: string): boolean {
    return (this.#open.get(queryId)?.firstRow ?? null) === null;
  }

  /** Records a response of a continuing query. @param hasRows true if it has rows */
  page(queryId: string, cluster: string, bytes: number, hasRows = false): void {
    const query = this.#open.get(queryId) ?? this.#follow(queryId, factsOf(cluster), null);
    query.lastSeen = this.#clock.now();
    this.#missed.delete(queryId);
    if (hasRows) noteRows(query);
    query.isLost = false;
    query.pages += 1;
    query.bytes += bytes;
  }

  /**
   * Records the last response.
   * @param page its content; null if it could not be read
   * @param hasRows true if it has rows
   */
  end(queryId: string, cluster: string, bytes: number, page: FinalPage | null, hasRows = false): void {
    if (this.#ended.has(queryId)) return;
    const query = this.#open.get(queryId) ?? this.#unfollowed(queryId, cluster);
    query.lastSeen = this.#clock.now();
    query.pages += 1;
    query.bytes += bytes;
    if (hasRows) noteRows(query);
    const name = page?.error?.name ?? null;
    const failed = page?.error == null ? 'FINISHED' : 'FAILED';
    const state = (name === null ? undefined : statesOfErrors.get(name)) ?? failed;
    this.#close(queryId, query, state, page === null ? certainty.guessed : certainty.said, page);
  }

  /** Records a cancellation that the cluster accepted. */
  cancel(queryId: string, cluster: string): void {
    if (this.#ended.has(queryId)) return;
    const query = this.#open.get(queryId) ?? this.#unfollowed(queryId, cluster);
    query.lastSeen = this.#clock.now();
    this.#close(queryId, query, 'CANCELLED', certainty.cancelled, null);
  }

  /**
   * Records that the cluster does not know the query, or is lost: the query is lost unless another response follows
   * soon. A query that this replica does not follow is looked up first: any client may send any id.
   */
  lose(queryId: string, cluster: string): void {
    const now = this.#clock.now();
    const query = this.#open.get(queryId);
    if (query === undefined) {
      const isNew = !this.#ended.has(queryId) && !this.#missed.has(queryId);
      if (isNew && this.#missed.size < MAX_MISSED) this.#missed.set(queryId, { cluster, since: now });
    } else if (!query.isLost) {
      query.isLost = true;
      query.lastSeen = now;
    }
  }

  /** Records that another cluster continues the query, as its own lost it or could not finish it. */
  retry(queryId: string, cluster: string, error: PageError): void {
    if (this.#ended.has(queryId)) return;
    const query = this.#open.get(queryId) ?? this.#unfollowed(queryId, cluster);
    this.#close(queryId, query, 'RETRIED', certainty.cancelled, { ...noPage, error });
  }

  /** Records a submission that the gateway rejected, or that a cluster rejected with an HTTP error. */
  reject({ queryId, state, facts, queryText, decision, error }: RejectedQuery): void {
    const now = this.#clock.now();
    this.#metrics.ended(facts.routingGroup, state, null, error.type);
    this.#writer.add({
      ...{ queryId, created: now, lastSeen: now, state, certainty: certainty.said, refused: true },
      ...facts,
      ...errorColumns(error),
      ...noPage,
      ...{ resultBytes: null, pages: null, queryText, decision },
    });
  }

  /** Writes rows of long queries, and ends abandoned ones. Never rejects. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep()
      .catch((error: unknown) => this.#logger.debug({ err: error }, 'ends of queries deferred'))
      .finally(() => {
        this.#sweeping = null;
      });
    return this.#sweeping;
  }

  async #sweep(): Promise<void> {
    const now = this.#clock.now();
    const silent: string[] = [];
    let rows = 0;
    for (const [queryId, query] of this.#open) {
      if (query.isLost && query.lastSeen < now - LOST_AFTER_MS) {
        this.#close(queryId, query, 'LOST', certainty.guessed, null);
      } else if (query.lastSeen < now - ABANDONED_AFTER_MS) silent.push(queryId);
      else if (!query.isWritten && query.created < now - WRITE_AFTER_MS && rows++ < MAX_ROWS) {
        this.#writeOpen(queryId, query);
      }
    }
    await this.#endMissed(now);
    if (silent.length === 0) return;
    const ends = await this.#stored.ended(silent);
    const elsewhere = await this.#running.lastSeen(silent);
    for (const queryId of silent) {
      const query = this.#open.get(queryId);
      if (query === undefined || query.lastSeen >= now - ABANDONED_AFTER_MS) continue;
      // Another replica observed its end and counted it.
      if (ends.has(queryId)) this.#open.delete(queryId);
      // Another replica follows it, and reports its end.
      else if (
        (elsewhere.get(queryId) ?? 0) >= now - ABANDONED_AFTER_MS - LATE_RENEWAL_MS &&
        !isOwn(query, elsewhere.get(queryId))
      ) {
        this.#leave(queryId, query);
      } else this.#close(queryId, query, 'ABANDONED', certainty.guessed, null);
    }
  }

  /** Ends lost queries that this replica did not follow. */
  async #endMissed(now: number): Promise<void> {
    const due = [...this.#missed].filter(([, { since }]) => since < now - LOST_AFTER_MS).slice(0, MAX_ROWS);
    if (due.length === 0) return;
    const unended = await this.#stored.unended(due.map(([queryId]) => queryId));
    for (const [queryId, { cluster, since }] of due) {
      const present = unended.get(queryId);
      // Another response arrived meanwhile.
      if (!this.#missed.delete(queryId) || present === undefined || this.#open.has(queryId)) continue;
      const { created, ...facts } = present;
      const query = openQuery({ ...facts, cluster: facts.cluster || cluster }, created, since);
      this.#close(queryId, query, 'LOST', certainty.guessed, null);
    }
  }

  #follow(queryId: string, facts: QueryFacts, created: number | null): OpenQuery {
    if (this.#open.size >= MAX_OPEN) this.#forgetOldest();
    const query = openQuery(facts, created ?? queryStart(queryId), this.#clock.now());
    this.#open.set(queryId, query);
    return query;
  }

  #unfollowed(queryId: string, cluster: string): OpenQuery {
    return openQuery(factsOf(cluster), queryStart(queryId), this.#clock.now());
  }

  #forgetOldest(): void {
    let left = FORGOTTEN_AT_ONCE;
    for (const [queryId, query] of this.#open) {
      this.#leave(queryId, query);
      if (--left === 0) return;
    }
  }

  #leave(queryId: string, query: OpenQuery): void {
    this.#open.delete(queryId);
    if (!query.isWritten) this.#writeOpen(queryId, query);
  }

  #writeOpen(queryId: string, query: OpenQuery): void {
    query.isWritten = true;
    this.#write(queryId, query, RUNNING, certainty.running, null, null);
  }

  #close(queryId: string, query: OpenQuery, state: QueryState, sureness: number, page: FinalPage | null): void {
    this.#open.delete(queryId);
    this.#missed.delete(queryId);
    if (this.#ended.size >= MAX_ENDED) {
      let left = FORGOTTEN_AT_ONCE;
      for (const id of this.#ended) {
        this.#ended.delete(id);
        if (--left === 0) break;
      }
    }
    // A cluster that lost a query, or a client that stopped polling it, may send more later.
    if (sureness > certainty.guessed) this.#ended.add(queryId);
    const isGuess = state === 'LOST' || state === 'ABANDONED';
    const elapsed =
      page?.elapsedMillis ?? (isGuess && page === null ? null : Math.max(0, query.lastSeen - query.created));
    this.#metrics.ended(
      query.facts.routingGroup,
      state,
      elapsed === null ? null : elapsed / 1000,
      page?.error?.type ?? null,
    );
    this.#write(queryId, query, state, sureness, page, elapsed);
  }

  #write(
    queryId: string,
    { facts, created, lastSeen, pages, bytes, firstRow }: OpenQuery,
    state: QueryOutcomeRecord['state'],
    sureness: number,
    page: FinalPage | null,
    elapsedMillis: number | null,
  ): void {
    const { error, ...figures } = page ?? { error: null, ...noPage };
    const record: QueryOutcomeRecord = {
      ...{ queryId, created, lastSeen, state, certainty: sureness, refused: false },
      ...facts,
      ...figures,
      ...errorColumns(error),
      ...{ elapsedMillis, firstRowMillis: firstRow, resultBytes: bytes, pages, queryText: null, decision: null },
    };
    if (facts.routingGroup !== null || state === RUNNING) {
      this.#writer.add(record);
      return;
    }
    this.#lateEnds.push({ record, since: this.#clock.monotonic() });
    this.#lateTimer ??= setTimeout(() => this.#writeLateEnds(false), LATE_MS).unref();
  }

  #writeLateEnds(all: boolean): void {
    clearTimeout(this.#lateTimer ?? undefined);
    this.#lateTimer = null;
    const until = this.#clock.monotonic() - LATE_MS / 2;
    const due = this.#lateEnds.filter(({ since }) => all || since <= until);
    this.#lateEnds = this.#lateEnds.filter(({ since }) => !all && since > until);
    for (const { record } of due) this.#writer.add(record);
    if (this.#lateEnds.length > 0) this.#lateTimer = setTimeout(() => this.#writeLateEnds(false), LATE_MS / 2).unref();
  }
}

/** @param created milliseconds since 1970; null: now */
function openQuery(facts: QueryFacts, created: number | null, now: number): OpenQuery {
  return {
    ...{ facts, created: created ?? now, lastSeen: now, pages: 0, bytes: 0, firstRow: null },
    ...{ isWritten: false, isLost: false },
  };
}

export function errorColumns(error: PageError | null) {
  return {
    errorName: error?.name ?? null,
    errorType: error?.type ?? null,
    errorCode: error?.code ?? null,
    errorMessage: error?.message ?? null,
  };
}

function noteRows(query: OpenQuery): void {
  query.firstRow ??= Math.max(0, query.lastSeen - query.created);
}

/** True if the time in the database is from this replica's requests. */
function isOwn({ lastSeen }: OpenQuery, stored = 0): boolean {
  return stored <= lastSeen;
}

function factsOf(cluster: string): QueryFacts {
  const unknown = { routingGroup: null, user: null, source: null, rule: null, gatewayQueuedMillis: null };
  return { cluster, ...unknown };
}

/** Maximum number of groups with separate series; queries of further groups, or without a group, share one. */
const MAX_GROUPS = 200;
/** The engines' types of errors; a cluster may send other values. */
const errorTypes: ReadonlySet<string> = new Set([
  ...['USER_ERROR', 'INTERNAL_ERROR', 'INSUFFICIENT_RESOURCES', 'EXTERNAL'],
]);

/** Counts of ended queries by group, state and error. */
class OutcomeMetrics {
  readonly #seconds: Histogram<'group' | 'state'>;
  readonly #ended: Counter<'state'>;
  readonly #failures: Counter<'type'>;
  readonly #groups = new Set<string>();

  constructor(registry: Registry) {
    const registers = [registry];
    this.#seconds = new Histogram({
      name: 'engine_gateway_query_duration_seconds',
      help: 'Time from the submission of a query to its end, in seconds, by routing group (the first 200; others are empty) and state, as of engine_gateway_queries_ended_total.',
      labelNames: ['group', 'state'],
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600],
      registers,
    });
    this.#ended = new Counter({
      name: 'engine_gateway_queries_ended_total',
      help: 'Queries that ended at this replica, by state: finished, failed, user_error, cancelled, abandoned, refused, denied, lost or retried (another cluster continued it); user_error are those that failed because of their user.',
      labelNames: ['state'],
      registers,
    });
    this.#failures = new Counter({
      name: 'engine_gateway_query_failures_total',
      help: "Queries that failed, were lost or were refused at this replica, users' errors among them, by type: user_error, internal_error, insufficient_resources, external or other.",
      labelNames: ['type'],
      registers,
    });
    for (const type of [...errorTypes, 'other']) this.#failures.inc({ type: type.toLowerCase() }, 0);
  }

  /** @param seconds null: unknown */
  ended(group: string | null, state: QueryState, seconds: number | null, errorType: string | null): void {
    const label = isUserError(state, errorType) ? 'user_error' : state.toLowerCase();
    this.#ended.inc({ state: label });
    if (seconds !== null) this.#seconds.observe({ group: this.#groupOf(group), state: label }, seconds);
    if (state !== 'FAILED' && state !== 'LOST' && state !== 'REFUSED') return;
    const isKnown = errorType !== null && errorTypes.has(errorType);
    this.#failures.inc({ type: isKnown ? errorType.toLowerCase() : 'other' });
  }

  #groupOf(group: string | null): string {
    if (group === null || this.#groups.has(group)) return group ?? '';
    if (this.#groups.size >= MAX_GROUPS) return '';
    this.#groups.add(group);
    return group;
  }
}
