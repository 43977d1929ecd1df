import { isDeepStrictEqual } from 'node:util';
import { isDatabaseAway } from './failures.ts';

interface Waiting<Item, Context, Result> {
  readonly item: Item;
  readonly context: Context;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Does work in batches, such as several writes in one transaction: items that come while a batch is at work are the next one, in
 * the order in which they came. If a batch fails for another reason than an unavailable database, each of its items is tried by itself.
 */
export class Batcher<Item, Context, Result> {
  readonly #work: (items: readonly Item[], context: Context) => Promise<readonly Result[]>;
  readonly #keyOf: (item: Item) => string;
  readonly #sizeOf: (item: Item) => number;
  readonly #maxSize: number;
  readonly #waiting: Waiting<Item, Context, Result>[] = [];
  #working = false;

  /**
   * @param work does the work of several items with one context, all of it or nothing; returns their results in order
   * @param keyOf items of one key are never in one batch
   * @param maxSize bound of the sum of the sizes of a batch
   */
  constructor(
    work: (items: readonly Item[], context: Context) => Promise<readonly Result[]>,
    keyOf: (item: Item) => string,
    maxSize = 32,
    sizeOf: (item: Item) => number = () => 1,
  ) {
    this.#work = work;
    this.#keyOf = keyOf;
    this.#maxSize = maxSize;
    this.#sizeOf = sizeOf;
  }

  /** Has an item worked on; rejects as `work` does for it alone. */
  add(item: Item, context: Context): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      this.#waiting.push({ item, context, resolve, reject });
      if (!this.#working) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#working = true;
    // Items of the same turn of the event loop form a batch.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#workOn(this.#takeGroup());
    this.#working = false;
  }

  #takeGroup(): readonly Waiting<Item, Context, Result>[] {
    const [first] = this.#waiting;
    const keys = new Set<string>();
    let size = 0;
    const group: Waiting<Item, Context, Result>[] = [];
    for (const waiting of this.#waiting) {
      const key = this.#keyOf(waiting.item);
      size += this.#sizeOf(waiting.item);
      const fits = group.length === 0 || size <= this.#maxSize;
      if (!fits || keys.has(key) || !isDeepStrictEqual(waiting.context, first?.context)) break;
      keys.add(key);
      group.push(waiting);
    }
    this.#waiting.splice(0, group.length);
    return group;
  }

  async #workOn(group: readonly Waiting<Item, Context, Result>[]): Promise<void> {
    const [first] = group;
    if (first === undefined) return;
    try {
      const items = group.map(({ item }) => item);
      const results = await this.#work(items, first.context);
      group.forEach(({ resolve }, index) => {
        resolve(results[index] as Result);
      });
    } catch (error) {
      if (group.length === 1 || isDatabaseAway(error)) for (const { reject } of group) reject(error);
      else for (const each of group) await this.#workOn([each]);
    }
  }
}
