/** Headers of requests: a real Trino and the gateway before it read the same request. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { send } from '../support/rawHttp.ts';
import { pathOf, type QueryResults } from '../support/statementClient.ts';
import { installDistribution, missingTools } from './distribution.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

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

describe.skipIf(!available)('headers of requests', () => {
  let folder: string;
  let trino: TrinoServer;
  let gateway: GatewayProcess;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'request-headers-'));
    // Without it, users cannot run queries as others.
    const files = { 'access-control.properties': 'access-control.name=allow-all' };
    trino = await startTrino('trino-a', await installDistribution(), files);
    gateway = await startGateway({
      protocol: { productName: 'Trino' },
      resources: { source: 'database' },
      monitor: { taskDelay: '1s', timeout: '10s' },
      requestAnalyzerConfig: { analyzeRequest: true },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    });
    const body = JSON.stringify({ name: 'a', proxyTo: trino.url, active: true, routingGroup: 'adhoc' });
    const headers = { 'Content-Type': 'application/json' };
    const added = await fetch(`${gateway.url}/gateway/backend/modify/add`, { method: 'POST', headers, body });
    expect(added.status, await added.text()).toBe(200);
    const state = async () => (await fetch(`${gateway.url}/api/public/backends/a/state`)).text();
    await until(async () => (await state()).includes('"HEALTHY"'), 'the cluster to be healthy', 120_000);
  }, 540_000);
  afterAll(async () => {
    await gateway?.stop();
    await trino?.kill();
    await rm(folder, { recursive: true, force: true });
  });

  /** Sends a statement, and each follow-up with the same header lines; the last page. */
  async function run(url: string, sql: string, lines: readonly string[]): Promise<QueryResults> {
    let answer = await send(url, '/v1/statement', { method: 'POST', headers: lines, body: sql });
    for (;;) {
      expect(answer.status, answer.text).toBe(200);
      const page = JSON.parse(answer.text) as QueryResults;
      if (page.nextUri === undefined) return page;
      answer = await send(url, pathOf(page.nextUri), { headers: lines });
    }
  }

  /** The user of a query, at the server and in the history. */
  async function usersOf(queryId: string): Promise<{ engine: unknown; gateway: unknown }> {
    const read = async (url: string) =>
      (await (await fetch(url, { headers: { 'X-Trino-User': 'suite' } })).json()) as Record<string, unknown>;
    const { session } = (await read(`${trino.url}/v1/query/${queryId}`)) as { readonly session: { user: string } };
    let stored: Record<string, unknown> = {};
    await until(async () => {
      stored = await read(`${gateway.url}/api/queries/${queryId}`);
      return 'user' in stored;
    }, 'the query in the history');
    return { engine: session.user, gateway: stored.user };
  }

  test.each(users)('%s: the user of the gateway is that of the engine', async (_name, lines, user) => {
    const { id, error } = await run(gateway.url, 'SELECT 1', lines);
    expect(error).toBeUndefined();
    expect(await usersOf(id)).toEqual({ engine: user, gateway: user });
  });

  test('a transaction that Connection names reaches the engine, which does not know it', async () => {
    const lines = ['X-Trino-User', 'ann', 'X-Trino-Transaction-Id', '00000000-0000-4000-8000-000000000000'];
    const named = [...lines, 'Connection', 'X-Trino-Transaction-Id'];
    const { error } = await run(gateway.url, 'SELECT 1', named);
    expect(error?.errorName).toBe('UNKNOWN_TRANSACTION');
    expect((await run(trino.url, 'SELECT 1', lines)).error?.errorName).toBe('UNKNOWN_TRANSACTION');
  });
});
