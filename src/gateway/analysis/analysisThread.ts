import { WorkerThread, WorkerTimeout } from '../../model/workerThread.ts';
import { type SqlAnalysis, type StatementTask, taskCharacters, unanalyzed } from '../../sql/analyzeSql.ts';

/** The worker's file: of the sources, or of the bundled program. */
const workerFile = new URL(`./analysisWorker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url);
/** Timeout of one statement, milliseconds, including the start of the thread. */
const MAX_TASK_MS = 5_000;
/** Maximum number of characters of waiting statements; more are not analyzed. */
const MAX_WAITING_CHARACTERS = 16_000_000;
/** Idle time after which the thread ends, milliseconds. */
const IDLE_MS = 30_000;
/** Heap of the thread, megabytes: names of one statement, and their analysis. */
const MAX_HEAP_MB = 96;

/**
 * Analyzes long statements in a thread, because they would block the event loop: sequentially, each with a timeout. A
 * failed analysis has an `errorMessage`. Never rejects.
 */
export class AnalysisThread {
  readonly #thread = new WorkerThread<StatementTask, SqlAnalysis>(workerFile, MAX_HEAP_MB);
  #last: Promise<unknown> = Promise.resolve();
  #waitingCharacters = 0;
  #idleTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  analyze(task: StatementTask): Promise<SqlAnalysis> {
    const characters = taskCharacters(task);
    if (this.#waitingCharacters > 0 && this.#waitingCharacters + characters > MAX_WAITING_CHARACTERS) {
      return Promise.resolve(unanalyzed('too many long statements wait for their analysis; try again'));
    }
    this.#waitingCharacters += characters;
    const analysis = this.#last.then(() => {
      this.#waitingCharacters -= characters;
      return this.#run(task);
    });
    this.#last = analysis;
    return analysis;
  }

  /** Ends the thread; waiting statements get an analysis with this reason. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#thread.close();
  }

  async #run(task: StatementTask): Promise<SqlAnalysis> {
    clearTimeout(this.#idleTimer);
    try {
      if (!this.#isClosed) return await this.#thread.run(task, MAX_TASK_MS);
    } catch (error) {
      if (error instanceof WorkerTimeout) {
        return unanalyzed(`the statement is too long: its analysis took over ${MAX_TASK_MS} ms`);
      }
      const why = error instanceof Error ? error.message : String(error);
      if (!this.#isClosed) return unanalyzed(`the statement is too large to be analysed: ${why}`);
    } finally {
      if (!this.#isClosed) this.#idleTimer = setTimeout(() => void this.#thread.close(), IDLE_MS).unref();
    }
    return unanalyzed('the gateway is stopping');
  }
}
