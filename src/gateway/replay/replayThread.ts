import { GatewayError } from '../../model/errors.ts';
import { WorkerEnded, WorkerThread, WorkerTimeout } from '../../model/workerThread.ts';
import type { ShadowReport } from '../../replay/replayJobs.ts';
import type { SelectionJob, SelectionReport } from '../../replay/selection.ts';
import { parseJdbcUrl } from '../../store/jdbcUrl.ts';
import type { ReplayReport } from './historyReplay.ts';
import type { ReplayJob } from './recordedQuery.ts';
import type { ReplayReply } from './replayWorker.ts';
import type { ShadowJob } from './shadow.ts';

/** The worker's file: of the sources, or of the bundled program. */
const workerFile = new URL(`./replayWorker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url);
/** Milliseconds in addition to the job's limit, for the start of the thread, the connection and the response. */
const MARGIN_MS = 20_000;
/** Heap of the thread, megabytes: thousands of rules, two pages of history, analyses, counts. */
const MAX_HEAP_MB = 384;
/** An idle thread ends after this time: who edits rules asks again, and a start takes half a second. */
const IDLE_MS = 10_000;

type Job = ReplayJob | SelectionJob | ShadowJob;
type ReportOf<J extends Job> = J extends ShadowJob
  ? ShadowReport
  : J extends ReplayJob
    ? ReplayReport
    : SelectionReport;

/** Reads the history in a thread, one job at a time: for the impact of rules, or to choose queries. */
export class ReplayThread {
  readonly #thread = new WorkerThread<Job, ReplayReply>(workerFile, MAX_HEAP_MB);
  #isRunning = false;
  #idleTimer: NodeJS.Timeout | undefined;

  /**
   * @param signal ends it early: the promise then rejects with the signal's reason
   * @throws GatewayError EG_CONFLICT (another one runs), EG_IMPOSSIBLE (the database is in memory, or the thread needs
   * too much), EG_DATABASE_UNAVAILABLE
   */
  async run<J extends Job>(job: J, signal: AbortSignal): Promise<ReportOf<J>> {
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
    clearTimeout(this.#idleTimer);
    try {
      const reply = await this.#thread.run({ ...job, database }, job.bounds.time + MARGIN_MS, signal);
      if ('report' in reply) return reply.report as ReportOf<J>;
      throw new GatewayError(reply.error.code, reply.error.message);
    } catch (error) {
      throw failureOf(error);
    } finally {
      this.#isRunning = false;
      this.#idleTimer = setTimeout(() => void this.#thread.close(), IDLE_MS).unref();
    }
  }

  /** Ends the thread, and the running job with an error. */
  async close(): Promise<void> {
    clearTimeout(this.#idleTimer);
    await this.#thread.close();
  }
}

const impossible = (message: string) => new GatewayError('EG_IMPOSSIBLE', message);

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
