import { execFile } from 'node:child_process';
import { appendFile, chmod, copyFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type ControlPlane, controlPlaneAvailable, kubectlPath } from '../support/controlPlane.ts';
import { blocksOf } from '../support/guide.ts';
import { renderedObjects } from '../support/helm.ts';
import {
  clusterManifest,
  type KubeOperator,
  type KubeRig,
  kubeRig,
  limitManifest,
  ruleManifest,
  startPlane,
} from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';
import { programArguments } from '../support/program.ts';
import { sampleRequest } from '../support/ruleAttempt.ts';

const run = promisify(execFile);
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 40_000, interval: 100 });
const teams = [
  ...['ads', 'billing', 'catalog', 'data-science', 'finance', 'fraud'],
  ...['logistics', 'marketing', 'pricing', 'risk', 'search', 'support'],
];
const groupsOf = (root: string) =>
  manifest('ResourceGroupConfiguration', 'attack', {
    environment: 'production',
    rootGroups: [{ name: root, softMemoryLimit: '50%', hardConcurrencyLimit: 5, maxQueued: 1 }],
    selectors: [{ group: root }],
  });

describe.skipIf(!controlPlaneAvailable)('the sample repository of twelve teams, by its README', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let operator: KubeOperator;
  /** A copy of the repository, with the namespace of the rig's gateway. */
  let folder: string;
  let page: string;

  beforeAll(async () => {
    plane = await startPlane();
    rig = await kubeRig(plane, { allNamespaces: true });
    operator = await rig.startOperator();
    folder = await mkdtemp(join(tmpdir(), 'teams-'));
    await cp('manifests/samples/teams', folder, { recursive: true });
    page = await readFile(join(folder, 'README.md'), 'utf8');
    const gateway = join(folder, 'platform/gateway/kustomization.yaml');
    const text = await readFile(gateway, 'utf8');
    await writeFile(gateway, text.replace('namespace: engine-gateway', `namespace: ${rig.namespace}`));
    await mkdir(join(folder, 'bin'));
    await symlink(kubectlPath, join(folder, 'bin/kubectl'));
    const program = (await programArguments('shipped')).map((each) => `"${each}"`).join(' ');
    await writeFile(join(folder, 'bin/engine-gateway'), `#!/bin/sh\nexec "${process.execPath}" ${program} "$@"\n`);
    await chmod(join(folder, 'bin/engine-gateway'), 0o755);
    await copyFile(plane.config.kubeconfigPath, join(folder, 'kubeconfig'));
    await rig.kubectl(['apply', '-f', 'manifests/base/user-roles.yaml']);
    // Engines run before the gateway knows them.
    const service = (namespace: string, name: string, labels = {}) => ({
      ...{ apiVersion: 'v1', kind: 'Service', metadata: { namespace, name, labels } },
      spec: { ports: [{ name: 'http', port: 8080 }] },
    });
    const chart = { 'app.kubernetes.io/name': 'trino', 'app.kubernetes.io/component': 'coordinator' };
    for (const name of teams) {
      await rig.apply(
        'engines',
        { apiVersion: 'v1', kind: 'Namespace', metadata: { name } },
        service(name, 'trino', chart),
      );
    }
    await rig.apply('engines', service('finance', 'trino-reports'));
    await shell(blocksOf(page, '## Install')[0] ?? '');
  }, 180_000);
  afterAll(async () => {
    await rig?.stop();
    await plane?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const shell = async (command: string): Promise<string> => {
    const PATH = `${join(folder, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`;
    const env = { ...process.env, PATH, KUBECONFIG: join(folder, 'kubeconfig') };
    return (await run('bash', ['-euo', 'pipefail', '-c', command], { env, cwd: folder, timeout: 150_000 })).stdout;
  };
  const decide = (group: string, source: string | null) =>
    operator.table.current.rules?.decide({
      ...sampleRequest,
      headers: ['X-Engine-User', 'ann', ...(source === null ? [] : ['X-Engine-Source', source])],
      sender: { user: 'ann', userInfo: null, membership: { groups: [group], sources: [], digest: group } },
    });
  /** Applies a manifest as Argo CD and Flux do for a team. */
  const applyAs = (team: string, namespace: string, document: object): Promise<string> => {
    const as = `--as=system:serviceaccount:${team}:deploy`;
    return rig.kubectl(['-n', namespace, as, 'apply', '--server-side', '-f', '-'], document);
  };

  test('all that platform and teams declare is accepted and active', async () => {
    const kinds = 'et,ec,ecd,rr,ql,rgc';
    await until(async () => {
      const list = await rig.kubectl(['get', kinds, '-A', '-o', 'name']);
      const counts = Map.groupBy(list.trim().split('\n'), (name) => name.split('.')[0]);
      expect(Object.fromEntries([...counts].map(([kind, names]) => [kind, names.length]))).toEqual({
        ...{ enginetenant: 13, enginecluster: 15, engineclusterdiscovery: 1 },
        ...{ routingrule: 16, querylimit: 12, resourcegroupconfiguration: 4 },
      });
    });
    await shell(`kubectl wait --for=condition=Ready ${kinds} -A --all --timeout=60s`);
    await until(async () => expect(await rig.kubectl(['get', 'et'])).toMatch(/^finance +True +1 +2 +2 /m));
    const finance = { rule: 'finance-reports', routingGroup: 'finance-reports', denied: null };
    await until(() => expect(decide('finance', 'reports')).toMatchObject(finance));
    for (const team of teams) {
      if (team === 'search') continue;
      expect(decide(team, 'notebook')).toMatchObject({ rule: `${team}-queries`, routingGroup: `${team}-queries` });
    }
    expect(decide('search', 'search-ui')).toMatchObject({ rule: 'searchers', routingGroup: 'search-queries' });
    expect(decide('guests', 'notebook')).toMatchObject({ rule: 'everyone', routingGroup: 'shared' });
    expect(decide('finance', null)?.denied?.rule).toBe('source-required');
    const clusters = [...operator.table.current.clusters.values()].map((each) => `${each.name} ${each.routingGroup}`);
    expect(clusters).toContain('logistics-trino logistics-queries');
    expect(clusters).toContain('finance-reports finance-reports');
  });

  test('a team writes in its namespace only, and no tenants', async () => {
    await expect(applyAs('finance', 'risk', clusterManifest('risk-x'))).rejects.toMatchObject({
      stderr: expect.stringMatching(/"system:serviceaccount:finance:deploy" cannot .*engineclusters.* "risk"/),
    });
    const tenant = manifest('EngineTenant', 'finance', { namespaces: { names: ['finance', 'risk'] } });
    await expect(applyAs('finance', 'finance', tenant)).rejects.toMatchObject({
      stderr: expect.stringMatching(/cannot .*enginetenants.* at the cluster scope/),
    });
  });

  const group = { routingGroup: 'finance-queries' };
  const ofRisk = { routingGroup: 'risk-queries' };
  test.each([
    [
      'a group of risk',
      'finance',
      clusterManifest('finance-x', ofRisk),
      'RoutingGroupNotGranted',
      'have it added to spec.routingGroups of',
    ],
    [
      'a name of risk',
      'finance',
      clusterManifest('finance-y', { name: 'risk-new', ...group }),
      'NameNotGranted',
      'have it added to spec.names of',
    ],
    [
      'a route to risk',
      'finance',
      ruleManifest('finance-z', { routeTo: ofRisk }),
      'RoutingGroupNotGranted',
      'have it added to spec.routingGroups of',
    ],
    [
      'a root group',
      'finance',
      groupsOf('marketing'),
      'ResourceGroupNotGranted',
      'have it added to spec.resourceGroups.rootGroups of',
    ],
    [
      'an environment',
      'risk',
      groupsOf('finance'),
      'EnvironmentNotGranted',
      'have it added to spec.resourceGroups.environments of',
    ],
    [
      'rules',
      'search',
      ruleManifest('search-all', { routeTo: ofRisk }),
      'DecidesNotGranted',
      'have spec.decides added to',
    ],
    ['limits', 'search', limitManifest('all'), 'DecidesNotGranted', 'have spec.decides added to'],
  ])('%s without a grant, by %s: the message names it', async (_, team, document, reason, grant) => {
    await applyAs(team, team, document);
    const { kind, metadata } = document as { readonly kind: string; readonly metadata: { readonly name: string } };
    const path = 'jsonpath={.status.conditions[?(@.type=="Accepted")]}';
    await until(async () => {
      const text = await rig.kubectl(['-n', team, 'get', kind, metadata.name, '-o', path]);
      expect(JSON.parse(text === '' ? '{}' : text)).toMatchObject({
        ...{ status: 'False', reason },
        message: expect.stringContaining(`${grant} the EngineTenant ${team}`),
      });
    });
  });

  test('a rule of a team for every query decides those of its tenant only', async () => {
    const always = { priority: 1_000, condition: 'true', stop: true, routeTo: group };
    await applyAs('finance', 'finance', ruleManifest('finance-all', always));
    await until(() => expect(decide('finance', 'reports')).toMatchObject({ rule: 'finance-all' }));
    expect(decide('risk', 'reports')).toMatchObject({ rule: 'risk-queries', routingGroup: 'risk-queries' });
    expect(decide('guests', 'reports')).toMatchObject({ rule: 'everyone' });
  });

  test('the checks before a merge pass, and fail for another decision', async () => {
    const kubernetes = { source: 'kubernetes', namespace: '*', writeNamespace: rig.namespace };
    const config = { resources: kubernetes, dataStore: { jdbcUrl: rig.jdbcUrl } };
    await writeFile(join(folder, 'gateway.yaml'), stringify(config));
    const [check = '', compare = ''] = blocksOf(page, '## Check a change before it is merged');
    expect(await shell(check)).toContain('no mistakes');
    expect(await shell(compare)).toContain('0 queries: 0 alike, 0 would move');
    await appendFile(
      join(folder, 'tests/expected.txt'),
      'risk reports.json routing group risk-reports (rule risk-reports)\n',
    );
    await expect(shell(check)).rejects.toMatchObject({
      stdout: expect.stringContaining('risk, reports.json: routing group risk-queries (rule risk-queries); expected:'),
    });
  });

  test('Argo CD and Flux write the folder of each team as its account, in its namespace', async () => {
    const rendered = async (name: string) => renderedObjects(await shell(`kubectl kustomize ${name}`));
    const kustomizations = (await rendered('flux')).filter(({ metadata }) => metadata.name === 'team');
    expect(kustomizations.map(({ metadata }) => metadata.namespace).sort()).toEqual(teams);
    for (const { metadata, spec } of kustomizations) {
      expect(spec).toMatchObject({ path: `./teams/${metadata.namespace}`, serviceAccountName: 'deploy', prune: true });
    }
    const project = (await rendered('argocd')).find(({ kind }) => kind === 'AppProject')?.spec as {
      readonly destinations: readonly { readonly namespace: string }[];
    };
    expect(project.destinations.map(({ namespace }) => namespace)).toEqual(teams);
    expect(project).toMatchObject({
      destinationServiceAccounts: [{ namespace: '*', defaultServiceAccount: 'deploy' }],
    });
    const folders = await shell("ls -d teams/* | grep -v '^teams/base$'");
    expect(
      folders
        .trim()
        .split('\n')
        .map((path) => basename(path)),
    ).toEqual(teams);
  });
});
