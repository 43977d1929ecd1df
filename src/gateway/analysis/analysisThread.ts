import { Worker } from 'node:worker_threads';
import { type SqlAnalysis, unanalyzed } from '../../sql/analyzeSql.ts';
import { type StatementTask, taskCharacters } from '../../sql/statementTask.ts';

/** The worker's file: of the sources, or of the bundled program. */
const workerFile = `./analysisWorker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`;
/** Timeout of one statement, milliseconds, including the start of the thread. */
const MAX_TASK_MS = 5_000;
/** Maximum number of characters of waiting statements; more are not analyzed. */
const MAX_WAITING_CHARACTERS = 16_000_000;
/** Idle time after which the thread ends, milliseconds. */
const IDLE_MS = 30_000;
/** Heap of the thread, megabytes: names of one statement, and their analysis. */
const MAX_HEAP_MB = 96;

interface WaitingTask {
  readonly task: StatementTask;
  readonly resolve: (analysis: SqlAnalysis) => void;
}

/**
 * Analyzes long statements in a thread, because they would block the event loop: sequentially, each with a timeout. A
 * failed analysis has an `errorMessage`. Never rejects.
 */
export class AnalysisThread {
  readonly #waiting: WaitingTask[] = [];
  #waitingCharacters = 0;
  #worker: Worker | null = null;
  #running: WaitingTask | null = null;
  #timer: NodeJS.Timeout | undefined;

  analyze(task: StatementTask): Promise<SqlAnalysis> {
    const characters = this.#waitingCharacters + taskCharacters(task);
    if (this.#waiting.length > 0 && characters > MAX_WAITING_CHARACTERS) {
      return Promise.resolve(unanalyzed('too many long statements wait for their analysis; try again'));
    }
    return new Promise((resolve) => {
      this.#waiting.push({ task, resolve });
      this.#waitingCharacters = characters;
      this.#next();
    });
  }

  /** Ends the thread; waiting statements get an analysis with an error. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    const worker = this.#worker;
    this.#worker = null;
    for (const { resolve } of this.#waiting.splice(0)) resolve(unanalyzed('the gateway is stopping'));
    this.#finish(unanalyzed('the gateway is stopping'));
    await worker?.terminate();
  }

  #next(): void {
    if (this.#running !== null) return;
    clearTimeout(this.#timer);
    const waiting = this.#waiting.shift();
    if (waiting === undefined) {
      this.#timer = setTimeout(() => this.#end(), IDLE_MS).unref();
      return;
    }
    this.#waitingCharacters -= taskCharacters(waiting.task);
    this.#running = waiting;
    this.#timer = setTimeout(() => {
      this.#end();
      this.#finish(unanalyzed(`the statement is too long: its analysis took over ${MAX_TASK_MS} ms`));
    }, MAX_TASK_MS);
    this.#worker ??= this.#start();
    this.#worker.postMessage(waiting.task);
  }

  #start(): Worker {
    const worker = new Worker(new URL(workerFile, import.meta.url), {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    });
    // Requests keep the process running, the thread does not.
    worker.unref();
    const failed = (error?: Error) => {
      if (this.#worker !== worker) return;
      this.#worker = null;
      const why = error?.message ?? 'its thread ended';
      this.#finish(unanalyzed(`the statement is too large to be analysed: ${why}`));
    };
    worker.on('message', (analysis: SqlAnalysis) => {
      if (this.#worker === worker) this.#finish(analysis);
    });
    worker.on('error', failed);
    worker.on('exit', () => failed());
    return worker;
  }

  #end(): void {
    const worker = this.#worker;
    this.#worker = null;
    worker?.terminate().catch(() => undefined);
  }

  #finish(analysis: SqlAnalysis): void {
    const running = this.#running;
    this.#running = null;
    clearTimeout(this.#timer);
    running?.resolve(analysis);
    this.#next();
  }
}
