import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { HealthMonitors } from '../../src/gateway/health/healthMonitors.ts';
import { openPolicy } from '../../src/kinds/engineCluster/clusterPolicy.ts';
import { systemClock } from '../../src/model/clock.ts';
import { ClusterAddresses } from '../../src/model/clusterAddresses.ts';
import { GroupBindings } from '../../src/model/groupBindings.ts';
import { type KnexStore, openStore } from '../../src/store/openStore.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { defaultMonitorSettings, openChecks } from '../support/healthChecks.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest, startPlane } from '../support/kubeRig.ts';
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
    for (const namespace of [north, south]) await rig.kubectl(['create', 'namespace', namespace]);
  });
  afterEach(async () => {
    await rig?.stop();
    // The next gateway sees every namespace there is.
    for (const namespace of [north, south, rig.namespace]) {
      await rig.kubectl(['-n', namespace, 'delete', 'ec,rr', '--all']);
    }
  });

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

  test('a routing group that is bound to namespaces takes clusters and rules of these alone', async () => {
    const policy = {
      ...openPolicy,
      groups: new GroupBindings({ etl: { join: [north], route: [north] } }),
    };
    const { table, controller } = await rig.startOperator({ policy });
    const toEtl = { actions: ['result.put("routingGroup", "etl")'] };
    for (const namespace of [north, south]) {
      await applyIn(namespace, clusterManifest(`c-${namespace}`, { routingGroup: 'etl' }));
      await applyIn(namespace, ruleManifest(`r-${namespace}`, { routeTo: { routingGroup: 'etl' } }));
    }
    await until(async () => expect(await acceptance(north, `c-${north}`)).toBe('Accepted'));
    await until(async () => expect(await acceptance(south, `c-${south}`)).toBe('GroupNotAllowed'));
    await rig.kubectl(['-n', south, 'wait', '--for=condition=Stalled', `ec/c-${south}`, '--timeout=60s']);
    await rig.kubectl(['-n', north, 'wait', '--for=condition=Programmed', `rr/r-${north}`, '--timeout=60s']);
    await rig.kubectl(['-n', south, 'wait', '--for=condition=Accepted=False', `rr/r-${south}`, '--timeout=60s']);
    expect(table.current.groups.get('etl')?.map(({ name }) => name)).toEqual([`c-${north}`]);
    // What actions set is known when they run: the rule is accepted, and says so once it was tried.
    await applyIn(south, { ...ruleManifest('sets'), spec: { condition: 'true', ...toEtl } });
    await rig.kubectl(['-n', south, 'wait', '--for=condition=Programmed', 'rr/sets', '--timeout=60s']);
    const decision = table.current.rules?.decide(sampleRequest);
    const failed = decision?.trace.rules.find(({ rule }) => rule === 'sets');
    expect(failed).toMatchObject({
      outcome: 'failed',
      error: expect.stringContaining('resources.groups["etl"].route'),
    });
    expect(decision).toMatchObject({ rule: `r-${north}`, routingGroup: 'etl' });
    controller.reportRuleFailure('sets', failed?.error ?? '');
    await rig.kubectl(['-n', south, 'wait', '--for=condition=Failing', 'rr/sets', '--timeout=60s']);
  });

  test('a deny rule refuses queries to the groups that its namespace may deny, and no others', async () => {
    const rights = { join: null, route: null };
    const groups = new GroupBindings({ etl: { ...rights, deny: [north] }, '*': { ...rights, deny: [south] } });
    const { table } = await rig.startOperator({ policy: { ...openPolicy, groups } });
    const denies = (name: string): object => ruleManifest(name, { routeTo: undefined, deny: { message: name } });
    await applyIn(north, clusterManifest('c', { routingGroup: 'etl' }));
    await applyIn(north, ruleManifest('to-etl', { routeTo: { routingGroup: 'etl' } }));
    await applyIn(south, denies('of-south'));
    await applyIn(rig.namespace, denies('of-neither'));
    await rig.kubectl(['-n', north, 'wait', '--for=condition=Programmed', 'rr/to-etl', '--timeout=60s']);
    await rig.kubectl(['-n', south, 'wait', '--for=condition=Programmed', 'rr/of-south', '--timeout=60s']);
    const reason = 'jsonpath={.status.conditions[?(@.type=="Accepted")].reason}';
    await until(async () =>
      expect(await rig.kubectl(['get', 'rr', 'of-neither', '-o', reason])).toBe('GroupNotAllowed'),
    );
    expect(table.current.rules?.decide(sampleRequest)).toMatchObject({ denied: null, routingGroup: 'etl' });
    await applyIn(north, denies('of-north'));
    await until(() =>
      expect(table.current.rules?.decide(sampleRequest)).toMatchObject({ denied: { rule: 'of-north' } }),
    );
    // Without the route the query goes to the default group, which is the other namespace's to deny.
    await rig.kubectl(['-n', north, 'delete', 'rr', 'to-etl']);
    await until(() =>
      expect(table.current.rules?.decide(sampleRequest)).toMatchObject({ denied: { rule: 'of-south' } }),
    );
  });

  describe('namespaces that are not trusted', () => {
    const conditionOf = async (namespace: string, resource: string): Promise<{ reason: string; message: string }> => {
      const path = 'jsonpath={.status.conditions[?(@.type=="Accepted")]}';
      const text = await rig.kubectl(['-n', namespace, 'get', resource, '-o', path]);
      return JSON.parse(text === '' ? '{}' : text) as { reason: string; message: string };
    };
    const logged = () => {
      const lines: string[] = [];
      return { lines, logger: pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }) };
    };

    test('a rule for every query that leads to a cluster of its author is not asked', async () => {
      const { lines, logger } = logged();
      const { table, stop } = await rig.startOperator({ trustedNamespaces: [south], logger });
      await applyIn(rig.namespace, clusterManifest('adhoc-1'));
      await applyIn(north, clusterManifest(`${north}-listener`));
      const steal = ruleManifest('a-steal', { priority: 5, stop: true, routeTo: { cluster: `${north}-listener` } });
      await applyIn(north, steal);
      // With the same name, and older than the platform's.
      await applyIn(north, ruleManifest('platform', { routeTo: { cluster: `${north}-listener` } }));
      await applyIn(north, ruleManifest('denies', { routeTo: undefined, deny: { message: 'no' } }));
      await applyIn(rig.namespace, ruleManifest('platform', { priority: 1, routeTo: { routingGroup: 'adhoc' } }));
      await applyIn(south, ruleManifest('of-south', { condition: 'false' }));
      await rig.kubectl(['wait', '--for=condition=Ready', 'rr/platform', '--timeout=60s']);
      await rig.kubectl(['-n', south, 'wait', '--for=condition=Ready', 'rr/of-south', '--timeout=60s']);
      const fix = `declare it in ${rig.namespace} or ${south}, or have ${north} added to resources.trustedNamespaces`;
      for (const name of ['a-steal', 'platform', 'denies']) {
        await until(async () =>
          expect(await conditionOf(north, `rr/${name}`)).toMatchObject({
            ...{ status: 'False', reason: 'NamespaceNotTrusted' },
            message: expect.stringContaining(fix),
          }),
        );
      }
      await rig.kubectl(['-n', north, 'wait', '--for=condition=Ready', `ec/${north}-listener`, '--timeout=60s']);
      await until(() => expect(table.current.clusters.has(`${north}-listener`)).toBe(true));
      expect(table.current.rules?.decide(sampleRequest)).toMatchObject({
        ...{ rule: 'platform', routingGroup: 'adhoc', cluster: null, denied: null },
      });
      expect(lines.join('')).toContain(fix);
      // As soon as the namespace is trusted, the same rule counts.
      await stop();
      const trusting = await rig.startOperator({ trustedNamespaces: [north, south] });
      await until(async () => expect(await conditionOf(north, 'rr/a-steal')).toMatchObject({ reason: 'Accepted' }));
      expect(trusting.table.current.rules?.decide(sampleRequest)).toMatchObject({ cluster: `${north}-listener` });
    });

    test('resource groups of an environment with prune leave the rows of the platform in the tables', async () => {
      const { store } = await rig.startOperator({ trustedNamespaces: [south] });
      try {
        const groups = (group: string, more: object) =>
          manifest('ResourceGroupConfiguration', 'groups', {
            ...{ environment: 'prod', ...more },
            rootGroups: [{ name: group, softMemoryLimit: '50%', hardConcurrencyLimit: 5, maxQueued: 1 }],
            selectors: [{ group }],
          });
        const tables = (store as KnexStore).resourceGroups({ allowed: null, maxOpen: 1 });
        const rows = async () => (await tables.use(null, (own) => own.read())).groups.map(({ name }) => name);
        await applyIn(north, groups('attack', { prune: true }));
        await until(async () =>
          expect(await conditionOf(north, 'rgc/groups')).toMatchObject({
            ...{ status: 'False', reason: 'NamespaceNotTrusted' },
            message: expect.stringContaining('resources.trustedNamespaces'),
          }),
        );
        await applyIn(south, groups('platform', {}));
        await rig.kubectl(['-n', south, 'wait', '--for=condition=Ready', 'rgc/groups', '--timeout=60s']);
        expect(await rows()).toEqual(['platform']);
        // A later version is not accepted either, and its deletion takes nothing away.
        await applyIn(north, groups('platform', { prune: true }));
        const generation = 'jsonpath={.status.observedGeneration}=2';
        await rig.kubectl(['-n', north, 'wait', `--for=${generation}`, 'rgc/groups', '--timeout=60s']);
        await rig.kubectl(['-n', north, 'delete', 'rgc', 'groups']);
        await until(async () =>
          expect((await store.resources.all()).filter(({ namespace }) => namespace === north)).toEqual([]),
        );
        expect(await rows()).toEqual(['platform']);
      } finally {
        await rig.kubectl(['-n', south, 'delete', 'rgc', '--all']);
      }
    });

    test('a cluster does not get a name of another namespace, neither of a cluster nor of a row', async () => {
      const { lines, logger } = logged();
      await (await openStore({ jdbcUrl: rig.jdbcUrl, runMigrations: true, logger })).close();
      const database = new DatabaseSync(rig.jdbcUrl.replace('jdbc:sqlite:', ''));
      database.exec(
        "insert into gateway_backend (name, routing_group, backend_url, external_url, active) values ('old-one', 'etl', 'http://old:1', 'http://old:1', true)",
      );
      database.close();
      const { table, stop } = await rig.startOperator({ trustedNamespaces: [], logger });
      const squat = (name: string, more: object): Promise<string> =>
        applyIn(north, clusterManifest(name, { proxyTo: 'http://squatter:1', ...more }));
      await squat('squat', { name: `${south}-9` });
      await squat('old-one', {});
      await squat('adhoc-1', {});
      const refusal = (name: string) => ({
        ...{ status: 'False', reason: 'NameNotAllowed' },
        message: expect.stringMatching(
          new RegExp(`^spec\\.name: ${name} does not begin with ${north}-, .*resources\\.trustedNamespaces`),
        ),
      });
      await until(async () => expect(await conditionOf(north, 'ec/squat')).toMatchObject(refusal(`${south}-9`)));
      await until(async () => expect(await conditionOf(north, 'ec/old-one')).toMatchObject(refusal('old-one')));
      await until(async () => expect(await conditionOf(north, 'ec/adhoc-1')).toMatchObject(refusal('adhoc-1')));
      // They are younger.
      await applyIn(south, clusterManifest(`${south}-9`));
      await applyIn(rig.namespace, clusterManifest('adhoc-1'));
      await squat(`${north}-1`, {});
      await rig.kubectl(['-n', south, 'wait', '--for=condition=Ready', `ec/${south}-9`, '--timeout=60s']);
      await rig.kubectl(['wait', '--for=condition=Ready', 'ec/adhoc-1', '--timeout=60s']);
      await rig.kubectl(['-n', north, 'wait', '--for=condition=Ready', `ec/${north}-1`, '--timeout=60s']);
      const routed = table.current.clusters.values().map(({ name, proxyTo }) => `${name} ${proxyTo}`);
      expect([...routed].sort()).toEqual(
        [
          `${south}-9 http://${south}-9:8080`,
          `${north}-1 http://squatter:1`,
          'adhoc-1 http://adhoc-1:8080',
          'old-one http://old:1',
        ].sort(),
      );
      expect(lines.join('')).toContain(`old-one does not begin with ${north}-`);
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
        ...{ code: 'EG_IMPOSSIBLE', field: 'name', message: expect.stringContaining(`begin with ${north}-`) },
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
  });

  test('a cluster at an address of the gateway itself or of a metadata service is not accepted', async () => {
    const addresses = new ClusterAddresses({ allowed: [], loopback: false });
    const { table, registry } = await rig.startOperator({ policy: { ...openPolicy, addresses } });
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
