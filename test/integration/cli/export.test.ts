import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { beforeEach, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import type { ResourceGroupColumns } from '../../../src/model/resourceGroup.ts';
import type { NewSelector } from '../../../src/model/selector.ts';
import { openStore } from '../../../src/store/openStore.ts';
import { groupChanges, selectorChanges } from '../../../src/store/resourceGroupChanges.ts';
import { type Outcome, runCommand } from '../../support/commandLine.ts';
import { mariadb, postgresql } from '../../support/databases.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
let dataStore: { readonly jdbcUrl: string };
let allowedSchemas: readonly string[] | null;

const group: ResourceGroupColumns = {
  ...{ name: 'global', environment: 'prod', parent: null, softMemoryLimit: '80%', maxQueued: 10 },
  ...{ softConcurrencyLimit: null, hardConcurrencyLimit: 1, schedulingPolicy: null, schedulingWeight: null },
  ...{ jmxExport: null, softCpuLimit: null, hardCpuLimit: null },
};
const selector: Omit<NewSelector, 'resourceGroupId'> = {
  ...{ priority: 1, userRegex: null, sourceRegex: 'cli', queryType: null, clientTags: null },
  ...{ selectorResourceEstimate: null, userGroupRegex: null, originalUserRegex: null, authenticatedUserRegex: null },
};

beforeEach(async () => {
  const database = new DatabaseSync(world.path('gateway.db'));
  database.exec(
    'CREATE TABLE gateway_backend (name varchar(256) PRIMARY KEY, routing_group varchar(256), backend_url varchar(256), external_url varchar(256), active boolean)',
  );
  database.exec("INSERT INTO gateway_backend VALUES ('Old One', 'etl', 'http://127.0.0.1:9', 'http://127.0.0.1:9', 1)");
  database.close();
  dataStore = { jdbcUrl: `jdbc:sqlite:${world.path('gateway.db')}` };
  allowedSchemas = null;
});

const settings = () =>
  world.config({ dataStore, resources: { source: 'database' }, resourceGroups: { allowedSchemas } });
const exported = (...args: readonly string[]): Promise<Outcome> =>
  runCommand(['export', '--config', world.file('gateway.yaml', settings()), ...args]);
/** What `validate` prints of what `export` printed. */
const validated = async (name: string, text: string): Promise<string> =>
  (await runCommand(['validate', '--strict', world.file(name, text)])).stdout;

test('rows of a gateway that ran before and a rules file become manifests', async () => {
  const actions = ['result.put("routingGroup", "etl")'];
  const rules = world.file('rules.yaml', { name: 'air', description: 'd', condition: 'true', actions });
  const { stdout } = await exported('--rules', rules, '--namespace', 'queries');
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as Record<string, unknown>);
  expect(objects).toMatchObject([
    {
      kind: 'EngineCluster',
      metadata: { namespace: 'queries' },
      spec: { name: 'Old One', proxyTo: 'http://127.0.0.1:9', active: true, routingGroup: 'etl' },
    },
    { kind: 'RoutingRule', metadata: { name: 'air', namespace: 'queries' }, spec: { condition: 'true' } },
  ]);
});

test('resource groups of an environment become a file that validate takes', async () => {
  const database = new DatabaseSync(world.path('gateway.db'));
  database.exec(`
    CREATE TABLE resource_groups (resource_group_id integer PRIMARY KEY, name varchar(250) NOT NULL, soft_memory_limit varchar(128),
      max_queued int NOT NULL, soft_concurrency_limit int, hard_concurrency_limit int NOT NULL, scheduling_policy varchar(128),
      scheduling_weight int, jmx_export boolean, soft_cpu_limit varchar(128), hard_cpu_limit varchar(128), parent bigint, environment varchar(128));
    CREATE TABLE selectors (resource_group_id bigint NOT NULL, priority bigint NOT NULL, user_regex varchar(512), source_regex varchar(512),
      query_type varchar(512), client_tags varchar(512), selector_resource_estimate varchar(1024));
    CREATE TABLE resource_groups_global_properties (name varchar(128) PRIMARY KEY, value varchar(512));
    INSERT INTO resource_groups_global_properties VALUES ('cpu_quota_period', '1h');
    INSERT INTO resource_groups VALUES (1, 'global', '80%', 100, NULL, 50, 'weighted', NULL, 1, NULL, NULL, NULL, 'prod'),
      (2, '\${USER}', '5GB', 10, 3, 5, NULL, 2, NULL, '30m', '1h', 1, 'prod'), (3, 'test', '80%', 1, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, 'test');
    INSERT INTO selectors VALUES (2, 1, NULL, NULL, NULL, NULL, NULL), (3, 7, NULL, NULL, NULL, NULL, NULL),
      (2, 9, 'bob|ann', 'cli', 'SELECT', '["hi"]', '{"cpuTime": {"max": "1h"}}');
  `);
  database.close();
  const { stdout, stderr } = await exported('--resource-groups', 'prod');
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual({
    cpuQuotaPeriod: '1h',
    rootGroups: [
      {
        name: 'global',
        softMemoryLimit: '80%',
        maxQueued: 100,
        hardConcurrencyLimit: 50,
        schedulingPolicy: 'weighted',
        jmxExport: true,
        subGroups: [
          {
            name: '${USER}',
            softMemoryLimit: '5GB',
            maxQueued: 10,
            softConcurrencyLimit: 3,
            hardConcurrencyLimit: 5,
            schedulingWeight: 2,
            softCpuLimit: '30m',
            hardCpuLimit: '1h',
          },
        ],
      },
    ],
    selectors: [
      {
        user: 'bob|ann',
        source: 'cli',
        queryType: 'SELECT',
        clientTags: ['hi'],
        selectorResourceEstimate: { cpuTime: { max: '1h' } },
        group: 'global.${USER}',
      },
      { group: 'global.${USER}' },
    ],
  });
  expect(await validated('resource-groups.json', stdout)).toBe('1 files, 0 resources, 0 rules: no mistakes\n');
  const asResource = await exported('--resource-groups', 'prod', '--manifest');
  expect(await validated('groups.yaml', asResource.stdout)).toBe('1 files, 1 resources, 0 rules: no mistakes\n');
  expect(await exported('--resource-groups', 'dev')).toMatchObject({
    code: 1,
    stderr: 'error: there is no resource group of the environment dev; there are groups of prod, test\n',
  });
});

describe.each([mariadb, postgresql])('resource groups of another database of $name', ({ name, available, start }) => {
  test.skipIf(!available())('become a file, or a resource that goes back there', async () => {
    const server = await start();
    const own = await server.create();
    const there = await server.create();
    for (const [settings, hardConcurrencyLimit] of [
      [own, 1],
      [there, 2],
    ] as const) {
      const store = await openStore({ ...settings, runMigrations: true, logger: pino({ level: 'silent' }) });
      const tables = store.resourceGroups({ allowed: null, maxOpen: 1 });
      await tables.use(null, async (own) => {
        await own.write((present) => groupChanges.create(present, { ...group, hardConcurrencyLimit }));
        await own.write((present) => selectorChanges.create(present, { ...selector, resourceGroupId: null }));
      });
      await tables.close();
      await store.close();
    }
    try {
      const database = there.jdbcUrl.split('/').at(-1) ?? '';
      dataStore = own;
      const groups = async (...args: readonly string[]) => exported('--resource-groups', 'prod', ...args);
      const expected = (hardConcurrencyLimit: number) => ({
        rootGroups: [{ name: 'global', softMemoryLimit: '80%', maxQueued: 10, hardConcurrencyLimit }],
        selectors: [{ source: 'cli', group: 'global' }],
      });
      expect(JSON.parse((await groups()).stdout)).toEqual(expected(1));
      expect(JSON.parse((await groups('--schema', database)).stdout)).toEqual(expected(2));
      const { stdout } = await groups('--schema', database, '--manifest', '--namespace', 'queries');
      expect(parse(stdout)).toMatchObject({
        metadata: { name: expect.stringMatching(/^prod-/), namespace: 'queries' },
        spec: { environment: 'prod', databases: [database], ...expected(2) },
      });
      expect(parse((await groups('--manifest')).stdout).spec).toEqual({ environment: 'prod', ...expected(1) });
      expect(await validated('elsewhere.yaml', stdout)).toBe('1 files, 1 resources, 0 rules: no mistakes\n');

      const failure = async (...args: readonly string[]) => (await groups(...args)).stderr;
      const system = name === 'mysql' ? 'mysql' : 'template1';
      expect(await failure('--schema', 'a;b')).toMatch(/^error: --schema must be the name of a database: /);
      expect(await failure('--schema', system)).toBe(`error: ${system} is a database of the server itself.\n`);
      expect(await failure('--schema', 'absent')).toBe(
        'error: There is no database absent that the gateway may use.\n',
      );
      allowedSchemas = ['other'];
      expect(await failure('--schema', database)).toBe(
        `error: resourceGroups.allowedSchemas does not list ${database}.\n`,
      );
    } finally {
      await server.dispose();
    }
  });
});

test('options that only go with resource groups, and other databases where there are none', async () => {
  for (const option of [['--schema', 'x'], ['--manifest']]) {
    const stderr = `error: ${option[0]} is for --resource-groups ENVIRONMENT\n`;
    expect(await exported(...option)).toMatchObject({ code: 2, stderr });
  }
  const failed = await exported('--resource-groups', 'prod', '--schema', 'x');
  expect(failed.stderr).toBe('error: --schema needs a database server; SQLite has one database only.\n');
});

test('mistakes of a rules file are reported with file and line, and nothing is printed', async () => {
  const stderr = expect.stringMatching(/rules\.yaml:2:1: .*conditoin/);
  const rules = world.file('rules.yaml', 'name: a\nconditoin: x\n');
  expect(await exported('--rules', rules)).toMatchObject({ code: 1, stdout: '', stderr });
});

test('such rows are routed, listed and marked as unmanaged', async () => {
  const gateway = await world.start(settings());
  const listed = await call(gateway, 'GET', '/gateway/backend/all');
  expect(listed.json).toMatchObject([{ name: 'Old One', routingGroup: 'etl', active: true }]);
  const verbose = (await call(gateway, 'GET', '/readyz?verbose')).text;
  expect(verbose).toMatch(/unmanaged clusters: Old One: .*engine-gateway export/);
});
