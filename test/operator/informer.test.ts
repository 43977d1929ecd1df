import { readFile, writeFile } from 'node:fs/promises';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/model/clock.ts';
import { Informer, type InformerOptions } from '../../src/operator/kubernetes/informer.ts';
import { KubeApi, type KubeList, kindPath } from '../../src/operator/kubernetes/kubeApi.ts';
import { loadKubeConfig, type PooledKubeConfig } from '../../src/operator/kubernetes/kubeConfig.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.ts';

const until = (check: () => void | Promise<void>, timeout = 15_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 20 });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!controlPlaneAvailable)('informer', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let proxy: TcpProxy;
  const informers: Informer[] = [];
  const configs: PooledKubeConfig[] = [];
  beforeAll(async () => {
    plane = await startPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane);
    proxy = await startTcpProxy(plane.config.apiServerPort);
  });
  afterEach(async () => {
    for (const informer of informers.splice(0)) await informer.stop();
    for (const config of configs.splice(0)) await config.destroy();
    await proxy.close();
    await rig.stop();
  });

  /** An informer that reaches the API server through the proxy. */
  const start = async (options: Partial<InformerOptions> = {}) => {
    const path = `${rig.kubeconfig}-${Math.random()}`;
    const text = await readFile(rig.kubeconfig, 'utf8');
    await writeFile(path, text.replace(/(server: https:\/\/127.0.0.1:)\d+/, `$1${proxy.port}`));
    const config = loadKubeConfig(path);
    configs.push(config);
    const api = new KubeApi(config, 3_000);
    const lists: number[] = [];
    const changes: string[] = [];
    const informer = new Informer({
      name: 'test',
      config,
      list: (limit, token) => {
        lists.push(limit);
        return api.list('EngineCluster', rig.namespace, limit, token);
      },
      watchPath: kindPath('EngineCluster', rig.namespace),
      clock: systemClock,
      random: Math.random,
      logger: pino({ enabled: false }),
      onChange: (name) => changes.push(name.split('/')[1] ?? ''),
      onState: () => undefined,
      backOffMs: 50,
      maxBackOffMs: 500,
      confirmEmptyMs: 200,
      ...options,
    });
    informers.push(informer);
    informer.start();
    return { informer, api, lists, changes };
  };
  const names = (informer: Informer): readonly string[] =>
    informer
      .list()
      .map((object) => object.metadata.name)
      .sort();

  test('a connection that is reset is taken up where it was, without a new list', async () => {
    const { informer, lists } = await start();
    await informer.whenSynced();
    for (const name of ['a', 'b', 'c']) {
      proxy.reset();
      await rig.apply('kubectl', clusterManifest(name));
      await until(() => expect(informer.get(`${rig.namespace}/${name}`)).not.toBeNull());
    }
    expect(lists).toHaveLength(1);
  });

  test('a half-open connection is found by its silence', async () => {
    const { informer } = await start({ idleMs: 1_000 });
    await informer.whenSynced();
    proxy.stall();
    await rig.apply('kubectl', clusterManifest('a'));
    await pause(500);
    expect(names(informer)).toEqual([]);
    proxy.resume();
    await until(() => expect(names(informer)).toEqual(['a']));
  });

  test('silence on a quiet watch loses nothing', async () => {
    const { informer, lists } = await start({ idleMs: 300 });
    await informer.whenSynced();
    for (const name of ['a', 'b', 'c', 'd']) {
      await pause(500);
      await rig.apply('kubectl', clusterManifest(name));
    }
    await until(() => expect(names(informer)).toEqual(['a', 'b', 'c', 'd']));
    expect(lists).toHaveLength(1);
  });

  test('a server that refuses: unavailable with its reason, what is known stays, tries do not become a storm', async () => {
    await rig.apply('kubectl', clusterManifest('a'));
    const { informer } = await start();
    await informer.whenSynced();
    proxy.refuse(true);
    proxy.reset();
    await until(() =>
      expect(informer.state).toMatchObject({ available: false, synced: true, reason: expect.any(String) }),
    );
    const before = proxy.accepted;
    await pause(2_000);
    expect(proxy.accepted - before).toBeLessThan(12);
    expect(names(informer)).toEqual(['a']);
    proxy.refuse(false);
    await until(() => expect(informer.state.available).toBe(true));
  });

  test('an empty list after a good one is asked for again before it is believed', async () => {
    await rig.apply('kubectl', clusterManifest('a'));
    let empty = 0;
    let api: KubeApi | null = null;
    const started = await start({
      relistMs: 1_000,
      list: async (limit, token): Promise<KubeList> => {
        if (empty > 0) {
          empty -= 1;
          return { items: [], metadata: { resourceVersion: '1' } };
        }
        if (api === null) throw new Error('not yet');
        return await api.list('EngineCluster', rig.namespace, limit, token);
      },
    });
    api = started.api;
    await started.informer.whenSynced();
    empty = 1;
    await until(() => expect(empty).toBe(0));
    await pause(500);
    expect(started.changes).toEqual(['a']);
    await rig.kubectl(['delete', 'ec', 'a']);
    await until(() => expect(names(started.informer)).toEqual([]));
  });

  test('a list that is forbidden, or not found, is a source that is away, never an empty one', async () => {
    await rig.apply('kubectl', clusterManifest('a'));
    const { informer } = await start({ relistMs: 1_000 });
    await informer.whenSynced();
    await rig.kubectl(['delete', 'rolebinding', 'engine-gateway']);
    await until(() =>
      expect(informer.state).toMatchObject({ available: false, reason: expect.stringContaining('403') }),
    );
    expect(names(informer)).toEqual(['a']);
    const other = await start({
      list: (limit, token) =>
        new KubeApi(configs[0]!, 3_000).list('EngineCluster', `${rig.namespace}/none`, limit, token),
    });
    await pause(300);
    expect(other.informer.state.synced).toBe(false);
    const role = await readFile('manifests/base/role.yaml', 'utf8');
    await rig.kubectl(['apply', '-f', '-'], role);
    await until(() => expect(informer.state.available).toBe(true));
    expect(names(informer)).toEqual(['a']);
  });

  test('large sets are listed by pages', async () => {
    const documents = Array.from({ length: 60 }, (_, index) => clusterManifest(`c${index}`));
    await rig.apply('kubectl', ...documents);
    const lists: (string | undefined)[] = [];
    let api: KubeApi | null = null;
    const started = await start({
      list: async (_limit, token) => {
        lists.push(token);
        if (api === null) throw new Error('not yet');
        return await api.list('EngineCluster', rig.namespace, 25, token);
      },
    });
    api = started.api;
    await started.informer.whenSynced();
    expect(started.informer.list()).toHaveLength(60);
    expect(lists.filter((token) => token !== undefined && token !== '')).toHaveLength(2);
  });
});
