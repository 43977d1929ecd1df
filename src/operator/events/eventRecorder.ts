import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { apiVersionOf, type Resource } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { Transition } from '../reconcile/controller.ts';
import { type AppliedChange, referenceTo } from '../registry/resourceWrites.ts';
import { type KubeApi, type KubeEvent, microTime } from '../sources/kubernetes/kubeApi.ts';
import { kubeReason } from '../sources/kubernetes/kubeErrors.ts';

/** Events that wait at most; beyond that the newest are dropped, those that warn of nothing first. */
const MAX_WAITING = 1_000;
/** Events of one object in a row, and the time after which there may be one more, as in client-go. */
const BURST = 25;
const REFILL_MS = 300_000;
/** Objects of which events are counted. */
const MAX_OBJECTS = 4_096;
/** Longest time for the last events at a stop. */
const STOP_TIMEOUT_MS = 2_000;

/** Longest note of an event in bytes (events.k8s.io/v1). */
const MAX_NOTE = 1_024;
const MAX_REASON = 128;
/** Longest value of a field in a note, in bytes: several fields shall have room. */
const MAX_VALUE = 200;

/**
 * Records transitions of conditions and changes by REST as Events (events.k8s.io/v1), one each, in the background, one after the
 * other. Never throws, never blocks its caller.
 */
export class EventRecorder {
  readonly #api: Pick<KubeApi, 'createEvent'>;
  readonly #instance: string;
  readonly #lease: { readonly namespace: string; readonly name: string };
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #waiting: KubeEvent[] = [];
  /** By object: events that it may have now, and when that was counted in monotonic milliseconds. */
  readonly #rooms = new LRUCache<string, { readonly left: number; readonly at: number }>(growingTo(MAX_OBJECTS));
  #writing: Promise<void> | null = null;
  #dropped = 0;
  #isFailing = false;

  /**
   * @param instance name of this process
   * @param lease the gateway's Lease: what events of things without a resource are about
   */
  constructor(
    api: Pick<KubeApi, 'createEvent'>,
    instance: string,
    lease: { readonly namespace: string; readonly name: string },
    clock: Clock,
    logger: Logger,
  ) {
    this.#api = api;
    this.#instance = instance;
    this.#lease = lease;
    this.#clock = clock;
    this.#logger = logger;
  }

  recordTransition(transition: Transition): void {
    this.#record(transitionEvent(transition));
  }

  /** Records a change by REST, if it changed something. */
  recordChange(change: AppliedChange): void {
    this.#record(changeEvent(change, this.#lease));
  }

  recordWarning(resource: Resource, reason: string, note: string): void {
    const regarding = { apiVersion: apiVersionOf(resource.kind), ...referenceTo(resource) };
    this.#record({ regarding, action: reason, reason, note: cutBytes(note, MAX_NOTE), type: 'Warning' });
  }

  /** Writes what waits, for a short time at most, and ends. */
  async stop(): Promise<void> {
    await within(this.#writing ?? Promise.resolve(), STOP_TIMEOUT_MS, undefined);
  }

  #record(draft: EventDraft | null): void {
    if (draft === null) return;
    if (!this.#hasCapacity(draft)) {
      this.#dropped += 1;
      return;
    }
    // Events about resources of the cluster are in this namespace (Kubernetes: events.k8s.io).
    const { namespace: own, name: object } = draft.regarding;
    const namespace = own === '' ? 'default' : own;
    this.#waiting.push({
      metadata: { name: `${object.slice(0, 200)}.${randomUUID().slice(0, 13)}`, namespace },
      // The time is now, not when its turn has come.
      eventTime: microTime(this.#clock.now()),
      reportingInstance: this.#instance.slice(0, 128),
      ...draft,
    });
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null;
    });
  }

  #hasCapacity({ regarding, type }: EventDraft): boolean {
    const now = this.#clock.monotonic();
    const key = JSON.stringify([regarding.kind, regarding.namespace, regarding.name]);
    const before = this.#rooms.get(key) ?? { left: BURST, at: now };
    const left = Math.min(BURST, before.left + (now - before.at) / REFILL_MS);
    this.#rooms.set(key, { left: left < 1 ? left : left - 1, at: now });
    if (left < 1) return false;
    if (this.#waiting.length < MAX_WAITING) return true;
    const place = type === 'Warning' ? this.#waiting.findLastIndex((event) => event.type !== 'Warning') : -1;
    if (place === -1) return false;
    this.#waiting.splice(place, 1);
    this.#dropped += 1;
    return true;
  }

  async #writeAll(): Promise<void> {
    // The caller continues first.
    await Promise.resolve();
    for (let event = this.#waiting.shift(); event !== undefined; event = this.#waiting.shift()) {
      try {
        await this.#api.createEvent(event);
        this.#isFailing = false;
      } catch (error) {
        if (!this.#isFailing) this.#logger.warn({ reason: kubeReason(error) }, 'failed to record events');
        this.#isFailing = true;
      }
    }
    if (this.#dropped > 0) this.#logger.warn({ dropped: this.#dropped }, 'event rate limit exceeded; events dropped');
    this.#dropped = 0;
  }
}

/** Content of an event; the recorder adds time and process. */
type EventDraft = Pick<KubeEvent, 'regarding' | 'action' | 'reason' | 'note' | 'type'>;

/**
 * The event of a condition's transition; null for one without event: a status that is written for the first time
 * reports only whether the resource is accepted, and what is wrong. Pure.
 */
function transitionEvent({ resource, condition, before }: Transition): EventDraft | null {
  const { type, status, reason, message } = condition;
  const isDrift = type === 'Drift';
  const isBad = isDrift || type === 'SharedURL' || (type === 'Stalled' ? status === 'True' : status === 'False');
  const isFirstNews = /^(Accepted|SharedURL|Stalled)$/.test(type) || status === 'False';
  const isNews = before === null ? isFirstNews : before.status !== status;
  if (!(isDrift ? reason !== 'InStep' : isNews)) return null;
  return {
    regarding: { apiVersion: apiVersionOf(resource.kind), ...referenceTo(resource) },
    action: `Set${type}`,
    reason: `${type}${status === 'Unknown' ? 'Unknown' : ''}${reason === type ? '' : reason}`.slice(0, MAX_REASON),
    note: cutBytes(`${type}=${status}: ${message}`, MAX_NOTE),
    type: isBad && reason !== 'Terminating' ? 'Warning' : 'Normal',
  };
}

/**
 * The event of a change by REST: who made it, what it is about, before and after; null if nothing changed. Pure.
 * @param lease the gateway's own Lease, which events of things without a resource are about
 */
function changeEvent(
  { before, after, regarding, object, user, roles, recognisedBy }: AppliedChange,
  lease: { readonly namespace: string; readonly name: string },
): EventDraft | null {
  if (isDeepStrictEqual(before, after)) return null;
  // A rule of the rules file has no namespace.
  const isOfLease = regarding === 'gateway' || regarding.namespace === '';
  const { digest: _, ...reference } = isOfLease ? { ...lease, kind: 'Lease', digest: undefined } : regarding;
  const [was, is] = [fieldsOf(before), fieldsOf(after)];
  const fields = [...new Set([...Object.keys(was), ...Object.keys(is)])];
  const changed = fields.filter((field) => !isDeepStrictEqual(was[field], is[field]));
  const isWhole = before === null || after === null;
  const values = changed.map((field) =>
    isWhole
      ? `${field} ${valueText(is[field] ?? was[field])}`
      : `${field} ${valueText(was[field])} → ${valueText(is[field])}`,
  );
  const isSwitch = !isWhole && changed.length === 1 && changed[0] === 'active';
  const change = isSwitch ? (is.active === true ? 'Activate' : 'Deactivate') : 'Change';
  const verb = before === null ? 'Add' : after === null ? 'Delete' : change;
  const past = verb === 'Add' ? 'Added' : `${verb}d`;
  const who = `${user} (${[roles.join(', '), recognisedBy].filter((part) => part !== '').join('; ')})`;
  return {
    regarding: { apiVersion: isOfLease ? 'coordination.k8s.io/v1' : apiVersionOf(reference.kind), ...reference },
    action: verb,
    reason: `${past}ByRest`,
    note: cutBytes(`${who} ${past.toLowerCase()} ${object}: ${values.join(', ')}`, MAX_NOTE),
    type: 'Normal',
  };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' ? ((value ?? {}) as Record<string, unknown>) : { value };
}

function valueText(value: unknown): string {
  return value === undefined || value === null ? 'unset' : cutBytes(JSON.stringify(value), MAX_VALUE);
}

/** A text of at most so many bytes of UTF-8, cut between characters and marked where it was cut. */
function cutBytes(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  return `${new TextDecoder().decode(whole.subarray(0, bytes - 3), { stream: true })}…`;
}
