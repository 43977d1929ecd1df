/**
 * Queries wait for a cluster that sleeps, as declared on a real API server: the gateway says that one is needed, somebody
 * starts it, and they go there.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { freePort } from '../support/freePort.ts';
import { closeAll, closing, until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { clusterManifest, groupManifest, type KubeRig, kubeRig } from '../support/kubeRig.ts';
import { follow, type QueryResults, submit } from '../support/statementClient.ts';

const toNight = { headers: { 'X-Engine-Routing-Group': 'night' } };

describe.skipIf(!controlPlaneAvailable)('clusters on demand', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let folder: string;
  let gateway: GatewayProcess | undefined;
  beforeAll(async () => {
    plane = await sharedControlPlane();
    rig = await kubeRig(plane);
    folder = await mkdtemp(join(tmpdir(), 'waking-'));
  });
  afterEach(async () => {
    await gateway?.stop();
    await closeAll();
  });
  afterAll(async () => {
    await rig?.stop();
    await plane?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  test('a query waits for its cluster to be declared and to wake, and goes there', async () => {
    const adhoc = closing(await startSimulatedEngine({ name: 'adhoc', record: true }));
    const port = await freePort();
    await rig.apply(
      'argocd-controller',
      clusterManifest('adhoc-1', { proxyTo: adhoc.url, routingGroup: 'adhoc' }),
      groupManifest('night', { queue: { whenUnavailable: 'wait', hold: '100ms', maxWait: '2m', maxQueued: 5 } }),
    );
    gateway = await startGateway({
      resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      queryHistory: { spillDirectory: folder },
      monitor: { taskDelay: '1s' },
    });
    const { url } = gateway;
    const ask = async (path: string) => (await fetch(`${url}${path}`)).json() as Promise<Record<string, unknown>>;
    const conditions = async (resource: string) =>
      JSON.parse(await rig.kubectl(['get', resource, '-o', 'jsonpath={.status.conditions}'])) as {
        type: string;
        status: string;
      }[];
    await until(async () => (await submit(url, 'SELECT 1').catch(() => null))?.error === undefined, 'the group adhoc');
    await rig.kubectl(['wait', '--for=condition=Ready', 'rtg/night', '--timeout=40s']);

    const outcome = followed(await submit(url, 'SELECT 1', toNight));
    await until(async () => (await ask('/api/scaling/night')).queued === 1, 'the query to wait');
    expect(await ask('/api/scaling/night')).toMatchObject({
      ...{ group: 'night', queued: 1, running: 0, demand: 1 },
      clusters: { registered: 0, active: 0, healthy: 0 },
    });

    // Declared, and asleep: nothing listens there.
    await rig.apply(
      'argocd-controller',
      clusterManifest('night-1', {
        proxyTo: `http://127.0.0.1:${port}`,
        routingGroup: 'night',
        healthCheck: { interval: '1s' },
      }),
    );
    await rig.kubectl(['wait', '--for=condition=Healthy=False', 'ec/night-1', '--timeout=40s']);
    const second = followed(await submit(url, 'SELECT 2', toNight));
    expect(await ask('/api/scaling/night')).toMatchObject({
      queued: 2,
      clusters: { registered: 1, active: 1, healthy: 0 },
    });
    const usage = () => rig.kubectl(['get', 'rtg/night', '-o', 'jsonpath={.status.waiting} {.status.refused}']);
    await expect.poll(usage).toBe('2 0');
    const before = adhoc.queries.length;

    const night = closing(await startSimulatedEngine({ name: 'night', port, record: true }));
    const [one, two] = await Promise.all([outcome, second]);
    expect([one.rows, two.rows]).toEqual([[[1]], [[2]]]);
    for (const { ids } of [one, two]) {
      expect(ids).toHaveLength(2);
      expect(ids[0]).toMatch(/_queue$/);
      expect(ids[1]).toMatch(new RegExp(`_${night.suffix}$`));
    }
    expect([night.queries.length, adhoc.queries.length]).toEqual([2, before]);
    await rig.kubectl(['wait', '--for=condition=Healthy', 'ec/night-1', '--timeout=40s']);
    expect(await conditions('rtg/night')).toEqual(
      expect.arrayContaining([expect.objectContaining({ type: 'Ready', status: 'True' })]),
    );
    expect(await ask('/api/scaling/night')).toMatchObject({
      queued: 0,
      clusters: { registered: 1, active: 1, healthy: 1 },
    });
  }, 120_000);
});

/** Follows a query to its end; ids in the order in which its client learned them. */
async function followed(
  first: QueryResults,
): Promise<{ ids: readonly string[]; rows: readonly (readonly unknown[])[] }> {
  const ids = new Set([first.id]);
  const rows: (readonly unknown[])[] = [];
  for (let page = first; ; ) {
    if (page.error !== undefined) throw new Error(page.error.message);
    rows.push(...(page.data ?? []));
    if (page.nextUri === undefined) return { ids: [...ids], rows };
    page = await follow(page.nextUri);
    ids.add(page.id);
  }
}
