import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { HealthMonitors } from '../../src/gateway/health/healthMonitors.ts';
import { systemClock } from '../../src/model/clock.ts';
import { ClusterAddresses } from '../../src/model/clusterAddresses.ts';
import { type KnexStore, openStore } from '../../src/store/openStore.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { defaultMonitorSettings, openChecks } from '../support/healthChecks.ts';
import {
  clusterManifest,
  groupManifest,
  type KubeRig,
  kubeRig,
  limitManifest,
  ruleManifest,
  startPlane,
} from '../support/kubeRig.ts';
import { allResources } from '../support/kubernetesOperator.ts';
import { manifest } from '../support/manifest.ts';
import { sampleRequest } from '../support/ruleAttempt.ts';

const by = { by: 'alice', force: false };
const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 50 });

describe.skipIf(!controlPlaneAvailable)('all namespaces, with only the Role and the ClusterRole of the overlay', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  /** Namespaces of two teams, beside the gateway's own. */
  let north: string;
  let south: string;
  beforeAll(async () => {
    plane = await startPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane, { allNamespaces: true });
    north = `north-${rig.namespace}`;
    south = `south-${rig.namespace}`;
    for (const namespace of [north, south]) {
      await rig.kubectl(['create', 'namespace', namespace]);
      await grant(namespace, {});
    }
  });
  afterEach(async () => {
    await rig?.stop();
    // The next gateway sees every namespace there is.
    for (const namespace of [north, south, rig.namespace]) {
      await rig.kubectl(['-n', namespace, 'delete', 'ec,rr,rtg,ql', '--all']);
    }
    await rig.kubectl(['delete', 'et', '--all']);
  });

  const every = [{ type: 'RegularExpression', value: '.*' }];
  /** Makes a namespace the tenant of its name, with all names and groups, and the queries of a user of its name. */
  const grant = (namespace: string, spec: object): Promise<string> =>
    rig.kubectl(
      ['apply', '--server-side', '--force-conflicts', '-f', '-'],
      manifest('EngineTenant', namespace, {
        ...{ namespaces: { names: [namespace] }, names: every, routingGroups: every },
        ...{ decides: { users: [{ value: namespace }] }, credentialsHosts: ['*'], ...spec },
      }),
    );
  const queryOf = (user: string) => ({ ...sampleRequest, sender: { user, userInfo: null } });

  const applyIn = (namespace: string, document: object, manager = 'kubectl'): Promise<string> =>
    rig.kubectl(['-n', namespace, 'apply', '--server-side', `--field-manager=${manager}`, '-f', '-'], document);
  const acceptance = (namespace: string, name: string): Promise<string> =>
    rig.kubectl([
      '-n',
      namespace,
      'get',
      'ec',
      name,
      '-o',
      'jsonpath={.status.conditions[?(@.type=="Accepted")].reason}',
    ]);
  const referring = (name: string, service: object): object =>
    clusterManifest(name, { proxyTo: undefined, serviceRef: service });

  test('resources of every namespace are routed and stored; status and events are where they are', async () => {
    const { table, store, source } = await rig.startOperator();
    await applyIn(north, clusterManifest('a'));
    await applyIn(south, clusterManifest('b', { routingGroup: 'etl' }));
    await applyIn(south, ruleManifest('r', { routeTo: { routingGroup: 'etl' } }));
    await until(() => expect([...table.current.clusters.keys()].sort()).toEqual(['a', 'b']));
    await rig.kubectl(['-n', north, 'wait', '--for=condition=Ready', 'ec/a', '--timeout=60s']);
    await rig.kubectl(['-n', south, 'wait', '--for=condition=Ready', 'ec/b', 'rr/r', '--timeout=60s']);
    const stored = await store.resources.all();
    expect(stored.map((row) => `${row.kind} ${row.namespace}/${row.name}`).sort()).toEqual([
      `EngineCluster ${north}/a`,
      `EngineCluster ${south}/b`,
      `EngineTenant /${north}`,
      `EngineTenant /${south}`,
      `RoutingRule ${south}/r`,
    ]);
    await until(async () =>
      expect(await rig.kubectl(['-n', north, 'events', '--for', 'enginecluster/a'])).toContain('Accepted'),
    );
    // The Lease is the gateway's own matter.
    expect(
      await rig.kubectl([
        'get',
        'lease',
        '-A',
        '-o',
        'jsonpath={.items[?(@.metadata.name=="engine-gateway")].metadata.namespace}',
      ]),
    ).toContain(rig.namespace);
    expect(source.writeNamespace).toBe(rig.namespace);
  });

  test('a name that two namespaces claim belongs to the older resource, and then to the other', async () => {
    const { table } = await rig.startOperator();
    await applyIn(north, clusterManifest('same', { routingGroup: 'first' }));
    await until(() => expect(table.current.clusters.get('same')?.routingGroup).toBe('first'));
    // Times of creation are whole seconds: the next one must have begun.
    const second = Math.floor(Date.now() / 1_000);
    await until(() => expect(Math.floor(Date.now() / 1_000)).toBeGreaterThan(second));
    await applyIn(south, clusterManifest('same', { routingGroup: 'second' }));
    await until(async () => expect(await acceptance(south, 'same')).toBe('NameConflict'));
    expect(table.current.clusters.get('same')?.routingGroup).toBe('first');
    await rig.kubectl(['-n', north, 'delete', 'ec', 'same']);
    await until(() => expect(table.current.clusters.get('same')?.routingGroup).toBe('second'));
    await until(async () => expect(await acceptance(south, 'same')).toBe('Accepted'));
  });

  test('REST creates in the write namespace, and changes and deletes a cluster where it is', async () => {
    const { registry, table } = await rig.startOperator();
    await applyIn(south, clusterManifest('b'), 'argocd-controller');
    await until(() => expect(table.current.clusters.has('b')).toBe(true));
    const sent = (name: string, more: object = {}) => ({
      name,
      proxyTo: `http://${name}:8080`,
      externalUrl: `http://${name}:8080`,
      active: true,
      routingGroup: 'adhoc',
      ...more,
    });
    expect((await registry.add(sent('a'), by)).resource).toMatchObject({ namespace: rig.namespace, name: 'a' });
    expect(await rig.kubectl(['get', 'ec', '-o', 'name'])).toBe('enginecluster.enginegateway.dev/a\n');
    const changed = await registry.update(sent('b', { externalUrl: 'https://b' }), by);
    expect(changed.resource).toMatchObject({ namespace: south, name: 'b' });
    await expect(
      registry.update(sent('b', { externalUrl: 'https://b', routingGroup: 'etl' }), by),
    ).rejects.toMatchObject({
      code: 'EG_FIELD_OWNED',
    });
    expect((await registry.setActive('b', false, by)).resource).toMatchObject({ namespace: south });
    await rig.kubectl(['-n', south, 'wait', '--for=condition=Active=False', 'ec/b', '--timeout=60s']);
    await registry.delete('b', by);
    expect(await rig.kubectl(['-n', south, 'get', 'ec', '-o', 'name'])).toBe('');
  });

  /** What a team's administrator applies so that Secrets of its namespace are read. */
  const letSecretsBeRead = async (namespace: string): Promise<void> => {
    const rights = await rig.kubectl(['kustomize', 'manifests/health-credentials']);
    const subject = rights.replace('namespace: engine-gateway', `namespace: ${rig.namespace}`);
    await rig.kubectl(['-n', namespace, 'apply', '-f', '-'], subject);
  };

  test('health credentials come from a labelled Secret beside the cluster, from nowhere else', async () => {
    const operator = await rig.startOperator();
    const url = `http://engine.${north}.svc:8080`;
    await letSecretsBeRead(north);
    await applyIn(north, clusterManifest('a', { healthCheck: { credentialsSecretRef: { name: 'creds' } } }));
    await until(() => expect(operator.table.current.clusters.has('a')).toBe(true));
    const secret = async (namespace: string, password: string): Promise<void> => {
      const literals = ['--from-literal=username=u', `--from-literal=password=${password}`];
      await rig.kubectl(['-n', namespace, 'create', 'secret', 'generic', 'creds', ...literals]);
    };
    const label = 'enginegateway.dev/health-credentials=true';
    for (const namespace of [rig.namespace, south]) {
      await secret(namespace, 'of another');
      await rig.kubectl(['-n', namespace, 'label', 'secret', 'creds', label]);
    }
    const missing = { ok: false, message: expect.stringContaining(`Secret ${north}/creds does not exist`) };
    expect(await operator.healthCredentials('a', url)).toMatchObject(missing);
    await secret(north, 'of north');
    expect(await operator.healthCredentials('a', url)).toMatchObject({
      ok: false,
      message: expect.stringContaining('labelled'),
    });
    await rig.kubectl(['-n', north, 'label', 'secret', 'creds', label]);
    expect(await operator.healthCredentials('a', url)).toEqual({ ok: true, username: 'u', password: 'of north' });
  });

  test('Secrets of a namespace are read where a Role of that namespace says so, and the cluster says which is missing', async () => {
    const operator = await rig.startOperator();
    const mayRead = async (...more: string[]) =>
      (
        await rig
          .kubectl([
            'auth',
            'can-i',
            'get',
            'secrets',
            `--as=system:serviceaccount:${rig.namespace}:engine-gateway`,
            ...more,
          ])
          .catch((error: { stdout: string }) => error.stdout)
      ).trim();
    expect(await mayRead('-A')).toBe('no');
    expect(await mayRead('-n', north)).toBe('no');
    const engine = await startSimulatedEngine({ name: 'a', passwords: { monitor: 's3cret-of-north' } });
    const checks = openChecks();
    const { controller, table } = operator;
    const monitors = new HealthMonitors(
      {
        table,
        kinds: checks.kinds,
        credentials: {
          configured: { username: 'monitor', password: 'of-all-others', allowedHosts: null },
          trustsResources: false,
          ofCluster: operator.healthCredentials,
          report: (name, refusal) => controller.reportHealthCredentials(name, refusal),
        },
        logger: pino({ level: 'silent' }),
        registry: new Registry(),
        clock: systemClock,
        random: Math.random,
      },
      { ...defaultMonitorSettings, interval: 200 },
    );
    monitors.start();
    try {
      const condition = async (type: string) => {
        const path = `jsonpath={.status.conditions[?(@.type=="${type}")]}`;
        const text = await rig.kubectl(['-n', north, 'get', 'ec', 'a', '-o', path]);
        return text === '' ? null : (JSON.parse(text) as { status: string; reason: string; message: string });
      };
      // Without a Secret of its own: it does not get the credentials of others.
      await applyIn(north, clusterManifest('a', { proxyTo: engine.url, healthCheck: { type: 'Metrics' } }));
      await until(async () =>
        expect(await condition('HealthCredentials')).toMatchObject({ status: 'False', reason: 'TypeNotConfigured' }),
      );
      const literals = ['--from-literal=username=monitor', '--from-literal=password=s3cret-of-north'];
      await rig.kubectl(['-n', north, 'create', 'secret', 'generic', 'creds', ...literals]);
      await rig.kubectl(['-n', north, 'label', 'secret', 'creds', 'enginegateway.dev/health-credentials=true']);
      const check = { type: 'Metrics', credentialsSecretRef: { name: 'creds' } };
      await applyIn(north, clusterManifest('a', { proxyTo: engine.url, healthCheck: check }));
      const { host } = new URL(engine.url);
      await until(async () =>
        expect(await condition('HealthCredentials')).toMatchObject({
          status: 'False',
          reason: 'HostNotAllowed',
          message: expect.stringContaining(`write credentialsHosts: ["${host}"]`),
        }),
      );
      const healthCheck = { ...check, credentialsHosts: [host] };
      await applyIn(north, clusterManifest('a', { proxyTo: engine.url, healthCheck }));
      await until(async () =>
        expect(await condition('HealthCredentials')).toMatchObject({
          reason: 'SecretForbidden',
          message: expect.stringContaining(`needs a Role and a RoleBinding in namespace ${north}`),
        }),
      );
      await letSecretsBeRead(north);
      await until(async () => expect(await condition('Healthy')).toMatchObject({ status: 'True' }));
      await until(async () => expect(await condition('HealthCredentials')).toBeNull());
      // The right is for that namespace alone.
      expect(await mayRead('-n', north)).toBe('yes');
      expect(await mayRead('-n', south)).toBe('no');
      expect(await mayRead('-A')).toBe('no');
    } finally {
      monitors.stop();
      await Promise.all([engine.close(), checks.close()]);
    }
  });

  describe('tenants', () => {
    const conditionOf = async (namespace: string, resource: string, type = 'Accepted') => {
      const path = `jsonpath={.status.conditions[?(@.type=="${type}")]}`;
      const text = await rig.kubectl(['-n', namespace, 'get', resource, '-o', path]);
      return JSON.parse(text === '' ? '{}' : text) as { status: string; reason: string; message: string };
    };
    const isRefused = (namespace: string, resource: string, reason: string, fix: string) =>
      until(async () =>
        expect(await conditionOf(namespace, resource)).toMatchObject({
          ...{ status: 'False', reason, message: expect.stringContaining(fix) },
        }),
      );
    const logged = () => {
      const lines: string[] = [];
      return { lines, logger: pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }) };
    };
    // Clusters of this suite are not checked: groups of them are not ready.
    const ready = (namespace: string, ...names: string[]) =>
      rig.kubectl(['-n', namespace, 'wait', '--for=condition=Accepted', ...names, '--timeout=60s']);
    const denies = (name: string): object => ruleManifest(name, { routeTo: undefined, deny: { message: name } });

    test('a rule for every query decides those of its tenant, only to its groups, and takes no name of others', async () => {
      await grant(north, { names: undefined, routingGroups: [{ type: 'Prefix', value: 'north' }] });
      const { lines, logger } = logged();
      const { table } = await rig.startOperator({ logger });
      await applyIn(rig.namespace, clusterManifest('adhoc-1'));
      await applyIn(north, clusterManifest(`${north}-1`, { routingGroup: 'north' }));
      // With the platform's names, and older.
      await applyIn(north, ruleManifest('platform', { routeTo: { cluster: `${north}-1` } }));
      await applyIn(north, ruleManifest(`${north}-steal`, { priority: 5, routeTo: { cluster: 'adhoc-1' } }));
      await applyIn(north, ruleManifest(`${north}-final`, { stage: 'Final', routeTo: { routingGroup: 'north' } }));
      await applyIn(
        north,
        ruleManifest(`${north}-own`, { priority: 5, stop: true, routeTo: { routingGroup: 'north' } }),
      );
      await applyIn(rig.namespace, ruleManifest('platform', { priority: 1_000, routeTo: { routingGroup: 'adhoc' } }));
      await ready(rig.namespace, 'rr/platform');
      await ready(north, `rr/${north}-own`);
      await isRefused(north, 'rr/platform', 'NameNotGranted', `added to spec.names of the EngineTenant ${north}`);
      await isRefused(north, `rr/${north}-steal`, 'RoutingGroupNotGranted', `spec.routingGroups of the EngineTenant`);
      await isRefused(north, `rr/${north}-final`, 'StageNotGranted', `in the namespace ${rig.namespace}`);
      expect(table.current.rules?.decide(queryOf('somebody'))).toMatchObject({ rule: 'platform', cluster: null });
      expect(table.current.rules?.decide(queryOf(north))).toMatchObject({
        rule: `${north}-own`,
        routingGroup: 'north',
      });
      expect(lines.join('')).toContain(`added to spec.names of the EngineTenant ${north}`);
      // A deny of the platform in the final stage is above all.
      await applyIn(rig.namespace, {
        ...denies('last'),
        spec: { condition: 'true', stage: 'Final', deny: { message: 'x' } },
      });
      await until(() => expect(table.current.rules?.decide(queryOf(north)).denied?.rule).toBe('last'));
    });

    test('what a namespace of no tenant, or of a suspended one, declares is not accepted', async () => {
      const { table } = await rig.startOperator();
      await applyIn(north, clusterManifest('a'));
      await applyIn(north, denies('d'));
      await applyIn(north, groupManifest('etl', { maxRunningQueries: 1 }));
      await applyIn(north, limitManifest('l'));
      await ready(north, 'ec/a', 'rr/d', 'rtg/etl', 'ql/l');
      expect(table.current.rules?.decide(queryOf(north)).denied).not.toBeNull();
      await rig.kubectl(['patch', 'et', north, '--type=merge', '-p', '{"spec":{"suspend":true}}']);
      for (const resource of ['ec/a', 'rr/d', 'rtg/etl', 'ql/l'])
        await isRefused(north, resource, 'NoTenant', 'added to spec.namespaces of one');
      expect([...table.current.clusters.keys()]).toEqual([]);
      expect(table.current.rules?.decide(queryOf(north)).denied ?? null).toBeNull();
      expect([table.current.admission.groups.size, table.current.admission.limits.length]).toEqual([0, 0]);
      await rig.kubectl(['patch', 'et', north, '--type=merge', '-p', '{"spec":{"suspend":false}}']);
      await ready(north, 'ec/a', 'rr/d', 'rtg/etl', 'ql/l');
      await rig.kubectl(['delete', 'et', north]);
      await isRefused(north, 'ec/a', 'NoTenant', north);
    });

    test('groups, limits and clusters need their grants, and the grants are shown by the tenant', async () => {
      await grant(north, { names: undefined, routingGroups: [{ value: 'north' }], decides: undefined });
      const { table, controller } = await rig.startOperator();
      await applyIn(south, groupManifest('south-group', { name: `${north}-x` }));
      await applyIn(north, clusterManifest(`${north}-1`, { routingGroup: 'north' }));
      await applyIn(north, clusterManifest(`${north}-2`, { routingGroup: 'etl' }));
      await applyIn(north, ruleManifest(`${north}-r`, { routeTo: { routingGroup: 'north' } }));
      await applyIn(north, limitManifest('l'));
      await applyIn(north, groupManifest('etl', { maxRunningQueries: 1 }));
      await applyIn(north, groupManifest(`${north}-g`, { maxRunningQueries: 1 }));
      await isRefused(north, `ec/${north}-2`, 'RoutingGroupNotGranted', 'the routing group etl');
      await isRefused(north, `rr/${north}-r`, 'DecidesNotGranted', 'have spec.decides added');
      await isRefused(north, 'ql/l', 'DecidesNotGranted', 'have spec.decides added');
      await isRefused(north, 'rtg/etl', 'NameNotGranted', 'the name etl');
      await isRefused(north, `rtg/${north}-g`, 'RoutingGroupNotGranted', `the routing group ${north}-g`);
      await ready(north, `ec/${north}-1`);
      expect([...table.current.clusters.keys()]).toEqual([`${north}-1`]);
      // The two have the same user from now on.
      await grant(north, { decides: { users: [{ value: 'both' }] } });
      await grant(south, { decides: { users: [{ value: 'both' }] } });
      await applyIn(south, ruleManifest('theirs', { routeTo: { routingGroup: 'south' } }));
      await ready(north, `rr/${north}-r`, 'ql/l');
      await ready(south, 'rr/theirs');
      expect(table.current.rules?.decide(queryOf('both'))).toMatchObject({ rule: null, routingGroup: null });
      expect(table.current.admission.limits[0]?.match.isDecided?.('both', [], '')).toBe(false);
      controller.reportTenantConflict([north, south]);
      await rig.kubectl(['wait', '--for=condition=Conflicting', `et/${north}`, `et/${south}`, '--timeout=60s']);
      const columns = (await rig.kubectl(['get', 'et', north])).split('\n');
      expect(columns[0]).toMatch(/^NAME +READY +NAMESPACES +CLUSTERS +RULES +SUSPEND +AGE$/);
      await until(async () =>
        expect(await rig.kubectl(['get', 'et', north])).toMatch(new RegExp(`${north} +True +1 +2 +1 `)),
      );
    });

    test('namespaces are selected by labels, and belong to the older tenant', async () => {
      await rig.kubectl(['delete', 'et', north]);
      await grant('by-labels', { namespaces: { selector: { matchLabels: { team: 'n' } } } });
      const { table } = await rig.startOperator();
      await applyIn(north, clusterManifest('a'));
      await isRefused(north, 'ec/a', 'NoTenant', north);
      await rig.kubectl(['label', 'namespace', north, rig.namespace, 'team=n']);
      await ready(north, 'ec/a');
      expect(table.current.clusters.has('a')).toBe(true);
      // The platform's own namespace is no tenant's.
      await until(async () =>
        expect(await conditionOf(rig.namespace, 'et/by-labels')).toMatchObject({
          ...{ reason: 'NamespaceConflict', message: expect.stringContaining('belongs to the platform') },
        }),
      );
      await grant('younger', { namespaces: { names: [north] } });
      await isRefused(
        north,
        'et/younger',
        'NamespaceConflict',
        `namespace ${north} belongs to the older EngineTenant by-labels`,
      );
      await rig.kubectl(['label', 'namespace', north, 'team-']);
      await isRefused(north, 'ec/a', 'NoTenant', north).catch(() => undefined);
      await ready('default', 'et/younger');
      await ready(north, 'ec/a');
    });

    test('resource groups need environment, root group and priorities, and prune nothing of others', async () => {
      const { store } = await rig.startOperator();
      try {
        const groups = (group: string, more: object = {}) =>
          manifest('ResourceGroupConfiguration', 'groups', {
            environment: 'prod',
            rootGroups: [{ name: group, softMemoryLimit: '50%', hardConcurrencyLimit: 5, maxQueued: 1 }],
            selectors: [{ group }],
            ...more,
          });
        const tables = (store as KnexStore).resourceGroups({ allowed: null, maxOpen: 1 });
        const rows = async () => {
          const { groups: all, selectors } = await tables.use(null, (own) => own.read());
          return [all.map(({ name }) => name), selectors.map(({ priority }) => priority)];
        };
        await applyIn(north, groups('attack', { prune: true }));
        await isRefused(
          north,
          'rgc/groups',
          'EnvironmentNotGranted',
          `spec.resourceGroups.environments of the EngineTenant`,
        );
        await applyIn(rig.namespace, groups('platform'));
        await ready(rig.namespace, 'rgc/groups');
        expect(await rows()).toEqual([['platform'], [1]]);
        const priorities = { from: 10, to: 19 };
        const resourceGroups = { environments: ['prod'], rootGroups: [{ value: 'north' }], priorities };
        await grant(north, { resourceGroups });
        await isRefused(north, 'rgc/groups', 'ResourceGroupNotGranted', 'the root group attack');
        await applyIn(north, groups('north', { prune: true }));
        await isRefused(north, 'rgc/groups', 'ResourceGroupNotGranted', 'leave prune out');
        const selectors = Array.from({ length: 11 }, (_, user) => ({ user: `${user}`, group: 'north' }));
        await applyIn(north, groups('north', { selectors }));
        await isRefused(north, 'rgc/groups', 'PrioritiesNotGranted', 'more selectors than priorities from 10 to 19');
        await applyIn(north, groups('north', { databases: ['finance'] }));
        await isRefused(north, 'rgc/groups', 'DatabaseNotGranted', 'the database finance');
        await applyIn(north, groups('north'));
        await ready(north, 'rgc/groups');
        // The platform's selectors stay above.
        await until(async () => {
          const [names = [], given = []] = await rows();
          expect([names.toSorted(), given.toSorted()]).toEqual([
            ['north', 'platform'],
            [19, 20],
          ]);
        });
        await rig.kubectl(['-n', north, 'delete', 'rgc', 'groups']);
        await until(async () => expect((await rows())[0]).toEqual(['platform']));
      } finally {
        for (const namespace of [north, rig.namespace]) await rig.kubectl(['-n', namespace, 'delete', 'rgc', '--all']);
      }
    });

    test('a cluster does not get a name of another namespace, neither of a cluster nor of a row', async () => {
      await grant(north, { names: undefined });
      await grant(south, { names: undefined });
      const { lines, logger } = logged();
      await (await openStore({ jdbcUrl: rig.jdbcUrl, runMigrations: true, logger })).close();
      const database = new DatabaseSync(rig.jdbcUrl.replace('jdbc:sqlite:', ''));
      database.exec(
        "insert into gateway_backend (name, routing_group, backend_url, external_url, active) values ('old-one', 'etl', 'http://old:1', 'http://old:1', true)",
      );
      database.close();
      const { table, stop } = await rig.startOperator({ logger });
      const squat = (name: string, more: object): Promise<string> =>
        applyIn(north, clusterManifest(name, { proxyTo: 'http://squatter:1', ...more }));
      await squat('squat', { name: `${south}-9` });
      await squat('old-one', {});
      await squat('adhoc-1', {});
      for (const [resource, name] of [
        ['squat', `${south}-9`],
        ['old-one', 'old-one'],
        ['adhoc-1', 'adhoc-1'],
      ] as const)
        await isRefused(north, `ec/${resource}`, 'NameNotGranted', `spec.name: the name ${name} is not granted`);
      // They are younger.
      await applyIn(south, clusterManifest(`${south}-9`));
      await applyIn(rig.namespace, clusterManifest('adhoc-1'));
      await squat(`${north}-1`, {});
      await ready(south, `ec/${south}-9`);
      await ready(rig.namespace, 'ec/adhoc-1');
      await ready(north, `ec/${north}-1`);
      const routed = table.current.clusters.values().map(({ name, proxyTo }) => `${name} ${proxyTo}`);
      expect([...routed].sort()).toEqual(
        [
          `${south}-9 http://${south}-9:8080`,
          `${north}-1 http://squatter:1`,
          'adhoc-1 http://adhoc-1:8080',
          'old-one http://old:1',
        ].sort(),
      );
      expect(lines.join('')).toContain('the name old-one is not granted');
      await stop();
      // REST refuses such a name before anything is written.
      const teams = await rig.startOperator({
        resources: {
          ...{ source: 'kubernetes', directory: null, namespace: '*', unmanagedRows: 'serve' },
          ...{ ...allResources, kubeconfig: rig.kubeconfig, writeNamespace: north },
        },
      });
      const sent = { name: 'x', proxyTo: 'http://x:1', externalUrl: 'http://x:1', active: true, routingGroup: 'adhoc' };
      await expect(teams.registry.add(sent, by)).rejects.toMatchObject({
        ...{ code: 'EG_IMPOSSIBLE', field: 'name', message: expect.stringContaining('the name x is not granted') },
      });
      expect((await teams.registry.add({ ...sent, name: `${north}-x` }, by)).resource).toMatchObject({
        namespace: north,
      });
      // The row stays, with and without a resource that asks for its name.
      await rig.kubectl(['-n', north, 'delete', 'ec', 'old-one', 'squat']);
      await until(async () =>
        expect(await rig.kubectl(['-n', north, 'get', 'ec', '-o', 'name'])).not.toMatch(/old-one/),
      );
      expect(teams.table.current.clusters.get('old-one')?.origin).toBe('row');
    });

    test('an editor of a namespace writes no tenant, and without the ClusterRole there are none', async () => {
      const mayWrite = (verb: string) =>
        rig
          .kubectl(['auth', 'can-i', verb, 'enginetenants.enginegateway.dev', '-n', north, '--as=editor'])
          .catch((error: { stdout: string }) => error.stdout);
      await rig.kubectl(['apply', '-f', 'manifests/base/user-roles.yaml']);
      await rig.kubectl([
        '-n',
        north,
        'create',
        'rolebinding',
        'editor',
        '--clusterrole=engine-gateway-edit',
        '--user=editor',
      ]);
      expect((await mayWrite('create')).trim()).toBe('no');
      expect((await mayWrite('patch')).trim()).toBe('no');
      const single = await kubeRig(plane);
      const { source, controller, table } = await single.startOperator();
      await single.apply('kubectl', clusterManifest('own'));
      await until(() => expect(table.current.clusters.has('own')).toBe(true));
      expect(source.state()).toMatchObject({ synced: true, available: true, reason: null });
      expect(controller.tenancy.isOpen).toBe(true);
      await single.stop();
    });

    test('a discovery of a tenant makes clusters of its own Services, in its groups', async () => {
      await grant(north, { names: undefined, routingGroups: [{ value: 'north' }] });
      const { table } = await rig.startOperator({ discoveryNamespaces: ['*'] });
      const service = (name: string, group: string) => ({
        ...{ apiVersion: 'v1', kind: 'Service' },
        metadata: { name, labels: { engine: 'yes', group } },
        spec: { ports: [{ name: 'http', port: 8080 }] },
      });
      await applyIn(north, service('good', 'north'));
      await applyIn(north, service('greedy', 'etl'));
      await applyIn(south, service('theirs', 'north'));
      const selector = { matchLabels: { engine: 'yes' } };
      const template = { name: `${north}-{service}`, routingGroupFrom: { label: 'group' } };
      const namespaces = { names: [north, south] };
      await applyIn(north, manifest('EngineClusterDiscovery', 'engines', { selector, namespaces, template }));
      await until(() => expect([...table.current.clusters.keys()]).toEqual([`${north}-good`]));
      await until(async () =>
        expect(await conditionOf(north, 'ecd/engines', 'Discovered')).toMatchObject({
          ...{ status: 'False', message: expect.stringMatching(/routing group etl .*is not one of the tenant/) },
        }),
      );
      await rig.kubectl(['-n', north, 'delete', 'ecd', 'engines']);
    });
  });

  test('a cluster at an address of the gateway itself or of a metadata service is not accepted', async () => {
    const addresses = new ClusterAddresses({ allowed: [], loopback: false });
    const { table, registry } = await rig.startOperator({ addresses });
    const urls = [
      'http://127.0.0.1:8090',
      'http://localhost:8090',
      'http://169.254.169.254',
      'http://metadata.google.internal',
    ];
    for (const [index, proxyTo] of urls.entries()) await applyIn(south, clusterManifest(`x${index}`, { proxyTo }));
    for (const index of urls.keys()) {
      await until(async () => expect(await acceptance(south, `x${index}`)).toBe('AddressNotAllowed'));
    }
    const external = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'out' },
      spec: { type: 'ExternalName', externalName: 'metadata.google.internal' },
    };
    await applyIn(south, external);
    await applyIn(south, referring('via', { name: 'out', port: 80 }));
    await until(async () => expect(await acceptance(south, 'via')).toBe('AddressNotAllowed'));
    expect([...table.current.clusters.keys()]).toEqual([]);
    const added = {
      name: 'y',
      proxyTo: 'http://[::1]:8090',
      externalUrl: 'http://y',
      active: true,
      routingGroup: 'adhoc',
    };
    await expect(registry.add(added, by)).rejects.toMatchObject({ code: 'EG_IMPOSSIBLE', field: 'proxyTo' });
    expect(await rig.kubectl(['get', 'ec', '-o', 'name'])).toBe('');
  });

  test('a Service of another namespace is only used where the configuration allows that namespace', async () => {
    const own = await rig.startOperator();
    for (const namespace of [north, south]) {
      await rig.kubectl(['-n', namespace, 'create', 'service', 'clusterip', 'engine', '--tcp=8080:8080']);
    }
    await applyIn(north, referring('own', { name: 'engine', port: 8080 }));
    await applyIn(north, referring('theirs', { name: 'engine', namespace: south, port: 8080 }));
    await until(() => expect(own.table.current.clusters.get('own')?.proxyTo).toBe(`http://engine.${north}.svc:8080`));
    await until(async () => expect(await acceptance(north, 'theirs')).toBe('RefNotPermitted'));
    await rig.kubectl(['-n', north, 'wait', '--for=condition=Stalled', 'ec/theirs', '--timeout=60s']);
    expect(own.table.current.clusters.has('theirs')).toBe(false);
    await own.stop();
    const permitted = await rig.startOperator({ allowedServiceNamespaces: [south] });
    const proxyTo = () => permitted.table.current.clusters.get('theirs')?.proxyTo;
    await until(() => expect(proxyTo()).toBe(`http://engine.${south}.svc:8080`));
    await until(async () => expect(await acceptance(north, 'theirs')).toBe('Accepted'));
    // Taken back: what is not permitted is no last good version to go on with.
    await permitted.stop();
    const again = await rig.startOperator();
    await until(() => expect([...again.table.current.clusters.keys()]).toEqual(['own']));
    await until(async () => expect(await acceptance(north, 'theirs')).toBe('RefNotPermitted'));
  });

  test('with the Role alone all namespaces cannot be read: the source is unavailable, not empty', async () => {
    const single = await kubeRig(plane);
    const operator = await single.startOperator({
      resources: {
        source: 'kubernetes',
        directory: null,
        namespace: '*',
        ...allResources,
        kubeconfig: single.kubeconfig,
        writeNamespace: null,
        unmanagedRows: 'serve',
      },
    });
    expect(operator.source.state()).toMatchObject({
      synced: false,
      available: false,
      reason: expect.stringContaining('403'),
    });
    await single.stop();
  });

  test('a namespace that the configuration allows and RBAC does not: the cluster says what is missing', async () => {
    const single = await kubeRig(plane);
    const { table } = await single.startOperator({ allowedServiceNamespaces: [north] });
    await rig.kubectl(['-n', north, 'create', 'service', 'clusterip', 'engine', '--tcp=8080:8080']);
    await single.apply('kubectl', referring('far', { name: 'engine', namespace: north, port: 8080 }));
    const message = (): Promise<string> =>
      single.kubectl(['get', 'ec', 'far', '-o', 'jsonpath={.status.conditions[?(@.type=="Accepted")].message}']);
    await until(async () => expect(await message()).toMatch(/403.*cannot list resource "services"/));
    expect(table.current.clusters.has('far')).toBe(false);
    await single.stop();
  });
});
