import type { EventDraft } from './eventDrafts.ts';

/** Series that are kept at most; of those beyond the longest unused are forgotten, and what happens again begins another. */
const MAX_SERIES = 4_096;
/** What has not happened again for this long, in milliseconds, begins another series (as client-go has it). */
const SERIES_MS = 360_000;
/** Least time between two updates of a series, in milliseconds. */
const UPDATE_MS = 60_000;

/** What happened to an object once, and maybe again. Times in monotonic milliseconds but for `lastTime`. */
export interface EventSeries {
  /** What makes its occurrences one. */
  readonly key: string;
  readonly draft: EventDraft;
  /** Of its Event; null: not created. */
  name: string | null;
  count: number;
  /** When it happened last, as the Event has it. */
  lastTime: string;
  lastAt: number;
  /** Occurrences that the API server has. */
  writtenCount: number;
  /** It is not written before. */
  notBefore: number;
  isWriting: boolean;
}

/** Which occurrences belong to one Event: of one object, type, action and reason. */
export class EventSeriesList {
  /** By what makes them one, the last used at the end. */
  readonly #series = new Map<string, EventSeries>();

  /**
   * Counts an occurrence.
   * @param isByNote whether occurrences with another note are something else
   * @param lastTime as the Event is to have it
   */
  add(draft: EventDraft, isByNote: boolean, lastTime: string, now: number): EventSeries {
    const { regarding, type, action, reason, note } = draft;
    const { kind, namespace, name, uid = '' } = regarding;
    const key = JSON.stringify([kind, namespace, name, uid, type, action, reason, isByNote ? note : '']);
    const before = this.#series.get(key);
    this.#series.delete(key);
    if (before !== undefined && now - before.lastAt < SERIES_MS) {
      before.count += 1;
      before.lastTime = lastTime;
      before.lastAt = now;
      this.#series.set(key, before);
      return before;
    }
    const series = {
      ...{ key, draft, name: null, count: 1, lastTime, lastAt: now },
      ...{ writtenCount: 0, notBefore: now, isWriting: false },
    };
    this.#series.set(key, series);
    const oldest = this.#series.keys().next().value;
    if (this.#series.size > MAX_SERIES && oldest !== undefined) this.#series.delete(oldest);
    return series;
  }

  /** Whether a series is to be written now: its first and second occurrence at once, further ones once a minute. */
  isDue(series: EventSeries, now: number): boolean {
    return !series.isWriting && series.count > series.writtenCount && now >= series.notBefore;
  }

  /** Has a series wait before it is written again, as its count was, or could not be. */
  delay(series: EventSeries, now: number): void {
    series.notBefore = now + UPDATE_MS;
  }

  /** Forgets those that are over. @returns what is to be written now */
  due(now: number): readonly EventSeries[] {
    for (const [key, series] of this.#series) {
      if (now - series.lastAt >= SERIES_MS && series.count <= series.writtenCount) this.#series.delete(key);
    }
    return this.unwritten.filter((series) => this.isDue(series, now));
  }

  /** Those with occurrences that the API server does not have. */
  get unwritten(): readonly EventSeries[] {
    return [...this.#series.values()].filter(({ count, writtenCount }) => count > writtenCount);
  }

  /** Forgets a series: what happens again begins another. */
  forget(series: EventSeries): void {
    if (this.#series.get(series.key) === series) this.#series.delete(series.key);
  }
}
