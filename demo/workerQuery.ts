/** A query that takes long runs in a worker, on a copy of the database: the engines of a process continue to respond. */
import { once } from 'node:events';
import type { DatabaseSync } from 'node:sqlite';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type Column, DatabaseQuery, openDatabase, type Rows, type Value } from './engineDatabase.ts';
import { QueryError } from './queryError.ts';
import type { StatementResult } from './statements.ts';

/** Arguments of the worker. */
interface Work {
  readonly demoQuery: true;
  readonly version: string;
  readonly bytes: Uint8Array;
  readonly sql: string;
  readonly parameters: readonly Value[];
}

/** Messages of the worker: the columns, then rows for each number that it is sent; or the reason that it failed. */
type Message = { readonly columns: readonly Column[] } | Rows | { readonly rejected: string };

/** Starts the query. @throws QueryError if SQLite rejects it */
export async function startWorkerQuery(
  database: DatabaseSync,
  version: string,
  sql: string,
  parameters: readonly Value[],
): Promise<StatementResult> {
  const work: Work = { demoQuery: true, version, bytes: database.serialize(), sql, parameters };
  const worker = new Worker(new URL(import.meta.url), { workerData: work });
  const receive = async (): Promise<Message> => {
    // Rejects if the worker fails.
    const [message] = (await once(worker, 'message')) as [Message];
    if ('rejected' in message) {
      void worker.terminate();
      throw new QueryError('NOT_SUPPORTED', message.rejected);
    }
    return message;
  };
  const first = await receive();
  return {
    columns: 'columns' in first ? first.columns : [],
    read: async (count) => {
      worker.postMessage(count);
      const rows = (await receive()) as Rows;
      if (rows.isLast) void worker.terminate();
      return rows;
    },
    close: () => void worker.terminate(),
  };
}

function work({ version, bytes, sql, parameters }: Work): void {
  const post = (message: () => Message) => {
    try {
      parentPort?.postMessage(message());
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      parentPort?.postMessage({ rejected: error.message });
    }
  };
  let query: DatabaseQuery | undefined;
  post(() => {
    query = new DatabaseQuery(openDatabase(version, bytes), sql, parameters);
    return { columns: query.columns };
  });
  parentPort?.on('message', (count: number) => post(() => query?.read(count) ?? { rows: [], isLast: true }));
}

if (!isMainThread && (workerData as Partial<Work> | null)?.demoQuery === true) work(workerData as Work);
