import { WorkerThread } from '../model/workerThread.ts';
import type { PageReply, PageTask } from './pageWorker.ts';

/** The worker's file: of the sources, or of the bundled program. */
const workerFile = new URL(`./pageWorker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url);
/** Heap of the thread, megabytes: a page of 16 MB as JSON. */
const MAX_HEAP_MB = 384;
/** Milliseconds for one page. */
const MAX_TIME_MS = 30_000;

/** Reads pages of results in a thread, one after the other, so that large ones delay no client. */
export class PageThread {
  readonly #thread = new WorkerThread<PageTask, PageReply>(workerFile, MAX_HEAP_MB);
  #last: Promise<unknown> = Promise.resolve();
  #results = 0;

  /** Returns a reader of the pages of one result. It rejects with WorkerTimeout, WorkerEnded or an error of the thread. */
  begin(): (page: Uint8Array) => Promise<PageReply> {
    this.#results += 1;
    const result = this.#results;
    return (page) => {
      const reply = this.#last.then(() => this.#thread.run({ result, bytes: new Uint8Array(page) }, MAX_TIME_MS));
      this.#last = reply.catch(() => undefined);
      return reply;
    };
  }

  async close(): Promise<void> {
    await this.#thread.close();
  }
}
