import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { startJob } from './job.ts';
import type { Fence, Store } from './store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Coordinators and owners of queries, transactions and slots: longer than any query runs (docs/protocol.md#stickiness). */
const QUERY_AGE = 7 * DAY;
/** Refusals of a limit that has rejected none since. */
const REJECTION_AGE = 30 * DAY;
/** Queries that no client asked for on any replica; these renew that each minute. */
const FORGOTTEN_AGE = 10 * MINUTE;

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
  const ages = [
    ['query_history', store.history, options.historyHours * HOUR],
    ['eg_query_outcomes', store.outcomes, options.historyHours * HOUR],
    ['eg_coordinators', store.coordinators, QUERY_AGE],
    ['eg_queries', store.queries, QUERY_AGE],
    ['eg_transactions', store.transactions, QUERY_AGE],
    ['eg_running_queries', store.runningQueries, HOUR],
    ['eg_refusals', store.limitCounts, REJECTION_AGE],
    ['eg_audit', store.audit, options.audit.retention],
    ['eg_ended_sessions', store.endedSessions, 0],
    ['eg_lost_queries', store.quarantine, 2 * HOUR],
  ] as const;
  const tasks: readonly [string, (fence: Fence) => Promise<number>][] = [
    ...ages.map(([table, rows, age]): [string, (fence: Fence) => Promise<number>] => [
      table,
      (fence) => rows.deleteBefore(now - age, fence),
    ]),
    ['eg_query_outcomes', (fence) => store.outcomes.endForgotten(now - HOUR, now - FORGOTTEN_AGE, fence)],
    ['eg_audit', (fence) => store.audit.deleteBeyond(options.audit.maxEntries, fence)],
    // Those that no replica dropped, as all of them ended: they have credentials, encrypted.
    ['eg_queued_queries', () => store.queuedQueries.deleteAbandoned(HOUR)],
    ['eg_queued_queries', () => store.queuedQueries.forgetResponses(HOUR)],
    ['eg_queued_queries', (fence) => store.queuedQueries.deleteUnpolledBefore(now - QUERY_AGE, fence)],
    ['eg_resources', (fence) => store.resources.deleteMarksBefore(now - DAY, fence)],
  ];
  for (const [table, task] of tasks) {
    try {
      const fence = options.fence();
      if (fence === null) return;
      const rows = await task(fence);
      if (rows > 0) logger.info({ table, rows }, 'old rows deleted');
    } catch (error) {
      logger.warn(
        { table, reason: error instanceof Error ? error.message : String(error) },
        'failed to delete old rows',
      );
    }
  }
}

/** Starts the job; returns the function that stops it and waits for a running round. */
export function startRetention(options: RetentionOptions): () => Promise<void> {
  return startJob(options.firstDelayMs ?? MINUTE, async () => {
    await runRetention(options);
    return options.intervalMs ?? 2 * HOUR;
  });
}
