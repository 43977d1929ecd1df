import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RunningQueries } from '../../../src/gateway/ownership/runningQueries.ts';
import type { RequestAnalyzer } from '../../../src/gateway/proxiedRequest.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { productNames } from '../../../src/model/names.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { clusterKey } from '../../../src/routing/statementProtocol.ts';
import type { QueryProperties } from '../../../src/sql/queryProperties.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import { headerUserAnalyzer } from '../../support/defaults.ts';
import {
  closeAll,
  clusterAt,
  startGateway,
  startServer,
  storeAway,
  type TestGateway,
  type TestGatewayOptions,
  until,
} from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';
import type { QueryResults } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const logger = pino({ level: 'silent' });
const world = worldOf('test');
let store: KnexStore;
beforeEach(async () => {
  store = await world.store();
});
afterEach(closeAll);

const gateway = (options: TestGatewayOptions) => startGateway({ store, ...options });
const results = (text: string) => JSON.parse(text) as QueryResults;
const idWith = (suffix: string, count = 1) => `20261121_015745_${String(count).padStart(5, '0')}_${suffix}`;
const pathOf = (id: string) => `/v1/statement/executing/${id}/y/1`;

/** A cluster that answers submissions with a given id, and everything else with its name. */
class Cluster {
  readonly name: string;
  url = '';
  answers: string;
  status = 200;
  /** Requests other than submissions: method and path. */
  readonly asked: string[] = [];
  #close = async () => {};

  constructor(name: string, answers: string) {
    this.name = name;
    this.answers = answers;
  }

  async start(): Promise<this> {
    const { url, close } = await startServer((request, response) => {
      request.resume();
      const isSubmission = request.method === 'POST';
      if (!isSubmission) this.asked.push(`${request.method} ${request.url}`);
      response.writeHead(isSubmission ? 200 : this.status, { 'x-name': this.name });
      response.end(JSON.stringify({ id: this.answers, nextUri: `http://x${pathOf(this.answers)}` }));
    });
    this.url = url;
    this.#close = close;
    return this;
  }

  stop(): Promise<void> {
    return this.#close();
  }
}

const cluster = (name: string, answers: string) => new Cluster(name, answers).start();
/** Each cluster is the only one of a routing group of its name. */
const entry = ({ name, url }: Cluster, more: Parameters<typeof clusterAt>[2] = {}) =>
  clusterAt(name, url, { routingGroup: name, uid: `uid of ${name}`, ...more });
const submit = (one: TestGateway, group: string, body = 'SELECT 1') =>
  send(one.url, '/v1/statement', { method: 'POST', body, headers: ['X-Engine-Routing-Group', group] });
const nameOf = async (one: TestGateway, path: string) => (await send(one.url, path)).headers['x-name'];
const conflicts = async ({ registry }: TestGateway) =>
  (await registry.metrics()).split('\n').filter((line) => line.startsWith('engine_gateway_ownership_conflicts_total{'));
const warnings = ({ log }: TestGateway) =>
  log.filter(({ level, msg }) => level === 40 && String(msg).includes('query id')).map(({ msg }) => msg);
const errorOf = (text: string) => results(text).error?.message;
/** An analyzer that finds a call of kill_query in every text that it is given. */
const killing = (queryId: string): RequestAnalyzer => {
  const users = headerUserAnalyzer(productNames('Engine'));
  const user = { user: null, userInfo: null };
  const queryProperties = { queryId } as QueryProperties;
  return { user: (proxied) => users.user(proxied), analyze: () => ({ user, queryProperties }) };
};
const sick = { ...neverChecked, status: 'UNHEALTHY', reason: 'refused', checkedAt: 1 } as const;

describe('a cluster that answers with a query id of another cluster', () => {
  test.each([
    ['its suffix', idWith('aaaaa', 1), idWith('aaaaa', 2)],
    ['the id itself', idWith('aaaaa'), idWith('aaaaa')],
    ['an id of another form', 'q-1', 'q-1'],
  ])('%s: the answer is refused, the owner keeps its queries on every replica', async (_what, owned, claimed) => {
    const [a, b] = [await cluster('a', owned), await cluster('b', claimed)];
    const clusters = [entry(a), entry(b)];
    const runningQueries = new RunningQueries(store.runningQueries, store.outcomes, systemClock, logger);
    const one = await gateway({ clusters, runningQueries });
    const other = await gateway({ clusters });
    expect(results((await submit(one, 'a')).text).id).toBe(owned);
    const plain = await submit(await gateway({ clusters, settings: { statementErrors: 'http' } }), 'b');
    expect([plain.status, plain.headers['x-name']]).toEqual([502, undefined]);
    for (const replica of [one, other]) {
      const refused = await submit(replica, 'b');
      expect([refused.status, errorOf(refused.text)]).toEqual([
        200,
        `Cluster "b" answered with query id ${claimed}, which belongs to another cluster. Its answer is refused; ask the administrator of the gateway.`,
      ]);
      expect(refused.text).not.toContain('nextUri');
      await submit(replica, 'b');
      expect(await conflicts(replica)).toEqual(['engine_gateway_ownership_conflicts_total{cluster="b",owner="a"} 2']);
      expect(warnings(replica)).toEqual([
        'cluster "b" responded with a query id of cluster "a", which keeps it; response rejected',
      ]);
      for (const path of [pathOf(owned), pathOf(claimed), `/v1/query/${owned}`])
        expect(await nameOf(replica, path)).toBe('a');
      expect(results((await submit(replica, 'a')).text).id).toBe(owned);
    }
    expect(b.asked).toEqual([]);
    expect([...one.records, ...other.records].map((record) => record.cluster)).toEqual(['a', 'a', 'a']);
    expect((await runningQueries.ofCluster('b')).queries).toEqual([]);
    // Its own ids are welcome.
    b.answers = idWith('bbbbb');
    expect(results((await submit(one, 'b')).text).id).toBe(idWith('bbbbb'));
    expect(await nameOf(other, pathOf(idWith('bbbbb')))).toBe('b');
  });

  test('also as the answer to kill_query, which goes to the cluster of the query', async () => {
    const [a, b] = [await cluster('a', idWith('aaaaa')), await cluster('b', idWith('bbbbb'))];
    const one = await gateway({ clusters: [entry(a), entry(b)], analyzer: killing(idWith('aaaaa')) });
    await submit(one, 'a');
    await submit(one, 'b');
    a.answers = idWith('bbbbb', 2);
    const killed = await submit(one, 'b', `CALL system.runtime.kill_query('${idWith('aaaaa')}', 'x')`);
    expect(errorOf(killed.text)).toContain('which belongs to another cluster');
    expect(await nameOf(one, pathOf(idWith('bbbbb', 2)))).toBe('b');
  });

  test('ids in answers of follow-ups change nothing', async () => {
    const [a, b] = [await cluster('a', idWith('aaaaa')), await cluster('b', idWith('bbbbb'))];
    const one = await gateway({ clusters: [entry(a), entry(b)] });
    await submit(one, 'a');
    await submit(one, 'b');
    b.answers = idWith('aaaaa');
    expect(await nameOf(one, pathOf(idWith('bbbbb')))).toBe('b');
    expect(await nameOf(one, pathOf(idWith('aaaaa')))).toBe('a');
    expect(await conflicts(one)).toEqual([]);
  });

  test('a claim that the database has not decided yet routes nothing', async () => {
    const [a, b] = [await cluster('a', idWith('aaaaa')), await cluster('b', idWith('aaaaa'))];
    await store.coordinators.learn({ suffix: 'aaaaa', cluster: 'a', proxyTo: a.url, lastSeen: Date.now() });
    let decide: (() => void) | null = null;
    const coordinators = Object.create(store.coordinators) as typeof store.coordinators;
    coordinators.learn = async (row) => {
      await new Promise<void>((resolve) => {
        decide = resolve;
      });
      return store.coordinators.learn(row);
    };
    // As if the row were another replica's, stored after this one started.
    coordinators.all = async () => [];
    const one = await gateway({
      clusters: [entry(a), entry(b)],
      store: { coordinators, queries: store.queries, history: store.history },
      stickiness: { learnTimeout: 60_000 },
    });
    const claiming = submit(one, 'b');
    await until(() => decide !== null, 'the claim');
    expect(await nameOf(one, pathOf(idWith('aaaaa')))).toBe('a');
    decide!();
    expect(errorOf((await claiming).text)).toContain('which belongs to another cluster');
    expect(b.asked).toEqual([]);
  });

  test('ids that no follow-up can name are not remembered', async () => {
    const b = await cluster('b', 'x'.repeat(60_000));
    const one = await gateway({ clusters: [entry(b)] });
    expect((await submit(one, 'b')).headers['x-name']).toBe('b');
    expect(one.records).toEqual([]);
  });

  test('a key of its own in the URL does not lead to it', async () => {
    const [a, b] = [await cluster('a', idWith('aaaaa')), await cluster('b', idWith('bbbbb'))];
    const one = await gateway({ clusters: [entry(a), entry(b)] });
    await submit(one, 'a');
    expect((await send(one.url, `/${clusterKey('b')}${pathOf(idWith('aaaaa'))}`)).headers['x-name']).toBe('a');
    expect(b.asked).toEqual([]);
  });
});

describe('a cluster that claims one suffix after the other', () => {
  test('displaces its own only; beyond 256 at a time its answers are refused', async () => {
    const [a, b] = [await cluster('a', idWith('aaaaa')), await cluster('b', '')];
    const one = await gateway({ clusters: [entry(a), entry(b)] });
    await submit(one, 'a');
    const suffixes = Array.from({ length: 256 }, (_, index) => `b${String(index).padStart(4, '0')}`);
    for (const suffix of suffixes) {
      b.answers = idWith(suffix);
      expect((await submit(one, 'b')).text).not.toContain('"error"');
    }
    b.answers = idWith('b9999');
    expect(errorOf((await submit(one, 'b')).text)).toContain('more than a cluster may have');
    expect(await conflicts(one)).toEqual(['engine_gateway_ownership_conflicts_total{cluster="b",owner=""} 1']);
    expect(warnings(one)).toHaveLength(1);
    expect(await nameOf(one, pathOf(idWith('b0000')))).toBe('b');
    expect(await nameOf(one, pathOf(idWith('aaaaa')))).toBe('a');
    expect(await store.coordinators.all()).toHaveLength(257);
    // The queries of the other do not look lost either.
    a.status = 404;
    expect(errorOf((await send(one.url, pathOf(idWith('aaaaa')))).text)).toContain('does not know the query any more');
  });
});

describe('honest clusters', () => {
  test('at a new address keep their queries, on every replica', async () => {
    const [old, moved] = [await cluster('a', idWith('aaaaa')), await cluster('a', idWith('aaaaa', 2))];
    const one = await gateway({ clusters: [entry(old)] });
    const other = await gateway({ clusters: [entry(old)] });
    await submit(one, 'a');
    expect(await nameOf(other, pathOf(idWith('aaaaa')))).toBe('a');
    for (const replica of [one, other]) {
      replica.table.setInputs({ clusters: [entry(moved)] });
      replica.setHealthy('a');
    }
    expect(errorOf((await submit(one, 'a')).text)).toBeUndefined();
    old.status = 404;
    for (const replica of [one, other]) expect((await send(replica.url, pathOf(idWith('aaaaa')))).status).toBe(200);
    expect(moved.asked).toHaveLength(2);
    expect(await store.coordinators.get('aaaaa')).toMatchObject({ cluster: 'a', proxyTo: moved.url });
  });

  test('are the same under two names, and under a new one', async () => {
    const [a, moved] = [await cluster('a', idWith('aaaaa')), await cluster('new', idWith('aaaaa', 2))];
    const named = { ...entry(a), name: 'new', routingGroup: 'new', uid: 'uid of new' };
    const one = await gateway({ clusters: [entry(a), named] });
    for (const group of ['a', 'new', 'a']) expect(errorOf((await submit(one, group)).text)).toBeUndefined();
    // Renamed: the old name is deleted. Then the new one gets another address.
    one.table.setInputs({ clusters: [named] });
    one.setHealthy('new');
    expect(errorOf((await submit(one, 'new')).text)).toBeUndefined();
    one.table.setInputs({ clusters: [entry(moved)] });
    one.setHealthy('new');
    expect(errorOf((await submit(one, 'new')).text)).toBeUndefined();
    expect(await conflicts(one)).toEqual([]);
  });

  test('of several coordinators behind one address keep all their queries', async () => {
    const a = await cluster('a', '');
    const one = await gateway({ clusters: [entry(a)] });
    for (const suffix of ['aaaa1', 'aaaa2', 'aaaa1', 'aaaa2', 'aaaa3']) {
      a.answers = idWith(suffix);
      expect(errorOf((await submit(one, 'a')).text)).toBeUndefined();
    }
    for (const suffix of ['aaaa1', 'aaaa2', 'aaaa3']) expect(await nameOf(one, pathOf(idWith(suffix)))).toBe('a');
  });
});

describe('a name that is registered again with another address', () => {
  test('by another resource: running queries stay where they run, and its claims are refused', async () => {
    const [a, hostile] = [await cluster('a', idWith('aaaaa')), await cluster('a', idWith('aaaaa', 2))];
    const one = await gateway({ clusters: [entry(a)], settings: { ownerGoneAfter: 100 } });
    await submit(one, 'a');
    const clusters = [entry(hostile, { uid: 'another uid' })];
    one.table.setInputs({ clusters });
    one.setHealthy('a');
    // A replica that starts afterwards knows what the database knows.
    const other = await gateway({ clusters, settings: { ownerGoneAfter: 100 } });
    for (const replica of [one, other]) {
      expect(errorOf((await submit(replica, 'a')).text)).toContain('which belongs to another cluster');
      expect((await send(replica.url, pathOf(idWith('aaaaa')))).status).toBe(200);
    }
    a.status = 404;
    for (const replica of [one, other]) {
      expect(errorOf((await send(replica.url, pathOf(idWith('aaaaa')))).text)).toContain('does not know the query');
    }
    await a.stop();
    for (const replica of [one, other]) {
      await until(async () => (await send(replica.url, pathOf(idWith('aaaaa')))).status === 200, 'the refusal');
    }
    expect(hostile.asked).toEqual([]);
  });

  test('of a cluster that was registered with the address of another one before', async () => {
    const [a, hostile] = [await cluster('a', idWith('aaaaa')), await cluster('b', idWith('aaaaa', 2))];
    const asA = { ...entry(a), name: 'b', routingGroup: 'b', uid: 'uid of b' };
    const one = await gateway({ clusters: [entry(a), asA] });
    // The first query of the coordinator comes by the other name.
    await submit(one, 'b');
    one.table.setInputs({ clusters: [entry(a), entry(hostile)] });
    one.setHealthy('b');
    expect(errorOf((await submit(one, 'b')).text)).toContain('which belongs to another cluster');
    a.status = 404;
    await send(one.url, pathOf(idWith('aaaaa')));
    expect(hostile.asked).toEqual([]);
  });
});

describe('an owner that is gone', () => {
  const takeover = {
    settings: { ownerTakeover: 1_000, ownerGoneAfter: 100 },
    stickiness: { tick: 50 },
  };
  const isAccepted = async (one: TestGateway) => errorOf((await submit(one, 'b')).text) === undefined;

  test.each([
    ['was deleted', (one: TestGateway, b: Cluster) => one.table.setInputs({ clusters: [entry(b)] })],
    ['is unreachable', (one: TestGateway, _b: Cluster, a: Cluster) => one.table.setHealth('a', a.url, sick)],
  ])('and %s loses its ids to a cluster that claims them, after a while', async (_why, goes) => {
    const [a, b] = [await cluster('a', idWith('aaaaa')), await cluster('b', idWith('aaaaa', 2))];
    const clusters = [entry(a), entry(b)];
    const [one, other] = [await gateway({ clusters, ...takeover }), await gateway({ clusters, ...takeover })];
    await submit(one, 'a');
    expect(await nameOf(other, pathOf(idWith('aaaaa')))).toBe('a');
    expect(await isAccepted(one)).toBe(false);
    await a.stop();
    for (const replica of [one, other]) {
      goes(replica, b, a);
      replica.setHealthy('b');
    }
    expect(await isAccepted(one)).toBe(false);
    await until(() => isAccepted(one), 'the takeover');
    expect(await nameOf(one, pathOf(idWith('aaaaa', 2)))).toBe('b');
    await until(async () => (await nameOf(other, pathOf(idWith('aaaaa', 2)))) === 'b', 'the other replica');
    expect(await isAccepted(other)).toBe(true);
  });

  test('but not while it answers follow-ups, on any replica', async () => {
    const [a, b] = [await cluster('a', idWith('aaaaa')), await cluster('b', idWith('aaaaa', 2))];
    const clusters = [entry(a), entry(b)];
    const [one, other] = [await gateway({ clusters, ...takeover }), await gateway({ clusters, ...takeover })];
    await submit(one, 'a');
    for (const replica of [one, other]) {
      replica.table.setInputs({ clusters: [entry(b)] });
      replica.setHealthy('b');
    }
    const rowAt = async () => (await store.coordinators.get('aaaaa'))!.lastSeen;
    const begin = await rowAt();
    await until(async () => {
      expect(await nameOf(other, pathOf(idWith('aaaaa')))).toBe('a');
      expect(await isAccepted(one)).toBe(false);
      return (await rowAt()) > begin + 3_000;
    }, 'three times the time of a takeover');
    expect(b.asked).toEqual([]);
  });
});

describe('claims while the database is unavailable', () => {
  test('the first that is stored wins; the other cluster gets no more, and nobody its queries', async () => {
    const [a, b] = [await cluster('a', idWith('aaaaa', 1)), await cluster('b', idWith('aaaaa', 2))];
    const clusters = [entry(a), entry(b)];
    const states: [{ isAway: boolean }, { isAway: boolean }] = [{ isAway: true }, { isAway: true }];
    const replica = (state: { isAway: boolean }) =>
      startGateway({
        clusters,
        stickiness: { catchUpTime: 100 },
        store: {
          get coordinators() {
            return state.isAway ? storeAway.coordinators : store.coordinators;
          },
          get queries() {
            return state.isAway ? storeAway.queries : store.queries;
          },
          history: store.history,
        },
      });
    const [one, other] = [await replica(states[0]), await replica(states[1])];
    expect(errorOf((await submit(one, 'a')).text)).toBeUndefined();
    expect(errorOf((await submit(other, 'b')).text)).toBeUndefined();
    expect(await nameOf(one, pathOf(idWith('aaaaa', 1)))).toBe('a');
    expect(await nameOf(other, pathOf(idWith('aaaaa', 2)))).toBe('b');
    // Memory decides as the database would: the first one keeps it.
    expect(errorOf((await submit(one, 'b')).text)).toContain('which belongs to another cluster');
    states[0].isAway = false;
    await until(async () => (await store.coordinators.get('aaaaa')) !== null, 'the row');
    states[1].isAway = false;
    await until(() => other.log.some(({ msg }) => String(msg).includes('the first stored keeps it')), 'the settlement');
    expect(await nameOf(other, pathOf(idWith('aaaaa', 1)))).toBe('a');
    const lost = await send(other.url, pathOf(idWith('aaaaa', 2)));
    expect(errorOf(lost.text)).toContain('two clusters gave out its id while the database was unavailable');
    expect(errorOf((await submit(other, 'b')).text)).toContain('which belongs to another cluster');
    expect(b.asked).toEqual([`GET ${pathOf(idWith('aaaaa', 2))}`]);
    expect(await nameOf(one, pathOf(idWith('aaaaa', 1)))).toBe('a');
  });
});
