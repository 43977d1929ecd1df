import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientOptions, runQuery } from './statementClient.ts';

/** What the clients of a load saw. */
export interface LoadResult {
  /** Queries that gave all their rows. */
  readonly completed: number;
  /** Every query that did not, with the time since the load began. */
  readonly failures: readonly string[];
}

/** Clients that run one query after the other. */
export interface QueryLoad {
  /** Queries that gave all their rows so far. */
  readonly completed: number;
  /** Lets every client finish its query. */
  stop(): Promise<LoadResult>;
}

/** A query of a load. */
export interface LoadQuery extends ClientOptions {
  readonly sql: string;
  /** Rows that it must give. */
  readonly rows: number;
}

/**
 * Starts clients of the statement protocol that run queries in turns, on the gateways in turns, until they are stopped.
 * Nothing is tried twice: what fails once is a failure.
 * @param pauseMs between two queries of a client, so that a small machine has time for what is tested
 */
export function startQueryLoad(
  urls: readonly string[],
  queries: readonly LoadQuery[],
  clients = 4,
  pauseMs = 50,
): QueryLoad {
  const started = performance.now();
  const failures: string[] = [];
  let completed = 0;
  let stopped = false;
  const client = async (number: number): Promise<void> => {
    for (let turn = number; !stopped; turn += 1) {
      const url = urls[turn % urls.length] ?? '';
      const { sql, rows, ...options } = queries[Math.floor(turn / urls.length) % queries.length] as LoadQuery;
      try {
        const outcome = await runQuery(url, sql, options);
        if (outcome.error !== undefined) throw new Error(outcome.error.message);
        if (outcome.rows.length !== rows) throw new Error(`${outcome.rows.length} rows`);
        completed += 1;
      } catch (error) {
        failures.push(`${Math.round(performance.now() - started)} ms: ${url} ${sql}: ${error}`);
      }
      await sleep(pauseMs);
    }
  };
  const running = Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return {
    get completed() {
      return completed;
    },
    stop: async () => {
      stopped = true;
      await running;
      return { completed, failures };
    },
  };
}
