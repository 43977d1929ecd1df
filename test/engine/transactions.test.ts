/**
 * Transactions of real clients over two Trino servers, behind two replicas that share a database; a front alternates the
 * replicas at each request.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { type Distribution, installDistribution, missingTools } from './distribution.ts';
import { type Front, startFront } from './front.ts';
import { javaProgram } from './javaOptions.ts';
import { listQueries } from './trinoQueries.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

/** Transactions of each client. */
const COUNT = 100;
const THREADS = 4;
const programs = join(import.meta.dirname, 'programs');

describe.skipIf(!available || !hasPostgresql())('transactions over two servers and two replicas', () => {
  let distribution: Distribution;
  let database: TestServer;
  let trinos: readonly TrinoServer[] = [];
  let gateways: readonly GatewayProcess[] = [];
  let front: Front;

  beforeAll(async () => {
    distribution = await installDistribution();
    [trinos, database] = await Promise.all([
      Promise.all(['trino-a', 'trino-b'].map((name) => startTrino(name, distribution))),
      startPostgresql(),
    ]);
    const dataStore = await database.createDatabase();
    const config = {
      protocol: { productName: 'Trino' },
      resources: { source: 'database' },
      monitor: { taskDelay: '1s', timeout: '10s' },
      dataStore,
    };
    gateways = await Promise.all([1, 2].map(() => startGateway(config)));
    for (const { name, url } of trinos) {
      const body = JSON.stringify({ name, proxyTo: url, active: true, routingGroup: 'adhoc' });
      const headers = { 'Content-Type': 'application/json' };
      const added = await fetch(`${gateways[0]?.url}/gateway/backend/modify/add`, { method: 'POST', headers, body });
      expect(added.status, await added.text()).toBe(200);
      for (const gateway of gateways) {
        const state = async () => (await fetch(`${gateway.url}/api/public/backends/${name}/state`)).text();
        await until(async () => (await state()).includes('"HEALTHY"'), `${name} to be healthy`, 120_000);
      }
    }
    front = await startFront(gateways.map(({ url }) => url));
  }, 540_000);
  afterAll(async () => {
    await front?.close();
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await Promise.all([...trinos.map((trino) => trino.kill()), database?.dispose()]);
  });

  test.each([
    ['JDBC driver without auto-commit', (d: Distribution) => [d.java, ...javaProgram(d, 'Transact')]],
    ['Python client with an isolation level', (d: Distribution) => [d.python, join(programs, 'transact.py')]],
  ])('of the %s all succeed', async (_, commandOf) => {
    const [program = '', ...args] = commandOf(distribution);
    const before = await Promise.all(trinos.map(async (trino) => (await listQueries(trino)).length));
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
    const after = await Promise.all(trinos.map(async (trino) => (await listQueries(trino)).length));
    expect(after.map((count, index) => count > (before[index] ?? 0))).toEqual([true, true]);
  });
});
