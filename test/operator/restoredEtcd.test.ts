import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { parse, stringify } from 'yaml';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { backUpEtcd, restoreEtcd } from '../support/etcdBackup.ts';
import {
  clusterManifest,
  type KubeOperator,
  type KubeRig,
  kubeRig,
  ruleManifest,
  startPlane,
} from '../support/kubeRig.ts';
import { allResources } from '../support/kubernetesOperator.ts';

const until = (check: () => void | Promise<void>, timeout = 60_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 50 });

describe.skipIf(!controlPlaneAvailable)('etcd is restored', { timeout: 240_000 }, () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let folder: string;
  beforeAll(async () => {
    plane = await startPlane();
  }, 120_000);
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane);
    folder = await mkdtemp(join(tmpdir(), 'eg-etcd-'));
  }, 120_000);
  afterEach(async () => {
    await rig?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const routed = (operator: KubeOperator): readonly string[] =>
    [...operator.table.current.clusters.values()].map(({ name, routingGroup }) => `${name} ${routingGroup}`).sort();
  const stored = async (operator: KubeOperator): Promise<readonly string[]> =>
    (await operator.store.backends.all()).map(({ name, routingGroup }) => `${name} ${routingGroup}`).sort();
  const all = async (operators: readonly KubeOperator[], clusters: readonly string[]): Promise<void> => {
    for (const operator of operators) {
      await until(() => expect(routed(operator)).toEqual(clusters));
      await until(async () => expect(await stored(operator)).toEqual(clusters));
    }
  };
  const allReady = () => rig.kubectl(['wait', '--for=condition=Ready', 'ec,rr', '--all', '--timeout=60s']);

  test('under running gateways: routing, database and statuses follow what is there, and what changes afterwards', async () => {
    const operators = [await rig.startOperator(), await rig.startOperator()];
    await rig.apply('kubectl', ...['a', 'b', 'c'].map((name) => clusterManifest(name)), ruleManifest('r'));
    await all(operators, ['a adhoc', 'b adhoc', 'c adhoc']);
    await allReady();
    await backUpEtcd(plane, folder);

    // What is lost: changes, an object deleted and made again, one deleted, new ones. Versions go far ahead.
    for (let round = 0; round < 10; round += 1) {
      await rig.apply('kubectl', clusterManifest('a', { routingGroup: `g${round}` }));
    }
    await rig.kubectl(['delete', 'ec', 'b', 'c']);
    await rig.apply(
      'kubectl',
      clusterManifest('b', { routingGroup: 'again' }),
      clusterManifest('d'),
      clusterManifest('e'),
    );
    await rig.apply('kubectl', ruleManifest('r', { condition: '1 == 2' }));
    await all(operators, ['a g9', 'b again', 'd adhoc', 'e adhoc']);
    await allReady();

    await restoreEtcd(plane, folder);
    await all(operators, ['a adhoc', 'b adhoc', 'c adhoc']);
    await allReady();
    const conditions = async (): Promise<readonly (string | undefined)[]> =>
      (await operators[0]!.store.resources.all(['RoutingRule'])).map(({ spec }) => spec.condition as string);
    await until(async () => expect(await conditions()).toEqual(['true']));

    // The same generation again, with another content; a name that was made and deleted; statuses of both.
    await rig.apply(
      'kubectl',
      clusterManifest('a', { routingGroup: 'after' }),
      clusterManifest('d', { routingGroup: 'after' }),
    );
    await all(operators, ['a after', 'b adhoc', 'c adhoc', 'd after']);
    await rig.kubectl(['wait', '--for=jsonpath={.status.observedGeneration}=2', 'ec/a', '--timeout=40s']);
    await allReady();

    for (const operator of operators.splice(0)) await operator.stop();
    operators.push(await rig.startOperator(), await rig.startOperator());
    await rig.apply('kubectl', clusterManifest('c', { routingGroup: 'last' }));
    await all(operators, ['a after', 'b adhoc', 'c last', 'd after']);
    await allReady();
  });

  test('the CRD is deleted, made again and filled again: routing does not change', async () => {
    const operators = [await rig.startOperator(), await rig.startOperator()];
    const names = Array.from({ length: 12 }, (_, index) => `c${index + 10}`);
    const everything = names.map((name) => `${name} adhoc`);
    await rig.apply('kubectl', ...names.map((name) => clusterManifest(name)));
    await all(operators, everything);
    const fewest = operators.map(({ table }) => {
      const seen = { clusters: table.current.clusters.size };
      table.onChange((after) => {
        seen.clusters = Math.min(seen.clusters, after.clusters.size);
      });
      return seen;
    });
    await rig.kubectl(['delete', 'crd', 'engineclusters.enginegateway.dev']);
    await until(() => {
      for (const { controller } of operators) expect(controller.heldDeletions).toMatchObject([{ held: 12, left: 0 }]);
    });
    await rig.kubectl(['apply', '--server-side', '-f', 'crds/']);
    await rig.kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=40s']);
    await rig.apply('kubectl', ...names.map((name) => clusterManifest(name)));
    await until(() => {
      for (const { controller } of operators) expect(controller.heldDeletions).toEqual([]);
    });
    await all(operators, everything);
    await allReady();
    expect(fewest).toEqual([{ clusters: 12 }, { clusters: 12 }]);
  });

  test('while the gateways are stopped: they start by the database and go on by what is there', async () => {
    const first = await rig.startOperator();
    await rig.apply('kubectl', ...['a', 'b'].map((name) => clusterManifest(name)));
    await all([first], ['a adhoc', 'b adhoc']);
    await backUpEtcd(plane, folder);
    for (let round = 0; round < 10; round += 1) {
      await rig.apply('kubectl', clusterManifest('a', { routingGroup: `g${round}` }));
    }
    await rig.kubectl(['delete', 'ec', 'b']);
    await all([first], ['a g9']);
    await first.stop();
    await restoreEtcd(plane, folder);
    const operators = [await rig.startOperator(), await rig.startOperator()];
    await all(operators, ['a adhoc', 'b adhoc']);
    await allReady();
  });

  // The last one: it leaves an empty server.
  test('wiped: routing goes on by what was known, is held while little is declared again, and follows when confirmed', async () => {
    // An administrator's certificate is good after a wipe, an account's token is not.
    const kubeconfig = join(folder, 'kubeconfig');
    const admin = parse(plane.config.kubeconfigYaml) as { contexts: { context: { namespace?: string } }[] };
    for (const { context } of admin.contexts) context.namespace = rig.namespace;
    await writeFile(kubeconfig, stringify(admin));
    const start = () => {
      const namespace = rig.namespace;
      const resources = { source: 'kubernetes', directory: null, namespace, kubeconfig } as const;
      return rig.startOperator({
        resources: { ...allResources, ...resources, writeNamespace: null, unmanagedRows: 'serve' },
      });
    };
    const operators = [await start(), await start()];
    const names = ['a', 'b', 'c', 'd', 'e'];
    const everything = names.map((name) => `${name} adhoc`);
    await rig.apply('kubectl', ...names.map((name) => clusterManifest(name)));
    await all(operators, everything);
    await restoreEtcd(plane, null);
    await until(() => {
      for (const { source } of operators) expect(source.state().available).toBe(false);
    });
    await all(operators, everything);
    await rig.kubectl(['create', 'namespace', rig.namespace]);
    await rig.kubectl(['apply', '--server-side', '-f', 'crds/']);
    await until(() => {
      for (const { source, controller } of operators) {
        expect(source.state().available).toBe(true);
        expect(controller.heldDeletions).toMatchObject([{ kind: 'EngineCluster', held: 5, left: 0 }]);
      }
    });
    await rig.apply('kubectl', clusterManifest('a', { routingGroup: 'new' }));
    const held = ['a new', ...everything.slice(1)];
    await all(operators, held);
    const message = '{.status.conditions[?(@.type=="DeletionsHeld")].message}';
    await until(async () =>
      expect(await rig.kubectl(['get', 'ec', 'a', '-o', `jsonpath=${message}`])).toMatch(/^4 .*confirm/),
    );
    // A replica that is started meanwhile holds them as well.
    const late = await start();
    await all([late], held);
    expect(late.controller.heldDeletions).toMatchObject([{ held: 4, left: 1 }]);
    await late.controller.confirmDeletions();
    await all([...operators, late], ['a new']);
    await until(async () => expect(await rig.kubectl(['get', 'ec', 'a', '-o', `jsonpath=${message}`])).toBe(''));
  });
});
