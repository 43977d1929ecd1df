import { mkdtemp, readdir, readFile, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { GatewayError } from '../../../src/model/errors.ts';
import { operatorMetrics } from '../../../src/operator/reconcile/metrics.ts';
import { VersionConflict } from '../../../src/operator/sources/source.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { Store } from '../../../src/store/store.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { makeAnotherLead } from '../../support/leaderRow.ts';
import {
  clusterKey,
  type OperatorRig,
  quickDirectory,
  type RigOptions,
  startOperator,
} from '../../support/operatorRig.ts';
import { putStored } from '../../support/storedResources.ts';

const logger = pino({ enabled: false });
const by = { by: 'api', force: false };
const manifest = (name: string, more = ''): string =>
  `apiVersion: enginegateway.dev/v1beta1\nkind: EngineCluster\nmetadata:\n  name: ${name}\nspec:\n  proxyTo: http://${name}:8080\n  routingGroup: adhoc\n${more}`;
const ruleManifest = (name: string, group: string): string =>
  `apiVersion: enginegateway.dev/v1beta1\nkind: RoutingRule\nmetadata:\n  name: ${name}\nspec:\n  condition: "true"\n  routeTo: {routingGroup: ${group}}\n`;
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });

let server: TestDatabase;
let settings: { jdbcUrl: string };
let store: KnexStore;
let directory: string;
const rigs: OperatorRig[] = [];

beforeAll(async () => {
  server = await databases[0]!.start();
});
afterAll(() => server.dispose());
beforeEach(async () => {
  settings = await server.create();
  store = await openStore({ ...settings, runMigrations: true, logger });
  directory = await mkdtemp(join(tmpdir(), 'eg-controller-'));
});
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.stop();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const write = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text);
const start = async (options: RigOptions = {}, own: Store = store): Promise<OperatorRig> => {
  const rig = await startOperator(own, quickDirectory(directory), options);
  rigs.push(rig);
  return rig;
};
const condition = (rig: OperatorRig, name: string, type: string) =>
  rig.source.get(clusterKey(name))?.status?.conditions?.find((candidate) => candidate.type === type);
const rowNames = async (): Promise<readonly string[]> => (await store.backends.all()).map((row) => row.name);

/** The store with its connection cut while `away` says so. */
const cuttable = (): { store: Store; away: boolean } => {
  const state = { away: false, store };
  const guard = <T extends object>(target: T): T =>
    new Proxy(target, {
      get: (object, property) => {
        const value = Reflect.get(object, property);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) =>
          state.away
            ? Promise.reject(new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database is unavailable'))
            : Reflect.apply(value, object, args);
      },
    });
  state.store = new Proxy(store, {
    get: (object, property) => {
      const value = Reflect.get(object, property);
      return typeof value === 'object' && value !== null ? guard(value) : value;
    },
  });
  return state;
};

test('what is in the directory gets into table, database and status, and leaves them again', async () => {
  await write(
    'a.yaml',
    `${manifest('a')}---\n${manifest('b')}---\n${ruleManifest('r', 'adhoc')}---\n${ruleManifest('s', 'none')}`,
  );
  const rig = await start();
  expect([...rig.table.current.clusters.keys()]).toEqual(['a', 'b']);
  await until(async () => {
    expect(await rowNames()).toEqual(['a', 'b']);
    expect((await store.resources.all(['RoutingRule'])).map((rule) => rule.name)).toEqual(['r', 's']);
  });
  await until(() => {
    expect(condition(rig, 'a', 'Accepted')).toMatchObject({ status: 'True', observedGeneration: 1 });
    expect(condition(rig, 'a', 'Ready')).toMatchObject({ status: 'True', reason: 'Ready' });
    expect(condition(rig, 'a', 'Healthy')).toMatchObject({ status: 'Unknown', reason: 'Pending' });
    expect(condition(rig, 'a', 'ForwardedHeaders')).toMatchObject({ status: 'Unknown' });
    const refs = rig.source
      .list('RoutingRule')
      .map((rule) => rule.status?.conditions?.find((candidate) => candidate.type === 'ResolvedRefs')?.reason);
    expect(refs).toEqual(['ResolvedRefs', 'GroupNotFound']);
  });
  rig.table.setHealth('a', 'http://a:8080', { ...neverChecked, status: 'UNHEALTHY', reason: 'connection refused' });
  await until(() =>
    expect(condition(rig, 'a', 'Healthy')).toMatchObject({ status: 'False', message: 'connection refused' }),
  );
  rig.controller.reportForwardedHeaders('a', { ok: false, message: 'set http-server.process-forwarded=true' });
  await until(() => expect(condition(rig, 'a', 'ForwardedHeaders')?.status).toBe('False'));
  await until(async () =>
    expect((await store.resources.get(clusterKey('a')))?.status).toEqual(rig.source.get(clusterKey('a'))?.status),
  );
  await unlink(join(directory, 'a.yaml'));
  await until(async () => {
    expect(rig.table.current.clusters.size).toBe(0);
    expect(await rowNames()).toEqual([]);
    expect(await store.resources.all()).toEqual([]);
  });
});

test('a status shows what the checks of the cluster found, and clusters with its URL', async () => {
  await write('a.yaml', `${manifest('a')}---\n${manifest('b').replace('http://b:8080', 'http://a:8080')}`);
  const rig = await start();
  const shared = (name: string) => condition(rig, name, 'SharedURL')?.message;
  await until(() => expect(shared('a')).toContain('the same URL is that of b'));
  await until(() => expect(shared('b')).toContain('the same URL is that of a'));
  const counts = { running: 3, queued: 1, version: '476', coordinatorId: 'abcde' };
  rig.table.setHealth('a', 'http://a:8080', { ...neverChecked, status: 'HEALTHY', reason: '', ...counts });
  const expected = { runningQueries: 3, queuedQueries: 1, version: '476', coordinatorId: 'abcde' };
  await until(() => expect(rig.source.get(clusterKey('a'))?.status).toMatchObject(expected));
  await write('a.yaml', `${manifest('a')}---\n${manifest('b')}`);
  await until(() => expect(shared('a')).toBeUndefined());
});

test('statuses are written on change only', async () => {
  await write('a.yaml', manifest('a'));
  const rig = await start();
  await until(() => expect(condition(rig, 'a', 'Ready')?.status).toBe('True'));
  const before = rig.source.get(clusterKey('a'))?.status;
  await until(async () => expect((await store.resources.get(clusterKey('a')))?.status).toEqual(before));
  const written = vi.spyOn(store.resources, 'writeDifference');
  rig.controller.scheduleRefresh();
  await write('a.yaml', manifest('a'));
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(rig.source.get(clusterKey('a'))?.status).toBe(before);
  expect(written).not.toHaveBeenCalled();
});

test('an invalid change is refused in the status, and the last good version stays, also over a restart', async () => {
  await write('a.yaml', manifest('a'));
  const first = await start();
  await until(async () => expect(await rowNames()).toEqual(['a']));
  await write('a.yaml', manifest('a', '  weight: -1\n  nonsense: 1\n'));
  await until(() =>
    expect(condition(first, 'a', 'Accepted')).toMatchObject({ status: 'False', reason: 'InvalidSpec' }),
  );
  expect(condition(first, 'a', 'Accepted')?.message).toMatch(
    /spec.weight must be at least 0.*spec.nonsense|spec.nonsense.*spec.weight/,
  );
  expect(condition(first, 'a', 'Stalled')?.status).toBe('True');
  expect(first.table.current.clusters.get('a')?.proxyTo).toBe('http://a:8080');
  expect(await rowNames()).toEqual(['a']);
  await rigs.pop()?.stop();
  const second = await start();
  expect(second.table.current.clusters.get('a')?.proxyTo).toBe('http://a:8080');
  await write('a.yaml', manifest('a', '  weight: 5\n'));
  await until(() => expect(second.table.current.clusters.get('a')?.weight).toBe(5));
  await until(() => expect(condition(second, 'a', 'Stalled')).toBeUndefined());
});

test('while the database is unavailable the table follows, REST answers pending, and all is made good afterwards', async () => {
  const [cut, registry] = [cuttable(), new Registry()];
  await write('a.yaml', manifest('a'));
  const rig = await start({ controller: { metrics: operatorMetrics(registry) } }, cut.store);
  await until(async () => expect(await rowNames()).toEqual(['a']));
  cut.away = true;
  await write('b.yaml', manifest('b'));
  await until(() => expect(rig.registry.get('b')).not.toBeNull());
  const cluster = { name: 'c', proxyTo: 'http://c:1', active: true, routingGroup: 'x', externalUrl: 'http://c:1' };
  expect(await rig.registry.add(cluster, by)).toMatchObject({ cluster, pending: true });
  expect(await rig.registry.delete('a', by)).toMatchObject({ pending: true });
  expect(rig.registry.all().map((entry) => entry.name)).toEqual(['b', 'c']);
  await until(async () => expect(await registry.metrics()).toContain('engine_gateway_database_available 0'));
  expect(await rowNames()).toEqual(['a']);
  cut.away = false;
  await until(async () => expect(await rowNames()).toEqual(['b', 'c']));
});

test('a directory found empty at the start is believed only after a while', async () => {
  await write('a.yaml', manifest('a'));
  await start();
  await until(async () => expect(await rowNames()).toEqual(['a']));
  await rigs.pop()?.stop();
  await unlink(join(directory, 'a.yaml'));
  let ahead = 0;
  const clock = { now: () => Date.now(), monotonic: () => performance.now() + ahead };
  const rig = await start({ controller: { clock, confirmEmptyMs: 600_000 } });
  expect(rig.table.current.clusters.has('a')).toBe(true);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(await rowNames()).toEqual(['a']);
  ahead = 600_000;
  rig.controller.scheduleRefresh();
  await until(async () => expect(await rowNames()).toEqual([]));
});

describe('a source that loses most of its resources', () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const declare = async (): Promise<void> => {
    for (const name of names) await write(`${name}.yaml`, manifest(name));
  };
  const lose = async (lost: readonly string[]): Promise<void> => {
    for (const name of lost) await unlink(join(directory, `${name}.yaml`));
  };
  const routed = (rig: OperatorRig): readonly string[] => [...rig.table.current.clusters.keys()].sort();

  test('keeps routing by them, over a restart as well, until it is confirmed at one replica', async () => {
    await declare();
    const registry = new Registry();
    const one = await start({ controller: { metrics: operatorMetrics(registry) } });
    const two = await start();
    await until(async () => expect(await rowNames()).toEqual(names));
    await lose(['b', 'c', 'd', 'e']);
    for (const rig of [one, two]) {
      await until(() =>
        expect(rig.controller.heldDeletions).toMatchObject([{ kind: 'EngineCluster', held: 4, left: 2 }]),
      );
      expect(routed(rig)).toEqual(names);
    }
    await until(() => expect(condition(one, 'a', 'DeletionsHeld')).toMatchObject({ status: 'True' }));
    expect(await registry.getSingleMetricAsString('engine_gateway_held_deletions')).toContain('"EngineCluster"} 4');
    await one.stop();
    rigs.shift();
    const late = await start();
    expect(routed(late)).toEqual(names);
    await until(() => expect(late.controller.heldDeletions).toMatchObject([{ held: 4, left: 2 }]));
    expect(await rowNames()).toEqual(names);
    await late.controller.confirmDeletions();
    expect(routed(late)).toEqual(['a', 'f']);
    await until(() => expect(routed(two)).toEqual(['a', 'f']));
    await until(async () => expect(await rowNames()).toEqual(['a', 'f']));
    await until(() => expect(condition(two, 'a', 'DeletionsHeld')).toBeUndefined());
  });

  test('keeps them when they go one by one, each within a second of the one before', async () => {
    await declare();
    let ahead = 0;
    const clock = { now: () => Date.now(), monotonic: () => performance.now() + ahead };
    const { controller, source, table } = await start({ controller: { clock } });
    let fewest = names.length;
    table.onChange(({ clusters }) => {
      fewest = Math.min(fewest, clusters.size);
    });
    for (const name of ['a', 'b', 'c', 'd']) {
      ahead += 700;
      await lose([name]);
      await until(() => expect(source.get(clusterKey(name))).toBeNull());
      controller.refreshNow();
    }
    await until(() => expect(controller.heldDeletions).toMatchObject([{ held: 4, left: 2 }]));
    expect(fewest).toBe(6);
  });

  test('takes them for gone when they stay gone for the configured time', async () => {
    await declare();
    let ahead = 0;
    const clock = { now: () => Date.now(), monotonic: () => performance.now() + ahead };
    const rig = await start({ controller: { clock } });
    await until(async () => expect(await rowNames()).toEqual(names));
    await lose(names);
    await until(() => expect(rig.controller.heldDeletions).toMatchObject([{ held: 6, left: 0 }]));
    ahead = 3_600_000;
    rig.controller.scheduleRefresh();
    await until(async () => expect(await rowNames()).toEqual([]));
    expect(routed(rig)).toEqual([]);
  });

  test.each([
    ['half of them', 4, ['a', 'b', 'c']],
    ['fewer than the minimum', 5, ['a', 'b', 'c', 'd']],
  ])('believes the loss of %s', async (_what, minimum, lost) => {
    await declare();
    const rig = await start({
      controller: { deletionGuard: { enabled: true, minimum, confirmAfter: 3_600_000 } },
    });
    await until(async () => expect(await rowNames()).toEqual(names));
    await lose(lost);
    await until(async () => expect(await rowNames()).toEqual(names.filter((name) => !lost.includes(name))));
    expect(rig.controller.heldDeletions).toEqual([]);
  });

  test('believes deletions by REST, whichever replica they were made at', async () => {
    await declare();
    const [one, two] = [await start(), await start()];
    await until(async () => expect(await rowNames()).toEqual(names));
    for (const name of names.slice(1)) await one.registry.delete(name, by);
    expect(routed(one)).toEqual(['a']);
    await until(() => expect(routed(two)).toEqual(['a']));
    expect([one, two].map(({ controller }) => controller.heldDeletions)).toEqual([[], []]);
    expect(await rowNames()).toEqual(['a']);
  });
});

test('what was deleted while no gateway ran is removed; rows of another source are not', async () => {
  await write('a.yaml', manifest('a'));
  await write('b.yaml', manifest('b'));
  await start();
  await until(async () => expect(await rowNames()).toEqual(['a', 'b']));
  await rigs.pop()?.stop();
  const [b] = (await store.resources.all()).filter((row) => row.name === 'b');
  const row = { name: 'k', routingGroup: 'adhoc', proxyTo: 'http://k:1', externalUrl: 'http://k:1', active: true };
  await putStored(store, { ...b!, name: 'k', registryName: 'k', uid: 'u-k', source: 'kubernetes', row });
  await unlink(join(directory, 'b.yaml'));
  const rig = await start();
  await until(async () => expect(await rowNames()).toEqual(['a', 'k']));
  expect(rig.table.current.clusters.get('k')?.origin).toBe('row');
});

test('one replica leads; when it goes, the other takes over and does what was left', async () => {
  await write('a.yaml', manifest('a'));
  // So long that leadership changes because it is released, not because it ends.
  const one = await start({ leaderTtlMs: 600_000 });
  const two = await start({ leaderTtlMs: 600_000 });
  expect([one.leadership.isLeader, two.leadership.isLeader]).toEqual([true, false]);
  await until(async () => expect(await rowNames()).toEqual(['a']));
  await one.stop();
  rigs.shift();
  await write('b.yaml', manifest('b'));
  await until(() => expect(two.leadership.isLeader).toBe(true));
  await until(async () => expect(await rowNames()).toEqual(['a', 'b']));
});

test('a leader that was paused past its time is refused by the fence', async () => {
  await write('a.yaml', manifest('a'));
  const one = await start({ leaderTtlMs: 60_000 });
  await until(async () => expect(await rowNames()).toEqual(['a']));
  const fence = one.leadership.fence!;
  await makeAnotherLead(store);
  const [a] = await store.resources.all();
  expect(await store.resources.writeDifference({ stored: [a!], removed: [], removedRows: [] }, fence)).toBe('fenced');
  await write('b.yaml', manifest('b'));
  await until(() => expect(one.leadership.isLeader).toBe(false));
  await until(() => expect(one.table.current.clusters.has('b')).toBe(true));
  expect(await rowNames()).toEqual(['a']);
});

test('what one replica has just declared another one does not declare again in a file of its own', async () => {
  const [rig, second] = [await start(), await start()];
  const spec = { active: true, externalUrl: 'http://rest:1', proxyTo: 'http://rest:1', routingGroup: 'x' };
  for (let round = 0; round < 5; round++) {
    const name = `b${round}`;
    await second.registry.update({ name, ...spec }, by);
    await rig.registry.update({ name, ...spec }, by).catch((error: unknown) => {
      expect(error instanceof GatewayError || error instanceof VersionConflict).toBe(true);
    });
    expect((await readdir(directory)).filter((file) => file.includes(name))).toEqual([`enginecluster-${name}.yaml`]);
  }
});

test('whatever happens in whatever order, table and database end as the directory says', async () => {
  const cut = cuttable();
  const rig = await start({}, cut.store);
  const second = await start();
  const names = ['a', 'b', 'c'];
  const name = fc.constantFrom(...names);
  const step = fc.oneof(
    fc.record({ kind: fc.constant('file' as const), name, weight: fc.nat(100) }),
    fc.record({ kind: fc.constant('invalid' as const), name }),
    fc.record({ kind: fc.constant('broken' as const), name }),
    fc.record({ kind: fc.constant('removed' as const), name }),
    fc.record({ kind: fc.constant('rest' as const), name, replica: fc.nat(1), group: fc.constantFrom('x', 'y') }),
    fc.record({ kind: fc.constant('active' as const), name, replica: fc.nat(1), active: fc.boolean() }),
    fc.record({ kind: fc.constant('delete' as const), name, replica: fc.nat(1) }),
    fc.record({ kind: fc.constant('cut' as const) }),
    fc.record({ kind: fc.constant('pause' as const), ms: fc.nat(60) }),
  );
  type Action = typeof step extends fc.Arbitrary<infer T> ? T : never;
  const spec = { active: true, externalUrl: 'http://rest:1', proxyTo: 'http://rest:1' };
  const perform = async (action: Action, registry: OperatorRig['registry']): Promise<unknown> => {
    switch (action.kind) {
      case 'file':
        return await write(`${action.name}.yaml`, manifest(action.name, `  weight: ${action.weight}\n`));
      case 'invalid':
        return await write(`${action.name}.yaml`, manifest(action.name, '  weight: -1\n'));
      case 'broken':
        return await write(`${action.name}.yaml`, manifest(action.name, '  weight: "\n'));
      case 'removed':
        return await unlink(join(directory, `${action.name}.yaml`));
      case 'rest':
        return await registry.update({ name: action.name, routingGroup: action.group, ...spec }, by);
      case 'active':
        return await registry.setActive(action.name, action.active, by);
      case 'delete':
        return await registry.delete(action.name, by);
      case 'pause':
        return await new Promise((resolve) => setTimeout(resolve, action.ms));
      default:
        cut.away = !cut.away;
        return null;
    }
  };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      for (const action of steps) {
        const registry = 'replica' in action && action.replica === 1 ? second.registry : rig.registry;
        const attempt = perform(action, registry);
        await attempt.catch((error: unknown) => {
          if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
          expect(error instanceof GatewayError || error instanceof VersionConflict).toBe(true);
        });
      }
      cut.away = false;
      // What REST created is in files of its own, and would be the one in force.
      for (const one of names) await rm(join(directory, `enginecluster-${one}.yaml`), { force: true });
      for (const one of names) await write(`${one}.yaml`, manifest(one, '  weight: 42\n  active: false\n'));
      for (const { table } of [rig, second]) {
        await until(() => {
          const clusters = [...table.current.clusters.values()];
          expect(clusters.map((entry) => `${entry.name} ${entry.weight} ${entry.active}`)).toEqual(
            names.map((one) => `${one} 42 false`),
          );
        });
      }
      await until(async () => {
        const rows = await store.backends.all();
        expect(rows.map((row) => `${row.name} ${row.proxyTo} ${row.active}`)).toEqual(
          names.map((one) => `${one} http://${one}:8080 false`),
        );
      });
    }),
    { numRuns: 8, endOnFailure: true },
  );
});

test('a rule that is suspended is not asked until it is resumed', async () => {
  await write('r.yaml', ruleManifest('r', 'adhoc'));
  const rig = await start();
  const rule = () => rig.source.list('RoutingRule')[0]!;
  const condition = (type: string) => rule().status?.conditions?.find((each) => each.type === type);
  await until(() => expect(condition('Ready')?.status).toBe('True'));
  await write('r.yaml', ruleManifest('r', 'other').replace('spec:\n', 'spec:\n  suspend: true\n'));
  await until(() => expect(condition('Suspended')).toMatchObject({ status: 'True', reason: 'Suspended' }));
  expect(condition('Programmed')).toMatchObject({ status: 'False', reason: 'Suspended' });
  expect(condition('Ready')).toMatchObject({ status: 'True', reason: 'Suspended' });
  expect([rule().metadata.generation, rule().status?.observedGeneration]).toEqual([2, 2]);
  await write('r.yaml', ruleManifest('r', 'other'));
  await until(() => expect(condition('Programmed')?.status).toBe('True'));
  await until(() => expect(condition('Suspended')).toBeUndefined());
});

describe('a cluster that is suspended', () => {
  test('keeps what it was, also over a restart', async () => {
    await write('a.yaml', manifest('a'));
    await start();
    await until(async () => expect(await rowNames()).toEqual(['a']));
    const suspended = manifest('a').replace('spec:\n', 'spec:\n  suspend: true\n');
    await write('a.yaml', suspended.replace('http://a:8080', 'http://changed:1'));
    await rigs.pop()?.stop();
    const rig = await start();
    expect(rig.table.current.clusters.get('a')?.proxyTo).toBe('http://a:8080');
    await write(
      'a.yaml',
      (await readFile(join(directory, 'a.yaml'), 'utf8')).replace('suspend: true', 'suspend: false'),
    );
    await until(() => expect(rig.table.current.clusters.get('a')?.proxyTo).toBe('http://changed:1'));
  });
});
