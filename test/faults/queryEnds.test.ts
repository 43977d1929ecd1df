import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import type { RoutedQuery } from '../../src/api/responses/routing.ts';
import { postgresql, type TestDatabase } from '../support/databases.ts';
import { faketimeEnvironment, hasFaketime } from '../support/faketime.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { manifest } from '../support/manifest.ts';
import { pathOf, submit } from '../support/statementClient.ts';

const LONG = 'SELECT * FROM TABLE(slow(seconds => 600))';

describe.skipIf(!hasFaketime() || !postgresql.available())('ends of queries that nobody says, at two replicas', () => {
  let folder: string;
  let database: TestDatabase;
  let engine: SimulatedEngine;
  let replicas: readonly GatewayProcess[] = [];
  let offset = 0;

  /** Lets the time of day of the replicas pass. */
  const pass = async (seconds: number) => {
    offset += seconds;
    await writeFile(join(folder, 'next'), `+${offset}`);
    await rename(join(folder, 'next'), join(folder, 'offset'));
  };
  const query = async (id: string, replica = 1): Promise<RoutedQuery | null> => {
    const response = await fetch(`${replicas[replica]?.url}/api/queries/${id}`);
    return response.ok ? ((await response.json()) as RoutedQuery) : null;
  };
  const begin = async () => {
    const { id, nextUri = '' } = await submit(replicas[0]?.url ?? '', LONG, { user: 'ann' });
    await expect.poll(async () => (await query(id))?.user, { timeout: 20_000 }).toBe('ann');
    return { id, path: pathOf(nextUri) };
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'query-ends-'));
    await pass(0);
    database = await postgresql.start();
    const dataStore = await database.create();
    engine = await startSimulatedEngine({ name: 'engine' });
    const spec = { proxyTo: engine.url, routingGroup: 'adhoc' };
    const cluster = manifest('EngineCluster', 'a', spec);
    await writeFile(join(folder, 'cluster.yaml'), stringify(cluster));
    replicas = await Promise.all(
      ['one', 'two'].map((name) =>
        startGateway(
          {
            resources: { source: 'directory', directory: folder },
            dataStore,
            queryHistory: { spillDirectory: join(folder, name) },
            monitor: { taskDelay: '500ms' },
          },
          faketimeEnvironment(join(folder, 'offset')),
        ),
      ),
    );
    for (const { url } of replicas) {
      await vi.waitFor(async () => expect((await fetch(`${url}/readyz`)).status).toBe(200), { timeout: 60_000 });
    }
  });
  afterAll(async () => {
    await Promise.all(replicas.map((replica) => replica.stop()));
    await engine?.close();
    await database?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  test('one whose client goes silent is abandoned after five minutes', async () => {
    const { id } = await begin();
    await pass(200);
    expect((await query(id))?.outcome).toBeNull();
    await pass(120);
    await expect.poll(async () => (await query(id))?.outcome?.state, { timeout: 60_000 }).toBe('ABANDONED');
  });

  test('one that its engine forgot is lost, also where the replica that sees it never passed a page of it', async () => {
    const { id, path } = await begin();
    await engine.restart();
    const response = await fetch(`${replicas[1]?.url}${path}`, { headers: { 'X-Engine-User': 'ann' } });
    expect(await response.text()).toContain(id);
    // An id that nobody has submitted is none.
    const unknown = id.replace(/_\d{5}_/, '_99999_');
    await fetch(`${replicas[1]?.url}${path.replace(id, unknown)}`, { headers: { 'X-Engine-User': 'ann' } });
    expect((await query(id))?.outcome).toBeNull();
    await pass(40);
    await expect.poll(async () => (await query(id, 0))?.outcome, { timeout: 60_000 }).toMatchObject({ state: 'LOST' });
    expect(await query(id, 0)).toMatchObject({ user: 'ann', routingGroup: 'adhoc', cluster: 'a' });
    expect(await query(unknown)).toBeNull();
  });
});
