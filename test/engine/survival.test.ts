/**
 * Reads before real Trino servers that crash or are too small: two replicas on one database, behind a front that takes the next
 * one at each request.
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
import { follow, type QueryResults, runQuery, submit } from '../support/statementClient.ts';
import { type Distribution, installDistribution, missingTools, works } from './distribution.ts';
import { type Front, startFront } from './front.ts';
import { idleCatalog } from './queries.ts';
import type { TrinoPair } from './sharedTrinos.ts';
import { listQueries } from './trinoQueries.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';
import { installMorePrograms, type MorePrograms, showByDbt, waitingClients } from './waitingClients.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);
const canBuildGo = requireComponent('Go', await works('go', ['version']), 'install go 1.25 or newer');

const asTrino = { productName: 'Trino', user: 'suite' };
/** Takes 20 s, in which its client has columns and no row. */
const aggregation = 'SELECT count(*), sum(n) FROM blackhole.default.twenty';
const createTable =
  "CREATE TABLE blackhole.default.twenty (n bigint) WITH (split_count = 1, pages_per_split = 20, rows_per_page = 1, page_processing_delay = '1s')";
/** Its build side has more than 30 MB. */
const join30 = 'SELECT count(*) FROM tpch.sf1.lineitem l JOIN tpch.sf1.orders o ON l.orderkey = o.orderkey';

describe.skipIf(!available || !canBuildGo || !postgresql.available())('survival before Trino', () => {
  let distribution: Distribution;
  let programs: MorePrograms;
  let folder: string;
  let trinos: TrinoPair['trinos'];
  let small: TrinoServer;
  let gateways: readonly GatewayProcess[] = [];
  let front: Front;

  beforeAll(async () => {
    distribution = await installDistribution();
    programs = await installMorePrograms();
    folder = await mkdtemp(join(tmpdir(), 'engine-survival-'));
    await mkdir(join(folder, 'resources'));
    ({ trinos } = await shareOf<TrinoPair>('trinoPair'));
    const limits = { 'query.max-memory': '30MB', 'query.max-memory-per-node': '30MB' };
    small = await startTrino('small', distribution, {}, limits, idleCatalog);
    for (const { url } of [...trinos, small]) await runQuery(url, createTable, asTrino);
    const [a, b] = trinos;
    await declare(
      join(folder, 'resources'),
      manifest('EngineCluster', 'trino-a', { proxyTo: a.url, routingGroup: 'adhoc' }),
      manifest('EngineCluster', 'trino-b', { proxyTo: b.url, routingGroup: 'large' }),
      manifest('EngineCluster', 'small', { proxyTo: small.url, routingGroup: 'small' }),
      manifest('RoutingGroup', 'adhoc', { survival: { reasons: ['ClusterLost'], to: ['large'] } }),
      manifest('RoutingGroup', 'small', {
        survival: { reasons: ['ClusterLost', 'InsufficientResources'], to: ['large'] },
      }),
    );
    const config = {
      ...sharedSecret,
      protocol: { productName: 'Trino' },
      resources: { source: 'directory', directory: join(folder, 'resources') },
      monitor: { taskDelay: '1s', timeout: '10s' },
      dataStore: await (await postgresql.start()).create(),
    };
    gateways = await Promise.all([1, 2].map(() => startGateway(config)));
    for (const { url } of gateways) {
      await until(async () => (await fetch(`${url}/readyz`)).status === 200, 'readiness', 120_000);
    }
    front = await startFront(gateways.map(({ url }) => url));
  }, 600_000);
  afterAll(async () => {
    await front?.close();
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await small?.kill();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  test('a join beyond 30 MB ends on the larger cluster', async () => {
    const headers = { 'X-Trino-Routing-Group': 'small' };
    const { rows, error } = await runQuery(front.url, join30, {
      ...asTrino,
      headers,
      signal: AbortSignal.timeout(240_000),
    });
    expect(error).toBeUndefined();
    expect(rows).toEqual([[6_001_215]]);
    const ended = (await listQueries(small)).filter(({ query }) => query === join30);
    expect(ended).toMatchObject([{ state: 'FAILED' }]);
  }, 300_000);

  /** Queries with a part of a text that run at a server. */
  const runningAt = async ({ url }: { readonly url: string }, text: string) =>
    (await listQueries({ url })).filter(({ state, query }) => state === 'RUNNING' && query.includes(text)).length;

  test('a read of dbt ends right after kill -9 of its coordinator', async () => {
    const [direct, routed] = [join(folder, 'dbt-direct'), join(folder, 'dbt-routed')];
    const { output } = await showByDbt(programs, trinos[1].url, aggregation, direct);
    expect(output).toContain('20');
    const front = await startFront(
      gateways.map(({ url }) => url),
      false,
      ['X-Trino-Routing-Group', 'small'],
    );
    try {
      const end = showByDbt(programs, front.url, aggregation, routed);
      await expect.poll(() => runningAt(small, 'twenty'), { timeout: 120_000, interval: 500 }).toBe(1);
      await small.kill();
      expect(await end).toMatchObject({ code: 0, output });
    } finally {
      await front.close();
    }
  }, 400_000);

  test('reads of each client end right after kill -9 of their coordinator, and a write fails', async () => {
    const [a, b] = trinos;
    const file = join(folder, 'queries.txt');
    await writeFile(file, `run ${aggregation}\n`);
    // dbt writes tables: its models end with their cluster.
    const clients = waitingClients(distribution, programs).filter(({ name }) => name !== 'dbt');
    const runAll = (url: string, name: string) =>
      Promise.all(
        clients.map(async (client, index) => {
          const own = join(folder, `${name}-${index}`);
          await mkdir(own);
          return await client.run(url, file, own);
        }),
      );
    const direct = await runAll(b.url, 'direct');
    const write = runQuery(front.url, `INSERT INTO blackhole.default.twenty ${aggregation.replace(', sum(n)', '')}`, {
      ...asTrino,
      signal: AbortSignal.timeout(240_000),
    }).catch((error: Error) => ({ error }));
    const large = 'SELECT * FROM tpch.sf1.lineitem';
    let begun: QueryResults = await submit(front.url, large, asTrino);
    while (begun.data === undefined) begun = await follow(begun.nextUri ?? '', asTrino);
    const routed = runAll(front.url, 'routed');
    await expect.poll(() => runningAt(a, 'twenty'), { timeout: 60_000, interval: 500 }).toBe(clients.length + 1);
    process.kill(a.pid, 'SIGKILL');
    const ends = await routed;
    for (const [index, { name }] of clients.entries()) {
      const { ids: _ids, ...end } = ends[index]!;
      const { ids: _, ...expected } = direct[index]!;
      expect({ name, code: end.code, output: end.output }).toEqual({ name, code: 0, output: expected.output });
    }
    expect((await write).error?.message).toMatch(/was lost with its cluster|HTTP 502/);
    const atB = await listQueries(b);
    expect(atB.filter(({ query }) => query === aggregation)).toHaveLength(2 * clients.length);
    // After its first rows a read ends with its cluster.
    while (begun.nextUri !== undefined) begun = await follow(begun.nextUri, asTrino);
    expect(begun.error).toMatchObject({ errorName: 'REMOTE_HOST_GONE' });
    expect(atB.filter(({ query }) => query === large)).toEqual([]);
  }, 400_000);
});
