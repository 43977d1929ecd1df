import { randomUUID } from 'node:crypto';
import { V1MicroTime } from '@kubernetes/client-node';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { API_GROUP, API_GROUP_VERSION } from '../../model/resource.ts';
import type { Transition } from '../statusWriter.ts';
import type { KubeApi } from './kubeApi.ts';
import { kubeReason } from './kubeErrors.ts';
import { Slots } from './slots.ts';

/** Longest note of an event (events.k8s.io/v1). */
const MAX_NOTE = 1_024;

/** Options of an event recorder. */
export interface EventRecorderOptions {
  readonly api: Pick<KubeApi, 'createEvent'>;
  /** Name of this process. */
  readonly instance: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Events that wait at most; beyond that the newest are left out: 1,000. */
  readonly limit?: number;
}

/** Tells transitions of conditions as events (events.k8s.io/v1): one each, off the way of everything else. */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #slots = new Slots(2);
  #pending = 0;
  #dropped = 0;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
  }

  /** Records a transition, if it is one to be told. Never throws, never waits. */
  record(transition: Transition): void {
    if (!isTold(transition)) return;
    if (this.#pending >= (this.#options.limit ?? 1_000)) {
      this.#dropped += 1;
      return;
    }
    this.#pending += 1;
    void this.#slots
      .run(() => this.#create(transition))
      .finally(() => {
        this.#pending -= 1;
      });
  }

  async #create({ resource, condition }: Transition): Promise<void> {
    const { namespace, name, uid, resourceVersion } = resource.metadata;
    const bad = condition.type === 'Stalled' ? condition.status === 'True' : condition.status === 'False';
    const instance = this.#options.instance.slice(0, 128);
    try {
      await this.#options.api.createEvent(namespace, {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { name: `${name.slice(0, 200)}.${randomUUID().slice(0, 13)}`, namespace },
        eventTime: new V1MicroTime(this.#options.clock.now()),
        reportingController: `${API_GROUP}/gateway`,
        reportingInstance: instance,
        action: `Set${condition.type}`,
        reason:
          `${condition.type}${condition.status === 'Unknown' ? 'Unknown' : ''}${condition.reason === condition.type ? '' : condition.reason}`.slice(
            0,
            128,
          ),
        regarding: { apiVersion: API_GROUP_VERSION, kind: resource.kind, namespace, name, uid, resourceVersion },
        note: `${condition.type}=${condition.status}: ${condition.message}`.slice(0, MAX_NOTE),
        type: bad ? 'Warning' : 'Normal',
      });
    } catch (error) {
      this.#options.logger.debug({ reason: kubeReason(error) }, 'an event could not be recorded');
    }
    if (this.#pending === 1 && this.#dropped > 0) {
      this.#options.logger.warn({ dropped: this.#dropped }, 'too many transitions at once; not all became events');
      this.#dropped = 0;
    }
  }
}

/** A status that is written for the first time tells only whether it is accepted, and what is wrong. */
function isTold({ condition, before }: Transition): boolean {
  if (before !== null) return before.status !== condition.status;
  return condition.type === 'Accepted' || condition.status === 'False' || condition.type === 'Stalled';
}
