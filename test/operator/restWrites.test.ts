import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import type { AuditedChange, AuditPage } from '../../src/api/audit.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest } from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';
import { runQuery } from '../support/statementClient.ts';

const keys = sessionKeyPair();
const passwords = { root: 'root secret', ops: 'ops secret' };
const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 50 });

describe.skipIf(!controlPlaneAvailable)('writes by REST on a real API server', () => {
  let plane: ControlPlane;
  let engines: readonly SimulatedEngine[];
  let rig: KubeRig;
  let folder: string;
  let gateway: GatewayProcess;
  beforeAll(async () => {
    plane = await sharedControlPlane();
    engines = await Promise.all(['a', 'b'].map((name) => startSimulatedEngine({ name, port: 0 })));
  });
  afterAll(async () => {
    await Promise.all(engines?.map((engine) => engine.close()) ?? []);
    await rm(keys.folder, { recursive: true, force: true });
    await plane?.stop();
  });
  beforeEach(async () => {
    rig = await kubeRig(plane);
    folder = await mkdtemp(join(tmpdir(), 'eg-rest-'));
    gateway = await replica();
  });
  afterEach(async () => {
    await gateway?.stop('SIGKILL');
    await rig?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const replica = () =>
    startGateway({
      resources: { source: 'kubernetes', kubeconfig: rig.kubeconfig },
      dataStore: { jdbcUrl: rig.jdbcUrl },
      queryHistory: { spillDirectory: folder },
      monitor: { taskDelay: '500ms' },
      authentication: {
        form: { selfSignKeyPair: { privateKeyRsa: keys.privateKeyRsa, publicKeyRsa: keys.publicKeyRsa } },
      },
      authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
      presetUsers: {
        root: { password: passwords.root, privileges: 'ADMIN_API' },
        ops: { password: passwords.ops, privileges: 'API_USER' },
      },
    });

  type User = keyof typeof passwords;
  const call = async (user: User, path: string, body: unknown = '') => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: {
        Authorization: `Basic ${btoa(`${user}:${passwords[user]}`)}`,
        ...(typeof body === 'string' ? {} : { 'Content-Type': 'application/json' }),
      },
    });
    return { status: response.status, text: await response.text() };
  };
  const cluster = (name: string, more: object = {}) => ({
    name,
    proxyTo: engines[0]?.url ?? '',
    active: true,
    routingGroup: 'adhoc',
    ...more,
  });
  interface KubeEvent {
    readonly regarding: { readonly kind: string; readonly name: string; readonly uid?: string };
    readonly reason: string;
    readonly action: string;
    readonly note: string;
    readonly type: string;
    readonly reportingController: string;
  }
  /** Events of changes by REST in the order of their times. */
  const changes = async (): Promise<readonly KubeEvent[]> => {
    const sorted = ['get', 'events.events.k8s.io', '--sort-by=.eventTime', '-o', 'json'];
    const { items } = JSON.parse(await rig.kubectl(sorted)) as { items: KubeEvent[] };
    return items.filter(({ reason }) => reason.endsWith('ByRest'));
  };

  test('every change is an event: who, in which role, what, before and after; what is refused is none', async () => {
    const [a, b] = engines.map(({ url }) => url);
    await rig.apply('argocd-controller', clusterManifest('owned', { proxyTo: b }));
    await until(async () => expect(await rig.kubectl(['get', 'ec', 'owned', '-o', 'yaml'])).toContain('Ready'));
    const steps: readonly (readonly [User, string, unknown, number])[] = [
      ['ops', '/gateway/backend/modify/add', cluster('etl-1'), 200],
      ['ops', '/gateway/backend/modify/update', cluster('etl-1', { routingGroup: 'etl', proxyTo: b }), 200],
      ['ops', '/gateway/backend/modify/update', cluster('etl-1', { routingGroup: 'etl', proxyTo: b }), 200],
      ['ops', '/gateway/backend/deactivate/etl-1', '', 200],
      ['ops', '/gateway/backend/activate/etl-1', '', 200],
      ['ops', '/gateway/backend/modify/update', cluster('owned', { routingGroup: 'etl', proxyTo: b }), 409],
      ['ops', '/gateway/backend/modify/update?force=true', cluster('owned', { proxyTo: a }), 403],
      ['root', '/gateway/backend/modify/update?force=true', cluster('owned', { proxyTo: a }), 200],
      [
        'ops',
        '/engine/resourcegroup/create',
        { name: 'g', softMemoryLimit: '10%', maxQueued: 1, hardConcurrencyLimit: 1 },
        200,
      ],
      ['root', '/webapp/deleteBackend', { name: 'etl-1' }, 200],
      ['ops', '/gateway/backend/modify/delete', 'etl-1', 200],
    ];
    for (const [user, path, body, expected] of steps) {
      expect([path, (await call(user, path, body)).status]).toEqual([path, expected]);
    }
    await until(async () => expect(await changes()).toHaveLength(7));
    const events = await changes();
    expect(
      events.map((event) => `${event.regarding.kind} ${event.regarding.name} ${event.reason} ${event.action}`),
    ).toEqual([
      'EngineCluster etl-1 AddedByRest Add',
      'EngineCluster etl-1 ChangedByRest Change',
      'EngineCluster etl-1 DeactivatedByRest Deactivate',
      'EngineCluster etl-1 ActivatedByRest Activate',
      'EngineCluster owned ChangedByRest Change',
      'Lease engine-gateway AddedByRest Add',
      'EngineCluster etl-1 DeletedByRest Delete',
    ]);
    const ops = 'ops (USER, API; basic)';
    const root = 'root (ADMIN, API; basic)';
    expect(events.map(({ note }) => note)).toEqual([
      `${ops} added cluster etl-1: name "etl-1", proxyTo "${a}", active true, routingGroup "adhoc", externalUrl "${a}"`,
      `${ops} changed cluster etl-1: proxyTo "${a}" → "${b}", routingGroup "adhoc" → "etl", externalUrl "${a}" → "${b}"`,
      `${ops} deactivated cluster etl-1: active true → false`,
      `${ops} activated cluster etl-1: active false → true`,
      `${root} changed cluster owned: proxyTo "${b}" → "${a}", externalUrl "${b}" → "${a}"`,
      expect.stringMatching(/^ops \(USER, API; basic\) added resource group \d+: .*softMemoryLimit "10%"/),
      `${root} deleted cluster etl-1: name "etl-1", proxyTo "${b}", active true, routingGroup "etl", externalUrl "${b}"`,
    ]);
    expect(
      events.every(
        ({ type, reportingController }) => type === 'Normal' && reportingController === 'enginegateway.dev/gateway',
      ),
    ).toBe(true);
    for (const secret of Object.values(passwords)) expect(JSON.stringify(events)).not.toContain(secret);
    // As people look for them.
    expect(await rig.kubectl(['events', '--for', 'enginecluster/owned'])).toContain(
      'root (ADMIN, API; basic) changed cluster owned',
    );
  });

  test('updateRoutingRules writes the resource: who owns its fields is asked, or overruled', async () => {
    const rule = (actions: readonly string[], more: object = {}) =>
      ruleManifest('etl', { condition: 'true', routeTo: undefined, actions, ...more });
    const to = (group: string) => `result.put("routingGroup", "${group}")`;
    await rig.apply(
      'argocd-controller',
      clusterManifest('a', { proxyTo: engines[0]?.url, routingGroup: 'first' }),
      clusterManifest('b', { proxyTo: engines[1]?.url, routingGroup: 'second' }),
      rule([to('nowhere'), to('first')]),
    );
    await rig.kubectl(['wait', '--for=condition=Healthy', 'ec', '--all', '--timeout=40s']);
    await rig.kubectl(['wait', '--for=condition=Programmed', 'rr', '--all', '--timeout=40s']);
    const ranOn = async (): Promise<string> => (await runQuery(gateway.url, 'SELECT 1')).id.slice(-5);
    const suffixes = engines.map(({ suffix }) => suffix);
    expect(await ranOn()).toBe(suffixes[0]);
    const stored = async () => {
      const text = await rig.kubectl(['get', 'rr', 'etl', '--show-managed-fields', '-o', 'json']);
      const { spec, metadata } = JSON.parse(text) as {
        spec: Record<string, unknown>;
        metadata: { managedFields: { manager: string; subresource?: string; fieldsV1: { 'f:spec'?: object } }[] };
      };
      const managers = metadata.managedFields
        .filter(({ subresource }) => subresource === undefined)
        .map(
          ({ manager, fieldsV1 }) =>
            `${manager}: ${Object.keys(fieldsV1['f:spec'] ?? {})
              .sort()
              .join(' ')}`,
        );
      return { spec, managers: managers.sort() };
    };
    const sent = (actions: readonly string[], more: object = {}) => ({
      name: 'etl',
      condition: 'true',
      actions,
      ...more,
    });

    // Refused: nothing changes.
    const before = await stored();
    const refused: readonly (readonly [User, string, object, number, string])[] = [
      ['root', '', sent([to('second')]), 409, 'spec.actions is owned by argocd-controller'],
      [
        'root',
        '',
        sent([to('nowhere'), to('first')], { condition: 'false' }),
        409,
        'spec.condition is owned by argocd-controller',
      ],
      ['root', '?force=true', sent(['result.put(']), 400, 'actions[0]'],
      ['root', '?force=true', { ...sent([to('second')]), name: 'other' }, 404, 'there is no rule named other'],
      ['ops', '?force=true', sent([to('second')]), 403, 'ADMIN'],
    ];
    for (const [user, query, body, status, words] of refused) {
      const answer = await call(user, `/webapp/updateRoutingRules${query}`, body);
      expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(words)]);
    }
    expect(await stored()).toEqual(before);
    expect(before.managers).toEqual(['argocd-controller: f:actions f:condition']);

    // What nobody else owns is set; equal values stay whose they are.
    const described = await call(
      'root',
      '/webapp/updateRoutingRules',
      sent([to('nowhere'), to('first')], { description: 'by REST', priority: 5 }),
    );
    expect(described.status).toBe(200);
    expect(await stored()).toMatchObject({
      spec: { description: 'by REST', priority: 5, actions: [to('nowhere'), to('first')] },
      managers: ['argocd-controller: f:actions f:condition', 'engine-gateway-api: f:description f:priority'],
    });

    // Forced: the list of actions goes over as one, is in force when the answer comes, and the change is recorded for Git.
    const forced = await call(
      'root',
      '/webapp/updateRoutingRules?force=true',
      sent([to('second')], { description: 'by REST', priority: 5 }),
    );
    expect(forced.status).toBe(200);
    expect(JSON.parse(forced.text)).toMatchObject({
      data: [{ name: 'etl', actions: [to('second')], origin: 'resource' }],
    });
    expect(await ranOn()).toBe(suffixes[1]);
    expect((await stored()).managers).toEqual([
      'argocd-controller: f:condition',
      'engine-gateway-api: f:actions f:description f:priority',
    ]);
    const synced = await rig.apply('argocd-controller', rule([to('nowhere'), to('first')])).catch(String);
    expect(synced).toContain('conflict with "engine-gateway-api": .spec.actions');
    await until(async () =>
      expect((await changes()).map(({ regarding, note }) => `${regarding.kind} ${regarding.name} ${note}`)).toEqual([
        expect.stringContaining(
          'RoutingRule etl root (ADMIN, API; basic) changed routing rule etl: description "" → "by REST"',
        ),
        expect.stringContaining('changed routing rule etl: actions ['),
      ]),
    );

    // A rule that routes declaratively has no actions to replace.
    const plain = ruleManifest('plain', { routeTo: { routingGroup: 'first' }, priority: 9 });
    await rig.apply('kubectl', plain);
    await rig.kubectl(['wait', '--for=condition=Programmed', 'rr/plain', '--timeout=40s']);
    const declarative = await call('root', '/webapp/updateRoutingRules', { ...sent([to('second')]), name: 'plain' });
    expect([declarative.status, declarative.text]).toEqual([
      422,
      expect.stringContaining('has routeTo in place of actions'),
    ]);

    // Whose fields they are is in the list of rules, whatever else stays the same.
    const managersOfPlain = async () => {
      const answer = await fetch(`${gateway.url}/api/rules`, {
        headers: { Authorization: `Basic ${btoa(`root:${passwords.root}`)}` },
      });
      const { rules } = (await answer.json()) as {
        rules: { name: string; managers: { manager: string }[] }[];
      };
      return (rules.find(({ name }) => name === 'plain')?.managers ?? []).map(({ manager }) => manager).sort();
    };
    expect(await managersOfPlain()).toEqual(['kubectl']);
    await rig.apply('argocd-controller', plain);
    await until(async () => expect(await managersOfPlain()).toEqual(['argocd-controller', 'kubectl']));
  });

  test('groups of a resource are written into it: who owns its fields is asked, or overruled', async () => {
    const perUser = `\${USER}`;
    const group = (name: string, more: object = {}) => ({ name, hardConcurrencyLimit: 5, maxQueued: 10, ...more });
    await rig.apply(
      'argocd-controller',
      manifest('ResourceGroupConfiguration', 'groups', {
        environment: 'test',
        rootGroups: [group('etl'), group('adhoc', { subGroups: [group(perUser)] })],
        selectors: [{ source: 'airflow', group: 'etl' }, { group: `adhoc.${perUser}` }],
      }),
    );
    await rig.kubectl(['wait', '--for=condition=Ready', 'rgc/groups', '--timeout=60s']);
    const read = async (): Promise<readonly { readonly resourceGroupId: number; readonly name: string }[]> => {
      const headers = { Authorization: `Basic ${btoa(`ops:${passwords.ops}`)}` };
      return (await (await fetch(`${gateway.url}/engine/resourcegroup/read`, { headers })).json()) as never;
    };
    const groups = await read();
    const idOf = (name: string) => groups.find((each) => each.name === name)?.resourceGroupId;
    const etl = { ...groups.find(({ name }) => name === 'etl'), maxQueued: 7 };
    const bots = { ...group('bots', { environment: 'test', softMemoryLimit: '10%' }), parent: idOf('adhoc') };
    const selector = { resourceGroupId: idOf('etl'), sourceRegex: 'dbt', priority: 9 };
    const update = '/engine/resourcegroup/update';
    const stored = async () => {
      const text = await rig.kubectl(['get', 'rgc', 'groups', '--show-managed-fields', '-o', 'json']);
      const { spec, metadata } = JSON.parse(text) as {
        spec: Record<string, unknown>;
        metadata: { managedFields: { manager: string; subresource?: string; fieldsV1: { 'f:spec'?: object } }[] };
      };
      const managers = metadata.managedFields
        .filter(({ subresource }) => subresource === undefined)
        .map(({ manager, fieldsV1 }) => `${manager}: ${Object.keys(fieldsV1['f:spec'] ?? {}).join(' ')}`);
      return { spec, managers: managers.sort() };
    };
    const owner = 'argocd-controller';
    const before = await stored();
    const refused: readonly (readonly [User, string, object, number, string])[] = [
      ['ops', update, etl, 409, `spec.rootGroups is owned by ${owner}`],
      ['root', '/webapp/updateResourceGroup', { data: etl }, 409, `spec.rootGroups is owned by ${owner}`],
      ['ops', '/engine/selector/create', selector, 409, `spec.selectors is owned by ${owner}`],
      ['ops', `${update}?force=true`, etl, 403, 'ADMIN'],
    ];
    for (const [user, path, body, status, words] of refused) {
      const answer = await call(user, path, body);
      expect([path, answer.status, answer.text]).toEqual([path, status, expect.stringContaining(words)]);
    }
    expect(await stored()).toEqual(before);

    // Forced: the groups go over as one, and are the callers' from then on; the selectors stay whose they are.
    const forced = await call('root', '/webapp/updateResourceGroup?force=true', { data: etl });
    expect([forced.status, JSON.parse(forced.text)]).toMatchObject([200, { data: etl }]);
    const created = await call('ops', '/engine/resourcegroup/create', bots);
    expect([created.status, JSON.parse(created.text)]).toEqual([200, expect.objectContaining(bots)]);
    expect(await stored()).toMatchObject({
      spec: {
        rootGroups: [
          group('etl', { maxQueued: 7 }),
          group('adhoc', { subGroups: [group(perUser), group('bots', { softMemoryLimit: '10%' })] }),
        ],
      },
      managers: [`${owner}: f:environment f:selectors`, 'engine-gateway-api: f:rootGroups'],
    });
    expect((await read()).filter(({ name }) => name === 'etl' || name === 'bots')).toEqual([
      etl,
      JSON.parse(created.text),
    ]);
    await until(async () =>
      expect((await changes()).map(({ regarding, note }) => `${regarding.kind} ${regarding.name} ${note}`)).toEqual([
        expect.stringMatching(
          /^ResourceGroupConfiguration groups root .* changed resource group \d+ of .*: maxQueued 10 → 7$/,
        ),
        expect.stringMatching(/^ResourceGroupConfiguration groups ops .* added resource group \d+ of .*: .*"bots"/),
      ]),
    );
    // What REST wrote is no drift.
    await rig.kubectl([
      'wait',
      '--for=jsonpath={.status.databases[0].appliedGeneration}=3',
      'rgc/groups',
      '--timeout=60s',
    ]);
    expect(await rig.kubectl(['get', 'rgc', 'groups', '-o', 'jsonpath={.status.databases[0].drift}'])).toBe('');
  });

  /** The audit as another replica has it, once that has noted what there was before. */
  const startAudit = async () => {
    const second = await replica();
    const audit = async (query: string): Promise<readonly AuditedChange[]> => {
      const headers = { Authorization: `Basic ${btoa(`root:${passwords.root}`)}` };
      const response = await fetch(`${second.url}/api/audit?limit=100&${query}`, { headers });
      return ((await response.json()) as AuditPage).changes;
    };
    /** What there is at the first start is no change: the next one is. */
    let turn = 0;
    const begin = (query: string) =>
      until(async () => {
        turn += 1;
        await rig.apply('begin', clusterManifest('begun', { proxyTo: engines[0]?.url, routingGroup: `g${turn}` }));
        expect((await audit(`${query}name=begun`))[0]).toMatchObject({ manager: 'begin' });
      });
    await begin('').catch(async (error) => {
      await second.stop('SIGKILL');
      throw error;
    });
    const since = `from=${Date.now()}`;
    const seen = async () =>
      (await audit(since))
        .map((each) => `${each.source} ${each.action} ${each.name} ${each.user ?? each.manager ?? '-'}`)
        .filter((line) => !line.endsWith(' begin'));
    const stop = async () => void (await second.stop('SIGKILL'));
    return { second, audit, begin, since, seen, [Symbol.asyncDispose]: stop };
  };

  test('the audit has each change once, of two replicas too: by REST with its user, by others with their field manager', async () => {
    await using started = await startAudit();
    const { audit, begin, since, seen } = started;
    const [a, b] = engines.map(({ url }) => url);
    await rig.apply('kubectl', clusterManifest('etl-1', { proxyTo: a, routingGroup: 'adhoc' }));
    await until(async () => expect(await audit(`${since}&name=etl-1`)).toHaveLength(1));
    expect((await call('ops', '/gateway/backend/deactivate/etl-1')).status).toBe(200);
    await until(async () => expect(await audit(`${since}&name=etl-1`)).toHaveLength(2));
    await rig.apply('argocd-controller', ruleManifest('to-etl', {}));
    // Managers have the second of their change: of two in one second it is not known which came later.
    const second = Math.floor(Date.now() / 1_000);
    await until(() => expect(Math.floor(Date.now() / 1_000)).toBeGreaterThan(second));
    await rig.apply('kubectl', clusterManifest('etl-1', { proxyTo: b, routingGroup: 'adhoc' }));
    await until(async () => expect(await audit(`${since}&name=etl-1`)).toHaveLength(3));
    expect((await call('root', '/webapp/deleteBackend', { name: 'etl-1' })).status).toBe(200);
    await rig.apply('kubectl', clusterManifest('etl-2', { proxyTo: b }));
    await until(async () => expect(await audit(`${since}&name=etl-2`)).toHaveLength(1));
    await rig.kubectl(['delete', 'enginecluster', 'etl-2']);
    const expected = [
      'kubernetes create etl-1 kubectl',
      'rest change etl-1 ops',
      'kubernetes create to-etl argocd-controller',
      'kubernetes change etl-1 kubectl',
      'rest delete etl-1 root',
      'kubernetes create etl-2 kubectl',
      'kubernetes delete etl-2 -',
    ];
    await until(async () => expect((await seen()).toSorted()).toEqual(expected.toSorted()));
    expect((await audit(`${since}&name=etl-1&manager=kubectl`))[0]).toMatchObject({
      before: { proxyTo: a },
      after: { proxyTo: b },
    });
    // Another leader, and then a process that starts: neither repeats anything, and both go on.
    await gateway.stop();
    await begin(`${since}&`);
    gateway = await replica();
    await until(async () => expect((await seen()).toSorted()).toEqual(expected.toSorted()));
  });

  test('the audit has what others change in the name of REST, and calls of two replicas once', async () => {
    await using started = await startAudit();
    const { second, audit, since, seen } = started;
    const headers = { Authorization: `Basic ${btoa(`root:${passwords.root}`)}` };
    const [a, b] = engines.map(({ url }) => url);
    for (const [{ url }, name] of [[gateway, 'etl-1'] as const, [second, 'etl-2'] as const]) {
      const change = async (path: string, body?: object) => {
        const type = { 'Content-Type': 'application/json' };
        const sent =
          body === undefined ? { headers } : { body: JSON.stringify(body), headers: { ...headers, ...type } };
        expect([path, (await fetch(`${url}${path}`, { method: 'POST', ...sent })).status]).toEqual([path, 200]);
      };
      await change('/gateway/backend/modify/add', cluster(name));
      await change('/gateway/backend/modify/update', cluster(name, { routingGroup: 'etl' }));
      await change(`/gateway/backend/deactivate/${name}`);
    }
    for (const name of ['etl-1', 'etl-2'])
      await until(async () => expect(await audit(`${since}&name=${name}&source=rest`)).toHaveLength(3));
    // The leader compares all resources at the same time: with this entry it has noted what the calls left.
    await rig.apply('begin', clusterManifest('begun', { proxyTo: a, routingGroup: 'noted' }));
    await until(async () =>
      expect((await audit(`${since}&name=begun`))[0]).toMatchObject({ after: { routingGroup: 'noted' } }),
    );
    // In the name of REST: by both operations, on spec and annotations, and with no name left.
    const inTheNameOfRest = '--field-manager=engine-gateway-api';
    const merge = (name: string, patch: object) =>
      rig.kubectl(['patch', 'ec', name, '--type=merge', inTheNameOfRest, '-p', JSON.stringify(patch)]);
    await merge('etl-1', { spec: { proxyTo: b } });
    await rig.kubectl(['annotate', 'ec', 'etl-2', inTheNameOfRest, 'enginegateway.dev/active-']);
    await rig.apply('engine-gateway-api', clusterManifest('shadow', { proxyTo: b }));
    await merge('begun', { metadata: { managedFields: [{}] }, spec: { routingGroup: 'wiped' } });
    const expected = [
      ...['etl-1', 'etl-2'].flatMap((name) => [
        `rest create ${name} root`,
        `rest change ${name} root`,
        `rest change ${name} root`,
      ]),
      'kubernetes change etl-1 engine-gateway-api',
      'kubernetes change etl-2 engine-gateway-api',
      'kubernetes create shadow engine-gateway-api',
      'kubernetes change begun -',
    ];
    await until(async () => expect((await seen()).toSorted()).toEqual(expected.toSorted()));
    expect((await audit(`${since}&name=etl-1&source=kubernetes`))[0]).toMatchObject({ after: { proxyTo: b } });
  });
});
