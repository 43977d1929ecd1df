import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { until } from '../../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { sessionKeyPair } from '../../support/sessionKeyPair.ts';
import { runQuery } from '../../support/statementClient.ts';

let folder: string;
let engine: SimulatedEngine;
let gateway: GatewayProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kept-'));
  engine = await startSimulatedEngine({ name: 'one' });
  const resources = ['one', 'two'].map((name) =>
    stringify({
      apiVersion: 'enginegateway.dev/v1',
      kind: 'EngineCluster',
      metadata: { name },
      spec: { proxyTo: engine.url, routingGroup: 'adhoc' },
    }),
  );
  await writeFile(join(folder, 'clusters.yaml'), resources.join('---\n'));
  const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
  gateway = await startGateway({
    authentication: { defaultType: 'form', form: { selfSignKeyPair: { privateKeyRsa, publicKeyRsa } } },
    authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
    presetUsers: {
      ada: { password: 'ada', privileges: 'ADMIN_USER_API' },
      ursula: { password: 'ursula', privileges: 'USER' },
    },
    resources: { source: 'directory', directory: folder },
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    // One check at the start: what changes afterwards is what the test changes.
    monitor: { taskDelay: '10m' },
  });
  const statusOf = async (name: string) => (await ask('ada', `/api/clusters/${name}`)).json.status;
  await until(async () => (await statusOf('one')) === 'HEALTHY' && (await statusOf('two')) === 'HEALTHY', 'health');
});
afterAll(async () => {
  await gateway?.stop();
  await engine?.close();
  await rm(folder, { recursive: true, force: true });
});

interface Asked {
  readonly status: number;
  readonly etag: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: tests read a field of it
  readonly json: any;
}

async function ask(user: string, path: string, headers: Readonly<Record<string, string>> = {}): Promise<Asked> {
  const Authorization = `Basic ${btoa(`${user}:${user}`)}`;
  const answer = await fetch(`${gateway.url}${path}`, { headers: { Authorization, ...headers } });
  const text = await answer.text();
  return { status: answer.status, etag: answer.headers.get('etag'), json: text === '' ? null : JSON.parse(text) };
}

const old = { 'Cache-Control': 'max-age=60' };

test('figures and lists are kept for callers who take older ones, and for nobody else who may see other queries', async () => {
  const list = '/api/queries?source=kept';
  const figures = '/api/statistics?by=user';
  const submit = (user: string) => runQuery(gateway.url, 'SELECT 1', { user, headers: { 'X-Engine-Source': 'kept' } });
  const listed = async (user: string, headers = {}) => (await ask(user, list, headers)).json.queries.length;
  const counted = async (user: string, headers = {}): Promise<string[]> =>
    (await ask(user, figures, headers)).json.values.map(
      ({ value, queries }: { value: string; queries: number }) => `${value} ${queries}`,
    );
  await submit('ursula');
  await submit('ben');
  await expect.poll(() => listed('ada')).toBe(2);
  await expect.poll(() => counted('ada')).toEqual(['ben 1', 'ursula 1']);
  expect(await listed('ada', old)).toBe(2);
  expect(await counted('ada', old)).toEqual(['ben 1', 'ursula 1']);

  await submit('ursula');
  await expect.poll(() => listed('ada')).toBe(3);
  await expect.poll(() => counted('ada')).toEqual(['ursula 2', 'ben 1']);
  const kept = await ask('ada', list, old);
  expect(kept.json.queries).toHaveLength(2);
  expect(await ask('ada', list, { ...old, 'If-None-Match': kept.etag ?? '' })).toMatchObject({ status: 304 });
  expect(await counted('ada', old)).toEqual(['ben 1', 'ursula 1']);
  for (const none of ['max-age=0', 'max-age=60, no-cache', 'no-cache'])
    expect(await listed('ada', { 'Cache-Control': none })).toBe(3);
  // Users are answered their own, whatever is kept for administrators, and the other way round.
  expect(await listed('ursula', old)).toBe(2);
  expect(await counted('ursula', old)).toEqual(['ursula 2']);
  expect(await counted('ada', old)).toEqual(['ben 1', 'ursula 1']);
  expect((await ask('ada', '/api/queries?after=x', old)).status).toBe(400);
});

test('details of a cluster and a routing group have one version until something of them changes', async () => {
  const paths = ['/api/clusters/one', '/api/clusters/two', '/api/groups/adhoc'];
  const versions = () => Promise.all(paths.map(async (path) => (await ask('ada', path)).etag ?? ''));
  const before = await versions();
  expect(await versions()).toEqual(before);
  for (const [index, path] of paths.entries()) {
    const again = await ask('ada', path, { 'If-None-Match': before[index] ?? '' });
    expect([again.status, again.json]).toEqual([304, null]);
  }
  const switched = await fetch(`${gateway.url}/api/clusters/one/active`, {
    method: 'PUT',
    headers: { Authorization: `Basic ${btoa('ada:ada')}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ active: false }),
  });
  expect(switched.status).toBe(200);
  const [one, two, group] = await Promise.all(paths.map(async (path) => (await ask('ada', path)).json));
  expect([one.active, one.changes[0].active, one.override.by]).toEqual([false, false, 'ada']);
  // The other one is the last that takes queries now.
  expect(two.group.others).toEqual([]);
  expect(group.clusters.map(({ active }: { active: boolean }) => active)).toEqual([false, true]);
  for (const name of ['clusters', 'groups']) expect((await ask('ada', `/api/${name}/none`)).status).toBe(404);
});
