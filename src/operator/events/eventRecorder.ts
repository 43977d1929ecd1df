import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { API_GROUP } from '../../model/resource.ts';
import type { ForeignWrite } from '../reconcile/foreignWrites.ts';
import type { Transition } from '../reconcile/statusWriter.ts';
import type { AppliedChange } from '../registry/appliedChange.ts';
import { type KubeApi, microTime } from '../sources/kubernetes/kubeApi.ts';
import { kubeReason } from '../sources/kubernetes/kubeErrors.ts';
import { changeEvent, type EventDraft, foreignWriteEvent, transitionEvent } from './eventDrafts.ts';

/** Events that wait at most, as in client-go; beyond that the newest are left out, those that warn of nothing first. */
const MAX_WAITING = 1_000;
/** Events that are written at once. */
const MAX_WRITES = 2;
/** Longest time for which an event waits for the API server to be less busy with statuses, and time between two looks. */
const MAX_BUSY_MS = 30_000;
const BUSY_LOOK_MS = 100;

export interface EventRecorderOptions {
  readonly api: Pick<KubeApi, 'createEvent'>;
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
  readonly draft: EventDraft;
  /** When it happened. */
  readonly eventTime: string;
}

/**
 * Records transitions of conditions and changes by REST as events (events.k8s.io/v1): one each, in the background, when
 * statuses leave room. Never throws, never blocks its caller.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #waiting: Waiting[] = [];
  #writers = 0;
  #dropped = 0;
  #failing = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
  }

  /** Records a transition, if it has an event. */
  recordTransition(transition: Transition): void {
    this.#record(transitionEvent(transition));
  }

  /** Records a change by REST, if it changed something. */
  recordChange(change: AppliedChange): void {
    this.#record(changeEvent(change, this.#options.lease));
  }

  /** Records what became of a change of a row by another gateway. */
  recordForeignWrite(write: ForeignWrite): void {
    this.#record(foreignWriteEvent(write));
  }

  #record(draft: EventDraft | null): void {
    if (draft === null) return;
    if (this.#waiting.length >= MAX_WAITING) {
      this.#dropped += 1;
      const replaced =
        draft.type === 'Warning' ? this.#waiting.findLastIndex((each) => each.draft.type !== 'Warning') : -1;
      if (replaced === -1) return;
      this.#waiting.splice(replaced, 1);
    }
    // Now, not when its turn has come.
    this.#waiting.push({ draft, eventTime: microTime(this.#options.clock.now()) });
    if (this.#writers < MAX_WRITES) void this.#writeAll();
  }

  /** Writes what waits, one after the other. */
  async #writeAll(): Promise<void> {
    this.#writers += 1;
    for (;;) {
      await this.#whenNotBusy();
      const next = this.#waiting.shift();
      if (next === undefined) break;
      await this.#create(next);
    }
    this.#writers -= 1;
    if (this.#writers > 0 || this.#dropped === 0) return;
    this.#options.logger.warn({ dropped: this.#dropped }, 'too much happened at once; not all of it became events');
    this.#dropped = 0;
  }

  /** Statuses say more than events: thousands of them are written first. */
  async #whenNotBusy(): Promise<void> {
    const { isBusy, clock } = this.#options;
    const until = clock.monotonic() + MAX_BUSY_MS;
    while (isBusy?.() === true && clock.monotonic() < until) await sleep(BUSY_LOOK_MS, undefined, { ref: false });
  }

  async #create({ draft, eventTime }: Waiting): Promise<void> {
    const { api, instance, logger } = this.#options;
    const { namespace, name } = draft.regarding;
    try {
      await api.createEvent(namespace, {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { name: `${name.slice(0, 200)}.${randomUUID().slice(0, 13)}`, namespace },
        eventTime,
        reportingController: `${API_GROUP}/gateway`,
        reportingInstance: instance.slice(0, 128),
        ...draft,
      });
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) logger.warn({ reason: kubeReason(error) }, 'events cannot be recorded');
      this.#failing = true;
    }
  }
}
