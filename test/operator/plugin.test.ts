import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import type { Outcome } from '../support/commandLine.ts';
import { type ControlPlane, controlPlaneAvailable, kubectlPath, sharedControlPlane } from '../support/controlPlane.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { kubeconfigText } from '../support/kubeconfig.ts';
import { createToken } from '../support/kubeRequests.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest } from '../support/kubeRig.ts';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';
import { cancel, runQuery, submit } from '../support/statementClient.ts';

const keys = sessionKeyPair();
const login = { ENGINE_GATEWAY_USER: 'root', ENGINE_GATEWAY_PASSWORD: 'root secret' };

describe.skipIf(!controlPlaneAvailable)('kubectl engine-gateway', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let engine: SimulatedEngine;
  let gateway: GatewayProcess;
  let folder: string;
  let url: string;

  beforeAll(async () => {
    plane = await sharedControlPlane();
    rig = await kubeRig(plane);
    folder = await mkdtemp(join(tmpdir(), 'eg-plugin-'));
    await symlink(resolve('bin/kubectl-engine_gateway.js'), join(folder, 'kubectl-engine_gateway'));
    engine = await startSimulatedEngine({ name: 'a', port: 0 });
    gateway = await startGateway({
      resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
      dataStore: { jdbcUrl: rig.jdbcUrl },
      queryHistory: { spillDirectory: folder },
      monitor: { taskDelay: '500ms' },
      requestAnalyzerConfig: { analyzeRequest: true },
      server: { address: '0.0.0.0' },
      authentication: {
        form: { selfSignKeyPair: { privateKeyRsa: keys.privateKeyRsa, publicKeyRsa: keys.publicKeyRsa } },
      },
      authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
      presetUsers: { root: { password: login.ENGINE_GATEWAY_PASSWORD, privileges: 'ADMIN_USER_API' } },
    });
    url = `http://127.0.0.1:${new URL(gateway.url).port}`;
    await rig.apply(
      'kubectl',
      clusterManifest('a', { proxyTo: engine.url, routingGroup: 'etl' }),
      ruleManifest('airflow', {
        condition: 'request.getHeader("X-Engine-Source") == "airflow"',
        routeTo: { routingGroup: 'etl' },
      }),
      ruleManifest('nowhere', { condition: 'false', routeTo: { routingGroup: 'none' } }),
      parse(await readFile('manifests/samples/kubectl/role.yaml', 'utf8')),
    );
    await applyService(Number(new URL(gateway.url).port));
    for (const name of ['oncall', 'guest']) {
      await rig.kubectl(['create', 'serviceaccount', name]);
      const token = await createToken(plane.config, rig.namespace, name);
      const { server, caData } = plane.config;
      const access = kubeconfigText({ server, 'certificate-authority-data': caData }, { token }, rig.namespace);
      await writeFile(join(folder, name), access);
    }
    const account = `--serviceaccount=${rig.namespace}:oncall`;
    await rig.kubectl(['create', 'rolebinding', 'plugin', '--role=engine-gateway-plugin', account]);
    await rig.kubectl(['wait', '--for=condition=Healthy', 'ec/a', '--timeout=60s']);
    await rig.kubectl(['wait', '--for=condition=Ready', 'rr/airflow', '--timeout=60s']);
    await rig.kubectl(['wait', '--for=condition=Ready=False', 'rr/nowhere', '--timeout=60s']);
  });
  afterAll(async () => {
    await gateway?.stop();
    await engine?.close();
    await rig?.stop();
    await rm(keys.folder, { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
    await plane?.stop();
  });

  /** Applies the Service of the manifests. The API server connects to pods of the namespace only, and not to loopback addresses. */
  const applyService = async (port: number): Promise<void> => {
    const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    const ip = addresses.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
    if (ip === undefined) throw new Error('this machine has no IPv4 address but loopback ones');
    const metadata = { name: 'engine-gateway', labels: { 'app.kubernetes.io/name': 'engine-gateway' } };
    const targetRef = { kind: 'Pod', name: 'engine-gateway', namespace: rig.namespace };
    const ofV1 = [
      { kind: 'Service', metadata, spec: { ports: [{ name: 'http', port: 8080, targetPort: port }] } },
      { kind: 'Pod', metadata, spec: { containers: [{ name: 'gateway', image: 'none' }] } },
      { kind: 'Endpoints', metadata, subsets: [{ addresses: [{ ip, targetRef }], ports: [{ name: 'http', port }] }] },
    ];
    const items = ofV1.map((each) => ({ apiVersion: 'v1', ...each }));
    await rig.kubectl(['apply', '-f', '-'], { apiVersion: 'v1', kind: 'List', items });
    const status = JSON.stringify({ status: { podIP: ip, podIPs: [{ ip }] } });
    await rig.kubectl(['patch', 'pod', 'engine-gateway', '--subresource=status', '--type=merge', '-p', status]);
  };

  /** Runs `kubectl engine-gateway` as an account. */
  const plugin = (
    args: readonly string[],
    environment: Readonly<Record<string, string>> = login,
    account = 'oncall',
  ): Promise<Outcome> =>
    new Promise((done) => {
      const PATH = [folder, dirname(process.execPath), process.env.PATH].join(delimiter);
      const env = { ...process.env, PATH, KUBECONFIG: join(folder, account), ...environment };
      execFile(kubectlPath, ['engine-gateway', ...args], { env, timeout: 50_000 }, (error, stdout, stderr) =>
        done({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      );
    });
  const succeed = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await plugin(args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };

  test('explains a statement by the rules of the gateway, and sends nothing', async () => {
    const sql = 'SELECT * FROM hive.sales.orders';
    const text = await succeed('explain', sql, '--user', 'ann', '--source', 'airflow');
    expect(text).toMatch(/^a: routing group etl by rule airflow\n/);
    expect(text).toContain('  fired       airflow {"routingGroup":"etl"}\n');
    expect(text).toContain('  eligible    a: active and healthy\n');
    const explanation = JSON.parse(await succeed('explain', sql, '--header', 'X-Engine-Source=airflow', '-o', 'json'));
    expect(explanation).toMatchObject({ outcome: 'routed', routingGroup: 'etl', rule: 'airflow' });
    expect(engine.queries).toEqual([]);
  });

  test('lists queries by filters, without control characters of statements', async () => {
    const source = { headers: { 'X-Engine-Source': 'airflow' } };
    const { id } = await runQuery(url, "SELECT '\u001b[31mred'", { user: 'ann', ...source });
    await vi.waitFor(async () => expect(await succeed('queries', 'user=ann')).toContain('FINISHED'), 30_000);
    const [header = '', ...rows] = (await succeed('queries', 'user=ann', '--since', '1h')).trim().split('\n');
    expect(header.split(/ +/)).toEqual('ID STATE USER SOURCE GROUP CLUSTER SINCE SECONDS QUERY'.split(' '));
    expect(rows.join('\n')).toMatch(new RegExp(`${id} +FINISHED +ann +airflow +etl +a `));
    expect(rows.join('\n')).not.toContain('\u001b');
    expect((await succeed('queries', 'user=nobody')).trim().split('\n')).toHaveLength(1);
    expect((await succeed('queries', '--queued')).trim().split('\n')).toHaveLength(1);
    expect(JSON.parse(await succeed('queries', 'text=red', '-o', 'json'))).toMatchObject({
      queries: [{ queryId: id }],
    });
  });

  test('shows the clusters and the problems of the gateway', async () => {
    await vi.waitFor(async () => expect(await succeed('status')).toContain('RuleUnresolved'), 30_000);
    const text = await succeed('status');
    expect(text.split('\n')[0]?.split(/ +/).slice(0, 4)).toEqual(['CLUSTER', 'GROUP', 'ACTIVE', 'HEALTH']);
    expect(text).toMatch(/^a +etl +active +HEALTHY$/m);
    expect(text).toMatch(/^warning +RuleUnresolved +nowhere /m);
    const { code, stdout, stderr } = await plugin(['status'], {});
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      `error: Service ${rig.namespace}/engine-gateway: The request has no credentials. Set ENGINE_GATEWAY_USER and ENGINE_GATEWAY_PASSWORD, or pass --token-file FILE (kubectl create token NAME).\n`,
    );
  });

  test('drains a cluster: waits for its queries, and activates it again', async () => {
    const running = await submit(url, 'SELECT 1', { user: 'ann', headers: { 'X-Engine-Source': 'airflow' } });
    const late = await plugin(['drain', 'a', '--timeout', '1s']);
    expect([late.code, late.stderr]).toEqual([
      1,
      expect.stringContaining('error: a is not drained after 1s; it stays deactivated: run the command again'),
    ]);
    await vi.waitFor(async () => {
      const list = await succeed('queries', '--running', 'cluster=a');
      expect(list).toMatch(new RegExp(`${running.id} +RUNNING +ann`));
    }, 30_000);
    const draining = plugin(['drain', 'a', '--timeout', '40s']);
    expect(await cancel(running.nextUri ?? '', { user: 'ann' })).toBeLessThan(300);
    const { code, stdout } = await draining;
    expect([code, stdout]).toEqual([0, 'a is drained: no query runs on it\n']);
    expect(await rig.kubectl(['get', 'ec', 'a', '-o', 'jsonpath={.status.active}'])).toBe('false');
    expect(await succeed('drain', 'a', '--undo')).toBe('a takes new queries\n');
  });

  test('calls an address in place of the API server, and logs in with the token of a file', async () => {
    const direct = await plugin(['queries', '--server', url, '-o', 'json']);
    expect(direct).toMatchObject({ code: 0, stderr: '' });
    await writeFile(join(folder, 'token'), 'no token\n');
    const wrong = await plugin(['queries', '--token-file', join(folder, 'token')]);
    expect(wrong).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('Authentication failed') });
  });

  test.each<readonly [string, readonly string[], string, string]>([
    [
      'an account without rights',
      ['queries'],
      'guest',
      'name the Service of the gateway with --service NAMESPACE/NAME',
    ],
    ['an unknown context', ['queries', '--context', 'prod'], 'oncall', 'has no context prod; it has x'],
    ['a missing kubeconfig', ['queries', '--kubeconfig', 'none'], 'oncall', '--kubeconfig: none cannot be read'],
    [
      'an unknown Service',
      ['queries', '--service', 'default/none'],
      'oncall',
      'you need rights to services/proxy there',
    ],
    ['a Service without a namespace', ['queries', '--service', 'none'], 'oncall', '--service: write NAMESPACE/NAME'],
    ['an unknown cluster', ['drain', 'b'], 'oncall', 'there is no cluster named b'],
    ['a filter without a value', ['queries', 'ann'], 'oncall', 'write NAME=VALUE, not ann'],
    [
      'a namespace without a gateway',
      ['queries', '--context', 'x', '-n', 'default'],
      'guest',
      '--service NAMESPACE/NAME',
    ],
    ['an unknown format', ['queries', '-o', 'yaml'], 'oncall', '-o: write json'],
    ['a duration without a unit', ['drain', 'a', '--timeout', '5'], 'oncall', '--timeout needs a unit: write 5s'],
    ['a wrong address', ['queries', '--server', 'localhost'], 'oncall', '--server: write http://HOST:PORT'],
    [
      'no gateway at the address',
      ['queries', '--server', 'http://127.0.0.1:1'],
      'oncall',
      'cannot be reached: ECONNREFUSED',
    ],
  ])('names the fix for %s', async (_name, args, account, message) => {
    const { code, stdout, stderr } = await plugin(args, login, account);
    expect(stderr).toContain(message);
    expect([code > 0, stdout]).toEqual([true, '']);
    expect(stderr).not.toContain('root secret');
  });
});
