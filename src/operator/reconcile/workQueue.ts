import { LRUCache } from 'lru-cache';
import { GatewayError } from '../../model/errors.ts';
import type { ControllerContext } from './controller.ts';

/** Resources that are reconciled concurrently: the statuses of a large set must not flood the source. */
const WORKERS = 16;
/** Time before a failed key is tried again, doubled up to the greatest, in milliseconds. */
const BACK_OFF_MS = 1_000;
const MAX_BACK_OFF_MS = 30_000;
/** Time in which a cause of failures is logged once, in milliseconds. */
const QUIET_MS = 300_000;
const MAX_CAUSES = 50;

/**
 * A queue of keys: adding one that waits changes nothing, adding one that is being worked on has it worked on again. Failures are
 * tried again after 1 s, doubling up to 30 s, less up to a quarter of jitter, and not before the source asks for.
 */
export class WorkQueue {
  readonly #work: (key: string) => Promise<number>;
  readonly #options: ControllerContext;
  /** Keys to be worked on, in order, and keys that are worked on; with the monotonic milliseconds since which they are. */
  readonly waiting = new Map<string, number>();
  readonly running = new Map<string, number>();
  /** Keys added while they were being worked on. */
  readonly #again = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** When a cause of failures was logged, and how often it came since. */
  readonly #causes = new LRUCache<string, { readonly at: number; since: number }>({ max: MAX_CAUSES });
  readonly #works = new Set<Promise<void>>();
  #isStopped = false;

  /** @param work brings a key's object to where it should be; returns the milliseconds after which it is due again, 0 for never */
  constructor(work: (key: string) => Promise<number>, options: ControllerContext) {
    this.#work = work;
    this.#options = options;
  }

  /** Keys that wait for a worker or for their next try. */
  get depth(): number {
    return this.waiting.size + this.#again.size + this.#failures.size;
  }

  /** Has a key worked on soon; a waiting back-off is cut short, as the object may be another by now. */
  add(key: string): void {
    if (this.#isStopped) return;
    this.#clearTimer(key);
    this.#options.metrics.added(key);
    if (this.running.has(key)) this.#again.add(key);
    else if (!this.waiting.has(key)) this.waiting.set(key, this.#options.clock.monotonic());
    this.#next();
  }

  /** Takes no more keys and resolves when the running ones are done. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.waiting.clear();
    this.#again.clear();
    for (const key of [...this.#timers.keys()]) this.#clearTimer(key);
    await Promise.all(this.#works);
  }

  #next(): void {
    for (const [key, since] of this.waiting) {
      if (this.running.size >= WORKERS) return;
      this.waiting.delete(key);
      const now = this.#options.clock.monotonic();
      this.running.set(key, now);
      this.#options.metrics.waited(key, (now - since) / 1_000);
      const work = this.#run(key).finally(() => this.#works.delete(work));
      this.#works.add(work);
    }
  }

  async #run(key: string): Promise<void> {
    let dueMs = 0;
    const ended = this.#options.metrics.started(key);
    try {
      dueMs = await this.#work(key);
      this.#failures.delete(key);
      ended(true);
    } catch (error) {
      ended(false);
      dueMs = this.#failed(key, error);
    }
    this.running.delete(key);
    if (this.#isStopped) return;
    if (this.#again.delete(key)) this.waiting.set(key, this.#options.clock.monotonic());
    else if (dueMs > 0) {
      this.#timers.set(
        key,
        setTimeout(() => this.add(key), dueMs),
      );
    }
    this.#next();
  }

  /** Notes a failure. @returns milliseconds after which the key is tried again */
  #failed(key: string, error: unknown): number {
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    const full = Math.min(MAX_BACK_OFF_MS, BACK_OFF_MS * 2 ** (failures - 1));
    const askedMs = error instanceof GatewayError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
    const retryInMs = Math.max(askedMs, Math.round(full * (1 - this.#options.random() / 4)));
    this.#log(key, error, { failures, retryInMs });
    this.#options.metrics.retried(key);
    return retryInMs;
  }

  /** Logs a failure, one line for each cause and not one for each of thousands of resources. */
  #log(key: string, error: unknown, facts: { readonly failures: number; readonly retryInMs: number }): void {
    const now = this.#options.clock.monotonic();
    const text = error instanceof Error ? error.message : String(error);
    const [, namespace, name] = key.split('/');
    const cause = text.replaceAll(`${namespace}/${name}`, '').replaceAll(`"${name}"`, '');
    const entry = this.#causes.get(cause);
    if (entry !== undefined && now - entry.at < QUIET_MS) {
      entry.since += 1;
      return;
    }
    this.#causes.set(cause, { at: now, since: 0 });
    this.#options.logger.warn({ key, err: error, repeated: entry?.since ?? 0, ...facts }, 'reconcile failed; retrying');
  }

  #clearTimer(key: string): void {
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }
}

/** Runs work of the same name one after the other, whether what came before succeeded or not. */
export class SerialWork {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Rejects as the work does. */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const own = before.then(work, work);
    this.#last.set(name, own);
    try {
      return await own;
    } finally {
      if (this.#last.get(name) === own) this.#last.delete(name);
    }
  }

  /** Resolves when all that is under way has ended. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#last.values());
  }
}
