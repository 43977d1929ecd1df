/**
 * Limits before real Trino servers, and what their clients see of a query that waits: two replicas on one database, behind
 * a front that takes the next one at each request.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { postgresql } from '../support/databases.ts';
import { until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { declare, manifest, sharedSecret } from '../support/queueing.ts';
import { shareOf } from '../support/sharedServer.ts';
import { cancel, follow, runQuery, submit } from '../support/statementClient.ts';
import { engineClients } from './clients.ts';
import { type Distribution, installDistribution, missingTools, works } from './distribution.ts';
import { type Front, startFront } from './front.ts';
import { slowQuery } from './queries.ts';
import type { TrinoPair } from './sharedTrinos.ts';
import { listQueries, suffixOf } from './trinoQueries.ts';
import { installMorePrograms, type MorePrograms, waitingClients } from './waitingClients.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);
const canBuildGo = requireComponent('Go', await works('go', ['version']), 'install go 1.25 or newer');

const asTrino = { productName: 'Trino', user: 'suite' };
const statements = [
  'SELECT nationkey, name, comment FROM tpch.tiny.nation',
  'SELECT * FROM tpch.tiny.orders ORDER BY orderkey LIMIT 500',
];

describe.skipIf(!available || !canBuildGo || !postgresql.available())('limits and the queue before Trino', () => {
  let distribution: Distribution;
  let programs: MorePrograms;
  let folder: string;
  let trinos: TrinoPair['trinos'];
  let gateways: readonly GatewayProcess[] = [];
  let front: Front;

  beforeAll(async () => {
    distribution = await installDistribution();
    // Before anything is started, which a failure would leave behind.
    programs = await installMorePrograms();
    folder = await mkdtemp(join(tmpdir(), 'engine-queue-'));
    await mkdir(join(folder, 'resources'));
    ({ trinos } = await shareOf<TrinoPair>('trinoPair'));
    const dataStore = await (await postgresql.start()).create();
    const config = {
      ...sharedSecret,
      protocol: { productName: 'Trino' },
      resources: { source: 'directory', directory: join(folder, 'resources') },
      monitor: { taskDelay: '1s', timeout: '10s' },
      dataStore,
    };
    await limit({ a: 1, b: 1 }, ['only-a', 'only-b']);
    gateways = await Promise.all([1, 2].map(() => startGateway(config)));
    front = await startFront(gateways.map(({ url }) => url));
  }, 540_000);
  afterAll(async () => {
    await front?.close();
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  /** Declares how many queries the servers may run, and their groups. */
  async function limit(most: { readonly a: number; readonly b: number }, [groupOfA, groupOfB]: [string, string]) {
    const [a, b] = trinos;
    await declare(
      join(folder, 'resources'),
      manifest('EngineCluster', 'trino-a', { proxyTo: a.url, routingGroup: groupOfA, maxRunningQueries: most.a }),
      manifest('EngineCluster', 'trino-b', { proxyTo: b.url, routingGroup: groupOfB, maxRunningQueries: most.b }),
      ...[...new Set([groupOfA, groupOfB])].map((name) =>
        manifest('RoutingGroup', name, { queue: { hold: '200ms', maxWait: '5m' } }),
      ),
    );
  }

  /** Waits until both replicas know the group with so many healthy clusters and slots. */
  async function settled(group: string, healthy: number, capacity: number): Promise<void> {
    for (const { url } of gateways) {
      const known = async () => {
        const scaling = (await (await fetch(`${url}/api/scaling/${group}`)).json()) as {
          readonly capacity?: number;
          readonly clusters?: { readonly healthy: number };
        };
        return scaling.clusters?.healthy === healthy && scaling.capacity === capacity;
      };
      await until(known, `${url} to know group ${group}`, 120_000);
    }
  }

  /** Queries that wait, on all replicas, by their sources. */
  async function waitingSources(): Promise<readonly string[]> {
    const response = await fetch(`${gateways[0]?.url}/api/queue`);
    const { queries } = (await response.json()) as { readonly queries: readonly { readonly source: string | null }[] };
    return queries.map(({ source }) => source ?? '');
  }

  test('each client waits in the queue, and ends as at the server itself', async () => {
    const [trino] = trinos;
    await limit({ a: 1, b: 1 }, ['adhoc', 'other']);
    await settled('adhoc', 1, 1);
    const file = join(folder, 'queries.txt');
    await writeFile(file, statements.map((sql) => `run ${sql}\n`).join(''));
    const clients = waitingClients(distribution, programs);
    const runAll = (url: string, name: string) =>
      Promise.all(
        clients.map(async (client, index) => {
          const own = join(folder, `${name}-${index}`);
          await mkdir(own);
          return await client.run(url, file, own);
        }),
      );
    const direct = await runAll(trino.url, 'direct');
    for (const table of ['nations', 'regions'])
      await runQuery(trino.url, `DROP TABLE memory.default.${table}`, asTrino);
    const before = new Set((await listQueries(trino)).map(({ queryId }) => queryId));

    const first = await submit(front.url, slowQuery, asTrino);
    let page = first;
    while (page.stats.state !== 'RUNNING') page = await follow(page.nextUri ?? '', asTrino);
    const routed = runAll(front.url, 'routed');
    // Longer than requests are held: each is in the queue, and none at the server.
    await expect
      .poll(async () => (await waitingSources()).map((source) => source.replace(/^dbt.*/, 'dbt')).sort(), {
        timeout: 120_000,
      })
      .toEqual(clients.map(({ source }) => source).sort());
    const began = async () => (await listQueries(trino)).filter(({ queryId }) => !before.has(queryId)).length;
    expect(await began()).toBe(1);
    expect(await cancel(page.nextUri ?? '', asTrino)).toBe(204);

    const ends = await routed;
    for (const [index, { name }] of clients.entries()) {
      const { ids, ...end } = ends[index]!;
      const { ids: _, ...expected } = direct[index]!;
      expect({ name, ...end }).toEqual({ name, ...expected, code: 0 });
      expect(end.output, name).not.toBe('');
      // What a client shows its user of a query: the id of the gateway, that of the engine, or both.
      const ofEngine = ids.filter((id) => suffixOf(id) === suffixOf(first.id));
      expect(
        ids.filter((id) => !ofEngine.includes(id) && !id.endsWith('_queue')),
        name,
      ).toEqual([]);
      console.log(`${name}: ${ids.join(', ')}`);
    }
    // At the wire: a first answer with the gateway's id, then that of the engine, which knows whose it is.
    const lines = gateways.flatMap(({ log }) => log).filter(({ msg }) => msg === 'query');
    const sources = new Map(
      (await listQueries(trino)).map(({ queryId, session }) => [
        queryId,
        (session.source ?? '').replace(/^dbt.*/, 'dbt'),
      ]),
    );
    for (const { name, source } of clients) {
      const waited = lines.filter(({ queryId, queuedAs }) => {
        return queuedAs !== undefined && sources.get(String(queryId)) === source;
      });
      expect(waited.length, name).toBeGreaterThan(0);
      for (const { queuedAs } of waited) {
        expect(String(queuedAs)).toMatch(/_queue$/);
        expect(lines.some(({ queryId, queued }) => queryId === queuedAs && queued === true)).toBe(true);
      }
    }
    const { rows } = await runQuery(trino.url, 'SELECT count(*) FROM memory.default.regions', asTrino);
    expect(rows).toEqual([[5]]);
  });

  test('the servers themselves never have more queries than their limits', async () => {
    const most = { a: 2, b: 3 };
    await limit(most, ['adhoc', 'adhoc']);
    await settled('adhoc', 2, most.a + most.b);
    const seen = await Promise.all(
      trinos.map(async (trino) => new Set((await listQueries(trino)).map((q) => q.queryId))),
    );
    const [, jdbc, python] = engineClients(distribution);
    const work = (count: number) =>
      Array.from({ length: count }, (_, index) => ({
        sql: `SELECT count(*) FROM tpch.tiny.lineitem WHERE orderkey % ${10 + (index % 7)} = 0`,
      }));
    const outcomes = await Promise.all([jdbc!.run(front.url, work(40), 12), python!.run(front.url, work(30), 8)]);
    expect(outcomes.flat().filter(({ error, rows }) => error !== null || rows !== 1)).toEqual([]);

    // From the servers' own times: how many ran at any moment.
    const peaks: number[] = [];
    let ran = 0;
    for (const [index, trino] of trinos.entries()) {
      const { rows } = await runQuery(
        trino.url,
        'SELECT query_id, to_unixtime(created), to_unixtime("end") FROM system.runtime.queries WHERE "end" IS NOT NULL',
        asTrino,
      );
      const own = (rows as [string, number, number][]).filter(([id]) => !seen[index]?.has(id));
      ran += own.length;
      peaks.push(mostAtOnce(own.map(([, created, end]) => [created, end] as const)));
    }
    expect(ran).toBe(70);
    // All slots are in use under this load, and not one more.
    expect(peaks).toEqual([most.a, most.b]);
  });
});

/** How many intervals have a moment in common; one that begins where another ends has none with it. */
function mostAtOnce(intervals: readonly (readonly [begin: number, end: number])[]): number {
  const changes = intervals.flatMap(([begin, end]) => [[begin, 1] as const, [end, -1] as const]);
  let count = 0;
  let most = 0;
  for (const [, change] of changes.toSorted(([a, by], [b, other]) => a - b || by - other)) {
    count += change;
    most = Math.max(most, count);
  }
  return most;
}
