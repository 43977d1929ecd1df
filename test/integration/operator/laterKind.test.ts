import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { openStore } from '../../../src/store/openStore.ts';
import { quickDatabase, startOperator } from '../../support/operatorRig.ts';

test('a gateway that does not know a kind leaves what a later version stored of it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'eg-kinds-'));
  const jdbcUrl = `jdbc:sqlite:${join(directory, 'x.db')}`;
  const store = await openStore({ jdbcUrl, runMigrations: true, logger: pino({ enabled: false }) });
  const stored = async () => (await store.database.knex('eg_resources').select('kind', 'name')) as object[];
  const later = await startOperator(store, quickDatabase(store));
  await later.source.create({ kind: 'RoutingGroup', namespace: 'default', name: 'a', spec: {} });
  await later.stop();
  await store.database.knex('eg_resources').update({ kind: 'Banner' });
  const present = await startOperator(store, quickDatabase(store));
  const cluster = { name: 'c', proxyTo: 'http://c:1', externalUrl: 'http://c:1', routingGroup: 'g', active: true };
  await present.registry.add(cluster, { by: 'api', force: false });
  await expect.poll(async () => (await store.backends.all()).map(({ name }) => name)).toEqual(['c']);
  expect(await stored()).toContainEqual({ kind: 'Banner', name: 'a' });
  await present.stop();
  expect(await stored()).toContainEqual({ kind: 'Banner', name: 'a' });
  await store.close();
  await rm(directory, { recursive: true, force: true });
});
