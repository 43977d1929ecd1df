import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { keyOfText, keyText, type ResourceKey } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { Observation, ObservationRepository } from '../../store/store.ts';

/** Time between two writes. */
const WRITE_INTERVAL_MS = 2_000;
/** Observations that one write takes at most; the others come with the next one. */
const MAX_ROWS = 500;
/** Observations that are kept; of further resources none are shared until some of these are over. */
const MAX_OBSERVATIONS = 20_000;
/** Least time between two writes of one that differs by its message or time only. */
const REPEAT_MS = 30_000;
/** Time between two searches for observations to be renewed, and for those that are over. */
const RENEWAL_INTERVAL_MS = 60_000;
/** Longest time for the last write at a stop. */
const STOP_TIMEOUT_MS = 2_000;

/** How long an observation holds once its replica has ended: a rule fails on any, what a cluster answers may have other causes. */
const lifetimes: Readonly<Record<string, number>> = { Failing: 24 * 3_600_000 };
const DEFAULT_LIFETIME_MS = 3_600_000;

const lifetimeOf = (type: string): number => lifetimes[type] ?? DEFAULT_LIFETIME_MS;

interface Entry {
  observation: Observation;
  /** Monotonic milliseconds. */
  at: number;
  /** When it was written last, monotonic milliseconds; null: not yet as it is. */
  writtenAt: number | null;
  /** Before this time it is not written again. */
  notBefore: number;
}

export interface ObservationWriterOptions {
  readonly repository: Pick<ObservationRepository, 'put' | 'remove'>;
  /** Name of this process, unique among replicas and restarts. */
  readonly replica: string;
  /** Whether an observation is of a resource as it is now; others are dropped. */
  readonly isCurrent: (observation: Observation) => boolean;
  readonly exists: (key: ResourceKey) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time between two writes in milliseconds: 2,000. */
  readonly intervalMs?: number;
}

/**
 * Shares what this replica observed with the others through the database, in batches, off the path of requests. As long as
 * the process lives it renews what it observed; what a replica observed that has ended is forgotten after a while.
 */
export class ObservationWriter {
  readonly #options: ObservationWriterOptions;
  /** By resource and type. */
  readonly #entries = new Map<string, Entry>();
  /** Resources that are gone, as `keyText` has them. */
  readonly #deletions = new Set<string>();
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #isUnavailable = false;

  constructor(options: ObservationWriterOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#write(), this.#options.intervalMs ?? WRITE_INTERVAL_MS).unref();
  }

  /** Writes what was not written yet, for a short time at most, and ends. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    const last = (async () => {
      await this.#writing;
      for (const entry of this.#entries.values()) entry.notBefore = Number.NEGATIVE_INFINITY;
      await this.#write();
    })();
    await within(last, STOP_TIMEOUT_MS, undefined);
  }

  /** Notes what was observed now. Never throws, never waits. */
  note(observation: Observation): void {
    const place = `${keyText(observation.key)} ${observation.type}`;
    const at = this.#options.clock.monotonic();
    const before = this.#entries.get(place);
    if (before === undefined) {
      if (this.#entries.size >= MAX_OBSERVATIONS) return;
      this.#entries.set(place, { observation, at, writtenAt: null, notBefore: at });
      return;
    }
    const { uid, generation, ok, message } = before.observation;
    const isSameCase = uid === observation.uid && generation === observation.generation && ok === observation.ok;
    before.observation = observation;
    before.at = at;
    if (!isSameCase) before.notBefore = at;
    // That a rule failed again says nothing new; that a cluster was tried again holds against what others observed.
    if (!isSameCase || message !== observation.message || observation.type !== 'Failing') before.writtenAt = null;
  }

  /** Has the rows of a resource that is gone deleted, those of all replicas. @param key as `keyText` has it */
  forget(key: string): void {
    // Those beyond are left to the end of their time.
    if (this.#deletions.size < MAX_OBSERVATIONS) this.#deletions.add(key);
  }

  #write(): Promise<void> {
    this.#writing ??= this.#writeNow().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async #writeNow(): Promise<void> {
    const { repository, replica, clock, logger } = this.#options;
    const now = clock.monotonic();
    if (now - this.#renewedAt >= RENEWAL_INTERVAL_MS) this.#renew(now);
    const deletions = this.#takeDeletions();
    const due: Entry[] = [];
    for (const entry of this.#entries.values()) {
      const isDue = entry.writtenAt === null && entry.notBefore <= now;
      if (isDue && this.#options.isCurrent(entry.observation)) due.push(entry);
      if (due.length >= MAX_ROWS) break;
    }
    if (due.length === 0 && deletions.length === 0) return;
    const rows = due.map(({ observation, at }) => ({
      ...observation,
      ageMs: now - at,
      lifetimeMs: lifetimeOf(observation.type),
    }));
    for (const entry of due) {
      entry.writtenAt = now;
      entry.notBefore = now + REPEAT_MS;
    }
    try {
      if (deletions.length > 0) await repository.remove(deletions.map(keyOfText));
      if (rows.length > 0) await repository.put(replica, rows);
      this.#isUnavailable = false;
    } catch (error) {
      for (const entry of due) entry.writtenAt = null;
      for (const key of deletions) this.forget(key);
      const reason = error instanceof Error ? error.message : String(error);
      if (!this.#isUnavailable)
        logger.warn({ reason }, 'what this replica observes is not shared with the others for now');
      this.#isUnavailable = true;
    }
  }

  /** The next resources whose rows are to be deleted; of one that is there again they say nothing, and others may be new. */
  #takeDeletions(): readonly string[] {
    const keys: string[] = [];
    for (const key of this.#deletions) {
      this.#deletions.delete(key);
      if (!this.#options.exists(keyOfText(key))) keys.push(key);
      if (keys.length >= MAX_ROWS) break;
    }
    return keys;
  }

  /** Has those written again whose time is half over, and drops those of resources that were changed or deleted. */
  #renew(now: number): void {
    this.#renewedAt = now;
    for (const [place, entry] of this.#entries) {
      const { observation, writtenAt } = entry;
      if (!this.#options.isCurrent(observation)) this.#entries.delete(place);
      else if (writtenAt !== null && now - writtenAt >= lifetimeOf(observation.type) / 2) entry.writtenAt = null;
    }
  }
}
