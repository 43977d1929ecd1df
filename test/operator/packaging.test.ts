import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseConfig } from '../../src/config/loadConfig.ts';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { runProgram } from '../support/commandLine.ts';
import { requireComponent } from '../support/components.ts';
import { type ControlPlane, chartControlPlane, controlPlaneAvailable, kubectlPath } from '../support/controlPlane.ts';
import { crdChart, helm, helmAvailable, type Rendered, renderedConfig, renderedObjects } from '../support/helm.ts';
import { anySpec } from '../support/kubeRig.ts';
import { mountSecrets } from '../support/mountedSecrets.ts';

const run = promisify(execFile);
const httpRouteCrd = '.cache/gateway-api/gateway.networking.k8s.io_httproutes.yaml';
const gatewayApiAvailable = requireComponent(
  'CRDs of the Gateway API',
  existsSync(httpRouteCrd),
  'copy config/crd/standard of the Go module sigs.k8s.io/gateway-api to .cache/gateway-api, as .ci/run does',
);

const kustomize = async (folder: string): Promise<string> =>
  (await run(kubectlPath, ['kustomize', join('manifests', folder)])).stdout;
const kindsOf = (rendered: string): string[] =>
  renderedObjects(rendered)
    .map(({ kind }) => kind)
    .sort();
type Labels = Readonly<Record<string, string>>;
/** Labels by which an object selects pods: empty for all pods, null for an object that selects none. */
const podLabels = ({ kind, spec }: Rendered): Labels | null => {
  const { selector, podSelector } = (spec ?? {}) as Readonly<Record<string, unknown>>;
  if (kind === 'Service') return (selector ?? {}) as Labels;
  if (!['Deployment', 'NetworkPolicy', 'PodDisruptionBudget'].includes(kind)) return null;
  const { matchLabels } = ((kind === 'NetworkPolicy' ? podSelector : selector) ?? {}) as { matchLabels?: Labels };
  return matchLabels ?? {};
};
const ofKind = (rendered: string, kind: string): Rendered => {
  const found = renderedObjects(rendered).find((object) => object.kind === kind);
  if (found === undefined) throw new Error(`no ${kind} is rendered`);
  return found;
};
/** What an installation lets the gateway do, and how it recognises callers: the same however it was rendered. */
const installed = (rendered: string) => {
  const config = parse(renderedConfig(rendered)) as {
    readonly authentication?: unknown;
    readonly resources: { readonly source: string; readonly namespace: string };
    readonly server: { readonly adminHosts?: readonly string[]; readonly enginePages?: string };
  };
  const rights = renderedObjects(rendered)
    .filter(({ kind, metadata }) => kind.endsWith('Role') && !metadata.name.endsWith('access-review'))
    .flatMap(({ rules }) => rules ?? [])
    .map((rule) => JSON.stringify(Object.entries(rule).sort()));
  const deployment = ofKind(rendered, 'Deployment').spec as {
    readonly replicas: number;
    readonly template: { readonly spec: { readonly containers: readonly Readonly<Record<string, object>>[] } };
  };
  const [container] = deployment.template.spec.containers;
  return {
    source: config.resources.source,
    namespace: config.resources.namespace,
    authentication: config.authentication,
    server: config.server,
    rights: [...new Set(rights)].sort(),
    replicas: deployment.replicas,
    podSecurity: deployment.template.spec,
    container,
  };
};

/** What the template of a Deployment mounts where. */
interface MountingPod {
  readonly containers: readonly [
    {
      readonly args: readonly string[];
      readonly ports: readonly object[];
      readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
    },
  ];
  readonly volumes: readonly { readonly name: string; readonly configMap?: { readonly name: string } }[];
}

describe.skipIf(!controlPlaneAvailable || !helmAvailable)('packaging on a real API server', () => {
  let plane: ControlPlane;
  const kubectl = async (args: readonly string[], input?: string): Promise<string> => {
    const child = run(kubectlPath, ['--kubeconfig', plane.config.kubeconfigPath, ...args]);
    if (input !== undefined) child.child.stdin?.end(input);
    return (await child).stdout;
  };
  const template = (...args: readonly string[]): Promise<string> =>
    helm('template', ...args, '--kube-version', '1.34.0');
  const dryRun = (rendered: string): Promise<string> =>
    kubectl(['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-'], rendered);

  beforeAll(async () => {
    plane = await chartControlPlane();
    for (const kind of ['ServiceMonitor', 'PrometheusRule']) {
      const crd = JSON.stringify(anySpec('monitoring.coreos.com', kind));
      await kubectl(['apply', '--server-side', '-f', '-'], crd);
    }
    await kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
    await kubectl(['create', 'namespace', 'engine-gateway']);
  });
  afterAll(() => plane?.stop());

  /** Renders the base with components, in an overlay of its own. */
  const withComponents = async (
    names: readonly string[],
    check: (rendered: string) => Promise<void>,
  ): Promise<void> => {
    const folder = await mkdtemp(join('manifests', 'overlays', '.components-'));
    try {
      const overlay = { resources: ['../../base'], components: names.map((name) => `../../components/${name}`) };
      await writeFile(join(folder, 'kustomization.yaml'), JSON.stringify(overlay));
      await check((await run(kubectlPath, ['kustomize', folder])).stdout);
    } finally {
      await rm(folder, { recursive: true });
    }
  };

  const namespaced = [
    'ClusterRole',
    'ClusterRole',
    'ClusterRole',
    'ClusterRole',
    'ClusterRoleBinding',
    'ConfigMap',
    'Deployment',
    'Namespace',
    'NetworkPolicy',
    'PodDisruptionBudget',
    'Role',
    'RoleBinding',
    'Service',
    'ServiceAccount',
  ];
  test.each([
    ['base', namespaced],
    ['overlays/class', namespaced],
    ['overlays/mysql', namespaced],
    ['overlays/postgresql', namespaced],
    ['overlays/all-namespaces', ['ClusterRole', 'ClusterRoleBinding', ...namespaced]],
    ['overlays/separate-origins', ['Ingress', 'Service', ...namespaced]],
    ['health-credentials', ['Role', 'RoleBinding']],
    ['service-discovery', ['Role', 'RoleBinding']],
  ])('kustomize %s is accepted', async (folder, kinds) => {
    const rendered = await kustomize(folder);
    expect(kindsOf(rendered)).toEqual([...kinds].sort());
    expect((await dryRun(rendered)).trim().split('\n')).toHaveLength(kinds.length);
  });

  test.each([
    ['kustomize base', () => kustomize('base')],
    ['kustomize separate-origins', () => kustomize('overlays/separate-origins')],
    ['the chart', () => template('gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway')],
  ])('%s: Services, budget and policy select the pods of the Deployment and no others', async (_name, render) => {
    const objects = renderedObjects(await render());
    const deployment = objects.find(({ kind }) => kind === 'Deployment')?.spec as {
      readonly template: { readonly metadata: { readonly labels: Labels } };
    };
    const { labels } = deployment.template.metadata;
    const selecting = objects.flatMap((object) => {
      const selected = podLabels(object);
      return selected === null ? [] : [{ kind: object.kind, selected }];
    });
    expect(new Set(selecting.map(({ kind }) => kind))).toEqual(
      new Set(['Deployment', 'NetworkPolicy', 'PodDisruptionBudget', 'Service']),
    );
    for (const { kind, selected } of selecting) {
      expect(Object.keys(selected), kind).toContain('app.kubernetes.io/name');
      expect(labels, kind).toMatchObject(selected);
    }
  });

  test('the autoscaling component says how many replicas there are, in place of the Deployment', async () => {
    await withComponents(['autoscaling'], async (rendered) => {
      expect(kindsOf(rendered)).toEqual([...namespaced, 'HorizontalPodAutoscaler'].sort());
      expect(await dryRun(rendered)).toContain('horizontalpodautoscaler.autoscaling/engine-gateway');
      expect(ofKind(rendered, 'Deployment').spec).not.toHaveProperty('replicas');
      const { name } = ofKind(rendered, 'Deployment').metadata;
      const scaler = ofKind(rendered, 'HorizontalPodAutoscaler');
      expect(scaler.spec).toMatchObject({ scaleTargetRef: { kind: 'Deployment', name }, minReplicas: 2 });
    });
  });

  test.skipIf(!gatewayApiAvailable)('the httproute component leads to the Service, beside others', async () => {
    await kubectl(['apply', '--server-side', '-f', httpRouteCrd]);
    await kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
    await withComponents(['httproute', 'autoscaling', 'egress'], async (rendered) => {
      expect(kindsOf(rendered)).toEqual(
        [...namespaced, 'HTTPRoute', 'HorizontalPodAutoscaler', 'NetworkPolicy'].sort(),
      );
      expect(await dryRun(rendered)).toContain('httproute.gateway.networking.k8s.io/engine-gateway');
      const service = ofKind(rendered, 'Service');
      const [port] = (service.spec as { readonly ports: readonly { readonly port: number }[] }).ports;
      expect(ofKind(rendered, 'HTTPRoute').spec).toMatchObject({
        rules: [{ backendRefs: [{ name: service.metadata.name, port: port?.port }] }],
      });
    });
  });

  test('the tls and settings components lay their files over the configuration, and add port, policy and Secret', async () => {
    await withComponents(['tls', 'settings'], async (rendered) => {
      expect(kindsOf(rendered)).toEqual([...namespaced, 'ConfigMap', 'ConfigMap'].sort());
      expect(await dryRun(rendered)).toContain('deployment.apps/engine-gateway serverside-applied');
      const pod = (ofKind(rendered, 'Deployment').spec as { readonly template: { readonly spec: MountingPod } })
        .template.spec;
      const [container] = pod.containers;
      const paths = container.args.filter((_, index) => container.args[index - 1] === '--config');
      const folder = await mkdtemp(join(tmpdir(), 'components-'));
      try {
        // Each file where its volume has it, then read as the program reads it.
        const files = paths.map((path) => {
          const mount = container.volumeMounts.find(({ mountPath }) => dirname(path) === mountPath);
          const name = pod.volumes.find((volume) => volume.name === mount?.name)?.configMap?.name;
          const map = renderedObjects(rendered).find(
            ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name,
          );
          const own = basename(path) === 'settings.yaml' ? 'protocol: {productName: Engine}\n' : undefined;
          return { path: join(folder, basename(path)), text: own ?? map?.data?.[basename(path)] ?? '' };
        });
        const mounted = mountSecrets(join(folder, 'secrets'));
        for (const { path, text } of files) await writeFile(path, mounted(text));
        const environment = { POD_NAMESPACE: 'a', DATABASE_URL: 'jdbc:postgresql://db/g' };
        const args = files.flatMap(({ path }) => ['--config', path]);
        const { stdout, stderr } = await runProgram(['config', ...args], environment);
        // The certificate is in a Secret that is not here.
        expect(stderr).toContain('/etc/engine-gateway-tls');
        expect(stderr.trim().split('\n')).toHaveLength(1);
        expect(stdout).toBe('');
      } finally {
        await rm(folder, { recursive: true });
      }
      expect(pod.volumes).toContainEqual({ name: 'tls', secret: { secretName: 'engine-gateway-tls' } });
      expect(container.ports).toContainEqual({ name: 'https', containerPort: 8443 });
      expect(ofKind(rendered, 'Service').spec?.ports).toContainEqual({
        name: 'https',
        port: 8443,
        targetPort: 'https',
      });
      expect(ofKind(rendered, 'NetworkPolicy').spec).toMatchObject({
        ingress: [{ ports: [{ port: 'http' }, { port: 'https', protocol: 'TCP' }] }],
      });
    });
  });

  test('the webhook component adds the webhook with its Service, an empty Secret and rights to both', async () => {
    await withComponents(['webhook'], async (rendered) => {
      const rights = ['ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding'];
      const added = ['ConfigMap', 'Secret', 'Service', 'ValidatingWebhookConfiguration', ...rights];
      expect(kindsOf(rendered)).toEqual([...namespaced, ...added].sort());
      expect(await dryRun(rendered)).toContain('engine-gateway serverside-applied');
      const pod = (ofKind(rendered, 'Deployment').spec as { readonly template: { readonly spec: MountingPod } })
        .template.spec;
      expect(pod.containers[0].ports).toContainEqual({ name: 'webhook', containerPort: 9443 });
      expect(pod.containers[0].args).toContain('/etc/engine-gateway-webhook-config/gateway-webhook.yaml');
      expect(ofKind(rendered, 'NetworkPolicy').spec).toMatchObject({
        ingress: [{ ports: [{ port: 'http' }, { port: 'webhook', protocol: 'TCP' }] }],
      });
      const config = renderedObjects(rendered).find(({ data }) => data?.['gateway-webhook.yaml'] !== undefined);
      const text = config?.data?.['gateway-webhook.yaml']?.replace('resources:', 'resources:\n  source: kubernetes');
      const result = parseConfig(text ?? '', {});
      expect('config' in result ? result.config.resources.webhook.enabled : result.problems).toBe(true);
    });
  });

  test('the egress component adds a policy for what goes out, which leaves metadata services out', async () => {
    await withComponents(['egress'], async (rendered) => {
      expect(kindsOf(rendered)).toEqual([...namespaced, 'NetworkPolicy'].sort());
      expect(await dryRun(rendered)).toContain('networkpolicy.networking.k8s.io/engine-gateway-egress');
      const policies = renderedObjects(rendered).filter(({ kind }) => kind === 'NetworkPolicy');
      expect(policies.map(({ spec }) => spec?.policyTypes)).toEqual([['Ingress'], ['Egress']]);
      expect(JSON.stringify(policies[1])).toContain('"except":["10.0.0.0/8"');
      expect(JSON.stringify(policies[1])).toContain('169.254.0.0/16');
    });
  });

  test('the monitoring component adds alerts, dashboards and what scrapes the pods', async () => {
    await withComponents(['monitoring'], async (rendered) => {
      const added = ['ConfigMap', 'PrometheusRule', 'ServiceMonitor'];
      expect(kindsOf(rendered)).toEqual([...namespaced, ...added].sort());
      expect(await dryRun(rendered)).toContain('prometheusrule.monitoring.coreos.com/engine-gateway');
      const objects = renderedObjects(rendered);
      const dashboards = objects.find(({ metadata }) => metadata.name === 'engine-gateway-dashboards');
      expect(dashboards?.metadata).toMatchObject({ namespace: 'engine-gateway', labels: { grafana_dashboard: '1' } });
      expect(Object.keys(dashboards?.data ?? {})).toHaveLength(4);
      const monitor = objects.find(({ kind }) => kind === 'ServiceMonitor');
      const service = objects.find(({ kind }) => kind === 'Service');
      const selector = monitor?.spec?.selector as { readonly matchLabels: Labels } | undefined;
      expect(service?.metadata.labels).toMatchObject(selector?.matchLabels ?? { selected: 'nothing' });
    });
  });

  test('no installation for all namespaces may read Secrets of every namespace', async () => {
    const kustomized = await kustomize('overlays/all-namespaces');
    const settings = ['--set', 'allNamespaces=true', '--set', 'rbac.secretNamespaces={team-a,team-b}'];
    const charted = await template('gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway', ...settings);
    const readers = (rendered: string) =>
      renderedObjects(rendered)
        .filter(({ rules }) => JSON.stringify(rules ?? []).includes('secrets'))
        .map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`);
    expect(readers(kustomized)).toEqual(['Role engine-gateway/engine-gateway']);
    expect(readers(charted)).toEqual([
      'Role engine-gateway/gw-engine-gateway',
      'Role team-a/engine-gateway-gw-engine-gateway-health-credentials',
      'Role team-b/engine-gateway-gw-engine-gateway-health-credentials',
    ]);
  });

  test.each([
    ['kustomize base and overlays/class', () => kustomize('base'), () => kustomize('overlays/class')],
    [
      'two releases of the chart',
      () => template('one', 'manifests/helm/engine-gateway', '-n', 'engine-gateway'),
      () => template('two', 'manifests/helm/engine-gateway', '-n', 'engine-gateway', '--set', 'class=blue'),
    ],
  ])('%s in one namespace have no object, pod or Lease in common', async (_name, first, second) => {
    const rendered = [await first(), await second()];
    const [one, two] = rendered.map((text) => {
      const objects = renderedObjects(text);
      const deployment = ofKind(text, 'Deployment').spec as {
        readonly template: { readonly metadata: { readonly labels: Labels } };
      };
      const leases = objects
        .flatMap(({ rules }) => (rules ?? []) as readonly { resources: readonly string[]; resourceNames?: string[] }[])
        .filter(({ resources }) => resources.includes('leases'))
        .flatMap(({ resourceNames }) => resourceNames ?? []);
      const { resources } = parse(renderedConfig(text)) as {
        readonly resources: { readonly class?: string; readonly leaseName?: string };
      };
      return {
        names: objects
          .filter(({ kind }) => kind !== 'Namespace')
          .map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`),
        pods: deployment.template.metadata.labels,
        selectors: objects.map(podLabels).filter((labels) => labels !== null),
        leases,
        leaseOfGateway:
          resources.leaseName ?? (resources.class === undefined ? 'engine-gateway' : 'engine-gateway-blue'),
      };
    });
    if (one === undefined || two === undefined) throw new Error('nothing is rendered');
    expect(one.names.filter((name) => two.names.includes(name))).toEqual([]);
    for (const [mine, theirs] of [
      [one, two],
      [two, one],
    ] as const) {
      expect(mine.leases).toContain(mine.leaseOfGateway);
      expect(theirs.leases).not.toContain(mine.leaseOfGateway);
      for (const labels of mine.selectors) {
        expect(mine.pods).toMatchObject(labels);
        expect(theirs.pods).not.toMatchObject(labels);
      }
    }
    for (const text of rendered) await dryRun(text);
  });

  test.each<[string, readonly string[], readonly string[]]>([
    ['no other namespace', [], []],
    [
      'namespaces of a value',
      ['discovery.namespaces={team-a,team-b,engine-gateway}'],
      [
        'Role team-a/engine-gateway-gw-engine-gateway-discovery',
        'Role team-b/engine-gateway-gw-engine-gateway-discovery',
      ],
    ],
    [
      'those of the configuration, but for the watched ones',
      ['config.resources.discovery.namespaces={team-a,team-b}', 'namespaces={team-a}'],
      ['Role team-b/engine-gateway-gw-engine-gateway-discovery'],
    ],
    ['all', ['discovery.namespaces={*}'], ['ClusterRole /engine-gateway-gw-engine-gateway-discovery']],
    ['all, which are watched anyway', ['discovery.namespaces={*}', 'allNamespaces=true'], []],
  ])('the chart lets Services be read for discoveries: %s', async (_name, values, expected) => {
    const settings = values.flatMap((value) => ['--set', value]);
    const rendered = await template('gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway', ...settings);
    const roles = renderedObjects(rendered).filter(({ metadata }) => metadata.name.endsWith('-discovery'));
    expect(
      roles
        .filter(({ rules }) => rules !== undefined)
        .map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`),
    ).toEqual(expected);
    for (const { kind, rules } of roles.filter(({ rules: each }) => each !== undefined)) {
      const resources = kind === 'ClusterRole' ? ['namespaces', 'services'] : ['services'];
      expect(rules).toEqual([{ apiGroups: [''], resources, verbs: ['list', 'watch'] }]);
    }
    expect(roles).toHaveLength(2 * expected.length);
  });

  test('a list of namespaces gives a Role in each, and no ClusterRole of the gateway', async () => {
    for (const namespace of ['team-a', 'team-b']) await kubectl(['create', 'namespace', namespace]);
    const settings = ['--set', 'namespaces={team-a,team-b}', '--set', 'labelSelector=team in (a\\,b)'];
    const rendered = await template('gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway', ...settings);
    await dryRun(rendered);
    const watchers = renderedObjects(rendered)
      .filter(({ kind, rules }) => kind === 'Role' && JSON.stringify(rules).includes('engineclusters/status'))
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
    expect(watchers).toEqual(['team-a/engine-gateway-gw-engine-gateway', 'team-b/engine-gateway-gw-engine-gateway']);
    expect(parse(renderedConfig(rendered))).toMatchObject({
      resources: { namespaces: ['team-a', 'team-b'], labelSelector: 'team in (a,b)', leaseName: 'gw-engine-gateway' },
    });
    const both = template('gw', 'manifests/helm/engine-gateway', ...settings, '--set', 'allNamespaces=true');
    await expect(both).rejects.toMatchObject({ stderr: expect.stringContaining('exclude each other') });
  });

  test('kustomize base and chart: the roles view, edit and admin of users include the resources', async () => {
    const rolesOf = (text: string) =>
      renderedObjects(text).filter(({ metadata }) => /engine-gateway-(view|edit)$/.test(metadata.name));
    const roles = rolesOf(await kustomize('base'));
    const ofChart = rolesOf(await template('gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway'));
    expect(roles).toHaveLength(2);
    const targets = ({ labels = {} }: Rendered['metadata']) => Object.keys(labels).filter((key) => /e-to-/.test(key));
    const granted = (all: readonly Rendered[]) =>
      all.map(({ rules, metadata }) => JSON.stringify([targets(metadata).sort(), rules])).sort();
    expect(granted(ofChart)).toEqual(granted(roles));
    await kubectl(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items: roles }));
    // The controller that aggregates is not part of this control plane: its work is done here, by the selectors of the roles.
    const aggregated = async (role: string): Promise<readonly string[]> => {
      const { aggregationRule } = JSON.parse(await kubectl(['get', 'clusterrole', role, '-o', 'json'])) as {
        readonly aggregationRule: { readonly clusterRoleSelectors: readonly { readonly matchLabels: Labels }[] };
      };
      const names: string[] = [];
      for (const { matchLabels } of aggregationRule.clusterRoleSelectors) {
        const selector = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
        const listed = await kubectl(['get', 'clusterroles', '-l', selector.join(), '-o', 'name']);
        for (const line of listed.trim().split('\n')) names.push(line.replace(/^.*\//, ''));
      }
      // What is aggregated may be aggregated itself: edit includes view.
      const nested = names.filter((name) => ['view', 'edit'].includes(name));
      return [...names, ...(await Promise.all(nested.map(aggregated))).flat()];
    };
    const can = async (user: string, verb: string, resource: string, ...more: string[]): Promise<string> =>
      (
        await kubectl(['-n', 'engine-gateway', 'auth', 'can-i', verb, resource, `--as=${user}`, ...more]).catch(
          (error: { stdout: string }) => error.stdout,
        )
      ).trim();
    for (const [role, mayEdit] of [
      ['view', 'no'],
      ['edit', 'yes'],
      ['admin', 'yes'],
    ] as const) {
      const user = `${role}-user-of-${roles[0]?.metadata.name}`;
      for (const name of new Set(await aggregated(role))) {
        const binding = ['create', 'rolebinding', `${user}-${name.replaceAll(':', '-')}`];
        await kubectl(['-n', 'engine-gateway', ...binding, `--clusterrole=${name}`, `--user=${user}`]);
      }
      for (const resource of ['engineclusters.enginegateway.dev', 'routingrules.enginegateway.dev']) {
        expect(await can(user, 'list', resource)).toBe('yes');
        for (const verb of ['create', 'patch', 'delete']) expect(await can(user, verb, resource)).toBe(mayEdit);
        expect(await can(user, 'patch', resource, '--subresource=status')).toBe('no');
      }
    }
  });

  test('rbac.aggregateTo says which roles of users', async () => {
    const labels = async (list: string): Promise<readonly string[]> => {
      const rendered = await template('gw', 'manifests/helm/engine-gateway', '--set', `rbac.aggregateTo=${list}`);
      return [...rendered.matchAll(/aggregate-to-(\w+): "true"/g)].map(([, role]) => role ?? '');
    };
    expect(await labels('{view,edit,admin}')).toEqual(['view', 'edit', 'admin']);
    expect(await labels('{view,admin}')).toEqual(['view', 'admin']);
    expect(await labels('null')).toEqual([]);
  });

  const chartKinds = [
    // Authors of tenants have a ClusterRole where there are any.
    ...namespaced.slice(1).filter((kind) => !['ConfigMap', 'Namespace'].includes(kind)),
    // Of helm test.
    ...['Pod', 'Secret', 'Secret'],
  ];
  // Of the gateway, and of authors of tenants.
  const clusterRoles = ['ClusterRole', 'ClusterRole', 'ClusterRoleBinding'];
  const optionalKinds = [...clusterRoles, 'HorizontalPodAutoscaler', 'Ingress', 'ServiceMonitor'];
  test.each([
    ['the defaults', [], chartKinds],
    [
      'everything switched on',
      ['allNamespaces=true', 'autoscaling.enabled=true', 'serviceMonitor.enabled=true', 'ingress.enabled=true'],
      [...chartKinds, ...optionalKinds],
    ],
    [
      'host names of the API and an Ingress',
      ['adminHosts={admin.example}', 'ingress.enabled=true'],
      [...chartKinds, 'Ingress', 'Service'],
    ],
  ])('the Helm chart with %s is accepted', async (_name, values, kinds) => {
    const settings = values.flatMap((value) => ['--set', value]);
    const rendered = await template('gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway', ...settings);
    expect(kindsOf(rendered)).toEqual([...kinds].sort());
    expect((await dryRun(rendered)).trim().split('\n')).toHaveLength(kinds.length);
  });

  test('base, overlays and chart ask callers who they are and give the gateway the same rights', async () => {
    const chart = async (...settings: readonly string[]) =>
      installed(await template('engine-gateway', 'manifests/helm/engine-gateway', '-n', 'engine-gateway', ...settings));
    const [base, mysql, postgresql, all] = await Promise.all(
      ['base', 'overlays/mysql', 'overlays/postgresql', 'overlays/all-namespaces'].map(async (folder) =>
        installed(await kustomize(folder)),
      ),
    );
    const charts = [await chart(), await chart('--set', 'allNamespaces=true')];
    expect(base?.rights.length).toBeGreaterThan(4);
    // Of all namespaces, their labels and tenants are read as well.
    const ofNamespaces = [
      '[["apiGroups",[""]],["resources",["namespaces"]],["verbs",["list","watch"]]]',
      '[["apiGroups",["enginegateway.dev"]],["resources",["enginetenants"]],["verbs",["get","list","watch"]]]',
      '[["apiGroups",["enginegateway.dev"]],["resources",["enginetenants/status"]],["verbs",["patch"]]]',
    ];
    for (const each of [base, mysql, postgresql, all, ...charts]) {
      const isOfAll = each === all || each === charts[1];
      // The chart has a ClusterRole for authors of tenants where there are any.
      const own = (base?.rights ?? []).filter(
        (right) => each !== charts[0] || !/enginetenants.*deletecollection/.test(right),
      );
      expect(each).toMatchObject({
        source: 'kubernetes',
        authentication: { kubernetes: {}, session: { secret: '${FILE:/etc/engine-gateway-secrets/session/secret}' } },
        rights: [...own, ...(isOfAll ? ofNamespaces : [])].sort(),
        podSecurity: {
          securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
          // Both replicas read the key of sessions from one Secret, as a file that follows it.
          volumes: expect.arrayContaining([
            {
              name: 'session',
              secret: expect.objectContaining({
                secretName: expect.stringMatching(/^(gw-)?engine-gateway-session$/),
              }),
            },
          ]),
        },
        container: {
          volumeMounts: expect.arrayContaining([
            { name: 'session', mountPath: '/etc/engine-gateway-secrets/session', readOnly: true },
            { name: 'database', mountPath: '/etc/engine-gateway-secrets/database', readOnly: true },
          ]),
          livenessProbe: { httpGet: { path: '/livez' } },
          readinessProbe: { httpGet: { path: '/readyz' } },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
        },
      });
      expect(each?.replicas).toBe(2);
    }
    // One address for all: a page of a cluster must not be of the API's origin.
    for (const each of [base, mysql, postgresql, all, ...charts]) expect(each?.server.enginePages).toBe('redirect');
    const own = '${ENV:POD_NAMESPACE}';
    const watched = [base, mysql, postgresql, all, ...charts].map((each) => each?.namespace);
    expect(watched).toEqual([own, own, own, '*', own, '*']);
    expect(charts[0]?.podSecurity).toHaveProperty('topologySpreadConstraints');
  });

  test.each([
    ['the overlay', () => kustomize('overlays/separate-origins'), 'gateway-admin.example.com'],
    [
      'the chart',
      () =>
        template(
          ...['engine-gateway', 'manifests/helm/engine-gateway', '-n', 'engine-gateway'],
          ...['--set', 'adminHosts={gateway-admin.example.com},ingress.enabled=true,ingress.host=gateway.example.com'],
        ),
      'gateway-admin.example.com',
    ],
  ])('%s gives API and pages host names of their own', async (_name, render, adminHost) => {
    const stdout = await render();
    const { server } = installed(stdout);
    const service = 'engine-gateway-admin';
    const names = [service, `${service}.engine-gateway`, `${service}.engine-gateway.svc`];
    expect(server.adminHosts).toEqual([adminHost, ...names, `${service}.engine-gateway.svc.cluster.local`]);
    expect(server.enginePages).toBeUndefined();
    const services = renderedObjects(stdout).filter(({ kind }) => kind === 'Service');
    expect(services.map(({ metadata }) => metadata.name).sort()).toEqual(['engine-gateway', service]);
    // Both lead to the gateway's pods.
    const [one, other] = services.map(({ spec }) => spec?.selector);
    expect(other).toEqual(one);
    const { rules } = ofKind(stdout, 'Ingress').spec as {
      readonly rules: readonly {
        readonly host: string;
        readonly http: {
          readonly paths: readonly { readonly backend: { readonly service: { readonly name: string } } }[];
        };
      }[];
    };
    expect(rules.map(({ host, http }) => [host, ...http.paths.map(({ backend }) => backend.service.name)])).toEqual([
      ['gateway.example.com', 'engine-gateway'],
      [adminHost, service],
    ]);
  });

  test('the Helm chart refuses one host name for queries and API', async () => {
    const settings = 'adminHosts={gw.example},ingress.enabled=true,ingress.host=gw.example';
    const refused = template('gw', 'manifests/helm/engine-gateway', '--set', settings);
    await expect(refused).rejects.toThrow('ingress.host must not be one of adminHosts');
  });

  test('the Helm chart lets everybody in where its values say so, and only then', async () => {
    const chart = ['gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway'];
    const rendered = await template(...chart, '--set', 'config.authentication=none');
    expect(installed(rendered).authentication).toBe('none');
    expect(rendered).not.toContain('gw-engine-gateway-session');
    expect(rendered).not.toContain('/etc/engine-gateway-secrets/session');
    expect(rendered).not.toContain('access-review');
    expect((await dryRun(rendered)).trim().split('\n')).toHaveLength(kindsOf(rendered).length);
  });

  test('the Helm chart makes the secret of sessions once, or takes one that is named', async () => {
    const namespace = 'sessions';
    const chart = ['gw', 'manifests/helm/engine-gateway', '-n', namespace];
    const kubeconfig = ['--kubeconfig', plane.config.kubeconfigPath];
    const release = (...args: readonly string[]) => helm(...args, ...chart, ...kubeconfig);
    const secret = async (): Promise<string> => {
      const path = 'jsonpath={.data.secret}';
      const encoded = await kubectl(['-n', namespace, 'get', 'secret', 'gw-engine-gateway-session', '-o', path]);
      return Buffer.from(encoded, 'base64').toString();
    };
    await release('install', '--create-namespace');
    const made = await secret();
    expect(made).toMatch(/^[A-Za-z0-9]{64}$/);
    await release('upgrade', '--set', 'replicas=3');
    expect(await secret()).toBe(made);
    const settings = ['--set', 'session.existingSecret=mine'];
    const named = await template(...chart, ...settings);
    expect(named).not.toContain('gw-engine-gateway-session');
    expect(named).toContain('secretName: mine');
  });

  test.each(['base/role.yaml', 'overlays/all-namespaces/clusterrole.yaml'])(
    'every right of %s has its reason above it',
    async (file) => {
      const lines = (await readFile(join('manifests', file), 'utf8')).split('\n');
      const bare = lines.filter((line, index) => {
        if (!line.startsWith('  - apiGroups')) return false;
        // The Lease's two rules share a reason.
        return !lines[index - 1]?.startsWith('  #') && !lines[index - 1]?.startsWith('    verbs: [create]');
      });
      expect(bare).toEqual([]);
    },
  );

  test.each([
    ['an unknown value', 'replica=3', 'replica'],
    ['no replicas', 'replicas=0', '/replicas'],
    ['a database that two replicas cannot share', 'database.jdbcUrl=jdbc:sqlite:x', '/database/jdbcUrl'],
  ])('the Helm chart refuses %s', async (_name, value, named) => {
    const response = await template('gw', 'manifests/helm/engine-gateway', '--set', value).catch(
      (error: { stderr: string }) => error.stderr,
    );
    expect(response).toContain("values don't meet the specifications of the schema");
    expect(response).toContain(named);
  });

  test('the packaged chart of the CRDs contains the files of crds/', async () => {
    const chart = await crdChart();
    const rendered = await template('crds', chart);
    expect(kindsOf(rendered)).toEqual(resourceKinds.all.map(() => 'CustomResourceDefinition'));
    expect(await dryRun(rendered)).toContain('customresourcedefinition.apiextensions.k8s.io/engineclusters');
    const withoutKeep = renderedObjects(await template('crds', chart, '--set', 'crds.keep=false'));
    for (const { plural } of resourceKinds.all) {
      const crd = parse(await readFile(`crds/enginegateway.dev_${plural}.yaml`, 'utf8')) as Rendered;
      expect(withoutKeep).toContainEqual(crd);
      const annotations = { 'helm.sh/resource-policy': 'keep' };
      expect(renderedObjects(rendered)).toContainEqual({ ...crd, metadata: { ...crd.metadata, annotations } });
    }
    const unpackaged = template('crds', 'manifests/helm/engine-gateway-crds');
    await expect(unpackaged).rejects.toHaveProperty('stderr', expect.stringContaining('apply --server-side -f crds/'));
  });

  test('samples and resources of the demo are valid together', async () => {
    // Names of the sample for teams are complete once Kustomize has made them (`teams.test.ts`).
    const samples = readdirSync('manifests/samples').filter((name) => !['kube-state-metrics', 'teams'].includes(name));
    const outcome = await runProgram([
      'validate',
      ...samples.map((name) => `manifests/samples/${name}`),
      'manifests/demo',
    ]);
    expect(outcome).toMatchObject({ code: 0, stdout: expect.stringContaining('no mistakes') });
  });

  test('the samples are accepted', async () => {
    const response = await kubectl([
      'apply',
      '--server-side',
      '--dry-run=server',
      '--validate=strict',
      '-f',
      'manifests/samples/',
      '-f',
      'manifests/samples/limits/',
      '-f',
      'manifests/samples/discovery/',
    ]);
    expect(response.trim().split('\n')).toHaveLength(21);
  });
});
