import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { API_GROUP } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { Transition } from '../reconcile/reconciler.ts';
import type { AppliedChange } from '../registry/resourceWrites.ts';
import { type KubeApi, type KubeEvent, microTime } from '../sources/kubernetes/kubeApi.ts';
import { kubeReason } from '../sources/kubernetes/kubeErrors.ts';
import { changeEvent, type EventDraft, transitionEvent } from './eventDrafts.ts';

/** Events that wait at most; beyond that the newest are dropped, those that warn of nothing first. */
const MAX_WAITING = 1_000;
/** Events of one object in a row, and the time after which there may be one more, as in client-go. */
const BURST = 25;
const REFILL_MS = 300_000;
/** Objects of which events are counted. */
const MAX_OBJECTS = 4_096;
/** Longest time for which an event waits for the API server to be less busy with statuses, and time between two looks. */
const MAX_BUSY_MS = 30_000;
const BUSY_LOOK_MS = 100;
/** Longest time for the last events at a stop. */
const STOP_TIMEOUT_MS = 2_000;

export interface EventRecorderOptions {
  readonly api: Pick<KubeApi, 'createEvent'>;
  /** Name of this process. */
  readonly instance: string;
  /** The gateway's Lease: what events of things without a resource are about. */
  readonly lease: { readonly namespace: string; readonly name: string };
  /** True while statuses are written, which events wait for. */
  readonly isBusy?: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Records transitions of conditions and changes by REST as Events (events.k8s.io/v1), one each, in the background, when statuses
 * leave room. Never throws, never blocks its caller.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #waiting: KubeEvent[] = [];
  /** By object: events that it may have now, and when that was counted in monotonic milliseconds. */
  readonly #rooms = new Map<string, { readonly left: number; readonly at: number }>();
  #writing: Promise<void> | null = null;
  #dropped = 0;
  #isFailing = false;
  #isStopping = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
  }

  recordTransition(transition: Transition): void {
    this.#record(transitionEvent(transition));
  }

  /** Records a change by REST, if it changed something. */
  recordChange(change: AppliedChange): void {
    this.#record(changeEvent(change, this.#options.lease));
  }

  /** Writes what waits, for a short time at most, and ends. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await within(this.#writing ?? Promise.resolve(), STOP_TIMEOUT_MS, undefined);
  }

  #record(draft: EventDraft | null): void {
    if (draft === null) return;
    if (!this.#hasRoom(draft)) {
      this.#dropped += 1;
      return;
    }
    const { instance, clock } = this.#options;
    const { namespace, name: object } = draft.regarding;
    this.#waiting.push({
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: `${object.slice(0, 200)}.${randomUUID().slice(0, 13)}`, namespace },
      // The time is now, not when its turn has come.
      eventTime: microTime(clock.now()),
      reportingController: `${API_GROUP}/gateway`,
      reportingInstance: instance.slice(0, 128),
      ...draft,
    });
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
    });
  }

  #hasRoom({ regarding, type }: EventDraft): boolean {
    const now = this.#options.clock.monotonic();
    const key = JSON.stringify([regarding.kind, regarding.namespace, regarding.name]);
    const before = this.#rooms.get(key) ?? { left: BURST, at: now };
    const left = Math.min(BURST, before.left + (now - before.at) / REFILL_MS);
    this.#rooms.delete(key);
    this.#rooms.set(key, { left: left < 1 ? left : left - 1, at: now });
    const oldest = this.#rooms.keys().next().value;
    if (this.#rooms.size > MAX_OBJECTS && oldest !== undefined) this.#rooms.delete(oldest);
    if (left < 1) return false;
    if (this.#waiting.length < MAX_WAITING) return true;
    const place = type === 'Warning' ? this.#waiting.findLastIndex((event) => event.type !== 'Warning') : -1;
    if (place === -1) return false;
    this.#waiting.splice(place, 1);
    this.#dropped += 1;
    return true;
  }

  async #writeAll(): Promise<void> {
    const { api, logger } = this.#options;
    for (;;) {
      await this.#whenNotBusy();
      const event = this.#waiting.shift();
      if (event === undefined) break;
      try {
        await api.createEvent(event.metadata.namespace, event);
        this.#isFailing = false;
      } catch (error) {
        if (!this.#isFailing) logger.warn({ reason: kubeReason(error) }, 'events cannot be recorded');
        this.#isFailing = true;
      }
    }
    if (this.#dropped > 0) logger.warn({ dropped: this.#dropped }, 'event rate limit exceeded; events dropped');
    this.#dropped = 0;
  }

  /** Statuses are worth more than events: thousands of them are written first. */
  async #whenNotBusy(): Promise<void> {
    const { isBusy, clock } = this.#options;
    const until = clock.monotonic() + MAX_BUSY_MS;
    while (!this.#isStopping && isBusy?.() === true && clock.monotonic() < until)
      await sleep(BUSY_LOOK_MS, undefined, { ref: false });
  }
}
