import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';

/** Time in which a cause is logged once, in milliseconds. */
const QUIET_MS = 300_000;
const MAX_CAUSES = 50;

/** Logs failed writes of statuses, one line for each cause and not one for each of thousands of resources. */
export class FailureReports {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** When a cause was logged, and how often it came since. */
  readonly #causes = new Map<string, { readonly at: number; since: number }>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** @param key the resource, as `keyText` has it; what a cause states of it is left out of the comparison */
  report(key: string, error: unknown): void {
    const now = this.#clock.monotonic();
    const cause = causeOf(key, error);
    const entry = this.#causes.get(cause);
    if (entry !== undefined && now - entry.at < QUIET_MS) {
      entry.since += 1;
      return;
    }
    this.#causes.delete(cause);
    const oldest = this.#causes.keys().next().value;
    if (this.#causes.size >= MAX_CAUSES && oldest !== undefined) this.#causes.delete(oldest);
    this.#causes.set(cause, { at: now, since: 0 });
    const repeated = entry?.since ?? 0;
    this.#logger.warn({ key, err: error, repeated }, 'status could not be written; trying again');
  }
}

function causeOf(key: string, error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const [, namespace, name] = key.split('/');
  return text.replaceAll(`${namespace}/${name}`, '').replaceAll(`"${name}"`, '');
}
