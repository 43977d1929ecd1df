import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { API_GROUP } from '../../model/resource.ts';
import type { ForeignWrite } from '../reconcile/foreignWrites.ts';
import type { Transition } from '../reconcile/statusWriter.ts';
import type { AppliedChange } from '../registry/appliedChange.ts';
import { type KubeApi, microTime } from '../sources/kubernetes/kubeApi.ts';
import { kubeReason } from '../sources/kubernetes/kubeErrors.ts';
import { Slots } from '../sources/kubernetes/slots.ts';
import { changeEvent, type EventDraft, foreignWriteEvent, transitionEvent } from './eventDrafts.ts';

/** Events that wait at most; beyond that the newest are left out. */
const MAX_PENDING = 1_000;

export interface EventRecorderOptions {
  readonly api: Pick<KubeApi, 'createEvent'>;
  /** Name of this process. */
  readonly instance: string;
  /** The gateway's Lease: what events of things without a resource are about. */
  readonly lease: { readonly namespace: string; readonly name: string };
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Records transitions of conditions and changes by REST as events (events.k8s.io/v1): one each, in the background.
 * Never throws, never blocks its caller.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #slots = new Slots(2);
  #pending = 0;
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
    if (this.#pending >= MAX_PENDING) {
      this.#dropped += 1;
      return;
    }
    this.#pending += 1;
    // Now, not when its turn has come.
    const eventTime = microTime(this.#options.clock.now());
    void this.#slots
      .run(() => this.#create(draft, eventTime))
      .finally(() => {
        this.#pending -= 1;
      });
  }

  async #create(draft: EventDraft, eventTime: string): Promise<void> {
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
    if (this.#pending === 1 && this.#dropped > 0) {
      logger.warn({ dropped: this.#dropped }, 'too much happened at once; not all of it became events');
      this.#dropped = 0;
    }
  }
}
