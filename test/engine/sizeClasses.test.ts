/** Routing by expected size before real Trino servers: a mix of TPC-H, small queries to one server and large ones to the other. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RoutedQuery } from '../../src/api/responses/routing.ts';
import { requireComponent } from '../support/components.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { declare, manifest } from '../support/queueing.ts';
import { shareOf } from '../support/sharedServer.ts';
import { runQuery } from '../support/statementClient.ts';
import { ready } from '../support/world.ts';
import { installDistribution, missingTools } from './distribution.ts';
import type { TrinoPair } from './sharedTrinos.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

/** A point query, Q6 of the smallest data. */
const small = [
  (i: number) => `SELECT name FROM tpch.tiny.nation WHERE nationkey = ${i % 25}`,
  (i: number) => `SELECT sum(extendedprice * discount) FROM tpch.tiny.lineitem WHERE quantity < ${i % 50}`,
];
/** Q1 and a part of Q9 of 120 times as much data. */
const large = [
  (i: number) =>
    `SELECT returnflag, linestatus, sum(quantity), avg(extendedprice), count(*) FROM tpch."sf0.5".lineitem WHERE shipdate <= DATE '1998-09-0${1 + (i % 9)}' GROUP BY 1, 2 ORDER BY 1, 2`,
  (i: number) =>
    `SELECT n.name, sum(l.extendedprice * (1 - l.discount)) FROM tpch."sf0.5".lineitem l JOIN tpch."sf0.5".supplier s ON s.suppkey = l.suppkey JOIN tpch."sf0.5".nation n ON n.nationkey = s.nationkey WHERE l.quantity > ${i % 9} GROUP BY 1 ORDER BY 2`,
];

describe.skipIf(!available)('routing by expected size before Trino', () => {
  let folder: string;
  let gateway: GatewayProcess;

  beforeAll(async () => {
    await installDistribution();
    folder = await mkdtemp(join(tmpdir(), 'engine-sizes-'));
    await mkdir(join(folder, 'resources'));
    const { trinos } = await shareOf<TrinoPair>('trinoPair');
    await declare(
      join(folder, 'resources'),
      manifest('EngineCluster', 'trino-a', { proxyTo: trinos[0].url, routingGroup: 'small' }),
      manifest('EngineCluster', 'trino-b', { proxyTo: trinos[1].url, routingGroup: 'large' }),
      manifest('RoutingRule', 'large-queries', {
        condition: 'trinoQueryProperties.estimate.sizeClass == "L"',
        routeTo: { routingGroup: 'large' },
      }),
    );
    gateway = await startGateway({
      protocol: { productName: 'Trino' },
      resources: { source: 'directory', directory: join(folder, 'resources') },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      queryHistory: { spillDirectory: join(folder, 'spill') },
      monitor: { taskDelay: '1s', timeout: '10s' },
      routing: { defaultRoutingGroup: 'small' },
      requestAnalyzerConfig: { analyzeRequest: true },
      sizeClasses: { measure: 'cpu', mediumFrom: '200ms', largeFrom: '500ms', refreshInterval: '1s' },
    });
    await ready(gateway);
  }, 540_000);
  afterAll(async () => {
    await gateway?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  const run = async (sql: string) => {
    const started = performance.now();
    const { id, error } = await runQuery(gateway.url, sql, {
      ...{ productName: 'Trino', user: 'suite', signal: AbortSignal.timeout(240_000) },
    });
    expect(error).toBeUndefined();
    return { id, milliseconds: performance.now() - started };
  };
  const estimateOf = async (sql: string) => {
    const body = JSON.stringify({ headers: { 'X-Trino-User': 'suite' }, body: sql });
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${gateway.url}/api/explain`, { method: 'POST', headers, body });
    return ((await response.json()) as RoutedExplanation).request.query?.estimate.sizeClass;
  };
  /** Clusters that queries went to, each once. */
  const clustersOf = async (ids: readonly string[]) => {
    const clusters = ids.map(async (id) => {
      const read = async () => (await (await fetch(`${gateway.url}/api/queries/${id}`)).json()) as RoutedQuery;
      await expect.poll(async () => (await read()).decision?.cluster).toBeTruthy();
      return (await read()).decision?.cluster;
    });
    return [...new Set(await Promise.all(clusters))];
  };
  /** The duration that 90 % of small queries took at most, with the clusters that they went to. */
  const smallQueries = async (count: number) => {
    const runs: Awaited<ReturnType<typeof run>>[] = [];
    for (let i = 0; i < count; i += 1) for (const sql of small) runs.push(await run(sql(i)));
    const times = runs.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b);
    return { p90: times[Math.ceil(0.9 * times.length) - 1] ?? 0, clusters: await clustersOf(runs.map(({ id }) => id)) };
  };

  test('large queries leave the server of small ones once they have run', async () => {
    for (const sql of large) for (let i = 0; i < 2; i += 1) await run(sql(i));
    await smallQueries(20);
    for (const sql of large) await expect.poll(() => estimateOf(sql(5)), { timeout: 30_000 }).toBe('L');
    for (const sql of small) await expect.poll(() => estimateOf(sql(24)), { timeout: 30_000 }).toBe('S');

    const free = await smallQueries(20);
    expect(free.clusters).toEqual(['trino-a']);
    let isOver = false;
    const ids: string[] = [];
    const load = [...large, ...large].map(async (sql) => {
      for (let i = 2; !isOver || i < 3; i += 1) ids.push((await run(sql(i))).id);
    });
    const loaded = await smallQueries(20);
    isOver = true;
    await Promise.all(load);
    expect(loaded.clusters).toEqual(['trino-a']);
    expect(await clustersOf(ids)).toEqual(['trino-b']);
    console.log(
      `P90 of small queries: ${free.p90.toFixed(0)} ms, ${loaded.p90.toFixed(0)} ms under ${ids.length} large ones`,
    );
  }, 540_000);
});

interface RoutedExplanation {
  readonly request: { readonly query: { readonly estimate: { readonly sizeClass: string } } | null };
}
