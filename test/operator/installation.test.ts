import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type ControlPlane, controlPlaneAvailable, kubectlPath } from '../support/controlPlane.ts';
import { type GatewayProcess, startGatewayWithFile } from '../support/gatewayProcess.ts';
import { type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { baseSecrets, mountSecrets } from '../support/mountedSecrets.ts';

const run = promisify(execFile);
const { 'session/secret': sessionSecret, 'database/password': databasePassword } = baseSecrets;
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 40_000, interval: 100 });
const cluster = (name: string) => ({ name, proxyTo: `http://${name}:8080`, active: true, routingGroup: 'adhoc' });

// A pod runs the image; what is shown here is what kustomize makes of configuration, rights and callers.
describe.skipIf(!controlPlaneAvailable)('an installation by kustomize', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let folder: string;
  let gateway: GatewayProcess;
  beforeAll(async () => {
    plane = await startPlane();
  });
  afterAll(() => plane?.stop());
  afterEach(async () => {
    await gateway?.stop('SIGKILL');
    await rig?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Starts the gateway with the rendered configuration; what belongs to a pod is set for this machine. */
  const install = async (manifests: string): Promise<void> => {
    rig = await kubeRig(plane, { allNamespaces: manifests.endsWith('all-namespaces') });
    folder = await mkdtemp(join(tmpdir(), 'eg-installation-'));
    const { stdout } = await run(kubectlPath, ['kustomize', manifests]);
    const configMap = parseAllDocuments(stdout)
      .map((document) => document.toJS() as { kind: string; data: Readonly<Record<string, string>> })
      .find(({ kind }) => kind === 'ConfigMap');
    const config = parse(mountSecrets(join(folder, 'secrets'))(configMap?.data['gateway.yaml'] ?? '')) as Readonly<
      Record<string, object>
    >;
    const file = join(folder, 'gateway.yaml');
    await writeFile(
      file,
      stringify({
        ...config,
        queryHistory: { spillDirectory: join(folder, 'spill') },
        server: { ...config.server, address: '127.0.0.1' },
        serverConfig: { 'http-server.http.port': 0 },
      }),
    );
    gateway = await startGatewayWithFile(file, {
      KUBECONFIG: rig.kubeconfig,
      POD_NAMESPACE: rig.namespace,
      DATABASE_URL: rig.jdbcUrl,
    });
  };
  /** A service account with these rights on the resources; answers its token. */
  const account = async (
    name: string,
    binding: 'rolebinding' | 'clusterrolebinding',
    ...verbs: readonly string[]
  ): Promise<string> => {
    const role = binding === 'rolebinding' ? 'role' : 'clusterrole';
    const rights = [...verbs.map((verb) => `--verb=${verb}`), '--resource=engineclusters.enginegateway.dev'];
    await rig.kubectl(['create', 'serviceaccount', name]);
    await rig.kubectl(['create', role, name, ...rights]);
    await rig.kubectl(['create', binding, name, `--${role}=${name}`, `--serviceaccount=${rig.namespace}:${name}`]);
    return (await rig.kubectl(['create', 'token', name])).trim();
  };
  const add = async (name: string, token: string | null): Promise<Response> =>
    await fetch(`${gateway.url}/gateway/backend/modify/add`, {
      method: 'POST',
      body: JSON.stringify(cluster(name)),
      headers: {
        'Content-Type': 'application/json',
        ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
      },
    });

  test('of the base: it leads, follows its namespace, and lets in whom RBAC lets in', async () => {
    await install('manifests/base');
    await until(async () =>
      expect(await rig.kubectl(['get', 'lease', 'engine-gateway', '-o', 'jsonpath={.spec.holderIdentity}'])).not.toBe(
        '',
      ),
    );
    const editor = await account('editor', 'rolebinding', 'get', 'list', 'create', 'patch', 'update');
    const viewer = await account('viewer', 'rolebinding', 'get', 'list');
    const refused = await add('a', null);
    expect([refused.status, refused.headers.get('WWW-Authenticate')]).toEqual([401, expect.stringContaining('Bearer')]);
    expect((await add('a', viewer)).status).toBe(403);
    expect((await add('a', editor)).status).toBe(200);
    const login = await fetch(`${gateway.url}/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ username: '', password: editor }),
    });
    const session = ((await login.json()) as { data: { token: string } }).data.token;
    expect((await add('a', session)).status).toBe(409);
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', '--timeout=40s']);
    const notes = (): Promise<string> =>
      rig.kubectl(['get', 'events.events.k8s.io', '-o', 'jsonpath={range .items[*]}{.reason}: {.note}{"\\n"}{end}']);
    const who = `system:serviceaccount:${rig.namespace}:editor`;
    await until(async () =>
      expect(await notes()).toContain(`AddedByRest: ${who} (USER, API; kubernetes) added cluster a:`),
    );
    // It may renew what it holds: the right to is given by the Lease's name.
    const renewed = (): Promise<string> =>
      rig.kubectl(['get', 'lease', 'engine-gateway', '-o', 'jsonpath={.spec.renewTime}']);
    const before = await renewed();
    await until(async () => expect(await renewed()).not.toBe(before));
    const log = JSON.stringify(gateway.log);
    for (const secret of [editor, viewer, session, databasePassword, sessionSecret]) expect(log).not.toContain(secret);
  });

  test('of all namespaces: rights of the whole cluster count, those of one namespace do not', async () => {
    await install('manifests/overlays/all-namespaces');
    expect((await add('b', null)).status).toBe(401);
    expect(
      (await add('b', await account('local', 'rolebinding', 'get', 'list', 'create', 'patch', 'update'))).status,
    ).toBe(403);
    const token = await account('everywhere', 'clusterrolebinding', 'get', 'list', 'create', 'patch', 'update');
    expect((await add('b', token)).status).toBe(200);
    expect(await rig.kubectl(['get', 'ec', '-o', 'name'])).toBe('enginecluster.enginegateway.dev/b\n');
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/b', '--timeout=40s']);
  });
});
