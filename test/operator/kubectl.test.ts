import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { neverChecked } from '../../src/routing/routingTable.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import {
  clusterManifest,
  groupManifest,
  type KubeOperator,
  type KubeRig,
  kubeRig,
  limitManifest,
  ruleManifest,
} from '../support/kubeRig.ts';

const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 40_000, interval: 100 });

describe.skipIf(!controlPlaneAvailable)('what kubectl shows', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let operator: KubeOperator;
  beforeAll(async () => {
    plane = await sharedControlPlane();
    rig = await kubeRig(plane);
    operator = await rig.startOperator();
    const bare = { proxyTo: undefined };
    await rig.apply(
      'kubectl',
      clusterManifest('etl-1', { routingGroup: 'etl', externalUrl: 'https://etl.example', weight: 50 }),
      clusterManifest('etl-2', { routingGroup: 'etl' }),
      clusterManifest('adhoc-1', { active: false }),
      clusterManifest('by-service', { ...bare, serviceRef: { name: 'engine', port: 8080 } }),
      clusterManifest('elsewhere', { ...bare, serviceRef: { name: 'engine', namespace: 'other', port: 8080 } }),
      ruleManifest('airflow', { description: 'Pipelines', priority: 10, routeTo: { routingGroup: 'etl' } }),
      ruleManifest('nowhere', { priority: 20, routeTo: { routingGroup: 'none' } }),
      ruleManifest('broken', { priority: 30, routeTo: undefined, actions: ['result.put("routingGroup", '] }),
      ruleManifest('stopped', { priority: 40, routeTo: undefined, deny: { message: 'Not now.' } }),
      ruleManifest('resting', { priority: 50, suspend: true, routeTo: { cluster: 'etl-1' } }),
    );
    await rig.apply(
      'kubectl',
      groupManifest('etl', { maxRunningQueries: 200, fallbacks: ['adhoc', 'none'], queue: { maxQueuedQueries: 100 } }),
      groupManifest('unused', { bestEffort: true }),
      groupManifest('served', { name: 'adhoc', fallbacks: ['etl'] }),
      groupManifest('idle', { fallbacks: ['adhoc'] }),
      limitManifest('per-user', {
        match: { users: [{ type: 'RegularExpression', value: 'etl-.*' }], routingGroups: [{ value: 'adhoc' }] },
      }),
      limitManifest('trial', { per: 'All', rate: { queries: 120 }, maxRunningQueries: undefined, mode: 'Observe' }),
      limitManifest('broken', { match: { users: [{ type: 'RegularExpression', value: '(' }] } }),
    );
    // Claims a name that is taken: the younger one has to wait.
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/etl-1', 'ec/etl-2', 'ec/adhoc-1', '--timeout=40s']);
    await rig.apply('kubectl', clusterManifest('twin', { name: 'etl-1' }));
    operator.table.setHealth('etl-1', 'http://etl-1:8080', { ...neverChecked, status: 'HEALTHY', reason: '' });
    operator.table.setHealth('adhoc-1', 'http://adhoc-1:8080', {
      ...neverChecked,
      status: 'UNHEALTHY',
      reason: 'GET /v1/info: connection refused',
    });
    await operator.registry.setActive('etl-2', false, { by: 'alice', force: false });
    await rig.kubectl(['wait', '--for=condition=Healthy', 'ec/etl-1', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Healthy=False', 'ec/adhoc-1', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Active=False', 'ec/etl-2', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Stalled', 'ec/elsewhere', 'rr/broken', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Accepted=False', 'ec/twin', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Accepted=Unknown', 'ec/by-service', '--timeout=40s']);
    await until(async () =>
      expect(await rig.kubectl(['get', 'ec/by-service', '-o', 'yaml'])).toContain('ServiceNotFound'),
    );
    await rig.kubectl(['wait', '--for=condition=Ready', 'rtg/served', 'ql/per-user', 'ql/trial', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Ready=False', 'rtg/etl', 'rtg/unused', 'rtg/idle', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Stalled', 'ql/broken', '--timeout=40s']);
    await until(async () => expect(await rig.kubectl(['get', 'rr', '-o', 'yaml'])).not.toContain('Pending'));
  }, 120_000);
  afterAll(async () => {
    await rig?.stop();
    await plane?.stop();
  });

  /** Without what differs from run to run: ages, times, ids, versions, the namespace, tenants of other suites. */
  const masked = (output: string): string =>
    output
      .replaceAll(/^NAME +READY +NAMESPACES .*\n(?:.+\n)*\n/gm, '')
      .replaceAll(rig.namespace, '<namespace>')
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>')
      .replaceAll(/(UID: +).*/g, '$1<uid>')
      .replaceAll(/(Resource Version: +).*/g, '$1<version>')
      .replaceAll(/ \d+[smh]\w*$/gm, ' <age>');

  test.each<readonly [string, string]>([
    ['get-all', 'get ec,rr'],
    ['get-wide', 'get ec,rr -o wide'],
    ['get-category', 'get enginegateway'],
    ['get-limits', 'get rtg,ql'],
    ['get-limits-wide', 'get rtg,ql -o wide'],
    ['get-limits-by-field', 'get ql --field-selector=spec.mode=Observe'],
    ['get-by-field', 'get ec --field-selector=spec.routingGroup=etl,spec.active=true'],
    ['get-rules-by-field', 'get rr --field-selector=spec.suspend=true'],
    ['wait-ready', 'wait --for=condition=Ready --timeout=60s ec/etl-1 ec/etl-2 ec/adhoc-1 rr/airflow rr/resting'],
    ['wait-not-ready', 'wait --for=condition=Ready=False --timeout=60s ec/elsewhere ec/twin rr/broken rr/nowhere'],
    ['explain-cluster', 'explain ec.spec'],
    ['explain-rule', 'explain rr.spec'],
    ['explain-group', 'explain rtg.spec'],
    ['explain-queue', 'explain rtg.spec.queue'],
    ['explain-discovery', 'explain ecd.spec'],
    ['explain-resource-groups', 'explain rgc.spec'],
    ['explain-limit', 'explain ql.spec'],
    ['explain-tenant', 'explain et.spec'],
  ])('%s: kubectl %s', async (name, command) => {
    const run = () => rig.kubectl(command.split(' '));
    // The OpenAPI document follows the CRDs a moment later.
    if (command.startsWith('explain')) await until(async () => expect(await run()).toContain('FIELDS'));
    await expect(masked(await run())).toMatchFileSnapshot(`golden/kubectl/${name}.txt`);
  });

  test.each([
    'ec/etl-1',
    'ec/etl-2',
    'ec/adhoc-1',
    'ec/elsewhere',
    'ec/twin',
    'rr/airflow',
    'rr/nowhere',
    'rr/broken',
    'rr/resting',
    'rtg/etl',
    'rtg/idle',
    'rtg/served',
    'ql/per-user',
    'ql/broken',
  ])('describe %s', async (name) => {
    const output = await rig.kubectl(['describe', name, '--show-events=false']);
    await expect(masked(output)).toMatchFileSnapshot(`golden/kubectl/describe-${name.replace('/', '-')}.txt`);
  });

  test.each(['ec/etl-1', 'ec/elsewhere', 'rr/broken'])('events of %s', async (name) => {
    const [kind = '', local = ''] = name.split('/');
    const options = [
      'get',
      'events.events.k8s.io',
      '-o',
      'jsonpath={range .items[*]}{.regarding.kind}/{.regarding.name} {.type} {.reason}: {.note}{"\\n"}{end}',
    ];
    const events = async (): Promise<string> =>
      (await rig.kubectl(options))
        .split('\n')
        .filter((line) => line.startsWith(`${kind === 'ec' ? 'EngineCluster' : 'RoutingRule'}/${local} `))
        .sort()
        .join('\n');
    const expected = name === 'ec/etl-1' ? 'Healthy' : 'Accepted';
    await until(async () => expect(await events()).toContain(expected));
    await expect(masked(`${await events()}\n`)).toMatchFileSnapshot(`golden/kubectl/events-${kind}-${local}.txt`);
  });
});
