import { writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ResourceSource } from '../../../src/operator/sources/source.ts';
import { type AdmissionCounts, noCounts } from '../../../src/routing/admissionCounts.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import type { Store } from '../../../src/store/store.ts';
import { type OperatorRig, quickDatabase, quickDirectory, startOperator } from '../../support/operatorRig.ts';
import { worldOf } from '../../support/world.ts';

const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });
const manifest = (kind: string, name: string, spec: object): string =>
  `---\n${JSON.stringify({ apiVersion: 'enginegateway.dev/v1beta1', kind, metadata: { name }, spec })}\n`;
const groupKey = { kind: 'RoutingGroup', namespace: 'default', name: 'etl' } as const;
const limitKey = { kind: 'QueryLimit', namespace: 'default', name: 'per-user' } as const;

const world = worldOf('test');
let store: Store;
const rigs: OperatorRig[] = [];
beforeEach(async () => {
  store = await world.store();
});
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.stop();
});
const start = async (source: ResourceSource, admissionCounts?: AdmissionCounts): Promise<OperatorRig> => {
  const rig = await startOperator(store, source, {
    controller: admissionCounts === undefined ? {} : { admissionCounts },
  });
  rigs.push(rig);
  return rig;
};
const policyOf = ({ table }: OperatorRig) => {
  const { groups, limits } = table.current.admission;
  return [groups.get('etl')?.maxRunning ?? null, limits.map(({ key, maxRunning }) => `${key} ${maxRunning}`)];
};
const condition = ({ source }: OperatorRig, key: Parameters<ResourceSource['get']>[0], type: string) => {
  const found = source.get(key)?.status?.conditions?.find((each) => each.type === type);
  return found === undefined ? null : `${found.status} ${found.reason}`;
};

describe('limits in a directory', () => {
  const write = (text: string): Promise<void> => writeFile(world.path('limits.yaml'), text);
  const group = (spec: object) => manifest('RoutingGroup', 'etl', spec);
  const cluster = (name: string) =>
    manifest('EngineCluster', name, { proxyTo: `http://${name}:8080`, routingGroup: name });
  const limit = (spec: object) =>
    manifest('QueryLimit', 'per-user', { match: { everyone: true }, per: 'User', ...spec });

  test('are in the routing table, follow changes, and say what became of them', async () => {
    await write(group({ maxRunningQueries: 5, fallbacks: ['adhoc'] }) + limit({ maxRunningQueries: 2 }));
    const rig = await start(quickDirectory(world.folder));
    expect(policyOf(rig)).toEqual([5, ['default/per-user 2']]);
    await until(() => expect(condition(rig, groupKey, 'Ready')).toBe('False GroupNotFound'));
    await until(() => expect(condition(rig, limitKey, 'Ready')).toBe('True Ready'));
    expect((await store.resources.all(['RoutingGroup', 'QueryLimit'])).map(({ name }) => name).sort()).toEqual([
      'etl',
      'per-user',
    ]);
    // What is not valid leaves what was in force.
    await write(group({ maxRunningQueries: 7, fallbacks: ['etl'] }) + limit({ maxRunningQueries: 3 }));
    await until(() => expect(policyOf(rig)).toEqual([5, ['default/per-user 3']]));
    await until(() => expect(condition(rig, groupKey, 'Stalled')).toBe('True InvalidSpec'));
    await write(group({ maxRunningQueries: 7 }));
    await until(() => expect(policyOf(rig)).toEqual([7, []]));
    await until(async () => expect(await store.resources.all(['QueryLimit'])).toEqual([]));
  });

  test('a group is ready while a cluster of it, or of its fallbacks, takes queries', async () => {
    const clusters = cluster('etl') + cluster('adhoc');
    const missing = limit({ maxRunningQueries: 1, match: { routingGroups: [{ value: 'none' }] } });
    await write(group({ fallbacks: ['adhoc'] }) + clusters + missing);
    const rig = await start(quickDirectory(world.folder));
    const set = (name: string, status: 'HEALTHY' | 'UNHEALTHY') =>
      rig.table.setHealth(name, `http://${name}:8080`, { ...neverChecked, status, reason: '' });
    const eligible = () => (rig.source.get(groupKey)?.status as { eligibleClusters?: number })?.eligibleClusters;
    await until(() => expect(condition(rig, groupKey, 'Ready')).toBe('Unknown Pending'));
    set('etl', 'HEALTHY');
    await until(() => expect([condition(rig, groupKey, 'Ready'), eligible()]).toEqual(['True Ready', 1]));
    set('etl', 'UNHEALTHY');
    set('adhoc', 'UNHEALTHY');
    await until(() => expect([condition(rig, groupKey, 'Ready'), eligible()]).toEqual(['False NoEligibleClusters', 0]));
    set('adhoc', 'HEALTHY');
    await until(() => expect([condition(rig, groupKey, 'Ready'), eligible()]).toEqual(['True Ready', 0]));
    expect(condition(rig, limitKey, 'Ready')).toBe('False GroupNotFound');
  });

  test('their statuses have counts, which are written again when they change', async () => {
    await write(group({ maxRunningQueries: 5 }) + limit({ maxRunningQueries: 2 }));
    let running = 1;
    let changed = (): void => undefined;
    const rig = await start(quickDirectory(world.folder), {
      ...noCounts,
      group: () => ({ running, waiting: 4, refused: 0 }),
      limit: () => ({ running, waiting: 0, refused: 9 }),
      onChange: (listener) => {
        changed = listener;
        return () => undefined;
      },
    });
    const counts = (runningQueries: number, queuedQueries: number, rejectedQueries: number) => ({
      ...{ runningQueries, queuedQueries, rejectedQueries },
    });
    const status = (key: typeof groupKey | typeof limitKey) => rig.source.get(key)?.status;
    await until(() => expect(status(groupKey)).toMatchObject({ clusters: 0, ...counts(1, 4, 0) }));
    await until(() => expect(status(limitKey)).toMatchObject(counts(1, 0, 9)));
    const written = vi.spyOn(rig.source, 'patchStatus');
    const began = performance.now();
    for (running = 2; running < 5; running++) {
      changed();
      await new Promise(setImmediate);
    }
    await until(() => expect(status(groupKey)).toMatchObject({ runningQueries: 5 }));
    await until(() => expect(status(limitKey)).toMatchObject({ runningQueries: 5 }));
    // Six times the interval of others lies between two writes, which are each of a resource.
    expect(written.mock.calls.length).toBeLessThanOrEqual(2 * (2 + (performance.now() - began) / 300));
  });
});

test('limits in the database are followed by every replica', async () => {
  const [first, second] = [await start(quickDatabase(store)), await start(quickDatabase(store))];
  await first.source.create({ ...groupKey, spec: { maxRunningQueries: 5 } });
  await first.source.create({ ...limitKey, spec: { match: { everyone: true }, per: 'All', maxRunningQueries: 2 } });
  for (const rig of [first, second]) await until(() => expect(policyOf(rig)).toEqual([5, ['default/per-user 2']]));
  for (const rig of [first, second]) {
    await until(() => expect(condition(rig, limitKey, 'Ready')).toBe('True Ready'));
    await until(() => expect(condition(rig, groupKey, 'Ready')).toBe('False NoClusters'));
  }
  const { admission } = second.table.current;
  await second.source.delete(limitKey, null);
  for (const rig of [first, second]) await until(() => expect(policyOf(rig)).toEqual([5, []]));
  expect(second.table.current.admission.groups.get('etl')).toBe(admission.groups.get('etl'));
});
