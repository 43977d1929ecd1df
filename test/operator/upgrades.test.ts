import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import type { Explanation } from '../../src/api/responses/routing.ts';
import { type ControlPlane, controlPlaneAvailable, startControlPlane } from '../support/controlPlane.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { crdChart, helm, helmAvailable } from '../support/helm.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest } from '../support/kubeRig.ts';
import { previousAvailable, previousVersion } from '../support/previousProgram.ts';
import type { GatewayProgram } from '../support/program.ts';

const until = (check: () => void | Promise<void>, timeout = 60_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 100 });

// The last tests replace the CRDs: the order matters.
describe.skipIf(!controlPlaneAvailable || !helmAvailable)('an upgrade', () => {
  const testOfPrevious = test.skipIf(!previousAvailable);
  let plane: ControlPlane;
  let rig: KubeRig;
  let gateways: GatewayProcess[] = [];
  beforeAll(async () => {
    plane = await startControlPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    gateways = [];
    rig = await kubeRig(plane);
  });
  afterEach(async () => {
    for (const gateway of gateways) await gateway.stop();
    await rig?.stop();
  });

  /** Removes all CRDs, and applies those of a folder. */
  const installCrds = async (folder: string | null): Promise<void> => {
    await rig.kubectl(['delete', 'crd', '--all']);
    if (folder === null) return;
    await rig.kubectl(['apply', '--server-side', '-f', folder]);
    await rig.kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
  };

  const gateway = async (program: GatewayProgram): Promise<GatewayProcess> => {
    const started = await startGateway(
      {
        resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
        dataStore: { jdbcUrl: rig.jdbcUrl },
      },
      {},
      { program },
    );
    gateways.push(started);
    return started;
  };
  const routed = async ({ url }: GatewayProcess): Promise<readonly string[]> => {
    const response = await fetch(`${url}/gateway/backend/all`);
    return ((await response.json()) as readonly { readonly name: string }[]).map(({ name }) => name).sort();
  };
  const add = (url: string, name: string): Promise<Response> =>
    fetch(`${url}/gateway/backend/modify/add`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name, proxyTo: `http://${name}:8080`, active: true, routingGroup: 'adhoc' }),
    });
  const ready = (...resources: readonly string[]): Promise<string> =>
    rig.kubectl(['wait', '--for=condition=Ready', ...resources, '--timeout=60s']);
  const setClass = (name: string): Promise<string> =>
    rig.kubectl(['patch', 'ec', name, '--type=merge', '-p', '{"spec":{"gatewayClassName":"blue"}}']);
  const classOf = (name: string): Promise<string> =>
    rig.kubectl(['get', 'ec', name, '-o', 'jsonpath={.spec.gatewayClassName}']);
  /** Stage in which the only rule is asked, by the explanation of a query; undefined: the first one. */
  const stageAsked = async ({ url }: GatewayProcess): Promise<string | undefined> => {
    const request = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"body":"SELECT 1"}' };
    const { rules } = (await (await fetch(`${url}/api/explain`, request)).json()) as Pick<Explanation, 'rules'>;
    return rules[0]?.stage;
  };
  const leader = (): Promise<string> =>
    rig.kubectl(['get', 'lease', 'engine-gateway', '-o', 'jsonpath={.spec.holderIdentity}']);

  testOfPrevious(
    'the previous program works with the new CRDs, but knows of no fields that came with them',
    async () => {
      const previous = await gateway('previous');
      await rig.apply('kubectl', clusterManifest('a'), ruleManifest('r', { stage: 'Final' }));
      await ready('ec/a', 'rr/r');
      await until(async () => expect(await routed(previous)).toEqual(['a']));
      expect(await stageAsked(previous)).toBeUndefined();
      expect((await add(previous.url, 'c')).status).toBe(200);
      await ready('ec/c');
    },
  );

  testOfPrevious('both versions serve one database and namespace, in turn as leader, forwards and back', async () => {
    const previous = await gateway('previous');
    await rig.apply('kubectl', clusterManifest('a'), ruleManifest('r'));
    await ready('ec/a', 'rr/r');
    const first = await leader();
    const fresh = await gateway('sources');
    expect(await leader()).toBe(first);
    expect((await add(previous.url, 'of-previous')).status).toBe(200);
    expect((await add(fresh.url, 'of-new')).status).toBe(200);
    const all = ['a', 'of-new', 'of-previous'];
    await until(async () => {
      expect(await routed(previous)).toEqual(all);
      expect(await routed(fresh)).toEqual(all);
    });
    await previous.stop();
    await rig.apply('kubectl', clusterManifest('under-new'));
    await ready('ec/under-new', 'ec/of-previous', 'ec/of-new');
    const second = await leader();
    expect(second).not.toBe(first);
    // Rollback: the previous program takes the database as the new one left it.
    const again = await gateway('previous');
    await fresh.stop();
    await rig.apply('kubectl', clusterManifest('after-rollback'));
    await ready('ec/after-rollback', 'rr/r');
    expect(await routed(again)).toEqual(['a', 'after-rollback', 'of-new', 'of-previous', 'under-new']);
    expect(await leader()).not.toBe(second);
  });

  test('a database that is restored from a backup follows the resources again', async () => {
    const file = rig.jdbcUrl.replace('jdbc:sqlite:', '');
    const stored = async ({ store }: Awaited<ReturnType<KubeRig['startOperator']>>) => ({
      resources: (await store.resources.all()).map(({ name }) => name).sort(),
      rows: (await store.backends.all()).map(({ name, routingGroup }) => `${name} ${routingGroup}`).sort(),
    });
    const before = await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('changed'), clusterManifest('deleted'), clusterManifest('stays'));
    await until(async () => expect((await stored(before)).rows).toHaveLength(3));
    await before.stop();
    await copyFile(file, `${file}.backup`);
    const later = await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('changed', { routingGroup: 'etl' }), clusterManifest('new'));
    await rig.kubectl(['delete', 'ec', 'deleted']);
    const expected = { resources: ['changed', 'new', 'stays'], rows: ['changed etl', 'new adhoc', 'stays adhoc'] };
    await until(async () => expect(await stored(later)).toEqual(expected));
    await later.stop();
    await copyFile(`${file}.backup`, file);
    const restored = await rig.startOperator();
    await until(() => expect([...restored.table.current.clusters.keys()].sort()).toEqual(['changed', 'new', 'stays']));
    await until(async () => expect(await stored(restored)).toEqual(expected));
    await ready('ec/changed', 'ec/new', 'ec/stays');
  });

  testOfPrevious(
    'the new program works with the CRDs of the previous version, and takes over what the new ones add',
    async () => {
      await installCrds(join(await previousVersion(), 'crds'));
      const fresh = await gateway('sources');
      await rig.apply('kubectl', clusterManifest('a'), clusterManifest('b'), ruleManifest('r'));
      await ready('ec/a', 'ec/b', 'rr/r');
      expect((await add(fresh.url, 'c')).status).toBe(200);
      await until(async () => expect(await routed(fresh)).toEqual(['a', 'b', 'c']));
      // What the CRD does not have yet is dropped by the API server.
      const setStage = ['patch', 'rr', 'r', '--type=merge', '-p', '{"spec":{"stage":"Final"}}'];
      const stage = ['get', 'rr', 'r', '-o', 'jsonpath={.spec.stage}'];
      await rig.kubectl(setStage);
      expect(await rig.kubectl(stage)).toBe('');
      await rig.kubectl(['apply', '--server-side', '--force-conflicts', '-f', 'crds/']);
      await until(async () => {
        await rig.kubectl(setStage);
        expect(await rig.kubectl(stage)).toBe('Final');
      });
      await until(async () => expect(await stageAsked(fresh)).toBe('final'));
      await ready('ec/a', 'ec/b', 'ec/c', 'rr/r');
    },
  );

  test('CRDs that were applied are adopted by their chart, which keeps every resource', async () => {
    await installCrds('crds');
    await rig.apply('kubectl', clusterManifest('a'));
    const chart = await crdChart();
    const kubeconfig = ['--kubeconfig', plane.config.kubeconfigPath];
    const install = ['upgrade', '--install', 'engine-gateway-crds', chart, ...kubeconfig];
    await expect(helm(...install)).rejects.toMatchObject({
      stderr: expect.stringContaining('invalid ownership metadata'),
    });
    await helm(...install, '--take-ownership');
    await until(async () => {
      await setClass('a');
      expect(await classOf('a')).toBe('blue');
    });
    await helm('uninstall', 'engine-gateway-crds', ...kubeconfig);
    expect(await classOf('a')).toBe('blue');
    expect(await rig.kubectl(['get', 'crd', '-o', 'name'])).toContain('engineclusters.enginegateway.dev');
  });

  test('a version of the resource API is added next to the present one, which every client can still use', async () => {
    await installCrds('crds');
    await rig.apply('kubectl', clusterManifest('a', { weight: 7 }));
    const fresh = await gateway('sources');
    const names = (await rig.kubectl(['get', 'crd', '-o', 'name'])).trim().split('\n');
    for (const name of names) {
      const { spec } = JSON.parse(await rig.kubectl(['get', name, '-o', 'json']));
      const [present] = spec.versions;
      const added = { ...present, name: 'v1beta2', storage: false };
      await rig.kubectl([
        'patch',
        name,
        '--type=merge',
        '-p',
        JSON.stringify({ spec: { versions: [present, added] } }),
      ]);
    }
    const weightAs = (version: string) =>
      rig.kubectl(['get', `engineclusters.${version}.enginegateway.dev/a`, '-o', 'jsonpath={.spec.weight}']);
    await until(async () => expect(await weightAs('v1beta2')).toBe('7'));
    await rig.kubectl(['apply', '-f', '-'], { ...clusterManifest('b'), apiVersion: 'enginegateway.dev/v1beta2' });
    await ready('ec/a', 'ec/b');
    expect(await routed(fresh)).toEqual(['a', 'b']);
    // The stored version changes last; each object is written in it at its next change.
    for (const name of names) {
      const { spec } = JSON.parse(await rig.kubectl(['get', name, '-o', 'json']));
      const versions = spec.versions.map((version: { readonly name: string }) => ({
        ...version,
        storage: version.name === 'v1beta2',
      }));
      await rig.kubectl(['patch', name, '--type=merge', '-p', JSON.stringify({ spec: { versions } })]);
    }
    expect((await add(fresh.url, 'c')).status).toBe(200);
    await ready('ec/c');
    expect(await weightAs('v1beta1')).toBe('7');
  });

  test('the chart of the CRDs keeps them when it is uninstalled, and removes them where its values say so', async () => {
    const kubeconfig = ['--kubeconfig', plane.config.kubeconfigPath, '-n', rig.namespace];
    const release = (...args: readonly string[]) => helm(...args, ...kubeconfig);
    const names = () => rig.kubectl(['get', 'crd', '-o', 'name']);
    await installCrds(null);
    const chart = await crdChart();
    await release('install', 'crds', chart);
    await rig.kubectl(['wait', '--for=condition=Established', 'crd/engineclusters.enginegateway.dev', '--timeout=60s']);
    await rig.apply('kubectl', clusterManifest('a'));
    await release('uninstall', 'crds', '--wait');
    expect(await names()).toContain('engineclusters.enginegateway.dev');
    expect(await rig.kubectl(['get', 'engineclusters', '-o', 'name'])).toContain('/a');
    await release('install', 'crds', chart, '--set', 'crds.keep=false');
    await release('uninstall', 'crds', '--wait');
    expect(await names()).not.toContain('enginegateway.dev');
  });
});

describe('versions', () => {
  test('package, charts and manifests have the same version', async () => {
    const read = async (path: string) => parse(await readFile(path, 'utf8'));
    const { version } = await read('package.json');
    expect((await read('manifests/helm/engine-gateway/Chart.yaml')).appVersion).toBe(version);
    expect((await read('manifests/helm/engine-gateway-crds/Chart.yaml')).appVersion).toBe(version);
    expect((await read('manifests/base/kustomization.yaml')).images).toEqual([
      { name: 'engine-gateway', newTag: version },
    ]);
  });
});
