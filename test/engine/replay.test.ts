/** Replays of recorded queries on two equal Trino servers. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { productNames } from '../../src/model/names.ts';
import { PageThread } from '../../src/replay/pageThread.ts';
import { StatementRuns } from '../../src/replay/statementRuns.ts';
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
/** Statements that replays sent to a server. */
const SENT = "SELECT query FROM system.runtime.queries WHERE source = 'engine-gateway-replay'";
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

  test('equal servers are verified; sessions are replayed as they were; what writes, and table functions, are never sent', async () => {
    const run = (sql: string, headers: Record<string, string> = {}) =>
      runQuery(gateway.url, sql, { ...asTrino, headers });
    for (const { sql, kind } of queries) if (kind !== 'cancelled' && kind !== 'big') await run(sql);
    await run('SELECT * FROM nation', { 'x-trino-catalog': 'tpch', 'x-trino-schema': 'tiny' });
    await run("SELECT current_timezone(), date_add('hour', 1, TIMESTAMP '2026-01-01 00:00:00')", {
      'x-trino-time-zone': 'Asia/Tokyo',
      'x-trino-session': 'join_distribution_type=BROADCAST,query_max_run_time=1h',
    });
    await run('EXECUTE one USING 3', {
      'x-trino-prepared-statement': 'one=SELECT+name+FROM+tpch.tiny.nation+WHERE+nationkey+%3C+%3F',
    });
    await run('SELECT random()');
    await run('CREATE TABLE memory.default.replayed AS SELECT 1 AS n');
    await run('SELECT * FROM TABLE(sequence(start => 1, stop => 3))');
    await run('SELECT sum(totalprice), avg(totalprice) FROM tpch.sf1.orders');
    // More rows than are compared one by one.
    await run('SELECT orderkey, extendedprice, discount FROM tpch."sf0.1".lineitem');
    const { replay: state, digests } = await replay('equal', { minCoverage: 50 });
    const others = digests.filter(({ verdict }) => verdict !== 'Same' && verdict !== 'NonDeterministic');
    expect({ others, progress: state.progress }).toMatchObject({
      others: [],
      progress: { state: 'done', verified: true, verdicts: { NonDeterministic: 1, Different: 0 } },
    });
    expect(state.progress?.excluded.notRead?.queries).toBeGreaterThan(5);
    const { rows } = await runQuery(trinos[1].url, SENT, asTrino);
    const sent = rows.map(([text]) => String(text));
    expect(sent).toEqual(expect.arrayContaining(['EXECUTE one USING 3', 'SELECT * FROM nation']));
    expect(sent.filter((text) => /create|table\(|show|explain/i.test(text))).toEqual([]);
  }, 400_000);

  test('a write that the parser would miss is rejected by the engine', async () => {
    const pages = new PageThread();
    const dispatcher = new Agent();
    try {
      const account = { username: 'replay', password: '', impersonates: false };
      const runs = new StatementRuns(productNames('Trino'), account, dispatcher, pages);
      const cluster = { name: 'trino-b', proxyTo: trinos[1].url };
      const limits = { time: 120_000, cpu: 60_000 };
      const signal = AbortSignal.timeout(240_000);
      for (const text of [
        'CREATE TABLE memory.default.missed AS SELECT 1 AS n',
        'CREATE SCHEMA memory.missed',
        'INSERT INTO blackhole.default.idle VALUES 1',
      ]) {
        const run = await runs.run(cluster, { text, user: null, headers: {}, prepared: null }, limits, signal);
        expect(run, text).toMatchObject({ kind: 'failed', error: { name: 'READ_ONLY_VIOLATION' } });
      }
    } finally {
      await pages.close();
      await dispatcher.destroy();
    }
    const { rows } = await runQuery(trinos[1].url, 'SHOW TABLES FROM memory.default', asTrino);
    expect(rows.flat()).not.toContain('missed');
  }, 300_000);
});
