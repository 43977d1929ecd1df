import { execFile, spawnSync } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { requireComponent } from '../support/components.ts';
import { type ControlPlane, controlPlaneAvailable, kubectlPath } from '../support/controlPlane.ts';
import { postgresql } from '../support/databases.ts';
import { type GatewayProcess, startGatewayWithFile } from '../support/gatewayProcess.ts';
import { commandsOf } from '../support/guide.ts';
import { crdChart } from '../support/helm.ts';
import { kubeconfigText } from '../support/kubeconfig.ts';
import { startPlane } from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';
import { mountSecrets } from '../support/mountedSecrets.ts';

const run = promisify(execFile);
const NAMESPACE = 'engine-gateway';
const helm = ['.cache/bin/helm', 'helm'].map((each) => (each.includes('/') ? resolve(each) : each));
const helmPath = helm.find((each) => spawnSync(each, ['version']).status === 0);
const helmAvailable = requireComponent('helm', helmPath !== undefined, 'go install helm.sh/helm/v3/cmd/helm@latest');

interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly serviceAccountName: string;
        readonly volumes: readonly { readonly name: string; readonly secret?: { readonly secretName: string } }[];
        readonly containers: readonly {
          readonly image: string;
          readonly args: readonly string[];
          readonly env: readonly {
            readonly name: string;
            readonly value?: string;
            readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } };
          }[];
          readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
        }[];
      };
    };
  };
}

describe.skipIf(!controlPlaneAvailable || !helmAvailable || !postgresql.available())('docs/install.md', () => {
  let plane: ControlPlane;
  let folder: string;
  let database: Awaited<ReturnType<typeof postgresql.start>>;
  let settings: { readonly jdbcUrl: string; readonly user?: string; readonly password?: string };
  let engines: readonly SimulatedEngine[];
  let gateway: GatewayProcess | undefined;
  let token = '';
  const charts = { crds: '' };

  beforeAll(async () => {
    plane = await startPlane();
    folder = await mkdtemp(join(tmpdir(), 'install-'));
    database = await postgresql.start();
    settings = await database.create();
    engines = await Promise.all(
      ['trino-a', 'trino-etl'].map((name) => startSimulatedEngine({ name, productName: 'Trino', port: 0 })),
    );
    await mkdir(join(folder, 'bin'));
    await symlink(kubectlPath, join(folder, 'bin/kubectl'));
    if (helmPath?.startsWith('/') === true) await symlink(helmPath, join(folder, 'bin/helm'));
    await copyFile(plane.config.kubeconfigPath, join(folder, 'kubeconfig'));
    // A cluster that never had the CRDs.
    await shell('kubectl delete crd --all');
  });
  afterAll(async () => {
    await gateway?.stop('SIGKILL');
    await Promise.all(engines?.map((engine) => engine.close()) ?? []);
    await database?.dispose();
    await plane?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const shell = async (command: string): Promise<string> => {
    const environment = {
      ...process.env,
      PATH: `${join(folder, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`,
      KUBECONFIG: join(folder, 'kubeconfig'),
      TOKEN: token,
    };
    return (await run('bash', ['-euo', 'pipefail', '-c', command], { env: environment, timeout: 90_000 })).stdout;
  };
  const kubectlJson = async <T>(what: string): Promise<T> =>
    JSON.parse(await shell(`kubectl -n ${NAMESPACE} get ${what} -o json`)) as T;
  const secret = async (name: string): Promise<Readonly<Record<string, string>>> => {
    const { data } = await kubectlJson<{ readonly data: Readonly<Record<string, string>> }>(`secret ${name}`);
    return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, atob(value)]));
  };

  /** Stands in for the kubelet, which this control plane lacks: runs the pod of the Deployment with what it names. */
  const runPod = async (): Promise<GatewayProcess> => {
    const { spec } = (await kubectlJson<Deployment>('deployment engine-gateway')).spec.template;
    const [container] = spec.containers;
    if (container === undefined) throw new Error('the pod has no container');
    expect(container.image).toBe('registry.example/engine-gateway:0.1.0');
    const environment: Record<string, string> = {};
    for (const { name, value, valueFrom } of container.env) {
      const ref = valueFrom?.secretKeyRef;
      environment[name] = ref === undefined ? (value ?? NAMESPACE) : ((await secret(ref.name))[ref.key] ?? '');
    }
    const path = container.args.at(-1) ?? '';
    const mount = container.volumeMounts.find(
      ({ mountPath }) => path.startsWith(`${mountPath}/`) || path === mountPath,
    );
    const volume = spec.volumes.find(({ name }) => name === mount?.name);
    const files = await secret(volume?.secret?.secretName ?? 'no Secret is mounted there');
    const secrets: Record<string, string> = {};
    for (const { name, mountPath } of container.volumeMounts) {
      const mounted = spec.volumes.find((each) => each.name === name)?.secret;
      if (mounted === undefined || !mountPath.startsWith('/etc/engine-gateway-secrets/')) continue;
      for (const [key, text] of Object.entries(await secret(mounted.secretName))) {
        secrets[`${mountPath.replace('/etc/engine-gateway-secrets/', '')}/${key}`] = text;
      }
    }
    const mounting = mountSecrets(join(folder, 'secrets'), secrets);
    const config = parse(mounting(Object.values(files)[0] ?? '')) as Readonly<Record<string, object>>;
    const account = (await shell(`kubectl -n ${NAMESPACE} create token ${spec.serviceAccountName}`)).trim();
    const { server, caData } = plane.config;
    const kubeconfig = join(folder, 'pod-kubeconfig');
    const authority = { server, 'certificate-authority-data': caData };
    await writeFile(kubeconfig, kubeconfigText(authority, { token: account }, NAMESPACE));
    const file = join(folder, 'gateway.yaml');
    // What belongs to a pod is set for this machine: its addresses, its port and its disk.
    await writeFile(
      file,
      stringify({
        ...config,
        resources: { ...config.resources, allowedAddresses: ['127.0.0.0/8'] },
        queryHistory: { ...config.queryHistory, spillDirectory: join(folder, 'spill') },
        server: { ...config.server, address: '127.0.0.1', drainDelay: '0ms' },
        serverConfig: { 'http-server.http.port': 0 },
      }),
    );
    return await startGatewayWithFile(file, { ...environment, KUBECONFIG: kubeconfig });
  };

  /** A command with the addresses of the guide replaced by those of this machine. */
  const onThisMachine = (command: string): string =>
    command
      .replace('http://trino-a.example:8080', engines[0]?.url ?? '')
      .replace('http://trino-etl.example:8080', engines[1]?.url ?? '')
      .replace('jdbc:postgresql://db.example:5432/gateway', settings.jdbcUrl)
      .replace('user=gateway', `user=${settings.user}`)
      .replace("password='the password'", `password='${settings.password ?? ''}'`)
      // No controller of namespaces runs here that would end it.
      .replace('delete namespace', 'delete --wait=false namespace')
      .replace('engine-gateway-crds-0.1.0.tgz', charts.crds)
      .replace('resources.yaml', join(folder, 'resources.yaml'))
      .replaceAll('http://localhost:8080', gateway?.url ?? 'no gateway runs');

  /** Runs the commands of a section. @returns the output of the command that contains a text */
  const follow = async (page: string, heading: string): Promise<(part: string) => string> => {
    const outputs = new Map<string, string>();
    for (const command of commandsOf(await readFile(page, 'utf8'), heading)) {
      const assignment = /^TOKEN=\$\((.*)\)$/.exec(command)?.[1];
      if (command.includes(' rollout status ')) {
        await gateway?.stop();
        gateway = await runPod();
      }
      // The process listens on this machine itself.
      else if (command.includes(' port-forward ')) expect(gateway).toBeDefined();
      else if (assignment !== undefined) token = (await shell(assignment)).trim();
      else outputs.set(command, await shell(onThisMachine(command)));
    }
    return (part) => [...outputs].find(([command]) => command.includes(part))?.[1] ?? '';
  };
  const resources = async () => (await shell('kubectl get enginegateway -A -o name')).split('\n').sort();

  test('leads from nothing to a routed query, by an upgrade of all kinds, and back', async () => {
    charts.crds = await crdChart();
    const output = await follow('docs/install.md', '## On a cluster');
    expect(output('get engineclusters,routingrules')).toMatch(/trino-etl .* etl /);
    const { infoUri } = JSON.parse(output('SELECT 1')) as { readonly infoUri: string };
    expect(infoUri).not.toBe('');
    expect(engines.map(({ queries }) => queries.length)).toEqual([0, 1]);
    expect(JSON.parse(output('/api/public/backends'))).toHaveLength(2);
    expect(output('get enginecluster trino-etl')).toContain('false');

    const examples = resourceKinds.all.map(({ kind, example }) => manifest(kind, 'example', example));
    await writeFile(join(folder, 'examples.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items: examples }));
    await shell(`kubectl -n ${NAMESPACE} apply -f ${join(folder, 'examples.json')}`);
    const all = await resources();
    expect(all.filter((name) => name.endsWith('/example'))).toHaveLength(resourceKinds.all.length);
    await follow('docs/upgrades.md', '### From kubectl to the chart');
    await follow('docs/upgrades.md', '## Order');
    const backup = await readFile(join(folder, 'resources.yaml'), 'utf8');
    for (const { kind } of resourceKinds.all) expect(backup).toContain(`\n  kind: ${kind}\n`);
    await follow('docs/upgrades.md', '### From the chart to kubectl');
    expect(await resources()).toEqual(all);

    const removal = await follow('docs/install.md', '## Uninstall');
    for (const { singular } of resourceKinds.all)
      expect(removal('get enginegateway')).toContain(`${singular}.enginegateway.dev/example`);
    expect(await shell('kubectl get crd -o name')).not.toContain('enginegateway.dev');
  });
});
