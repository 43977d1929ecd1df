import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { type Database, defaultLimits, openDatabase } from '../../../src/store/database.ts';
import { parseJdbcUrl } from '../../../src/store/jdbcUrl.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { SchemaStores } from '../../../src/store/resourceGroupStore.ts';
import type { QueryRecord } from '../../../src/store/store.ts';
import { type Answer, type ApiServer, startApi } from '../../support/apiServer.ts';
import { oneDatabase, type TestDatabase } from '../../support/databases.ts';
import { queryRecord } from '../../support/queryRecords.ts';

const logger = pino({ level: 'silent' });
const now = Date.parse('2026-11-21T12:00:30Z');
const minute = 60_000;
const backend = { name: 'a', proxyTo: 'http://a:1', active: true, routingGroup: 'adhoc', externalUrl: 'http://a:1' };

const record = (queryId: string, created: number, more: Partial<QueryRecord> = {}): QueryRecord => ({
  ...{ ...queryRecord(queryId), queryText: `select '${queryId}'`, user: 'ann', created, decision: null },
  ...{ backendUrl: 'http://a:1', externalUrl: 'https://a', ...more },
});

for (const family of [oneDatabase]) {
  describe.skipIf(!family.available())(`web application calls on ${family.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;
    let stores: SchemaStores;
    let api: ApiServer;
    /** Connections of another program. */
    let other: Database;

    beforeAll(async () => {
      server = await family.start();
      const settings = await server.create();
      store = await openStore({ ...settings, runMigrations: true, logger });
      const parsed = parseJdbcUrl(settings);
      if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
      other = openDatabase(parsed.target, defaultLimits, logger);
      stores = store.resourceGroups({ allowed: null, maxOpen: 2 });
      const clock = { now: () => now, monotonic: () => 0 };
      api = await startApi({ resourceGroups: stores, store, clock, startedAt: now - 1 });
    });
    afterAll(async () => {
      await api?.close();
      await other?.close();
      await stores?.close();
      await store?.close();
      await server?.dispose();
    });
    afterEach(async () => {
      api.table.setInputs({ clusters: [] });
      await store.history.deleteBefore(Number.MAX_SAFE_INTEGER);
      for (const table of ['selectors', 'resource_groups', 'resource_groups_global_properties']) {
        await store.database.knex(table).delete();
      }
    });

    const post = (call: string, body?: unknown): Promise<Answer> =>
      api.call('POST', `/webapp/${call}`, {
        headers: { 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
    /** The data of an answer that must be a success. */
    const data = async (call: string, body?: unknown) => {
      const response = await post(call, body);
      const { code, msg, data: found } = response.json();
      expect([response.status, code, msg]).toEqual([200, 200, 'Successful.']);
      return found;
    };
    const failure = async (call: string, body?: unknown) => {
      const response = await post(call, body);
      const { code, msg, error, ...rest } = response.json();
      expect([code, msg, rest]).toEqual([response.status, error.message, {}]);
      return [response.status, error.code, error.field];
    };

    it('lists what other programs write to the tables of resource groups', async () => {
      const columns = { max_queued: 10, hard_concurrency_limit: 5, soft_memory_limit: '80%' };
      const names = async () => ((await data('findResourceGroup')) as { name: string }[]).map(({ name }) => name);
      const users = async () => ((await data('findSelector')) as { userRegex?: string }[]).map((row) => row.userRegex);
      expect([await names(), await users(), await data('findGlobalProperty')]).toEqual([[], [], []]);
      await other.knex('resource_groups').insert({ name: 'a', ...columns });
      expect(await names()).toEqual(['a']);
      await other.knex('resource_groups').update({ name: 'b' });
      expect(await names()).toEqual(['b']);
      const [group] = (await data('findResourceGroup')) as { resourceGroupId: number }[];
      const selector = { resource_group_id: group?.resourceGroupId, priority: 1 };
      await other.knex('selectors').insert([
        { ...selector, user_regex: 'x' },
        { ...selector, user_regex: null },
      ]);
      expect((await users()).toSorted()).toEqual(['x', undefined]);
      expect((await users()).toSorted()).toEqual(['x', undefined]);
      await other.knex('selectors').where({ user_regex: 'x' }).update({ user_regex: 'y' });
      expect((await users()).toSorted()).toEqual(['y', undefined]);
      await other.knex('selectors').whereNull('user_regex').delete();
      expect(await users()).toEqual(['y']);
      await other.knex('selectors').delete();
      await other.knex('resource_groups').delete();
      await other.knex('resource_groups_global_properties').insert({ name: 'cpu_quota_period', value: '1h' });
      expect([await names(), await users()]).toEqual([[], []]);
      expect(await data('findGlobalProperty')).toEqual([{ name: 'cpu_quota_period', value: '1h' }]);
      await other.knex('resource_groups_global_properties').update({ value: '2h' });
      expect(await data('findGlobalProperty')).toEqual([{ name: 'cpu_quota_period', value: '2h' }]);
    });

    it('finds queries by page and filter, newest first', async () => {
      const hostile = "' or 1=1 --";
      await store.history.insert([
        ...Array.from({ length: 12 }, (_, index) => record(`q${index}`, now - index * minute)),
        record('other', now - 100 * minute, {
          user: null,
          source: hostile,
          externalUrl: null,
          routingGroup: 'etl',
          cluster: 'b',
        }),
      ]);
      const ids = async (body: unknown) => {
        const { total, rows } = await data('findQueryHistory', body);
        return [total, rows.map((row: { queryId: string }) => row.queryId)];
      };
      expect(await ids({})).toEqual([13, ['q0', 'q1', 'q2', 'q3', 'q4', 'q5', 'q6', 'q7', 'q8', 'q9']]);
      expect(await ids({ page: 2, size: 5 })).toEqual([13, ['q5', 'q6', 'q7', 'q8', 'q9']]);
      expect(await ids({ page: -3, size: 1 })).toEqual([13, ['q0']]);
      expect(await ids({ page: 9 })).toEqual([13, []]);
      expect(await ids({ size: 0 })).toEqual([13, []]);
      expect(await ids({ user: '', source: null, queryId: 'q3' })).toEqual([1, ['q3']]);
      expect(await ids({ source: hostile })).toEqual([1, ['other']]);
      expect(await ids({ routingGroup: 'etl', user: 'ann' })).toEqual([0, []]);
      expect(await ids({ from: now - 2 * minute, to: now })).toEqual([2, ['q1', 'q2']]);
      expect(await ids({ cluster: 'b' })).toEqual([1, ['other']]);
      expect(await ids({ text: "T 'Q1" })).toEqual([3, ['q1', 'q10', 'q11']]);
      for (const text of ['q%1', 'q_', '!', '\\']) expect(await ids({ text })).toEqual([0, []]);
      expect(await ids({ user: 'a\u0000' })).toEqual([0, []]);
      const after = { captureTime: now - 3 * minute, queryId: 'q3' };
      expect(await ids({ after, size: 2 })).toEqual([13, ['q4', 'q5']]);
      expect(await ids({ after: { ...after, queryId: '\u0000' }, size: 1 })).toEqual([13, ['q3']]);
      // Unknown fields are ignored, whatever they hold: drivers would write an object into the statement.
      expect((await ids({ decision: { x: 1 }, query_id: [], limit: 0, size: 1 }))[1]).toEqual(['q0']);
      const { rows } = await data('findQueryHistory', { queryId: 'other' });
      expect(rows).toEqual([
        {
          queryId: 'other',
          queryText: "select 'other'",
          source: hostile,
          cluster: 'b',
          backendUrl: 'http://a:1',
          captureTime: now - 100 * minute,
          routingGroup: 'etl',
        },
      ]);
      for (const [body, field] of [
        [{ size: -1 }, 'size'],
        [{ size: 2001 }, 'size'],
        [{ page: 'x' }, 'page'],
        [{ user: 5 }, 'user'],
        [{ from: -1 }, 'from'],
        [{ after: 'q3' }, 'after'],
        [{ after: { queryId: 'q3' } }, 'after.captureTime'],
      ] as const) {
        expect(await failure('findQueryHistory', body)).toEqual([400, 'EG_MALFORMED', field]);
      }
      expect((await post('findQueryHistory', '{')).status).toBe(400);
    });

    it('counts clusters and queries by name, by URL where no name was kept', async () => {
      await data('saveBackend', backend);
      await data('saveBackend', { ...backend, name: 'b', proxyTo: 'http://b:1', active: false });
      api.table.setHealth('a', 'http://a:1', { ...neverChecked, status: 'HEALTHY' });
      await store.history.insert([
        record('1', now),
        record('2', now - 10_000),
        record('3', now - 31_000),
        record('4', now - 59 * minute, { backendUrl: 'http://gone:1', cluster: '' }),
        record('5', now - 61 * minute),
        record('6', now - 100 * 24 * 60 * minute),
      ]);
      const clusters = {
        totalBackendCount: 2,
        offlineBackendCount: 1,
        onlineBackendCount: 1,
        healthyBackendCount: 1,
        unhealthyBackendCount: 1,
        startTime: new Date(now - 1).toISOString(),
      };
      const at = (time: number) => Math.floor(time / minute) * minute;
      const a = { backendUrl: 'http://a:1', name: 'a' };
      const gone = { backendUrl: 'http://gone:1', name: 'http://gone:1' };
      expect(await data('getDistribution')).toEqual({
        ...clusters,
        totalQueryCount: 4,
        averageQueryCountMinute: 4 / 60,
        averageQueryCountSecond: 4 / 3600,
        distributionChart: [
          { ...gone, queryCount: 1 },
          { ...a, queryCount: 3 },
        ],
        lineChart: {
          'http://gone:1': [{ ...gone, epochMillis: at(now - 59 * minute), queryCount: 1 }],
          a: [
            { ...a, epochMillis: at(now - 31_000), queryCount: 1 },
            { ...a, epochMillis: at(now), queryCount: 2 },
          ],
        },
      });
      const zero = await data('getDistribution', { latestHour: 0 });
      expect([zero.totalQueryCount, zero.averageQueryCountMinute, zero.lineChart]).toEqual([0, 0, {}]);
      expect((await data('getDistribution', { latestHour: 2 })).totalQueryCount).toBe(5);
      for (const latestHour of [24 * 101, 876_000]) {
        const long = await data('getDistribution', { latestHour });
        expect([long.totalQueryCount, long.lineChart.a.length <= 5]).toEqual([6, true]);
      }
      for (const latestHour of [-1, 1.5, '1', 1e9]) {
        expect(await failure('getDistribution', { latestHour })).toEqual([400, 'EG_MALFORMED', 'latestHour']);
      }
    });

    it('keeps exact-match selectors with their time', async () => {
      const selector = {
        resourceGroupId: '["global","etl"]',
        source: 'air ü',
        environment: 'test',
        queryType: 'SELECT',
      };
      const times = [
        ['2026-01-31 23:59:59', '2026-01-31 23:59:59'],
        ['2026-07-01T00:00:00+02:00', '2026-06-30 22:00:00'],
        [undefined, '2026-11-21 12:00:30'],
      ] as const;
      for (const [index, [updateTime, stored]] of times.entries()) {
        const one = { ...selector, source: `${selector.source}${index}` };
        expect(await data('saveExactMatchSourceSelector', { ...one, updateTime })).toEqual({
          ...one,
          updateTime: stored,
        });
        expect(await failure('saveExactMatchSourceSelector', one)).toEqual([409, 'EG_CONFLICT', 'name']);
      }
      const found = await data('findExactMatchSourceSelector');
      expect(found.map((row: { updateTime: string }) => row.updateTime)).toEqual(times.map(([, stored]) => stored));
      expect(await failure('saveExactMatchSourceSelector', { ...selector, updateTime: 'soon' })).toEqual([
        400,
        'EG_MALFORMED',
        'updateTime',
      ]);
    });

    it('shows the newest queries and their clusters', async () => {
      await data('saveBackend', backend);
      await store.history.insert([
        record('1', now),
        record('2', now - 1, { backendUrl: 'http://gone:1', source: null }),
      ]);
      const view = async (name: string) => (await api.call('GET', `/engine-gateway/api/${name}`)).json();
      expect((await view('queryHistory')).map((row: { queryId: string }) => row.queryId)).toEqual(['1', '2']);
      expect(await view('activeBackends')).toEqual([backend]);
      expect(await view('queryHistoryDistribution')).toEqual({ a: 1, 'http://gone:1': 1 });
    });
  });
}
