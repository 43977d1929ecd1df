import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { median, percentile } from '../../../bench/statistics.ts';
import { type CountingCluster, startCountingCluster } from '../../support/countingCluster.ts';
import { mariadb, postgresql, type TestDatabase } from '../../support/databases.ts';
import { closeAll, until } from '../../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { follow, pathOf, runQuery, submit } from '../../support/statementClient.ts';

for (const database of [postgresql, mariadb]) {
  describe.skipIf(!database.available())(`limits over two replicas on ${database.name}`, () => {
    let server: TestDatabase;
    let folder: string;
    let replicas: GatewayProcess[] = [];

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
      cluster: CountingCluster,
      maxRunningQueries: number,
      more: readonly object[] = [],
    ): Promise<string[]> {
      folder = await mkdtemp(join(tmpdir(), 'limits-'));
      const meta = (kind: string, name: string, spec: object) => ({
        apiVersion: 'enginegateway.dev/v1',
        kind,
        metadata: { name },
        spec,
      });
      const resources = [
        meta('EngineCluster', 'one', { proxyTo: cluster.url, routingGroup: 'adhoc', maxRunningQueries }),
        meta('RoutingGroup', 'adhoc', { queue: { hold: '10s' } }),
        ...more,
      ];
      await writeFile(join(folder, 'limits.yaml'), resources.map((resource) => stringify(resource)).join('---\n'));
      const dataStore = await server.create();
      replicas = await Promise.all(
        [0, 1].map(() =>
          startGateway({ dataStore, authentication: 'none', resources: { source: 'directory', directory: folder } }),
        ),
      );
      const urls = replicas.map(({ url }) => url);
      for (const url of urls) {
        const runs = () => runQuery(url, 'SELECT 1').then(({ error }) => error === undefined);
        await until(() => runs().catch(() => false), 'a query to its end');
      }
      return urls;
    }

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

    test('what a killed replica had is free within its lease and a beat; the refusal names the limit', async () => {
      let runMs = 1;
      const cluster = await startCountingCluster(() => runMs);
      const urls = await start(cluster, 12);
      runMs = Number.POSITIVE_INFINITY;
      const [killed, other] = urls as [string, string];
      // Takes what is left: no client asks for these any more.
      await until(
        async () => cluster.running >= 12 || (await submit(killed, 'SELECT 1')).error !== undefined,
        'all slots',
      );
      const { error } = await submit(other, 'SELECT 1');
      expect(error).toMatchObject({ errorName: 'QUERY_QUEUE_FULL' });
      expect(error?.message).toContain('cluster one: 12 of 12 running (maxRunningQueries)');
      await replicas[0]?.stop('SIGKILL');
      const began = performance.now();
      await until(
        async () => (await submit(other, 'SELECT 1')).error === undefined,
        'slots of the killed replica',
        40_000,
      );
      const seconds = (performance.now() - began) / 1000;
      console.log(`${database.name}: slots of a killed replica are free after ${seconds.toFixed(1)} s`);
      expect(seconds).toBeLessThan(20);
    });
  });
}
