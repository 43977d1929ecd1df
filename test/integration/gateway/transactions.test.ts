import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { RoutingRuleSpec } from '../../../src/kinds/routingRule/spec.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import {
  closeAll,
  closing,
  clusterAt,
  startGateway,
  startServer,
  storeAway,
  type TestGatewayOptions,
  until,
} from '../../support/gateway.ts';
import { defaultRuleCompiler, resourceRule } from '../../support/resourceRules.ts';
import { follow, submit } from '../../support/statementClient.ts';
import { TransactionClient } from '../../support/transactionClient.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('test');
let store: KnexStore;
let engines: readonly SimulatedEngine[];
beforeEach(async () => {
  store = await world.store();
  engines = await Promise.all(['a', 'b'].map((name) => world.engine({ name })));
});
afterEach(closeAll);

/** Clusters a and b, each in a routing group of its own where that is wanted. */
const clusters = (ownGroups = false) =>
  engines.map(({ name, url }) => clusterAt(name, url, ownGroups ? { routingGroup: name } : {}));
const replica = (options: Partial<TestGatewayOptions> = {}) =>
  startGateway({ clusters: clusters(), store, settings: { explainHeader: true }, ...options });
const rules = (...specs: readonly Partial<RoutingRuleSpec>[]) => {
  const resources = specs.map((spec, index) => resourceRule(`rule-${index}`, spec));
  const { ruleSet } = defaultRuleCompiler().compile(resources, null);
  if (ruleSet === null) throw new Error('there is no rule set');
  return ruleSet;
};
const clusterOf = (queryId: string) => engines.find(({ suffix }) => queryId.endsWith(suffix))?.name;
const rows = (first: number) => store.database.knex('eg_transactions').limit(first);

/** Runs a transaction of three statements; answers the clusters that had them, and who decided so. */
async function transact(client: TransactionClient, end: 'COMMIT' | 'ROLLBACK') {
  const outcomes = [];
  for (const sql of ['START TRANSACTION', 'SELECT 1', 'SELECT 2', end]) outcomes.push(await client.run(sql));
  expect(outcomes.map(({ error }) => error)).toEqual([undefined, undefined, undefined, undefined]);
  expect(outcomes.map((outcome) => outcome.rows)).toEqual([[], [[1]], [[2]], []]);
  expect(client.transaction).toBeNull();
  return {
    clusters: new Set(outcomes.map(({ queryId }) => clusterOf(queryId))),
    routedBy: outcomes.map(({ routedBy }) => routedBy),
  };
}

describe('a transaction stays on the cluster that began it', () => {
  test('through two replicas that share a database, each request at the other one', async () => {
    const replicas = [await replica(), await replica({ store: closing(await world.store()) })];
    const urls = replicas.map(({ url }) => url);
    const begun = new Set<string | undefined>();
    for (let n = 0; n < 20; n++) {
      const done = await transact(new TransactionClient(urls, n), n % 2 === 0 ? 'COMMIT' : 'ROLLBACK');
      expect(done.clusters.size).toBe(1);
      expect(done.routedBy).toEqual(['default', 'transaction', 'transaction', 'transaction']);
      for (const cluster of done.clusters) begun.add(cluster);
    }
    expect([...begun].sort()).toEqual(['a', 'b']);
  });

  test('whatever rules say of its statements; what they did stays in the trace', async () => {
    const inTransaction = 'request.getHeader("X-Engine-Transaction-Id") != "NONE"';
    const ruleSet = rules(
      { condition: inTransaction, routeTo: { routingGroup: 'b' } },
      { condition: `!(${inTransaction})`, routeTo: { routingGroup: 'a' } },
    );
    const gateway = await replica({ clusters: clusters(true), rules: ruleSet });
    const done = await transact(new TransactionClient([gateway.url]), 'COMMIT');
    expect([...done.clusters]).toEqual(['a']);
    expect(done.routedBy).toEqual(['rule', 'transaction', 'transaction', 'transaction']);
    const [, second] = gateway.records;
    expect(second).toMatchObject({ cluster: 'a', routingGroup: 'a' });
    expect(JSON.parse(second!.decision!)).toMatchObject({ decidedBy: 'transaction', pinned: 'a', group: 'a' });
    expect(JSON.parse(second!.decision!).rules).toBeDefined();
    const line = gateway.log.filter(({ msg }) => msg === 'query')[1];
    expect(line).toMatchObject({ decidedBy: 'transaction', cluster: 'a', group: 'a' });
  });

  test('after restarts, and when its cluster takes no new queries or was deleted', async () => {
    const first = await replica({ clusters: clusters().slice(0, 1) });
    const client = new TransactionClient([first.url]);
    await client.run('START TRANSACTION');
    const [a, b] = clusters();
    for (const known of [[a!, b!], [{ ...a!, active: false }, b!], [b!]]) {
      const next = await replica({ clusters: known });
      const later = new TransactionClient([next.url]);
      later.transaction = client.transaction;
      const outcome = await later.run('SELECT 1');
      expect([clusterOf(outcome.queryId), outcome.error]).toEqual(['a', undefined]);
    }
  });

  test('also where the gateway has to ask all clusters for the query that began it', async () => {
    for (let n = 0; n < 6; n++) {
      // One that has not heard of the cluster's queries yet.
      await store.coordinators.deleteBefore(Number.MAX_SAFE_INTEGER);
      const gateway = await replica();
      let page = await submit(engines[0]!.url, 'START TRANSACTION');
      while (!page.nextUri!.includes('/executing/')) page = await follow(page.nextUri!);
      const client = new TransactionClient([gateway.url]);
      await client.follow(page);
      expect(client.transaction).not.toBeNull();
      const outcome = await client.run('SELECT 1');
      expect([clusterOf(outcome.queryId), outcome.error]).toEqual(['a', undefined]);
    }
  });

  test('unless a rule denies the statement', async () => {
    const gateway = await replica();
    const client = new TransactionClient([gateway.url]);
    await client.run('START TRANSACTION');
    gateway.table.setInputs({ clusters: clusters(), rules: rules({ deny: { message: 'not today' } }) });
    expect((await client.run('SELECT 1')).error).toMatchObject({ errorName: 'PERMISSION_DENIED' });
  });
});

describe('what is stored', () => {
  test('is there before the client sees the transaction, and gone after its end', async () => {
    const begin: typeof store.transactions.begin = async (row) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return store.transactions.begin(row);
    };
    const slow = Object.create(store.transactions, { begin: { value: begin } });
    const gateway = await replica({ store: Object.create(store, { transactions: { value: slow } }) });
    const client = new TransactionClient([gateway.url]);
    const { queryId } = await client.run('START TRANSACTION');
    const cluster = engines.find(({ suffix }) => queryId.endsWith(suffix))!;
    expect(await store.transactions.get(client.transaction!)).toMatchObject({
      transactionId: client.transaction,
      cluster: cluster.name,
      proxyTo: cluster.url,
    });
    await client.run('COMMIT');
    await until(async () => (await rows(1)).length === 0, 'the end of the transaction');
  });

  test('waits in memory while the database is unavailable', async () => {
    let isAway = true;
    const transactions = new Proxy(store.transactions, {
      get: (target, name) => Reflect.get(isAway ? storeAway.transactions : target, name).bind(target),
    });
    const gateway = await replica({ store: Object.create(store, { transactions: { value: transactions } }) });
    const client = new TransactionClient([gateway.url]);
    await client.run('START TRANSACTION');
    expect((await client.run('SELECT 1')).error).toBeUndefined();
    expect(await rows(1)).toEqual([]);
    isAway = false;
    await until(async () => (await rows(1)).length === 1, 'the stored transaction');
  });

  test('is looked up again a second later where the database is unavailable', async () => {
    const transactions = { ...storeAway.transactions, get: () => new Promise<never>(() => undefined) };
    for (const broken of [storeAway.transactions, transactions]) {
      const gateway = await replica({
        store: Object.create(store, { transactions: { value: broken } }),
        stickiness: { lookupTimeout: 50 },
      });
      const headers = { 'X-Engine-User': 'u', 'X-Engine-Transaction-Id': 'c52ccb51-f265-41d3-9642-562222a4ff81' };
      const answer = await fetch(`${gateway.url}/v1/statement`, { method: 'POST', headers, body: 'SELECT 1' });
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
      expect(await answer.text()).toContain('ask again');
    }
    expect(engines.flatMap(({ queries }) => queries)).toEqual([]);
  });

  test('a database that does not answer holds the client for a moment only', async () => {
    const transactions = { ...storeAway.transactions, begin: () => new Promise<never>(() => undefined) };
    const gateway = await replica({ store: Object.create(store, { transactions: { value: transactions } }) });
    const client = new TransactionClient([gateway.url]);
    await client.run('START TRANSACTION');
    expect((await client.run('SELECT 1')).error).toBeUndefined();
  });
});

describe('a transaction that is lost', () => {
  test('with its cluster: another one says so in its own words, and takes the ROLLBACK', async () => {
    const gateway = await replica();
    const client = new TransactionClient([gateway.url]);
    const { queryId } = await client.run('START TRANSACTION');
    await engines.find(({ suffix }) => queryId.endsWith(suffix))!.close();
    const lost = await client.run('SELECT 1');
    const message = `Unknown transaction ID: ${client.transaction}. Possibly expired? Commands ignored until end of transaction block`;
    expect(lost.error).toMatchObject({
      errorCode: 20,
      errorName: 'UNKNOWN_TRANSACTION',
      errorType: 'USER_ERROR',
      message,
    });
    expect((await client.run('ROLLBACK')).error).toBeUndefined();
    expect(client.transaction).toBeNull();
  });

  test('with the only cluster: the gateway says the same', async () => {
    const gateway = await replica({ clusters: clusters().slice(0, 1) });
    const client = new TransactionClient([gateway.url]);
    await client.run('START TRANSACTION');
    await engines[0]!.close();
    const lost = await client.run('SELECT 1');
    const message = `Unknown transaction ID: ${client.transaction}. Possibly expired? Commands ignored until end of transaction block`;
    expect(lost.error).toMatchObject({
      errorCode: 20,
      errorName: 'UNKNOWN_TRANSACTION',
      errorType: 'USER_ERROR',
      message,
    });
  });

  test('with a restart of its cluster', async () => {
    const gateway = await replica();
    const client = new TransactionClient([gateway.url]);
    const { queryId } = await client.run('START TRANSACTION');
    await engines.find(({ suffix }) => queryId.endsWith(suffix))!.restart();
    expect((await client.run('SELECT 1')).error?.errorName).toBe('UNKNOWN_TRANSACTION');
  });
});

describe('ids that nobody knows', () => {
  test.each(['c52ccb51-f265-41d3-9642-562222a4ff81', 'x'.repeat(5_000), "'; DROP TABLE eg_transactions --", ''])(
    '%s is the business of the engine',
    async (id) => {
      const gateway = await replica();
      const client = new TransactionClient([gateway.url]);
      client.transaction = id;
      const outcome = await client.run('SELECT 1');
      expect(outcome.routedBy).toBe('default');
      expect(outcome.error?.errorName).toBe('UNKNOWN_TRANSACTION');
    },
  );

  test('are looked up once in a while', async () => {
    let looks = 0;
    const get = () => {
      looks++;
      return Promise.resolve(null);
    };
    const transactions = { ...storeAway.transactions, get };
    const gateway = await replica({ store: Object.create(store, { transactions: { value: transactions } }) });
    const client = new TransactionClient([gateway.url]);
    client.transaction = 'c52ccb51-f265-41d3-9642-562222a4ff81';
    for (let n = 0; n < 10; n++) await client.run('SELECT 1');
    expect(looks).toBeLessThan(10);
  });
});

describe('a hostile cluster', () => {
  /** A cluster whose every follow-up says that a transaction began, or ended. */
  const hostile = (header: string, value: () => string) =>
    startServer((request, response) => {
      const id = '20261121_000000_00001_xxxxx';
      const nextUri = `http://${request.headers['x-forwarded-host']}/v1/statement/executing/${id}/x/0`;
      request.resume();
      const first = request.method === 'POST';
      response.writeHead(200, { 'content-type': 'application/json', ...(first ? {} : { [header]: value() }) });
      const stats = { state: first ? 'QUEUED' : 'FINISHED' };
      response.end(JSON.stringify({ id, infoUri: '', stats, ...(first ? { nextUri } : {}) }));
    });

  test.each([
    ['takes over no transaction', 'X-Engine-Started-Transaction-Id'],
    ['ends no transaction', 'X-Engine-Clear-Transaction-Id'],
  ])('%s of another one', async (_, header) => {
    const [a] = clusters();
    const victim = new TransactionClient([(await replica({ clusters: [a!] })).url]);
    await victim.run('START TRANSACTION');
    const id = victim.transaction!;
    const enemy = clusterAt('enemy', (await hostile(header, () => (header.includes('Clear') ? 'true' : id))).url);
    for (const known of [[enemy], [enemy, { ...a!, active: false }]]) {
      const attacked = await replica({ clusters: known });
      const attacker = new TransactionClient([attacked.url]);
      if (header.includes('Clear')) attacker.transaction = 'c52ccb51-f265-41d3-9642-562222a4ff81';
      await attacker.run('SELECT 1');
      victim.transaction = id;
      const next = new TransactionClient([attacked.url]);
      next.transaction = id;
      expect(clusterOf((await next.run('SELECT 1')).queryId)).toBe('a');
      expect(await store.transactions.get(id)).toMatchObject({ cluster: 'a' });
    }
  });
});
