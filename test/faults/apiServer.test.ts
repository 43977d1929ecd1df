import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStore } from '../../src/store/openStore.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { postgresql, type ServerDatabase } from '../support/databases.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { type KubeRig, kubeRig, ruleManifest, startPlane } from '../support/kubeRig.ts';
import { runQuery } from '../support/statementClient.ts';
import { type Load, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

const OUTAGE_MS = 60_000;
const untilTrue = { timeout: 60_000, interval: 100 };

/** A call of the REST API. */
async function rest(base: string, path: string, body?: unknown) {
  const isWrite = body !== undefined;
  const response = await fetch(`${base}${path}`, {
    method: isWrite ? 'POST' : 'GET',
    ...(isWrite ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
    ...(typeof body === 'object' ? { headers: { 'Content-Type': 'application/json' } } : {}),
    signal: AbortSignal.timeout(30_000),
  });
  const { status, headers } = response;
  return { status, retry: headers.get('Retry-After'), text: await response.text() };
}

interface Listed {
  readonly name: string;
  readonly routingGroup: string;
  readonly active: boolean;
}
const inShort = (clusters: readonly Listed[]) =>
  clusters.map(({ name, routingGroup, active }) => `${name} ${routingGroup} ${active}`).sort();
const listed = async (base: string) => inShort(JSON.parse((await rest(base, '/gateway/backend/all')).text));

describe.skipIf(!controlPlaneAvailable || !postgresql.available())(
  'the API server stops in the middle of a load',
  () => {
    let plane: ControlPlane;
    let rig: KubeRig;
    let server: ServerDatabase;
    let world: World;
    let load: Load;
    let late: GatewayProcess;
    beforeAll(async () => {
      [plane, server] = await Promise.all([startPlane(), postgresql.start()]);
      rig = await kubeRig(plane);
      const toEtl = ['result.put("routingGroup", "etl")'];
      const condition = 'request.getHeader("X-Engine-Source") == "etl"';
      await rig.apply('argocd-controller', ruleManifest('etl', { condition, routeTo: undefined, actions: toEtl }));
      world = await startWorld({
        database: await server.create(),
        clusters: { a: 'adhoc', b: 'adhoc', e: 'etl', spare: 'spare' },
        apply: (manifest) => rig.apply('argocd-controller', manifest),
        config: { resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig } },
      });
    });
    afterAll(async () => {
      await load?.stop();
      await late?.stop('SIGKILL');
      await world?.close();
      await rig?.stop();
      await server?.dispose();
      await plane?.stop();
    });

    test('for a minute: no query fails, nothing is lost, writes are refused, and all converges afterwards', async () => {
      const store = await openStore({ ...world.database, runMigrations: false, logger: pino({ enabled: false }) });
      await using _ = { [Symbol.asyncDispose]: () => store.close() };
      const rows = async () => inShort(await store.backends.all());
      const before = ['a adhoc true', 'b adhoc true', 'e etl true', 'spare spare true'];
      const bases = [...world.bases];
      load = startLoad({ bases });
      await load.progress(100);
      await rig.stopApiServer();
      const stoppedAt = performance.now();

      const moved = { name: 'a', proxyTo: 'http://elsewhere:1', active: true, routingGroup: 'adhoc' };
      const rule = { name: 'etl', condition: 'true', actions: ['result.put("routingGroup", "adhoc")'] };
      const allRefused = async () => {
        for (const [path, body] of [
          ['/gateway/backend/modify/add', { ...moved, name: 'new' }],
          ['/gateway/backend/modify/update', moved],
          ['/gateway/backend/modify/delete', 'b'],
          ['/gateway/backend/deactivate/a', ''],
          ['/webapp/updateRoutingRules', rule],
        ] as const) {
          for (const base of world.bases) {
            const { status, retry, text } = await rest(base, path, body);
            expect([path, status, text]).toEqual([path, 503, expect.stringContaining('EG_SOURCE_UNAVAILABLE')]);
            expect(retry).toMatch(/^[1-9]\d*$/);
          }
        }
      };
      const unchanged = async () => {
        for (const base of bases) expect(await listed(base)).toEqual(before);
        expect(await rows()).toEqual(before);
        const rules = await rest(bases[1] ?? '', '/webapp/getRoutingRules');
        expect(JSON.parse(rules.text)).toMatchObject({ data: [{ actions: ['result.put("routingGroup", "etl")'] }] });
      };
      await allRefused();
      await unchanged();
      // A cluster that goes and comes back meanwhile is still noticed: health is no matter of the API server.
      await world.cluster('b').setState({ failing: 503 });
      await world.seen('b', 'UNHEALTHY');
      await world.cluster('b').setState({ failing: 0 });
      await world.seen('b', 'HEALTHY');
      // A start without the API server, from what the database has.
      late = await startGateway({
        resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
        dataStore: world.database,
        queryHistory: { spillDirectory: join(world.folder, 'spill-late') },
        monitor: { taskDelay: '1s' },
      });
      await expect.poll(async () => (await rest(late.url, '/readyz')).status, untilTrue).toBe(200);
      for (const source of ['adhoc', 'etl']) {
        const headers = { 'X-Engine-Source': source };
        const { rows: found, error } = await runQuery(late.url, 'SELECT * FROM tpch.tiny.region', { headers });
        expect([found.length, error]).toEqual([5, undefined]);
      }
      expect((await rest(late.url, '/readyz?verbose')).text).toMatch(/resource source.*kubernetes is unavailable/);
      bases.push(late.url);
      // What waits for the API server's return: a verdict that only a status has.
      await world.cluster('spare').setState({ failing: 503 });
      await world.seen('spare', 'UNHEALTHY');
      await load.progress(300);
      await pause(Math.max(0, stoppedAt + OUTAGE_MS - performance.now()));
      await world.raised('EngineGatewaySourceUnavailable', 'EngineGatewayNoLeader');
      await allRefused();
      await unchanged();

      await rig.startApiServer();
      const backAt = performance.now();
      const third = await world.addCluster('c');
      await world.declare('c', { proxyTo: third.url, routingGroup: 'adhoc' });
      await rig.kubectl(['delete', 'rr', 'etl']);
      // 202 while no replica leads again.
      expect([200, 202]).toContain((await rest(bases[1] ?? '', '/gateway/backend/deactivate/spare', '')).status);
      const after = ['a adhoc true', 'b adhoc true', 'c adhoc true', 'e etl true', 'spare spare false'];
      for (const base of bases) await expect.poll(() => listed(base), untilTrue).toEqual(after);
      await expect.poll(rows, untilTrue).toEqual(after);
      await expect.poll(() => store.resources.all(['RoutingRule']), untilTrue).toEqual([]);
      expect(performance.now() - backAt).toBeLessThan(60_000);
      await rig.kubectl(['wait', '--for=condition=Ready', 'ec', '--all', '--timeout=40s']);
      for (const condition of ['Healthy', 'Active'])
        await rig.kubectl(['wait', `--for=condition=${condition}=False`, 'ec/spare', '--timeout=40s']);

      await expect.poll(() => load.queries.some((query) => third.gave(query.id)), untilTrue).toBe(true);
      const { failed, queries } = await load.stop();
      expect(reasonsOf(failed)).toEqual([]);
      expect(await world.missingInHistory(queries)).toBe(0);
    });
  },
);
