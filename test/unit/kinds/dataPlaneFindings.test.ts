import { expect, test } from 'vitest';
import { DataPlaneFindings } from '../../../src/kinds/dataPlaneFindings.ts';
import type { ResourceOutcome } from '../../../src/kinds/outcome.ts';
import { API_GROUP_VERSION, keyText, type Resource } from '../../../src/model/resource.ts';
import type { ReplicaObservation } from '../../../src/store/store.ts';

const key = { kind: 'EngineCluster', namespace: 'default', name: 'a' };
const resource: Resource = {
  apiVersion: API_GROUP_VERSION,
  kind: key.kind,
  metadata: {
    ...{ name: 'a', namespace: 'default', uid: 'u', resourceVersion: '1', generation: 1 },
    creationTimestamp: '2026-01-01T00:00:00Z',
  },
  spec: {},
};
const outcome: ResourceOutcome = { key, resource, registryName: 'a', paused: false };
const outcomes = new Map([[keyText(key), outcome]]);
const honoured = { ok: true, message: 'honoured' };
const refused = { ok: false, message: 'refused' };

/** The other replica's observation of the time 1,000, in an answer that the database made at a later time. */
const answerOf = (time: number): ReplicaObservation => ({
  ...{ key, type: 'ForwardedHeaders', uid: 'u', generation: 1, ...refused },
  ...{ replica: 'other', observedAt: 1_000, ageMs: time - 1_000, remainingMs: 60_000 },
});

test('an observation that is read again late is no later than one that this replica made since', () => {
  let now = 1_005;
  const findings = new DataPlaneFindings({ now: () => now, monotonic: () => now });
  findings.takeOthers([answerOf(1_004)]);
  expect(findings.forwardedHeaders(outcome)).toEqual(refused);
  now = 1_010;
  findings.noteForwardedHeaders('a', honoured, outcomes);
  // The answer waits until this process has time for it.
  now = 1_200;
  expect(findings.takeOthers([answerOf(1_050)])).toEqual([]);
  expect(findings.forwardedHeaders(outcome)).toEqual(honoured);
});

test('an observation that seemed later when it was read late is put in its place when it is read again', () => {
  let now = 1_050;
  const findings = new DataPlaneFindings({ now: () => now, monotonic: () => now });
  findings.noteForwardedHeaders('a', honoured, outcomes);
  now = 1_200;
  findings.takeOthers([answerOf(1_010)]);
  expect(findings.forwardedHeaders(outcome)).toEqual(refused);
  now = 1_300;
  expect(findings.takeOthers([answerOf(1_299)])).toEqual([keyText(key)]);
  expect(findings.forwardedHeaders(outcome)).toEqual(honoured);
});

test('an observation that is made again is the latest', () => {
  let now = 1_005;
  const findings = new DataPlaneFindings({ now: () => now, monotonic: () => now });
  findings.takeOthers([answerOf(1_005)]);
  now = 1_010;
  findings.noteForwardedHeaders('a', honoured, outcomes);
  now = 5_000;
  expect(findings.takeOthers([{ ...answerOf(5_000), observedAt: 4_900, ageMs: 100 }])).toEqual([keyText(key)]);
  expect(findings.forwardedHeaders(outcome)).toEqual(refused);
});
