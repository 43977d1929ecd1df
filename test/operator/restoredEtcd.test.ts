import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
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

const until = (check: () => void | Promise<void>, timeout = 60_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 50 });

describe.skipIf(!controlPlaneAvailable)('etcd is restored', { timeout: 240_000 }, () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let folder: string;
  beforeEach(async () => {
    plane = await startPlane();
    rig = await kubeRig(plane);
    folder = await mkdtemp(join(tmpdir(), 'eg-etcd-'));
  }, 120_000);
  afterEach(async () => {
    await rig?.stop();
    await plane?.stop();
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
});
