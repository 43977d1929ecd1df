import type { ResourceKey } from '../model/resource.ts';
import type { KnexStore } from './openStore.ts';
import type { StatementFacts } from './queryOutcome.ts';
import type { QueuedQueryState } from './queuedQueryState.ts';
import type { RecordWriter } from './recordWriter.ts';

/** Database families. MariaDB is `mysql`. */
export type Dialect = 'sqlite' | 'mysql' | 'postgresql';

/** A row of `gateway_backend` (docs/compatibility.md#tables). */
export interface BackendRow {
  readonly name: string;
  readonly routingGroup: string;
  readonly proxyTo: string;
  readonly externalUrl: string;
  readonly active: boolean;
}

/** Which back end of the resource source a stored resource came from. */
export type SourceName = 'kubernetes' | 'directory' | 'database';

/** A row of `eg_resources`: a resource whole. */
export interface StoredResource extends ResourceKey {
  readonly registryName: string;
  readonly uid: string;
  /** Decimal digits; compared as a number. */
  readonly resourceVersion: string;
  readonly generation: number;
  /** RFC 3339. */
  readonly creationTimestamp: string;
  readonly spec: Readonly<Record<string, unknown>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly status: Readonly<Record<string, unknown>> | null;
  readonly source: SourceName;
  /** The row of `gateway_backend` that it gave when it was stored; null: none. */
  readonly row: BackendRow | null;
}

/** Proof of leadership, checked inside the transaction. */
export interface Fence {
  readonly holder: string;
  readonly epoch: number;
}

/** What differs between the set of resources that the leader keeps and the database. */
export interface SetDifference {
  /** Resources to be stored, new ones and others. */
  readonly stored: readonly StoredResource[];
  readonly removed: readonly ResourceKey[];
  /** Names of rows of `gateway_backend` to be deleted. */
  readonly removedRows: readonly string[];
}

export type StatusResult = 'written' | 'gone' | 'fenced';

/** A query of the history (table `query_history`) with what only we keep of it (`eg_query_decisions`). */
export interface QueryRecord {
  readonly queryId: string;
  readonly queryText: string;
  readonly user: string | null;
  readonly source: string | null;
  readonly backendUrl: string;
  /** Milliseconds since 1970. */
  readonly created: number;
  readonly routingGroup: string | null;
  readonly externalUrl: string | null;
  readonly cluster: string;
  /** The decision's trace as JSON text; null when none is kept. */
  readonly decision: string | null;
  /** Groups of the user to find it by (`eg_query_groups`); left out for none, and in what is read. */
  readonly groups?: readonly string[];
  /** As of `QueryOutcomeRecord`, for replicas that see only its end; left out in what is read. */
  readonly rule?: string | null;
  readonly gatewayQueuedMillis?: number | null;
  /** Left out in what is read. */
  readonly statement?: StatementFacts;
}

export type QueryListRow = Omit<QueryRecord, 'decision' | 'groups' | 'rule' | 'gatewayQueuedMillis' | 'statement'>;

/** Queries that a caller may see who may not see all. */
export interface VisibleQueries {
  /** The caller. */
  readonly user: string;
  /** Registry names of clusters: queries that went there. */
  readonly clusters: readonly string[];
  /** Routing groups of such clusters only: queries that no cluster took. */
  readonly groups: readonly string[];
}

/** Filters of the history; absent means any. Times in milliseconds, `from` inclusive, `to` exclusive. */
export interface HistoryFilter {
  /** Only queries that this caller may see, whatever the other fields state. */
  readonly visibleTo?: VisibleQueries;
  readonly user?: string;
  readonly backendUrl?: string;
  readonly externalUrl?: string;
  readonly routingGroup?: string;
  readonly queryId?: string;
  readonly source?: string;
  readonly cluster?: string;
  /** Part of the query's text, letter case aside. No index helps: narrow the time as well. */
  readonly text?: string;
  readonly from?: number;
  readonly to?: number;
  /** `prefix`: of user, group, id, source and cluster the beginning is enough; exact by default. */
  readonly match?: 'exact' | 'prefix';
}

export interface HistoryPage {
  /** Rows that are left out before the page; below the number to which totals are exact. */
  readonly offset: number;
  readonly limit: number;
  /** Only rows after this one in the order; pages can continue from there to any depth. */
  readonly after?: { readonly created: number; readonly queryId: string };
}

/** A row of `eg_coordinators` (docs/protocol.md#stickiness). */
export interface CoordinatorRow {
  /** The last five characters of its query ids. */
  readonly suffix: string;
  readonly cluster: string;
  /** Base URL when it was learned. */
  readonly proxyTo: string;
  /** uid of the resource that registered the cluster then; left out if it is missing, or it is not known. */
  readonly uid?: string | undefined;
  /** Milliseconds since 1970. */
  readonly lastSeen: number;
}

/** A row of `eg_queries`: the owner of one query by its full id. */
export interface QueryOwnerRow {
  readonly queryId: string;
  readonly cluster: string;
  readonly proxyTo: string;
  readonly created: number;
}

/** A row of `eg_transactions`: the cluster that began a transaction. */
export interface TransactionRow {
  readonly transactionId: string;
  readonly cluster: string;
  /** Base URL when it began. */
  readonly proxyTo: string;
  /** Milliseconds since 1970. */
  readonly created: number;
}

/** A row of `eg_running_queries`; times in milliseconds since 1970. */
export interface RunningQueryRow {
  readonly queryId: string;
  readonly cluster: string;
  readonly started: number;
  /** Time of the last request of a client for it, within some tens of seconds. */
  readonly lastSeen: number;
}

/** A query that runs, with what the history has of it: null if it has none. */
export interface ListedRunningQuery extends RunningQueryRow {
  readonly user: string | null;
  readonly source: string | null;
  readonly routingGroup: string | null;
  /** The first 1,000 characters. */
  readonly queryText: string | null;
}

/** Which running queries are wanted; absent means any. */
export interface RunningQueryFilter {
  readonly visibleTo?: VisibleQueries;
  readonly cluster?: string;
  readonly routingGroup?: string;
  readonly user?: string;
  readonly seenSince: number;
}

/** How much of a counter is in use on all replicas. */
export interface CounterUse {
  readonly key: string;
  readonly inUse: number;
}

/** A submission that begins to wait in the queue. */
export interface NewQueuedQuery {
  readonly id: string;
  readonly group: string;
  readonly user: string | null;
  readonly source: string | null;
  readonly reason: string;
  /** Its headers and body, sealed. */
  readonly request: string;
  readonly replica: string;
  /** Id at the cluster that has it already; absent: it waits. */
  readonly engineId?: string;
}

/** A row of `eg_queued_queries`; times by the database's clock. */
export interface QueuedQueryRow {
  readonly id: string;
  /** Milliseconds since 1970: its place in the order. */
  readonly created: number;
  /** Milliseconds since then. */
  readonly waitingMs: number;
  /** Milliseconds since a client asked for it. */
  readonly unpolledMs: number;
  readonly group: string;
  readonly user: string | null;
  readonly source: string | null;
  /** The replica that holds it; empty if it is left to the next one that its client asks. */
  readonly replica: string;
  /** True if that replica is alive. */
  readonly isHeld: boolean;
  readonly state: Exclude<QueuedQueryState, 'cancelled'>;
  /**
   * Command for its replica: to drop it for its client (`drop`) or for an administrator (`kill`), or to leave it, as it
   * has ended (`displaced`); null for none.
   */
  readonly command: 'drop' | 'kill' | 'displaced' | null;
  /** When an administrator moved it before all others of its group; null for never. */
  readonly movedAt: number | null;
  readonly engineId: string | null;
  /** The response that its client gets, sealed; null while missing, and once it is deleted. */
  readonly answer: string | null;
}

export interface ListedQueuedQuery
  extends Pick<QueuedQueryRow, 'id' | 'created' | 'waitingMs' | 'group' | 'user' | 'source' | 'replica' | 'movedAt'> {
  readonly state: 'waiting' | 'submitting';
  readonly reason: string;
}

export type QueuedCommand = Pick<QueuedQueryRow, 'id' | 'command' | 'movedAt'>;

/** Columns that an event changes, in addition to the state. */
export interface QueuedQueryChange {
  /** The replica that holds the query afterwards; equal for all queries of an event. */
  readonly replica?: string;
  /** Id of the query at its cluster. */
  readonly engineId?: string | null;
  /** Encrypted response for the client. */
  readonly answer?: string | null;
  readonly command?: QueuedQueryRow['command'];
  readonly retry?: QueuedQueryRetry;
}

/** A retry of a query that its cluster lost. */
export interface QueuedQueryRetry {
  /** Id at that cluster: if the row has another one, the query has been retried. */
  readonly lostId: string;
  /** Encrypted request of the next attempt, and its routing group. */
  readonly request: string;
  readonly group: string;
  /** Routing group that the retry counts for, and its retries per minute. */
  readonly countedFor: string;
  readonly perMinute: number;
}

/** A row of `eg_limit_counters`; mutable while it is decided on. */
export interface LimitCounter {
  inUse: number;
  /** Thousandths of a token of a rate limit; null without one. */
  tokens: number | null;
  /** When the bucket was filled last: milliseconds since 1970, by the database's clock. */
  refilled: number;
  /** When the bucket is full, so that an unused row can go. */
  expires: number;
}

/** A counter that a row of `eg_running` uses, and how much of it. */
export interface CounterPart {
  readonly key: string;
  /** Default: 1. */
  readonly amount?: number;
}

/** A new row of `eg_running`. */
export interface NewSlot {
  readonly slotId: string;
  readonly parts: readonly CounterPart[];
}

/** A row of `eg_running`: a query that limits count, or a place in the queue. */
export interface RunningSlot extends NewSlot {
  /** Null until a cluster names the query, and of a transaction without a running statement. */
  readonly queryId: string | null;
  readonly transactionId: string | null;
  readonly cluster: string | null;
  /** Milliseconds since a replica saw it last. */
  readonly unseenMs: number;
}

/** An id for a row of `eg_running`. */
export interface SlotBinding {
  readonly slotId: string;
  readonly queryId: string;
  readonly cluster: string;
}

/**
 * Decides on locked counters, and changes them; may be called again, when the transaction is repeated.
 * @param now the database's clock, milliseconds since 1970
 * @returns new rows
 */
export type DecideOnCounters = (now: number, counters: Map<string, LimitCounter>) => readonly NewSlot[];

/** Who leads, as `eg_leader` has it. */
export interface LeaderState {
  readonly isHeld: boolean;
  /** Milliseconds since the last leadership ran out; null: some replica leads, or the last one gave it back. */
  readonly expiredForMs: number | null;
}

/** The gateway's database, open or not yet. */
export type Store = Pick<KnexStore, Exclude<keyof KnexStore, 'database'>>;

/** The writer of the query history, off the path of requests (docs/database.md#query-history). */
export type HistoryWriter = RecordWriter<QueryRecord>;
