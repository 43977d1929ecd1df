import { readFile, writeFile } from 'node:fs/promises';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/model/clock.ts';
import { Informer, type InformerOptions } from '../../src/operator/sources/kubernetes/informer.ts';
import { KubeApi, type KubeList, kindPath } from '../../src/operator/sources/kubernetes/kubeApi.ts';
import { loadKubeConfig, type PooledKubeConfig } from '../../src/operator/sources/kubernetes/kubeConfig.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { type KubeProxy, startKubeProxy } from '../support/kubeProxy.ts';
import { clusterManifest, type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.ts';

const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
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

  /** An informer that reaches the API server through a proxy: of TCP, or the one that is given. */
  const start = async (options: Partial<InformerOptions> = {}, server = `https://127.0.0.1:${proxy.port}`) => {
    const path = `${rig.kubeconfig}-${Math.random()}`;
    const text = await readFile(rig.kubeconfig, 'utf8');
    const changed = text.replace(/server: https:.*/, `server: ${server}`);
    // The client library asks for this where a server speaks clear text.
    const clear = changed.replace(/certificate-authority-data: .*/, 'insecure-skip-tls-verify: true');
    await writeFile(path, server.startsWith('http:') ? clear : changed);
    const config = loadKubeConfig(path);
    configs.push(config);
    const api = new KubeApi(config, 15_000);
    const lists: number[] = [];
    const changes: string[] = [];
    const informer = new Informer({
      kind: 'EngineCluster',
      name: 'test',
      config,
      list: (limit, token) => {
        lists.push(limit);
        return api.list('EngineCluster', rig.namespace, limit, token);
      },
      watchPath: kindPath('engineclusters', rig.namespace),
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

  test('more objects than are followed: none of them is taken over, and what is known stays', async () => {
    await rig.apply('kubectl', clusterManifest('a'), clusterManifest('b'));
    const states: boolean[] = [];
    const { informer } = await start({ most: 2, onState: () => states.push(informer.state.available) });
    await informer.whenSynced();
    await until(() => expect(names(informer)).toEqual(['a', 'b']));
    await rig.apply('kubectl', clusterManifest('c'));
    await until(() =>
      expect(informer.state).toMatchObject({
        synced: true,
        available: false,
        reason: expect.stringContaining('more than 2'),
      }),
    );
    expect(names(informer)).toEqual(['a', 'b']);
    await rig.kubectl(['delete', 'ec', 'a']);
    await until(() => expect(names(informer)).toEqual(['b', 'c']));
    expect(informer.state).toMatchObject({ available: true, reason: null });
    expect(states).toContain(false);
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

  test('an answer to a write that comes after the object is gone does not bring it back', async () => {
    const { informer, api } = await start();
    await informer.whenSynced();
    const key = { kind: 'EngineCluster', namespace: rig.namespace, name: 'a' } as const;
    const name = `${rig.namespace}/a`;
    for (const deletedBy of ['another', 'us']) {
      await rig.apply('kubectl', clusterManifest('a'));
      await until(() => expect(informer.get(name)).not.toBeNull());
      const { resourceVersion, uid } = (await api.get(key)).metadata;
      const metadata = { resourceVersion, annotations: { note: deletedBy } };
      const written = await api.merge(key, { metadata }, 'test');
      await api.delete(key, { uid });
      if (deletedBy === 'us') informer.forget(written);
      informer.remember(written);
      await until(() => expect(informer.get(name)).toBeNull());
      // By now the watch has reported the deletion and this one.
      await rig.apply('kubectl', clusterManifest(`after-${deletedBy}`));
      await until(() => expect(informer.get(`${rig.namespace}/after-${deletedBy}`)).not.toBeNull());
      informer.remember(written);
      expect(names(informer)).not.toContain('a');
    }
  });

  test('what was written is known before the watch reports it', async () => {
    const { informer } = await start();
    await informer.whenSynced();
    proxy.stall();
    const config = loadKubeConfig(rig.kubeconfig);
    configs.push(config);
    const direct = new KubeApi(config, 15_000);
    const written = await direct.create('EngineCluster', rig.namespace, clusterManifest('a'), 'test');
    informer.remember(written);
    expect(names(informer)).toEqual(['a']);
    proxy.resume();
    await direct.delete({ kind: 'EngineCluster', namespace: rig.namespace, name: 'a' }, written.metadata);
    await until(() => expect(names(informer)).toEqual([]));
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

  test('a list that is forbidden, or not found, is a source that is unavailable, never an empty one', async () => {
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
        new KubeApi(configs[0]!, 15_000).list('EngineCluster', `${rig.namespace}/none`, limit, token),
    });
    await pause(300);
    expect(other.informer.state.synced).toBe(false);
    const role = await readFile('manifests/base/role.yaml', 'utf8');
    await rig.kubectl(['apply', '-f', '-'], role);
    await until(() => expect(informer.state.available).toBe(true));
    expect(names(informer)).toEqual(['a']);
  });

  describe('an API server that answers with an error', () => {
    let errors: KubeProxy;
    beforeEach(async () => {
      errors = await startKubeProxy(plane);
      await rig.apply('kubectl', clusterManifest('a'));
    });
    afterEach(() => errors?.close());
    const watching = (): Promise<void> => until(() => expect(errors.watches).toBeGreaterThan(0));

    test.each([401, 403, 404, 429, 500, 503])('%i to a list: away, never empty; then all is found', async (status) => {
      // Listed again whenever a watch has ended.
      const { informer } = await start({ relistMs: 1 }, errors.url);
      await informer.whenSynced();
      await watching();
      errors.refuse(({ isWatch }) => (isWatch ? null : status));
      errors.endWatches();
      const reason = expect.stringContaining(String(status));
      await until(() => expect(informer.state).toMatchObject({ synced: true, available: false, reason }));
      expect(names(informer)).toEqual(['a']);
      const late = await start({}, errors.url);
      await until(() => expect(late.informer.state).toMatchObject({ synced: false, available: false, reason }));
      await rig.apply('kubectl', clusterManifest('b'));
      errors.refuse(null);
      for (const each of [informer, late.informer]) {
        await until(() => expect(names(each)).toEqual(['a', 'b']));
        expect(each.state).toMatchObject({ synced: true, available: true });
      }
    });

    test.each([
      [401, 1],
      [403, 1],
      [429, 1],
      [503, 1],
      // What is gone, or no longer known, is listed again.
      [404, 2],
      [410, 2],
    ])('%i to a watch: what is known stays; lists in all: %i', async (status, expected) => {
      const { informer, lists } = await start({}, errors.url);
      await informer.whenSynced();
      await watching();
      expect(errors.paths.find((path) => path.includes('watch=true'))).toContain('allowWatchBookmarks=true');
      let refused = 0;
      errors.refuse(({ isWatch }) => {
        if (!isWatch || (status === 410 && refused > 0)) return null;
        refused += 1;
        return status;
      });
      errors.endWatches();
      await until(() => expect(refused).toBeGreaterThan(0));
      await rig.apply('kubectl', clusterManifest('b'));
      // A watch that expired is no trouble of the server.
      if (status !== 410) {
        await until(() => expect(informer.state).toMatchObject({ synced: true, available: false }));
        expect(informer.get(`${rig.namespace}/a`)).not.toBeNull();
      }
      errors.refuse(null);
      // A list may find what is new while the watch after it is still refused.
      await until(() => {
        expect(names(informer)).toEqual(['a', 'b']);
        expect(informer.state.available).toBe(true);
      });
      if (status === 404) expect(lists.length).toBeGreaterThanOrEqual(expected);
      else expect(lists).toHaveLength(expected);
    });
  });

  test('etcd forgets the history during a stop: listed again, what changed and went meanwhile is found', async () => {
    const lines: string[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => lines.push(line) });
    const operator = await rig.startOperator({ logger });
    const stored = async () => (await operator.store.backends.all()).map((row) => row.name);
    await rig.apply('kubectl', clusterManifest('a'), clusterManifest('b'));
    await until(async () => expect(await stored()).toEqual(['a', 'b']));
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
    await until(() => expect(operator.registry.all().map((entry) => entry.name)).toEqual(['b', 'c']), 40_000);
    await until(async () => expect(await stored()).toEqual(['b', 'c']), 40_000);
    // After an outage there is a list, whether a watch could go on or not; the log says when it is over.
    const followed = lines
      .map((line) => JSON.parse(line) as { msg: string; informer?: string })
      .filter(({ msg }) => msg === 'API server watch restored');
    expect(followed.map(({ informer }) => informer)).toContain('EngineCluster');
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
