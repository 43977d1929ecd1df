import { Worker } from 'node:worker_threads';
import { inTime } from './timeLimit.ts';

/** Error of a task that was not done within its time limit. */
export class WorkerTimeout extends Error {}

/** Error of a task whose thread was ended. */
export class WorkerEnded extends Error {}

/**
 * A worker thread that does one task at a time, each within a time limit. The first task starts the thread. A task that
 * fails or is late ends it, so that the next task starts another one.
 */
export class WorkerThread<Task, Reply> {
  readonly #file: URL;
  readonly #maxHeapMb: number;
  #worker: Worker | null = null;

  /** @param file a module that sends one message for each message that it receives */
  constructor(file: URL, maxHeapMb: number) {
    this.#file = file;
    this.#maxHeapMb = maxHeapMb;
  }

  /** @throws WorkerTimeout, WorkerEnded, the reason of `signal`, or the error of the thread */
  async run(task: Task, limitMs: number, signal?: AbortSignal): Promise<Reply> {
    signal?.throwIfAborted();
    this.#worker ??= this.#start();
    const worker = this.#worker;
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const onExit = () => reject(new WorkerEnded('its thread ended'));
    const onAbort = () => reject(signal?.reason);
    worker.on('message', resolve).on('error', reject).on('exit', onExit);
    signal?.addEventListener('abort', onAbort, { once: true });
    worker.postMessage(task);
    try {
      return await inTime(promise, limitMs, () => new WorkerTimeout(`no reply within ${limitMs} ms`));
    } catch (error) {
      await this.close();
      throw error;
    } finally {
      worker.off('message', resolve).off('error', reject).off('exit', onExit);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Ends the thread. */
  async close(): Promise<void> {
    const worker = this.#worker;
    this.#worker = null;
    await worker?.terminate();
  }

  #start(): Worker {
    const worker = new Worker(this.#file, {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: this.#maxHeapMb },
    });
    // Requests keep the process running; the thread alone does not.
    worker.unref();
    worker
      .on('error', () => undefined)
      .on('exit', () => {
        if (this.#worker === worker) this.#worker = null;
      });
    return worker;
  }
}
