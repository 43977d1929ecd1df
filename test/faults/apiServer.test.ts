import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { type Load, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

const OUTAGE_MS = 60_000;

describe.skipIf(!controlPlaneAvailable || !hasPostgresql())('the API server stops in the middle of a load', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let server: TestServer;
  let world: World;
  let load: Load;
  beforeAll(async () => {
    [plane, server] = await Promise.all([startPlane(), startPostgresql()]);
    rig = await kubeRig(plane);
    world = await startWorld({
      database: await server.createDatabase(),
      clusters: { a: 'adhoc', b: 'adhoc' },
      apply: async (manifest) => void (await rig.apply('kubectl', manifest)),
      config: { resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig } },
    });
  });
  afterAll(async () => {
    await world?.close();
    await rig?.stop();
    await server?.dispose();
    await plane?.stop();
  });
  afterEach(async () => {
    await load?.stop();
  });

  test('for a minute: no query fails, nothing is lost, and what is declared afterwards is routed to', async () => {
    load = startLoad({ bases: world.bases });
    await load.progress(100);
    const stoppedAt = performance.now();
    await rig.stopApiServer();
    // A cluster that goes and comes back meanwhile is still noticed: health is no matter of the API server.
    await world.cluster('b').setState({ failing: 503 });
    await world.seen('b', 'UNHEALTHY');
    await world.cluster('b').setState({ failing: 0 });
    await world.seen('b', 'HEALTHY');
    await load.progress(300);
    await pause(Math.max(0, stoppedAt + OUTAGE_MS - performance.now()));
    await world.raised('EngineGatewaySourceUnavailable', 'EngineGatewayNoLeader');
    await rig.startApiServer();

    const third = await world.addCluster('c');
    await world.declare('c', { proxyTo: third.url, routingGroup: 'adhoc' });
    await expect.poll(() => load.queries.some((query) => third.gave(query.id)), { timeout: 60_000 }).toBe(true);
    const { failed, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(await world.missingInHistory(queries)).toBe(0);
  });
});
