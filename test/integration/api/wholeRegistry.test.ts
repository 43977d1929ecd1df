import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ResourceClusterRegistry } from '../../../src/operator/registry/clusterRegistry.ts';
import type { ApiWrites } from '../../../src/operator/registry/resourceWrites.ts';
import type { ResourceSource } from '../../../src/operator/sources/source.ts';
import { openStore } from '../../../src/store/openStore.ts';
import type { Store } from '../../../src/store/store.ts';
import { type ApiServer, startApiOver } from '../../support/apiServer.ts';
import { type OperatorRig, quickDatabase, quickDirectory, startOperator } from '../../support/operatorRig.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';

const logger = pino({ enabled: false });
const good = { name: 'a', proxyTo: 'http://a:1', active: true, routingGroup: 'adhoc' };
const stored = { ...good, externalUrl: 'http://a:1' };

let directory: string;
let api: ApiServer<ResourceClusterRegistry>;
let rig: OperatorRig | null = null;
let store: Store | null = null;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'eg-api-'));
});
afterEach(async () => {
  await api?.close();
  await rig?.stop();
  await store?.close();
  rig = null;
  store = null;
  await rm(directory, { recursive: true, force: true });
});

/** The API over the operator's own registry. */
async function start(
  settings: { jdbcUrl: string },
  sourceOf: (store: Store) => ResourceSource,
  apiWrites: ApiWrites = 'enabled',
): Promise<void> {
  store = await openStore({ ...settings, runMigrations: true, logger });
  rig = await startOperator(store, sourceOf(store), {
    registry: { apiWrites },
  });
  api = await startApiOver(rig);
}

const sqlite = () => ({ jdbcUrl: `jdbc:sqlite:${join(directory, 'gateway.db')}` });
const manifests = () => join(directory, 'manifests');
const post = (path: string, body?: unknown) =>
  api.call('POST', `/gateway/backend/${path}`, {
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
const rows = async () => (await store?.backends.all())?.map(({ name, active }) => [name, active]);

describe.each([
  ['directory', () => quickDirectory(manifests())],
  ['database', quickDatabase],
] as const)('source %s', (kind, sourceOf) => {
  beforeEach(async () => {
    await mkdir(manifests());
    await start(sqlite(), sourceOf);
  });

  it('answers when source, database and routing table hold the change', async () => {
    const added = await post('modify/add', { ...good, proxyTo: 'http://a:1/' });
    expect([added.status, added.json(), await rows()]).toEqual([200, stored, [['a', true]]]);
    expect(rig?.table.current.clusters.get('a')?.routingGroup).toBe('adhoc');
    expect((await post('modify/add', good)).json().error).toMatchObject({ code: 'EG_CONFLICT', field: 'name' });
    expect((await post('deactivate/a')).status).toBe(200);
    expect([(await api.call('GET', '/gateway/backend/active')).json(), await rows()]).toEqual([[], [['a', false]]]);
    expect((await post('activate/a')).status).toBe(200);
    const changed = await post('modify/update', { ...good, routingGroup: 'etl' });
    expect([changed.status, changed.json()]).toEqual([200, { ...stored, routingGroup: 'etl' }]);
    expect((await post('modify/update', { ...good, name: 'b' })).status).toBe(200);
    if (kind === 'directory') {
      const files = await readdir(manifests());
      const text = await Promise.all(files.map((file) => readFile(join(manifests(), file), 'utf8')));
      expect(text.join()).toContain('routingGroup: etl');
    }
    expect((await post('modify/delete', 'a')).status).toBe(200);
    expect((await post('modify/delete', '{"name":"b"}')).status).toBe(200);
    expect((await post('modify/delete', 'nobody')).status).toBe(200);
    expect([(await api.call('GET', '/gateway/backend/all')).text, await rows()]).toEqual(['[]', []]);
  });

  it.each(['Trino Prod_1', 'ü 中 😀', "x'; drop table gateway_backend; --", '-', '%41', '{"name":1'])(
    'takes a cluster named %s through all calls',
    async (name) => {
      expect((await post('modify/add', { ...good, name })).json()).toEqual({ ...stored, name });
      const path = encodeURIComponent(name);
      expect((await post(`deactivate/${path}`)).status).toBe(200);
      expect((await api.call('GET', `/api/public/backends/${path}`)).json()).toMatchObject({ name, active: false });
      expect((await post('modify/update', { ...good, name })).json()).toMatchObject({ name, active: true });
      expect((await post('modify/delete', name)).status).toBe(200);
      expect(await rows()).toEqual([]);
    },
  );

  it('(de)activating an unknown cluster is the 404 that callers know', async () => {
    const response = await post('activate/nobody');
    expect([response.status, response.text]).toEqual([
      404,
      'No cluster found with name: nobody, could not (de)activate',
    ]);
  });

  it('refuses writes that the configuration does not allow', async () => {
    await post('modify/add', good);
    await api.close();
    await rig?.stop();
    await store?.close();
    await start(sqlite(), sourceOf, 'activation-only');
    expect((await post('deactivate/a')).status).toBe(200);
    for (const [path, body] of [
      ['modify/add', { ...good, name: 'b' }],
      ['modify/update', good],
      ['modify/delete', 'a'],
    ] as const) {
      const response = await post(path, body);
      expect([path, response.status, response.json().error.code]).toEqual([path, 403, 'EG_API_WRITES_DISABLED']);
    }
    expect(await rows()).toEqual([['a', false]]);
  });

  it('concurrent adds of one name: one wins', async () => {
    const responses = await Promise.all(Array.from({ length: 5 }, () => post('modify/add', good)));
    expect(responses.map((response) => response.status).sort()).toEqual([200, 409, 409, 409, 409]);
  });
});

it('a change of a manifest by hand is served without a call', async () => {
  await mkdir(manifests());
  await start(sqlite(), () => quickDirectory(manifests()));
  const manifest = `apiVersion: enginegateway.dev/v1beta1
kind: EngineCluster
metadata: {name: by-hand}
spec: {proxyTo: "http://h:1", routingGroup: adhoc}
`;
  await writeFile(join(manifests(), 'hand.yaml'), manifest);
  await vi.waitFor(
    async () => expect((await api.call('GET', '/api/public/backends/by-hand')).status).toBe(200),
    20_000,
  );
});

it.skipIf(!hasPostgresql())('while the database is unavailable a write is 202, and follows', async () => {
  await mkdir(manifests());
  const server = await startPostgresql();
  try {
    await start(await server.createDatabase(), () => quickDirectory(manifests()));
    expect((await post('modify/add', good)).status).toBe(200);
    await server.stop(true);
    const off = await post('deactivate/a');
    expect([off.status, off.headers['x-engine-gateway-pending']]).toEqual([202, 'database']);
    const added = await post('modify/add', { ...good, name: 'b' });
    expect([added.status, added.headers['x-engine-gateway-pending'], added.json().name]).toEqual([
      202,
      'database',
      'b',
    ]);
    expect((await api.call('GET', '/gateway/backend/active')).json()).toEqual([{ ...stored, name: 'b' }]);
    await server.start();
    const both = [
      ['a', false],
      ['b', true],
    ];
    await vi.waitFor(async () => expect(await rows()).toEqual(both), { timeout: 30_000, interval: 100 });
  } finally {
    await api.close();
    await rig?.stop();
    await store?.close();
    rig = null;
    store = null;
    await server.dispose();
  }
});
