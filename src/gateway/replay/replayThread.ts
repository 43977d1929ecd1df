import { Worker } from 'node:worker_threads';
import { GatewayError } from '../../model/errors.ts';
import { parseJdbcUrl } from '../../store/jdbcUrl.ts';
import type { ReplayJob, ReplayReport } from './replayJob.ts';
import type { ReplayReply } from './replayWorker.ts';

/** The worker's file: of the sources, or of the bundled program. */
const workerFile = `./replayWorker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`;
/**
 * Time in addition to the job's limit for the start of the thread, the connection to the database and the response,
 * milliseconds.
 */
const MARGIN_MS = 20_000;
/** Heap of the thread, megabytes: thousands of rules, two pages of the history, analyses, and counts. */
const MAX_HEAP_MB = 384;

/** Replays of the history; one per gateway. */
export interface HistoryReplays {
  /**
   * Replays the history. One job at a time.
   * @param signal ends it early: the promise then rejects with the signal's reason
   * @throws GatewayError EG_CONFLICT (another one runs), EG_IMPOSSIBLE (the database is in memory, or the thread needs
   * too much), EG_DATABASE_UNAVAILABLE
   */
  run(job: ReplayJob, signal: AbortSignal): Promise<ReplayReport>;
}

/** Replays the history in a worker thread. */
export class ReplayThread implements HistoryReplays {
  #worker: Worker | null = null;

  async run(job: ReplayJob, signal: AbortSignal): Promise<ReplayReport> {
    const { password } = job.database;
    // A thread receives plain data.
    const database = { ...job.database, password: typeof password === 'object' ? await password.read() : password };
    signal.throwIfAborted();
    if (this.#worker !== null) {
      throw new GatewayError(
        'EG_CONFLICT',
        'this gateway computes the impact of another change at the moment; wait until that call has its answer, or end it by closing its connection',
        { retryAfterSeconds: 5 },
      );
    }
    requireFile(job);
    const worker = new Worker(new URL(workerFile, import.meta.url), {
      workerData: { ...job, database },
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    });
    this.#worker = worker;
    try {
      return await answerOf(worker, job.bounds.time + MARGIN_MS, signal);
    } finally {
      await worker.terminate();
      this.#worker = null;
    }
  }

  /** Ends the running job with an error. */
  async close(): Promise<void> {
    await this.#worker?.terminate();
  }
}

/** Other threads cannot access a database in memory. */
function requireFile({ database }: ReplayJob): void {
  const parsed = parseJdbcUrl(database);
  if ('problems' in parsed || parsed.target.dialect !== 'sqlite' || parsed.target.file !== ':memory:') return;
  throw new GatewayError(
    'EG_IMPOSSIBLE',
    'the history is in memory, where it cannot be replayed; set dataStore.jdbcUrl to a file or a database server',
  );
}

async function answerOf(worker: Worker, limitMs: number, signal: AbortSignal): Promise<ReplayReport> {
  const { promise, resolve, reject } = Promise.withResolvers<ReplayReport>();
  const fail = (message: string) => reject(new GatewayError('EG_IMPOSSIBLE', message));
  const timer = setTimeout(
    () => fail('the history was not replayed in time; choose a shorter range, or fewer queries by user or source'),
    limitMs,
  );
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  worker.on('message', (reply: ReplayReply) => {
    if ('report' in reply) resolve(reply.report);
    else reject(new GatewayError(reply.error.code, reply.error.message));
  });
  worker.on('error', (error: Error & { readonly code?: string }) => {
    if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return reject(error);
    fail('replaying the history needs too much memory; choose a shorter range, or fewer queries by user or source');
  });
  worker.on('exit', () => fail('the gateway is stopping, and the replay with it; ask again when it has started'));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  }
}
