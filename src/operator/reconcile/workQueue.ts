import type { Logger } from 'pino';
import type { Random } from '../../model/clock.ts';

/** Takes note of what happens to the keys of a queue. */
export interface QueueObserver {
  /** A key has to be worked on, as soon as a worker is free or after a delay. */
  added(key: string): void;
  started(key: string): void;
  ended(key: string): void;
  retried(key: string): void;
  stopped(): void;
}

/** Options of a work queue. Times in milliseconds. */
export interface WorkQueueOptions {
  /** Brings the key's object to where it should be. A rejection is tried again with back-off. */
  readonly work: (key: string) => Promise<void>;
  /** Keys worked on at once; one key never by two workers. */
  readonly workers: number;
  readonly logger: Logger;
  readonly random: Random;
  readonly backOffMs?: number;
  readonly maxBackOffMs?: number;
  readonly observer?: QueueObserver;
}

/**
 * A queue of keys: adding one that waits changes nothing, adding one that is being worked on has it worked on again.
 * Failures are tried again after 1 s, doubling up to 30 s, less up to a quarter of jitter.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #backOffMs: number;
  readonly #maxBackOffMs: number;
  /** Keys to be worked on, in order; a Set merges duplicates and keeps the order. */
  readonly #waiting = new Set<string>();
  readonly #running = new Set<string>();
  /** Keys added while they were being worked on. */
  readonly #again = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #idle: (() => void)[] = [];
  #stopped = false;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
    this.#backOffMs = options.backOffMs ?? 1_000;
    this.#maxBackOffMs = options.maxBackOffMs ?? 30_000;
  }

  /** Keys that wait for a worker or for their next try. */
  get depth(): number {
    return this.#waiting.size + this.#again.size + this.#timers.size;
  }

  /** Has a key worked on soon; a waiting back-off is cut short, as the object may be another by now. */
  add(key: string): void {
    if (this.#stopped) return;
    this.#clearTimer(key);
    this.#options.observer?.added(key);
    if (this.#running.has(key)) this.#again.add(key);
    else this.#waiting.add(key);
    this.#next();
  }

  /** Has a key worked on after a time, unless that happens sooner anyway. */
  addAfter(key: string, delayMs: number): void {
    if (this.#stopped || this.#waiting.has(key) || this.#again.has(key) || this.#timers.has(key)) return;
    const timer = setTimeout(() => {
      this.#timers.delete(key);
      this.add(key);
    }, delayMs);
    this.#timers.set(key, timer);
  }

  /** Resolves when nothing is running or ready to run (keys in back-off do not count). */
  async whenIdle(): Promise<void> {
    if (this.#waiting.size + this.#running.size === 0) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Takes no more keys and resolves when the running ones are done. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.clear();
    this.#again.clear();
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#options.observer?.stopped();
    await this.whenIdle();
  }

  #next(): void {
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#options.workers) return;
      this.#waiting.delete(key);
      this.#running.add(key);
      this.#options.observer?.started(key);
      void this.#run(key);
    }
  }

  async #run(key: string): Promise<void> {
    try {
      await this.#options.work(key);
      this.#failures.delete(key);
    } catch (error) {
      this.#onFailure(key, error);
    }
    this.#running.delete(key);
    this.#options.observer?.ended(key);
    if (this.#again.delete(key) && !this.#stopped) {
      this.#clearTimer(key);
      this.#waiting.add(key);
    }
    this.#next();
    if (this.#waiting.size + this.#running.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #onFailure(key: string, error: unknown): void {
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    const full = Math.min(this.#maxBackOffMs, this.#backOffMs * 2 ** (failures - 1));
    const delayMs = Math.round(full * (1 - this.#options.random() / 4));
    this.#options.logger.warn({ key, err: error, failures, retryInMs: delayMs }, 'reconciling failed; trying again');
    if (this.#stopped) return;
    this.#clearTimer(key);
    this.#options.observer?.retried(key);
    this.addAfter(key, delayMs);
  }

  #clearTimer(key: string): void {
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }
}
