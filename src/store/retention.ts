import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { Fence, Store } from './store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Coordinators unseen for so long are forgotten (docs/protocol.md#stickiness). */
const COORDINATOR_AGE = 7 * DAY;
/** Owners by full id: longer than any query runs. */
const QUERY_OWNER_AGE = 7 * DAY;
/** Transactions whose end no replica saw: longer than any lives. */
const TRANSACTION_AGE = 7 * DAY;
/** Queries that waited: as long as the ids of their clusters' queries are kept. */
const QUEUED_QUERY_AGE = 7 * DAY;
/** Queries that use slots, where limits are gone and no one counts them: longer than any query runs. */
const SLOT_QUERY_AGE = 7 * DAY;
/** Refusals of a limit that has rejected none since. */
const REFUSAL_AGE = 30 * DAY;
/** Queries that no client asked for on any replica; these renew that each minute. */
const FORGOTTEN_AGE = 10 * MINUTE;
/** Marks of deletions by REST: far longer than a replica takes to see one. */
const DELETION_MARK_AGE = DAY;

export interface RetentionOptions {
  readonly store: Store;
  /** `dataStore.queryHistoryHoursRetention`, asked at each run. */
  readonly historyHours: number;
  /** `audit`. Age in milliseconds. */
  readonly audit: { readonly retention: number; readonly maxEntries: number };
  /** Proof that this replica leads, checked in each transaction, so that one replica does the work; null: it does not. */
  readonly fence: () => Fence | null;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Default 1 min after start, then every 120 min. */
  readonly firstDelayMs?: number;
  readonly intervalMs?: number;
}

/** Deletes what is too old, table by table; an error in one leaves the others and is logged. */
export async function runRetention(options: RetentionOptions): Promise<void> {
  const { store, logger, clock } = options;
  const now = clock.now();
  const tasks: readonly [string, (fence: Fence) => Promise<number>][] = [
    ['query_history', (fence) => store.history.deleteBefore(now - options.historyHours * HOUR, fence)],
    ['eg_query_outcomes', (fence) => store.outcomes.deleteBefore(now - options.historyHours * HOUR, fence)],
    ['eg_query_outcomes', (fence) => store.outcomes.endForgotten(now - HOUR, now - FORGOTTEN_AGE, fence)],
    ['eg_coordinators', (fence) => store.coordinators.deleteBefore(now - COORDINATOR_AGE, fence)],
    ['eg_queries', (fence) => store.queries.deleteBefore(now - QUERY_OWNER_AGE, fence)],
    ['eg_transactions', (fence) => store.transactions.deleteBefore(now - TRANSACTION_AGE, fence)],
    ['eg_running_queries', (fence) => store.runningQueries.deleteBefore(now - HOUR, fence)],
    ['eg_slots', (fence) => store.slots.deleteBefore(now - HOUR, fence)],
    ['eg_slot_queries', (fence) => store.slotQueries.deleteBefore(now - SLOT_QUERY_AGE, fence)],
    ['eg_ended_queries', (fence) => store.endedQueries.deleteBefore(now - HOUR, fence)],
    ['eg_refusals', (fence) => store.limitCounts.deleteBefore(now - REFUSAL_AGE, fence)],
    ['eg_audit', (fence) => store.audit.deleteBefore(now - options.audit.retention, fence)],
    ['eg_audit', (fence) => store.audit.deleteBeyond(options.audit.maxEntries, fence)],
    // Those that no replica dropped, as all of them ended: they have credentials, encrypted.
    ['eg_queued_queries', () => store.queuedQueries.deleteAbandoned(HOUR)],
    ['eg_queued_queries', () => store.queuedQueries.forgetAnswers(HOUR)],
    ['eg_queued_queries', (fence) => store.queuedQueries.deleteUnpolledBefore(now - QUEUED_QUERY_AGE, fence)],
    ['eg_ended_sessions', (fence) => store.endedSessions.deleteBefore(now, fence)],
    ['eg_resources', (fence) => store.resources.deleteMarksBefore(now - DELETION_MARK_AGE, fence)],
  ];
  for (const [table, task] of tasks) {
    try {
      const fence = options.fence();
      if (fence === null) return;
      const rows = await task(fence);
      if (rows > 0) logger.info({ table, rows }, 'old rows deleted');
    } catch (error) {
      logger.warn({ table, reason: error instanceof Error ? error.message : String(error) }, 'old rows stay for now');
    }
  }
}

/** Starts the job; returns the function that stops it and waits for a running round. */
export function startRetention(options: RetentionOptions): () => Promise<void> {
  const stop = new AbortController();
  const loop = async () => {
    let delay = options.firstDelayMs ?? MINUTE;
    for (;;) {
      await sleep(delay, undefined, { signal: stop.signal, ref: false });
      await runRetention(options);
      delay = options.intervalMs ?? 2 * HOUR;
    }
  };
  const loopEnd = loop().catch((error: unknown) => {
    if (!stop.signal.aborted) options.logger.error({ err: error }, 'the retention job ended');
  });
  return () => {
    stop.abort();
    return loopEnd;
  };
}
