import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { kubectlPath } from '../support/controlPlane.ts';

const run = promisify(execFile);
const program = (name: string): string => (existsSync(`.cache/bin/${name}`) ? resolve('.cache/bin', name) : name);
const responses = (command: string, ...args: readonly string[]): boolean => spawnSync(command, args).status === 0;
const available =
  requireComponent(
    'kube-score',
    responses(program('kube-score'), 'version'),
    'go install github.com/zegl/kube-score/cmd/kube-score@latest',
  ) &&
  requireComponent('helm', responses(program('helm'), 'version'), 'go install helm.sh/helm/v3/cmd/helm@latest') &&
  requireComponent('kubectl', responses(kubectlPath, 'version', '--client'), 'set KUBEBUILDER_ASSETS');

/** Checks that are not followed, each for its reason. */
const ignored: Readonly<Record<string, string>> = {
  'container-image-pull-policy': 'a tag is a version, which is never pushed again',
  'container-security-context-user-group-id': 'user 1000 is that of the image; a pod may set another',
  'pod-networkpolicy':
    'outgoing connections depend on where clusters and database are: components/egress, networkPolicy.egress',
  'deployment-has-host-podantiaffinity': 'topologySpreadConstraints spread the replicas',
};
/** What a limit of processor time would do: pause the event loop in the middle of answers. */
const options = ['--ignore-container-cpu-limit', '--kubernetes-version', 'v1.34'];

const kustomize = (folder: string) => async () => (await run(kubectlPath, ['kustomize', `manifests/${folder}`])).stdout;
const chart =
  (...values: readonly string[]) =>
  async () => {
    const args = ['template', 'gw', 'manifests/helm/engine-gateway', '-n', 'eg', '--kube-version', '1.34.0'];
    return (await run(program('helm'), [...args, ...values.flatMap((value) => ['--set', value])])).stdout;
  };

describe.skipIf(!available)('kube-score finds nothing', () => {
  test.each([
    ['kustomize base', kustomize('base')],
    ['kustomize overlays/postgresql', kustomize('overlays/postgresql')],
    ['kustomize overlays/mysql', kustomize('overlays/mysql')],
    ['kustomize overlays/all-namespaces', kustomize('overlays/all-namespaces')],
    ['kustomize overlays/separate-origins', kustomize('overlays/separate-origins')],
    ['the chart', chart()],
    [
      'the chart with an Ingress, host names of its own and automatic scaling',
      chart(
        'ingress.enabled=true',
        'ingress.host=gw.example',
        'adminHosts={admin.example}',
        'autoscaling.enabled=true',
      ),
    ],
    ['the chart with HTTPS', chart('tls.enabled=true', 'tls.existingSecret=tls', 'allNamespaces=true')],
  ])('in %s', async (_name, render) => {
    const ignore = Object.keys(ignored).flatMap((check) => ['--ignore-test', check]);
    const scoring = run(program('kube-score'), ['score', ...options, ...ignore, '--output-format', 'json', '-']);
    scoring.child.stdin?.end(await render());
    // It ends with 1 when it found something critical.
    const { stdout } = await scoring.catch((error: { readonly stdout: string }) => error);
    const objects = JSON.parse(stdout) as readonly {
      readonly object_name: string;
      readonly checks: readonly {
        readonly check: { readonly id: string };
        readonly grade: number;
        readonly skipped: boolean;
        readonly comments: readonly { readonly summary: string }[] | null;
      }[];
    }[];
    expect(objects.map(({ object_name: name }) => name)).not.toEqual([]);
    const ALL_GOOD = 10;
    const findings = objects.flatMap(({ object_name: name, checks }) =>
      checks
        .filter(({ grade, skipped }) => !skipped && grade < ALL_GOOD)
        .map(
          ({ check, comments }) => `${name}: ${check.id}: ${(comments ?? []).map(({ summary }) => summary).join('; ')}`,
        ),
    );
    expect(findings).toEqual([]);
  });
});
