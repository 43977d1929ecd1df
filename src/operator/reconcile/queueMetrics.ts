import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { Clock } from '../../model/clock.ts';
import { keyOfText } from '../../model/resource.ts';
import type { QueueObserver } from './workQueue.ts';

/** Bounds as client-go's, but for those below a microsecond. */
const buckets = [0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1, 10, 100];

/** Metrics of the work queue with the names of client-go. The one queue is shown as one for each kind (`name`). */
export class WorkQueueMetrics implements QueueObserver {
  readonly #kinds: KindRegistry;
  readonly #clock: Clock;
  readonly #adds: Counter<'name'>;
  readonly #retries: Counter<'name'>;
  readonly #waited: Histogram<'name'>;
  readonly #worked: Histogram<'name'>;
  /** Monotonic milliseconds since which keys wait, or are worked on: no more than the queue holds. */
  readonly #waiting = new Map<string, number>();
  readonly #running = new Map<string, number>();

  constructor(registry: Registry, kinds: KindRegistry, clock: Clock) {
    this.#kinds = kinds;
    this.#clock = clock;
    const registers = [registry];
    const labelNames = ['name'] as const;
    this.#adds = new Counter({
      name: 'workqueue_adds_total',
      help: 'Resources added to the queue of reconciles, by kind. Named as in client-go, like all of workqueue_*.',
      labelNames,
      registers,
    });
    this.#retries = new Counter({
      name: 'workqueue_retries_total',
      help: 'Resources whose reconcile failed and is repeated, by kind.',
      labelNames,
      registers,
    });
    this.#waited = new Histogram({
      name: 'workqueue_queue_duration_seconds',
      help: 'Time that resources wait for their reconcile, in seconds, by kind.',
      labelNames,
      buckets,
      registers,
    });
    this.#worked = new Histogram({
      name: 'workqueue_work_duration_seconds',
      help: 'Time of reconciles in seconds, by kind.',
      labelNames,
      buckets,
      registers,
    });
    this.#gauge(
      registry,
      'depth',
      'Resources that wait for their reconcile, by kind.',
      this.#waiting,
      (waiting) => waiting.length,
    );
    this.#gauge(
      registry,
      'unfinished_work_seconds',
      'Time that the running reconciles have taken so far, together, in seconds, by kind.',
      this.#running,
      (running) => running.reduce((sum, seconds) => sum + seconds, 0),
    );
    this.#gauge(
      registry,
      'longest_running_processor_seconds',
      'Time that the longest of the running reconciles has taken so far, in seconds, by kind.',
      this.#running,
      (running) => Math.max(0, ...running),
    );
    for (const { singular: name } of kinds.all) {
      this.#adds.inc({ name }, 0);
      this.#retries.inc({ name }, 0);
    }
  }

  added(key: string): void {
    this.#adds.inc({ name: this.#nameOf(key) });
    if (!this.#waiting.has(key)) this.#waiting.set(key, this.#clock.monotonic());
  }

  started(key: string): void {
    const now = this.#clock.monotonic();
    const since = this.#waiting.get(key);
    this.#waiting.delete(key);
    this.#running.set(key, now);
    if (since !== undefined) this.#waited.observe({ name: this.#nameOf(key) }, (now - since) / 1_000);
  }

  ended(key: string): void {
    const since = this.#running.get(key);
    this.#running.delete(key);
    if (since === undefined) return;
    this.#worked.observe({ name: this.#nameOf(key) }, (this.#clock.monotonic() - since) / 1_000);
  }

  retried(key: string): void {
    this.#retries.inc({ name: this.#nameOf(key) });
  }

  stopped(): void {
    this.#waiting.clear();
  }

  #nameOf(key: string): string {
    return this.#kinds.of(keyOfText(key).kind).singular;
  }

  /** @param value of the seconds for which each key of a kind has been there */
  #gauge(
    registry: Registry,
    name: string,
    help: string,
    keys: ReadonlyMap<string, number>,
    value: (seconds: readonly number[]) => number,
  ): void {
    const { all } = this.#kinds;
    const secondsOf = (): ReadonlyMap<string, number[]> => {
      const now = this.#clock.monotonic();
      const byName = new Map<string, number[]>(all.map(({ singular }) => [singular, []]));
      for (const [key, since] of keys) byName.get(this.#nameOf(key))?.push((now - since) / 1_000);
      return byName;
    };
    new Gauge({
      name: `workqueue_${name}`,
      help,
      labelNames: ['name'],
      registers: [registry],
      collect() {
        for (const [kind, seconds] of secondsOf()) this.set({ name: kind }, value(seconds));
      },
    });
  }
}
