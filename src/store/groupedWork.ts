import { isDeepStrictEqual } from 'node:util';

const MAX_GROUP = 32;

export interface GroupedWorkOptions<Item, Context, Result> {
  /** Items of one key are never in one group. */
  readonly keyOf: (item: Item) => string;
  /** Does the work of several items with one context, all of it or nothing; their results in order. */
  readonly work: (items: readonly Item[], context: Context) => Promise<readonly Result[]>;
  /** True if a failure is no item's own, so that it is that of all of them. */
  readonly isShared: (error: unknown) => boolean;
}

interface Waiting<Item, Context, Result> {
  readonly item: Item;
  readonly context: Context;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Does work in groups, such as several writes in one transaction: what comes while a group is at work is the next one, in
 * the order in which it came. Where a group fails, each of its items is tried alone, so that none fails for another's sake.
 */
export class GroupedWork<Item, Context, Result> {
  readonly #options: GroupedWorkOptions<Item, Context, Result>;
  readonly #waiting: Waiting<Item, Context, Result>[] = [];
  #working = false;

  constructor(options: GroupedWorkOptions<Item, Context, Result>) {
    this.#options = options;
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
    const group: Waiting<Item, Context, Result>[] = [];
    for (const waiting of this.#waiting) {
      const key = this.#options.keyOf(waiting.item);
      const belongs = group.length < MAX_GROUP && !keys.has(key) && isDeepStrictEqual(waiting.context, first?.context);
      if (!belongs) break;
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
      const results = await this.#options.work(items, first.context);
      group.forEach(({ resolve }, index) => {
        resolve(results[index] as Result);
      });
    } catch (error) {
      if (group.length === 1 || this.#options.isShared(error)) for (const { reject } of group) reject(error);
      else for (const each of group) await this.#workOn([each]);
    }
  }
}
