import { GatewayError } from '../../model/errors.ts';
import { WorkerEnded, WorkerThread, WorkerTimeout } from '../../model/workerThread.ts';
import { parseJdbcUrl } from '../../store/jdbcUrl.ts';
import type { ReplayReport } from './historyReplay.ts';
import type { ReplayJob } from './recordedQuery.ts';
import type { ReplayReply } from './replayWorker.ts';

/** The worker's file: of the sources, or of the bundled program. */
const workerFile = new URL(`./replayWorker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url);
/**
 * Time in addition to the job's limit for the start of the thread, the connection to the database and the response,
 * milliseconds.
 */
const MARGIN_MS = 20_000;
/** Heap of the thread, megabytes: thousands of rules, two pages of the history, analyses, and counts. */
const MAX_HEAP_MB = 384;

/** Replays the history in a thread, one job at a time. */
export class ReplayThread {
  readonly #thread = new WorkerThread<ReplayJob, ReplayReply>(workerFile, MAX_HEAP_MB);
  #isRunning = false;

  /**
   * @param signal ends it early: the promise then rejects with the signal's reason
   * @throws GatewayError EG_CONFLICT (another one runs), EG_IMPOSSIBLE (the database is in memory, or the thread needs
   * too much), EG_DATABASE_UNAVAILABLE
   */
  async run(job: ReplayJob, signal: AbortSignal): Promise<ReplayReport> {
    const { password } = job.database;
    // A thread receives plain data.
    const database = { ...job.database, password: typeof password === 'object' ? await password.read() : password };
    if (this.#isRunning) {
      throw new GatewayError(
        'EG_CONFLICT',
        'this gateway computes the impact of another change at the moment; wait until that call has its answer, or end it by closing its connection',
        { retryAfterSeconds: 5 },
      );
    }
    const parsed = parseJdbcUrl(database);
    if ('target' in parsed && parsed.target.dialect === 'sqlite' && parsed.target.file === ':memory:') {
      // Other threads cannot access it.
      throw impossible(
        'the history is in memory, where it cannot be replayed; set dataStore.jdbcUrl to a file or a database server',
      );
    }
    this.#isRunning = true;
    try {
      const reply = await this.#thread.run({ ...job, database }, job.bounds.time + MARGIN_MS, signal);
      if ('report' in reply) return reply.report;
      throw new GatewayError(reply.error.code, reply.error.message);
    } catch (error) {
      throw failureOf(error);
    } finally {
      await this.#thread.close();
      this.#isRunning = false;
    }
  }

  /** Ends the running job with an error. */
  async close(): Promise<void> {
    await this.#thread.close();
  }
}

function impossible(message: string): GatewayError {
  return new GatewayError('EG_IMPOSSIBLE', message);
}

/** The error of a call for an error of its thread. */
function failureOf(error: unknown): unknown {
  const shorter = 'choose a shorter range, or fewer queries by user or source';
  if (error instanceof WorkerTimeout) return impossible(`the history was not replayed in time; ${shorter}`);
  if (error instanceof WorkerEnded) {
    return impossible('the gateway is stopping, and the replay with it; ask again when it has started');
  }
  if ((error as { readonly code?: unknown } | null)?.code !== 'ERR_WORKER_OUT_OF_MEMORY') return error;
  return impossible(`replaying the history needs too much memory; ${shorter}`);
}
