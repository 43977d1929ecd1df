/**
 * Transactions of real clients over two Trino servers, behind two replicas that share a database, and the end of one of the servers;
 * a front alternates the replicas at each request.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { postgresql } from '../support/databases.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { shareOf } from '../support/sharedServer.ts';
import { addClusters } from './addClusters.ts';
import { type ClientOutcome, type EngineClient, engineClients } from './clients.ts';
import { type Distribution, installDistribution, missingTools } from './distribution.ts';
import { type Front, startFront } from './front.ts';
import { javaProgram } from './javaOptions.ts';
import { longQuery } from './queries.ts';
import type { SharedTrino, TrinoPair } from './sharedTrinos.ts';
import { listQueries, suffixOf } from './trinoQueries.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

/** Transactions of each client. */
const COUNT = 40;
const THREADS = 4;
const programs = join(import.meta.dirname, 'programs');

const idsOf = async (trino: SharedTrino): Promise<ReadonlySet<string>> =>
  new Set((await listQueries(trino)).map(({ queryId }) => queryId));

describe.skipIf(!available || !postgresql.available())('two servers and two replicas', () => {
  let distribution: Distribution;
  let trinos: readonly SharedTrino[] = [];
  let gateways: readonly GatewayProcess[] = [];
  let front: Front;

  beforeAll(async () => {
    distribution = await installDistribution();
    ({ trinos } = await shareOf<TrinoPair>('trinoPair'));
    const dataStore = await (await postgresql.start()).create();
    const config = {
      protocol: { productName: 'Trino' },
      resources: { source: 'database' },
      monitor: { taskDelay: '1s', timeout: '10s' },
      dataStore,
    };
    gateways = await Promise.all([1, 2].map(() => startGateway(config)));
    await addClusters(gateways, trinos);
    front = await startFront(gateways.map(({ url }) => url));
  }, 540_000);
  afterAll(async () => {
    await front?.close();
    await Promise.all(gateways.map((gateway) => gateway.stop()));
  });

  test.each([
    ['JDBC driver without auto-commit', (d: Distribution) => [d.java, ...javaProgram(d, 'Transact')]],
    ['Python client with an isolation level', (d: Distribution) => [d.python, join(programs, 'transact.py')]],
  ])('transactions of the %s all succeed', async (_, commandOf) => {
    const [program = '', ...args] = commandOf(distribution);
    const before = await Promise.all(trinos.map(idsOf));
    const { stdout } = await promisify(execFile)(program, [...args, front.url, `${COUNT}`, `${THREADS}`], {
      timeout: 400_000,
      maxBuffer: 1 << 24,
    });
    const outcomes = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { index: number; rows: number; error: string | null });
    expect(outcomes.filter(({ error, rows }) => error !== null || rows !== 30)).toEqual([]);
    expect(outcomes.length).toBe(COUNT);
    // Both servers had transactions.
    const after = await Promise.all(trinos.map(idsOf));
    const isNew = (ids: ReadonlySet<string>, index: number) => [...ids].some((id) => before[index]?.has(id) !== true);
    expect(after.map(isNew)).toEqual([true, true]);
  });

  test('a stopped server fails only the queries that ran on it', async () => {
    const [lost] = trinos.slice(1) as [SharedTrino];
    const [, jdbc, python] = engineClients(distribution) as [EngineClient, EngineClient, EngineClient];
    const [lostQuery] = await python.run(lost.url, [{ sql: 'SELECT 1' }]);
    const lostSuffix = suffixOf(lostQuery?.queryId ?? '');
    expect(lostSuffix).toMatch(/^[a-z0-9]{5}$/);
    const before = await idsOf(lost);
    let finished = 0;
    const count = () => {
      finished += 1;
    };
    const work = (n: number) => Array.from({ length: n }, () => ({ sql: longQuery }));
    // Spooled segments without a key are fetched through any server, also the one that stops, with any cluster that ran the query.
    const direct = await startFront(
      gateways.map(({ url }) => url),
      true,
    );
    const runs = Promise.all([jdbc.run(direct.url, work(6), 3, count), python.run(direct.url, work(4), 2, count)]);
    const running = async () =>
      (await listQueries(lost, 'RUNNING')).filter(({ queryId }) => !before.has(queryId)).length;
    await expect.poll(async () => finished > 0 && (await running()) > 0, { timeout: 300_000, interval: 50 }).toBe(true);
    process.kill(lost.pid, 'SIGKILL');

    const outcomes = (await runs).flat();
    await direct.close();
    const failed = outcomes.filter((outcome) => outcome.error !== null);
    const onLost = (outcome: ClientOutcome) => outcome.queryId !== null && suffixOf(outcome.queryId) === lostSuffix;
    expect(failed.filter((outcome) => !onLost(outcome))).toEqual([]);
    expect(failed.length).toBeGreaterThan(0);
    const good = outcomes.filter((outcome) => outcome.error === null);
    expect(new Set(good.map((outcome) => `${outcome.rows} ${outcome.digest}`)).size).toBeLessThanOrEqual(2);
    expect(good.length).toBeGreaterThan(0);

    const after = await python.run(
      front.url,
      Array.from({ length: 10 }, () => ({ sql: 'SELECT 1' })),
      2,
    );
    expect(after.filter((outcome) => outcome.error !== null || onLost(outcome))).toEqual([]);
  });
});
