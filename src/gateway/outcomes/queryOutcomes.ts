import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { OutcomeWriter } from '../../store/outcomeWriter.ts';
import {
  certainty,
  type QueryOutcomeRecord,
  type QueryOutcomeRepository,
  type QueryState,
  RUNNING,
} from '../../store/queryOutcome.ts';
import type { RunningQueryRepository } from '../../store/store.ts';
import type { FinalPage } from './finalPage.ts';

/** What is known of a query when it is submitted. */
export interface QueryFacts {
  /** Registry name; null where no cluster took it. */
  readonly cluster: string | null;
  readonly routingGroup: string | null;
  readonly user: string | null;
  readonly source: string | null;
  /** Rule that decided its routing group, or that denied it. */
  readonly rule: string | null;
  /** How long it waited here before it was sent, milliseconds; null where it did not wait. */
  readonly gatewayQueuedMillis: number | null;
  /** Groups of the user to find and count it by; left out for none. */
  readonly groups?: readonly string[];
}

/** A submission that no cluster took. */
export interface RefusedQuery {
  /** Id that its client has of it. */
  readonly queryId: string;
  readonly state: 'REFUSED' | 'FAILED' | 'DENIED' | 'CANCELLED' | 'ABANDONED' | 'LOST';
  readonly facts: QueryFacts;
  readonly queryText: string;
  /** `StoredDecision` as JSON; null where nothing was decided. */
  readonly decision: string | null;
  readonly error: { readonly name: string; readonly type: string; readonly code: number; readonly message: string };
}

/** Counts ends of queries. */
export interface OutcomeCounts {
  /** @param seconds null: not known */
  ended(group: string | null, state: QueryState, seconds: number | null, errorType: string | null): void;
}

/** What outcomes are kept with. */
export interface QueryOutcomesDependencies {
  readonly writer: Pick<OutcomeWriter, 'add'>;
  /** What the replicas share of queries that clients follow. */
  readonly running: Pick<RunningQueryRepository, 'lastSeen'>;
  /** What is stored of queries. */
  readonly stored: Pick<QueryOutcomeRepository, 'unended' | 'ends'>;
  readonly counts: OutcomeCounts;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Age at which a query that goes on gets a row: shorter ones cost one write. */
const WRITE_AFTER_MS = 5_000;
const SWEEP_INTERVAL_MS = 5_000;
/** Rows of queries that go on which one round writes at most. */
const MAX_ROWS = 2_000;
/** Engines give up a query whose client has not asked for this long (Trino: `query.client.timeout`). */
const ABANDONED_AFTER_MS = 300_000;
/** The database may have the time of a client's last request so much late. */
const LATE_RENEWAL_MS = 70_000;
/** A cluster that said that it does not know a query is believed after so long without another answer. */
const LOST_AFTER_MS = 30_000;
/** Queries that this replica does not follow and that their clusters do not know; beyond, further ones are not looked at. */
const MAX_MISSED = 10_000;
/** Queries that are followed at a time; beyond, the oldest are left to other replicas and to the row that they get. */
const MAX_OPEN = 100_000;
const FORGOTTEN_AT_ONCE = 1_000;
/** Ends that are remembered, so that a last page that is asked for twice counts once. */
const MAX_ENDED = 20_000;

interface OpenQuery {
  facts: QueryFacts;
  /** Milliseconds since 1970. */
  readonly created: number;
  lastSeen: number;
  pages: number;
  bytes: number;
  /** Milliseconds from `created` to the first answer with rows; null before. */
  firstRow: number | null;
  isWritten: boolean;
  isLost: boolean;
}

/** A query whose owner does not know it, or is gone. */
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
};

/** Engines' errors that say that a query did not fail by itself. */
const statesOfErrors: ReadonlyMap<string, QueryState> = new Map([
  ['USER_CANCELED', 'CANCELLED'],
  ['ABANDONED_QUERY', 'ABANDONED'],
]);

/**
 * How queries end, by what passes through the gateway: the last page of an engine, its client's cancellation, or silence. Each gets
 * a row of `eg_query_outcomes` when it is over, and before that when it goes on for long, so that another replica that sees its end
 * need not know what was submitted.
 */
export class QueryOutcomes {
  readonly #dependencies: QueryOutcomesDependencies;
  readonly #open = new Map<string, OpenQuery>();
  readonly #ended = new Set<string>();
  /** Queries that another replica follows, or followed, and that their clusters do not know. */
  readonly #missed = new Map<string, MissedQuery>();
  #timer: NodeJS.Timeout | null = null;
  #sweeping: Promise<void> | null = null;

  constructor(dependencies: QueryOutcomesDependencies) {
    this.#dependencies = dependencies;
  }

  /** Begins to look for queries that go on for long, and for those that nobody asks for. */
  start(): void {
    this.#timer = setInterval(() => void this.sweep(), SWEEP_INTERVAL_MS).unref();
  }

  /** Gives rows to all that go on: other replicas will see their ends. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#sweeping;
    for (const [queryId, query] of this.#open) if (!query.isWritten) this.#writeOpen(queryId, query);
    this.#open.clear();
  }

  /** A cluster has accepted a query. */
  begin(queryId: string, facts: QueryFacts): void {
    const query = this.#open.get(queryId);
    if (query !== undefined) query.facts = facts;
    else this.#follow(queryId, facts, this.#dependencies.clock.now());
  }

  /** Whether no answer with rows of a query has passed yet. */
  awaitsRows(queryId: string): boolean {
    return (this.#open.get(queryId)?.firstRow ?? null) === null;
  }

  /** An answer passed after which the query goes on. @param hasRows whether rows were seen in it */
  page(queryId: string, cluster: string, bytes: number, hasRows = false): void {
    const query = this.#open.get(queryId) ?? this.#follow(queryId, factsOf(cluster), null);
    query.lastSeen = this.#dependencies.clock.now();
    this.#missed.delete(queryId);
    if (hasRows) noteRows(query);
    query.isLost = false;
    query.pages += 1;
    query.bytes += bytes;
  }

  /**
   * The last answer passed.
   * @param page what it said; null where that could not be read
   * @param hasRows whether rows were seen in it
   */
  end(queryId: string, cluster: string, bytes: number, page: FinalPage | null, hasRows = false): void {
    if (this.#ended.has(queryId)) return;
    const query = this.#open.get(queryId) ?? this.#unfollowed(queryId, cluster);
    query.lastSeen = this.#dependencies.clock.now();
    query.pages += 1;
    query.bytes += bytes;
    if (hasRows) noteRows(query);
    const name = page?.error?.name ?? null;
    const failed = page?.error == null ? 'FINISHED' : 'FAILED';
    const state = (name === null ? undefined : statesOfErrors.get(name)) ?? failed;
    this.#close(queryId, query, state, page === null ? certainty.guessed : certainty.said, page);
  }

  /** Its client cancelled it, which the cluster accepted. */
  cancel(queryId: string, cluster: string): void {
    if (this.#ended.has(queryId)) return;
    const query = this.#open.get(queryId) ?? this.#unfollowed(queryId, cluster);
    query.lastSeen = this.#dependencies.clock.now();
    this.#close(queryId, query, 'CANCELLED', certainty.cancelled, null);
  }

  /**
   * The cluster does not know the query, or is gone: it is lost unless another answer says otherwise soon. One that this replica does not
   * follow is looked up first: anybody may ask for an id.
   */
  lose(queryId: string, cluster: string): void {
    const now = this.#dependencies.clock.now();
    const query = this.#open.get(queryId);
    if (query === undefined) {
      const isNew = !this.#ended.has(queryId) && !this.#missed.has(queryId);
      if (isNew && this.#missed.size < MAX_MISSED) this.#missed.set(queryId, { cluster, since: now });
    } else if (!query.isLost) {
      query.isLost = true;
      query.lastSeen = now;
    }
  }

  /** The gateway refused a submission for good, or a cluster answered it with an HTTP error. */
  refuse({ queryId, state, facts, queryText, decision, error }: RefusedQuery): void {
    const { clock, writer, counts } = this.#dependencies;
    const now = clock.now();
    counts.ended(facts.routingGroup, state, null, error.type);
    writer.add({
      queryId,
      created: now,
      lastSeen: now,
      state,
      certainty: certainty.said,
      refused: true,
      ...facts,
      errorName: error.name,
      errorType: error.type,
      errorCode: error.code,
      errorMessage: error.message,
      ...noPage,
      resultBytes: null,
      pages: null,
      queryText,
      decision,
    });
  }

  /** Gives rows to queries that go on for long, and ends those that nobody asks for. Never rejects. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep()
      .catch((error: unknown) => this.#dependencies.logger.debug({ err: error }, 'ends of queries wait'))
      .finally(() => {
        this.#sweeping = null;
      });
    return this.#sweeping;
  }

  async #sweep(): Promise<void> {
    const { clock, running, stored } = this.#dependencies;
    const now = clock.now();
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
    const ends = await stored.ends(silent);
    const elsewhere = await running.lastSeen(silent);
    for (const queryId of silent) {
      const query = this.#open.get(queryId);
      if (query === undefined || query.lastSeen >= now - ABANDONED_AFTER_MS) continue;
      // Another replica saw its end and counted it.
      if (ends.has(queryId)) this.#open.delete(queryId);
      // Another replica follows it, and says how it ends.
      else if (
        (elsewhere.get(queryId) ?? 0) >= now - ABANDONED_AFTER_MS - LATE_RENEWAL_MS &&
        !isOwn(query, elsewhere.get(queryId))
      ) {
        this.#leave(queryId, query);
      } else this.#close(queryId, query, 'ABANDONED', certainty.guessed, null);
    }
  }

  /** Ends those that are lost of the queries that this replica did not follow. */
  async #endMissed(now: number): Promise<void> {
    const due = [...this.#missed].filter(([, { since }]) => since < now - LOST_AFTER_MS).slice(0, MAX_ROWS);
    if (due.length === 0) return;
    const unended = await this.#dependencies.stored.unended(due.map(([queryId]) => queryId));
    for (const [queryId, { cluster, since }] of due) {
      const present = unended.get(queryId);
      // Another answer came meanwhile.
      if (!this.#missed.delete(queryId) || present === undefined || this.#open.has(queryId)) continue;
      const { created, ...facts } = present;
      const query = { ...this.#unfollowed(queryId, cluster, created), lastSeen: since };
      query.facts = { ...facts, cluster: facts.cluster || cluster };
      this.#close(queryId, query, 'LOST', certainty.guessed, null);
    }
  }

  #follow(queryId: string, facts: QueryFacts, created: number | null): OpenQuery {
    if (this.#open.size >= MAX_OPEN) this.#forgetOldest();
    const query = this.#unfollowed(queryId, facts.cluster ?? '', created);
    query.facts = facts;
    this.#open.set(queryId, query);
    return query;
  }

  #unfollowed(queryId: string, cluster: string, created: number | null = null): OpenQuery {
    const now = this.#dependencies.clock.now();
    return {
      facts: factsOf(cluster),
      created: created ?? startOf(queryId) ?? now,
      lastSeen: now,
      pages: 0,
      bytes: 0,
      firstRow: null,
      isWritten: false,
      isLost: false,
    };
  }

  #forgetOldest(): void {
    let left = FORGOTTEN_AT_ONCE;
    for (const [queryId, query] of this.#open) {
      this.#leave(queryId, query);
      if (--left === 0) return;
    }
  }

  /** Leaves a query to its row. */
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
    // A cluster that lost a query, or a client that stopped asking for it, may say more later.
    if (sureness > certainty.guessed) this.#ended.add(queryId);
    const isGuess = state === 'LOST' || state === 'ABANDONED';
    const elapsed =
      page?.elapsedMillis ?? (isGuess && page === null ? null : Math.max(0, query.lastSeen - query.created));
    this.#dependencies.counts.ended(
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
    this.#dependencies.writer.add({
      queryId,
      created,
      lastSeen,
      state,
      certainty: sureness,
      refused: false,
      ...facts,
      ...figures,
      elapsedMillis,
      firstRowMillis: firstRow,
      errorName: error?.name ?? null,
      errorType: error?.type ?? null,
      errorCode: error?.code ?? null,
      errorMessage: error?.message ?? null,
      resultBytes: bytes,
      pages,
      queryText: null,
      decision: null,
    });
  }
}

/** An answer with rows passed just now. */
function noteRows(query: OpenQuery): void {
  query.firstRow ??= Math.max(0, query.lastSeen - query.created);
}

/** Whether the time that the database has is that of this replica's own requests. */
function isOwn({ lastSeen }: OpenQuery, stored = 0): boolean {
  return stored <= lastSeen;
}

function factsOf(cluster: string): QueryFacts {
  const unknown = { routingGroup: null, user: null, source: null, rule: null, gatewayQueuedMillis: null };
  return { cluster, ...unknown };
}

/** When a query began, by its id (`20261121_015745_00000_kvhrm`, UTC); null for ids of another form. */
function startOf(queryId: string): number | null {
  const parts = /^(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)_/.exec(queryId);
  if (parts === null) return null;
  const [year, month, ...rest] = parts.slice(1).map(Number) as [number, number, number, number, number, number];
  const time = Date.UTC(year, month - 1, ...rest);
  return Number.isNaN(time) ? null : time;
}
