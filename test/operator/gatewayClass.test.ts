import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { clusterManifest, type KubeOperator, type KubeRig, kubeRig, ruleManifest } from '../support/kubeRig.ts';
import { allResources } from '../support/kubernetesOperator.ts';
import { manifest } from '../support/manifest.ts';

const by = { by: 'alice', force: false };
const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 50 });
const routed = ({ table }: KubeOperator): readonly string[] => [...table.current.clusters.keys()].sort();

describe.skipIf(!controlPlaneAvailable)('several gateways', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  beforeAll(async () => {
    plane = await sharedControlPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane);
  });
  afterEach(() => rig?.stop());

  /** A gateway with a database of its own, in the rig's namespace unless it says otherwise. */
  const gateway = (
    name: string,
    resources: object = {},
    kubeconfig = rig.kubeconfig,
    instance = name,
  ): Promise<KubeOperator> =>
    rig.startOperator({
      jdbcUrl: rig.jdbcUrl.replace('gateway.db', `${name}.db`),
      instance,
      resources: {
        source: 'kubernetes',
        directory: null,
        namespace: null,
        ...allResources,
        kubeconfig,
        writeNamespace: null,
        unmanagedRows: 'serve',
        ...resources,
      },
    });
  const holder = (lease: string): Promise<string> =>
    rig.kubectl(['get', 'lease', lease, '-o', 'jsonpath={.spec.holderIdentity}']);
  const stored = async ({ store }: KubeOperator) => ({
    resources: (await store.resources.all()).map(({ name }) => name).sort(),
    rows: (await store.backends.all()).map(({ name }) => name).sort(),
  });
  const acceptance = (name: string, kind = 'ec'): Promise<string> =>
    rig.kubectl(['get', kind, name, '-o', 'jsonpath={.status.conditions[?(@.type=="Accepted")].reason}']);

  test('of two classes in one namespace, each with the rights of its overlay, each has its own resources', async () => {
    const account = await rig.installAccount('overlays/class', 'engine-gateway-blue');
    const plain = await gateway('plain');
    const blue = await gateway('blue', { class: 'blue' }, account);
    await until(async () => {
      expect(await holder('engine-gateway')).toBe('plain');
      expect(await holder('engine-gateway-blue')).toBe('blue');
    });
    const gatewayClassName = 'blue';
    await rig.apply(
      'kubectl',
      clusterManifest('a'),
      clusterManifest('b', { gatewayClassName }),
      clusterManifest('nobody', { gatewayClassName: 'green' }),
      ruleManifest('r', { gatewayClassName }),
    );
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', 'ec/b', 'rr/r', '--timeout=60s']);
    expect(routed(plain)).toEqual(['a']);
    expect(routed(blue)).toEqual(['b']);
    expect(await stored(plain)).toEqual({ resources: ['a'], rows: ['a'] });
    expect(await stored(blue)).toEqual({ resources: ['b', 'r'], rows: ['b'] });
    expect(await rig.kubectl(['get', 'ec', 'nobody', '-o', 'jsonpath={.status}'])).toBe('');
    const lines = (await rig.kubectl(['get', 'ec', '-o', 'wide'])).split('\n');
    const column = lines[0]?.indexOf('CLASS');
    const listed = lines.map((line) => [line.split(' ')[0], line.slice(column).split(' ')[0]]);
    expect(listed.slice(0, 4)).toEqual([
      ['NAME', 'CLASS'],
      ['a', ''],
      ['b', 'blue'],
      ['nobody', 'green'],
    ]);
    const selected = ['get', 'ec', '--field-selector', 'spec.gatewayClassName=blue', '-o', 'name'];
    expect(await rig.kubectl(selected)).toBe('enginecluster.enginegateway.dev/b\n');

    // REST of each: the class is set, and the other's resource is not there.
    const sent = { proxyTo: 'http://x:1', externalUrl: 'http://x:1', active: true, routingGroup: 'etl' };
    await blue.registry.add({ ...sent, name: 'c' }, by);
    expect(await rig.kubectl(['get', 'ec', 'c', '-o', 'jsonpath={.spec.gatewayClassName}'])).toBe('blue');
    await expect(plain.registry.setActive('c', false, by)).rejects.toMatchObject({ code: 'EG_NOT_FOUND' });
    expect((await plain.registry.add({ ...sent, name: 'c' }, by)).resource?.name).toMatch(/^c-[0-9a-f]{8}$/);
    await until(() =>
      expect([routed(plain), routed(blue)]).toEqual([
        ['a', 'c'],
        ['b', 'c'],
      ]),
    );
  });

  test('a resource that is given to another class moves with status and rows, and so does most of a kind', async () => {
    const account = await rig.installAccount('overlays/class', 'engine-gateway-blue');
    const plain = await gateway('plain');
    const blue = await gateway('blue', { class: 'blue' }, account);
    const names = ['a', 'b', 'c', 'd', 'e'];
    await rig.apply('kubectl', ...names.map((name) => clusterManifest(name)));
    await rig.kubectl(['wait', '--for=condition=Ready', ...names.map((name) => `ec/${name}`), '--timeout=60s']);
    await until(async () => expect((await stored(plain)).rows).toEqual(names));
    const give = async (name: string, className: string | null): Promise<void> => {
      const patch = JSON.stringify({ spec: { gatewayClassName: className } });
      await rig.kubectl(['patch', 'ec', name, '--type=merge', '-p', patch]);
    };
    const observed = (name: string): Promise<string> =>
      rig.kubectl(['get', 'ec', name, '-o', 'jsonpath={.status.observedGeneration}']);
    await give('a', 'blue');
    await until(async () => {
      expect([routed(plain), routed(blue)]).toEqual([['b', 'c', 'd', 'e'], ['a']]);
      expect(await stored(plain)).toEqual({ resources: ['b', 'c', 'd', 'e'], rows: ['b', 'c', 'd', 'e'] });
      expect(await stored(blue)).toEqual({ resources: ['a'], rows: ['a'] });
      // Written by its new gateway.
      expect(await observed('a')).toBe('2');
    });
    await give('a', null);
    await until(async () => {
      expect([routed(plain), routed(blue)]).toEqual([names, []]);
      expect(await stored(plain)).toEqual({ resources: names, rows: names });
      expect(await stored(blue)).toEqual({ resources: [], rows: [] });
      expect(await observed('a')).toBe('3');
    });
    for (const name of names) await give(name, 'blue');
    await until(async () => {
      expect([routed(plain), routed(blue)]).toEqual([[], names]);
      expect(await stored(plain)).toEqual({ resources: [], rows: [] });
    });
    expect(plain.controller.heldDeletions).toEqual([]);
    await until(async () => {
      for (const name of names) expect(await acceptance(name)).toBe('Accepted');
    });
  });

  test('of two gateways of one class, each with its database and Lease, one writes statuses until it stops', async () => {
    await rig.kubectl([
      'patch',
      'role',
      'engine-gateway',
      '--type=json',
      '-p',
      JSON.stringify([{ op: 'replace', path: '/rules/1/resourceNames', value: ['engine-gateway', 'one', 'two'] }]),
    ]);
    const one = await gateway('one', { leaseName: 'one' });
    await until(async () => expect(await holder('engine-gateway')).toBe('one'));
    const two = await gateway('two', { leaseName: 'two' });
    await until(async () => {
      expect(await holder('one')).toBe('one');
      expect(await holder('two')).toBe('two');
    });
    await rig.apply('kubectl', clusterManifest('a'));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', '--timeout=60s']);
    // Each has its rows, as each leads its own replicas.
    await until(async () => {
      expect((await stored(one)).rows).toEqual(['a']);
      expect((await stored(two)).rows).toEqual(['a']);
    });
    expect(await holder('engine-gateway')).toBe('one');
    const version = (): Promise<string> =>
      rig.kubectl(['get', 'ec', 'a', '-o', 'jsonpath={.metadata.resourceVersion}']);
    const before = await version();
    two.controller.reportForwardedHeaders('a', { ok: false, message: 'seen by two' });
    const message = (): Promise<string> =>
      rig.kubectl(['get', 'ec', 'a', '-o', 'jsonpath={.status.conditions[?(@.type=="ForwardedHeaders")].message}']);
    one.controller.reportForwardedHeaders('a', { ok: false, message: 'seen by one' });
    await until(async () => expect(await message()).toBe('seen by one'));
    expect(await version()).not.toBe(before);
    await one.stop();
    await until(async () => {
      expect(await holder('engine-gateway')).toBe('two');
      expect(await message()).toBe('seen by two');
    });
  });

  test('of two replicas of one class, one leads', async () => {
    const account = await rig.installAccount('overlays/class', 'engine-gateway-blue');
    const first = await gateway('shared', { class: 'blue' }, account, 'first');
    const second = await gateway('shared', { class: 'blue' }, account, 'second');
    await until(() => expect(first.leadership.isLeader).toBe(true));
    expect(second.leadership.isLeader).toBe(false);
    await first.stop();
    await until(() => expect(second.leadership.isLeader).toBe(true));
  });

  test('labels select, and what is created by REST has them', async () => {
    const etl = await gateway('etl', { labelSelector: 'team=etl' });
    const labelled = (name: string, team: string): object => ({
      ...clusterManifest(name),
      metadata: { name, labels: { team } },
    });
    await rig.apply('kubectl', labelled('a', 'etl'), labelled('b', 'bi'), clusterManifest('c'));
    await until(() => expect(routed(etl)).toEqual(['a']));
    await rig.kubectl(['label', 'ec', 'b', 'team=etl', '--overwrite']);
    await rig.kubectl(['label', 'ec', 'a', 'team-']);
    await until(async () => {
      expect(routed(etl)).toEqual(['b']);
      expect(await stored(etl)).toEqual({ resources: ['b'], rows: ['b'] });
    });
    await rig.kubectl(['label', 'ec', 'a', 'team=etl']);
    await until(async () => {
      expect(routed(etl)).toEqual(['a', 'b']);
      expect((await stored(etl)).rows).toEqual(['a', 'b']);
    });
    const sent = { proxyTo: 'http://x:1', externalUrl: 'http://x:1', active: true, routingGroup: 'etl' };
    await etl.registry.add({ ...sent, name: 'd' }, by);
    expect(await rig.kubectl(['get', 'ec', 'd', '-o', 'jsonpath={.metadata.labels.team}'])).toBe('etl');
  });

  test('a list of namespaces needs rights in these alone', async () => {
    const [north, south] = [`north-${rig.namespace}`, `south-${rig.namespace}`];
    const subject = { kind: 'ServiceAccount', name: 'engine-gateway', namespace: rig.namespace };
    for (const namespace of [north, south]) {
      await rig.kubectl(['create', 'namespace', namespace]);
      const role = JSON.parse(await rig.kubectl(['get', 'role', 'engine-gateway', '-o', 'json'])) as { rules: object };
      const metadata = { name: 'engine-gateway', namespace };
      const rights = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata };
      await rig.kubectl(['-n', namespace, 'apply', '-f', '-'], { ...rights, kind: 'Role', rules: role.rules });
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'engine-gateway' };
      await rig.kubectl(['-n', namespace, 'apply', '-f', '-'], {
        ...rights,
        kind: 'RoleBinding',
        roleRef,
        subjects: [subject],
      });
    }
    const operator = await gateway('list', { namespaces: [rig.namespace, north] });
    const applyIn = (namespace: string, document: object): Promise<string> =>
      rig.kubectl(['-n', namespace, 'apply', '--server-side', '-f', '-'], document);
    const role = `tenants-${rig.namespace}`;
    const account = `--serviceaccount=${rig.namespace}:engine-gateway`;
    await rig.kubectl(['create', 'clusterrole', role, '--verb=get,list,watch', '--resource=enginetenants']);
    await rig.kubectl(['create', 'clusterrolebinding', role, `--clusterrole=${role}`, account]);
    const every = [{ type: 'RegularExpression', value: '.*' }];
    const tenant = { namespaces: { names: [north] }, names: every, routingGroups: every };
    await rig.kubectl(['apply', '--server-side', '-f', '-'], manifest('EngineTenant', north, tenant));
    await applyIn(rig.namespace, clusterManifest('own'));
    await applyIn(north, clusterManifest('a'));
    await applyIn(south, clusterManifest('b'));
    await until(() => expect(routed(operator)).toEqual(['a', 'own']));
    await rig.kubectl(['-n', north, 'wait', '--for=condition=Ready', 'ec/a', '--timeout=60s']);
    expect(operator.source.writeNamespace).toBe(rig.namespace);
    await operator.registry.setActive('a', false, by);
    await rig.kubectl(['-n', north, 'wait', '--for=condition=Active=False', 'ec/a', '--timeout=60s']);
    await rig.kubectl(['-n', north, 'delete', 'ec', 'a']);
    await until(() => expect(routed(operator)).toEqual(['own']));
    await applyIn(north, clusterManifest('late'));
    await until(() => expect(routed(operator)).toEqual(['late', 'own']));
  });
});
