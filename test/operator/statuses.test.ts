import { readFile, writeFile } from 'node:fs/promises';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { type KubeProxy, startKubeProxy } from '../support/kubeProxy.ts';
import { clusterManifest, type KubeOperator, type KubeRig, kubeRig } from '../support/kubeRig.ts';
import { allResources } from '../support/kubernetesOperator.ts';

describe.skipIf(!controlPlaneAvailable)('statuses', { timeout: 180_000 }, () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let proxy: KubeProxy;
  let operator: KubeOperator;
  let lines: { readonly msg: string }[];
  beforeAll(async () => {
    plane = await sharedControlPlane();
  }, 120_000);
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane);
    proxy = await startKubeProxy(plane);
    lines = [];
    // The operator reaches the API server through the proxy, in clear text.
    const kubeconfig = `${rig.kubeconfig}-proxy`;
    const text = (await readFile(rig.kubeconfig, 'utf8')).replace(/server: https:.*/, `server: ${proxy.url}`);
    await writeFile(kubeconfig, text.replace(/certificate-authority-data: .*/, 'insecure-skip-tls-verify: true'));
    const resources = { source: 'kubernetes', directory: null, namespace: null, kubeconfig } as const;
    operator = await rig.startOperator({
      resources: { ...allResources, ...resources, writeNamespace: null, unmanagedRows: 'serve' },
      logger: pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line)) }),
    });
  });
  afterEach(async () => {
    await operator?.stop();
    await proxy?.close();
    await rig?.stop();
  });

  const writes = (name: string): number => proxy.paths.filter((path) => path.includes(`/${name}/status`)).length;
  const ready = (...names: readonly string[]) =>
    rig.kubectl(['wait', '--for=condition=Ready', ...names.map((name) => `ec/${name}`), '--timeout=60s']);

  test('a condition that somebody else keeps is left alone, and is no reason to write', async () => {
    await rig.apply('kubectl', clusterManifest('a'));
    await ready('a');
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const foreign = {
      type: 'Synced',
      status: 'True',
      reason: 'Synced',
      message: 'by another tool',
      lastTransitionTime,
    };
    const { apiVersion, kind, metadata } = clusterManifest('a') as Record<string, unknown>;
    const document = JSON.stringify({ apiVersion, kind, metadata, status: { conditions: [foreign] } });
    const another = ['apply', '--server-side', '--subresource=status', '--field-manager=another', '-f', '-'];
    await rig.kubectl(another, document);
    const before = writes('a');
    operator.controller.reportForwardedHeaders('a', { ok: true, message: 'seen' });
    await rig.kubectl(['wait', '--for=condition=ForwardedHeaders', 'ec/a', '--timeout=60s']);
    expect(writes('a')).toBe(before + 1);
    const conditions = ['get', 'ec', 'a', '-o', 'jsonpath={.status.conditions[*].type}'];
    expect((await rig.kubectl(conditions)).split(' ')).toEqual(
      expect.arrayContaining(['Synced', 'Ready', 'ForwardedHeaders']),
    );
  });

  test('429: nothing is sent before Retry-After, one line says why, and all is written afterwards', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    // When statuses came, in milliseconds after the first of them.
    const times: number[] = [];
    let first = Number.NaN;
    const refuse = ({ path }: { readonly path: string }): number | null => {
      if (!path.includes('/status')) return null;
      if (Number.isNaN(first)) first = performance.now();
      times.push(performance.now() - first);
      return performance.now() - first < 11_000 ? 429 : null;
    };
    proxy.refuse(refuse, { 'Retry-After': '12' });
    await rig.apply('kubectl', ...names.map((name) => clusterManifest(name)));
    await ready(...names);
    // Those that were on their way when the first was refused may have been refused as well.
    expect(times.filter((ms) => ms < 11_900).length).toBeLessThanOrEqual(names.length);
    expect(times.filter((ms) => ms >= 2_000 && ms < 11_900)).toEqual([]);
    expect(lines.filter(({ msg }) => msg.startsWith('reconcile failed'))).toHaveLength(1);
  });
});
