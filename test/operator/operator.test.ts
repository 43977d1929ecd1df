import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { exportManifests } from '../../src/cli/export.ts';
import { neverChecked } from '../../src/routing/routingTable.ts';
import { type KnexStore, openStore } from '../../src/store/openStore.ts';
import { hasOpenssl, localCertificate } from '../support/certificates.ts';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { oneDatabase } from '../support/databases.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest } from '../support/kubeRig.ts';
import { manifest as resourceManifest } from '../support/manifest.ts';

const by = { by: 'alice', force: false };
const cluster = (name: string, more = {}) => ({
  name,
  proxyTo: `http://${name}:8080`,
  externalUrl: `http://${name}:8080`,
  active: true,
  routingGroup: 'adhoc',
  ...more,
});
const until = (check: () => void | Promise<void>, timeout = 40_000): Promise<void> =>
  vi.waitFor(check, { timeout, interval: 50 });

describe.skipIf(!controlPlaneAvailable)('operator on a real API server, with only the shipped Role', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  beforeAll(async () => {
    plane = await sharedControlPlane();
  });
  afterAll(() => plane?.stop());
  beforeEach(async () => {
    rig = await kubeRig(plane);
  });
  afterEach(() => rig.stop());

  const json = async (...args: string[]): Promise<unknown> =>
    JSON.parse(await rig.kubectl([...args, '-o', 'json'])) as unknown;
  const annotations = async (name: string): Promise<Record<string, string>> =>
    ((await json('get', 'ec', name)) as { metadata: { annotations?: Record<string, string> } }).metadata.annotations ??
    {};
  const spec = async (name: string): Promise<Record<string, unknown>> =>
    ((await json('get', 'ec', name)) as { spec: Record<string, unknown> }).spec;

  test('what is applied is routed, stored and said in status, columns and events; what is deleted goes', async () => {
    const { table, store } = await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('a'), clusterManifest('b', { active: false }), ruleManifest('r'));
    await until(() => expect([...table.current.clusters.keys()]).toEqual(['a', 'b']));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', 'ec/b', 'rr/r', '--timeout=60s']);
    expect((await store.backends.all()).map((row) => [row.name, row.active, row.managed])).toEqual([
      ['a', true, true],
      ['b', false, true],
    ]);
    table.setHealth('a', 'http://a:8080', { ...neverChecked, status: 'HEALTHY', reason: '' });
    await rig.kubectl(['wait', '--for=condition=Healthy', 'ec/a', '--timeout=60s']);
    const columns = await rig.kubectl(['get', 'ec', '--no-headers']);
    expect(columns.replaceAll(/ +/g, ' ').replaceAll(/ \d+s\n/g, '\n')).toBe(
      'a True adhoc true True false\nb True adhoc false Unknown false\n',
    );
    expect((await rig.kubectl(['get', 'rr', '--no-headers'])).replaceAll(/ +/g, ' ')).toMatch(
      /^r True group adhoc false \d+s\n$/,
    );
    const events = async (): Promise<string[]> =>
      (
        await rig.kubectl([
          'get',
          'events.events.k8s.io',
          '-o',
          'jsonpath={range .items[*]}{.regarding.name} {.reason} {.type}{"\\n"}{end}',
        ])
      )
        .trim()
        .split('\n')
        .sort();
    await until(async () =>
      expect(await events()).toEqual(expect.arrayContaining(['a Accepted Normal', 'a Healthy Normal'])),
    );
    expect((await events()).filter((event) => event.startsWith('a Healthy'))).toHaveLength(1);
    await rig.kubectl(['delete', 'ec', 'a', '--wait=false']);
    await until(async () => {
      expect([...table.current.clusters.keys()]).toEqual(['b']);
      expect((await store.backends.all()).map((row) => row.name)).toEqual(['b']);
    });
  });

  test('resource groups are in the tables of engines, follow the resource, and go with it', async () => {
    const server = await oneDatabase.start();
    try {
      const { store } = await rig.startOperator({ database: await server.create() });
      const manifest = (maxQueued: number, whenDrifted = 'Repair') =>
        resourceManifest('ResourceGroupConfiguration', 'groups', {
          ...{ environment: 'test', whenDrifted },
          rootGroups: [{ name: 'a', softMemoryLimit: '50%', hardConcurrencyLimit: 5, maxQueued }],
          selectors: [{ group: 'a' }],
        });
      const tables = (store as KnexStore).resourceGroups({ allowed: null, maxOpen: 1 });
      const rows = async () => (await tables.use(null, (own) => own.read())).groups;
      const queued = async () => (await rows()).map((group) => group.maxQueued);
      const waitFor = (state: string) => rig.kubectl(['wait', `--for=${state}`, 'rgc/groups', '--timeout=60s']);
      await rig.apply('kubectl', manifest(1));
      await waitFor('condition=Ready');
      expect(await queued()).toEqual([1]);
      const columns = await rig.kubectl(['get', 'rgc', '-o', 'jsonpath={.items[0].status.databases}']);
      expect(JSON.parse(columns)).toEqual([{ environment: 'test', appliedGeneration: 1, groups: 1, selectors: 1 }]);
      // What somebody else writes is only reported where the resource says so, and is an event.
      await rig.apply('kubectl', manifest(2, 'Report'));
      await waitFor('jsonpath={.status.databases[0].appliedGeneration}=2');
      expect(await queued()).toEqual([2]);
      await (store as KnexStore).database.knex('resource_groups').update({ max_queued: 9 });
      // Any change of the resource has it looked at, without waiting for the next look of all.
      await rig.kubectl(['annotate', 'rgc', 'groups', 'example.com/look=1']);
      await waitFor('condition=Drift');
      expect(await queued()).toEqual([9]);
      await rig.apply('kubectl', manifest(2));
      await until(async () => expect(await queued()).toEqual([2]));
      const path = 'jsonpath={range .items[?(@.action=="SetDrift")]}{.reason} {.type} {.note}{"\\n"}{end}';
      await until(async () => {
        const events = (await rig.kubectl(['get', 'events.events.k8s.io', '-o', path])).trim().split('\n');
        expect(events).toContainEqual(
          expect.stringMatching(/^DriftChanged Warning Drift=True: .* a has maxQueued 9, not 2; put it back/),
        );
        expect(events).toContainEqual(
          expect.stringMatching(/^DriftRepaired Warning Drift=False: .* a has maxQueued 9, not 2; put right/),
        );
      });
      await rig.kubectl(['delete', 'rgc', 'groups', '--wait=false']);
      await until(async () => expect(await queued()).toEqual([]));
    } finally {
      await rig.stop();
      await server.dispose();
    }
  });

  test('a cluster that flaps has an Event for each transition', async () => {
    const { table } = await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('a'));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', '--timeout=60s']);
    for (let turns = 0; turns < 3; turns++) {
      for (const [status, condition] of [
        ['UNHEALTHY', 'Healthy=False'],
        ['HEALTHY', 'Healthy=True'],
      ] as const) {
        table.setHealth('a', 'http://a:8080', { ...neverChecked, status, reason: `turn ${turns}` });
        await rig.kubectl(['wait', `--for=condition=${condition}`, 'ec/a', '--timeout=60s']);
      }
    }
    const columns = '{.regarding.name} {.action} {.reason}{"\\n"}';
    const events = async (): Promise<string[]> =>
      (await rig.kubectl(['get', 'events.events.k8s.io', '-o', `jsonpath={range .items[*]}${columns}{end}`]))
        .split('\n')
        .filter((line) => line.startsWith('a SetHealthy'))
        .sort();
    const expected = ['a SetHealthy Healthy', 'a SetHealthy HealthyUnhealthy'].flatMap((line) => Array(3).fill(line));
    await until(async () => expect(await events()).toEqual(expected));
  });

  test('a cluster with a finalizer is out of routing at once when it is deleted', async () => {
    const { table } = await rig.startOperator();
    const held = clusterManifest('a') as { metadata: object };
    await rig.apply('kubectl', { ...held, metadata: { ...held.metadata, finalizers: ['example.com/hold'] } });
    await until(() => expect(table.current.clusters.has('a')).toBe(true));
    await rig.kubectl(['delete', 'ec', 'a', '--wait=false']);
    await until(() => expect(table.current.clusters.has('a')).toBe(false));
    // It does not claim to be routed.
    await rig.kubectl(['wait', '--for=jsonpath={.status.conditions[0].reason}=Terminating', 'ec/a', '--timeout=40s']);
    expect(await rig.kubectl(['get', 'ec', 'a', '--no-headers'])).toMatch(/^a +False /);
    await rig.kubectl(['patch', 'ec', 'a', '--type=merge', '-p', '{"metadata":{"finalizers":null}}']);
  });

  test('a GitOps sync does not undo activate and deactivate; a change of spec.active ends them', async () => {
    const { registry, table } = await rig.startOperator();
    const manifest = clusterManifest('a', { active: true });
    await rig.apply('argocd-controller', manifest);
    await until(() => expect(table.current.clusters.has('a')).toBe(true));
    expect((await registry.setActive('a', false, by)).cluster.active).toBe(false);
    await rig.apply('argocd-controller', manifest);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(table.current.clusters.get('a')?.active).toBe(false);
    await rig.kubectl(['wait', '--for=condition=Active=False', 'ec/a', '--timeout=60s']);
    expect(
      await rig.kubectl(['get', 'ec', 'a', '-o', 'jsonpath={.status.conditions[?(@.type=="Active")].message}']),
    ).toMatch(/^deactivated by alice at .*; spec.active is true$/);
    expect(await rig.kubectl(['get', 'ec', 'a', '-o', 'wide', '--no-headers'])).toContain('Overridden');
    await rig.apply('argocd-controller', clusterManifest('a', { active: false }));
    await until(async () => expect(await annotations('a')).toEqual({}));
    await rig.apply('argocd-controller', manifest);
    await until(() => expect(table.current.clusters.get('a')?.active).toBe(true));
    await rig.kubectl(['annotate', 'ec', 'a', 'enginegateway.dev/active=false']);
    await until(() => expect(table.current.clusters.get('a')?.active).toBe(false));
    await registry.setActive('a', true, by);
    expect(await annotations('a')).toEqual({});
  });

  test('a Service is resolved and followed; its URL sent back changes nothing', async () => {
    const { registry, table } = await rig.startOperator();
    const bare = clusterManifest('a') as { spec: { proxyTo?: string } };
    delete bare.spec.proxyTo;
    const referring = { ...bare, spec: { ...bare.spec, serviceRef: { name: 'engine', port: 8080 } } };
    await rig.apply('kubectl', referring);
    const reason = (): Promise<string> =>
      rig.kubectl(['get', 'ec', 'a', '-o', 'jsonpath={.status.conditions[?(@.type=="Accepted")].reason}']);
    await until(async () => expect(await reason()).toBe('ServiceNotFound'));
    await rig.kubectl(['create', 'service', 'clusterip', 'engine', '--tcp=9090:9090']);
    await until(async () => expect(await reason()).toBe('ServicePortNotFound'));
    await rig.kubectl(['patch', 'service', 'engine', '--type=merge', '-p', '{"spec":{"ports":[{"port":8080}]}}']);
    const url = `http://engine.${rig.namespace}.svc:8080`;
    await until(() => expect(table.current.clusters.get('a')?.proxyTo).toBe(url));
    await registry.update(cluster('a', { proxyTo: url, externalUrl: url }), by);
    expect(await spec('a')).toMatchObject({ serviceRef: { name: 'engine' } });
    await expect(registry.update(cluster('a'), by)).rejects.toMatchObject({ code: 'EG_FIELD_OWNED' });
    await registry.update(cluster('a'), { by: 'x', force: true });
    expect(await spec('a')).toEqual({
      proxyTo: 'http://a:8080',
      routingGroup: 'adhoc',
      active: true,
      suspend: false,
      weight: 100,
    });
  });

  test('health credentials come from a Secret that is labelled for it only', async () => {
    const operator = await rig.startOperator();
    const check = { healthCheck: { credentialsSecretRef: { name: 'creds' } } };
    const url = 'http://a:8080';
    await rig.apply('kubectl', clusterManifest('a', check), clusterManifest('b'));
    await until(() => expect(operator.table.current.clusters.size).toBe(2));
    expect(await operator.healthCredentials('b', url)).toBeNull();
    const service = `http://engine.${rig.namespace}.svc:8080`;
    expect(await operator.healthCredentials('a', service)).toMatchObject({
      ok: false,
      message: expect.stringContaining('does not exist'),
    });
    await rig.kubectl([
      'create',
      'secret',
      'generic',
      'creds',
      '--from-literal=username=u',
      '--from-literal=password=p',
    ]);
    expect(await operator.healthCredentials('a', service)).toMatchObject({
      ok: false,
      message: expect.stringContaining('labelled'),
    });
    await rig.kubectl(['label', 'secret', 'creds', 'enginegateway.dev/health-credentials=true']);
    // To Services of the namespace without more ado, elsewhere where the cluster states so.
    expect(await operator.healthCredentials('a', service)).toEqual({ ok: true, username: 'u', password: 'p' });
    expect(await operator.healthCredentials('a', url)).toMatchObject({
      ok: false,
      reason: 'HostNotAllowed',
      message: expect.stringContaining('write credentialsHosts: ["a:8080"]'),
    });
    const healthCheck = { ...check.healthCheck, credentialsHosts: ['a:8080'] };
    await rig.apply('kubectl', clusterManifest('a', { healthCheck }));
    const expected = { ok: true, username: 'u', password: 'p' };
    await until(async () => expect(await operator.healthCredentials('a', url)).toEqual(expected));
  });

  test.skipIf(!hasOpenssl)('certificates that a cluster refers to are read, and used once they are good', async () => {
    const { table } = await rig.startOperator();
    const { authority, certificate } = localCertificate();
    const tls = { caRef: { name: 'ca' }, clientCertificateRef: { name: 'client' } };
    await rig.apply('kubectl', clusterManifest('a', { proxyTo: 'https://a:8443', tls }));
    const accepted = async () => {
      const { status } = JSON.parse(await rig.kubectl(['get', 'ec', 'a', '-o', 'json']));
      const { conditions = [] } = status ?? {};
      const found = conditions.find(({ type }: { readonly type: string }) => type === 'Accepted');
      return `${found?.status} ${found?.reason}: ${found?.message}`;
    };
    await until(async () =>
      expect(await accepted()).toMatch(/^Unknown RefNotFound: spec.tls.caRef: ConfigMap .*ca does/),
    );
    expect(table.current.clusters.has('a')).toBe(false);
    await rig.kubectl(['create', 'configmap', 'ca', `--from-literal=ca.crt=${authority.cert}`]);
    const literals = [`--from-literal=tls.crt=${certificate.cert}`, `--from-literal=tls.key=${certificate.key}`];
    await rig.kubectl(['create', 'secret', 'generic', 'client', ...literals]);
    await rig.kubectl(['label', 'secret', 'client', 'enginegateway.dev/cluster-tls=true']);
    // Objects are read again every minute; a process that starts reads them then.
    const other = await rig.startOperator();
    await until(() =>
      expect(other.table.current.clusters.get('a')?.tlsMaterial).toEqual({
        ca: authority.cert,
        certificate: certificate.cert,
        key: certificate.key,
      }),
    );
  });

  test('a suspended resource is left as it is', async () => {
    const { table } = await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('a'));
    await until(() => expect(table.current.clusters.has('a')).toBe(true));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', '--timeout=60s']);
    await rig.apply('kubectl', clusterManifest('a', { routingGroup: 'other', suspend: true }));
    await rig.kubectl(['wait', '--for=condition=Suspended', 'ec/a', '--timeout=60s']);
    const generations = ['get', 'ec', 'a', '-o', 'jsonpath={.metadata.generation} {.status.observedGeneration}'];
    expect(await rig.kubectl(generations)).toBe('2 2');
    expect(table.current.clusters.get('a')?.routingGroup).toBe('adhoc');
    await rig.apply('kubectl', clusterManifest('a', { routingGroup: 'other' }));
    await until(() => expect(table.current.clusters.get('a')?.routingGroup).toBe('other'));
    await until(async () => expect(await rig.kubectl(generations)).toBe('3 3'));
  });

  test('a status that somebody else wrote is put right', async () => {
    await rig.startOperator();
    await rig.apply('kubectl', clusterManifest('a'));
    await rig.kubectl(['wait', '--for=condition=Ready', 'ec/a', '--timeout=60s']);
    const verdicts = async () => {
      const status = await rig.kubectl(['get', 'ec', 'a', '-o', 'jsonpath={.status}']);
      const { conditions } = JSON.parse(status) as { conditions: { type: string; status: string }[] };
      return conditions;
    };
    const right = (await verdicts()).map(({ type, status }) => `${type} ${status}`);
    const conditions = (await verdicts()).map((each) => ({ ...each, status: 'False' }));
    const patch = JSON.stringify({ status: { conditions } });
    await rig.kubectl(['patch', 'ec', 'a', '--subresource=status', '--type=merge', '-p', patch]);
    await until(async () => expect((await verdicts()).map(({ type, status }) => `${type} ${status}`)).toEqual(right));
  });

  test("spec.active that Git leaves out is nobody's: REST sets it, and a sync leaves it", async () => {
    const { registry, table } = await rig.startOperator();
    await rig.apply('argocd-controller', clusterManifest('a'));
    await until(() => expect(table.current.clusters.has('a')).toBe(true));
    await registry.update(cluster('a', { active: false }), by);
    expect(await spec('a')).toMatchObject({ active: false });
    await rig.apply('argocd-controller', clusterManifest('a', { weight: 5 }));
    await until(async () => expect(await spec('a')).toMatchObject({ active: false, weight: 5 }));
    expect(table.current.clusters.get('a')?.active).toBe(false);
  });

  test('an update that repeats the active of an override leaves it, with any owner of spec.active', async () => {
    const { registry, table } = await rig.startOperator();
    await rig.apply('argocd-controller', clusterManifest('a', { active: true }));
    await until(() => expect(table.current.clusters.has('a')).toBe(true));
    await registry.setActive('a', false, by);
    const sent = cluster('a', { active: false, externalUrl: 'https://x' });
    expect((await registry.update(sent, by)).cluster).toEqual(sent);
    expect(await spec('a')).toMatchObject({ active: true, externalUrl: 'https://x' });
    expect(Object.keys(await annotations('a'))).toEqual(['enginegateway.dev/active']);
    await expect(registry.update({ ...sent, routingGroup: 'etl' }, by)).rejects.toMatchObject({
      field: 'routingGroup',
    });
    // The other value is no override any more.
    expect((await registry.update({ ...sent, active: true }, by)).cluster.active).toBe(true);
    expect(await annotations('a')).toEqual({});
  });

  test('two replicas add one name at once: one wins, the other gets a conflict', async () => {
    const replicas = [await rig.startOperator(), await rig.startOperator()];
    const added = await Promise.allSettled(replicas.map(({ registry }) => registry.add(cluster('same'), by)));
    expect(added.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(added.find((each) => each.status === 'rejected')?.reason).toMatchObject({ code: 'EG_CONFLICT' });
    expect(await rig.kubectl(['get', 'ec', '-o', 'name'])).toBe('enginecluster.enginegateway.dev/same\n');
  });

  test('rows of a gateway that ran before: served, named in a warning, exported and adopted by what is applied', async () => {
    const lines: string[] = [];
    const logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) });
    await (await openStore({ jdbcUrl: rig.jdbcUrl, runMigrations: true, logger })).close();
    const database = new DatabaseSync(rig.jdbcUrl.replace('jdbc:sqlite:', ''));
    database.exec(
      "insert into gateway_backend (name, routing_group, backend_url, external_url, active) values ('Old One', 'etl', 'http://old:1', 'http://old:1', true)",
    );
    database.close();
    const { registry, store } = await rig.startOperator({ logger });
    expect(registry.get('Old One')).toMatchObject({ proxyTo: 'http://old:1' });
    expect(lines.join('')).toMatch(/Old One.*engine-gateway export/);
    const { yaml: manifests } = exportManifests({ clusters: await store.backends.all(), rules: [], namespace: null });
    await rig.kubectl(['apply', '--server-side', '--validate=strict', '-f', '-'], manifests);
    await until(async () =>
      expect((await store.backends.all()).map((row) => [row.name, row.managed])).toEqual([['Old One', true]]),
    );
    expect(registry.all()).toHaveLength(1);
  });

  const lease = async (): Promise<{ holderIdentity: string; leaseTransitions: number; leaseDurationSeconds: number }> =>
    ((await json('get', 'lease', 'engine-gateway')) as { spec: Awaited<ReturnType<typeof lease>> }).spec;

  /** Who leads by the database's row. */
  const rowHolder = (): unknown => {
    const database = new DatabaseSync(rig.jdbcUrl.replace('jdbc:sqlite:', ''), { readOnly: true });
    try {
      return database.prepare('select holder from eg_leader').get()?.holder;
    } finally {
      database.close();
    }
  };

  test('one of two replicas leads; REST on the follower is projected by it; a clean stop hands leadership over', async () => {
    const one = await rig.startOperator();
    await until(() => expect(one.leadership.fence).not.toBeNull());
    const two = await rig.startOperator();
    expect([one.leadership.isLeader, two.leadership.isLeader]).toEqual([true, false]);
    expect(await two.registry.add(cluster('a'), by)).toMatchObject({ pending: false });
    expect((await two.store.backends.all()).map((row) => row.name)).toEqual(['a']);
    await until(() => expect(one.registry.get('a')).not.toBeNull());
    const holders = async () => [(await lease()).holderIdentity, rowHolder()];
    const before = await holders();
    await one.stop();
    // Both were given back with the stop: nobody waits for the end of their time.
    const after = await holders();
    for (const [index, holder] of before.entries()) expect(after[index]).not.toBe(holder);
    await until(() => expect(two.leadership.fence).not.toBeNull());
    await rig.apply('kubectl', clusterManifest('b'));
    await until(async () => expect((await two.store.backends.all()).map((row) => row.name)).toEqual(['a', 'b']));
    expect(await lease()).toMatchObject({ leaseTransitions: 1, leaseDurationSeconds: 15 });
  });
});
