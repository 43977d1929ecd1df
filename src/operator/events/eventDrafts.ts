import { isDeepStrictEqual } from 'node:util';
import type { Condition } from '../../model/condition.ts';
import { API_GROUP_VERSION } from '../../model/resource.ts';
import type { Transition } from '../reconcile/reconciler.ts';
import { type AppliedChange, type ResourceReference, referenceTo } from '../registry/resourceWrites.ts';
import type { KubeEvent } from '../sources/kubernetes/kubeApi.ts';

/** Longest note of an event in bytes (events.k8s.io/v1). */
const MAX_NOTE = 1_024;
const MAX_REASON = 128;
/** Longest value of a field in a note, in bytes: several fields shall have room. */
const MAX_VALUE = 200;

/** Content of an event; the recorder adds time and process. */
export type EventDraft = Pick<KubeEvent, 'regarding' | 'action' | 'reason' | 'note' | 'type'>;

/**
 * The event of a condition's transition; null for one without event: a status that is written for the first time
 * reports only whether the resource is accepted, and what is wrong. Pure.
 */
export function transitionEvent({ resource, condition, before }: Transition): EventDraft | null {
  const { type, status, reason, message } = condition;
  const isDrift = type === 'Drift';
  if (!(isDrift ? reason !== 'InStep' : isNews(condition, before))) return null;
  const bad = isDrift || (type === 'Stalled' ? status === 'True' : status === 'False');
  return {
    regarding: regardingResource(referenceTo(resource)),
    action: `Set${type}`,
    reason: `${type}${status === 'Unknown' ? 'Unknown' : ''}${reason === type ? '' : reason}`.slice(0, MAX_REASON),
    note: cutBytes(`${type}=${status}: ${message}`, MAX_NOTE),
    type: bad ? 'Warning' : 'Normal',
  };
}

function isNews({ type, status }: Condition, before: Condition | null): boolean {
  if (before !== null) return before.status !== status;
  return type === 'Accepted' || status === 'False' || type === 'Stalled';
}

/**
 * The event of a change by REST: who made it, what it is about, before and after; null if nothing changed. Pure.
 * @param lease the gateway's own Lease, which events of things without a resource are about
 */
export function changeEvent(
  change: AppliedChange,
  lease: { readonly namespace: string; readonly name: string },
): EventDraft | null {
  const { before, after, regarding, object } = change;
  if (isDeepStrictEqual(before, after)) return null;
  const { verb, past } = deed(before, after);
  const who = `${change.user} (${[change.roles.join(', '), change.recognisedBy].filter((part) => part !== '').join('; ')})`;
  return {
    regarding:
      regarding === 'gateway'
        ? { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...lease }
        : regardingResource(regarding),
    action: verb,
    reason: `${past}ByRest`,
    note: cutBytes(`${who} ${past.toLowerCase()} ${object}: ${difference(before, after)}`, MAX_NOTE),
    type: 'Normal',
  };
}

function regardingResource(reference: ResourceReference): EventDraft['regarding'] {
  return { apiVersion: API_GROUP_VERSION, ...reference };
}

function deed(before: unknown, after: unknown): { readonly verb: string; readonly past: string } {
  if (before === null) return { verb: 'Add', past: 'Added' };
  if (after === null) return { verb: 'Delete', past: 'Deleted' };
  const changed = changedFields(before, after);
  if (changed.length !== 1 || changed[0] !== 'active') return { verb: 'Change', past: 'Changed' };
  return fieldsOf(after).active === true
    ? { verb: 'Activate', past: 'Activated' }
    : { verb: 'Deactivate', past: 'Deactivated' };
}

function difference(before: unknown, after: unknown): string {
  if (before === null || after === null) {
    return Object.entries(fieldsOf(before ?? after))
      .map(([field, value]) => `${field} ${valueText(value)}`)
      .join(', ');
  }
  const [was, is] = [fieldsOf(before), fieldsOf(after)];
  return changedFields(before, after)
    .map((field) => `${field} ${valueText(was[field])} → ${valueText(is[field])}`)
    .join(', ');
}

function changedFields(before: unknown, after: unknown): readonly string[] {
  const [was, is] = [fieldsOf(before), fieldsOf(after)];
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].filter(
    (field) => !isDeepStrictEqual(was[field], is[field]),
  );
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : { value };
}

function valueText(value: unknown): string {
  if (value === undefined || value === null) return 'unset';
  return cutBytes(JSON.stringify(value), MAX_VALUE);
}

/** A text of at most so many bytes of UTF-8, cut between characters and marked where it was cut. */
function cutBytes(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  const mark = '…';
  let room = bytes - Buffer.byteLength(mark);
  let end = 0;
  for (const character of text) {
    room -= Buffer.byteLength(character);
    if (room < 0) break;
    end += character.length;
  }
  return text.slice(0, end) + mark;
}
