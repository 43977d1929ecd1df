import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest';
import { systemClock } from '../../../src/model/clock.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { SchemaStores } from '../../../src/store/schemaStores.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';

const logger = pino({ level: 'silent' });
const group = { name: 'etl', softMemoryLimit: '80%', maxQueued: 10, hardConcurrencyLimit: 5, environment: 'test' };

test('the family can be switched off', async () => {
  const api = await startApi();
  expect((await api.call('GET', '/engine/resourcegroup/read')).status).toBe(404);
  expect((await api.call('POST', '/engine/selector/create', { body: '{}' })).status).toBe(404);
  await api.close();
});

test.skipIf(!hasPostgresql())('while the database is unavailable every call is 503, and none afterwards', async () => {
  const server = await startPostgresql();
  const limits = { connectTimeoutMs: 3_000, acquireTimeoutMs: 3_000 };
  const store = await openStore({ ...(await server.createDatabase()), runMigrations: true, logger, limits });
  const stores = store.resourceGroups({ allowed: null, maxOpen: 1 });
  const { history, queryCounts, exactMatchSelectors } = store;
  const webapp = {
    history,
    queryCounts,
    exactMatchSelectors,
    clock: systemClock,
    startedAt: 0,
    keptHours: 720,
    disablePages: [],
    hiddenPageCalls: 'refuse' as const,
  };
  const api = await startApi({ resourceGroups: stores, webapp });
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

    it('creates, reads, overwrites and deletes a group', async () => {
      const created = await post('/resourcegroup/create', { ...group, resourceGroupId: 0, parent: null });
      expect(created.status).toBe(200);
      const { resourceGroupId, ...rest } = created.json();
      expect([resourceGroupId > 0, rest, created.headers.warning]).toEqual([true, group, undefined]);
      for (const path of ['/resourcegroup/read', '/resourcegroup/read/', `/resourcegroup/read/${resourceGroupId}`]) {
        expect([path, (await get(path)).json()]).toEqual([path, [created.json()]]);
      }
      expect((await get(`/resourcegroup/read/${resourceGroupId + 1}`)).json()).toEqual([]);

      const change = {
        resourceGroupId,
        name: 'bi',
        softMemoryLimit: '5GB',
        softConcurrencyLimit: 1,
        hardConcurrencyLimit: 2,
      };
      const updated = await post('/resourcegroup/update', change);
      expect([updated.status, updated.json()]).toEqual([200, { ...change, maxQueued: 0 }]);
      expect(updated.headers.warning).toContain('299 engine-gateway "The group has no environment');
      expect((await get('/resourcegroup/read')).json()).toEqual([{ ...change, maxQueued: 0 }]);

      const deleted = await post(`/resourcegroup/delete/${resourceGroupId}`);
      expect([deleted.status, deleted.text]).toEqual([200, '']);
      expect((await post(`/resourcegroup/delete/${resourceGroupId}`)).status).toBe(200);
      expect((await get('/resourcegroup/read')).json()).toEqual([]);
    });

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

    it('creates, reads, changes and deletes a selector', async () => {
      const a = await make();
      const b = await make({ name: 'newest 😀 "x"' });
      const sent = { priority: 5, userRegex: 'bob', sourceRegex: null, queryType: 'SELECT' };
      const created = await post('/selector/create', sent);
      const stored = { resourceGroupId: b, priority: 5, userRegex: 'bob', queryType: 'SELECT' };
      expect([created.status, created.json()]).toEqual([200, stored]);
      expect(created.headers.warning).toBe(
        `299 engine-gateway "No resourceGroupId was sent; the selector points to the newest group, ${b} (newest %F0%9F%98%80 \\"x\\")."`,
      );
      expect((await post('/selector/create', { ...sent, resourceGroupId: a })).headers.warning).toBeUndefined();
      expect((await get(`/selector/read/${b}`)).json()).toEqual([stored]);
      expect((await get('/selector/read/')).json()).toHaveLength(2);

      const update = { ...stored, priority: 6, clientTags: '["x"]' };
      const changed = await post('/selector/update', { current: { ...stored, sourceRegex: null }, update });
      expect([changed.status, changed.json()]).toEqual([200, update]);
      const inserted = await post('/selector/update', { current: stored, update: stored });
      expect([inserted.status, inserted.json()]).toEqual([200, stored]);
      expect((await get(`/selector/read/${b}`)).json()).toEqual([update, stored]);
      expect((await post('/selector/delete', { ...stored, priority: 7 })).status).toBe(200);
      for (const selector of [update, stored]) expect((await post('/selector/delete/', selector)).text).toBe('');
      expect((await get(`/selector/read/${b}`)).json()).toEqual([]);
    });

    it('creates, reads, changes and deletes the global property', async () => {
      const property = { name: 'cpu_quota_period', value: '1h' };
      expect((await post('/globalproperty/create', property)).json()).toEqual(property);
      expect((await post('/globalproperty/create', property)).status).toBe(409);
      expect((await post('/globalproperty/update', { ...property, value: '2h' })).json().value).toBe('2h');
      for (const path of ['/globalproperty/read', '/globalproperty/read/', '/globalproperty/read/cpu_quota_period']) {
        expect((await get(path)).json()).toEqual([{ ...property, value: '2h' }]);
      }
      expect((await get('/globalproperty/read/none')).json()).toEqual([]);
      expect((await post('/globalproperty/delete/none')).status).toBe(200);
      expect((await post('/globalproperty/delete/cpu_quota_period')).status).toBe(200);
      expect((await get('/globalproperty/read')).json()).toEqual([]);
      expect((await post('/globalproperty/update', property)).status).toBe(404);
    });

    const table: [
      why: string,
      method: string,
      path: string,
      body: unknown,
      status: number,
      field: string | undefined,
    ][] = [
      ['no body', 'POST', '/resourcegroup/create', undefined, 400, undefined],
      ['no JSON', 'POST', '/resourcegroup/create', 'name=a', 400, undefined],
      ['a list', 'POST', '/resourcegroup/create', [], 400, undefined],
      [
        'an id to create with',
        'POST',
        '/resourcegroup/create',
        { ...group, resourceGroupId: 3 },
        400,
        'resourceGroupId',
      ],
      ['no name', 'POST', '/resourcegroup/create', { softMemoryLimit: '1%' }, 400, 'name'],
      ['no memory limit', 'POST', '/resourcegroup/create', { name: 'a' }, 400, 'softMemoryLimit'],
      [
        'a memory limit of no form',
        'POST',
        '/resourcegroup/create',
        { ...group, softMemoryLimit: 'half' },
        400,
        'softMemoryLimit',
      ],
      ['a misspelt field', 'POST', '/resourcegroup/create', { ...group, maxQueue: 1 }, 400, 'maxQueue'],
      ['an unknown parent', 'POST', '/resourcegroup/create', { ...group, parent: 4_000_000_000 }, 422, 'parent'],
      [
        'limits the wrong way round',
        'POST',
        '/resourcegroup/create',
        { ...group, softConcurrencyLimit: 6 },
        422,
        'softConcurrencyLimit',
      ],
      [
        'a soft CPU limit alone',
        'POST',
        '/resourcegroup/create',
        { ...group, softCpuLimit: '1h' },
        422,
        'hardCpuLimit',
      ],
      ['an update without id', 'POST', '/resourcegroup/update', group, 400, 'resourceGroupId'],
      [
        'an update of an unknown id',
        'POST',
        '/resourcegroup/update',
        { ...group, resourceGroupId: 4_000_000_000 },
        404,
        'resourceGroupId',
      ],
      ['an id that is no number', 'GET', '/resourcegroup/read/abc', undefined, 400, 'resourceGroupId'],
      ['a negative id', 'GET', '/resourcegroup/read/-1', undefined, 400, 'resourceGroupId'],
      ['a huge id', 'GET', '/selector/read/99999999999999999999', undefined, 400, 'resourceGroupId'],
      ['an id in a fraction', 'POST', '/resourcegroup/delete/1.5', undefined, 400, 'resourceGroupId'],
      ['SQL as id', 'POST', '/resourcegroup/delete/1%20or%201=1', undefined, 400, 'resourceGroupId'],
      ['no id to delete', 'POST', '/resourcegroup/delete', undefined, 404, undefined],
      ['a selector without any group', 'POST', '/selector/create', {}, 409, 'resourceGroupId'],
      [
        'a selector of an unknown group',
        'POST',
        '/selector/create',
        { resourceGroupId: 4_000_000_000 },
        422,
        'resourceGroupId',
      ],
      ['an unknown query type', 'POST', '/selector/create', { queryType: 'DROP' }, 400, 'queryType'],
      ['a column of the engine', 'POST', '/selector/create', { userGroupRegex: 'a' }, 422, 'userGroupRegex'],
      ['an update without current', 'POST', '/selector/update', { update: { resourceGroupId: 1 } }, 400, 'current'],
      ['an update without update', 'POST', '/selector/update', { current: { resourceGroupId: 1 } }, 400, 'update'],
      ['no JSON to delete', 'POST', '/selector/delete', '{', 400, undefined],
      ['nothing to delete', 'POST', '/selector/delete', '', 400, undefined],
      ['an unknown property', 'POST', '/globalproperty/create', { name: 'x', value: '1h' }, 400, 'name'],
      [
        'a property of no duration',
        'POST',
        '/globalproperty/update',
        { name: 'cpu_quota_period', value: 'x' },
        400,
        'value',
      ],
      ['no name to delete', 'POST', '/globalproperty/delete', undefined, 404, undefined],
      ['NUL in a name', 'GET', '/globalproperty/read/%00', undefined, 400, 'name'],
      ['a wrong method', 'GET', '/resourcegroup/create', undefined, 405, undefined],
      ['useSchema empty', 'GET', '/resourcegroup/read?useSchema=', undefined, 400, 'useSchema'],
      ['useSchema twice', 'GET', '/resourcegroup/read?useSchema=a&useSchema=b', undefined, 400, 'useSchema'],
      ['useSchema of a path', 'GET', '/selector/read?useSchema=..%2Fa', undefined, 400, 'useSchema'],
      ['useSchema of options', 'GET', '/selector/read?useSchema=a%3Fuser%3Droot', undefined, 400, 'useSchema'],
      ['useSchema of SQL', 'POST', "/selector/create?useSchema=a';drop%20table%20selectors;--", {}, 400, 'useSchema'],
    ];
    it.each(table)('refuses %s', async (_why, method, path, body, status, field) => {
      const answer = method === 'GET' ? await get(path) : await post(path, body);
      const { error } = answer.json();
      expect([answer.status, error.field]).toEqual([status, field]);
      // Nothing of the database's words.
      expect(answer.text).not.toMatch(
        /select \*|insert into|update [`"]|violates|constraint|duplicate|SQLSTATE|\bER_[A-Z]+_[A-Z]|errno|knex/i,
      );
    });

    it('refuses a name that is taken, and a group that is in use', async () => {
      const a = await make();
      const child = await make({ name: 'child', parent: a });
      const taken = await post('/resourcegroup/create', group);
      expect([taken.status, taken.json().error.field]).toEqual([409, 'name']);
      const used = await post(`/resourcegroup/delete/${a}`);
      expect([used.status, used.json().error.message]).toEqual([
        409,
        `Group ${a} is in use by the groups "child", whose parent it is; delete these first.`,
      ]);
      const cycle = await post('/resourcegroup/update', { ...group, resourceGroupId: a, parent: child });
      expect([cycle.status, cycle.json().error.field]).toEqual([422, 'parent']);
    });

    it('texts that would change a statement are kept as texts', async () => {
      for (const text of [
        "'; drop table selectors; --",
        '\\" or 1=1 #',
        '? ?? :x $1',
        "' || (select version()) || '",
      ]) {
        const resourceGroupId = await make({ name: text.replaceAll('$', ''), environment: text });
        const selector = { resourceGroupId, priority: 1, userRegex: `\\Q${text}\\E`, sourceRegex: '.*' };
        expect((await post('/selector/create', selector)).json()).toEqual(selector);
        expect((await get(`/selector/read/${resourceGroupId}`)).json()).toEqual([selector]);
        expect((await post('/selector/delete', selector)).status).toBe(200);
        expect((await get('/selector/read')).json()).toEqual([]);
        const path = `/globalproperty/read/${encodeURIComponent(text)}`;
        expect([(await get(path)).status, (await get(path)).text]).toEqual([200, '[]']);
      }
      expect((await get('/resourcegroup/read')).json()).toHaveLength(4);
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
      expect(await others.use(null, (own) => own.groups.all())).toMatchObject([group]);
      const allowed = store.resourceGroups({ allowed: [otherName], maxOpen: 1 });
      expect(await allowed.use(otherName, (own) => own.groups.all())).toHaveLength(1);
      await expect(allowed.use('elsewhere', (own) => own.groups.all())).rejects.toMatchObject({
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
