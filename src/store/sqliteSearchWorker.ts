/**
 * Runs in a worker thread of its own: reads a SQLite file for `SqliteSearchClient`. SQLite answers synchronously, and a
 * search through a long history would block the event loop of the main thread for seconds.
 */
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { IN_TIME } from './sqliteTime.ts';

/** One statement to run. */
export interface SearchRequest {
  readonly sql: string;
  readonly values: readonly SQLInputValue[];
  /** Time after which it is given up, milliseconds. */
  readonly limitMs: number;
}

/** Its rows, or the fields of the error that classify it. */
export type SearchReply =
  | { readonly rows: readonly unknown[] }
  | { readonly error: { readonly message: string; readonly code?: string; readonly errcode?: number } };

const port = parentPort;
if (port === null) throw new Error('sqliteSearchWorker runs in a worker thread only');

const database = new DatabaseSync((workerData as { filename: string }).filename, { readOnly: true, timeout: 1000 });
let deadline = Number.POSITIVE_INFINITY;
let isLate = false;
// Called for each row that a search compares: SQLite has no other way to end a statement here.
database.function(IN_TIME, { deterministic: false }, () => {
  if (performance.now() <= deadline) return 1;
  isLate = true;
  throw new Error('time is up');
});

port.on('message', ({ sql, values, limitMs }: SearchRequest) => {
  isLate = false;
  deadline = performance.now() + limitMs;
  port.postMessage(run(sql, values, limitMs));
});
port.postMessage('ready');

function run(sql: string, values: readonly SQLInputValue[], limitMs: number): SearchReply {
  try {
    return { rows: database.prepare(sql).all(...values) };
  } catch (error) {
    if (isLate) return { error: { message: `no answer within ${limitMs} ms`, code: 'EG_QUERY_TIMEOUT' } };
    const { message, code, errcode } = error as Error & { code?: string; errcode?: number };
    return {
      error: { message, ...(code === undefined ? {} : { code }), ...(errcode === undefined ? {} : { errcode }) },
    };
  }
}
