import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { requestExplanation } from '../../src/gateway/analysis/explainRequest.ts';
import { productNames } from '../../src/model/names.ts';
import { clusterInventory } from '../../src/operator/registry/clusterRegistry.ts';
import { RoutingRules } from '../../src/operator/registry/routingRules.ts';
import { selectQueries } from '../../src/replay/selection.ts';
import { requestAnalysis } from '../../src/sql/analyzeRequest.ts';
import { accessSettings } from '../support/access.ts';
import { type ApiServer, startApiOver } from '../support/apiServer.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { defaultDeletionGuard } from '../support/defaults.ts';
import { createToken } from '../support/kubeRequests.ts';
import {
  clusterManifest,
  groupManifest,
  type KubeOperator,
  type KubeRig,
  kubeRig,
  limitManifest,
  ruleManifest,
  startPlane,
} from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';
import { queryOutcome, queryRecord } from '../support/queryRecords.ts';
import { sampleRequest } from '../support/ruleAttempt.ts';

const noUser = { user: null, userInfo: null };

type Condition = { readonly status: string; readonly reason: string; readonly message: string };

/** Accounts of two teams, each with the roles to view and edit in the namespace of its tenant, `north` and `south`. */
describe.skipIf(!controlPlaneAvailable)('two teams on a real API server', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  let operator: KubeOperator;
  let api: ApiServer<KubeOperator['registry']>;
  const until = (check: () => void | Promise<void>): Promise<void> =>
    vi.waitFor(check, { timeout: 40_000, interval: 50 });
  const accountOf = (team: string) => `system:serviceaccount:${team}:team`;
  /** Applies as the account of the team of north. @throws with the message of the API server */
  const attack = (namespace: string, document: object): Promise<string> =>
    rig.kubectl(['-n', namespace, `--as=${accountOf('north')}`, 'apply', '--server-side', '-f', '-'], document);
  const conditionOf = async (namespace: string, object: string, type: string): Promise<Partial<Condition>> => {
    const path = `jsonpath={.status.conditions[?(@.type=="${type}")]}`;
    const text = await rig.kubectl(['-n', namespace, 'get', object, '-o', path]);
    return JSON.parse(text === '' ? '{}' : text);
  };
  const decide = (user: string) =>
    operator.table.current.rules?.decide({ ...sampleRequest, sender: { user, userInfo: null } });
  const denial = (message: string) => ({ routeTo: undefined, deny: { message } });
  const rootGroup = { name: 'north', softMemoryLimit: '50%', hardConcurrencyLimit: 5, maxQueued: 1 };
  const groupsOf = (spec: object) =>
    manifest('ResourceGroupConfiguration', 'groups', {
      ...{ environment: 'test', rootGroups: [rootGroup], selectors: [{ group: 'north' }] },
      ...spec,
    });
  const replayOf = (control: string, candidate: string) =>
    manifest('QueryReplay', 'upgrade', {
      ...{ control, candidate, from: { history: {} }, replayAs: { username: 'replay' } },
    });
  const check = { credentialsSecretRef: { name: 'ops' } };
  const discovery = (namespace: string) =>
    manifest('EngineClusterDiscovery', 'engines', {
      selector: { matchLabels: { engine: 'yes' } },
      namespaces: { names: [namespace] },
      template: { name: 'north-{service}', routingGroup: 'north' },
    });

  beforeAll(async () => {
    plane = await startPlane();
    rig = await kubeRig(plane, { allNamespaces: true });
    await rig.kubectl(['apply', '-f', 'manifests/base/user-roles.yaml']);
    for (const team of ['north', 'south']) {
      await rig.kubectl(['create', 'namespace', team]);
      await rig.kubectl(['-n', team, 'create', 'serviceaccount', 'team']);
      for (const role of ['view', 'edit']) {
        const binding = [`--clusterrole=engine-gateway-${role}`, `--serviceaccount=${team}:team`];
        await rig.kubectl(['-n', team, 'create', 'rolebinding', role, ...binding]);
      }
      const tenant = manifest('EngineTenant', team, {
        ...{ namespaces: { names: [team] }, routingGroups: [{ value: team }] },
        names: [{ type: 'Prefix', value: '{namespace}-' }, { value: team }],
        decides: { users: [{ type: 'Prefix', value: `${team}-` }] },
        resourceGroups: { environments: ['test'], rootGroups: [{ value: team }], priorities: { from: 10, to: 11 } },
        credentialsHosts: [`*.${team}.example`],
      });
      await rig.kubectl(['apply', '-f', '-'], tenant);
      await rig.kubectl(['-n', team, 'apply', '-f', '-'], clusterManifest(`${team}-1`, { routingGroup: team }));
    }
    // Tests delete most rules of a namespace.
    const deletionGuard = { ...defaultDeletionGuard, minimum: 1_000 };
    operator = await rig.startOperator({ discoveryNamespaces: ['*'], deletionGuard });
    const { registry, table, writes, store } = operator;
    await rig.kubectl(['apply', '-f', '-'], clusterManifest('adhoc-1'));
    await rig.kubectl(['apply', '-f', '-'], ruleManifest('platform', { routeTo: { routingGroup: 'adhoc' } }));
    await until(() => expect([...table.current.clusters.keys()].sort()).toEqual(['adhoc-1', 'north-1', 'south-1']));
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromFile(plane.config.kubeconfigPath);
    const context = { names: productNames('Engine'), analyzeRequest: false, differenceWarnings: true };
    const routingRules = new RoutingRules({
      ...{ writes, defaultRoutingGroup: 'adhoc', file: null },
      ...{ rulesType: 'FILE', rulesEngineEnabled: undefined, context },
    });
    const reader = {
      ...{ names: context.names, statementPaths: ['/v1/statement'], analyzeRequest: false, userOf: () => noUser },
      analyze: requestAnalysis({
        names: context.names,
        maxBodySize: 1000,
        clientsUseV2Format: false,
        cacheBytes: 1000,
      }),
    };
    const explain = requestExplanation(table, reader, 'adhoc', () => null, {});
    const none = {
      explain,
      edited: () => null,
      replays: {},
      database: {},
      replaySettings: {},
      sizeClasses: {},
    } as never;
    api = await startApiOver(
      { table, registry },
      {
        ...{ operator, store, inventory: () => clusterInventory(writes) },
        rules: { ...(none as object), routingRules } as never,
        access: accessSettings('authentication: {kubernetes: {cacheDuration: 1s}}'),
        accessDependencies: { kubernetes: async () => ({ kubeConfig, namespace: null }) },
      },
    );
  });
  afterAll(async () => {
    await api?.close();
    await rig?.stop();
    await plane?.stop();
  });

  /** What the account of north writes in its namespace, and the condition that says what is missing. */
  test.each<[what: string, object: string, document: object, reason: string, says: string]>([
    ['the name of a rule of the platform', 'rr/platform', ruleManifest('platform'), 'NameNotGranted', 'spec.names'],
    ['the name of a cluster of south', 'ec/south-1', clusterManifest('south-1'), 'NameNotGranted', 'spec.names'],
    ['a name of south', 'rtg/south', groupManifest('south', { maxRunningQueries: 1 }), 'NameNotGranted', 'spec.names'],
    [
      'a cluster in the group of south',
      'ec/north-2',
      clusterManifest('north-2', { routingGroup: 'south' }),
      ...(['RoutingGroupNotGranted', 'the routing group south'] as const),
    ],
    [
      'a rule to the group of south',
      'rr/north-group',
      ruleManifest('north-group', { routeTo: { routingGroup: 'south' } }),
      ...(['RoutingGroupNotGranted', 'the routing group south'] as const),
    ],
    [
      'a rule to a cluster of the platform',
      'rr/north-cluster',
      ruleManifest('north-cluster', { routeTo: { cluster: 'adhoc-1' } }),
      ...(['RoutingGroupNotGranted', 'the routing group adhoc'] as const),
    ],
    [
      'a fallback to the group of south',
      'rtg/north',
      groupManifest('north', { fallbacks: ['south'] }),
      ...(['RoutingGroupNotGranted', 'the routing group south'] as const),
    ],
    [
      'retries at the group of south',
      'rtg/north',
      groupManifest('north', { survival: { reasons: ['ClusterLost'], to: ['south'] } }),
      ...(['RoutingGroupNotGranted', 'the routing group south'] as const),
    ],
    [
      'a final rule',
      'rr/north-final',
      ruleManifest('north-final', { stage: 'Final', ...denial('x') }),
      ...(['StageNotGranted', 'stage: First'] as const),
    ],
    [
      'a replay on a cluster of south',
      'qr/upgrade',
      replayOf('north-1', 'south-1'),
      ...(['RoutingGroupNotGranted', 'the routing group south'] as const),
    ],
    ['groups of prod', 'rgc/groups', groupsOf({ environment: 'prod' }), 'EnvironmentNotGranted', 'environment prod'],
    [
      'root groups of south',
      'rgc/groups',
      groupsOf({ rootGroups: [{ ...rootGroup, name: 'south' }], selectors: [{ group: 'south' }] }),
      ...(['ResourceGroupNotGranted', 'the root group south'] as const),
    ],
    ['the deletion of groups', 'rgc/groups', groupsOf({ prune: true }), 'ResourceGroupNotGranted', 'leave prune out'],
    [
      'more priorities',
      'rgc/groups',
      groupsOf({ selectors: ['a', 'b', 'c'].map((user) => ({ user, group: 'north' })) }),
      ...(['PrioritiesNotGranted', 'from 10 to 11'] as const),
    ],
    ['a database', 'rgc/groups', groupsOf({ databases: ['south'] }), 'DatabaseNotGranted', 'the database south'],
  ])('%s is not accepted', async (_what, object, document, reason, says) => {
    await attack('north', document);
    await until(async () =>
      expect(await conditionOf('north', object, 'Accepted')).toMatchObject({
        ...{ status: 'False', reason, message: expect.stringContaining(says) },
      }),
    );
    expect([...operator.table.current.clusters.keys()].sort()).toEqual(['adhoc-1', 'north-1', 'south-1']);
    expect(decide('anybody')).toMatchObject({ rule: 'platform', routingGroup: 'adhoc', denied: null });
    await rig.kubectl(['-n', 'north', 'delete', object]);
  });

  test.each<[what: string, namespace: string, document: object]>([
    ['a cluster of south', 'south', clusterManifest('south-1', { routingGroup: 'north' })],
    ['a rule of the platform', 'default', ruleManifest('north-r')],
    ['a tenant', 'north', manifest('EngineTenant', 'north', { namespaces: { names: ['north', 'south'] } })],
  ])('%s cannot be written', async (_what, namespace, document) => {
    await expect(attack(namespace, document)).rejects.toThrow(/forbidden/);
  });

  test('a status cannot be written', async () => {
    const patch = [
      'patch',
      'ec',
      'north-1',
      '--subresource=status',
      '--type=merge',
      '-p',
      '{"status":{"active":true}}',
    ];
    await expect(rig.kubectl(['-n', 'north', `--as=${accountOf('north')}`, ...patch])).rejects.toThrow(/forbidden/);
  });

  test('a rule for everybody, and a limit, are about queries of the tenant and no others', async () => {
    await attack('north', ruleManifest('north-all', { priority: -1, ...denial('of north') }));
    await attack('north', limitManifest('all', { match: { everyone: true }, per: 'All', maxRunningQueries: 1 }));
    await until(() => expect(decide('north-a')?.denied).toEqual({ rule: 'north-all', message: 'of north' }));
    for (const user of ['south-a', 'anybody', ''])
      expect(decide(user)).toMatchObject({ rule: 'platform', denied: null });
    await until(() => expect(operator.table.current.admission.limits).toHaveLength(1));
    const [{ match } = { match: null }] = operator.table.current.admission.limits;
    expect(['north-a', 'south-a'].map((user) => match?.isDecided?.(user, [], ''))).toEqual([true, false]);
    await rig.kubectl(['-n', 'north', 'delete', 'rr,ql', '--all']);
  });

  test("a team's replay has queries that the tenant decides, and no others", async () => {
    const { store, replays } = operator;
    const columns = { digest: 'd', exactDigest: 'd', tool: null, model: null, dashboard: null, shapeText: null };
    const statement = { columns: { ...columns, replay: JSON.stringify({ complete: 'yes', headers: {} }) } };
    const records = ['north-a', 'south-a', 'north', 'anybody', 'xnorth-a'].map((user) =>
      queryRecord(`replayed-${user}`, { user, queryText: `SELECT '${user}'`, created: 1_700_000_000_000, statement }),
    );
    await store.history.insert(records);
    await store.outcomes.put(records.map(({ queryId, user }) => queryOutcome(queryId, { user })));
    const select = async (namespace: string) => {
      const plan = replays.plans().find((each) => each.namespace === namespace);
      if (plan === undefined) throw new Error(`no replay of ${namespace}`);
      const { queries } = await selectQueries(
        {
          ...{ database: { jdbcUrl: rig.jdbcUrl, user: undefined, password: undefined }, filter: plan.filter },
          ...{ range: { from: 1_700_000_000_000, to: 1_700_000_000_001 }, bounds: { queries: 100, time: 30_000 } },
          settings: { productName: 'Engine', maxAnalyzed: 1_000, clientsUseV2Format: false },
        },
        pino({ level: 'silent' }),
      );
      return queries.map(({ statement: { text } }) => text);
    };
    await attack('north', replayOf('north-1', 'north-4'));
    await rig.kubectl(['apply', '-f', '-'], replayOf('adhoc-1', 'adhoc-2'));
    await until(() => expect(replays.plans()).toHaveLength(2));
    expect(await select('north')).toEqual(["SELECT 'north-a'"]);
    expect(await select(rig.namespace)).toHaveLength(3);
    await expect(attack('south', replayOf('south-1', 'south-2'))).rejects.toThrow(/forbidden/);
    await rig.kubectl(['-n', 'north', 'delete', 'qr', 'upgrade']);
    await rig.kubectl(['delete', 'qr', 'upgrade']);
  });

  test('Services of another team become no clusters, and a Secret goes to no host of others', async () => {
    const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 's', labels: { engine: 'yes' } } };
    await rig.kubectl(['-n', 'south', 'apply', '-f', '-'], { ...service, spec: { ports: [{ port: 8080 }] } });
    await attack('north', discovery('south'));
    await until(async () =>
      expect(await conditionOf('north', 'ecd/engines', 'Discovered')).toMatchObject({ reason: 'NamespaceNotGranted' }),
    );
    await rig.kubectl(['-n', 'north', 'delete', 'ecd', 'engines']);
    const url = 'http://evil.example:8080';
    const healthCheck = { ...check, credentialsHosts: ['*'] };
    await attack('north', clusterManifest('north-3', { routingGroup: 'north', proxyTo: url, healthCheck }));
    await until(() => expect(operator.table.current.clusters.has('north-3')).toBe(true));
    expect(await operator.healthCredentials('north-3', url)).toMatchObject({ ok: false, reason: 'HostNotGranted' });
    await rig.kubectl(['-n', 'north', 'delete', 'ec', 'north-3']);
    await until(() => expect(operator.table.current.clusters.has('north-3')).toBe(false));
  });

  describe('by REST', () => {
    const call = async (team: string, method: string, path: string, body?: object) => {
      const headers = { Authorization: `Bearer ${await createToken(plane.config, team, 'team')}` };
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await api.call(method, path, { headers, ...sent });
      return { status: response.status, json: response.text === '' ? null : response.json() };
    };
    const namesOf = (listed: readonly { readonly name: string }[]) => listed.map(({ name }) => name).sort();

    test('lists have objects of the namespaces that a caller may list', async () => {
      await attack('north', groupManifest('north', { maxRunningQueries: 9 }));
      await attack('north', ruleManifest('north-r', { routeTo: { routingGroup: 'north' } }));
      await until(() => expect(decide('north-a')?.rule).toBe('north-r'));
      const listsOf = async (team: string) => [
        namesOf((await call(team, 'GET', '/api/clusters')).json),
        namesOf((await call(team, 'GET', '/api/groups')).json),
        namesOf((await call(team, 'GET', '/api/rules')).json.rules),
      ];
      await until(async () => expect(await listsOf('north')).toEqual([['north-1'], ['north'], ['north-r']]));
      expect(await listsOf('south')).toEqual([['south-1'], [], []]);
      await rig.kubectl(['-n', 'south', 'create', 'serviceaccount', 'nobody']);
      const headers = { Authorization: `Bearer ${await createToken(plane.config, 'south', 'nobody')}` };
      expect((await api.call('GET', '/api/clusters', { headers })).status).toBe(403);
    });

    test('a team switches, drains and reads its own clusters', async () => {
      const active = { active: false };
      expect(await call('north', 'PUT', '/api/clusters/north-1/active', active)).toMatchObject({ status: 200 });
      expect(operator.table.current.clusters.get('north-1')?.active).toBe(false);
      expect(await call('north', 'GET', '/api/clusters/north-1/drain')).toMatchObject({ status: 200 });
      expect(await call('north', 'POST', '/gateway/backend/activate/north-1')).toMatchObject({ status: 200 });
      for (const [method, path, body] of [
        ['PUT', '/api/clusters/south-1/active', active],
        ['POST', '/gateway/backend/deactivate/adhoc-1'],
        ['GET', '/api/clusters/south-1'],
        ['GET', '/api/clusters/south-1/drain'],
        ['DELETE', '/api/rules/platform'],
        ['POST', '/gateway/backend/modify/delete', { name: 'south-1' }],
      ] as const)
        expect((await call('north', method, path, body)).status, path).toBe(403);
    });

    test('a team sees queries of its own clusters, and no others', async () => {
      const { store } = operator;
      const query = (id: string, cluster: string, user = `${id}-user`) =>
        queryRecord(id, { cluster, routingGroup: cluster.slice(0, -2), user });
      const queries = [query('of-north', 'north-1'), query('of-south', 'south-1'), query('of-platform', 'adhoc-1')];
      const own = query('by-north', 'adhoc-1', accountOf('north'));
      await store.history.insert([...queries, own]);
      const rejected = (id: string, routingGroup: string) =>
        queryOutcome(id, { cluster: null, routingGroup, user: 'x', state: 'REFUSED', refused: true });
      await store.outcomes.put([
        ...[...queries, own].map(({ queryId, user, cluster }) =>
          queryOutcome(queryId, { user, cluster, rule: `${cluster.slice(0, -2)}-r` }),
        ),
        ...[rejected('no-north', 'north'), rejected('no-south', 'south')],
      ]);
      const now = Date.now();
      const running = queries.map(({ queryId, cluster }) => ({ queryId, cluster, started: now, lastSeen: now }));
      await store.runningQueries.put(running.map((each) => ({ ...each, queryId: `run-${each.queryId}` })));
      const idsOf = (rows: readonly { readonly queryId: string }[]) => rows.map(({ queryId }) => queryId).sort();
      const seenBy = async (team: string) => {
        const read = async (path: string) => (await call(team, 'GET', path)).json;
        const statusOf = async (id: string) => (await call(team, 'GET', `/api/queries/${id}`)).status;
        return {
          list: idsOf((await read('/api/queries')).queries),
          history: idsOf((await call(team, 'POST', '/webapp/findQueryHistory', {})).json.data.rows),
          running: idsOf((await read('/api/queries/running')).queries),
          counted: (await read('/api/statistics?cluster=north-1&from=0&to=1900000000000')).values.length,
          details: await Promise.all(['of-north', 'no-north', 'of-platform'].map(statusOf)),
        };
      };
      expect(await seenBy('north')).toEqual({
        ...{ list: ['by-north', 'no-north', 'of-north'], history: ['by-north', 'of-north'] },
        ...{ running: ['run-of-north'], counted: 1, details: [200, 200, 404] },
      });
      expect(await seenBy('south')).toEqual({
        ...{ list: ['no-south', 'of-south'], history: ['of-south'], running: ['run-of-south'] },
        ...{ counted: 0, details: [404, 404, 404] },
      });
      expect((await call('north', 'GET', '/api/queries?user=of-south-user')).json.queries).toEqual([]);
      expect((await call('north', 'DELETE', '/api/queries/running/of-south')).status).toBe(404);
      expect((await call('north', 'GET', '/api/pages')).json.pages.sort()).toEqual([
        ...['cluster', 'history', 'limits', 'queue', 'replays', 'routing-rules', 'workload'],
      ]);
      for (const path of ['/api/overview', '/api/audit']) expect((await call('north', 'GET', path)).status).toBe(403);
    });

    test('a team has requests explained that its tenant decides, and counts its own rules', async () => {
      const explain = async (team: string, user: string) =>
        (await call(team, 'POST', '/api/explain', { user, body: 'select 1' })).status;
      expect(await Promise.all(['north-a', 'south-a', 'anybody'].map((user) => explain('north', user)))).toEqual([
        ...[200, 403, 403],
      ]);
      expect(await explain('south', 'north-a')).toBe(403);
      expect(await explain('north', accountOf('north'))).toBe(200);
      const { hits } = (await call('north', 'GET', '/api/ruleHits')).json;
      expect(namesOf(hits.map(({ rule }: { rule: string }) => ({ name: rule })))).toEqual(['north-r']);
      const { rules } = (await call('north', 'GET', '/api/rules')).json;
      expect(rules.map(({ name, mayChange }: { name: string; mayChange: boolean }) => [name, mayChange])).toEqual([
        ['north-r', true],
      ]);
    });

    test('a team creates in its own namespace, as far as its tenant has the grants', async () => {
      const cluster = (name: string, routingGroup = 'north') => ({
        ...{ name, routingGroup, active: true },
        ...{ proxyTo: `http://${name}:8080`, externalUrl: `http://${name}:8080` },
      });
      const add = (query: string, body: object) => call('north', 'POST', `/gateway/backend/modify/add${query}`, body);
      expect((await add('', cluster('north-5'))).status).toBe(403);
      expect((await add('?namespace=south', cluster('north-5'))).status).toBe(403);
      expect(await add('?namespace=north', cluster('other'))).toMatchObject({
        ...{
          status: 422,
          json: { error: { message: expect.stringContaining('spec.names of the EngineTenant north') } },
        },
      });
      expect((await add('?namespace=north', cluster('north-5', 'south'))).status).toBe(422);
      expect((await add('?namespace=north', cluster('north-5'))).status).toBe(200);
      const stored = (name: string) => operator.source.get({ kind: 'EngineCluster', namespace: 'north', name });
      expect(stored('north-5')).not.toBeNull();
      const update = (query: string, body: object) =>
        call('north', 'POST', `/gateway/backend/modify/update${query}`, body);
      const moved = { ...cluster('north-5'), externalUrl: 'http://elsewhere.example:8080' };
      expect(await update('', moved)).toMatchObject({ status: 200, json: { externalUrl: moved.externalUrl } });
      expect((await update('', cluster('north-5', 'south'))).status).toBe(422);
      expect((await update('', cluster('south-1', 'north'))).status).toBe(403);
      expect((await update('?namespace=north', cluster('south-1', 'north'))).status).toBe(403);
      expect((await update('', cluster('north-6'))).status).toBe(403);
      expect((await update('?namespace=north', cluster('north-6'))).status).toBe(200);
      const remove = (team: string, path: string, name: string) => call(team, 'POST', path, { name });
      for (const path of ['/gateway/backend/modify/delete', '/webapp/deleteBackend']) {
        const name = path.startsWith('/webapp') ? 'north-6' : 'north-5';
        expect((await remove('south', path, name)).status).toBe(403);
        expect(stored(name)).not.toBeNull();
        expect((await remove('north', path, name)).status).toBe(200);
        expect(stored(name)).toBeNull();
      }
      const limit = { match: { everyone: true }, per: 'User', maxRunningQueries: 1 };
      expect((await call('north', 'PUT', '/api/limits/north/own', limit)).status).toBe(200);
      expect((await call('north', 'PUT', '/api/limits/south/own', limit)).status).toBe(403);
      const rule = (name: string) => ({ name, condition: 'true', routeTo: { routingGroup: 'north' } });
      expect((await call('north', 'POST', '/api/rules?namespace=north', rule('other'))).status).toBe(422);
      expect((await call('north', 'POST', '/api/rules?namespace=north', rule('north-own'))).status).toBe(200);
      expect((await call('south', 'DELETE', '/api/rules/north-own')).status).toBe(403);
      expect((await call('north', 'DELETE', '/api/rules/north-own')).status).toBe(200);
    });
  });
});
