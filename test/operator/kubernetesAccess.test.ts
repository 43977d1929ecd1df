import { readFileSync } from 'node:fs';
import { CoreV1Api, KubeConfig, RbacAuthorizationV1Api } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { requestExplanation } from '../../src/gateway/analysis/explainRequest.ts';
import type { Clock } from '../../src/model/clock.ts';
import { productNames } from '../../src/model/names.ts';
import { RoutingTableHolder } from '../../src/routing/routingTable.ts';
import { requestAnalysis } from '../../src/sql/analyzeRequest.ts';
import { accessSettings } from '../support/access.ts';
import { type ApiServer, type ServerOptions, startApi } from '../support/apiServer.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { defaultRuleCompiler } from '../support/resourceRules.ts';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';

/** A clock whose durations tests move; the ends of tokens are those of the real one. */
class TestClock implements Clock {
  ahead = 0;
  now = () => Date.now();
  monotonic = () => performance.now() + this.ahead;
}

const namespace = 'default';
const cluster = { name: 'c1', proxyTo: 'http://c1:8080', active: true, routingGroup: 'adhoc' };

/** The rules engine without rules, so that described requests are explained. */
function explainingRules(): NonNullable<ServerOptions['rules']> {
  const names = productNames('Engine');
  const compiler = defaultRuleCompiler({ rulesEngineEnabled: true });
  const reader = {
    names,
    statementPaths: ['/v1/statement'],
    analyzeRequest: false,
    analyze: requestAnalysis({ names, maxBodySize: 1000, clientsUseV2Format: false, cacheBytes: 1000 }),
    userOf: () => ({ name: null }) as never,
  };
  const explain = requestExplanation(new RoutingTableHolder(), reader, 'adhoc', (draft) => compiler.tryRule(draft), {});
  return {
    explain,
    ...{ routingRules: {} as never, edited: () => null, replays: {} as never },
    ...{ database: {} as never, replaySettings: {} as never, estimates: {} as never, sizeClasses: {} as never },
  };
}

describe.skipIf(!controlPlaneAvailable)('callers known to a real API server', () => {
  const clock = new TestClock();
  let plane: ControlPlane;
  let admin: KubeConfig;
  let api: ApiServer;
  /** The gateway's own account. */
  const own = new KubeConfig();

  /** A token of a service account, as `kubectl create token` makes it. */
  const tokenOf = async (name: string, audiences?: string[]): Promise<string> => {
    const request = await admin.makeApiClient(CoreV1Api).createNamespacedServiceAccountToken({
      name,
      namespace,
      body: { spec: { audiences: audiences ?? [], expirationSeconds: 600 } as never },
    });
    return request.status?.token ?? '';
  };

  const addAccount = async (name: string, rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[]) => {
    await admin.makeApiClient(CoreV1Api).createNamespacedServiceAccount({ namespace, body: { metadata: { name } } });
    const rbac = admin.makeApiClient(RbacAuthorizationV1Api);
    await rbac.createNamespacedRole({ namespace, body: { metadata: { name }, rules } });
    await rbac.createNamespacedRoleBinding({
      namespace,
      body: {
        metadata: { name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
        subjects: [{ kind: 'ServiceAccount', name, namespace }],
      },
    });
  };
  const apiGroups = ['enginegateway.dev'];

  beforeAll(async () => {
    plane = await sharedControlPlane();
    admin = new KubeConfig();
    admin.loadFromFile(plane.config.kubeconfigPath);
    await addAccount('viewer', [{ apiGroups, resources: ['engineclusters', 'routingrules'], verbs: ['get', 'list'] }]);
    await addAccount('deployer', [
      { apiGroups, resources: ['engineclusters'], verbs: ['get', 'list', 'create', 'update', 'patch'] },
    ]);
    await addAccount('owner', [{ apiGroups, resources: ['*'], verbs: ['*'] }]);
    await addAccount('stranger', [{ apiGroups: [''], resources: ['pods'], verbs: ['*'] }]);
    // The gateway itself may do no more than its manifest allows.
    await admin.makeApiClient(CoreV1Api).createNamespacedServiceAccount({
      namespace,
      body: { metadata: { name: 'engine-gateway' } },
    });
    const rbac = admin.makeApiClient(RbacAuthorizationV1Api);
    for (const document of parseAllDocuments(readFileSync('manifests/base/access-review.yaml', 'utf8'))) {
      const object = document.toJS();
      if (object.kind === 'ClusterRole') await rbac.createClusterRole({ body: object });
      else {
        for (const subject of object.subjects) subject.namespace = namespace;
        await rbac.createClusterRoleBinding({ body: object });
      }
    }
    own.loadFromOptions({
      clusters: [admin.getCurrentCluster()],
      users: [{ name: 'gateway', token: await tokenOf('engine-gateway') }],
      contexts: [{ name: 'gateway', cluster: admin.getCurrentCluster()?.name, user: 'gateway' }],
      currentContext: 'gateway',
    });
    api = await startApi({
      access: accessSettings('authentication: {kubernetes: {cacheDuration: 10s}}'),
      accessDependencies: { kubernetes: async () => ({ kubeConfig: own, namespace }), clock },
      rules: explainingRules(),
    });
  });
  afterAll(async () => {
    await api?.close();
    await plane?.stop();
  });

  const status = async (method: string, path: string, token: string, body?: string) =>
    (
      await api.call(method, path, {
        headers: { Authorization: `Bearer ${token}` },
        ...(body === undefined ? {} : { body }),
      })
    ).status;

  test.each([
    ['viewer', { list: 200, add: 403, update: 403, remove: 403 }, ['USER']],
    ['deployer', { list: 200, add: 200, update: 200, remove: 403 }, ['USER', 'API']],
    ['owner', { list: 200, add: 200, update: 200, remove: 200 }, ['ADMIN', 'USER', 'API']],
    ['stranger', { list: 403, add: 403, update: 403, remove: 403 }, null],
  ])('%s may do what RBAC says', async (name, expected, roles) => {
    const token = await tokenOf(name);
    const body = JSON.stringify({ ...cluster, name: `of-${name}` });
    expect({
      list: await status('GET', '/gateway/backend/all', token),
      add: await status('POST', '/gateway/backend/modify/add', token, body),
      update: await status('POST', '/gateway/backend/modify/update', token, body),
      remove: await status('POST', '/gateway/backend/modify/delete', token, `of-${name}`),
    }).toEqual(expected);
    const info = await api.call('POST', '/userinfo', { headers: { Authorization: `Bearer ${token}` } });
    if (roles === null) expect(info.status).toBe(403);
    else {
      const user = `system:serviceaccount:${namespace}:${name}`;
      expect(info.json().data).toEqual({ roles, permissions: [], userId: user, userName: user });
      const change = api.changes.find(({ object }) => object === `cluster of-${name}`);
      if (expected.add === 200) expect(change).toMatchObject({ user, roles, recognisedBy: 'kubernetes', before: null });
      else expect(change).toBeUndefined();
    }
  });

  test('a refusal names what RBAC lacks', async () => {
    const headers = { Authorization: `Bearer ${await tokenOf('viewer')}` };
    const response = await api.call('POST', '/gateway/backend/activate/c1', { headers });
    expect(response.json().error.message).toBe(
      '"system:serviceaccount:default:viewer" may not update engineclusters.enginegateway.dev.',
    );
  });

  test("a rule of one's own is explained for those who may change rules", async () => {
    await addAccount('ruler', [{ apiGroups, resources: ['routingrules'], verbs: ['list', 'update'] }]);
    const rule = { name: 'r', condition: 'true', actions: ['result.put("routingGroup", "a")'] };
    const explain = async (name: string, body: object) => {
      const headers = { Authorization: `Bearer ${await tokenOf(name)}` };
      const response = await api.call('POST', '/api/explain', { headers, body: JSON.stringify(body) });
      return [response.status, response.json().error?.message];
    };
    const refusal = '"system:serviceaccount:default:viewer" may not update routingrules.enginegateway.dev.';
    expect(await explain('viewer', { path: '/v1/statement', rule })).toEqual([403, refusal]);
    expect(await explain('viewer', { path: '/v1/statement' })).toEqual([200, undefined]);
    expect(await explain('ruler', { path: '/v1/statement', rule })).toEqual([200, undefined]);
  });

  test.each([
    ['nonsense', async () => 'nonsense'],
    ['for another audience', () => tokenOf('owner', ['other'])],
    [
      'changed after it was signed',
      async () => {
        const [head, , signature] = (await tokenOf('viewer')).split('.');
        const [, payload] = (await tokenOf('owner')).split('.');
        return `${head}.${payload}.${signature}`;
      },
    ],
  ])('a token is refused: %s', async (_, make) => {
    expect(await status('GET', '/gateway/backend/all', await make())).toBe(401);
  });

  test('taking a right away counts after the cache has run out', async () => {
    await addAccount('leaver', [{ apiGroups, resources: ['engineclusters'], verbs: ['list'] }]);
    const token = await tokenOf('leaver');
    expect(await status('GET', '/gateway/backend/all', token)).toBe(200);
    await admin.makeApiClient(RbacAuthorizationV1Api).deleteNamespacedRoleBinding({ name: 'leaver', namespace });
    clock.ahead += 10_001;
    await expect
      .poll(async () => {
        clock.ahead += 10_001;
        return status('GET', '/gateway/backend/all', token);
      })
      .toBe(403);
    await admin.makeApiClient(CoreV1Api).deleteNamespacedServiceAccount({ name: 'leaver', namespace });
    await expect
      .poll(
        async () => {
          clock.ahead += 10_001;
          return status('GET', '/gateway/backend/all', token);
        },
        { timeout: 30_000 },
      )
      .toBe(401);
  });

  test('a token is the password of a session', async () => {
    expect((await api.call('POST', '/loginType')).json().data).toBe('kubernetes');
    const login = await api.call('POST', '/login', {
      body: JSON.stringify({ username: '', password: await tokenOf('owner') }),
    });
    const session = login.json().data.token;
    expect(await status('GET', '/gateway/backend/all', session)).toBe(200);
    const wrong = await api.call('POST', '/login', { body: '{"username":"","password":"nonsense"}' });
    expect(wrong.status).toBe(401);
  });

  test('beside a form a token is sent without a name, and a password with one', async () => {
    const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
    const both = await startApi({
      access: accessSettings(`
authentication:
  kubernetes: {}
  form: {selfSignKeyPair: {privateKeyRsa: ${privateKeyRsa}, publicKeyRsa: ${publicKeyRsa}}}
presetUsers:
  ada: {password: ada-secret}
`),
      accessDependencies: { kubernetes: async () => ({ kubeConfig: own, namespace }) },
    });
    expect((await both.call('GET', '/api/logins')).json()).toEqual({
      methods: [{ kind: 'form' }, { kind: 'kubernetes' }],
    });
    const token = await tokenOf('owner');
    const whoLogsIn = async (username: string, password: string) => {
      const login = await both.call('POST', '/login', { body: JSON.stringify({ username, password }) });
      if (login.status !== 200) return login.status;
      const headers = { Authorization: `Bearer ${login.json().data.token}` };
      const { userId, method } = (await both.call('POST', '/userinfo', { headers })).json().data;
      return [userId, method];
    };
    expect(await whoLogsIn('ada', 'ada-secret')).toEqual(['ada', 'presetUsers']);
    expect(await whoLogsIn('', token)).toEqual([`system:serviceaccount:${namespace}:owner`, 'kubernetes']);
    expect([await whoLogsIn('ada', token), await whoLogsIn('', 'ada-secret')]).toEqual([401, 401]);
    await both.close();
  });

  test('without the API server nobody is let in', async () => {
    const lost = new KubeConfig();
    lost.loadFromOptions({
      clusters: [{ name: 'lost', server: 'http://127.0.0.1:9' }],
      users: [{ name: 'lost' }],
      contexts: [{ name: 'lost', cluster: 'lost', user: 'lost' }],
      currentContext: 'lost',
    });
    const away = await startApi({
      access: accessSettings('authentication: {kubernetes: {}}'),
      accessDependencies: { kubernetes: async () => ({ kubeConfig: lost, namespace }) },
    });
    const token = await tokenOf('owner');
    const response = await away.call('GET', '/gateway/backend/all', { headers: { Authorization: `Bearer ${token}` } });
    expect([response.status, response.json().error.code]).toEqual([503, 'EG_IDENTITY_UNAVAILABLE']);
    expect(away.logged.join('\n')).not.toContain(token);
    await away.close();
  });
});
