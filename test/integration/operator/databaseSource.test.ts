import { pino } from 'pino';
import { beforeEach, expect, test } from 'vitest';
import { resourceKinds } from '../../../src/kinds/registry.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { DatabaseSource } from '../../../src/operator/sources/database/databaseSource.ts';
import type { Store } from '../../../src/store/store.ts';
import { clusterKey } from '../../support/operatorRig.ts';
import { worldOf } from '../../support/world.ts';

const logger = pino({ enabled: false });
const world = worldOf('test');
let store: Store;
beforeEach(async () => {
  store = await world.store();
});

/** Repository whose responses to statuses come only when the gate opens. */
function responsesLate(resources: Store['resources'], gate: Promise<void>): Store['resources'] {
  return new Proxy(resources, {
    get: (target, name) => {
      if (name === 'putStatus') {
        return async (...given: Parameters<Store['resources']['putStatus']>) => {
          const result = await target.putStatus(...given);
          await gate;
          return result;
        };
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** A source that follows no other replica's changes: no look at the database corrects what it has by itself. */
const unpolled = (resources = store.resources): DatabaseSource =>
  new DatabaseSource({
    ...{ kinds: resourceKinds, namespace: 'default', clock: systemClock, logger, pollMs: 3_600_000 },
    store: { ...store, resources },
  });
const spec = { proxyTo: 'http://a:8080', routingGroup: 'adhoc' };
const drift = {
  type: 'Drift',
  status: 'True',
  reason: 'ForeignWriteRefused',
  message: 'put back',
  lastTransitionTime: '2026-01-01T00:00:00Z',
  observedGeneration: 1,
} as const;

test('a resource that is deleted while the answer to its status is on the way stays deleted', async () => {
  const gate = Promise.withResolvers<void>();
  const resources = responsesLate(store.resources, gate.promise);
  const source = unpolled(resources);
  await source.start(5_000);
  const { metadata } = await source.create({ ...clusterKey('a'), spec });
  const status = { observedGeneration: 1, conditions: [] };
  const patch = source.patchStatus(clusterKey('a'), metadata.uid, status, null);
  expect(await source.delete(clusterKey('a'), null)).toBe(true);
  gate.resolve();
  await patch;
  expect(source.get(clusterKey('a'))).toBeNull();
  expect(source.list('EngineCluster')).toEqual([]);
  await source.stop();
});

test('a change by a replica that has read an older status leaves the one that is stored', async () => {
  const [leader, follower] = [unpolled(), unpolled()];
  await leader.start(5_000);
  const { metadata } = await leader.create({ ...clusterKey('a'), spec });
  await follower.start(5_000);
  const status = { observedGeneration: 1, conditions: [drift] };
  await leader.patchStatus(clusterKey('a'), metadata.uid, status, null);
  const change = { set: { routingGroup: 'etl' }, remove: [], annotations: {} };
  const expectedVersion = metadata.resourceVersion;
  const changed = await follower.apply(clusterKey('a'), change, { force: false, expectedVersion });
  expect(changed.status).toEqual(status);
  expect((await store.resources.get(clusterKey('a')))?.status).toEqual(status);
  for (const source of [leader, follower]) await source.stop();
});
