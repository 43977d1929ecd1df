import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ResourceSelection, ResourceSource } from '../../../src/operator/sources/source.ts';
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
  const source = (from?.(store) ?? quickDirectory(directory)).selecting({ ...everything, ...selection });
  const rig = await startOperator(store, source);
  rigs.push({ rig, store });
  return { ...rig, store };
};
const blue = { gatewayClassName: 'blue' };
const routed = ({ table }: OperatorRig): readonly string[] => [...table.current.clusters.keys()].sort();
const stored = async ({ store }: { readonly store: Store }) => ({
  resources: (await store.resources.all()).map(({ name }) => name).sort(),
  rows: (await store.backends.all()).map(({ name }) => name).sort(),
});
const acceptance = (rig: OperatorRig, name: string) =>
  rig.source.get(clusterKey(name))?.status?.conditions?.find(({ type }) => type === 'Accepted')?.reason;

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
