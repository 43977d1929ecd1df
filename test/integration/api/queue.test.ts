import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { QueueList } from '../../../src/api/answers/queue.ts';
import type { LimitPolicy } from '../../../src/routing/admissionPolicy.ts';
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

async function put(number: number, group: string, replica = 'one', user = `user${number}`): Promise<void> {
  const row = {
    id: id(number),
    group,
    user,
    source: 'dbt',
    reason: 'full',
    request: 'sealed',
    replica,
  };
  await store.queuedQueries.put(row);
}

const line = (text: string) => JSON.parse(text) as { audit?: { path: string } };
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

test('places are those in which users take turns, by the weights of their limits', async () => {
  const { admission } = server.table.current;
  const everybody = { users: null, groups: null, sources: null, routingGroups: null };
  const heavy: LimitPolicy = {
    ...{ key: 'default/heavy', match: { ...everybody, users: (user) => user === 'user9' }, per: 'user' },
    ...{ maxRunning: 5, maxQueued: null, rate: null, weight: 2, mode: 'enforce', message: null },
  };
  server.table.setInputs({ admission: { ...admission, limits: [heavy] } });
  for (const number of [1, 2, 3]) await put(number, 'etl', 'one', 'user1');
  for (const number of [4, 5, 6]) await put(number, 'etl', 'one', 'user9');
  const { queries } = (await (await call('/api/queue')).json()) as QueueList;
  expect(queries.map(({ id: one, position }) => [one, position])).toEqual([
    [id(1), 1],
    [id(2), 4],
    [id(3), 6],
    [id(4), 2],
    [id(5), 3],
    [id(6), 5],
  ]);
  expect(queries.every(({ groupWaiting, movedFirst }) => groupWaiting === 6 && !movedFirst)).toBe(true);
  server.table.setInputs({ admission });
});

test('moves a query first, which the audit has, and the replica that holds it learns', async () => {
  for (const number of [1, 2, 3]) await put(number, 'etl', 'one', 'user1');
  expect((await server.call('POST', `/api/queue/${id(3)}/first`)).status).toBe(204);
  const { queries } = (await (await call('/api/queue')).json()) as QueueList;
  expect(queries.map(({ id: one, position, movedFirst }) => [one, position, movedFirst])).toEqual([
    [id(1), 2, false],
    [id(2), 3, false],
    [id(3), 1, true],
  ]);
  expect(await store.queuedQueries.commands('one')).toMatchObject([{ id: id(3), command: null }]);
  const audited = server.logged.map(line).filter(({ audit }) => audit?.path === `/api/queue/${id(3)}/first`);
  expect(audited).toMatchObject([
    {
      audit: {
        object: `queued query ${id(3)}`,
        before: { user: 'user1', routingGroup: 'etl', movedFirst: false },
        after: { movedFirst: true },
      },
    },
  ]);
  await store.queuedQueries.begin(id(2), 'one');
  for (const other of [id(2), id(9), 'x']) {
    expect([other, (await server.call('POST', `/api/queue/${other}/first`)).status]).toEqual([other, 404]);
  }
  const { queries: later } = (await (await call('/api/queue')).json()) as QueueList;
  expect(later.find((one) => one.id === id(2))).toMatchObject({ state: 'submitting', position: null });
});

test('asks the replica that holds a query to take it out, and deletes one that nobody holds', async () => {
  await put(1, 'etl');
  await put(2, 'etl', 'dead');
  await store.queuedQueries.renew('one', 60_000);
  expect((await call(`/api/queue/${id(1)}`, 'DELETE')).status).toBe(204);
  expect(await store.queuedQueries.commands('one')).toEqual([{ id: id(1), command: 'kill', movedAt: null }]);
  expect((await call(`/api/queue/${id(2)}`, 'DELETE')).status).toBe(204);
  expect(await store.queuedQueries.get(id(2))).toBeNull();
  for (const unknown of [id(2), '20261121_000000_00000_abcde', 'x%00', '..%2f']) {
    expect([unknown, (await call(`/api/queue/${unknown}`, 'DELETE')).status]).toEqual([unknown, 404]);
  }
});
