import { createHash, generateKeyPairSync } from 'node:crypto';
import { CoreV1Api, KubeConfig, RbacAuthorizationV1Api } from '@kubernetes/client-node';
import { SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { accessSettings } from '../support/access.ts';
import { type ApiServer, startApi } from '../support/apiServer.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { type KubeProxy, startKubeProxy } from '../support/kubeProxy.ts';

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

  const start = async (more = '') => {
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromOptions({
      clusters: [{ name: 'proxied', server: proxy.url, skipTLSVerify: true }],
      users: [{ name: 'gateway', token: await tokenOf('gateway') }],
      contexts: [{ name: 'gateway', cluster: 'proxied', user: 'gateway' }],
      currentContext: 'gateway',
    });
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
});
