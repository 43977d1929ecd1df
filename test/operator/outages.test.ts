import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { openStore } from '../../src/store/openStore.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest, startPlane } from '../support/kubeRig.ts';
import { type OperatorProcess, startOperatorProcess } from '../support/operatorProcesses.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import { startQueryLoad } from '../support/queryLoad.ts';
import { runQuery } from '../support/statementClient.ts';

const API_SERVER_AWAY_MS = 60_000;
const PAUSED_MS = 30_000;
const cluster = (name: string, proxyTo = `http://${name}:8080`) => ({
  name,
  proxyTo,
  externalUrl: proxyTo,
  active: true,
  routingGroup: 'adhoc',
});
const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 100 });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Undoes what a test began, last first, whatever became of it. */
async function undoing(work: (undo: (step: () => unknown) => void) => Promise<void>): Promise<void> {
  await using steps = new AsyncDisposableStack();
  await work((step) => steps.defer(async () => void (await step())));
}

/** A call of the REST API. */
async function rest(gateway: GatewayProcess, path: string, body?: unknown) {
  const write = body !== undefined;
  const response = await fetch(`${gateway.url}${path}`, {
    method: write ? 'POST' : 'GET',
    ...(write ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
    ...(typeof body === 'object' ? { headers: { 'Content-Type': 'application/json' } } : {}),
    signal: AbortSignal.timeout(30_000),
  });
  const { status, headers } = response;
  return { status, headers, text: await response.text() };
}

/** Names, group and activity of the clusters that a gateway lists. */
async function listed(gateway: GatewayProcess): Promise<readonly string[]> {
  const clusters = JSON.parse((await rest(gateway, '/gateway/backend/all')).text) as ReturnType<typeof cluster>[];
  return clusters.map(({ name, active, routingGroup }) => `${name} ${routingGroup} ${active}`).sort();
}

// Outages of half a minute and more, beside each other: those of the API server and of the database on a control plane
// of their own, those of leaders on the one that files share, in namespaces of their own.
describe.skipIf(!controlPlaneAvailable || !hasPostgresql()).concurrent('outages', { timeout: 300_000 }, () => {
  let leaders: ControlPlane;
  beforeAll(async () => {
    leaders = await sharedControlPlane();
  });
  afterAll(() => leaders?.stop());

  test('API server unavailable for 60 s under query load: no query fails, all converges', ({ expect }) =>
    undoing(async (undo) => {
      const plane = await startPlane();
      undo(() => plane.stop());
      const rig = await kubeRig(plane);
      undo(() => rig.stop());
      const postgresql = await startPostgresql();
      undo(() => postgresql.dispose());
      const dataStore = await postgresql.createDatabase();
      const folder = await mkdtemp(join(tmpdir(), 'eg-outages-'));
      undo(() => rm(folder, { recursive: true, force: true }));
      const engine = async (name: string) => {
        const started = await startSimulatedEngine({ name, port: 0 });
        undo(() => started.close());
        return started;
      };
      const [a, b, spare] = [await engine('a'), await engine('b'), await engine('spare')];
      const of = (name: string, proxyTo: string, routingGroup: string) =>
        clusterManifest(name, { proxyTo, routingGroup });
      await rig.apply(
        'argocd-controller',
        of('a', a.url, 'adhoc'),
        of('b', b.url, 'etl'),
        of('spare', spare.url, 'spare'),
        ruleManifest('etl', {
          condition: 'request.getHeader("X-Engine-Source") == "etl"',
          routeTo: undefined,
          actions: ['result.put("routingGroup", "etl")'],
        }),
      );
      const gateways: GatewayProcess[] = [];
      const gateway = async (name: string): Promise<GatewayProcess> => {
        const started = await startGateway({
          resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
          dataStore,
          queryHistory: { spillDirectory: join(folder, name) },
          monitor: { taskDelay: '1s' },
        });
        undo(() => started.stop('SIGKILL'));
        gateways.push(started);
        await until(async () => expect((await rest(started, '/readyz')).status).toBe(200));
        return started;
      };
      const one = await gateway('one');
      const two = await gateway('two');
      const store = await openStore({ ...dataStore, runMigrations: false, logger: pino({ enabled: false }) });
      undo(() => store.close());
      const before = ['a adhoc true', 'b etl true', 'spare spare true'];
      for (const each of [one, two]) await until(async () => expect(await listed(each)).toEqual(before));
      await rig.kubectl(['wait', '--for=condition=Healthy', 'ec', '--all', '--timeout=40s']);

      const load = startQueryLoad(
        [one.url, two.url],
        [
          { sql: 'SELECT * FROM tpch.tiny.nation', rows: 25 },
          { sql: 'SELECT * FROM tpch.tiny.region', rows: 5, headers: { 'X-Engine-Source': 'etl' } },
        ],
      );
      undo(() => load.stop());
      await until(() => expect(load.completed).toBeGreaterThan(20));

      // The API server goes.
      await rig.stopApiServer();
      const gone = performance.now();
      const rule = { name: 'etl', condition: 'true', actions: ['result.put("routingGroup", "adhoc")'] };
      const writes: readonly (readonly [string, unknown])[] = [
        ['/gateway/backend/modify/add', cluster('c')],
        ['/gateway/backend/modify/update', cluster('a', 'http://elsewhere:1')],
        ['/gateway/backend/modify/delete', 'b'],
        ['/gateway/backend/activate/a', ''],
        ['/gateway/backend/deactivate/a', ''],
        ['/webapp/updateRoutingRules', rule],
      ];
      const allRefused = async (): Promise<void> => {
        for (const [path, body] of writes) {
          for (const each of [one, two]) {
            // To activate what is active asks nothing of the source.
            if (path.endsWith('/activate/a')) continue;
            const { status, headers, text } = await rest(each, path, body);
            expect({ path, status, retry: headers.get('Retry-After'), text }).toMatchObject({
              path,
              status: 503,
              retry: expect.stringMatching(/^[1-9]\d*$/),
              text: expect.stringContaining('EG_SOURCE_UNAVAILABLE'),
            });
          }
        }
      };
      const unchanged = async (): Promise<void> => {
        for (const each of gateways) expect(await listed(each)).toEqual(before);
        expect((await store.backends.all()).map((row) => `${row.name} ${row.routingGroup} ${row.active}`)).toEqual(
          before,
        );
        const rules = JSON.parse((await rest(two, '/webapp/getRoutingRules')).text) as {
          data: { actions: string[] }[];
        };
        expect(rules.data.map((each) => each.actions)).toEqual([['result.put("routingGroup", "etl")']]);
      };
      await allRefused();
      await unchanged();
      // A start without the API server, from what the database has.
      const late = await gateway('late');
      for (const source of ['adhoc', 'etl']) {
        const { rows, error } = await runQuery(late.url, 'SELECT * FROM tpch.tiny.region', {
          headers: { 'X-Engine-Source': source },
        });
        expect({ rows: rows.length, error }).toEqual({ rows: 5, error: undefined });
      }
      const verbose = (await rest(late, '/readyz?verbose')).text;
      expect(verbose).toMatch(/resource source.*kubernetes is unavailable/);
      // What waits for the API server's return: a verdict that only a status has.
      spare.setState({ failing: 503 });
      for (const each of gateways) {
        const state = async () => (await rest(each, '/api/public/backends/spare/state')).text;
        await until(async () => expect(await state()).toContain('UNHEALTHY'));
      }
      await pause(API_SERVER_AWAY_MS - 5_000 - (performance.now() - gone));
      await allRefused();
      await unchanged();
      await pause(API_SERVER_AWAY_MS - (performance.now() - gone));
      await rig.startApiServer();
      const back = performance.now();
      await rig.apply('argocd-controller', of('d', a.url, 'adhoc'));
      await rig.kubectl(['delete', 'rr', 'etl']);
      const written = await rest(two, '/gateway/backend/deactivate/spare', '');
      // 202 while no replica leads again.
      expect([200, 202]).toContain(written.status);
      expect(written.text).toBe('');
      const after = ['a adhoc true', 'b etl true', 'd adhoc true', 'spare spare false'];
      for (const each of gateways) await until(async () => expect(await listed(each)).toEqual(after));
      await until(async () => {
        expect((await store.backends.all()).map((row) => `${row.name} ${row.routingGroup} ${row.active}`)).toEqual(
          after,
        );
        expect((await store.resources.all()).filter(({ kind }) => kind === 'RoutingRule')).toEqual([]);
      });
      const converged = performance.now() - back;
      expect(converged).toBeLessThan(60_000);
      await rig.kubectl(['wait', '--for=condition=Ready', 'ec', '--all', '--timeout=40s']);
      await rig.kubectl(['wait', '--for=condition=Healthy=False', 'ec/spare', '--timeout=40s']);
      await rig.kubectl(['wait', '--for=condition=Active=False', 'ec/spare', '--timeout=40s']);

      const { completed, failures } = await load.stop();
      expect(failures).toEqual([]);
      expect(completed).toBeGreaterThan(300);
      console.info(
        `${completed} queries, none failed; all had converged ${Math.round(converged)} ms after the API server was back`,
      );
    }));

  const pair = async (
    undo: (step: () => unknown) => void,
  ): Promise<{ rig: KubeRig; one: OperatorProcess; two: OperatorProcess }> => {
    const rig = await kubeRig(leaders);
    undo(() => rig.stop());
    const start = async (instance: string): Promise<OperatorProcess> => {
      const process = await startOperatorProcess(rig, instance);
      undo(() => process.end());
      return process;
    };
    const one = await start('one');
    await vi.waitUntil(async () => (await one.state()).epoch !== null, { timeout: 40_000, interval: 100 });
    return { rig, one, two: await start('two') };
  };

  test('the leader is killed: without one REST goes on, another takes over and does what was left', ({ expect }) =>
    undoing(async (undo) => {
      const { rig, one, two } = await pair(undo);
      await one.call('add', cluster('a'));
      one.kill('SIGKILL');
      const killed = performance.now();
      expect(await two.call('add', cluster('b'))).toMatchObject({ pending: true });
      expect(await two.call('update', { ...cluster('a'), routingGroup: 'etl' })).toMatchObject({ pending: true });
      // What REST wrote is routed before any replica leads; row and status are for the next leader, as of what kubectl writes.
      expect(await two.state()).toMatchObject({ leader: false, clusters: ['a', 'b'], groups: ['etl', 'adhoc'] });
      await rig.apply('kubectl', clusterManifest('c'));
      await until(async () => expect((await two.state()).clusters).toEqual(['a', 'b', 'c']));
      await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', 'ec/b', 'ec/c', '--timeout=60s']);
      expect((await two.state()).leader).toBe(true);
      expect(performance.now() - killed).toBeLessThan(60_000);
      const store = await openStore({ jdbcUrl: rig.jdbcUrl, runMigrations: false, logger: pino({ enabled: false }) });
      undo(() => store.close());
      expect((await store.backends.all()).map((row) => `${row.name} ${row.routingGroup}`)).toEqual([
        'a etl',
        'b adhoc',
        'c adhoc',
      ]);
    }));

  test.for([
    ['projection', 'fenced'],
    ['status', 'VersionConflict'],
  ] as const)(
    'a leader paused for 30 s in the middle of a %s: its late write is refused (%s)',
    ([kind, refusal], { expect }) =>
      undoing(async (undo) => {
        const { rig, one, two } = await pair(undo);
        await one.call('add', cluster('a'));
        await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', '--timeout=40s']);
        const epoch = (await one.state()).epoch ?? 0;
        // It decides on a write for what comes now, and is stopped before it sends it.
        await one.call('pauseBefore', kind);
        await rig.apply('kubectl', clusterManifest('b'));
        await until(async () => expect(await readFile(`/proc/${one.child.pid}/stat`, 'utf8')).toMatch(/\) T /));
        await pause(PAUSED_MS);
        await until(async () => expect((await two.state()).epoch ?? 0).toBeGreaterThan(epoch));
        await rig.apply('kubectl', clusterManifest('b', { routingGroup: 'etl' }), clusterManifest('c'));
        await rig.kubectl(['wait', '--for=condition=Ready', 'ec', '--all', '--timeout=40s']);
        const store = await openStore({ jdbcUrl: rig.jdbcUrl, runMigrations: false, logger: pino({ enabled: false }) });
        undo(() => store.close());
        const rows = async () => (await store.backends.all()).map((row) => `${row.name} ${row.routingGroup}`);
        await until(async () => expect(await rows()).toEqual(['a adhoc', 'b etl', 'c adhoc']));
        const statuses = (): Promise<string> => rig.kubectl(['get', 'ec', '-o', 'jsonpath={.items[*].status}']);
        const before = await statuses();
        one.kill('SIGCONT');
        await until(async () => expect(await one.call('lateWrite')).toBe(refusal));
        await until(async () => expect((await one.state()).groups).toEqual(['adhoc', 'etl', 'adhoc']));
        expect((await one.state()).leader).toBe(false);
        // Longer than the least time between two writes of a status.
        await pause(6_000);
        expect(await statuses()).toBe(before);
        expect(await rows()).toEqual(['a adhoc', 'b etl', 'c adhoc']);
        const lease = JSON.parse(await rig.kubectl(['get', 'lease', 'engine-gateway', '-o', 'json'])) as {
          spec: { holderIdentity: string };
        };
        expect(lease.spec.holderIdentity).toBe('two');
        expect((await two.state()).leader).toBe(true);
      }),
  );
});
