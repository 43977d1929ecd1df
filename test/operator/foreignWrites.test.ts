import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Condition } from '../../src/model/condition.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { otherProgram } from '../support/foreignRows.ts';
import { clusterManifest, type KubeOperator, type KubeRig, kubeRig } from '../support/kubeRig.ts';

const by = { by: 'alice', force: false };
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 60_000, interval: 50 });

describe.skipIf(!controlPlaneAvailable)('what another gateway writes beside a real API server', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let other: ReturnType<typeof otherProgram>;
  let lines: Readonly<Record<string, unknown>>[];
  let metrics: Registry;
  beforeAll(async () => {
    plane = await sharedControlPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane);
    other = otherProgram('sqlite', rig);
    lines = [];
    metrics = new Registry();
  });
  afterEach(() => rig?.stop());

  const start = (): Promise<KubeOperator> => {
    metrics = new Registry();
    const logger = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) });
    return rig.startOperator({ metrics, logger });
  };
  interface Cluster {
    readonly metadata: { readonly annotations?: Readonly<Record<string, string>>; readonly generation: number };
    readonly spec: Readonly<Record<string, unknown>>;
    readonly status?: { readonly conditions: readonly Condition[] };
  }
  const read = async (name: string): Promise<Cluster> =>
    JSON.parse(await rig.kubectl(['get', 'ec', name, '-o', 'json'])) as Cluster;
  const drift = async (name: string): Promise<Condition | undefined> =>
    (await read(name)).status?.conditions.find(({ type }) => type === 'Drift');
  const events = async () => {
    const { items } = JSON.parse(await rig.kubectl(['get', 'events.events.k8s.io', '-o', 'json'])) as {
      items: readonly { reason: string; type: string; note: string; regarding: { kind: string; name: string } }[];
    };
    return items
      .filter(({ reason }) => reason.startsWith('ForeignWrite'))
      .map(({ reason, type, note, regarding }) => ({ reason, type, note, cluster: regarding.name }));
  };
  const rows = async ({ store }: KubeOperator): Promise<readonly string[]> =>
    (await store.backends.all()).map(({ name, routingGroup, active }) => `${name} ${routingGroup} ${active}`);
  const ready = (...names: readonly string[]): Promise<string> =>
    rig.kubectl(['wait', '--for=condition=Ready', '--timeout=60s', ...names.map((name) => `ec/${name}`)]);

  test('a field of a GitOps manager is put back with log, metric, event and condition; activation is an override', async () => {
    const operator = await start();
    await rig.apply('argocd', clusterManifest('owned'));
    await operator.registry.add(
      { name: 'free', proxyTo: 'http://free:1', active: true, routingGroup: 'adhoc', externalUrl: 'http://free:1' },
      by,
    );
    await ready('owned', 'free');
    await other([
      "update gateway_backend set routing_group = 'etl', active = false where name = 'owned'",
      "update gateway_backend set routing_group = 'etl' where name = 'free'",
    ]);
    await until(async () => expect(await rows(operator)).toEqual(['free etl true', 'owned adhoc false']));
    const message =
      'another gateway wrote into gateway_backend routingGroup "etl" (the resource: "adhoc"); put back: spec.routingGroup is owned by argocd; change it there, or take it over with ?force=true';
    await until(async () => expect(await drift('owned')).toMatchObject({ status: 'True', message }));
    expect((await drift('owned'))?.reason).toBe('ForeignWriteRefused');
    const owned = await read('owned');
    expect(owned.spec.routingGroup).toBe('adhoc');
    expect(JSON.parse(owned.metadata.annotations?.['enginegateway.dev/active'] ?? '{}')).toMatchObject({
      active: false,
      by: 'another gateway (gateway_backend)',
    });
    expect((await read('free')).spec.routingGroup).toBe('etl');
    expect(operator.table.current.clusters.get('owned')).toMatchObject({ active: false, routingGroup: 'adhoc' });
    await until(async () =>
      expect((await events()).toSorted((a, b) => (a.note < b.note ? -1 : 1))).toEqual([
        {
          cluster: 'owned',
          reason: 'ForeignWriteAdopted',
          type: 'Normal',
          note: 'another gateway wrote into gateway_backend active false (the resource: true); taken over into the resource',
        },
        { cluster: 'owned', reason: 'ForeignWriteRefused', type: 'Warning', note: message },
        {
          cluster: 'free',
          reason: 'ForeignWriteAdopted',
          type: 'Normal',
          note: 'another gateway wrote into gateway_backend routingGroup "etl" (the resource: "adhoc"); taken over into the resource',
        },
      ]),
    );
    const counted = await metrics.getSingleMetricAsString('engine_gateway_foreign_writes_total');
    expect(counted).toContain('{outcome="adopted"} 2');
    expect(counted).toContain('{outcome="refused"} 1');
    expect(lines.filter(({ level }) => level === 40)).toContainEqual(
      expect.objectContaining({ cluster: 'owned', outcome: 'refused', msg: expect.stringContaining('put back') }),
    );
    // The manager changes the field: the condition has done its work.
    await rig.apply('argocd', clusterManifest('owned', { routingGroup: 'etl' }));
    await until(async () => {
      expect(await drift('owned')).toBeUndefined();
      expect(await rows(operator)).toEqual(['free etl true', 'owned etl false']);
    });
  });

  test('what was written while no gateway ran: taken over, or refused where a manager owns it; so are deletions', async () => {
    const first = await start();
    await rig.apply('argocd', clusterManifest('owned'), clusterManifest('kept'));
    for (const name of ['free', 'gone']) {
      const proxyTo = `http://${name}:1`;
      await first.registry.add({ name, proxyTo, active: true, routingGroup: 'adhoc', externalUrl: proxyTo }, by);
    }
    await ready('owned', 'kept', 'free', 'gone');
    await first.stop();
    await other([
      "update gateway_backend set routing_group = 'etl' where name in ('owned', 'free')",
      "delete from gateway_backend where name = 'kept'",
      "delete from gateway_backend where name = 'gone'",
    ]);
    const operator = await start();
    await until(async () => {
      expect(await rows(operator)).toEqual(['free etl true', 'kept adhoc true', 'owned adhoc true']);
      expect(await drift('owned')).toMatchObject({ reason: 'ForeignWriteRefused' });
      expect((await drift('kept'))?.message).toBe(
        'another gateway deleted the row of gateway_backend; put back: the resource is managed by argocd; delete it there',
      );
    });
    expect((await read('free')).spec.routingGroup).toBe('etl');
    const names = await rig.kubectl(['get', 'ec', '-o', 'name']);
    expect(names.trim().split('\n')).toEqual(
      ['free', 'kept', 'owned'].map((name) => `enginecluster.enginegateway.dev/${name}`),
    );
    await operator.stop();
    // The next leader has the condition from the status.
    const next = await start();
    await until(async () => expect(next.leadership.fence).not.toBeNull());
    await next.controller.projectNow({ kind: 'EngineCluster', namespace: rig.namespace, name: 'kept' }, 5_000);
    next.controller.reportForwardedHeaders('kept', { ok: true, message: 'links have the address of the gateway' });
    await until(async () =>
      expect((await read('kept')).status?.conditions).toContainEqual(
        expect.objectContaining({ type: 'ForwardedHeaders', status: 'True' }),
      ),
    );
    expect(await drift('kept')).toMatchObject({ status: 'True' });
  });
});
