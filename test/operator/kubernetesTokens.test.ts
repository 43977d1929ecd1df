import { createHash, generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CoreV1Api, KubeConfig, RbacAuthorizationV1Api } from '@kubernetes/client-node';
import { SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { Clock } from '../../src/model/clock.ts';
import { accessSettings } from '../support/access.ts';
import { type ApiServer, startApi } from '../support/apiServer.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { closeAll, startServer, until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { type KubeProxy, startKubeProxy } from '../support/kubeProxy.ts';
import { manifest } from '../support/manifest.ts';

/** A clock of which tests move the wall and the durations on their own. */
class TestClock implements Clock {
  wall = 0;
  ahead = 0;
  now = () => Date.now() + this.wall;
  monotonic = () => performance.now() + this.ahead;
}

const namespace = 'kubernetes-tokens';
const CACHE_MS = 10_000;
const MINUTES_5 = 300_000;
const reviewPath = '/apis/authentication.k8s.io/v1/tokenreviews';
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

describe.skipIf(!controlPlaneAvailable)('tokens of a Kubernetes cluster', () => {
  let plane: ControlPlane;
  let admin: KubeConfig;
  let proxy: KubeProxy;
  let clock: TestClock;
  const open: ApiServer[] = [];

  const tokenOf = async (name: string, expirationSeconds = 600, audiences: string[] = []): Promise<string> => {
    const request = await admin.makeApiClient(CoreV1Api).createNamespacedServiceAccountToken({
      name,
      namespace,
      body: { spec: { audiences, expirationSeconds } as never },
    });
    return request.status?.token ?? '';
  };
  const addAccount = async (name: string) => {
    await admin.makeApiClient(CoreV1Api).createNamespacedServiceAccount({ namespace, body: { metadata: { name } } });
    await admin.makeApiClient(RbacAuthorizationV1Api).createNamespacedRoleBinding({
      namespace,
      body: {
        metadata: { name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'lister' },
        subjects: [{ kind: 'ServiceAccount', name, namespace }],
      },
    });
  };
  /** Well-formed tokens that no API server has issued. */
  const junk = (index: number, claims: object = {}) =>
    new SignJWT({ sub: `junk-${index}`, exp: Math.floor(Date.now() / 1000) + 600, ...claims })
      .setProtectedHeader({ alg: 'ES256' })
      .sign(privateKey);

  beforeAll(async () => {
    plane = await sharedControlPlane();
    admin = new KubeConfig();
    admin.loadFromFile(plane.config.kubeconfigPath);
    await admin.makeApiClient(CoreV1Api).createNamespace({ body: { metadata: { name: namespace } } });
    await admin.makeApiClient(RbacAuthorizationV1Api).createNamespacedRole({
      namespace,
      body: {
        metadata: { name: 'lister' },
        rules: [{ apiGroups: ['enginegateway.dev'], resources: ['engineclusters'], verbs: ['list'] }],
      },
    });
    for (const name of ['ann', 'ben', 'new']) await addAccount(name);
    await admin.makeApiClient(CoreV1Api).createNamespacedServiceAccount({
      namespace,
      body: { metadata: { name: 'gateway' } },
    });
    await admin.makeApiClient(RbacAuthorizationV1Api).createClusterRoleBinding({
      body: {
        metadata: { name: namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:auth-delegator' },
        subjects: [{ kind: 'ServiceAccount', name: 'gateway', namespace }],
      },
    });
    proxy = await startKubeProxy(plane);
  });
  beforeEach(() => {
    clock = new TestClock();
  });
  afterEach(async () => {
    proxy?.hold(null);
    await Promise.all(open.splice(0).map((api) => api.close()));
  });
  afterAll(async () => {
    await proxy?.close();
    await plane?.stop();
  });

  /** Access of the gateway's own account, through the proxy. */
  const proxiedConfig = async (): Promise<KubeConfig> => {
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromOptions({
      clusters: [{ name: 'proxied', server: proxy.url, skipTLSVerify: true }],
      users: [{ name: 'gateway', token: await tokenOf('gateway') }],
      contexts: [{ name: 'gateway', cluster: 'proxied', user: 'gateway' }],
      currentContext: 'gateway',
    });
    return kubeConfig;
  };
  const start = async (more = '') => {
    const kubeConfig = await proxiedConfig();
    const api = await startApi({
      access: accessSettings(`
authentication:
  session: {secret: a secret of thirty-two characters}
  loginLimit: {maxAttempts: 2, window: 10m}
  kubernetes: {cacheDuration: ${CACHE_MS}ms${more}}`),
      accessDependencies: {
        kubernetes: async () => ({ kubeConfig, namespace }),
        trustPeer: (address) => address === '127.0.0.1',
        clock,
      },
    });
    open.push(api);
    return api;
  };
  const list = async (api: ApiServer, token: string, from = '203.0.113.7') => {
    const headers = { Authorization: `Bearer ${token}`, 'X-Forwarded-For': from };
    const answer = await api.call('GET', '/gateway/backend/all', { headers });
    return [answer.status, answer.status === 200 ? null : answer.json().error.message];
  };
  const logIn = (api: ApiServer, token: string) =>
    api.call('POST', '/login', { body: JSON.stringify({ username: '', password: token }) });
  const sessionOf = async (api: ApiServer, token: string): Promise<string> =>
    (await logIn(api, token)).json().data.token;
  const reviews = () => proxy.paths.filter((path) => path === reviewPath).length;

  describe('sessions', () => {
    test('end when the token ends that began them', async () => {
      const api = await start();
      const login = await logIn(api, await tokenOf('ann', 600));
      const maxAge = /Max-Age=(\d+)/.exec(login.headers['set-cookie']?.[0] ?? '')?.[1];
      expect(Number(maxAge)).toBeGreaterThan(590);
      expect(Number(maxAge)).toBeLessThan(602);
      const session = login.json().data.token;
      clock.wall += 590_000;
      expect(await list(api, session)).toEqual([200, null]);
      clock.wall += 12_000;
      expect(await list(api, session)).toEqual([401, 'The session has run out.']);
    });

    test('end within 5 minutes when the API server no longer accepts the token', async () => {
      const api = await start();
      await addAccount('leaver');
      const session = await sessionOf(api, await tokenOf('leaver', 3600));
      expect(await list(api, session)).toEqual([200, null]);
      await admin.makeApiClient(CoreV1Api).deleteNamespacedServiceAccount({ name: 'leaver', namespace });
      await expect
        .poll(
          async () => {
            clock.ahead += MINUTES_5;
            return list(api, session);
          },
          { timeout: 30_000 },
        )
        .toEqual([401, 'The token of the session is no longer accepted: The API server does not accept the token.']);
    });

    test('lose within 5 minutes a right that RBAC takes away', async () => {
      const api = await start();
      await addAccount('mover');
      const session = await sessionOf(api, await tokenOf('mover', 3600));
      expect(await list(api, session)).toEqual([200, null]);
      await admin.makeApiClient(RbacAuthorizationV1Api).deleteNamespacedRoleBinding({ name: 'mover', namespace });
      await expect
        .poll(async () => {
          clock.ahead += MINUTES_5;
          return (await list(api, session))[0];
        })
        .toBe(403);
    });

    test('are known to replicas with the same secret, fit into a cookie and do not show the token', async () => {
      const [one, other] = [await start(), await start()];
      const token = await tokenOf('ann');
      const session = await sessionOf(one, token);
      expect(await list(other, session)).toEqual([200, null]);
      expect(session.length).toBeLessThan(3000);
      const payload = Buffer.from(session.split('.')[1] ?? '', 'base64url').toString();
      const [header = '', claims = '', signature = ''] = token.split('.');
      for (const part of [header, claims, signature]) expect(payload).not.toContain(part);
    });
  });

  describe('that cannot be right', () => {
    test.each<[string, string, () => Promise<string> | string]>([
      [
        'no JWT',
        'The token is not a JWT; clusters with other tokens need authentication.kubernetes.opaqueTokens: true.',
        () => 'nonsense',
      ],
      [
        'two parts',
        'The token is not a JWT; clusters with other tokens need authentication.kubernetes.opaqueTokens: true.',
        () => 'aGk.aGk',
      ],
      ['parts that are no JSON', 'The token is not a JWT that can be read.', () => 'aGk.aGk.aGk'],
      [
        'no signature algorithm',
        'The token is not signed.',
        async () => `${Buffer.from('{"alg":"none"}').toString('base64url')}.${(await junk(1)).split('.')[1]}.aGk`,
      ],
      [
        'a shared secret',
        'The token is not signed.',
        () => new SignJWT({}).setProtectedHeader({ alg: 'HS256' }).sign(createHash('sha256').update('x').digest()),
      ],
      ['the past', 'The token has expired.', () => junk(1, { exp: Math.floor(Date.now() / 1000) - 120 })],
      ['another audience', 'The token is for another audience.', () => tokenOf('ann', 600, ['other'])],
    ])('are refused without asking the API server: %s', async (_, message, make) => {
      const api = await start(', audiences: [engine-gateway]');
      const token = await make();
      const before = reviews();
      expect(await list(api, token)).toEqual([401, message]);
      expect(reviews()).toBe(before);
    });

    test('opaqueTokens: true shows others to the API server too', async () => {
      const api = await start(', opaqueTokens: true');
      const before = reviews();
      expect(await list(api, 'opaque-token')).toEqual([401, 'The API server does not accept the token.']);
      expect(reviews()).toBe(before + 1);
    });
  });

  describe('that nobody has issued', () => {
    test('are limited by address, and crowd out nobody who is known', async () => {
      const api = await start();
      const known = await tokenOf('ann');
      expect(await list(api, known)).toEqual([200, null]);
      const before = reviews();
      const found: unknown[] = [];
      for (let index = 0; index < 25; index++) found.push((await list(api, await junk(index)))[0]);
      expect(found.slice(0, 20)).toEqual(Array(20).fill(401));
      expect(found.slice(20)).toEqual(Array(5).fill(429));
      expect(reviews() - before).toBe(20);
      // From the same address: one that was accepted before, also when it has to be reviewed again.
      expect(await list(api, known)).toEqual([200, null]);
      clock.ahead += CACHE_MS + 1;
      expect(await list(api, known)).toEqual([200, null]);
      expect(reviews() - before).toBe(21);
      expect((await list(api, await tokenOf('new')))[0]).toBe(429);
      expect(await list(api, await tokenOf('new'), '203.0.113.8')).toEqual([200, null]);
    });

    test('leave room for those who are known while the API server answers slowly', async () => {
      const api = await start();
      const known = await tokenOf('ben');
      expect(await list(api, known)).toEqual([200, null]);
      clock.ahead += CACHE_MS + 1;
      const tokens = await Promise.all(Array.from({ length: 60 }, (_, index) => junk(index)));
      proxy.hold((path) => path === reviewPath);
      let refused = 0;
      // 20 of one address, of which 8 are asked about, and 8 each of five others; of all, 32 are asked about.
      const flood = tokens.map(async (token, index) => {
        const [found] = await list(api, token, index < 20 ? '198.51.100.1' : `192.0.2.${index % 5}`);
        refused += 1;
        return found;
      });
      await expect.poll(() => [proxy.held, refused]).toEqual([32, 28]);
      const listing = list(api, known);
      await expect.poll(() => proxy.held).toBe(33);
      proxy.hold(null);
      expect(await listing).toEqual([200, null]);
      const statuses = await Promise.all(flood);
      expect(statuses.filter((status) => status === 401)).toHaveLength(32);
      expect(new Set(statuses)).toEqual(new Set([401, 429, 503]));
    });
  });

  describe('that come with queries', () => {
    const audience = 'engine-gateway';
    const received: IncomingHttpHeaders[] = [];
    let folder: string;
    let gateway: GatewayProcess;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'kubernetes-users-'));
      const engine = await startServer((incoming, response) => {
        incoming.resume();
        response.setHeader('content-type', 'application/json');
        if (incoming.method === 'GET') return void response.end('{"starting":false}');
        received.push(incoming.headers);
        const id = `20260101_000000_${String(received.length).padStart(5, '0')}_pods0`;
        response.end(JSON.stringify({ id, stats: { state: 'FINISHED' } }));
      });
      const resource = (kind: string, spec: object) => stringify(manifest(kind, 'a', spec));
      const condition = `engineRequestUser.isInGroup("system:serviceaccounts:${namespace}")`;
      await writeFile(
        join(folder, 'resources.yaml'),
        [
          resource('EngineCluster', { proxyTo: engine.url, routingGroup: 'adhoc' }),
          resource('RoutingRule', { priority: 1, condition, routeTo: { routingGroup: 'pods' } }),
        ].join('---\n'),
      );
      const kubeConfig = await proxiedConfig();
      const kubeconfig = join(folder, 'kubeconfig');
      await writeFile(kubeconfig, kubeConfig.exportConfig());
      gateway = await startGateway({
        authentication: 'none',
        resources: { source: 'directory', directory: folder, kubeconfig },
        dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
        queryHistory: { spillDirectory: join(folder, 'spill') },
        requestAnalyzerConfig: {
          analyzeRequest: true,
          kubernetesTokens: { audiences: [audience], cacheDuration: '1h' },
        },
        userMapping: { pattern: 'system:serviceaccount:[^:]*:(.*)', rewriteUserHeader: true },
        userGroups: { tokenReview: {} },
      });
      const state = async () => (await fetch(`${gateway.url}/api/public/backends/a/state`)).text();
      await until(async () => (await state()).includes('"HEALTHY"'), 'the cluster to be healthy');
    });
    afterAll(async () => {
      await gateway?.stop();
      await closeAll();
      await rm(folder, { recursive: true, force: true });
    });

    const submit = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(`${gateway.url}/v1/statement`, { method: 'POST', headers, body: 'SELECT 1' });
      const { id } = (await answer.json()) as { readonly id: string };
      const query = await fetch(`${gateway.url}/api/queries/${id}`);
      return (await query.json()) as { readonly user: string | null; readonly decision: object };
    };

    test('name their service account and its groups, and go to nobody but the API server', async () => {
      const token = await tokenOf('ann', 600, [audience]);
      const before = reviews();
      expect(await submit(token)).toMatchObject({
        user: 'ann',
        routingGroup: 'pods',
        decision: {
          userMapping: { from: `system:serviceaccount:${namespace}:ann`, isForwarded: true },
          userGroups: [
            {
              source: 'tokenReview',
              groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
            },
          ],
        },
      });
      expect(received.at(-1)).toMatchObject({ 'x-engine-user': 'ann' });
      expect(received.at(-1)).not.toHaveProperty('authorization');
      await submit(token);
      expect(reviews()).toBe(before + 1);
      expect(JSON.stringify(gateway.log)).not.toContain(token.split('.')[2]);
    });

    test('that the API server does not accept name nobody, and go to nobody else either', async () => {
      const forged = await junk(1, { aud: [audience], 'kubernetes.io': { namespace }, email: 'ann' });
      const before = reviews();
      expect(await submit(forged)).toMatchObject({ user: null, routingGroup: 'adhoc' });
      expect(received.at(-1)).not.toHaveProperty('authorization');
      expect(reviews()).toBe(before + 1);
    });

    test('for other audiences are as any token', async () => {
      const before = reviews();
      const other = await tokenOf('ann', 600, ['another']);
      expect(await submit(other)).toMatchObject({ user: null, routingGroup: 'adhoc' });
      expect(received.at(-1)).toMatchObject({ authorization: `Bearer ${other}` });
      expect(reviews()).toBe(before);
    });

    test('are not believed while the API server cannot be asked', async () => {
      proxy.hold((path) => path === reviewPath);
      expect(await submit(await tokenOf('ben', 600, [audience]))).toMatchObject({ user: null, routingGroup: 'adhoc' });
      expect(await submit(await tokenOf('ann', 600, ['another']))).toMatchObject({ user: null });
    });
  });
});
