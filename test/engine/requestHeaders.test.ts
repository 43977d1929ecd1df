/** Headers of requests under either name: a real Trino and the gateway before it read the same request. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { send } from '../support/rawHttp.ts';
import { shareOf } from '../support/sharedServer.ts';
import { pathOf, type QueryResults } from '../support/statementClient.ts';
import { addClusters } from './addClusters.ts';
import { engineClients } from './clients.ts';
import { type Distribution, installDistribution, missingTools } from './distribution.ts';
import type { SharedTrino, TrinoPair } from './sharedTrinos.ts';
import { listQueries } from './trinoQueries.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

const basic = (text: string) => ['Authorization', `Basic ${Buffer.from(text).toString('base64')}`];

/** Header lines of a request, and the user that it names. */
const users: readonly (readonly [name: string, lines: readonly string[], user: string])[] = [
  ['only an original user', ['X-Trino-Original-User', 'ann'], 'ann'],
  ['a user and an original user', ['X-Trino-Original-User', 'ann', 'X-Trino-User', 'ben'], 'ben'],
  ['an empty user and an original user', ['X-Trino-User', '', 'X-Trino-Original-User', 'ann'], 'ann'],
  ['two original users', ['X-Trino-Original-User', 'ann', 'X-Trino-Original-User', 'ben'], 'ann'],
  ['Basic without a colon', basic('ann'), 'ann'],
  ['Basic and an original user', [...basic('ann'), 'X-Trino-Original-User', 'ben'], 'ann'],
  ['Basic and a user', [...basic('ann'), 'X-Trino-User', 'ben'], 'ben'],
  ['a token and an original user', ['Authorization', 'Bearer x', 'X-Trino-Original-User', 'ann'], 'ann'],
  ['a user that Connection names', ['X-Trino-User', 'ann', 'Connection', 'X-Trino-User'], 'ann'],
  [
    'a user that Connection names, and Basic',
    ['X-Trino-User', 'ann', 'Connection', 'close, x-trino-user', ...basic('ben')],
    'ann',
  ],
];

/** A query as the server has it. */
interface EngineQuery {
  readonly session: Readonly<Record<string, unknown>>;
}

/** Headers that the server shows in the session of a query: what is sent, and what the session has of it. */
const fields: readonly (readonly [suffix: string, value: string, member: string, expected: unknown])[] = [
  ['User', 'ann', 'user', 'ann'],
  ['Original-User', 'ben', 'originalUser', 'ben'],
  ['Source', 'suite', 'source', 'suite'],
  ['Catalog', 'tpch', 'catalog', 'tpch'],
  ['Schema', 'tiny', 'schema', 'tiny'],
  ['Client-Info', 'info', 'clientInfo', 'info'],
  ['Client-Tags', 'a,b', 'clientTags', ['a', 'b']],
  ['Trace-Token', 'token', 'traceToken', 'token'],
  ['Session', 'query_max_run_time=7m', 'systemProperties', { query_max_run_time: '7m' }],
  ['Resource-Estimate', 'EXECUTION_TIME=5m', 'resourceEstimates', { executionTime: 300 }],
  ['Prepared-Statement', 'p=SELECT+7', 'preparedStatements', { p: 'SELECT 7' }],
];

/** Products in the header names of a client, and in what its `Connection` names; null: it names nothing. */
const clients = [null, 'Engine', 'Trino'].flatMap((named) =>
  [['Engine'], ['Trino'], ['Engine', 'Trino']].map((products) => [products, named] as const),
);

describe.skipIf(!available)('headers of requests', () => {
  let folder: string;
  let distribution: Distribution;
  let trino: SharedTrino;
  /** Of product name Trino. */
  let gateway: GatewayProcess;
  /** Without a product name: clusters get both names. */
  let unnamed: GatewayProcess;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'request-headers-'));
    distribution = await installDistribution();
    [trino] = (await shareOf<TrinoPair>('trinoPair')).trinos;
    const start = async (name: string, more: object): Promise<GatewayProcess> => {
      const started = await startGateway({
        resources: { source: 'database' },
        monitor: { taskDelay: '1s', timeout: '10s' },
        requestAnalyzerConfig: { analyzeRequest: true },
        dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, `${name}.db`)}` },
        ...more,
      });
      await addClusters([started], [{ name: 'a', url: trino.url }]);
      return started;
    };
    gateway = await start('trino', { protocol: { productName: 'Trino' } });
    unnamed = await start('unnamed', {});
  }, 540_000);
  afterAll(async () => {
    await Promise.all([gateway?.stop(), unnamed?.stop()]);
    await rm(folder, { recursive: true, force: true });
  });

  /** Sends a statement, and each follow-up with the same header lines; the last page. */
  async function run(url: string, sql: string, lines: readonly string[]): Promise<QueryResults> {
    let response = await send(url, '/v1/statement', { method: 'POST', headers: lines, body: sql });
    for (;;) {
      expect(response.status, response.text).toBe(200);
      const page = JSON.parse(response.text) as QueryResults;
      if (page.nextUri === undefined) return page;
      response = await send(url, pathOf(page.nextUri), { headers: lines });
    }
  }

  const read = async (url: string): Promise<unknown> =>
    (await fetch(url, { headers: { 'X-Trino-User': 'suite' } })).json();
  const sessionOf = async (queryId: string) =>
    ((await read(`${trino.url}/v1/query/${queryId}`)) as EngineQuery).session;

  /** A query in the history. */
  async function recordOf({ url }: GatewayProcess, queryId: string): Promise<Readonly<Record<string, unknown>>> {
    let stored: Readonly<Record<string, unknown>> = {};
    await until(async () => {
      stored = (await read(`${url}/api/queries/${queryId}`)) as Readonly<Record<string, unknown>>;
      return 'user' in stored;
    }, 'the query in the history');
    return stored;
  }

  test.each(users)('%s: the user of the gateway is that of the engine', async (_name, lines, user) => {
    const { id, error } = await run(gateway.url, 'SELECT 1', lines);
    expect(error).toBeUndefined();
    expect((await sessionOf(id)).user).toBe(user);
    expect((await recordOf(gateway, id)).user).toBe(user);
  });

  test('a transaction that Connection names reaches the engine, which does not know it', async () => {
    const lines = ['X-Trino-User', 'ann', 'X-Trino-Transaction-Id', '00000000-0000-4000-8000-000000000000'];
    const named = [...lines, 'Connection', 'X-Trino-Transaction-Id'];
    const { error } = await run(gateway.url, 'SELECT 1', named);
    expect(error?.errorName).toBe('UNKNOWN_TRANSACTION');
    expect((await run(trino.url, 'SELECT 1', lines)).error?.errorName).toBe('UNKNOWN_TRANSACTION');
  });

  test.each(clients)(
    'of %j, with %s in Connection: the server gets each, from both gateways',
    async (products, named) => {
      const lines = products.flatMap((product) =>
        fields.flatMap(([suffix, value]) => [`X-${product}-${suffix}`, value]),
      );
      const connection = fields.map(([suffix]) => `X-${named}-${suffix}`).join(', ');
      for (const each of [gateway, unnamed]) {
        const { id, error } = await run(
          each.url,
          'SELECT 1',
          named === null ? lines : [...lines, 'Connection', connection],
        );
        expect(error).toBeUndefined();
        const session = await sessionOf(id);
        for (const [suffix, , member, expected] of fields) expect(session[member], suffix).toEqual(expected);
        expect(await recordOf(each, id)).toMatchObject({ user: 'ann', source: 'suite' });
      }
    },
  );

  test.each(['Engine', 'Trino'])('curl with X-%s- headers gets rows', async (product) => {
    const curl = async (...args: readonly string[]) => {
      const { stdout } = await promisify(execFile)('curl', ['-s', '-H', `X-${product}-User: ann`, ...args]);
      return JSON.parse(stdout) as QueryResults;
    };
    let page = await curl('-d', 'SELECT 41 + 1', `${unnamed.url}/v1/statement`);
    while (page.data === undefined && page.nextUri !== undefined) page = await curl(page.nextUri);
    expect(page.data).toEqual([[42]]);
  });

  test('the clients of Trino get rows, without a product name in the configuration', async () => {
    for (const client of engineClients(distribution)) {
      const outcomes = await client.run(unnamed.url, [{ sql: 'SELECT name FROM tpch.tiny.region' }]);
      expect(
        outcomes.map(({ rows, error }) => [rows, error]),
        client.name,
      ).toEqual([[5, null]]);
    }
  });

  test('different values under two names are 400, and reach no server', async () => {
    const response = await send(unnamed.url, '/v1/statement', {
      method: 'POST',
      headers: ['X-Engine-User', 'vip', 'X-Trino-User', 'eve', 'X-Trino-Source', 'conflict'],
      body: 'SELECT 1',
    });
    expect(response.status).toBe(400);
    const listed = await listQueries(trino);
    expect(listed.filter(({ session }) => session.source === 'conflict')).toEqual([]);
  });
});
