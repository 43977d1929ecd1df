import { describe, expect, test } from 'vitest';
import type { Condition } from '../../../src/model/condition.ts';
import type { Resource } from '../../../src/model/resource.ts';
import { changeEvent, transitionEvent } from '../../../src/operator/events/eventDrafts.ts';
import type { AppliedChange } from '../../../src/operator/registry/appliedChange.ts';

const lease = { namespace: 'gateway', name: 'engine-gateway' };
const cluster = { name: 'a', proxyTo: 'http://a:8080', active: true, routingGroup: 'adhoc' };
const change = (before: unknown, after: unknown, more: Partial<AppliedChange> = {}): AppliedChange => ({
  object: 'cluster a',
  regarding: { kind: 'EngineCluster', namespace: 'team', name: 'a', uid: 'u', resourceVersion: '7' },
  before,
  after,
  user: 'alice',
  roles: ['ADMIN', 'API'],
  recognisedBy: 'session',
  ...more,
});

describe('the event of a change by REST', () => {
  test.each<[string, unknown, unknown, string, string, string]>([
    [
      'an addition',
      null,
      cluster,
      'Add',
      'AddedByRest',
      'added cluster a: name "a", proxyTo "http://a:8080", active true, routingGroup "adhoc"',
    ],
    [
      'a deletion',
      cluster,
      null,
      'Delete',
      'DeletedByRest',
      'deleted cluster a: name "a", proxyTo "http://a:8080", active true, routingGroup "adhoc"',
    ],
    [
      'a change',
      cluster,
      { ...cluster, active: false, routingGroup: 'etl' },
      'Change',
      'ChangedByRest',
      'changed cluster a: active true → false, routingGroup "adhoc" → "etl"',
    ],
    [
      'an activation',
      { ...cluster, active: false },
      cluster,
      'Activate',
      'ActivatedByRest',
      'activated cluster a: active false → true',
    ],
    [
      'a deactivation',
      cluster,
      { ...cluster, active: false },
      'Deactivate',
      'DeactivatedByRest',
      'deactivated cluster a: active true → false',
    ],
    [
      'a field that comes and one that goes',
      { a: 1, b: null },
      { b: [2] },
      'Change',
      'ChangedByRest',
      'changed cluster a: a 1 → unset, b unset → [2]',
    ],
  ])('%s', (_, before, after, action, reason, note) => {
    expect(changeEvent(change(before, after), lease)).toEqual({
      regarding: {
        apiVersion: 'enginegateway.dev/v1',
        kind: 'EngineCluster',
        namespace: 'team',
        name: 'a',
        uid: 'u',
        resourceVersion: '7',
      },
      action,
      reason,
      note: `alice (ADMIN, API; session) ${note}`,
      type: 'Normal',
    });
  });

  test('a write that changed nothing is none', () => {
    expect(changeEvent(change(cluster, { ...cluster }), lease)).toBeNull();
  });

  test('a change without a resource is an event of the gateway itself', () => {
    const event = changeEvent(change(null, { name: 'g' }, { regarding: 'gateway', object: 'resource group 1' }), lease);
    expect(event?.regarding).toEqual({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...lease });
    expect(event?.note).toBe('alice (ADMIN, API; session) added resource group 1: name "g"');
  });

  test.each(['x', 'ä', '😀'])('a long note of %s is cut to 1,024 bytes between characters', (character) => {
    const fields = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`f${index}`, character.repeat(300)]));
    const note = changeEvent(change(null, fields), lease)?.note ?? '';
    expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1_024);
    expect(Buffer.byteLength(note)).toBeGreaterThan(1_015);
    expect(note).toMatch(/…$/);
    expect(note.isWellFormed()).toBe(true);
  });
});

describe('the event of a transition', () => {
  const resource: Resource = {
    apiVersion: 'enginegateway.dev/v1',
    kind: 'EngineCluster',
    metadata: {
      name: 'a',
      namespace: 'team',
      uid: 'u',
      resourceVersion: '7',
      generation: 1,
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {},
  };
  const condition = (type: string, status: Condition['status'], reason = type): Condition => ({
    type,
    status,
    reason,
    message: 'why',
    lastTransitionTime: '2026-01-01T00:00:00Z',
    observedGeneration: 1,
  });

  test.each<[string, Condition, Condition | null, string | null]>([
    ['accepted for the first time', condition('Accepted', 'True'), null, 'Accepted Normal Accepted=True: why'],
    ['healthy for the first time', condition('Healthy', 'True'), null, null],
    ['pending for the first time', condition('Healthy', 'Unknown', 'Pending'), null, null],
    [
      'not stored for the first time',
      condition('Ready', 'False', 'NotStored'),
      null,
      'ReadyNotStored Warning Ready=False: why',
    ],
    ['stalled', condition('Stalled', 'True', 'InvalidSpec'), null, 'StalledInvalidSpec Warning Stalled=True: why'],
    [
      'turning bad',
      condition('Healthy', 'False', 'Unhealthy'),
      condition('Healthy', 'True'),
      'HealthyUnhealthy Warning Healthy=False: why',
    ],
    [
      'turning unknown',
      condition('Healthy', 'Unknown', 'Pending'),
      condition('Healthy', 'True'),
      'HealthyUnknownPending Normal Healthy=Unknown: why',
    ],
    ['another reason alone', condition('Ready', 'False', 'X'), condition('Ready', 'False', 'Y'), null],
  ])('%s', (_, after, before, expected) => {
    const event = transitionEvent({ resource, condition: after, before });
    expect(event === null ? null : `${event.reason} ${event.type} ${event.note}`).toBe(expected);
  });

  test.each<[string, Condition, string | null]>([
    ['EngineCluster', condition('Drift', 'True', 'Overruled'), 'DriftOverruled Warning Drift=True: why'],
    ['ResourceGroupConfiguration', condition('Drift', 'False', 'InStep'), null],
    ['ResourceGroupConfiguration', condition('Drift', 'False', 'Repaired'), 'DriftRepaired Warning Drift=False: why'],
    ['ResourceGroupConfiguration', condition('Drift', 'True', 'Changed'), 'DriftChanged Warning Drift=True: why'],
  ])('a drift of a %s: %o', (kind, after, expected) => {
    for (const before of [null, after, condition('Drift', 'False', 'InStep')]) {
      const event = transitionEvent({ resource: { ...resource, kind }, condition: after, before });
      expect(event === null ? null : `${event.reason} ${event.type} ${event.note}`).toBe(expected);
    }
  });
});
