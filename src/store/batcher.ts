import { isDeepStrictEqual } from 'node:util';
import { isDatabaseAway } from './failures.ts';

interface Waiting<Item, Context, Result> extends PromiseWithResolvers<Result> {
  readonly item: Item;
  readonly context: Context;
  readonly key: string;
  readonly size: number;
}

/**
 * Does work in batches, such as several writes in one transaction: items that come while a batch is at work are the next one, in
 * the order in which they came. If a batch fails for another reason than an unavailable database, each of its items is tried by itself.
 */
export class Batcher<Item, Context, Result> {
  readonly #work: (items: readonly Item[], context: Context) => Promise<readonly Result[]>;
  readonly #maxSize: number;
  readonly #waiting: Waiting<Item, Context, Result>[] = [];
  #working = false;

  /**
   * @param work does the work of several items with one context, all of it or nothing; returns their results in order
   * @param maxSize bound of the sum of the sizes of a batch
   */
  constructor(work: (items: readonly Item[], context: Context) => Promise<readonly Result[]>, maxSize: number) {
    this.#work = work;
    this.#maxSize = maxSize;
  }

  /** Has an item worked on; rejects as `work` does for it alone. @param key items of one key are never in one batch */
  add(item: Item, context: Context, key: string, size: number): Promise<Result> {
    const waiting = { ...Promise.withResolvers<Result>(), item, context, key, size };
    this.#waiting.push(waiting);
    if (!this.#working) void this.#run();
    return waiting.promise;
  }

  async #run(): Promise<void> {
    this.#working = true;
    // Items of the same turn of the event loop form a batch.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#workOn(this.#waiting.splice(0, this.#batchLength()));
    this.#working = false;
  }

  #batchLength(): number {
    const keys = new Set<string>();
    let total = 0;
    const end = this.#waiting.findIndex(({ key, size, context }, index) => {
      total += size;
      const isFull = index > 0 && total > this.#maxSize;
      if (isFull || keys.has(key) || !isDeepStrictEqual(context, this.#waiting[0]?.context)) return true;
      keys.add(key);
      return false;
    });
    return end < 0 ? this.#waiting.length : end;
  }

  async #workOn(batch: readonly Waiting<Item, Context, Result>[]): Promise<void> {
    const items = batch.map(({ item }) => item);
    try {
      const results = await this.#work(items, batch[0]?.context as Context);
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
    } catch (error) {
      if (batch.length === 1 || isDatabaseAway(error)) for (const { reject } of batch) reject(error);
      else for (const each of batch) await this.#workOn([each]);
    }
  }
}
