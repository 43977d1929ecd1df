import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../../model/clock.ts';
import { within } from '../../../model/timeLimit.ts';
import { groupNames, type SourceResponse } from './groupSources.ts';

/** Limits of lookups (`userGroups`); times in milliseconds. */
export interface LookupSettings {
  /** Maximum wait of a query for a lookup. */
  readonly timeout: number;
  readonly cacheDuration: number;
  /** Maximum age of the last known groups while the source is unavailable. */
  readonly keepLastKnown: number;
  readonly maxCachedUsers: number;
}

const MAX_LOOKUPS = 64;
/** Maximum number of users with only a cached failure; separate, so that they do not evict others. */
const MAX_FAILURES = 1_000;
/** Time after a failure without a retry for the same user, milliseconds. */
const RETRY_MS = 5_000;
/** Minimum interval of log messages about failures, milliseconds. */
const QUIET_MS = 30_000;
const MAX_CAUSE_LENGTH = 500;

interface Failure {
  readonly until: number;
  readonly why: string;
}

interface Entry {
  readonly answer: SourceResponse;
  readonly at: number;
  /** Null: the latest request succeeded. */
  readonly failed: Failure | null;
}

/**
 * Cache for groups from a remote source: one lookup per user at a time; uses the last known groups while the source is
 * unavailable. A query never waits longer than the time limit; the lookup continues for the next one.
 */
export class RememberedGroups {
  readonly #settings: LookupSettings;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #logger: Logger;
  readonly #entries: LRUCache<string, Entry>;
  readonly #failures: LRUCache<string, Failure>;
  readonly #pending = new Map<string, Promise<SourceResponse>>();
  #quietUntil = Number.NEGATIVE_INFINITY;

  constructor(settings: LookupSettings, clock: Pick<Clock, 'monotonic'>, logger: Logger) {
    this.#settings = settings;
    this.#clock = clock;
    this.#logger = logger;
    const { maxCachedUsers } = settings;
    this.#entries = new LRUCache({ max: maxCachedUsers });
    this.#failures = new LRUCache({ max: Math.min(MAX_FAILURES, maxCachedUsers) });
  }

  /**
   * Groups under a key; synchronously if cached. Never rejects.
   * @param ask requests the groups, with its own timeout. A rejection means that the source is unavailable
   */
  of(key: string, ask: () => Promise<SourceResponse>): SourceResponse | Promise<SourceResponse> {
    const now = this.#clock.monotonic();
    const entry = this.#entries.get(key);
    if (entry !== undefined && now < entry.at + this.#settings.cacheDuration) return entry.answer;
    const failed = entry === undefined ? this.#failures.get(key) : entry.failed;
    if (failed != null && now < failed.until) return this.#lastKnown(key, failed.why);
    const pending = this.#pending.get(key);
    if (pending === undefined && this.#pending.size >= MAX_LOOKUPS) {
      return this.#lastKnown(key, `${MAX_LOOKUPS} users are looked up already`);
    }
    return this.#inTime(key, pending ?? this.#lookUp(key, ask));
  }

  remembered(key: string): SourceResponse {
    const entry = this.#entries.peek(key);
    const isCurrent = entry !== undefined && this.#clock.monotonic() < entry.at + this.#settings.cacheDuration;
    return isCurrent ? entry.answer : this.#lastKnown(key, 'the source is not asked for explanations');
  }

  #lookUp(key: string, ask: () => Promise<SourceResponse>): Promise<SourceResponse> {
    const lookup = ask()
      .then(
        (said): SourceResponse => {
          const answer = { ...said, groups: groupNames(said.groups) };
          this.#entries.set(key, { answer, at: this.#clock.monotonic(), failed: null });
          this.#failures.delete(key);
          return answer;
        },
        (error: unknown): SourceResponse => {
          const why = error instanceof Error ? error.message : String(error);
          this.#logFailure(why, causeOf(error));
          this.#remember(key, { until: this.#clock.monotonic() + RETRY_MS, why });
          return this.#lastKnown(key, why);
        },
      )
      .finally(() => this.#pending.delete(key));
    this.#pending.set(key, lookup);
    return lookup;
  }

  #remember(key: string, failed: Failure): void {
    const entry = this.#entries.peek(key);
    if (entry === undefined) this.#failures.set(key, failed);
    else this.#entries.set(key, { ...entry, failed });
  }

  async #inTime(key: string, lookup: Promise<SourceResponse>): Promise<SourceResponse> {
    const { timeout } = this.#settings;
    return (await within(lookup, timeout, null)) ?? this.#lastKnown(key, `no answer within ${timeout} ms`);
  }

  #lastKnown(key: string, why: string): SourceResponse {
    const entry = this.#entries.peek(key);
    const isUsable = entry !== undefined && this.#clock.monotonic() < entry.at + this.#settings.keepLastKnown;
    return isUsable ? { groups: entry.answer.groups, note: `last known: ${why}` } : { groups: [], note: why };
  }

  #logFailure(reason: string, cause: string | null): void {
    const now = this.#clock.monotonic();
    if (now < this.#quietUntil) return;
    this.#quietUntil = now + QUIET_MS;
    const why = cause === null ? { reason } : { reason, cause };
    this.#logger.warn({ source: 'ldap', ...why }, 'failed to look up user groups; last known groups apply');
  }
}

/** Cause of an error for the log: traces only have the sentence for users. */
function causeOf(error: unknown): string | null {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) return null;
  const { code } = cause as NodeJS.ErrnoException;
  return (cause.message || String(code ?? cause.name)).slice(0, MAX_CAUSE_LENGTH);
}
