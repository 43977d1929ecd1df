import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';

let folder: string;
let store: KnexStore;
let server: ApiServer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'queue-api-'));
  const logger = pino({ level: 'silent' });
  store = await openStore({ jdbcUrl: `jdbc:sqlite:${join(folder, 'g.db')}`, runMigrations: true, logger });
  server = await startApi({ queuedQueries: store.queuedQueries });
});
afterAll(async () => {
  await server?.close();
  await store?.close();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => store.queuedQueries.deleteUnpolledBefore(Number.MAX_SAFE_INTEGER));

const id = (number: number) => `20261121_000000_00000000000${number}_queue`;

async function put(number: number, group: string, replica = 'one'): Promise<void> {
  const row = {
    id: id(number),
    group,
    user: `user${number}`,
    source: 'dbt',
    reason: 'full',
    request: 'sealed',
    replica,
  };
  await store.queuedQueries.put(row);
}

const call = (path: string, method = 'GET') => fetch(`${server.url}${path}`, { method });

test('lists what waits on all replicas, oldest first, with the place in its group', async () => {
  await put(1, 'etl');
  await put(2, 'adhoc');
  await put(3, 'etl', '');
  const answer = (await (await call('/api/queue')).json()) as { total: number; queries: unknown[] };
  expect(answer).toMatchObject({
    total: 3,
    queries: [
      { id: id(1), routingGroup: 'etl', user: 'user1', source: 'dbt', position: 1, state: 'waiting', replica: 'one' },
      { id: id(2), routingGroup: 'adhoc', position: 1, reason: 'full' },
      { id: id(3), routingGroup: 'etl', position: 2, replica: null },
    ],
  });
  expect(JSON.stringify(answer)).not.toContain('sealed');
});

test('asks the replica that holds a query to take it out, and deletes one that nobody holds', async () => {
  await put(1, 'etl');
  await put(2, 'etl', 'dead');
  await store.queuedQueries.renew('one', 60_000);
  expect((await call(`/api/queue/${id(1)}`, 'DELETE')).status).toBe(204);
  expect(await store.queuedQueries.commands('one')).toEqual([{ id: id(1), command: 'kill' }]);
  expect((await call(`/api/queue/${id(2)}`, 'DELETE')).status).toBe(204);
  expect(await store.queuedQueries.get(id(2))).toBeNull();
  for (const unknown of [id(2), '20261121_000000_00000_abcde', 'x%00', '..%2f']) {
    expect([unknown, (await call(`/api/queue/${unknown}`, 'DELETE')).status]).toEqual([unknown, 404]);
  }
});
