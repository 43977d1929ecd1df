import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { GatewayError } from '../../src/model/errors.ts';
import { openStore } from '../../src/store/openStore.ts';
import type { Store } from '../../src/store/store.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { type OperatorProcess, startOperatorProcess } from '../support/operatorProcesses.ts';

const by = { by: 'alice', force: false };
const cluster = (name: string) => ({
  name,
  proxyTo: `http://${name}:8080`,
  externalUrl: `http://${name}:8080`,
  active: true,
  routingGroup: 'adhoc',
});
const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 100 });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const names = async (store: Store): Promise<readonly string[]> => (await store.backends.all()).map((row) => row.name);

describe.skipIf(!controlPlaneAvailable)('what goes wrong around the operator', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  const processes: OperatorProcess[] = [];
  beforeAll(async () => {
    plane = await startPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane);
  });
  afterEach(async () => {
    for (const process of processes.splice(0)) await process.end();
    await rig.stop();
  });
  const start = async (instance: string): Promise<OperatorProcess> => {
    const process = await startOperatorProcess(rig, instance);
    processes.push(process);
    return process;
  };

  test('the API server goes away: routing stays, REST answers 503 and changes nothing, all converges afterwards', async () => {
    const operator = await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('a'), clusterManifest('b'));
    await until(async () => expect(await names(operator.store)).toEqual(['a', 'b']));
    await rig.stopApiServer();
    try {
      await until(() => expect(operator.source.state().available).toBe(false));
      await expect(operator.registry.setActive('a', false, by)).rejects.toMatchObject({
        code: 'EG_SOURCE_UNAVAILABLE',
        status: 503,
        retryAfterSeconds: 5,
      });
      await expect(operator.registry.add(cluster('c'), by)).rejects.toMatchObject({ code: 'EG_SOURCE_UNAVAILABLE' });
      await expect(operator.registry.delete('b', by)).rejects.toMatchObject({ code: 'EG_SOURCE_UNAVAILABLE' });
      expect(operator.registry.all()).toEqual([cluster('a'), cluster('b')]);
      expect(await names(operator.store)).toEqual(['a', 'b']);
      const late = await rig.startOperator();
      expect([...late.table.current.clusters.keys()]).toEqual(['a', 'b']);
      expect(late.source.state().synced).toBe(false);
      await late.stop();
    } finally {
      await rig.startApiServer();
    }
    const back = performance.now();
    await rig.apply('kubectl', clusterManifest('c'));
    await until(() => expect(operator.registry.get('c')).not.toBeNull());
    expect(performance.now() - back).toBeLessThan(15_000);
    await operator.registry.setActive('a', false, by);
    await until(async () => expect(await names(operator.store)).toEqual(['a', 'b', 'c']));
  });

  test('etcd forgets the history during a stop (410): what changed and went meanwhile is found by a list', async () => {
    const operator = await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('a'), clusterManifest('b'));
    await until(() => expect(operator.registry.all()).toHaveLength(2));
    const other = await rig.startOperator();
    await operator.stop();
    await rig.stopApiServer();
    // etcd's JSON gateway: keys are base64.
    const etcd = async (path: string, body: object): Promise<{ header: { revision: string } }> => {
      const response = await fetch(`${plane.config.etcdURL}/v3/kv/${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
      });
      expect(response.status).toBe(200);
      return (await response.json()) as { header: { revision: string } };
    };
    const key = `/registry/enginegateway.dev/engineclusters/${rig.namespace}/a`;
    const { header } = await etcd('deleterange', { key: Buffer.from(key).toString('base64') });
    await etcd('compaction', { revision: header.revision, physical: true });
    await rig.startApiServer();
    await rig.apply('kubectl', clusterManifest('c'));
    await until(() => expect(other.registry.all().map((entry) => entry.name)).toEqual(['b', 'c']));
    await until(async () => expect(await names(other.store)).toEqual(['b', 'c']));
  });

  test('the database goes away while resources change: REST answers pending, all is made good', async () => {
    const state = { away: false };
    const cut = <T extends object>(target: T): T =>
      new Proxy(target, {
        get: (object, property) => {
          const value = Reflect.get(object, property);
          if (typeof value !== 'function') return typeof value === 'object' && value !== null ? cut(value) : value;
          return (...args: unknown[]) =>
            state.away
              ? Promise.reject(new GatewayError('EG_DATABASE_UNAVAILABLE', 'away'))
              : Reflect.apply(value, object, args);
        },
      });
    const real = await openStore({ jdbcUrl: rig.jdbcUrl, runMigrations: true, logger: pino({ enabled: false }) });
    const following = await rig.startOperator({ store: cut(real) });
    await rig.apply('kubectl', clusterManifest('a'));
    await until(async () => expect(await names(real)).toEqual(['a']));
    state.away = true;
    expect(await following.registry.add(cluster('b'), by)).toMatchObject({ cluster: cluster('b'), pending: true });
    await rig.apply('kubectl', clusterManifest('c'));
    await rig.kubectl(['delete', 'ec', 'a']);
    await until(() => expect(following.registry.all().map((entry) => entry.name)).toEqual(['b', 'c']));
    expect(await names(real)).toEqual(['a']);
    state.away = false;
    await until(async () => expect(await names(real)).toEqual(['b', 'c']));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec', '--all', '--timeout=40s']);
    await following.stop();
    await real.close();
  });

  test('the leader is killed: without one REST goes on, another takes over and does what was left', async () => {
    const one = await start('one');
    await until(async () => expect((await one.state()).epoch).not.toBeNull());
    const two = await start('two');
    await one.call('add', cluster('a'));
    one.kill('SIGKILL');
    const killed = performance.now();
    expect(await two.call('add', cluster('b'))).toMatchObject({ pending: false });
    await rig.apply('kubectl', clusterManifest('c'));
    await until(async () => expect((await two.state()).clusters).toEqual(['a', 'b', 'c']), 5_000);
    expect((await two.state()).leader).toBe(false);
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', 'ec/b', 'ec/c', '--timeout=60s']);
    expect((await two.state()).leader).toBe(true);
    expect(performance.now() - killed).toBeLessThan(35_000);
  });

  test('a leader paused for 30 s and continued writes nothing late', async () => {
    const one = await start('one');
    await until(async () => expect((await one.state()).epoch).not.toBeNull());
    const two = await start('two');
    await one.call('add', cluster('a'));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', '--timeout=40s']);
    const epoch = (await one.state()).epoch ?? 0;
    one.kill('SIGSTOP');
    await rig.apply('kubectl', clusterManifest('b'));
    await pause(30_000);
    await until(async () => expect((await two.state()).epoch ?? 0).toBeGreaterThan(epoch));
    await rig.apply('kubectl', clusterManifest('c'));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec', '--all', '--timeout=40s']);
    const statuses = (): Promise<string> => rig.kubectl(['get', 'ec', '-o', 'jsonpath={.items[*].status}']);
    await pause(6_000);
    const before = await statuses();
    one.kill('SIGCONT');
    await until(async () => expect((await one.state()).clusters).toEqual(['a', 'b', 'c']));
    expect((await one.state()).leader).toBe(false);
    await pause(6_000);
    expect(await statuses()).toBe(before);
    const lease = JSON.parse(await rig.kubectl(['get', 'lease', 'engine-gateway', '-o', 'json'])) as {
      spec: { holderIdentity: string };
    };
    expect(lease.spec.holderIdentity).toBe('two');
    expect((await two.state()).leader).toBe(true);
  });
});
