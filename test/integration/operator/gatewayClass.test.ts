import { mkdtemp, readdir, readFile, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { parseLabelSelector } from '../../../src/model/labelSelector.ts';
import type { ResourceSelection } from '../../../src/operator/sources/resourceSelection.ts';
import { SelectedSource } from '../../../src/operator/sources/selectedSource.ts';
import type { ResourceSource } from '../../../src/operator/sources/source.ts';
import { openStore } from '../../../src/store/openStore.ts';
import type { Store } from '../../../src/store/store.ts';
import {
  clusterKey,
  type OperatorRig,
  quickDatabase,
  quickDirectory,
  startOperator,
} from '../../support/operatorRig.ts';

const logger = pino({ enabled: false });
const by = { by: 'alice', force: false };
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 10_000, interval: 20 });

let directory: string;
const rigs: { readonly rig: OperatorRig; readonly store: Store }[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'eg-class-'));
});
afterEach(async () => {
  for (const { rig, store } of rigs.splice(0)) {
    await rig.stop();
    await store.close();
  }
  await rm(directory, { recursive: true, force: true });
});

const everything: ResourceSelection = { gatewayClass: null, labels: null, namespaces: null };
const database = (name: string): string => `jdbc:sqlite:${join(directory, `.${name}.db`)}`;
/** A gateway with a database of its own. */
const gateway = async (
  selection: Partial<ResourceSelection>,
  { jdbcUrl, from }: { jdbcUrl: string; from?: (store: Store) => ResourceSource },
): Promise<OperatorRig & { readonly store: Store }> => {
  const store = await openStore({ jdbcUrl, runMigrations: true, logger });
  const source = new SelectedSource(from?.(store) ?? quickDirectory(directory), { ...everything, ...selection });
  const rig = await startOperator(store, source);
  rigs.push({ rig, store });
  return { ...rig, store };
};
const manifest = (kind: string, name: string, spec: object, metadata: object = {}): string =>
  `---\n${JSON.stringify({ apiVersion: 'enginegateway.dev/v1', kind, metadata: { name, ...metadata }, spec })}\n`;
const cluster = (name: string, spec: object = {}, metadata: object = {}): string =>
  manifest('EngineCluster', name, { proxyTo: `http://${name}:8080`, routingGroup: 'adhoc', ...spec }, metadata);
const write = (name: string, ...texts: readonly string[]): Promise<void> =>
  writeFile(join(directory, name), texts.join(''));
const blue = { gatewayClassName: 'blue' };
const routed = ({ table }: OperatorRig): readonly string[] => [...table.current.clusters.keys()].sort();
const stored = async ({ store }: { readonly store: Store }) => ({
  resources: (await store.resources.all()).map(({ name }) => name).sort(),
  rows: (await store.backends.all()).map(({ name }) => name).sort(),
});
const acceptance = (rig: OperatorRig, name: string) =>
  rig.source.get(clusterKey(name))?.status?.conditions?.find(({ type }) => type === 'Accepted')?.reason;

test('each of two gateways over one directory has the resources of its class alone', async () => {
  await write(
    'all.yaml',
    cluster('a'),
    cluster('b', blue),
    // One name in both: each knows of one.
    cluster('same'),
    cluster('same-blue', { ...blue, name: 'same' }),
    manifest('RoutingRule', 'r', { ...blue, condition: 'true', routeTo: { routingGroup: 'adhoc' } }),
  );
  const plain = await gateway({}, { jdbcUrl: database('plain') });
  const other = await gateway({ gatewayClass: 'blue' }, { jdbcUrl: database('blue') });
  expect(routed(plain)).toEqual(['a', 'same']);
  expect(routed(other)).toEqual(['b', 'same']);
  expect(other.table.current.clusters.get('same')?.proxyTo).toBe('http://same-blue:8080');
  expect(plain.controller.compiledRules?.reports.size).toBe(0);
  expect(other.controller.compiledRules?.reports.size).toBe(1);
  await until(async () => {
    expect(await stored(plain)).toEqual({ resources: ['a', 'same'], rows: ['a', 'same'] });
    expect(await stored(other)).toEqual({ resources: ['b', 'r', 'same-blue'], rows: ['b', 'same'] });
    expect(acceptance(plain, 'same')).toBe('Accepted');
    expect(acceptance(other, 'same-blue')).toBe('Accepted');
  });
  expect(plain.source.get(clusterKey('b'))).toBeNull();
  expect(plain.source.provenance(clusterKey('b'))).toBeNull();
});

test('a resource whose class changes leaves one gateway for the other, with its rows, and comes back', async () => {
  await write('a.yaml', cluster('a'));
  await write('b.yaml', cluster('b'));
  const plain = await gateway({}, { jdbcUrl: database('plain') });
  const other = await gateway({ gatewayClass: 'blue' }, { jdbcUrl: database('blue') });
  for (const [spec, mine, theirs] of [
    [blue, ['b'], ['a']],
    [{}, ['a', 'b'], []],
  ] as const) {
    await write('a.yaml', cluster('a', spec));
    await until(async () => {
      expect(routed(plain)).toEqual(mine);
      expect(routed(other)).toEqual(theirs);
      expect(await stored(plain)).toEqual({ resources: mine, rows: mine });
      expect(await stored(other)).toEqual({ resources: theirs, rows: theirs });
    });
  }
  await until(() => expect(acceptance(plain, 'a')).toBe('Accepted'));
});

test('most resources that change to another class at once are no loss, also while the gateway did not run', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  await write('all.yaml', ...names.map((name) => cluster(name)));
  const first = await gateway({}, { jdbcUrl: database('plain') });
  await until(async () => expect((await stored(first)).resources).toEqual(names));
  await write('all.yaml', ...names.map((name) => cluster(name, name === 'a' ? {} : blue)));
  await until(async () => {
    expect(routed(first)).toEqual(['a']);
    expect(await stored(first)).toEqual({ resources: ['a'], rows: ['a'] });
  });
  expect(first.controller.heldDeletions).toEqual([]);
  // What is really lost after that is held, and counts none of those that went elsewhere.
  await write('all.yaml', ...names.map((name) => cluster(name)));
  await until(async () => expect((await stored(first)).rows).toEqual(names));
  await rigs[0]?.rig.stop();
  await write('all.yaml', ...names.map((name) => cluster(name, blue)));
  const second = await gateway({}, { jdbcUrl: database('plain') });
  await until(async () => expect(await stored(second)).toEqual({ resources: [], rows: [] }));
  expect(second.controller.heldDeletions).toEqual([]);
  expect(routed(second)).toEqual([]);
  await write('all.yaml', ...names.map((name) => cluster(name)));
  await until(() => expect(routed(second)).toEqual(names));
  await write('all.yaml', cluster('a'));
  await until(() => expect(second.controller.heldDeletions).toMatchObject([{ held: 5, left: 1 }]));
  expect(routed(second)).toEqual(names);
});

test('REST creates with the class and the labels of the gateway, beside what others have', async () => {
  const labels = parseLabelSelector('team in (etl, bi),!legacy');
  if ('problem' in labels) throw new Error(labels.problem);
  await write('theirs.yaml', cluster('etl-1'));
  const { registry, source, ...rig } = await gateway({ gatewayClass: 'blue', labels }, { jdbcUrl: database('blue') });
  expect(routed({ registry, source, ...rig })).toEqual([]);
  const sent = { proxyTo: 'http://x:1', externalUrl: 'http://x:1', active: true, routingGroup: 'etl' };
  await registry.add({ ...sent, name: 'mine' }, by);
  const file = (name: string) => readFile(join(directory, name), 'utf8').then((text) => parse(text));
  expect(await file('enginecluster-mine.yaml')).toMatchObject({
    metadata: { name: 'mine', labels: { team: 'etl' } },
    spec: { gatewayClassName: 'blue', routingGroup: 'etl' },
  });
  // The name of a resource of another gateway is taken, the name in the registry is not.
  const added = await registry.add({ ...sent, name: 'etl-1' }, by);
  expect(added.resource?.name).toMatch(/^etl-1-[0-9a-f]{8}$/);
  expect(
    registry
      .all()
      .map(({ name }) => name)
      .sort(),
  ).toEqual(['etl-1', 'mine']);
  await registry.delete('etl-1', by);
  await registry.delete('etl-1', by);
  expect((await readdir(directory)).filter((name) => name.endsWith('.yaml')).sort()).toEqual([
    'enginecluster-mine.yaml',
    'theirs.yaml',
  ]);
  await expect(registry.setActive('etl-1', false, by)).rejects.toMatchObject({ code: 'EG_NOT_FOUND' });
  await expect(
    source.apply(
      clusterKey('etl-1'),
      { set: { active: false }, remove: [], annotations: {} },
      { force: true, expectedVersion: '1' },
    ),
  ).rejects.toMatchObject({ code: 'EG_NOT_FOUND' });
  expect(await source.delete(clusterKey('etl-1'), null)).toBe(false);
});

test('labels and namespaces select as well', async () => {
  await write(
    'all.yaml',
    cluster('a', {}, { namespace: 'north', labels: { team: 'etl' } }),
    cluster('b', {}, { namespace: 'north', labels: { team: 'bi' } }),
    cluster('c', {}, { namespace: 'south', labels: { team: 'etl' } }),
    cluster('d', {}, { namespace: 'west', labels: { team: 'etl' } }),
  );
  const labels = parseLabelSelector('team=etl');
  if ('problem' in labels) throw new Error(labels.problem);
  const rig = await gateway({ labels, namespaces: new Set(['north', 'south']) }, { jdbcUrl: database('etl') });
  expect(routed(rig)).toEqual(['a', 'c']);
  await write('all.yaml', cluster('a', {}, { namespace: 'north' }));
  await until(async () => {
    expect(routed(rig)).toEqual([]);
    expect(await stored(rig)).toEqual({ resources: [], rows: [] });
  });
  await unlink(join(directory, 'all.yaml'));
});

test('a gateway of another class over the same database leaves resources there alone', async () => {
  const options = { jdbcUrl: database('shared'), from: quickDatabase };
  const plain = await gateway({}, options);
  const sent = { proxyTo: 'http://x:1', externalUrl: 'http://x:1', active: true, routingGroup: 'etl' };
  await plain.registry.add({ ...sent, name: 'a' }, by);
  await rigs.splice(0)[0]?.rig.stop();
  await plain.store.close();
  const other = await gateway({ gatewayClass: 'blue' }, options);
  expect(routed(other)).toEqual([]);
  await other.registry.add({ ...sent, name: 'b' }, by);
  await until(() => expect(acceptance(other, 'b')).toBe('Accepted'));
  expect(routed(other)).toEqual(['b']);
  // The look at the database, every tenth of a second here, takes nothing of others for a remainder.
  const looks = vi.spyOn(other.store.backends, 'all');
  await until(() => expect(looks.mock.calls.length).toBeGreaterThan(3));
  expect(await stored(other)).toEqual({ resources: ['a', 'b'], rows: ['a', 'b'] });
  expect((await other.store.resources.get(clusterKey('b')))?.spec).toMatchObject(blue);
});
