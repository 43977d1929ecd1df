import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { defaultDeletionGuard } from '../support/defaults.ts';
import { startGateway } from '../support/gatewayProcess.ts';
import { clusterManifest, type KubeOperator, type KubeRig, kubeRig } from '../support/kubeRig.ts';
import { allResources } from '../support/kubernetesOperator.ts';
import { manifest } from '../support/manifest.ts';
import { runQuery } from '../support/statementClient.ts';

const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 50 });

interface ServiceOptions {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: object;
}
const service = (name: string, { labels = {}, annotations = {}, spec = {} }: ServiceOptions = {}): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, labels: { engine: 'trino', ...labels }, annotations },
  spec: { ports: [{ name: 'http', port: 8080 }], ...spec },
});
const discovery = (name: string, spec: object = {}): object =>
  manifest('EngineClusterDiscovery', name, {
    selector: { matchLabels: { engine: 'trino' } },
    template: { name: '{service}', routingGroup: 'adhoc' },
    ...spec,
  });

/** A Service as the official Trino chart makes it for a release (trinodb/charts: service-coordinator.yaml, service-worker.yaml). */
const ofChart = (release: string, component: 'coordinator' | 'worker', labels: object = {}, ports: object[] = []) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: component === 'worker' ? `${release}-trino-worker` : `${release}-trino`,
    labels: {
      'helm.sh/chart': 'trino-1.42.0',
      'app.kubernetes.io/name': 'trino',
      'app.kubernetes.io/instance': release,
      'app.kubernetes.io/version': '480',
      'app.kubernetes.io/managed-by': 'Helm',
      ...labels,
      'app.kubernetes.io/component': component,
    },
  },
  spec: {
    ...(component === 'worker' ? { clusterIP: 'None' } : {}),
    ports: [{ name: 'http', port: 8080, targetPort: 'http', protocol: 'TCP' }, ...ports],
  },
});
/**
 * A Service of the Stackable operator for Trino, or of its operator for Listeners (stackabletech/trino-operator: service.rs,
 * listener.rs; stackabletech/listener-operator: listener_controller.rs).
 */
const ofStackable = (name: string, port: object, labels: object) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name,
    labels: {
      'app.kubernetes.io/name': 'trino',
      'app.kubernetes.io/instance': name.split('-')[0],
      'app.kubernetes.io/managed-by': 'trino.stackable.tech_trinocluster',
      'app.kubernetes.io/version': '480-stackable0.0.0-dev',
      'app.kubernetes.io/component': 'coordinator',
      'stackable.tech/vendor': 'Stackable',
      ...labels,
    },
  },
  spec: { clusterIP: 'None', ports: [{ protocol: 'TCP', ...port }] },
});
const roleGroup = (name: string) => ({ 'app.kubernetes.io/role-group': name });
const scraped = { 'prometheus.io/scrape': 'true' };

describe.skipIf(!controlPlaneAvailable)('clusters that are made of Services, on a real API server', () => {
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

  const routed = ({ table }: KubeOperator): Readonly<Record<string, string>> =>
    Object.fromEntries([...table.current.clusters.values()].map(({ name, proxyTo }) => [name, proxyTo]));
  const urlOf = (name: string, namespace = rig.namespace): string => `http://${name}.${namespace}.svc:8080`;
  const condition = async (type: string, name = 'engines'): Promise<string> => {
    const path = `jsonpath={.status.conditions[?(@.type=="${type}")]['status','reason','message']}`;
    return await rig.kubectl(['get', 'ecd', name, '-o', path]);
  };
  const remove = (...args: readonly string[]) => rig.kubectl(['delete', ...args]);

  test('they come, change and go with the Services', async () => {
    const operator = await rig.startOperator();
    await rig.apply('kubectl', service('a'), service('b', { spec: { ports: [{ name: 'https', port: 8443 }] } }));
    await rig.apply('kubectl', service('other', { labels: { engine: 'none' } }), discovery('engines'));
    await until(() => expect(routed(operator)).toEqual({ a: urlOf('a'), b: `https://b.${rig.namespace}.svc:8443` }));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ecd/engines', 'ec/a', 'ec/b', '--timeout=60s']);
    await until(async () => expect(await condition('Discovered')).toBe('True Discovered 2 Services, 2 clusters'));
    const a = JSON.parse(await rig.kubectl(['get', 'ec', 'a', '-o', 'json', '--show-managed-fields']));
    const { uid } = JSON.parse(await rig.kubectl(['get', 'ecd', 'engines', '-o', 'json'])).metadata;
    expect(a.metadata).toMatchObject({
      labels: { 'enginegateway.dev/discovery': 'engines' },
      annotations: { 'enginegateway.dev/service': `${rig.namespace}/a` },
      ownerReferences: [{ kind: 'EngineClusterDiscovery', name: 'engines', uid, controller: true }],
    });
    expect(a.metadata.managedFields).toContainEqual(
      expect.objectContaining({ manager: 'engine-gateway-discovery', operation: 'Apply' }),
    );
    // The Service says more, and its template as well; what the template says no more is gone.
    await rig.apply(
      'kubectl',
      service('a', { annotations: { 'enginegateway.dev/weight': '7' }, labels: { group: 'etl' } }),
    );
    const template = { name: '{service}', routingGroup: 'adhoc', routingGroupFrom: { label: 'group' } };
    await rig.apply(
      'kubectl',
      discovery('engines', { template: { ...template, healthCheck: { type: 'None', interval: '7s' } } }),
    );
    await until(() =>
      expect(operator.table.current.clusters.get('a')).toMatchObject({
        routingGroup: 'etl',
        weight: 7,
        healthCheck: { type: 'None', interval: '7s' },
      }),
    );
    expect(operator.table.current.clusters.get('b')).toMatchObject({ routingGroup: 'adhoc' });
    await rig.apply('kubectl', discovery('engines', { template: { ...template, healthCheck: { type: 'None' } } }));
    await until(() => expect(operator.table.current.clusters.get('a')?.healthCheck).toEqual({ type: 'None' }));
    // What somebody else writes into a cluster is put back, unless the discovery says nothing of it.
    await rig.kubectl([
      'patch',
      'ec',
      'a',
      '--type=merge',
      '-p',
      '{"spec":{"routingGroup":"theirs","maxRunningQueries":3}}',
    ]);
    await until(() =>
      expect(operator.table.current.clusters.get('a')).toMatchObject({ routingGroup: 'etl', maxRunningQueries: 3 }),
    );
    await remove('service', 'a');
    await until(() => expect(Object.keys(routed(operator))).toEqual(['b']));
    expect(await rig.kubectl(['get', 'ec', '-o', 'name'])).toBe('enginecluster.enginegateway.dev/b\n');
    await remove('ecd', 'engines');
    await remove('ec', 'b'); // As the garbage collector does by the owner reference; this control plane has none.
    await until(() => expect(routed(operator)).toEqual({}));
  });

  test('the samples make one cluster of each Trino of the chart and of Stackable, whatever Services it has', async () => {
    const operator = await rig.startOperator();
    for (const name of ['trino-chart', 'stackable']) {
      await rig.apply('kubectl', parse(await readFile(`manifests/samples/discovery/${name}.yaml`, 'utf8')));
    }
    const https = { name: 'https', port: 8443 };
    await rig.apply(
      'kubectl',
      ofChart('plain', 'coordinator'),
      ofChart('plain', 'worker'),
      ofChart('etl', 'coordinator', { 'routing-group': 'etl' }, [https, { name: 'jmx-exporter', port: 5556 }]),
      ofChart('etl', 'worker', { 'routing-group': 'etl' }, [{ name: 'jmx-exporter', port: 5556 }]),
      // As they are now: the Service of the Listener has the labels of its own operator on top.
      ofStackable('now-coordinator-default-headless', https, roleGroup('default')),
      ofStackable(
        'now-coordinator-default-metrics',
        { name: 'metrics', port: 8081 },
        { ...roleGroup('default'), ...scraped },
      ),
      ofStackable('now-coordinator', https, { 'app.kubernetes.io/name': 'listener-operator' }),
      ofStackable('now-worker-default-headless', https, {
        ...{ ...roleGroup('default'), 'app.kubernetes.io/component': 'worker' },
      }),
      // As they were: that Service has the labels of the Listener alone, with a role group or without one.
      ofStackable('before-coordinator-default-headless', { name: 'http', port: 8080 }, roleGroup('default')),
      ofStackable('before-coordinator', { name: 'http', port: 8080 }, roleGroup('none')),
      ofStackable('between-coordinator-default-headless', { name: 'http', port: 8080 }, roleGroup('default')),
      ofStackable('between-coordinator', { name: 'http', port: 8080 }, {}),
    );
    const url = (service: string) => `http://${service}.${rig.namespace}.svc:8080`;
    const named = (service: string) => `${rig.namespace}-${service}`;
    await until(() =>
      expect(routed(operator)).toEqual({
        [named('plain-trino')]: url('plain-trino'),
        [named('etl-trino')]: url('etl-trino'),
        [named('now-coordinator-default-headless')]:
          `https://now-coordinator-default-headless.${rig.namespace}.svc:8443`,
        [named('before-coordinator-default-headless')]: url('before-coordinator-default-headless'),
        [named('between-coordinator-default-headless')]: url('between-coordinator-default-headless'),
      }),
    );
    expect(operator.table.current.clusters.get(named('etl-trino'))).toMatchObject({ routingGroup: 'etl' });
    expect(operator.table.current.clusters.get(named('plain-trino'))).toMatchObject({ routingGroup: 'adhoc' });
    await until(async () =>
      expect([await condition('Discovered', 'trino-chart'), await condition('Discovered', 'stackable')]).toEqual([
        'True Discovered 2 Services, 2 clusters',
        'True Discovered 3 Services, 3 clusters',
      ]),
    );
  });

  test('what is not the discovery’s stays as it is, and what a Service must not do it does not', async () => {
    const operator = await rig.startOperator();
    await rig.apply('argocd', clusterManifest('taken'));
    await rig.apply(
      'argocd',
      clusterManifest('elsewhere', { name: 'Claimed' }),
      clusterManifest('renamed', { name: 'claimed' }),
    );
    await rig.apply('kubectl', service('taken'), service('claimed'), service('fine'));
    await rig.apply(
      'kubectl',
      service('out', { spec: { type: 'ExternalName', externalName: '169.254.169.254', ports: undefined } }),
      service('udp', { spec: { ports: [{ name: 'http', port: 8080, protocol: 'UDP' }] } }),
      service('heavy', { annotations: { 'enginegateway.dev/weight': '-1' } }),
    );
    const template = { name: '{service}', routingGroup: 'adhoc', routingGroupFrom: { label: 'group' } };
    await rig.apply('kubectl', discovery('engines', { template }));
    await until(() => expect(routed(operator).fine).toBe(urlOf('fine')));
    await until(async () =>
      expect(await condition('Discovered')).toBe(
        `False NameConflict 6 Services, 1 cluster; names that are not this discovery's: ${rig.namespace}/claimed: the name claimed is that of the EngineCluster ${rig.namespace}/renamed; ${rig.namespace}/taken: the name taken is that of the EngineCluster ${rig.namespace}/taken`,
      ),
    );
    // What somebody wrote is untouched, and the rest is reported, once the names are free.
    const taken = JSON.parse(await rig.kubectl(['get', 'ec', 'taken', '-o', 'json', '--show-managed-fields']));
    expect(taken.metadata.ownerReferences).toBeUndefined();
    expect(JSON.stringify(taken.metadata.managedFields)).not.toContain('discovery');
    const events = await rig.kubectl(['get', 'events', '-o', 'jsonpath={.items[*].reason}']);
    expect(events).toContain('DiscoveredNameConflict');
    await remove('ec', 'taken', 'renamed', 'elsewhere');
    await until(() => expect(Object.keys(routed(operator)).sort()).toEqual(['claimed', 'fine', 'taken']));
    await until(async () => {
      const refused = await condition('Discovered');
      for (const part of ['out: it stands for a name', 'udp: it has no TCP port', 'weight from 0 to 10000']) {
        expect(refused).toContain(part);
      }
    });
    expect(operator.table.current.clusters.get('taken')).toMatchObject({ proxyTo: urlOf('taken') });
    // It becomes a name outside of Kubernetes: gone at once.
    await rig.kubectl([
      'patch',
      'service',
      'fine',
      '--type=merge',
      '-p',
      '{"spec":{"type":"ExternalName","externalName":"evil.example","clusterIP":"","clusterIPs":null}}',
    ]);
    await until(() => expect(Object.keys(routed(operator)).sort()).toEqual(['claimed', 'taken']));
  });

  test('of a class and with labels: clusters have both, and are those of the gateway that has the discovery', async () => {
    const kubeconfig = await rig.installAccount('overlays/class', 'engine-gateway-blue');
    const blue = await rig.startOperator({
      jdbcUrl: rig.jdbcUrl.replace('gateway.db', 'blue.db'),
      resources: {
        ...{ source: 'kubernetes', directory: null, namespace: null, writeNamespace: null, unmanagedRows: 'serve' },
        ...{ ...allResources, kubeconfig, class: 'blue', labelSelector: 'team=etl' },
      },
    });
    const plain = await rig.startOperator();
    const labelled = (document: object, labels: object) => {
      const { metadata } = document as { readonly metadata: object };
      return { ...document, metadata: { ...metadata, labels } };
    };
    const gatewayClassName = 'blue';
    await rig.apply(
      'kubectl',
      service('a'),
      labelled(discovery('engines', { gatewayClassName }), { team: 'etl' }),
      // Of the class and without the labels: nobody's.
      discovery('nobody', { gatewayClassName, template: { name: 'nobody-{service}', routingGroup: 'adhoc' } }),
    );
    await until(() => expect(routed(blue)).toEqual({ a: urlOf('a') }));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ecd/engines', 'ec/a', '--timeout=60s']);
    const a = JSON.parse(await rig.kubectl(['get', 'ec', 'a', '-o', 'json']));
    expect(a.spec).toMatchObject({ gatewayClassName });
    expect(a.metadata.labels).toEqual({ team: 'etl', 'enginegateway.dev/discovery': 'engines' });
    // The other gateway takes neither the cluster nor its name.
    await rig.apply('kubectl', discovery('theirs'));
    await until(async () =>
      expect(await condition('Discovered', 'theirs')).toMatch(/^False NameConflict .*another gateway/),
    );
    await rig.apply('kubectl', discovery('theirs', { template: { name: '{service}-plain', routingGroup: 'adhoc' } }));
    await until(() => expect(routed(plain)).toEqual({ 'a-plain': urlOf('a') }));
    expect(routed(blue)).toEqual({ a: urlOf('a') });
    expect(await condition('Accepted', 'nobody')).toBe('');
    await remove('service', 'a');
    await until(() => expect([routed(blue), routed(plain)]).toEqual([{}, {}]));
    await until(async () => expect(await rig.kubectl(['get', 'ec', '-o', 'name'])).toBe(''));
  });

  test('Services of other namespaces are read where the configuration allows it', async () => {
    const other = `other-${rig.namespace}`;
    await rig.kubectl(['create', 'namespace', other]);
    const inOther = (document: object) => rig.kubectl(['-n', other, 'apply', '--server-side', '-f', '-'], document);
    await inOther(service('far'));
    const spec = { namespaces: { selector: {} }, template: { routingGroup: 'etl' } };
    let operator = await rig.startOperator();
    const restart = async (discoveryNamespaces: readonly string[]) => {
      await operator.stop();
      operator = await rig.startOperator({ discoveryNamespaces });
    };
    await rig.apply('kubectl', service('near'), discovery('engines', spec));
    const near = `${rig.namespace}-near`;
    const far = `${other}-far`;
    await until(() => expect(Object.keys(routed(operator))).toEqual([near]));
    // Named without leave: said, and nothing is read.
    await rig.apply('kubectl', discovery('engines', { ...spec, namespaces: { names: [rig.namespace, other] } }));
    await until(async () => expect(await condition('ResolvedRefs')).toContain('resources.discovery.namespaces'));
    // Allowed by the configuration, not by Kubernetes: what is known stays.
    await restart([other]);
    await until(async () => expect(await condition('ResolvedRefs')).toMatch(/False ServicesUnavailable .*403/));
    expect(Object.keys(routed(operator))).toEqual([near]);
    await rig.kubectl(['-n', other, 'create', 'role', 'services', '--verb=list,watch', '--resource=services']);
    const account = `--serviceaccount=${rig.namespace}:engine-gateway`;
    await rig.kubectl(['-n', other, 'create', 'rolebinding', 'services', '--role=services', account]);
    await until(() => expect(routed(operator)[far]).toBe(urlOf('far', other)));
    await rig.kubectl(['wait', '--for=condition=ResolvedRefs', 'ecd/engines', '--timeout=60s']);
    // By labels of namespaces, which the account has to be let read: until then its clusters stay.
    const labelled = { ...spec, namespaces: { selector: { matchLabels: { team: 'far' } } } };
    await rig.apply('kubectl', discovery('engines', labelled));
    await until(async () => expect(await condition('ResolvedRefs')).toMatch(/False NamespacesUnavailable .*403/));
    expect(Object.keys(routed(operator)).sort()).toEqual([near, far].sort());
    const role = `${rig.namespace}-namespaces`;
    await rig.kubectl(['create', 'clusterrole', role, '--verb=list,watch', '--resource=namespaces']);
    await rig.kubectl(['create', 'clusterrolebinding', role, `--clusterrole=${role}`, account]);
    await until(() => expect(routed(operator)).toEqual({}));
    await rig.kubectl(['label', 'namespace', other, 'team=far']);
    await until(() => expect(Object.keys(routed(operator))).toEqual([far]));
    await rig.apply('kubectl', discovery('engines', spec));
    await until(() => expect(Object.keys(routed(operator)).sort()).toEqual([near, far].sort()));
    // Taken back: gone at once.
    await restart([]);
    await until(() => expect(Object.keys(routed(operator))).toEqual([near]));
  });

  test('most Services lost at once: the clusters stay until it is confirmed, also for who leads next', async () => {
    const options = { deletionGuard: { ...defaultDeletionGuard, minimum: 4 } };
    const first = await rig.startOperator(options);
    const second = await rig.startOperator(options);
    const names = ['a', 'b', 'c', 'd', 'e'];
    await rig.apply('kubectl', ...names.map((name) => service(name)), discovery('engines'));
    for (const operator of [first, second]) await until(() => expect(Object.keys(routed(operator))).toHaveLength(5));
    await until(async () => expect(await condition('Discovered')).toBe('True Discovered 5 Services, 5 clusters'));
    await remove('service', 'a', 'b', 'c', 'd');
    await until(async () =>
      expect(await condition('Discovered')).toMatch(/^False DeletionsHeld .*heldDeletions.confirm/),
    );
    const [leader, follower] = first.leadership.isLeader ? [first, second] : [second, first];
    await until(() => expect(follower.controller.heldDeletions).toMatchObject([{ kind: 'Service', held: 4, left: 1 }]));
    await leader.stop();
    await until(() => expect(follower.leadership.isLeader).toBe(true));
    await rig.apply('kubectl', service('new'));
    await until(() => expect(Object.keys(routed(follower)).sort()).toEqual([...names, 'new']));
    expect((await rig.kubectl(['get', 'ec', '-o', 'name'])).trim().split('\n')).toHaveLength(6);
    // A process that has seen none of it knows the Services by their clusters.
    const third = await rig.startOperator(options);
    await until(() => expect(third.controller.heldDeletions).toMatchObject([{ kind: 'Service', held: 4 }]));
    await third.controller.confirmDeletions();
    for (const operator of [follower, third]) {
      await until(() => expect(Object.keys(routed(operator)).sort()).toEqual(['e', 'new']));
      expect(operator.controller.heldDeletions).toEqual([]);
    }
    await until(async () => expect(await condition('Discovered')).toBe('True Discovered 2 Services, 2 clusters'));
  });

  test('a query goes to a discovered cluster; REST may switch it, and change or delete it only with its discovery', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'eg-discovery-'));
    const engine = await startSimulatedEngine({ name: 'a', port: 0, record: true });
    const gateway = await startGateway(
      {
        resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
        dataStore: { jdbcUrl: rig.jdbcUrl },
        queryHistory: { spillDirectory: folder },
        monitor: { taskDelay: '500ms' },
      },
      { NODE_OPTIONS: `--import=${resolve('test/support/serviceNames.ts')}` },
    );
    try {
      const port = Number(new URL(engine.url).port);
      await rig.apply('kubectl', service('a', { spec: { ports: [{ name: 'http', port }] } }), discovery('engines'));
      await rig.kubectl(['wait', '--for=create', 'ec/a', '--timeout=60s']);
      await rig.kubectl(['wait', '--for=condition=Healthy', 'ec/a', '--timeout=60s']);
      const outcome = await runQuery(gateway.url, 'SELECT 1');
      expect(outcome.error).toBeUndefined();
      expect(engine.requests.some(({ url }) => url.startsWith('/v1/statement'))).toBe(true);
      const call = async (method: string, path: string, body?: unknown) => {
        const response = await fetch(`${gateway.url}${path}`, {
          method,
          ...(body === undefined
            ? {}
            : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
        });
        return { status: response.status, text: await response.text() };
      };
      const url = `http://a.${rig.namespace}.svc:${port}`;
      const listed = { name: 'a', proxyTo: url, externalUrl: url, active: true, routingGroup: 'adhoc' };
      const update = (more: object, query = '') =>
        call('POST', `/gateway/backend/modify/update${query}`, { ...listed, ...more });
      expect((await update({})).status).toBe(200);
      for (const refused of [
        await update({ routingGroup: 'etl' }),
        await update({ routingGroup: 'etl' }, '?force=true'),
        await update({ active: false }),
        await call('POST', '/gateway/backend/modify/delete', { name: 'a' }),
      ]) {
        expect(refused.status).toBe(409);
        expect(refused.text).toMatch(/EngineClusterDiscovery gw-[^ ]+\/engines of the Service gw-[^ ]+\/a/);
      }
      expect((await call('POST', '/gateway/backend/deactivate/a')).status).toBe(200);
      const state = JSON.parse((await call('GET', '/api/clusters')).text);
      expect(state).toMatchObject([
        { name: 'a', active: false, discovery: { name: 'engines', service: `${rig.namespace}/a` } },
      ]);
      // A change of the Service leaves the switch as it is.
      await rig.apply(
        'kubectl',
        service('a', { spec: { ports: [{ name: 'http', port }] }, annotations: { 'enginegateway.dev/weight': '9' } }),
      );
      await until(async () =>
        expect(await rig.kubectl(['get', 'ec', 'a', '-o', 'jsonpath={.spec.weight} {.status.active}'])).toBe('9 false'),
      );
      expect((await call('POST', '/gateway/backend/activate/a')).status).toBe(200);
    } finally {
      await gateway.stop('SIGKILL');
      await engine.close();
      await rm(folder, { recursive: true, force: true });
    }
  });
});
