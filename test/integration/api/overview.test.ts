import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { submit } from '../../support/statementClient.ts';

let folder: string;
let engine: SimulatedEngine;
let gateway: GatewayProcess;

const cluster = (name: string, routingGroup: string, more: object = {}): string =>
  stringify({
    apiVersion: 'enginegateway.dev/v1',
    kind: 'EngineCluster',
    metadata: { name },
    spec: { proxyTo: engine.url, routingGroup, ...more },
  });

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'overview-'));
  engine = await startSimulatedEngine({ name: 'engine' });
  // Two clusters of one URL: only the decision knows which of them a query went to.
  const clusters = [cluster('first', 'adhoc'), cluster('second', 'etl'), cluster('resting', 'etl', { active: false })];
  await writeFile(join(folder, 'clusters.yaml'), clusters.join('---\n'));
  gateway = await startGateway({
    resources: { source: 'directory', directory: folder },
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    queryHistory: { spillDirectory: join(folder, 'spill') },
    monitor: { taskDelay: '500ms' },
  });
  await vi.waitFor(async () => expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200), { timeout: 30_000 });
});
afterAll(async () => {
  await gateway?.stop();
  await engine?.close();
  await rm(folder, { recursive: true, force: true });
});

const read = async (path: string) => (await fetch(`${gateway.url}${path}`)).json() as Promise<Record<string, never>>;

/** Values of `/metrics` by name and labels. */
async function scraped(): Promise<(name: string) => number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const lines = text.split('\n').filter((line) => !line.startsWith('#'));
  return (name) =>
    Number(
      lines
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')
        .at(-1) ?? 0,
    );
}

test('the overview counts what /metrics and /readyz count, and the history by cluster', async () => {
  for (const group of ['adhoc', 'etl', 'etl']) {
    const headers = { 'X-Engine-Routing-Group': group };
    expect((await submit(gateway.url, 'SELECT 1', { headers })).error).toBeUndefined();
  }
  const unknown = await submit(gateway.url, 'SELECT 1', { headers: { 'X-Engine-Routing-Group': 'nowhere' } });
  expect(unknown.error).toBeUndefined();
  expect((await fetch(`${gateway.url}/v1/statement/executing/20200101_000000_00000_zzzzz/x/1`)).status).toBe(200);
  await expect.poll(async () => (await scraped())('engine_gateway_history_written_total')).toBe(4);

  const overview = await read('/api/overview');
  const metric = await scraped();
  expect(overview).toMatchObject({
    notReadyBecause: null,
    leader: metric('engine_gateway_leader') === 1,
    source: { available: true, problems: metric('engine_gateway_resource_source_problems') },
    clusters: { total: 3, active: 2, inactive: 1, byStatus: { HEALTHY: 3 } },
    traffic: {
      submissions: metric('engine_gateway_statement_submissions_total'),
      refusals: [{ reason: 'unknown_query', count: metric('engine_gateway_refusals_total{reason="unknown_query"}') }],
      clusterErrors: [],
      retries: [],
    },
    history: { memory: 0, disk: 0, written: 4, lost: 0 },
  });
  expect(metric('engine_gateway_statement_submissions_total')).toBe(4);
  const submitted = (overview.traffic as unknown as { requests: object[] }).requests;
  expect(submitted).toContainEqual({ kind: 'submission', status: '2xx', count: 4 });
  const verbose = await (await fetch(`${gateway.url}/readyz?verbose`)).text();
  for (const { name, ok, message } of overview.components as unknown as {
    name: string;
    ok: boolean;
    message: string;
  }[]) {
    expect(verbose).toContain(`[${ok ? '+' : '-'}] ${name}: ${message}\n`);
  }

  const counted = await read('/api/overview/queries?minutes=30');
  expect(counted).toMatchObject({ intervalMs: 60_000, total: 4 });
  const lines = counted.clusters as unknown as { cluster: string; total: number; counts: number[] }[];
  expect(lines.map((line) => [line.cluster, line.total, line.counts.length])).toEqual([
    ['first', 2, 30],
    ['second', 2, 30],
  ]);
  const day = await read('/api/overview/queries?minutes=1440');
  expect([day.intervalMs, day.total]).toEqual([6 * 60_000, 4]);
  expect((await fetch(`${gateway.url}/api/overview/queries?minutes=0`)).status).toBe(400);
});

test('nothing is sent again to a caller who has the present version', async () => {
  const first = await fetch(`${gateway.url}/api/overview/queries?minutes=1440`);
  const etag = first.headers.get('etag') ?? '';
  expect([first.headers.get('cache-control'), etag === '']).toEqual(['private, no-cache', false]);
  const again = await fetch(first.url, { headers: { 'If-None-Match': etag } });
  expect([again.status, await again.text()]).toEqual([304, '']);
});

test('clusters are listed with their resource, their health and who overrides them', async () => {
  const clusters = async () => (await read('/api/clusters')) as unknown as Record<string, never>[];
  const [first, resting] = await clusters();
  expect(first).toMatchObject({
    name: 'first',
    routed: true,
    proxyTo: engine.url,
    externalUrl: engine.url,
    routingGroup: 'adhoc',
    active: true,
    specActive: true,
    override: null,
    differs: false,
    status: 'HEALTHY',
    origin: 'directory',
    resource: {
      namespace: 'default',
      name: 'first',
      place: `${join(folder, 'clusters.yaml')}, document 1`,
      managers: [],
    },
  });
  expect(resting).toMatchObject({ name: 'resting', active: false, specActive: false, differs: false });
  await vi.waitFor(
    async () => {
      const ready = expect.objectContaining({ type: 'Ready', status: 'True' });
      expect((await clusters())[0]).toMatchObject({ resource: { conditions: expect.arrayContaining([ready]) } });
    },
    { timeout: 30_000 },
  );

  const etag = (await fetch(`${gateway.url}/api/clusters`)).headers.get('etag') ?? '';
  const put = (name: string, body: unknown) =>
    fetch(`${gateway.url}/api/clusters/${name}/active`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  const switched = await put('first', { active: false });
  expect([switched.status, await switched.json()]).toEqual([
    200,
    expect.objectContaining({ name: 'first', active: false }),
  ]);
  const changed = await fetch(`${gateway.url}/api/clusters`, { headers: { 'If-None-Match': etag } });
  expect(changed.status).toBe(200);
  expect((await clusters())[0]).toMatchObject({
    active: false,
    specActive: true,
    differs: true,
    override: { active: false, by: 'api' },
  });
  expect((await put('first', { active: true })).status).toBe(200);
  expect((await clusters())[0]).toMatchObject({ active: true, differs: false, override: null });
  expect((await put('nobody', { active: true })).status).toBe(404);
  expect((await put('first', { active: 'yes' })).status).toBe(400);

  await writeFile(join(folder, 'wrong.yaml'), cluster('wrong', 'adhoc').replace(engine.url, 'ftp://nowhere'));
  await vi.waitFor(
    async () => {
      const wrong = (await clusters()).find(({ name }) => name === 'wrong');
      expect(wrong).toMatchObject({ routed: false, proxyTo: null, status: 'PENDING' });
      expect(wrong?.reason).toMatch(/proxyTo/);
    },
    { timeout: 30_000 },
  );
});
