/**
 * Two real Trino servers, which spool into an object store, behind two replicas of the gateway that share a PostgreSQL
 * database; a front alternates the replicas at each request. Trino's own clients must see no difference to a direct
 * connection. The Python client asks for spooled results: the servers share the secret of the segments' identifiers, so
 * that either of them can answer for the other's.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { QueryOutcome } from '../../src/api/responses/queries.ts';
import type { UserCheck } from '../../src/gateway/health/healthCheck.ts';
import { productNames } from '../../src/model/names.ts';
import { requireComponent } from '../support/components.ts';
import { postgresql } from '../support/databases.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { openChecks } from '../support/healthChecks.ts';
import { shareOf } from '../support/sharedServer.ts';
import { cancel, follow, type QueryResults, runQuery, submit } from '../support/statementClient.ts';
import { addClusters } from './addClusters.ts';
import { fetchAll, peakMegabytes } from './bigResult.ts';
import { type ClientOutcome, type EngineClient, engineClients, markQuery } from './clients.ts';
import { type Distribution, installDistribution, missingTools } from './distribution.ts';
import { type Front, startFront } from './front.ts';
import { keysIn } from './objectStore.ts';
import { BIG_ROWS, queries, slowQuery } from './queries.ts';
import type { SharedTrino, TrinoPair } from './sharedTrinos.ts';
import {
  type EngineRecord,
  engineRecord,
  type ListedQuery,
  listQueries,
  suffixOf,
  writtenBytes,
  writtenTime,
} from './trinoQueries.ts';

/** The metrics that METRICS asks for with `protocol.productName: Trino`. */
const trinoMetrics = {
  runningQueriesMetricName: 'trino_execution_name_QueryManager_RunningQueries',
  queuedQueriesMetricName: 'trino_execution_name_QueryManager_QueuedQueries',
  metricMinimumValues: { trino_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 1 },
};

/** Runs a query whose results are spooled, and gives its segments back. */
async function runSpooled(base: string, sql: string): Promise<{ readonly id: string; readonly segments: number }> {
  const client = { productName: 'Trino', user: 'suite', headers: { 'X-Trino-Query-Data-Encoding': 'json' } };
  let page = await submit(base, sql, client);
  let segments = 0;
  while (page.nextUri !== undefined) {
    page = await follow(page.nextUri, client);
    const data = page.data as unknown as { readonly segments?: readonly { readonly ackUri?: string }[] } | undefined;
    for (const { ackUri } of data?.segments ?? []) {
      if (ackUri === undefined) continue;
      segments += 1;
      await (await fetch(ackUri)).arrayBuffer();
    }
  }
  return { id: page.id, segments };
}

/**
 * What a gateway has otherwise than the server that ran a query. Both round times: the server to three or four digits, so that
 * half of the last one, and a millisecond, may lie between them. Of a query that failed the server may count what tasks reported
 * after the last answer: at least as much. Of one that its client cancelled no answer had figures, and its end is when the
 * gateway had the server's word for it.
 */
function differences(outcome: QueryOutcome, { errorCode, queryStats }: EngineRecord): readonly string[] {
  const found: string[] = [];
  const expectThat = (holds: boolean, name: string, ours: unknown, theirs: unknown) => {
    if (!holds) found.push(`${name} is ${ours} at the gateway, ${theirs} at the server`);
  };
  const { state, elapsedMillis, queuedMillis, cpuMillis, processedRows, processedBytes, peakMemoryBytes } = outcome;
  if (state === 'CANCELLED') {
    const { value, roundedBy } = writtenTime(queryStats.elapsedTime);
    const isLater = (elapsedMillis ?? 0) >= value - roundedBy - 1;
    expectThat(isLater, 'elapsed', elapsedMillis, queryStats.elapsedTime);
    return found;
  }
  const code = errorCode?.code ?? null;
  expectThat(outcome.errorCode === code, 'error code', outcome.errorCode, code);
  const mayMiss = state === 'FAILED';
  for (const [name, ours, theirs, isFinal] of [
    ['elapsed', elapsedMillis, queryStats.elapsedTime, true],
    ['queued', queuedMillis, queryStats.queuedTime, true],
    ['CPU', cpuMillis, queryStats.totalCpuTime, !mayMiss],
  ] as const) {
    const { value, roundedBy } = writtenTime(theirs);
    const less = value - (ours ?? Number.NaN);
    expectThat(less >= -roundedBy - 1 && (!isFinal || less <= roundedBy + 1), name, ours, theirs);
  }
  for (const [name, ours, theirs] of [
    ['processed rows', processedRows, queryStats.processedInputPositions],
    ['processed bytes', processedBytes, writtenBytes(queryStats.rawInputDataSize)],
    ['peak memory', peakMemoryBytes, writtenBytes(queryStats.peakUserMemoryReservation)],
  ] as const) {
    expectThat(mayMiss ? ours !== null && ours <= theirs : ours === theirs, name, ours, theirs);
  }
  return found;
}

const asTrino = { productName: 'Trino', user: 'suite' };
/** The last page of a query. */
const rest = async (page: QueryResults): Promise<QueryResults> =>
  page.nextUri === undefined ? page : rest(await follow(page.nextUri, asTrino));

/** A query as `GET /api/queries` lists it. */
interface KeptQuery {
  readonly queryId: string;
  readonly cluster: string | null;
  readonly outcome: QueryOutcome | null;
}

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

describe.skipIf(!available || !postgresql.available())('real clients, two replicas, two Trino servers', () => {
  let distribution: Distribution;
  let history: pg.Client;
  let bucket: string;
  let trinos: readonly SharedTrino[] = [];
  let gateways: readonly GatewayProcess[] = [];
  let front: Front;

  beforeAll(async () => {
    distribution = await installDistribution();
    ({ trinos, bucket } = await shareOf<TrinoPair>('trinoPair'));
    const dataStore = await (await postgresql.start()).create();
    const { hostname, port, pathname } = new URL(dataStore.jdbcUrl.replace(/^jdbc:/, ''));
    const { user, password } = dataStore;
    history = new pg.Client({ host: hostname, port: Number(port), database: pathname.slice(1), user, password });
    await history.connect();
    const config = {
      protocol: { productName: 'Trino' },
      resources: { source: 'database' },
      routing: { explainHeader: true },
      monitor: { taskDelay: '1s', timeout: '10s' },
    };
    gateways = await Promise.all([1, 2].map(() => startGateway({ ...config, dataStore })));
    await addClusters(gateways, trinos);
    front = await startFront(gateways.map((gateway) => gateway.url));
  }, 540_000);

  afterAll(async () => {
    await front?.close();
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await history?.end();
  });

  /** Queries of all servers by id, with the server. */
  async function allQueries(): Promise<ReadonlyMap<string, ListedQuery & { readonly server: SharedTrino }>> {
    const lists = await Promise.all(
      trinos.map(async (server) => (await listQueries(server)).map((query) => ({ ...query, server }))),
    );
    return new Map(lists.flat().map((query) => [query.queryId, query]));
  }

  test.each(['METRICS', 'JDBC', 'JMX', 'UI_API'] as const)(
    '%s checks a server and counts its queries',
    async (type) => {
      const [trino] = trinos as readonly [SharedTrino];
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
          const target = { cluster: 'a', proxyTo: trino.url, path: null };
          const user = { username: 'monitor', password, from: 'backendState' };
          return await kind.check(target, user, AbortSignal.timeout(60_000));
        };
        const result = await check('');
        expect(result).toMatchObject({ health: 'HEALTHY', queued: 0, running: 1 });
        expect(result.workers).toBe(type === 'JMX' || type === 'UI_API' ? 1 : undefined);
        // Over HTTP the server refuses passwords; JMX and JDBC do not send them there.
        const withPassword = await check('s3cret');
        const refused = { health: 'UNHEALTHY', reason: expect.stringContaining('fix backendState') };
        expect(withPassword).toMatchObject(type === 'JMX' || type === 'JDBC' ? { health: 'HEALTHY' } : refused);
      } finally {
        if (page.nextUri !== undefined) await fetch(page.nextUri, { method: 'DELETE', headers });
        await checks.close();
      }
    },
  );

  test.each([0, 1, 2])('client %i sees what a direct connection shows', async (position) => {
    const client = engineClients(distribution)[position] as EngineClient;
    const threads = 2;
    // Those that fail or are cancelled are the last ones.
    const successful = queries.filter(({ kind }) => kind !== 'failing' && kind !== 'cancelled');
    const direct = await client.run(trinos[0]?.url ?? '', successful, threads);
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
    const isNew = (query: ListedQuery) => !before.has(query.queryId) && query.query !== markQuery;
    const ran = async () => [...(await allQueries()).values()].filter(isNew);
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

    // And the history has each query, with the server that ran it.
    const recorded = async () => {
      const { rows } = await history.query<{ query_id: string; backend_url: string }>(
        'SELECT query_id, backend_url FROM query_history',
      );
      const byId = new Map(rows.map((row) => [row.query_id, row.backend_url]));
      return mine.map((query) => byId.get(query.queryId));
    };
    await expect.poll(recorded, { timeout: 10_000 }).toEqual(mine.map((query) => query.server.url));
  });

  test('kill_query ends the query it names, whichever server runs it', async () => {
    const [victimSql] = queries.filter(({ kind }) => kind === 'cancelled').map(({ sql }) => sql) as [string];
    const ways = [
      (id: string) => [`CALL system.runtime.kill_query(query_id => '${id}', message => 'enough')`, {}] as const,
      (id: string) => [`EXECUTE IMMEDIATE 'CALL system.runtime.kill_query(''${id}'', ''enough'')'`, {}] as const,
      (id: string) => {
        const text = encodeURIComponent(`CALL system.runtime.kill_query('${id}', 'enough')`);
        return ['EXECUTE killer', { 'X-Trino-Prepared-Statement': `killer=${text}` }] as const;
      },
    ];
    const onSameServer: boolean[] = [];
    for (const way of [...ways, ...ways]) {
      const victim = await submit(front.url, victimSql, asTrino);
      const [last] = await Promise.all([
        rest(victim),
        (async () => {
          const running = async () =>
            (await Promise.all(trinos.map((server) => listQueries(server, 'RUNNING')))).flat().map((q) => q.queryId);
          await expect.poll(running, { timeout: 60_000, interval: 50 }).toContain(victim.id);
          const [sql, headers] = way(victim.id);
          const killer = await runQuery(front.url, sql, { ...asTrino, headers });
          expect(killer.error?.message, sql).toBeUndefined();
          onSameServer.push(suffixOf(killer.id) === suffixOf(victim.id));
        })(),
      ]);
      expect(last.error).toMatchObject({ errorName: 'ADMINISTRATIVELY_KILLED' });
      expect(last.error?.message).toContain('enough');
    }
    expect(onSameServer).toEqual(onSameServer.map(() => true));
  });

  test('a call of the API at another replica lists and ends a query that runs', async () => {
    const [sql] = queries.filter(({ kind }) => kind === 'cancelled').map((query) => query.sql) as [string];
    const [one, two] = gateways.map(({ url }) => url) as [string, string];
    const victim = await submit(one, sql, asTrino);
    const running = async (): Promise<readonly string[]> => {
      const response = await fetch(`${two}/api/queries/running?user=suite`);
      const { queries: listed } = (await response.json()) as { queries: { queryId: string }[] };
      return listed.map(({ queryId }) => queryId);
    };
    const [last] = await Promise.all([
      rest(victim),
      (async () => {
        await expect.poll(running, { timeout: 60_000, interval: 100 }).toContain(victim.id);
        const response = await fetch(`${two}/api/queries/running/${victim.id}`, { method: 'DELETE' });
        expect([response.status, await response.text()]).toEqual([204, '']);
      })(),
    ]);
    expect(last.error).toMatchObject({ errorName: 'USER_CANCELED' });
    await expect.poll(running, { timeout: 60_000, interval: 100 }).not.toContain(victim.id);
  });

  test('how 80 queries ended is as the servers themselves have it', async () => {
    const plain = Array.from({ length: 65 }, (_, i) =>
      i % 6 === 0 ? `SELECT ${i} / 0` : `SELECT ${i}, * FROM tpch.tiny.region`,
    );
    const spooled = Array.from({ length: 3 }, (_, i) => `SELECT ${i}, * FROM tpch.tiny.lineitem`);
    const ran: string[] = [];
    for (let at = 0; at < plain.length; at += 5) {
      const ended = await Promise.all(plain.slice(at, at + 5).map((sql) => runQuery(front.url, sql, asTrino)));
      ran.push(...ended.map(({ id }) => id));
    }
    const ofSpooled = await Promise.all(spooled.map((sql) => runSpooled(front.url, sql)));
    for (const { segments } of ofSpooled) expect(segments).toBeGreaterThan(0);
    const untilRunning = async (page: QueryResults): Promise<QueryResults> =>
      page.stats.state === 'RUNNING' ? page : untilRunning(await follow(page.nextUri ?? '', asTrino));
    const cancelled = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const { id, nextUri = '' } = await untilRunning(await submit(front.url, slowQuery, asTrino));
        expect(await cancel(nextUri, asTrino)).toBe(204);
        return id;
      }),
    );
    const killed = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const victim = await untilRunning(await submit(front.url, slowQuery, asTrino));
        const sql = `CALL system.runtime.kill_query('${victim.id}', 'enough')`;
        const [last, killer] = await Promise.all([rest(victim), runQuery(front.url, sql, asTrino)]);
        expect(last.error?.errorName).toBe('ADMINISTRATIVELY_KILLED');
        return [victim.id, killer.id];
      }),
    );
    ran.push(...ofSpooled.map(({ id }) => id), ...cancelled, ...killed.flat());
    expect(ran.length).toBeGreaterThanOrEqual(80);

    // Beside them are those of the tests before.
    const kept = async (): Promise<ReadonlyMap<string, QueryOutcome | null>> => {
      const response = await fetch(`${gateways[1]?.url}/api/queries?limit=1000`);
      const { queries: listed } = (await response.json()) as { queries: readonly KeptQuery[] };
      return new Map(listed.flatMap(({ queryId, cluster, outcome }) => (cluster === null ? [] : [[queryId, outcome]])));
    };
    const states = async () => {
      const servers = await allQueries();
      return [...(await kept())].map(([queryId, outcome]) => {
        const server = servers.get(queryId);
        const { name, type } = server?.errorCode ?? { name: null, type: null };
        const state = name === 'USER_CANCELED' ? 'CANCELLED' : server?.state;
        const isNamed = outcome?.state === 'FAILED';
        return {
          gateway: [queryId, outcome?.state, ...(isNamed ? [outcome.errorName, outcome.errorType] : [])],
          server: [queryId, state, ...(isNamed ? [name, type] : [])],
        };
      });
    };
    const isKept = async () => {
      const ids = await kept();
      return ran.filter((id) => !ids.has(id));
    };
    await expect.poll(isKept, { timeout: 20_000 }).toEqual([]);
    await expect
      .poll(async () => (await states()).filter(({ gateway, server }) => gateway.join() !== server.join()), {
        timeout: 20_000,
      })
      .toEqual([]);

    const outcomes = await kept();
    const statesOf = (ids: readonly string[]) => [...new Set(ids.map((id) => outcomes.get(id)?.state))];
    expect(statesOf(ofSpooled.map(({ id }) => id))).toEqual(['FINISHED']);
    expect(statesOf(cancelled)).toEqual(['CANCELLED']);
    const victims = killed.map(([id = '']) => id);
    expect(new Set(victims.map((id) => outcomes.get(id)?.errorName))).toEqual(new Set(['ADMINISTRATIVELY_KILLED']));

    const servers = await allQueries();
    const compared = ran.map(async (id) => {
      const outcome = outcomes.get(id);
      if (outcome == null) throw new Error(`there is no outcome of ${id}`);
      return differences(outcome, await engineRecord(servers.get(id)?.server as SharedTrino, id)).map(
        (difference) => `${id}: ${difference}`,
      );
    });
    expect((await Promise.all(compared)).flat()).toEqual([]);
  });

  test('spooled results: each segment comes from the cluster of its query, through any replica', async () => {
    const [, , python] = engineClients(distribution) as [EngineClient, EngineClient, EngineClient];
    const spooled = { sql: 'SELECT * FROM tpch.tiny.lineitem' };
    const some = [...queries.filter(({ kind }) => kind === undefined).slice(-4), spooled];
    const direct = await python.run(trinos[0]?.url ?? '', some, 2);
    const seen = (outcomes: readonly ClientOutcome[]) => outcomes.map((outcome) => ({ ...outcome, queryId: null }));
    expect(seen(await python.run(front.url, some, 2))).toEqual(seen(direct));
    expect(direct.map(({ error }) => error)).toEqual(direct.map(() => null));

    // What that client has done, looked at: each segment is asked of the server of its query, and can be given back.
    const client = { productName: 'Trino', headers: { 'X-Trino-Query-Data-Encoding': 'json' } };
    for (const gateway of gateways) {
      let page = await submit(gateway.url, spooled.sql, client);
      const key = new URL(page.nextUri ?? '').pathname.split('/')[1];
      const segments: { readonly uri: string; readonly ackUri: string }[] = [];
      while (page.nextUri !== undefined) {
        expect(new URL(page.nextUri).pathname).toMatch(new RegExp(`^/${key}/v1/statement/`));
        page = await follow(page.nextUri.replace(gateway.url, front.url), client);
        const data = page.data as unknown as { readonly segments?: typeof segments } | undefined;
        segments.push(...(data?.segments ?? []).filter(({ uri }) => uri !== undefined));
      }
      const owner = (await allQueries()).get(page.id)?.server.name;
      expect(segments.length).toBeGreaterThan(0);
      for (const { uri, ackUri } of segments) {
        for (const asked of [uri, ackUri]) {
          expect(new URL(asked).pathname).toMatch(new RegExp(`^/${key}/v1/spooled/`));
          const answer = await fetch(asked);
          await answer.arrayBuffer();
          expect([answer.status, answer.headers.get('X-Trino-Routing-Decision')]).toEqual([
            200,
            `cluster=${owner}; group=adhoc; by=prefix`,
          ]);
        }
      }
    }
    expect(await keysIn(bucket)).toEqual([]);
  });

  test('400 MB of results pass through a replica that stays below 300 MB', async () => {
    const [gateway] = gateways as [GatewayProcess];
    const sql = "SELECT lpad(CAST(sequential_number AS varchar), 100000, 'abcdefghij') FROM TABLE(sequence(1, 4200))";
    const started = performance.now();
    const { bytes, answers, state } = await fetchAll(gateway.url, sql);
    const seconds = (performance.now() - started) / 1000;
    const peak = await peakMegabytes(gateway.pid);
    const fetched = `${(bytes / 1e6).toFixed(0)} MB in ${answers} answers and ${seconds.toFixed(0)} s`;
    console.log(`${fetched}; largest resident memory of the gateway: ${peak.toFixed(0)} MB`);
    expect(state).toBe('FINISHED');
    expect(bytes).toBeGreaterThan(4e8);
    expect(peak).toBeLessThan(300);
  });
});
