import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { SchemaStores } from '../../../src/store/resourceGroupStore.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';

const logger = pino({ level: 'silent' });
const group = { name: 'etl', softMemoryLimit: '80%', maxQueued: 10, hardConcurrencyLimit: 5, environment: 'test' };

test.skipIf(!hasPostgresql())('while the database is unavailable every call is 503, and none afterwards', async () => {
  const server = await startPostgresql();
  const limits = { connectTimeoutMs: 3_000, acquireTimeoutMs: 3_000 };
  const store = await openStore({ ...(await server.createDatabase()), runMigrations: true, logger, limits });
  const stores = store.resourceGroups({ allowed: null, maxOpen: 1 });
  const api = await startApi({ resourceGroups: stores, store });
  const calls = [
    ['GET', '/engine/resourcegroup/read', undefined],
    ['GET', '/engine/selector/read?useSchema=other', undefined],
    ['POST', '/engine/resourcegroup/create', group],
    ['POST', '/engine/selector/create', {}],
    ['POST', '/engine/globalproperty/create', { name: 'cpu_quota_period', value: '1h' }],
    ['POST', '/webapp/findQueryHistory', {}],
    ['POST', '/webapp/getDistribution', {}],
    ['POST', '/webapp/findExactMatchSourceSelector', {}],
    ['GET', '/engine-gateway/api/queryHistory', undefined],
    ['GET', '/entity/SELECTOR', undefined],
  ] as const;
  const ask = ([method, path, body]: (typeof calls)[number]) =>
    api.call(method, path, body === undefined ? {} : { body: JSON.stringify(body) });
  try {
    await server.stop(true);
    for (const answer of await Promise.all(calls.map(ask))) {
      expect([answer.status, answer.headers['retry-after'], answer.json().error.code]).toEqual([
        503,
        '5',
        'EG_DATABASE_UNAVAILABLE',
      ]);
      expect(answer.text).not.toMatch(/ECONN|127\.0\.0\.1|select|terminat/i);
    }
    await server.start();
    for (const call of calls.filter(([, path]) => !path.includes('useSchema'))) {
      expect((await ask(call)).status).toBe(200);
    }
  } finally {
    await api.close();
    await stores.close();
    await store.close();
    await server.dispose();
  }
});

for (const family of databases) {
  describe.skipIf(!family.available())(`resource group API on ${family.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;
    let other: KnexStore;
    let otherName: string;
    let stores: SchemaStores;
    let api: ApiServer;

    beforeAll(async () => {
      server = await family.start();
      store = await openStore({ ...(await server.create()), runMigrations: true, logger });
      const elsewhere = await server.create();
      other = await openStore({ ...elsewhere, runMigrations: true, logger });
      otherName = elsewhere.jdbcUrl.split('/').at(-1) ?? '';
      stores = store.resourceGroups({ allowed: null, maxOpen: 2 });
      api = await startApi({ resourceGroups: stores });
    });
    afterAll(async () => {
      await api?.close();
      await stores?.close();
      await other?.close();
      await store?.close();
      await server?.dispose();
    });
    afterEach(async () => {
      for (const selector of (await get('/selector/read')).json()) await post('/selector/delete', selector);
      const groups: { resourceGroupId: number }[] = (await get('/resourcegroup/read')).json();
      for (const { resourceGroupId } of groups.reverse()) await post(`/resourcegroup/delete/${resourceGroupId}`);
      await post('/globalproperty/delete/cpu_quota_period');
    });

    const get = (path: string) => api.call('GET', `/engine${path}`);
    const post = (path: string, body?: unknown) => {
      const text = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) };
      // The type that curl declares by default: it is ignored here.
      return api.call('POST', `/engine${path}`, {
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
        ...text,
      });
    };
    const make = async (more: object = {}): Promise<number> =>
      (await post('/resourcegroup/create', { ...group, ...more })).json().resourceGroupId;

    it('explains which group engines choose for a query', async () => {
      const ask = async (question: object) => {
        const answer = await api.call('POST', '/api/resourcegroups/explain', { body: JSON.stringify(question) });
        return { status: answer.status, ...answer.json() };
      };
      expect(await ask({ user: 'bob' })).toMatchObject({ status: 404, error: { code: 'EG_NOT_FOUND' } });
      const root = await make({ name: 'global' });
      const limits = { hardConcurrencyLimit: 3, maxQueued: 7, softMemoryLimit: '1GB' };
      const own = await make({ name: '${team}-${USER}', parent: root, ...limits });
      const other = await make({ name: 'other', parent: root });
      const select = (resourceGroupId: number, priority: number, more: object = {}) =>
        post('/selector/create', { resourceGroupId, priority, ...more });
      await select(own, 5, { userRegex: '(?<team>[a-z]+)_.*', clientTags: '["hi"]' });
      await select(other, 9, { queryType: 'INSERT', sourceRegex: 'dbt.*' });
      expect(await ask({ user: 'etl_bob', clientTags: ['lo', 'hi'], queryType: 'SELECT', source: 'dbt' })).toEqual({
        status: 200,
        environment: 'test',
        outcome: 'selected',
        message: 'selectors[1] is the first that matches',
        selector: 1,
        group: ['global', 'etl-etl_bob'],
        path: [
          { resourceGroupId: root, name: 'global', softMemoryLimit: '80%', hardConcurrencyLimit: 5, maxQueued: 10 },
          { resourceGroupId: own, name: '${team}-${USER}', ...limits },
        ],
        selectors: [
          {
            ...{ id: null, priority: 9, resourceGroupId: other, group: 'global.other' },
            ...{ outcome: 'not-matched', condition: 'queryType' },
            message: 'queryType INSERT is not that of the query, SELECT',
          },
          {
            ...{ id: null, priority: 5, resourceGroupId: own, group: 'global.${team}-${USER}' },
            ...{ outcome: 'matched', condition: null, message: 'all its conditions hold' },
          },
        ],
        omitted: 0,
        samePriority: [],
        problems: [],
      });
      // Session properties are taken and do not count, as with the engine.
      const question = { user: 'etl_bob', clientTags: ['hi'], queryType: 'SELECT' };
      const session = { query_priority: '9', 'hive.insert_existing_partitions_behavior': 'APPEND' };
      expect(await ask({ ...question, session })).toEqual(await ask(question));
      for (const wrong of [{ query_priority: 9 }, { a: 'x'.repeat(4_097) }, ['a=b'], 'a=b']) {
        expect(await ask({ ...question, session: wrong })).toMatchObject({
          status: 400,
          error: { field: expect.stringMatching(/^session/) },
        });
      }
      const many = Object.fromEntries(Array.from({ length: 257 }, (_, index) => [`p${index}`, '1']));
      expect(await ask({ ...question, session: many })).toMatchObject({ status: 400, error: { field: 'session' } });
      expect(await ask({ user: 'bob' })).toMatchObject({
        ...{ outcome: 'rejected', selector: null, group: null, path: [] },
        message: 'no selector matches: the engine refuses the query (QUERY_REJECTED)',
      });

      // Which of two with one priority an engine takes is not defined; one that leads to the same group changes nothing.
      await select(other, 5, { userRegex: 'etl.*' });
      const tie = await ask({ user: 'etl_bob', clientTags: ['hi'] });
      const others = [own, other].filter((id) => id !== tie.path[1].resourceGroupId);
      expect(tie.samePriority.map((row: { resourceGroupId: number }) => row.resourceGroupId)).toEqual(others);

      // Groups of other environments are not looked at, and have to be named once there are some.
      const elsewhere = await make({ name: 'prod', environment: 'prod' });
      await select(elsewhere, 100);
      expect(await ask({ user: 'bob' })).toMatchObject({ status: 400, error: { field: 'environment' } });
      expect(await ask({ user: 'bob', environment: 'prod' })).toMatchObject({ group: ['prod'], environment: 'prod' });
      expect(await ask({ user: 'bob', environment: 'test' })).toMatchObject({ outcome: 'rejected' });
      expect(await ask({ user: 'bob', environment: 'x' })).toMatchObject({ status: 404 });
      // What keeps engines from loading the tables is said.
      await post('/resourcegroup/update', {
        ...group,
        resourceGroupId: other,
        name: 'other',
        parent: root,
        hardCpuLimit: '1h',
      });
      expect((await ask({ user: 'bob', environment: 'test' })).problems).toEqual([
        'rootGroups[0].subGroups[1].hardCpuLimit needs cpuQuotaPeriod, the period that it is about',
      ]);
    });

    it('a table is read without the others', async () => {
      const { knex } = store.database;
      const tables = { resourcegroup: 'resource_groups', selector: 'selectors' };
      const all = { ...tables, globalproperty: 'resource_groups_global_properties' };
      for (const table of Object.values(all)) {
        await knex.schema.renameTable(table, 'elsewhere');
        const statuses = Object.keys(all).map(async (name) => (await get(`/${name}/read`)).status);
        expect(await Promise.all(statuses)).toEqual(Object.values(all).map((name) => (name === table ? 404 : 200)));
        await knex.schema.renameTable('elsewhere', table);
      }
    });

    it('useSchema addresses another database of the server', async () => {
      if (family.name === 'sqlite') {
        const answer = await get('/resourcegroup/read?useSchema=other');
        expect([answer.status, answer.json().error.field]).toEqual([400, 'useSchema']);
        return;
      }
      const there = `?useSchema=${otherName}`;
      const created = await post(`/resourcegroup/create${there}`, group);
      expect(created.status).toBe(200);
      expect((await get('/resourcegroup/read')).json()).toEqual([]);
      expect((await get(`/resourcegroup/read${there}`)).json()).toEqual([created.json()]);
      const others = other.resourceGroups({ allowed: null, maxOpen: 1 });
      expect((await others.use(null, (own) => own.read())).groups).toMatchObject([group]);
      const allowed = store.resourceGroups({ allowed: [otherName], maxOpen: 1 });
      expect((await allowed.use(otherName, (own) => own.read())).groups).toHaveLength(1);
      await expect(allowed.use('elsewhere', (own) => own.read())).rejects.toMatchObject({
        code: 'EG_IMPOSSIBLE',
      });
      await allowed.close();

      const unknown = await get('/resourcegroup/read?useSchema=no_such_database');
      expect([unknown.status, unknown.json().error.field]).toEqual([404, 'useSchema']);
      const system = await get(`/resourcegroup/read?useSchema=${family.name === 'mysql' ? 'mysql' : 'template1'}`);
      expect([system.status, system.json().error.field]).toEqual([422, 'useSchema']);
      await post(`/resourcegroup/delete/${created.json().resourceGroupId}${there}`);
    });
  });
}
