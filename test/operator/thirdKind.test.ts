import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { withRoleRules } from '../../scripts/roleRules.ts';
import { customResourceDefinition } from '../../src/kinds/crd.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { banner, kindsWithBanner as kinds } from '../support/madeUpKind.ts';
import { manifest } from '../support/manifest.ts';

const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 40_000, interval: 50 });

describe.skipIf(!controlPlaneAvailable)(
  'a kind that is registered and named nowhere else, on a real API server',
  () => {
    let plane: ControlPlane;
    let rig: KubeRig;
    beforeAll(async () => {
      plane = await sharedControlPlane();
      rig = await kubeRig(plane);
    });
    afterAll(async () => {
      await rig?.stop();
      await plane?.stop();
    });

    test('without its CRD the others are served, and it is followed as soon as the CRD is there', async () => {
      const own = await startPlane();
      const other = await kubeRig(own);
      try {
        await other.kubectl(
          ['apply', '-f', '-'],
          withRoleRules(await readFile('manifests/base/role.yaml', 'utf8'), kinds),
        );
        await other.apply('admin', clusterManifest('a'));
        const { source, table } = await other.startOperator({ kinds });
        // An API server that has just started refuses some of the first requests.
        const isFollowed = () => expect(source.state()).toMatchObject({ synced: true, available: true });
        await until(isFollowed);
        expect([...table.current.clusters.keys()]).toEqual(['a']);
        await other.apply('admin', customResourceDefinition(banner));
        await other.kubectl(['wait', '--for=condition=Established', 'crd/banners.enginegateway.dev', '--timeout=60s']);
        await other.apply('admin', manifest(banner.kind, 'late', banner.example, { namespace: other.namespace }));
        await until(() => expect(source.list(banner.kind).map(({ metadata }) => metadata.name)).toEqual(['late']));
        await other.kubectl(['delete', 'crd', 'banners.enginegateway.dev']);
        await until(() => expect(source.list(banner.kind)).toEqual([]));
        await until(isFollowed);
      } finally {
        await other.stop();
        await own.stop();
      }
    });

    test('its CRD is accepted, and with the derived Role it is listed, followed and gets a status', async () => {
      await rig.apply('admin', customResourceDefinition(banner));
      await rig.kubectl(['wait', '--for=condition=Established', 'crd/banners.enginegateway.dev', '--timeout=60s']);
      await rig.kubectl(['apply', '-f', '-'], withRoleRules(await readFile('manifests/base/role.yaml', 'utf8'), kinds));
      const resource = (name: string, spec: object) => manifest(banner.kind, name, spec, { namespace: rig.namespace });
      await rig.apply('admin', resource('a', banner.example));
      const { source } = await rig.startOperator({ kinds });
      await until(() => expect(source.list(banner.kind).map(({ metadata }) => metadata.name)).toEqual(['a']));
      const shown = () => rig.kubectl(['get', 'bn', 'a', '-o', 'jsonpath={.status.shown}']);
      await until(async () => expect(await shown()).toBe(banner.example.text));
      await rig.apply('admin', resource('a', { text: 'again' }));
      await until(async () => expect(await shown()).toBe('again'));
      await expect(rig.apply('admin', resource('b', { text: '' }))).rejects.toThrow('spec.text');
      await rig.kubectl(['delete', 'bn', 'a']);
      await until(() => expect(source.list(banner.kind)).toEqual([]));
    });
  },
);
