import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { API_GROUP } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { Transition } from '../reconcile/statusWriter.ts';
import type { AppliedChange } from '../registry/appliedChange.ts';
import { type KubeApi, microTime } from '../sources/kubernetes/kubeApi.ts';
import { kubeCode, kubeReason } from '../sources/kubernetes/kubeErrors.ts';
import { changeEvent, type EventDraft, transitionEvent } from './eventDrafts.ts';
import { type EventSeries, EventSeriesList } from './eventSeries.ts';

/** Events that wait at most, as in client-go; beyond that the newest are left out, those that warn of nothing first. */
const MAX_WAITING = 1_000;
/** Events that are written at once. */
const MAX_WRITES = 2;
/** Longest time for which an event waits for the API server to be less busy with statuses, and time between two looks. */
const MAX_BUSY_MS = 30_000;
const BUSY_LOOK_MS = 100;
/** Time between two looks for series to be updated, in milliseconds. */
const UPDATE_INTERVAL_MS = 10_000;
/** Longest time for the last updates at a stop. */
const STOP_TIMEOUT_MS = 2_000;

export interface EventRecorderOptions {
  readonly api: Pick<KubeApi, 'createEvent' | 'countEvent'>;
  /** Name of this process. */
  readonly instance: string;
  /** The gateway's Lease: what events of things without a resource are about. */
  readonly lease: { readonly namespace: string; readonly name: string };
  /** Whether something more important is written: events wait for it. */
  readonly isBusy?: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Waiting {
  readonly series: EventSeries;
  /** When it happened. */
  readonly eventTime: string;
}

/**
 * Records transitions of conditions and changes by REST as events (events.k8s.io/v1), in the background, when statuses leave
 * room. What happens to an object again within 6 minutes counts up the Event that there is, as a series. Never throws,
 * never blocks its caller.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #series = new EventSeriesList();
  readonly #waiting: Waiting[] = [];
  readonly #writers = new Set<Promise<void>>();
  /** Writers that still look for what waits. */
  #active = 0;
  readonly #timer: NodeJS.Timeout;
  #dropped = 0;
  #failing = false;
  #stopping = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#update(), UPDATE_INTERVAL_MS).unref();
  }

  /** Records a transition, if it has an event. */
  recordTransition(transition: Transition): void {
    this.#record(transitionEvent(transition), false);
  }

  /** Records a change by REST, if it changed something. One by somebody else, or of another value, is an Event of its own. */
  recordChange(change: AppliedChange): void {
    this.#record(changeEvent(change, this.#options.lease), true);
  }

  /** Writes what waits and counts that were not written yet, for a short time at most, and ends. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping = true;
    const last = (async () => {
      await Promise.all(this.#writers);
      for (const series of this.#series.unwritten) this.#enqueue(series);
      await Promise.all(this.#writers);
    })();
    await within(last, STOP_TIMEOUT_MS, undefined);
  }

  #record(draft: EventDraft | null, isByNote: boolean): void {
    if (draft === null) return;
    const { clock } = this.#options;
    const now = clock.monotonic();
    // The time is now, not when its turn has come.
    const series = this.#series.add(draft, isByNote, microTime(clock.now()), now);
    if (this.#series.isDue(series, now)) this.#enqueue(series);
  }

  #update(): void {
    for (const series of this.#series.due(this.#options.clock.monotonic())) this.#enqueue(series);
  }

  #enqueue(series: EventSeries): void {
    if (series.isWriting || (this.#waiting.length >= MAX_WAITING && !this.#makeRoom(series))) return;
    series.isWriting = true;
    // The first time of an Event is that of its first occurrence, whatever comes until its turn.
    this.#waiting.push({ series, eventTime: series.lastTime });
    if (this.#active >= MAX_WRITES) return;
    this.#active += 1;
    const writer = this.#writeAll().finally(() => {
      this.#writers.delete(writer);
    });
    this.#writers.add(writer);
  }

  /** Whether there is room for one more, if need be in place of one that warns of nothing. */
  #makeRoom(series: EventSeries): boolean {
    // A count comes with a later one.
    if (series.name !== null) return false;
    this.#dropped += 1;
    const isWarning = series.draft.type === 'Warning';
    const place = isWarning ? this.#waiting.findLastIndex((each) => each.series.draft.type !== 'Warning') : -1;
    const left = place === -1 ? series : (this.#waiting.splice(place, 1)[0]?.series ?? series);
    left.isWriting = false;
    if (left.name === null) this.#series.forget(left);
    return left !== series;
  }

  /** Writes what waits, one after the other. */
  async #writeAll(): Promise<void> {
    for (;;) {
      await this.#whenNotBusy();
      const next = this.#waiting.shift();
      if (next === undefined) break;
      await this.#write(next);
      const { series } = next;
      series.isWriting = false;
      // What happened while it was written, such as the second time.
      if (series.name !== null && this.#series.isDue(series, this.#options.clock.monotonic())) this.#enqueue(series);
    }
    this.#active -= 1;
    if (this.#active > 0 || this.#dropped === 0) return;
    this.#options.logger.warn({ dropped: this.#dropped }, 'too much happened at once; not all of it became events');
    this.#dropped = 0;
  }

  /** Statuses say more than events: thousands of them are written first. */
  async #whenNotBusy(): Promise<void> {
    const { isBusy, clock } = this.#options;
    const until = clock.monotonic() + MAX_BUSY_MS;
    while (!this.#stopping && isBusy?.() === true && clock.monotonic() < until)
      await sleep(BUSY_LOOK_MS, undefined, { ref: false });
  }

  async #write({ series, eventTime }: Waiting): Promise<void> {
    const { logger, clock } = this.#options;
    try {
      if (series.name === null) await this.#create(series, eventTime);
      else await this.#count(series, series.name);
      this.#failing = false;
    } catch (error) {
      if (series.name === null) this.#series.forget(series);
      // Not allowed to change events, as with a Role of a version before: they stay without a count.
      else if (kubeCode(error) === 403) series.writtenCount = Number.POSITIVE_INFINITY;
      else this.#series.delay(series, clock.monotonic());
      if (!this.#failing) logger.warn({ reason: kubeReason(error) }, 'events cannot be recorded');
      this.#failing = true;
    }
  }

  async #count(series: EventSeries, name: string): Promise<void> {
    const { api, clock } = this.#options;
    const { count, lastTime: lastObservedTime } = series;
    try {
      await api.countEvent(series.draft.regarding.namespace, name, { count, lastObservedTime });
    } catch (error) {
      if (kubeCode(error) !== 404) throw error;
      // The API server deletes events after a while, an hour by default.
      series.name = null;
      series.count = 1;
      await this.#create(series, lastObservedTime);
      return;
    }
    series.writtenCount = count;
    this.#series.delay(series, clock.monotonic());
  }

  async #create(series: EventSeries, eventTime: string): Promise<void> {
    const { draft } = series;
    const { namespace, name: object } = draft.regarding;
    const name = `${object.slice(0, 200)}.${randomUUID().slice(0, 13)}`;
    await this.#options.api.createEvent(namespace, {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name, namespace },
      eventTime,
      reportingController: `${API_GROUP}/gateway`,
      reportingInstance: this.#options.instance.slice(0, 128),
      ...draft,
    });
    series.name = name;
    series.writtenCount = 1;
  }
}
