import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { localCertificate } from '../support/certificates.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { freePort } from '../support/freePort.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { clusterManifest, groupManifest, type KubeRig, kubeRig, ruleManifest, startPlane } from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';

const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 100 });

describe.skipIf(!controlPlaneAvailable)('the admission webhook on a real API server', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let folder: string;
  let port: number;
  /** Of the ValidatingWebhookConfiguration and the Secret. */
  let name: string;
  let gateway: GatewayProcess | undefined;
  beforeAll(async () => {
    plane = await startPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane, { allNamespaces: true });
    folder = await mkdtemp(join(tmpdir(), 'eg-webhook-'));
    port = await freePort();
    name = `webhook-${rig.namespace}`;
    await rig.apply('installer', ...installation());
  });
  afterEach(async () => {
    await gateway?.stop('SIGKILL');
    gateway = undefined;
    await rig?.kubectl(['delete', 'validatingwebhookconfiguration', name]);
    // The next gateway sees every namespace there is.
    await rig?.kubectl(['delete', 'ec,rr,rtg', '--all']);
    await rig?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** The objects of manifests/components/webhook for a gateway outside of the cluster. */
  function installation(): readonly object[] {
    const rights = (kind: string, apiGroup: string, resource: string) => [
      {
        ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind, metadata: { name } },
        rules: [{ apiGroups: [apiGroup], resources: [resource], resourceNames: [name], verbs: ['get', 'patch'] }],
      },
      {
        ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: `${kind}Binding`, metadata: { name } },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name },
        subjects: [{ kind: 'ServiceAccount', name: 'engine-gateway', namespace: rig.namespace }],
      },
    ];
    const webhook = {
      ...{ name: 'resources.enginegateway.dev', admissionReviewVersions: ['v1'], sideEffects: 'None' },
      ...{ failurePolicy: 'Ignore', timeoutSeconds: 2, clientConfig: { url: `https://localhost:${port}/` } },
      rules: [
        {
          ...{ apiGroups: ['enginegateway.dev'], apiVersions: ['v1beta1'] },
          ...{ operations: ['CREATE', 'UPDATE'], resources: ['*'] },
        },
      ],
    };
    return [
      { apiVersion: 'v1', kind: 'Secret', metadata: { name }, type: 'Opaque' },
      ...rights('Role', '', 'secrets'),
      ...rights('ClusterRole', 'admissionregistration.k8s.io', 'validatingwebhookconfigurations'),
      {
        apiVersion: 'admissionregistration.k8s.io/v1',
        ...{ kind: 'ValidatingWebhookConfiguration', metadata: { name }, webhooks: [webhook] },
      },
    ];
  }

  const start = async (): Promise<void> => {
    gateway = await startGateway({
      resources: {
        ...{ source: 'kubernetes', kubeconfig: rig.kubeconfig, namespace: '*', writeNamespace: rig.namespace },
        webhook: { enabled: true, port, name },
      },
      dataStore: { jdbcUrl: rig.jdbcUrl },
      queryHistory: { spillDirectory: folder },
      requestAnalyzerConfig: { analyzeRequest: false },
    });
  };
  const apply = (document: object): Promise<string> =>
    rig.kubectl(['apply', '-f', '-'], document).catch((error: { stderr: string }) => error.stderr);
  const caBundle = (): Promise<string> =>
    rig.kubectl([
      ...['get', 'validatingwebhookconfiguration', name],
      ...['-o', 'jsonpath={.webhooks[0].clientConfig.caBundle}'],
    ]);
  const broken = ruleManifest('broken', { condition: 'request.getHeader(' });
  /** A mistake that is never stored. */
  const probe = ruleManifest('probe', { condition: 'request.getHeader(' });
  /** Applies a mistake until the API server calls the webhook: it reads configurations with a delay. */
  const untilReviewed = () =>
    until(async () => {
      expect(await caBundle()).not.toBe('');
      expect(await rig.kubectl(['apply', '--dry-run=server', '-f', '-'], probe).catch(String)).toContain('denied');
    });
  const acceptance = (resource: string): Promise<string> =>
    rig.kubectl(['get', resource, '-o', 'jsonpath={.status.conditions[?(@.type=="Accepted")].message}']);

  test('names that are taken and rules that do not compile are rejected; the status has the same while no gateway runs', async () => {
    await start();
    await untilReviewed();
    expect(await apply(clusterManifest('etl'))).toContain('created');
    await until(async () => expect(await acceptance('ec/etl')).toBe('the cluster is valid'));
    // Times of creation are whole seconds: the next one must have begun.
    const second = Math.floor(Date.now() / 1_000);
    await until(() => expect(Math.floor(Date.now() / 1_000)).toBeGreaterThan(second));
    const taken = clusterManifest('other', { name: 'etl' });
    const conflict = `the name etl belongs to the older EngineCluster ${rig.namespace}/etl; set another spec.name or delete one of the two`;
    expect(await apply(taken)).toContain(
      `admission webhook "resources.enginegateway.dev" denied the request: NameConflict: ${conflict}`,
    );
    const mistake = await apply(broken);
    expect(mistake).toMatch(/denied the request: CompileError: condition, line 1, column/);
    expect(await apply(groupManifest('etl', {}))).toContain('created');
    // A reference that may be there later.
    expect(
      await apply(clusterManifest('svc', { proxyTo: undefined, serviceRef: { name: 'later', port: 80 } })),
    ).toContain('created');
    // Another gateway's, and what leaves the spec as it is.
    expect(await apply(clusterManifest('blue', { name: 'etl', gatewayClassName: 'blue' }))).toContain('created');
    await gateway?.stop();
    expect(await apply(taken)).toContain('created');
    expect(await apply(broken)).toContain('created');
    await start();
    await until(async () => {
      expect(await acceptance('ec/other')).toBe(conflict);
      expect(mistake).toContain(await acceptance('rr/broken'));
      expect(await acceptance('rr/broken')).not.toBe('');
    });
    await untilReviewed();
    expect(await rig.kubectl(['label', 'ec/other', 'team=etl'])).toContain('labeled');
    expect(await apply(clusterManifest('other', { name: 'etl', weight: 2 }))).toContain('NameConflict');
    expect(await rig.kubectl(['delete', 'ec/other', 'rr/broken'])).toContain('deleted');
    // The name is free at once.
    await rig.kubectl(['delete', 'ec/etl']);
    expect(await apply(taken)).toContain('created');
  });

  test('the self-made certificate is kept, and made again for a new host or without the Secret', async () => {
    await start();
    await untilReviewed();
    const first = await caBundle();
    await gateway?.stop();
    await start();
    await untilReviewed();
    expect(await caBundle()).toBe(first);
    await gateway?.stop();
    await rig.kubectl(['delete', 'secret', name]);
    await rig.apply('installer', { apiVersion: 'v1', kind: 'Secret', metadata: { name }, type: 'Opaque' });
    await start();
    await until(async () => expect(await caBundle()).not.toBe(first));
    await untilReviewed();
  });

  test('a certificate of cert-manager in the Secret is served, and left alone', async () => {
    const { authority, certificate } = localCertificate();
    const merge = (kind: string, patch: object) =>
      rig.kubectl(['patch', kind, name, '--type=merge', '-p', JSON.stringify(patch)]);
    const value = Buffer.from(authority.cert).toString('base64');
    await rig.kubectl(['annotate', 'validatingwebhookconfiguration', name, 'cert-manager.io/inject-ca-from=a/b']);
    await merge('secret', { stringData: { 'tls.crt': certificate.cert, 'tls.key': certificate.key } });
    await rig.kubectl([
      ...['patch', 'validatingwebhookconfiguration', name, '--type=json', '-p'],
      JSON.stringify([{ op: 'add', path: '/webhooks/0/clientConfig/caBundle', value }]),
    ]);
    await start();
    await untilReviewed();
    expect(await caBundle()).toBe(value);
  });

  test('missing grants are rejected, and granted ones are not, also right after the tenant', async () => {
    await start();
    await untilReviewed();
    const team = `team-${rig.namespace}`;
    await rig.kubectl(['create', 'namespace', team]);
    const applyIn = (document: object) =>
      rig.kubectl(['-n', team, 'apply', '-f', '-'], document).catch((error: { stderr: string }) => error.stderr);
    const tenant = (more: object) =>
      manifest('EngineTenant', team, { namespaces: { names: [team] }, routingGroups: [{ value: 'bi' }], ...more });
    const cluster = clusterManifest(`${team}-a`, { routingGroup: 'bi' });
    expect(await applyIn(cluster)).toContain(`denied the request: NoTenant: namespace ${team} belongs to no active`);
    expect(await applyIn({ apiVersion: 'v1', kind: 'List', items: [tenant({}), cluster] })).not.toContain('denied');
    const missing = (what: string, grant: string) =>
      `${what} is not granted to the tenant ${team}; choose another, or have it added to spec.${grant} of the EngineTenant ${team}`;
    expect(await applyIn(clusterManifest('a', { routingGroup: 'bi' }))).toContain(
      `NameNotGranted: spec.name: ${missing('the name a', 'names')}`,
    );
    expect(await applyIn(clusterManifest(`${team}-b`))).toContain(
      `RoutingGroupNotGranted: spec.routingGroup: ${missing('the routing group adhoc', 'routingGroups')}`,
    );
    expect(await applyIn(ruleManifest(`${team}-r`, { routeTo: { routingGroup: 'bi' } }))).toContain(
      'DecidesNotGranted',
    );
    expect(await apply(manifest('EngineTenant', `${team}-2`, { namespaces: { names: [team] } }))).toContain(
      `NamespaceConflict: spec.namespaces: namespace ${team} belongs to the older EngineTenant ${team}`,
    );
    await rig.kubectl(['delete', 'et', team]);
    await rig.kubectl(['-n', team, 'delete', 'ec', '--all']);
  });

  test('a review reads no Secret that a resource refers to', async () => {
    await start();
    await untilReviewed();
    const notFound = async (): Promise<number> => {
      const metrics = await (await fetch(`${gateway?.url}/metrics`)).text();
      const counted = /^rest_client_requests_total\{(?=.*code="404")(?=.*method="GET").*\} (\d+)/m.exec(metrics);
      return Number(counted?.[1] ?? 0);
    };
    const before = await notFound();
    const tls = { caRef: { kind: 'Secret', name: 'missing' } };
    const referring = clusterManifest('referring', { proxyTo: 'https://a', tls });
    expect(await rig.kubectl(['apply', '--dry-run=server', '-f', '-'], referring)).toContain('created');
    expect(await notFound()).toBe(before);
    expect(await apply(referring)).toContain('created');
    await until(async () => expect(await notFound()).toBeGreaterThan(before));
  });
});
