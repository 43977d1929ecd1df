/** What users can do to limits and the queue: the bounds hold, and others are served. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { until } from '../../support/gateway.ts';
import { manifest } from '../../support/manifest.ts';
import { follow, pathOf, type QueryResults, runQuery, submit } from '../../support/statementClient.ts';
import { TransactionClient } from '../../support/transactionClient.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('suite');
let engine: SimulatedEngine;
let url: string;
const none = { authentication: 'none' };
const isQueued = ({ id }: QueryResults) => id.endsWith('_queue');
const inGroup = (group: string, user: string) => ({ user, headers: { 'X-Engine-Routing-Group': group } });
const finish = async (page: QueryResults, user: string): Promise<QueryResults> =>
  page.nextUri === undefined ? page : finish(await follow(page.nextUri, { user }), user);

const resources = () => [
  manifest('EngineCluster', 'a', { proxyTo: engine.url, routingGroup: 'adhoc' }),
  ...['one', 'fair', 'large', 'ruled', 'rotated'].flatMap((group) => [
    manifest('EngineCluster', `of-${group}`, { proxyTo: engine.url, routingGroup: group }),
    manifest('RoutingGroup', group, {
      maxRunningQueries: 1,
      queue: { hold: '0s', maxQueuedQueries: group === 'fair' ? 4 : 100 },
    }),
  ]),
  manifest('QueryLimit', 'each', {
    match: { sources: [{ value: 'made-up' }] },
    per: 'User',
    maxRunningQueries: 1,
    maxQueuedQueries: 1,
  }),
];

beforeAll(async () => {
  engine = await world.engine({ name: 'a', queuedPolls: 0 });
  await world.declare(...resources());
  ({ url } = await world.startReady(none));
});

/** Occupies the only slot of a group. */
async function occupy(group: string): Promise<QueryResults> {
  const page = await submit(url, 'SELECT 1', inGroup(group, 'owner'));
  expect(isQueued(page)).toBe(false);
  return page;
}

describe('limits', () => {
  test('serve everybody while one client makes users up', async () => {
    const submitAs = (user: string) => submit(url, 'SELECT 1', { user, headers: { 'X-Engine-Source': 'made-up' } });
    let next = 0;
    const client = async () => {
      while (next < 1_000) expect(isQueued(await submitAs(`made-up-${next++}`))).toBe(false);
    };
    await Promise.all(Array.from({ length: 50 }, client));
    expect(isQueued(await submitAs('ann'))).toBe(false);
    expect(isQueued(await submitAs('ann'))).toBe(true);
  }, 120_000);

  test('count a transaction from its begin to its end, and its statements with it', async () => {
    const client = () => new TransactionClient([url]);
    const group = await occupy('one');
    await finish(group, 'owner');
    const first = client();
    const grouped = (one: TransactionClient, sql: string) => one.run(sql, { 'X-Engine-Routing-Group': 'one' });
    expect((await grouped(first, 'START TRANSACTION')).error).toBeUndefined();
    const others = Array.from({ length: 8 }, async () => {
      const one = client();
      const begun = await grouped(one, 'START TRANSACTION');
      return { error: begun.error, ended: await grouped(one, 'COMMIT') };
    });
    for (let count = 0; count < 3; count++) expect((await grouped(first, 'SELECT 1')).error).toBeUndefined();
    const waiting = async () =>
      (await (await fetch(`${url}/metrics`)).text()).includes('queue_length{group="one"} 8\n');
    await until(waiting, 'the other transactions to wait');
    expect((await grouped(first, 'COMMIT')).error).toBeUndefined();
    for (const { error, ended } of await Promise.all(others))
      expect([error, ended.error]).toEqual([undefined, undefined]);
  }, 60_000);

  test('treat an id of a transaction that was never begun as none', async () => {
    const running = await occupy('one');
    const headers = {
      'X-Engine-Transaction-Id': '7c1ea1e7-54e1-4a41-a2c4-9e7b1d1fbd0b',
      'X-Engine-Routing-Group': 'one',
    };
    expect(isQueued(await submit(url, 'SELECT 1', { user: 'ann', headers }))).toBe(true);
    await finish(running, 'owner');
  });
});

describe('the queue', () => {
  test('has a place for a user who has none, where another one has filled it', async () => {
    const running = await occupy('fair');
    const filled: QueryResults[] = [];
    for (let count = 0; count < 4; count++)
      filled.push(await submit(url, `SELECT ${count}`, inGroup('fair', 'greedy')));
    expect(filled.map(isQueued)).toEqual([true, true, true, true]);
    const full = { errorName: 'QUERY_QUEUE_FULL' };
    expect((await submit(url, 'SELECT 4', inGroup('fair', 'greedy'))).error).toMatchObject(full);
    const ofOther = await submit(url, 'SELECT 5', inGroup('fair', 'modest'));
    expect(isQueued(ofOther)).toBe(true);
    expect((await finish(filled[3] as QueryResults, 'greedy')).error).toMatchObject(full);
    await finish(running, 'owner');
    const all = [...filled.slice(0, 3).map((page) => finish(page, 'greedy')), finish(ofOther, 'modest')];
    for (const { error } of await Promise.all(all)) expect(error).toBeUndefined();
  });

  test('has a bound in bytes for each user', async () => {
    const running = await occupy('large');
    const sql = `SELECT '${'x'.repeat(1_000_000)}'`;
    const pages: QueryResults[] = [];
    for (let count = 0; count < 36; count++) pages.push(await submit(url, sql, inGroup('large', 'greedy')));
    expect(pages.filter(isQueued)).toHaveLength(33);
    expect(pages.at(-1)?.error?.message).toContain('for one user');
    expect(isQueued(await submit(url, sql, inGroup('large', 'modest')))).toBe(true);
    await finish(running, 'owner');
  }, 60_000);

  test('applies rules that came while a query waited', async () => {
    const running = await occupy('ruled');
    const page = await submit(url, 'SELECT 1', inGroup('ruled', 'ann'));
    expect(isQueued(page)).toBe(true);
    const deny = manifest('RoutingRule', 'no-ann', {
      condition: 'request.getHeader("X-Engine-User") == "ann"',
      deny: { message: 'ann is denied now' },
    });
    await world.declare(...resources(), deny);
    const denied = async () => (await submit(url, 'SELECT 1', { user: 'ann' })).error?.message ?? '';
    await expect.poll(denied).toContain('ann is denied now');
    await finish(running, 'owner');
    expect((await finish(page, 'ann')).error?.message).toContain('ann is denied now');
    await world.declare(...resources());
    await expect.poll(denied).toBe('');
  });

  test('loses nothing when its secret is rotated', async () => {
    const dataStore = { jdbcUrl: `jdbc:sqlite:${world.path('rotated.db')}` };
    const [earlier, later] = ['a secret that was the first one here', 'a secret that is the second one here'];
    const first = await world.startReady({ ...none, dataStore, admission: { secret: earlier } });
    const busy = await submit(first.url, 'SELECT 1', inGroup('rotated', 'owner'));
    const waiting = await submit(first.url, 'SELECT 2', inGroup('rotated', 'cid'));
    expect([busy, waiting].map(isQueued)).toEqual([false, true]);
    await first.stop();
    const admission = { secret: later, previousSecrets: [earlier] };
    const second = await world.startReady({ ...none, dataStore, admission });
    // Clients know both by one address.
    const finishThere = async (page: QueryResults): Promise<QueryResults> =>
      page.nextUri === undefined ? page : finishThere(await follow(`${second.url}${pathOf(page.nextUri)}`));
    await finishThere(busy);
    expect((await finishThere(waiting)).error).toBeUndefined();
  }, 120_000);

  test('serves a query of another group meanwhile', async () => {
    expect((await runQuery(url, 'SELECT 1', { user: 'eve' })).error).toBeUndefined();
  });
});
