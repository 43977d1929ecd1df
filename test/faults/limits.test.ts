import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { median, percentile } from '../../bench/statistics.ts';
import { startCountingCluster } from '../support/countingCluster.ts';
import { mariadb, postgresql, type TestDatabase } from '../support/databases.ts';
import { closeAll, startServer, until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { manifest } from '../support/manifest.ts';
import { sharedSecret } from '../support/queueing.ts';
import { follow, pathOf, type QueryResults, runQuery, submit } from '../support/statementClient.ts';

/** A cluster whose queries run until they are deleted from the set, whatever becomes of the gateway. */
async function startLongCluster() {
  const running = new Set<string>();
  const state = { url: '', running, most: 0 };
  let count = 0;
  const { url } = await startServer(async (request, response) => {
    const path = request.url ?? '';
    const { host, 'x-forwarded-host': name, 'x-forwarded-port': port } = request.headers;
    const base = name === undefined ? `http://${host}` : `http://${String(name).split(':')[0]}:${port}`;
    response.setHeader('content-type', 'application/json');
    if (path.startsWith('/v1/info')) {
      response.end('{"starting":false}');
      return;
    }
    let id = path.split('/')[4] ?? '';
    if (request.method === 'POST') {
      const stamp = new Date().toISOString().replaceAll(/[-:]/g, '').replace('T', '_').slice(0, 15);
      id = `${stamp}_${String(count++).padStart(5, '0')}_long1`;
      let body = '';
      for await (const chunk of request) body += String(chunk);
      if (!body.endsWith('-- at once')) running.add(id);
      state.most = Math.max(state.most, running.size);
    } else await sleep(100);
    const next =
      request.method === 'POST' || running.has(id) ? { nextUri: `${base}/v1/statement/executing/${id}/x/1` } : {};
    response.end(JSON.stringify({ id, infoUri: `${base}/ui/${id}`, ...next, stats: { state: 'RUNNING' } }));
  });
  state.url = url;
  return state;
}

/** A cluster that answers in the ways that statements name: with all rows at once, or with a part of them and a next URI. */
async function startRespondingCluster() {
  const state = { url: '', events: [] as string[] };
  let count = 0;
  const rows = Array.from({ length: 20_000 }, (_, row) => [row, Math.random()]);
  const { url } = await startServer(async (request, response) => {
    const { host, 'x-forwarded-host': name, 'x-forwarded-port': port } = request.headers;
    const base = name === undefined ? `http://${host}` : `http://${String(name).split(':')[0]}:${port}`;
    response.setHeader('content-type', 'application/json');
    let statement = '';
    for await (const chunk of request) statement += String(chunk);
    const id = `20261123_000000_${String(count++).padStart(5, '0')}_rows1`;
    const begin = `{"id":"${id}","infoUri":"${base}/ui"`;
    const columns = [{ name: 'row' }, { name: 'value' }];
    const answer = `${begin},${JSON.stringify({ columns, data: rows, stats: { state: 'FINISHED' } }).slice(1)}`;
    if (request.url?.startsWith('/v1/info')) response.end('{"starting":false}');
    else if (request.method === 'GET') {
      state.events.push('end');
      response.end(`${begin},"stats":{"state":"FINISHED"}}`);
    } else {
      state.events.push(statement);
      if (statement === '-- in parts') {
        response.write(begin, () =>
          setImmediate(() =>
            response.end(`,"nextUri":"${base}/v1/statement/executing/${id}/x/1","stats":{"state":"RUNNING"}}`),
          ),
        );
      } else if (statement === '-- gzip') {
        response.setHeader('content-encoding', 'gzip');
        response.end(gzipSync(answer));
      } else response.end(answer);
    }
  });
  state.url = url;
  return state;
}

for (const database of [postgresql, mariadb]) {
  describe.skipIf(!database.available())(`limits over two replicas on ${database.name}`, () => {
    let server: TestDatabase;
    let folder: string;
    let replicas: GatewayProcess[] = [];
    /** A test of what does not depend on the database. */
    const testOnce = (name: string, body: () => Promise<void>): void => {
      if (database === postgresql) test(name, body);
    };

    beforeAll(async () => {
      server = await database.start();
    });

    afterEach(async () => {
      await Promise.all(replicas.splice(0).map((replica) => replica.stop('SIGKILL')));
      await closeAll();
      await rm(folder, { recursive: true, force: true });
    });

    afterAll(async () => {
      await server?.dispose();
    });

    async function start(
      cluster: { readonly url: string },
      maxRunningQueries: number,
      more: readonly object[] = [],
      config: object = { authentication: 'none' },
    ): Promise<string[]> {
      folder = await mkdtemp(join(tmpdir(), 'limits-'));
      const resources = [
        manifest('EngineCluster', 'one', { proxyTo: cluster.url, routingGroup: 'adhoc', maxRunningQueries }),
        manifest('RoutingGroup', 'adhoc', { queue: { hold: '10s' } }),
        ...more,
      ];
      await writeFile(join(folder, 'limits.yaml'), resources.map((resource) => stringify(resource)).join('---\n'));
      const dataStore = await server.create();
      replicas = await Promise.all(
        [0, 1].map(() => startGateway({ ...config, dataStore, resources: { source: 'directory', directory: folder } })),
      );
      const urls = replicas.map(({ url }) => url);
      for (const url of urls) {
        const runs = () => runQuery(url, 'SELECT 1 -- at once').then(({ error }) => error === undefined);
        await until(() => runs().catch(() => false), 'a query to its end');
      }
      return urls;
    }

    test('how much runs, waits and was refused shows at every replica, for groups and limits', async () => {
      const cluster = await startLongCluster();
      const people = manifest(
        'QueryLimit',
        'people',
        { match: { users: [{ value: 'ann' }] }, per: 'User', maxRunningQueries: 1, maxQueuedQueries: 1 },
        { namespace: 'team' },
      );
      const urls = (await start(cluster, 5, [people], sharedSecret)) as [string, string];
      const ann = { user: 'ann' };
      const first = await submit(urls[0], 'SELECT 1', ann);
      const second = runQuery(urls[1], 'SELECT 2 -- at once', ann);
      await until(() => cluster.running.size === 1, 'the first query to run');
      const used = async (url: string, path: string) => {
        const { running, waiting, refused } = (await (await fetch(`${url}${path}`)).json()) as Record<string, unknown>;
        return { running, waiting, refused };
      };
      for (const url of urls) {
        await expect.poll(() => used(url, '/api/limits/team/people')).toEqual({ running: 1, waiting: 1, refused: 0 });
      }
      expect((await submit(urls[1], 'SELECT 3', ann)).error?.errorName).toBe('QUERY_QUEUE_FULL');
      for (const url of urls) {
        await expect.poll(() => used(url, '/api/limits/team/people')).toEqual({ running: 1, waiting: 1, refused: 1 });
        // Its limit is the cluster's: the group has none that counts what runs.
        expect(await used(url, '/api/groups/adhoc')).toEqual({ running: null, waiting: 1, refused: 1 });
      }
      cluster.running.clear();
      for (let page = first; page.nextUri !== undefined; ) page = await follow(page.nextUri);
      expect((await second).error).toBeUndefined();
    });

    test('no more queries run than the limit, under load from 200 clients', async () => {
      const cluster = await startCountingCluster(() => 30);
      const urls = await start(cluster, 20);
      const before = cluster.ended;
      const began = performance.now();
      let refused = 0;
      const client = async (_: unknown, index: number) => {
        for (let query = 0; query < 5; ) {
          const { error } = await runQuery(urls[index % 2] as string, 'SELECT 1', { user: `user${index % 7}` });
          if (error === undefined) query += 1;
          else {
            expect(error).toMatchObject({ errorName: 'QUERY_QUEUE_FULL' });
            refused += 1;
          }
        }
      };
      await Promise.all(Array.from({ length: 200 }, client));
      const seconds = (performance.now() - began) / 1000;
      console.log(
        `${database.name}: ${(1000 / seconds).toFixed(0)} queries a second, ${refused} refused, most ${cluster.most}`,
      );
      expect(cluster.ended - before).toBe(1_000);
      expect(cluster.most).toBeLessThanOrEqual(20);
      // All slots are used while so many wait.
      expect(cluster.most).toBeGreaterThan(15);
    });

    testOnce(
      'queries that end with their first answer give their slots back, however large and compressed it is',
      async () => {
        const cluster = await startRespondingCluster();
        const [url] = (await start(cluster, 1)) as [string, string];
        for (const statement of ['-- rows', '-- gzip', '-- rows', '-- gzip']) {
          const answer = await fetch(`${url}/v1/statement`, {
            ...{ method: 'POST', headers: { 'X-Engine-User': 'test' }, body: statement },
          });
          const { data, error } = (await answer.json()) as QueryResults;
          expect([error, data?.length]).toEqual([undefined, 20_000]);
        }
        // Its next URI comes with a later part of the answer.
        const first = await submit(url, '-- in parts');
        const second = submit(url, '-- rows');
        const waiting = async () =>
          (await (await fetch(`${url}/metrics`)).text()).includes('engine_gateway_queue_length{group="adhoc"} 1');
        await until(waiting, 'the second query to wait');
        await follow(first.nextUri ?? '');
        expect((await second).error).toBeUndefined();
        expect(cluster.events.slice(-3)).toEqual(['-- in parts', 'end', '-- rows']);
      },
    );

    testOnce(
      'slots of clusters that share a URL are free once their queries have ended, whichever of them ran a query',
      async () => {
        const cluster = await startLongCluster();
        const spec = { proxyTo: cluster.url, routingGroup: 'adhoc', maxRunningQueries: 1 };
        const [url] = (await start(cluster, 1, [manifest('EngineCluster', 'two', spec)])) as [string, string];
        for (let round = 0; round < 3; round++) {
          const pages = await Promise.all([submit(url, 'SELECT 1'), submit(url, 'SELECT 2')]);
          expect(pages.map(({ nextUri }) => pathOf(nextUri ?? '').split('/')[3])).toEqual(['executing', 'executing']);
          cluster.running.clear();
          await Promise.all(pages.map(({ nextUri }) => follow(nextUri ?? '')));
        }
        const running = await (await fetch(`${url}/api/queries/running`)).json();
        expect((running as { queries: readonly object[] }).queries).toEqual([]);
      },
    );

    test('a slot is used again soon, also by the other replica', async () => {
      const cluster = await startCountingCluster(() => 20);
      const urls = await start(cluster, 1);
      const first = cluster.gaps.length;
      const client = async (url: string) => {
        for (let query = 0; query < 40; ) if ((await runQuery(url, 'SELECT 1')).error === undefined) query += 1;
      };
      // Its queries end at another replica than the one that holds their slots.
      const crossing = async (url: string, other: string) => {
        for (let query = 0; query < 40; ) {
          let page = await submit(url, 'SELECT 1');
          while (page.nextUri !== undefined) page = await follow(`${other}${pathOf(page.nextUri)}`);
          if (page.error === undefined) query += 1;
        }
      };
      const [one, two] = urls as [string, string];
      await Promise.all([client(one), client(two), crossing(one, two), crossing(two, one)]);
      const gaps = cluster.gaps.slice(first);
      const p99 = percentile(
        gaps.map(({ ms }) => ms),
        0.99,
      );
      const handovers = gaps.flatMap(({ ms, isOtherReplica }) => (isOtherReplica ? [ms] : []));
      console.log(
        `${database.name}: a slot is used again after ${median(gaps.map(({ ms }) => ms)).toFixed(1)} ms (median), ${p99.toFixed(0)} ms (p99); ${handovers.length} by the other replica, ${median(handovers).toFixed(0)} ms (median), ${percentile(handovers, 0.99).toFixed(0)} ms (p99)`,
      );
      expect(handovers.length).toBeGreaterThan(0);
      expect(cluster.most).toBe(1);
      expect(p99).toBeLessThan(1_000);
    });

    test('the queries of a killed replica count until they end; what it did not use is free', async () => {
      const cluster = await startLongCluster();
      const urls = await start(cluster, 6);
      const [killed, other] = urls as [string, string];
      const stop = new AbortController();
      const failures: unknown[] = [];
      /** Follows a query through the other replica, as its client does when the first one is gone. */
      const followed = (page: QueryResults) => {
        const poll = async () => {
          let next = page.nextUri;
          while (next !== undefined && !stop.signal.aborted) {
            const url = new URL(pathOf(next), other);
            const response = await fetch(url, { headers: { 'X-Engine-User': 'test' } });
            next = ((await response.json()) as QueryResults).nextUri;
          }
        };
        poll().catch((error: unknown) => failures.push(error));
      };
      const first = [await submit(killed, 'SELECT 1'), await submit(killed, 'SELECT 2')];
      for (const page of first) followed(page);
      await sleep(2_000);
      // This one the replica does not come to note.
      first.push(await submit(killed, 'SELECT 3'));
      await replicas[0]?.stop('SIGKILL');
      const began = performance.now();
      followed(first[2] as QueryResults);
      const fill = (until: () => boolean) =>
        Promise.all(
          [0, 1, 2].map(async () => {
            while (!until()) {
              const page = await submit(other, 'SELECT 4');
              if (page.error === undefined) followed(page);
              else expect(page.error.errorName).toBe('QUERY_QUEUE_FULL');
            }
          }),
        );
      await fill(() => cluster.running.size >= 6 || performance.now() - began > 60_000);
      const seconds = (performance.now() - began) / 1000;
      console.log(`${database.name}: what a killed replica did not use is free after ${seconds.toFixed(1)} s`);
      expect(cluster.running.size).toBe(6);
      expect(seconds).toBeLessThan(40);
      const later = performance.now() + 6_000;
      await fill(() => performance.now() > later);
      expect(cluster.most).toBe(6);
      const ended = performance.now();
      for (const { id } of first) cluster.running.delete(id);
      // The last one was not noted: its slot is free half a minute after the death of its replica.
      await fill(() => cluster.running.size >= 6 || performance.now() - ended > 60_000);
      console.log(
        `${database.name}: slots of its queries are used again ${((performance.now() - ended) / 1000).toFixed(1)} s after they ended`,
      );
      expect(cluster.running.size).toBe(6);
      expect(cluster.most).toBe(6);
      stop.abort();
      expect(failures).toEqual([]);
    }, 180_000);
  });
}
