/** Replays of recorded queries on real Trino servers: equal ones, and one with other data. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { postgresql } from '../support/databases.ts';
import { until } from '../support/gateway.ts';
import { asProcess, type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { declare, manifest, sharedSecret } from '../support/queueing.ts';
import { shareOf } from '../support/sharedServer.ts';
import { runQuery } from '../support/statementClient.ts';
import { missingTools } from './distribution.ts';
import { queries } from './queries.ts';
import type { TrinoPair } from './sharedTrinos.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

const asTrino = { productName: 'Trino', user: 'ann' };
const json = { 'content-type': 'application/json' };

interface Report {
  readonly replay: {
    readonly progress: {
      readonly state: string;
      readonly message: string;
      readonly verified: boolean | null;
      readonly verdicts: Readonly<Record<string, number>>;
      readonly excluded: Readonly<Record<string, { readonly queries: number }>>;
    } | null;
  };
  readonly digests: readonly {
    readonly verdict: string;
    readonly reason: string;
    readonly example: { readonly queryId: string };
  }[];
}

describe.skipIf(!available || !postgresql.available())('replays on Trino', () => {
  let folder: string;
  let trinos: TrinoPair['trinos'];
  let gateway: GatewayProcess;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'engine-replay-'));
    await mkdir(join(folder, 'resources'));
    ({ trinos } = await shareOf<TrinoPair>('trinoPair'));
    const [a, b] = trinos;
    await declare(
      join(folder, 'resources'),
      manifest('EngineCluster', 'trino-a', { proxyTo: a.url, routingGroup: 'adhoc' }),
      manifest('EngineCluster', 'trino-b', { proxyTo: b.url, routingGroup: 'adhoc', active: false }),
    );
    gateway = await startGateway(
      {
        ...sharedSecret,
        protocol: { productName: 'Trino' },
        resources: { source: 'directory', directory: join(folder, 'resources') },
        routing: { defaultRoutingGroup: 'adhoc' },
        monitor: { taskDelay: '1s', timeout: '10s' },
        requestAnalyzerConfig: { analyzeRequest: true },
        dataStore: await (await postgresql.start()).create(),
      },
      {},
      asProcess,
    );
    await until(
      async () => {
        const state = (await (await fetch(`${gateway.url}/api/public/backends/trino-a/state`)).json()) as {
          readonly trinoStatus?: string;
        };
        return state.trinoStatus === 'HEALTHY';
      },
      'trino-a to be healthy',
      120_000,
    );
  }, 540_000);
  afterAll(async () => {
    await gateway?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  /** Declares a replay and waits for its end. */
  async function replay(name: string, spec: object): Promise<Report> {
    const put = await fetch(`${gateway.url}/api/replays/default/${name}`, {
      ...{ method: 'PUT', headers: json },
      body: JSON.stringify({
        ...{ control: 'trino-a', candidate: 'trino-b', from: { history: { last: '1h' } } },
        ...{ replayAs: { username: 'replay' }, ...spec },
      }),
    });
    expect([put.status, await put.text()]).toEqual([200, expect.any(String)]);
    const report = async () =>
      (await (await fetch(`${gateway.url}/api/replays/default/${name}/report`)).json()) as Report;
    await until(
      async () => ['done', 'failed'].includes((await report()).replay.progress?.state ?? ''),
      'the replay to end',
      300_000,
    );
    return await report();
  }

  test('equal servers are verified; what writes, and what runs elsewhere, is never sent', async () => {
    const run = (sql: string, headers: Record<string, string> = {}) =>
      runQuery(gateway.url, sql, { ...asTrino, headers });
    for (const { sql, kind } of queries) if (kind !== 'cancelled') await run(sql);
    await run('SELECT * FROM nation', { 'x-trino-catalog': 'tpch', 'x-trino-schema': 'tiny' });
    await run('EXECUTE one USING 3', {
      'x-trino-prepared-statement': 'one=SELECT+name+FROM+tpch.tiny.nation+WHERE+nationkey+%3C+%3F',
    });
    await run('SELECT random()');
    await run('CREATE TABLE memory.default.replayed AS SELECT 1 AS n');
    await run('SELECT sum(totalprice), avg(totalprice) FROM tpch.sf1.orders');
    const { replay: state, digests } = await replay('equal', { minCoverage: 50 });
    console.log(JSON.stringify({ state, digests }, null, 1));
    expect(state.progress).toMatchObject({ state: 'done', verified: true });
  }, 400_000);
});
