import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { json, text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';

/** How much of `src` one request passes. */
interface Hops {
  readonly files: number;
  readonly functions: number;
  /** Calls of a function in another file than the call before. */
  readonly fileChanges: number;
}

/** An apply has no budget for changes of file: they grow with the number of clusters. */
type Budget = Omit<Hops, 'fileChanges'> & Partial<Hops>;

/** Periodic work may fall into a run, more so on a busy machine: runs are repeated until the least is within the budget. */
const MAX_RUNS = 20;
const BUDGETS = 'scripts/budgets.json';

let folder: string;
let engine: Server;
let gateway: GatewayProcess;
let database: DatabaseSync;

const cluster = (name: string, routingGroup: string, active = true): string =>
  stringify(manifest('EngineCluster', name, { proxyTo: urlOf(engine), routingGroup, active }));
const urlOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

/** An engine whose queries run for ever. */
function startEngine(): Promise<Server> {
  let queries = 0;
  const server = createServer(async (request, response) => {
    await text(request);
    const base = `http://${request.headers['x-forwarded-host'] ?? request.headers.host}`;
    const [, polled] = /^\/v1\/statement\/\w+\/(\w+)\//.exec(request.url ?? '') ?? [];
    const id = polled ?? `20261124_000000_${String(queries++).padStart(5, '0')}_abcde`;
    const page = {
      id,
      infoUri: `${base}/ui/query.html?${id}`,
      nextUri: `${base}/v1/statement/executing/${id}/y1/1`,
      columns: [{ name: 'a', type: 'integer' }],
      data: [[1]],
      stats: { state: 'RUNNING', queued: false, scheduled: true, nodes: 1 },
      warnings: [],
    };
    const info = { starting: false, nodeVersion: { version: '476' }, coordinator: true, uptime: '1m' };
    response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify(request.url === '/v1/info' ? info : page));
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hops-'));
  engine = await startEngine();
});

/** Starts a gateway that records its calls. */
async function start(resources: readonly string[], requestAnalyzerConfig: object = {}): Promise<void> {
  const manifests = join(folder, 'manifests');
  await mkdir(manifests);
  await writeFile(join(manifests, 'all.yaml'), resources.join('---\n'));
  const probe = pathToFileURL(join(import.meta.dirname, '../../support/callProbe.ts')).href;
  gateway = await startGateway(
    {
      protocol: { productName: 'Trino' },
      authentication: 'none',
      requestAnalyzerConfig,
      resources: { source: 'directory', directory: manifests },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    },
    { CALL_PROBE: folder, NODE_OPTIONS: `--import=${probe}` },
    { program: 'sources' },
  );
  database = new DatabaseSync(join(folder, 'gateway.db'), { readOnly: true });
  await expect.poll(async () => (await fetch(`${gateway.url}/readyz`)).ok).toBe(true);
}
afterEach(async () => {
  database?.close();
  await gateway?.stop();
  engine.close();
  engine.closeAllConnections();
  await rm(folder, { recursive: true, force: true });
});

/** Starts a record of calls in the gateway, when no function runs, or stops it. Returns the calls until then. */
async function probe(path: '/start' | '/stop'): Promise<readonly string[]> {
  const request = get({ socketPath: join(folder, 'calls.sock'), path, agent: false });
  const [response] = await once(request, 'response', { signal: AbortSignal.timeout(30_000) });
  return (await json(response)) as readonly string[];
}

async function hopsOf(action: () => Promise<void>): Promise<Hops> {
  await probe('/start');
  await action();
  const calls = await probe('/stop');
  if (process.env.HOPS_LIST !== undefined) console.log(calls.join('\n'));
  const files = calls.map((call) => call.slice(0, call.indexOf(':')));
  return {
    files: new Set(files).size,
    functions: new Set(calls).size,
    fileChanges: files.filter((file, index) => index > 0 && file !== files[index - 1]).length,
  };
}

/** Returns the least figures of several runs, only as many as reach the budget. */
async function leastHops(action: () => Promise<void>, budget: Budget, isReady: () => Promise<void>): Promise<Hops> {
  let least: Hops = { files: Infinity, functions: Infinity, fileChanges: Infinity };
  for (let run = 0; run < MAX_RUNS && risesOf(least, budget).length > 0; run++) {
    await isReady();
    const hops = await hopsOf(action);
    least = {
      files: Math.min(least.files, hops.files),
      functions: Math.min(least.functions, hops.functions),
      fileChanges: Math.min(least.fileChanges, hops.fileChanges),
    };
  }
  return least;
}

function risesOf(hops: Hops, budget: Budget): readonly string[] {
  return Object.entries(budget)
    .filter(([figure, value]) => hops[figure as keyof Hops] > value)
    .map(([figure, value]) => `"${figure}" rises from ${value} to ${hops[figure as keyof Hops]}`);
}

const rowsOf = (table: string, column: string, value: string) =>
  expect.poll(() => database.prepare(`select 1 from ${table} where ${column} = ?`).all(value).length, { interval: 20 });

const rule = (condition: string): string =>
  stringify(manifest('RoutingRule', 'rule', { priority: 1, condition, routeTo: { routingGroup: 'etl' } }));

/** Sends a query, and waits until the history has it. */
async function submit(headers: Record<string, string>, body = 'select 1'): Promise<{ id: string; nextUri: string }> {
  const response = await fetch(`${gateway.url}/v1/statement`, { method: 'POST', body, headers });
  const query = (await response.json()) as { id: string; nextUri: string };
  expect(query.nextUri).toContain('/v1/statement/');
  await rowsOf('query_history', 'query_id', query.id).toBe(1);
  return query;
}

type Action = readonly [section: string, action: () => Promise<void>, isReady?: () => Promise<void>];

/** Fails if an action passes more than its budget. */
async function expectWithinBudgets(...actions: readonly Action[]): Promise<void> {
  const budgets = JSON.parse(await readFile(BUDGETS, 'utf8')) as Record<string, Budget>;
  const problems: string[] = [];
  for (const [section, action, isReady = async () => undefined] of actions) {
    const budget = budgets[section] ?? { files: 0, functions: 0 };
    const hops = await leastHops(action, budget, isReady);
    console.log(`${section}: ${JSON.stringify(hops)}`);
    problems.push(...risesOf(hops, budget).map((rise) => `${section}: ${rise}`));
  }
  expect(problems, `Remove a hop, or write the new figures in ${BUDGETS} in the commit that needs them`).toEqual([]);
}

/** Functions that one request of each kind passes, where others like it came before. */
test('requests pass no more files and functions than scripts/budgets.json allows', async () => {
  await start([cluster('a', 'adhoc'), cluster('b', 'etl'), rule('request.getHeader("X-Trino-Source") == "airflow"')]);
  const headers = { 'x-trino-user': 'ann', 'x-trino-source': 'hops' };
  let query = await submit(headers);
  const send = async () => {
    query = await submit(headers);
  };
  const poll = async () => {
    const response = await fetch(new URL(new URL(query.nextUri).pathname, gateway.url), { headers });
    expect(await response.json()).toMatchObject({ id: query.id, data: [[1]] });
  };
  const read = async () => {
    const response = await fetch(`${gateway.url}/api/queries/${query.id}`, { headers });
    expect(await response.json()).toMatchObject({ queryId: query.id });
  };
  let clusters = 0;
  /** Until the copy of the resources has the last status, and a second more: the leader writes the next change immediately then. */
  const whenWritten = async () => {
    const select = database.prepare('select status from eg_resources where name = ?');
    const statusOf = () => String(select.get(clusters === 0 ? 'a' : `c${clusters - 1}`)?.status);
    await expect.poll(statusOf, { timeout: 30_000 }).toMatch(/"type":"Healthy","status":"True"/);
    const writtenAt = performance.now();
    await expect.poll(() => performance.now() - writtenAt, { timeout: 30_000 }).toBeGreaterThan(1_000);
  };
  const apply = async () => {
    const name = `c${clusters++}`;
    await writeFile(join(folder, 'manifests', `${name}.yaml`), cluster(name, 'etl'));
    await rowsOf('gateway_backend', 'name', name).toBe(1);
    await gateway.logged(({ cluster: changed, to }) => changed === name && to === 'HEALTHY');
  };
  await poll();
  await read();
  await expectWithinBudgets(
    ['hops submission', send],
    ['hops follow-up', poll],
    ['hops GET /api/queries/{id}', read],
    ['hops apply', apply, whenWritten],
  );
});

test('a submission with login, limits, fallback and analysis passes no more than scripts/budgets.json allows', async () => {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' };
  await using keys = createServer((_request, response) => response.end(JSON.stringify({ keys: [jwk] })));
  await once(keys.listen(0, '127.0.0.1'), 'listening');
  const limit = (name: string, spec: object) => stringify(manifest('QueryLimit', name, spec));
  await start(
    [
      ...[cluster('a', 'adhoc'), cluster('b', 'etl', false)],
      rule('engineQueryProperties.tablesContains("hive.web.events")'),
      stringify(manifest('RoutingGroup', 'etl', { fallbacks: ['adhoc'] })),
      stringify(manifest('RoutingGroup', 'adhoc', { queue: { hold: '1s' } })),
      limit('users', { match: { users: [{ value: 'ann' }] }, per: 'User', maxRunningQueries: 1000 }),
      limit('sources', { match: { sources: [{ value: 'hops' }] }, per: 'Source', maxRunningQueries: 1000 }),
      limit('groups', { match: { routingGroups: [{ value: 'etl' }] }, per: 'All', maxRunningQueries: 1000 }),
    ],
    {
      ...{ analyzeRequest: true, trustedUserSources: ['bearer'], tokenUserField: 'sub' },
      ...{ jwksUrl: urlOf(keys), issuer: 'https://idp.example', audience: 'trino' },
    },
  );
  const claims = new SignJWT({ sub: 'ann', iss: 'https://idp.example', aud: 'trino' }).setExpirationTime('1h');
  const token = await claims.setProtectedHeader({ alg: 'ES256', kid: 'one' }).sign(privateKey);
  const headers = { authorization: `Bearer ${token}`, 'x-trino-source': 'hops' };
  let queries = 0;
  const send = () => submit(headers, `select ${queries++} from hive.web.events`);
  const { id } = await send();
  const explained = await (await fetch(`${gateway.url}/api/queries/${id}`)).json();
  expect(explained).toMatchObject({ user: 'ann', rule: 'rule', cluster: 'a', decision: { fallback: true } });
  const limits = await (await fetch(`${gateway.url}/api/limits`)).json();
  expect(limits).toMatchObject([{ inForce: true }, { inForce: true }, { inForce: true }]);
  await expectWithinBudgets([
    'hops submission with login, limits, fallback and analysis',
    async () => void (await send()),
  ]);
});
