/**
 * Two real Trino servers behind two replicas of the gateway that share a PostgreSQL database; a front alternates the
 * replicas at each request. Trino's own clients must see no difference to a direct connection.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { UserCheck } from '../../src/gateway/health/healthCheck.ts';
import { productNames } from '../../src/model/names.ts';
import { requireComponent } from '../support/components.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { openChecks } from '../support/healthChecks.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { type ClientOutcome, type EngineClient, engineClients } from './clients.ts';
import { type Distribution, installDistribution, missingTools } from './distribution.ts';
import { type Front, startFront } from './front.ts';
import { BIG_ROWS, longQuery, queries, slowQuery } from './queries.ts';
import { type ListedQuery, listQueries, suffixOf } from './trinoQueries.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

/** The metrics that METRICS asks for with `protocol.productName: Trino`. */
const trinoMetrics = {
  runningQueriesMetric: 'trino_execution_name_QueryManager_RunningQueries',
  queuedQueriesMetric: 'trino_execution_name_QueryManager_QueuedQueries',
  metricMinimums: { trino_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 1 },
};

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

describe.skipIf(!available || !hasPostgresql())('real clients, two replicas, two Trino servers', () => {
  let distribution: Distribution;
  let database: TestServer;
  let history: pg.Client;
  let trinos: readonly TrinoServer[] = [];
  let gateways: readonly GatewayProcess[] = [];
  let front: Front;
  const alive = () => trinos.filter((trino) => !stopped.has(trino.name));
  const stopped = new Set<string>();

  beforeAll(async () => {
    distribution = await installDistribution();
    [trinos, database] = await Promise.all([
      Promise.all(['trino-a', 'trino-b'].map((name) => startTrino(name, distribution))),
      startPostgresql(),
    ]);
    const dataStore = await database.createDatabase();
    const { hostname, port, pathname } = new URL(dataStore.jdbcUrl.replace(/^jdbc:/, ''));
    const { user, password } = dataStore;
    history = new pg.Client({ host: hostname, port: Number(port), database: pathname.slice(1), user, password });
    await history.connect();
    const config = {
      protocol: { productName: 'Trino' },
      resources: { source: 'database' },
      dataStore,
      monitor: { taskDelay: '1s', timeout: '10s' },
    };
    gateways = await Promise.all([startGateway(config), startGateway(config)]);
    for (const { name, url } of trinos) {
      const body = JSON.stringify({ name, proxyTo: url, active: true, routingGroup: 'adhoc' });
      const headers = { 'Content-Type': 'application/json' };
      const response = await fetch(`${gateways[0]?.url}/gateway/backend/modify/add`, { method: 'POST', headers, body });
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining(name)]);
    }
    for (const gateway of gateways) {
      const bothHealthy = async () => expect(await healthyClusters(gateway.url)).toEqual(['trino-a', 'trino-b']);
      await vi.waitFor(bothHealthy, { timeout: 30_000, interval: 100 });
    }
    front = await startFront(gateways.map((gateway) => gateway.url));
  }, 540_000);

  afterAll(async () => {
    await front?.close();
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await history?.end();
    await Promise.all([...trinos.map((trino) => trino.kill()), database?.dispose()]);
  });

  async function healthyClusters(url: string): Promise<readonly string[]> {
    const names = ['trino-a', 'trino-b'];
    const states = await Promise.all(
      names.map(async (name) => {
        const response = await fetch(`${url}/api/public/backends/${name}/state`);
        return response.ok ? ((await response.json()) as Record<string, unknown>) : {};
      }),
    );
    return names.filter((_, i) => Object.values(states[i] ?? {}).includes('HEALTHY'));
  }

  /** Queries of all running servers by id, with the server's name. */
  async function allQueries(): Promise<ReadonlyMap<string, ListedQuery & { readonly server: TrinoServer }>> {
    const lists = await Promise.all(
      alive().map(async (server) => (await listQueries(server)).map((query) => ({ ...query, server }))),
    );
    return new Map(lists.flat().map((query) => [query.queryId, query]));
  }

  test.each(['METRICS', 'JDBC', 'JMX', 'UI_API'] as const)(
    '%s checks a server and counts its queries',
    async (type) => {
      const [trino] = trinos as readonly [TrinoServer];
      const headers = { 'X-Trino-User': 'ann' };
      const submitted = await fetch(`${trino.url}/v1/statement`, { method: 'POST', headers, body: slowQuery });
      let page = (await submitted.json()) as { readonly nextUri?: string; readonly stats: { readonly state: string } };
      while (page.stats.state !== 'RUNNING') {
        expect(page.nextUri, JSON.stringify(page)).toBeDefined();
        page = (await (await fetch(page.nextUri ?? '', { headers })).json()) as typeof page;
      }
      const checks = openChecks(trinoMetrics, { names: productNames('Trino') });
      try {
        const check = async (password: string) => {
          const kind = checks.kinds[type] as UserCheck;
          const target = { cluster: 'a', baseUrl: trino.url, path: null };
          const user = { username: 'monitor', password, from: 'backendState' };
          return await kind.check(target, user, AbortSignal.timeout(60_000));
        };
        const result = await check('');
        expect(result).toMatchObject({ found: 'HEALTHY', queued: 0, running: 1 });
        expect(result.workers).toBe(type === 'JMX' || type === 'UI_API' ? 1 : undefined);
        // Over HTTP the server refuses passwords; JMX and JDBC do not send them there.
        const withPassword = await check('s3cret');
        const refused = { found: 'UNHEALTHY', reason: expect.stringContaining('mend backendState') };
        expect(withPassword).toMatchObject(type === 'JMX' || type === 'JDBC' ? { found: 'HEALTHY' } : refused);
      } finally {
        if (page.nextUri !== undefined) await fetch(page.nextUri, { method: 'DELETE', headers });
        await checks.close();
      }
    },
  );

  test.each([0, 1, 2])('client %i sees what a direct connection shows', async (position) => {
    const client = engineClients(distribution)[position] as EngineClient;
    const threads = 2;
    const direct = await client.run(trinos[0]?.url ?? '', queries, threads);
    const before = await allQueries();
    const counts = [...front.counts];
    const routed = await client.run(front.url, queries, threads);

    for (const [i, { kind, sql }] of queries.entries()) {
      const outcome = routed[i] as ClientOutcome;
      const label = `${client.name}: ${sql}`;
      if (kind === 'failing') expect(outcome.error, label).toContain('Division by zero');
      else if (kind === 'cancelled') expect(outcome.error, label).not.toBeNull();
      else expect({ ...outcome, queryId: null }, label).toEqual({ ...direct[i], queryId: null, error: null });
      if (kind === 'big') expect(outcome.rows, label).toBeGreaterThanOrEqual(BIG_ROWS);
    }

    // Asked of the servers themselves: each ran to its end, or failed as it should.
    const ran = async () => [...(await allQueries()).values()].filter((query) => !before.has(query.queryId));
    await expect
      .poll(async () => (await ran()).map((query) => query.state).sort(), { timeout: 20_000 })
      .toEqual(queries.map(({ kind }) => (kind === 'failing' || kind === 'cancelled' ? 'FAILED' : 'FINISHED')).sort());
    const mine = await ran();
    const errors = mine.flatMap((query) => query.errorCode?.name ?? []).sort();
    expect(errors).toEqual(['DIVISION_BY_ZERO', 'USER_CANCELED']);
    expect(new Set(mine.map((query) => query.server.name)).size, 'servers that took queries').toBe(2);

    // Both replicas had their share of each query's requests.
    const shares = front.counts.map((count, i) => count - (counts[i] ?? 0));
    expect(Math.abs((shares[0] ?? 0) - (shares[1] ?? 0))).toBeLessThanOrEqual(1);
    expect(shares[0]).toBeGreaterThan(queries.length);

    // And the history tells each query, with the server that ran it.
    const recorded = async () => {
      const { rows } = await history.query<{ query_id: string; backend_url: string }>(
        'SELECT query_id, backend_url FROM query_history',
      );
      const byId = new Map(rows.map((row) => [row.query_id, row.backend_url]));
      return mine.map((query) => byId.get(query.queryId));
    };
    await expect.poll(recorded, { timeout: 10_000 }).toEqual(mine.map((query) => query.server.url));
  });

  test('a stopped server fails only the queries that ran on it', async () => {
    const [lost] = trinos.slice(1) as [TrinoServer];
    const [, jdbc, python] = engineClients(distribution) as [EngineClient, EngineClient, EngineClient];
    const [told] = await python.run(lost.url, [{ sql: 'SELECT 1' }]);
    const lostSuffix = suffixOf(told?.queryId ?? '');
    expect(lostSuffix).toMatch(/^[a-z0-9]{5}$/);
    const before = await allQueries();
    let finished = 0;
    const count = () => {
      finished += 1;
    };
    const work = (n: number) => Array.from({ length: n }, () => ({ sql: longQuery }));
    const runs = Promise.all([jdbc.run(front.url, work(9), 3, count), python.run(front.url, work(6), 2, count)]);
    const running = async () =>
      (await listQueries(lost)).filter((query) => query.state === 'RUNNING' && !before.has(query.queryId)).length;
    await expect.poll(async () => finished > 0 && (await running()) > 0, { timeout: 120_000, interval: 50 }).toBe(true);
    stopped.add(lost.name);
    await lost.kill();

    const outcomes = (await runs).flat();
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
