import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { requireComponent } from '../support/components.ts';
import type { ServerDatabase } from '../support/databases.ts';
import { freePort } from '../support/freePort.ts';
import { type GatewayProcess, startGatewayWithFile } from '../support/gatewayProcess.ts';
import { type DatabaseConnection, families } from '../support/referenceDatabases.ts';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';
import { accessCalls, groupCalls } from './groupCalls.ts';
import { configuration, rulesFile } from './installation.ts';
import { listedDifferences } from './listedDifferences.ts';
import { endpointsWithout } from './referenceEndpoints.ts';
import {
  missingReferenceTools,
  RELEASE_WITH_RESOURCE_GROUPS as RELEASE,
  type ReferenceGateway,
  startReference,
} from './referenceGateway.ts';
import { registryCalls } from './registryCalls.ts';
import {
  compareJson,
  type Differences,
  differencesOf,
  get,
  nameOf,
  post,
  type RestCall,
  sendCall,
} from './restCall.ts';

const missing = await missingReferenceTools();
const canRun = requireComponent(missing.join(', '), missing.length === 0, 'the suite runs the released Trino Gateway');

/** Rows that every call starts from. */
const rows = [
  'delete from selectors',
  'delete from resource_groups where parent is not null',
  'delete from resource_groups',
  'delete from resource_groups_global_properties',
  'delete from exact_match_source_selectors',
  "insert into resource_groups (resource_group_id, name, soft_memory_limit, max_queued, hard_concurrency_limit, scheduling_policy, jmx_export, soft_concurrency_limit, soft_cpu_limit, hard_cpu_limit, environment) values (1, 'global', '80%', 100, 50, 'weighted', true, 40, '1h', '2h', 'test')",
  "insert into resource_groups (resource_group_id, name, parent, soft_memory_limit, max_queued, hard_concurrency_limit, scheduling_weight) values (2, 'adhoc', 1, '10%', 5, 3, 1)",
  "insert into resource_groups (resource_group_id, name, soft_memory_limit, max_queued, hard_concurrency_limit, environment) values (3, 'etl', '50%', 10, 4, 'test')",
  "insert into resource_groups (resource_group_id, name, soft_memory_limit, max_queued, hard_concurrency_limit) values (4, 'spare', '5%', 1, 1)",
  "insert into selectors (resource_group_id, priority, user_regex, source_regex, query_type) values (2, 10, 'ann', 'cli', 'SELECT')",
  'insert into selectors (resource_group_id, priority) values (3, 5)',
  'insert into selectors (resource_group_id, priority) values (3, 5)',
  "insert into resource_groups_global_properties (name, value) values ('cpu_quota_period', '1h')",
  "insert into exact_match_source_selectors (resource_group_id, update_time, source, environment, query_type) values ('2', '2026-11-21 01:57:45', 'airflow', 'test', 'INSERT')",
];
/** Ids that a database assigns, which only the rows have. */
const FIRST_ASSIGNED = 1000;
const contents = [
  `select case when resource_group_id < ${FIRST_ASSIGNED} then resource_group_id else 0 end id, name, parent, jmx_export, scheduling_policy, scheduling_weight, soft_memory_limit, max_queued, hard_concurrency_limit, soft_concurrency_limit, soft_cpu_limit, hard_cpu_limit, environment from resource_groups order by resource_group_id`,
  'select * from selectors order by resource_group_id, priority, user_regex',
  'select * from resource_groups_global_properties',
  'select resource_group_id, source, environment, query_type from exact_match_source_selectors order by source',
];

test.skipIf(!canRun)(`every endpoint of release ${RELEASE} has calls`, async () => {
  expect(await endpointsWithout([...groupCalls, ...accessCalls, ...registryCalls], RELEASE)).toEqual([]);
});

for (const family of families) {
  describe.skipIf(!canRun || !family.available())(
    `release ${RELEASE} and this gateway on one ${family.name} database with resource groups`,
    () => {
      let folder: string;
      let server: ServerDatabase;
      let reference: ReferenceGateway;
      let gateway: GatewayProcess;
      let connection: DatabaseConnection;
      let oldFile: string;
      let oldPort: number;
      let schema: string;

      beforeAll(async () => {
        folder = mkdtempSync(join(tmpdir(), 'resource-groups-'));
        const rulesPath = join(folder, 'rules.yaml');
        writeFileSync(rulesPath, rulesFile);
        server = await family.start();
        const settings = await server.create();
        schema = new URL(settings.jdbcUrl.replace('jdbc:', '')).pathname.slice(1);
        connection = await family.connect(settings);
        const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
        const withUsers = {
          authentication: { defaultType: 'form', form: { selfSignKeyPair: { privateKeyRsa, publicKeyRsa } } },
          authorization: { admin: '(.*)ADMIN(.*)', user: '(.*)USER(.*)', api: '(.*)API(.*)' },
          presetUsers: {
            admin: { password: 'x', privileges: 'ADMIN_USER_API' },
            user: { password: 'x', privileges: 'USER' },
            api: { password: 'x', privileges: 'API' },
          },
        };
        oldPort = await freePort();
        const newPort = await freePort();
        oldFile = join(folder, 'old.yaml');
        const newFile = join(folder, 'new.yaml');
        writeFileSync(oldFile, stringify({ ...configuration(settings, oldPort, rulesPath), ...withUsers }));
        writeFileSync(
          newFile,
          stringify({
            ...configuration(settings, newPort, rulesPath),
            ...withUsers,
            queryHistory: { spillDirectory: join(folder, 'spill') },
          }),
        );
        reference = await startReference(RELEASE, oldFile, oldPort);
        await connection.run([
          ...rows,
          family.name === 'mysql'
            ? `alter table resource_groups auto_increment = ${FIRST_ASSIGNED}`
            : `alter sequence resource_groups_resource_group_id_seq restart with ${FIRST_ASSIGNED}`,
        ]);
        gateway = await startGatewayWithFile(newFile);
      }, 400_000);
      afterAll(async () => {
        await gateway?.stop();
        await reference?.stop();
        await connection?.close();
        await server?.dispose();
        rmSync(folder, { recursive: true, force: true });
      }, 120_000);

      const plain = (text: string) =>
        text
          .replaceAll(/"token":"[^"]+"/g, '"token":"…"')
          .replaceAll(/"resourceGroupId":\d{4,}/g, '"resourceGroupId":"assigned"')
          .replaceAll(schema, 'OWN');
      const send = (url: string, call: RestCall) =>
        sendCall(url, { ...call, path: call.path.replace('OWN', schema) }, plain);

      test(`${groupCalls.length} calls on resource groups differ as documented, in answers and rows`, async () => {
        const first = plainRows(await connection.run(contents));
        const changed = async (call: RestCall, { url }: { readonly url: string }) => {
          const answer = await send(url, call);
          if (call.method === 'GET') return { answer, after: first };
          const after = plainRows(await connection.run(contents));
          // Both start from the same rows.
          if (JSON.stringify(after) !== JSON.stringify(first)) await connection.run(['begin', ...rows, 'commit']);
          return { answer, after };
        };
        const found: Record<string, Differences> = {};
        for (const call of groupCalls) {
          const [there, here] = [await changed(call, reference), await changed(call, gateway)];
          const differences = { ...differencesOf(call, there.answer, here.answer) };
          const tables = ['groups', 'selectors', 'properties', 'exact selectors'];
          for (const [index, table] of tables.entries()) {
            compareJson(table, there.after[index], here.after[index], differences);
          }
          if (Object.keys(differences).length > 0) found[nameOf(call)] = differences;
        }
        expect(found).toEqual(listedDifferences(RELEASE, family.name, groupCalls));
      });

      test(`${accessCalls.length} calls differ as documented in who may send them`, async () => {
        const found: Record<string, Differences> = {};
        for (const call of accessCalls) {
          const differences = differencesOf(call, await send(reference.url, call), await send(gateway.url, call));
          if (Object.keys(differences).length > 0) found[nameOf(call)] = differences;
        }
        expect(found).toEqual(listedDifferences(RELEASE, family.name, accessCalls));
      });

      const user = { as: 'user:x' };
      const readAll = async (url: string) => {
        const kinds = ['resourcegroup', 'selector', 'globalproperty'];
        const answers = await Promise.all(kinds.map((kind) => send(url, get(`/trino/${kind}/read`, 'all', user))));
        return answers.map(({ status, body }) => ({ status, body }));
      };

      test('what the one writes, the other reads', async () => {
        const group = { softMemoryLimit: '20%', maxQueued: 5, hardConcurrencyLimit: 3 };
        for (const { url } of [reference, gateway]) {
          const name = url === reference.url ? 'there' : 'here';
          const { status } = await send(url, post('/trino/resourcegroup/create', name, { ...group, name }, user));
          expect(status).toBe(200);
          const selector = { resourceGroupId: 4, priority: 20, userRegex: name };
          expect((await send(url, post('/trino/selector/create', name, selector, user))).status).toBe(200);
        }
        const read = await readAll(reference.url);
        expect(JSON.stringify(read)).toContain('"name":"there"');
        expect(JSON.stringify(read)).toContain('"name":"here"');
        expect(sorted(await readAll(gateway.url))).toEqual(sorted(read));
      });

      test('the way back: the release starts on the database and reads what was written here', async () => {
        const before = await readAll(gateway.url);
        await gateway.stop();
        await reference.stop();
        reference = await startReference(RELEASE, oldFile, oldPort);
        expect(sorted(await readAll(reference.url))).toEqual(sorted(before));
        const update = {
          resourceGroupId: 4,
          name: 'spare',
          softMemoryLimit: '6%',
          maxQueued: 2,
          hardConcurrencyLimit: 2,
        };
        const { status } = await send(reference.url, post('/trino/resourcegroup/update', 'back', update, user));
        expect(status).toBe(200);
      });
    },
  );
}

/** Rows with numbers as numbers: drivers give large and small ones, and truth values, in types of their own. */
function plainRows(tables: readonly (readonly object[])[]): readonly (readonly object[])[] {
  const isNumber = (value: unknown) => typeof value === 'boolean' || (typeof value === 'string' && /^\d+$/.test(value));
  return JSON.parse(JSON.stringify(tables), (_, value: unknown) => (isNumber(value) ? Number(value) : value));
}

/** Rows in an order of their own: the release answers in that of the table. */
function sorted(answers: readonly { readonly status: number; readonly body: unknown }[]): unknown {
  return answers.map(({ status, body }) => ({
    status,
    rows: ((body as { json: object[] }).json ?? []).map((row) => JSON.stringify(Object.entries(row).sort())).sort(),
  }));
}
