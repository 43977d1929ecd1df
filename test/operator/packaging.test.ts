import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { requireComponent } from '../support/components.ts';
import { type ControlPlane, controlPlaneAvailable, kubectlPath, startControlPlane } from '../support/controlPlane.ts';

const run = promisify(execFile);

const helmPath = [...(process.env.PATH ?? '').split(delimiter), join(homedir(), 'go', 'bin'), '.cache/bin']
  .map((folder) => join(folder, 'helm'))
  .find((path) => existsSync(path));
const helmAvailable = requireComponent(
  'helm',
  helmPath !== undefined,
  'put helm on the PATH (go install helm.sh/helm/v3/cmd/helm@latest)',
);

/** Stands in for the Prometheus operator, whose CRD a ServiceMonitor needs. */
const serviceMonitorCrd = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'servicemonitors.monitoring.coreos.com' },
  spec: {
    group: 'monitoring.coreos.com',
    scope: 'Namespaced',
    names: { kind: 'ServiceMonitor', plural: 'servicemonitors', singular: 'servicemonitor' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        },
      },
    ],
  },
};

const kindsOf = (rendered: string): string[] =>
  parseAllDocuments(rendered)
    .map((document) => document.toJS() as { kind?: string } | null)
    .map((object) => object?.kind)
    .filter((kind) => kind !== undefined)
    .sort();

describe.skipIf(!controlPlaneAvailable || !helmAvailable)('packaging on a real API server', () => {
  let plane: ControlPlane;
  const kubectl = async (args: readonly string[], input?: string): Promise<string> => {
    const child = run(kubectlPath, ['--kubeconfig', plane.config.kubeconfigPath, ...args]);
    if (input !== undefined) child.child.stdin?.end(input);
    return (await child).stdout;
  };
  const helm = async (...args: readonly string[]): Promise<string> =>
    (await run(helmPath ?? '', [...args, '--kube-version', '1.34.0'], { maxBuffer: 1 << 24 })).stdout;
  const dryRun = (rendered: string): Promise<string> =>
    kubectl(['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-'], rendered);

  beforeAll(async () => {
    plane = await startControlPlane();
    await kubectl(['apply', '--server-side', '-f', '-'], JSON.stringify(serviceMonitorCrd));
    await kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=20s']);
    await kubectl(['create', 'namespace', 'engine-gateway']);
  });
  afterAll(() => plane?.stop());

  const namespaced = [
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
    ['overlays/mysql', namespaced],
    ['overlays/postgresql', namespaced],
    ['overlays/all-namespaces', ['ClusterRole', 'ClusterRoleBinding', ...namespaced]],
  ])('kustomize %s is accepted', async (folder, kinds) => {
    const rendered = (await run(kubectlPath, ['kustomize', join('manifests', folder)])).stdout;
    expect(kindsOf(rendered)).toEqual([...kinds].sort());
    expect((await dryRun(rendered)).trim().split('\n')).toHaveLength(kinds.length);
  });

  test.each([
    [
      'the defaults',
      [],
      [
        'ClusterRole',
        'ClusterRoleBinding',
        'ConfigMap',
        'Deployment',
        'NetworkPolicy',
        'PodDisruptionBudget',
        'Role',
        'RoleBinding',
        'Service',
        'ServiceAccount',
      ],
    ],
    [
      'everything switched on',
      ['allNamespaces=true', 'autoscaling.enabled=true', 'serviceMonitor.enabled=true', 'ingress.enabled=true'],
      [
        'ClusterRole',
        'ClusterRole',
        'ClusterRoleBinding',
        'ClusterRoleBinding',
        'ConfigMap',
        'Deployment',
        'HorizontalPodAutoscaler',
        'Ingress',
        'NetworkPolicy',
        'PodDisruptionBudget',
        'Role',
        'RoleBinding',
        'Service',
        'ServiceAccount',
        'ServiceMonitor',
      ],
    ],
  ])('the Helm chart with %s is accepted', async (_name, values, kinds) => {
    const settings = values.flatMap((value) => ['--set', value]);
    const rendered = await helm('template', 'gw', 'manifests/helm/engine-gateway', '-n', 'engine-gateway', ...settings);
    expect(kindsOf(rendered)).toEqual(kinds);
    expect((await dryRun(rendered)).trim().split('\n')).toHaveLength(kinds.length);
  });

  test.each([
    ['an unknown value', 'replica=3', 'replica'],
    ['no replicas', 'replicas=0', '/replicas'],
    ['a database that two replicas cannot share', 'database.jdbcUrl=jdbc:sqlite:x', '/database/jdbcUrl'],
  ])('the Helm chart refuses %s', async (_name, value, named) => {
    const answer = await helm('template', 'gw', 'manifests/helm/engine-gateway', '--set', value).catch(
      (error: { stderr: string }) => error.stderr,
    );
    expect(answer).toContain("values don't meet the specifications of the schema");
    expect(answer).toContain(named);
  });

  test('the chart of the CRDs holds the CRDs', async () => {
    const rendered = await helm('template', 'crds', 'manifests/helm/engine-gateway-crds');
    expect(kindsOf(rendered)).toEqual(['CustomResourceDefinition', 'CustomResourceDefinition']);
    expect(await dryRun(rendered)).toContain('customresourcedefinition.apiextensions.k8s.io/engineclusters');
  });

  test('the samples are accepted', async () => {
    const answer = await kubectl([
      'apply',
      '--server-side',
      '--dry-run=server',
      '--validate=strict',
      '-f',
      'manifests/samples/',
    ]);
    expect(answer.trim().split('\n')).toHaveLength(6);
  });
});
