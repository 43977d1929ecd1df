import { readFile } from 'node:fs/promises';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { openStore } from '../../src/store/openStore.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig } from '../support/kubeRig.ts';
import { type OperatorProcess, startOperatorProcess } from '../support/operatorProcesses.ts';

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

// They take half a minute and more, beside each other. That of the API server: test/faults/apiServer.test.ts.
describe.skipIf(!controlPlaneAvailable).concurrent('outages of leaders', { timeout: 300_000 }, () => {
  let leaders: ControlPlane;
  beforeAll(async () => {
    leaders = await sharedControlPlane();
  });
  afterAll(() => leaders?.stop());

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
