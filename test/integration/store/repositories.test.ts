import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { QueryPlace } from '../../../src/store/columns.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { QueryListFilter } from '../../../src/store/queryList.ts';
import { certainty, type QueryOutcomeRecord } from '../../../src/store/queryOutcome.ts';
import type {
  BackendRow,
  Fence,
  HistoryFilter,
  QueryListRow,
  QueryRecord,
  StoredResource,
} from '../../../src/store/store.ts';
import { databases, sqlite, type TestDatabase } from '../../support/databases.ts';
import { queryOutcome as outcome, queryRecord as record } from '../../support/queryRecords.ts';

const visible = (user: string, clusters: readonly string[] = [], groups: readonly string[] = []) => ({
  ...{ user, clusters, groups },
});

const logger = pino({ level: 'silent' });

const resource = (name: string, version: string, extra: Partial<StoredResource> = {}): StoredResource => ({
  kind: 'EngineCluster',
  namespace: 'default',
  name,
  registryName: name,
  uid: `uid-${name}`,
  resourceVersion: version,
  generation: 1,
  creationTimestamp: '2026-11-01T00:00:00Z',
  spec: { proxyTo: `http://${name}:8080`, note: 'naïve 🚀 \u0000' },
  labels: { a: 'b' },
  annotations: {},
  status: null,
  source: 'kubernetes',
  row: null,
  ...extra,
});

const backend = (name: string, active = true): BackendRow => ({
  name,
  routingGroup: 'adhoc',
  proxyTo: `http://${name}:8080`,
  externalUrl: `http://${name}.example`,
  active,
});

const key = (name: string) => ({ kind: 'EngineCluster', namespace: 'default', name }) as const;

const unknown = { cluster: null, routingGroup: null, user: null, source: null, rule: null } as const;
const error = { errorName: 'SYNTAX_ERROR', errorType: 'USER_ERROR', errorCode: 1, errorMessage: 'line 1: naïve 🚀' };

for (const database of databases) {
  describe.skipIf(!database.available())(`repositories on ${database.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;

    beforeAll(async () => {
      server = await database.start();
      store = await openStore({ ...(await server.create()), runMigrations: true, logger });
    });

    afterAll(async () => {
      await store?.close();
      await server?.dispose();
    });

    it('repeats a statement that a pool of connections has lost, without preparing it', async () => {
      const single = await openStore({
        ...(await server.create()),
        ...{ runMigrations: true, logger, limits: { maxConnections: 1 } },
      });
      const write = (queryId: string) => single.history.insert([record(queryId)]);
      try {
        await write('prepared');
        // As a pool does that gives each transaction another connection of the server.
        if (database.name === 'postgresql') await single.database.knex.raw('deallocate all');
        await Promise.all([write('lost'), single.outcomes.put([outcome('lost')])]);
        await write('unprepared');
        expect((await single.history.find({}, { offset: 0, limit: 9 })).total).toBe(3);
        expect((await single.outcomes.get('lost'))?.queryId).toBe('lost');
      } finally {
        await single.close();
      }
    });

    it('answers a ping', async () => {
      expect(store.dialect).toBe(database.name);
      await store.ping(2000);
    });

    it.each<readonly [string, readonly (readonly [Partial<QueryOutcomeRecord>, Partial<QueryOutcomeRecord>])[]]>([
      ['an outcome', [[{}, {}]]],
      [
        'an error, its texts as they are stored',
        [
          [
            { state: 'FAILED', ...error, errorMessage: 'a\0b'.repeat(1500) },
            { state: 'FAILED', ...error, errorMessage: 'ab'.repeat(1000) },
          ],
        ],
      ],
      [
        'numbers that no column takes',
        [
          [
            { cpuMillis: 1.6, processedRows: 1e300, processedBytes: Number.NaN, errorCode: -1e300 },
            {
              cpuMillis: 2,
              processedRows: Number.MAX_SAFE_INTEGER,
              processedBytes: null,
              errorCode: Number.MIN_SAFE_INTEGER,
            },
          ],
        ],
      ],
      [
        'a query that no cluster took',
        [
          [
            { refused: true, state: 'DENIED', cluster: null, queryText: 'select 1', decision: '{}' },
            { refused: true, state: 'DENIED', cluster: null, queryText: 'select 1', decision: '{}' },
          ],
        ],
      ],
      [
        'its end after its begin',
        [
          [
            { state: 'RUNNING', certainty: certainty.running, elapsedMillis: null },
            { state: 'RUNNING', certainty: certainty.running, elapsedMillis: null },
          ],
          [{ ...unknown, lastSeen: 1_800_000_000_900 }, { lastSeen: 1_800_000_000_900 }],
        ],
      ],
      [
        'its end at another replica before its begin',
        [
          [
            { ...unknown, state: 'FAILED', ...error },
            { ...unknown, state: 'FAILED', ...error },
          ],
          [
            { state: 'RUNNING', certainty: certainty.running, elapsedMillis: null },
            { state: 'FAILED', ...error },
          ],
        ],
      ],
      [
        'first rows that several replicas saw: the earliest',
        [
          [
            { ...unknown, firstRowMillis: 400 },
            { ...unknown, firstRowMillis: 400 },
          ],
          [{ state: 'RUNNING', certainty: certainty.running, firstRowMillis: 120 }, { firstRowMillis: 120 }],
          [{ state: 'RUNNING', certainty: certainty.running, firstRowMillis: null }, { firstRowMillis: 120 }],
        ],
      ],
      [
        'what is said after what was guessed',
        [
          [
            { state: 'ABANDONED', certainty: certainty.guessed },
            { state: 'ABANDONED', certainty: certainty.guessed },
          ],
          [
            { state: 'FINISHED', pages: 7 },
            { state: 'FINISHED', pages: 7 },
          ],
        ],
      ],
      [
        'the first of two that are as sure',
        [
          [{}, {}],
          [{ state: 'FAILED', ...error }, {}],
        ],
      ],
    ])('keeps %s', async (name, steps) => {
      const id = (way: string) => `outcome ${way} ${name}`;
      for (const [put, stored] of steps) {
        await store.outcomes.put([outcome(id('one by one'), put)]);
        expect(await store.outcomes.get(id('one by one'))).toEqual(outcome(id('one by one'), stored));
      }
      await store.outcomes.put([...steps.map(([put]) => outcome(id('at once'), put)), outcome('another')]);
      expect(await store.outcomes.get(id('at once'))).toEqual(outcome(id('at once'), steps.at(-1)?.[1]));
    });

    describe('an event of a cluster', () => {
      const event = (id: string, extra: Partial<QueryOutcomeRecord> = {}) =>
        outcome(id, {
          ...{ ...unknown, cluster: 'a', user: 'mallory', source: 'event', state: 'FAILED', ...error },
          ...{ certainty: certainty.reported, bypassed: true, queryText: 'select 2', lastSeen: 0, cpuMillis: 7 },
          ...{ resultBytes: null, pages: null, planningMillis: 3, ...extra },
        });
      const missing = { cpuMillis: null, elapsedMillis: null, queuedMillis: null };
      const completed = { cpuMillis: 7, elapsedMillis: 500, queuedMillis: 20, planningMillis: 3 };

      it.each([
        ['an end', {}, { planningMillis: 3 }],
        ['a cancelled query', { state: 'CANCELLED', certainty: certainty.cancelled, ...missing }, completed],
        ['a query that runs', { state: 'RUNNING', certainty: certainty.running, ...missing }, completed],
      ] as const)('completes %s, and changes nothing else', async (name, recorded, added) => {
        for (const order of ['before', 'after'] as const) {
          const id = `event ${order} ${name}`;
          const own = outcome(id, { ...recorded, lastSeen: 1_800_000_000_000 });
          for (const put of order === 'before' ? [event(id), own] : [own, event(id)]) await store.outcomes.put([put]);
          const { queryText: _, ...stored } = (await store.outcomes.get(id))!;
          const { queryText: __, ...expected } = { ...own, ...added };
          expect({ order, ...stored }).toEqual({ order, ...expected });
        }
        const id = `event with ${name}`;
        await store.outcomes.put([event(id), outcome(id, recorded), event(id)]);
        expect(await store.outcomes.get(id)).toEqual(outcome(id, { ...recorded, ...added }));
      });

      const forget = async (id: string) => {
        for (const table of ['query_history', 'eg_query_decisions', 'eg_query_outcomes'])
          await store.database.knex(table).where('query_id', id).delete();
      };

      it('stores a query that was not sent through the gateway, once', async () => {
        const created = 1_760_000_000_000;
        const some = { created, source: 'bypassed' };
        await store.outcomes.put([event('bypassed', some), event('bypassed', { ...some, cpuMillis: 9 })]);
        expect(await store.outcomes.get('bypassed')).toEqual(event('bypassed', some));
        const listed = () => store.queryList.find({ source: 'bypassed' }, 10, null, 100);
        expect(await listed()).toMatchObject([
          { queryId: 'bypassed', bypassed: true, queryText: 'select 2', user: 'mallory' },
        ]);
        await store.history.insert([record('bypassed', { ...some, cluster: 'a' })]);
        expect(await listed()).toMatchObject([{ queryId: 'bypassed', user: 'alice' }]);
        await forget('bypassed');
      });

      it('takes the facts of a submission from the history', async () => {
        await store.history.insert([record('event of a lost replica')]);
        await store.outcomes.put([event('event of a lost replica')]);
        const stored = await store.outcomes.get('event of a lost replica');
        expect(stored).toMatchObject({ user: 'alice', source: 'cli', routingGroup: 'adhoc', state: 'FAILED' });
        expect(stored?.bypassed).toBeUndefined();
        await forget('event of a lost replica');
      });
    });

    it('stores many outcomes with long statements at once', async () => {
      const queryText = "'é🚀\\".repeat(13_000);
      const many = Array.from({ length: 500 }, (_, index) =>
        outcome(`many ${index}`, index % 50 === 0 ? { queryText } : {}),
      );
      await store.outcomes.put(many);
      expect(await store.outcomes.get('many 450')).toEqual(outcome('many 450', { queryText }));
      expect(await store.outcomes.get('many 499')).toEqual(outcome('many 499'));
    });

    it('knows which queries are not over', async () => {
      const running = { state: 'RUNNING', certainty: certainty.running } as const;
      await store.outcomes.put([outcome('open running', running), outcome('open ended')]);
      const ids = ['open running', 'open ended', 'open history', 'open nobody'];
      await store.history.insert(['open running', 'open ended', 'open history'].map((queryId) => record(queryId)));
      const unended = await store.outcomes.unended(ids);
      expect([...unended.keys()].sort()).toEqual(['open history', 'open running']);
      expect(unended.get('open running')).toMatchObject({ user: 'alice', rule: 'team', cluster: 'a' });
      expect(unended.get('open history')).toMatchObject({ routingGroup: 'adhoc', cluster: 'a', rule: null });
      expect(await store.outcomes.unended([])).toEqual(new Map());
      expect(await store.outcomes.ended(ids)).toEqual(new Set(['open ended']));
      expect(await store.outcomes.ended(ids, ['RUNNING', 'FINISHED'])).toEqual(new Set());
      expect(await store.outcomes.ended([])).toEqual(new Set());
      for (const table of ['query_history', 'eg_query_decisions'])
        await store.database.knex(table).whereIn('query_id', ids).delete();
    });

    it('knows the facts of a submission from the history, where another replica saw the end', async () => {
      const facts = { rule: 'team', gatewayQueuedMillis: 70, groups: ['etl', 'all'] };
      await store.history.insert([{ ...record('seen elsewhere'), ...facts, created: 5_000 }]);
      const unknown = { routingGroup: null, user: null, source: null, rule: null, gatewayQueuedMillis: null };
      await store.outcomes.put([outcome('seen elsewhere', { ...unknown, cluster: 'a', created: 5_900 })]);
      const { user, source, routingGroup } = record('seen elsewhere');
      expect(await store.outcomes.get('seen elsewhere')).toMatchObject({
        ...{ user, source, routingGroup, cluster: 'a', created: 5_000, state: 'FINISHED' },
        ...{ rule: 'team', gatewayQueuedMillis: 70 },
      });
      const [row] = await store.database.knex('eg_query_outcomes').where('query_id', 'seen elsewhere');
      const sets = await store.database.knex('eg_group_sets').where('set_id', row.group_set).pluck('group_name');
      expect(sets.sort()).toEqual(['all', 'etl']);
      for (const table of ['query_history', 'eg_query_decisions', 'eg_query_groups', 'eg_query_outcomes'])
        await store.database.knex(table).where('query_id', 'seen elsewhere').delete();
    });

    it('notes changes of hours that are over only', async () => {
      const now = Date.now();
      const past = now - 3 * 3_600_000;
      await store.outcomes.put([outcome('of now', { created: now }), outcome('of then', { created: past })]);
      const hours = await store.database
        .knex('eg_query_hours')
        .where('hour', '>=', Math.floor(past / 3_600_000))
        .pluck('hour');
      expect(hours).toEqual([Math.floor(past / 3_600_000)]);
      await store.database.knex('eg_query_outcomes').whereIn('query_id', ['of now', 'of then']).delete();
    });

    it('ends queries that no replica follows, and deletes old outcomes', async () => {
      const running = { state: 'RUNNING', certainty: certainty.running } as const;
      const [created, seen] = [1_700_000_000_000, 1_700_000_900_000];
      await store.outcomes.put(
        ['dead', 'followed', 'late'].map((id) =>
          outcome(`run ${id}`, { ...running, created: id === 'late' ? seen : created }),
        ),
      );
      await store.runningQueries.put([
        { queryId: 'run followed', cluster: 'followed', started: created, lastSeen: seen },
      ]);
      expect(await store.outcomes.endForgotten(seen, seen)).toBe(1);
      const states = async () =>
        Promise.all(
          ['dead', 'followed', 'late'].map(async (id) => (await store.outcomes.get(`run ${id}`))?.state ?? null),
        );
      expect(await states()).toEqual(['ABANDONED', 'RUNNING', 'RUNNING']);
      expect(await store.outcomes.deleteBefore(seen)).toBe(2);
      expect(await states()).toEqual([null, null, 'RUNNING']);
    });

    it('lists queries with their outcomes, and those that no cluster took among them', async () => {
      const base = 1_750_000_000_000;
      const source = 'lists';
      const taken = Array.from({ length: 6 }, (_, index) =>
        record(`list ${index}`, {
          source,
          created: base + 10 * index,
          user: index < 3 ? 'ann' : 'ben',
          queryText: `select ${index}`,
        }),
      );
      await store.history.insert(taken);
      const states = ['FINISHED', 'FAILED', 'RUNNING', 'CANCELLED'] as const;
      await store.outcomes.put([
        ...states.map((state, index) =>
          outcome(`list ${index}`, {
            ...{
              source,
              created: base + 10 * index,
              user: index < 3 ? 'ann' : 'ben',
              state,
              elapsedMillis: 100 * index,
            },
            ...(state === 'FAILED' ? error : {}),
          }),
        ),
        outcome('list denied', {
          ...{ source, created: base + 15, user: 'ann', state: 'DENIED', refused: true, cluster: null },
          ...{ queryText: 'drop "100%"', elapsedMillis: null },
        }),
      ]);
      const ids = async (filter: QueryListFilter, limit = 10, after: QueryPlace | null = null) =>
        (await store.queryList.find({ source, ...filter }, limit, after, 100)).map(({ queryId }) => queryId.slice(5));
      expect(await ids({})).toEqual(['5', '4', '3', '2', 'denied', '1', '0']);
      expect(await ids({}, 3)).toEqual(['5', '4', '3']);
      expect(await ids({}, 3, { created: base + 20, queryId: 'list 2' })).toEqual(['denied', '1', '0']);
      expect(await ids({ user: 'ann' })).toEqual(['2', 'denied', '1', '0']);
      expect(await ids({ cluster: 'a', from: base + 5, to: base + 30 })).toEqual(['2', '1']);
      expect(await ids({ visibleTo: visible('ann') })).toEqual(['2', 'denied', '1', '0']);
      expect(await ids({ visibleTo: visible('ben', ['a'], ['adhoc']) })).toEqual(await ids({}));
      expect(await ids({ visibleTo: visible('zoe', ['a']), user: 'ann' })).toEqual(['2', '1', '0']);
      expect(await ids({ visibleTo: visible('zoe', ['b'], ['adhoc']) })).toEqual(['denied']);
      expect(await ids({ visibleTo: visible('ben', ['b']), states: ['FAILED', 'DENIED', 'CANCELLED'] })).toEqual(['3']);
      expect(await ids({ text: '100%' })).toEqual(['denied']);
      expect(await ids({ text: 'SELECT 1' })).toEqual(['1']);
      expect(await ids({ states: ['FAILED', 'DENIED'] })).toEqual(['denied', '1']);
      expect(await ids({ states: ['FAILED', 'DENIED'], user: 'ben' })).toEqual([]);
      expect(await ids({ states: ['FAILED'], text: 'select' })).toEqual(['1']);
      expect(await ids({ errorType: 'USER_ERROR' })).toEqual(['1']);
      expect(await ids({ errorName: 'SYNTAX_ERROR' })).toEqual(['1']);
      expect(await ids({ minElapsedMillis: 100, maxElapsedMillis: 300 })).toEqual(['3', '1']);
      expect(await ids({ minElapsedMillis: 0 }, 1, { created: base + 30, queryId: 'list 3' })).toEqual(['1']);
      const [first, second] = await store.queryList.find({ source, from: base + 10, to: base + 20 }, 2, null, 6);
      expect(first).toMatchObject({ queryText: 'drop "', cluster: null, outcome: { state: 'DENIED' } });
      expect(second).toMatchObject({ queryText: 'select', cluster: 'a', outcome: error });
      expect(
        (await store.queryList.find({ source, from: base + 20 }, 9, null, 6)).map((row) => row.outcome?.state ?? null),
      ).toEqual([null, null, 'CANCELLED', null]);
      await store.history.deleteBefore(base + 100);
    });

    it('finds and counts queries by groups of their users', async () => {
      const base = 1_745_000_000_000;
      const many = Array.from({ length: 1000 }, (_, index) => `g${String(index).padStart(4, '0')}`);
      const groups = [['etl'], ['etl', 'ops', 'etl'], ['ops'], many, [], ['Etl'], ['x'.repeat(300)]];
      const made = groups.map((some, index) => ({ index, created: base + 10 * index, groups: some }));
      const taken = made.map(({ index, created, groups: some }) =>
        record(`grouped ${index}`, { created, user: index === 1 ? 'ann' : 'ben', groups: some }),
      );
      await store.history.insert(taken);
      // Batches that are written again change nothing.
      await store.history.insert(taken);
      await store.outcomes.put([
        ...made
          .slice(0, 3)
          .map(({ index, created }) =>
            outcome(`grouped ${index}`, { created: created + 1, groups: groups[index] ?? [] }),
          ),
        outcome('grouped denied', {
          ...{ created: base + 15, user: 'ann', state: 'DENIED', refused: true, cluster: null, groups: ['etl'] },
        }),
      ]);
      const ids = async (filter: QueryListFilter, limit = 10, after: QueryPlace | null = null) =>
        (await store.queryList.find(filter, limit, after, 100)).map(({ queryId }) => queryId.slice(8));
      expect(await ids({ userGroup: 'etl' })).toEqual(['denied', '1', '0']);
      expect(await ids({ userGroup: 'etl' }, 1, { created: base + 15, queryId: 'grouped denied' })).toEqual(['1']);
      expect(await ids({ userGroup: 'etl', user: 'ann', visibleTo: visible('ann') })).toEqual(['denied', '1']);
      expect(await ids({ userGroup: 'etl', from: base + 10, to: base + 15 })).toEqual(['1']);
      expect(await ids({ userGroup: 'etl', states: ['FINISHED'] })).toEqual(['1', '0']);
      expect(await ids({ userGroup: 'et', match: 'prefix' })).toEqual([]);
      expect([await ids({ userGroup: 'g0031' }), await ids({ userGroup: 'g0032' })]).toEqual([['3'], []]);
      expect(await ids({ userGroup: 'x'.repeat(300) })).toEqual(['6']);
      const by = async (filter: { readonly user?: string }) =>
        (await store.queryStatistics.of({ by: 'userGroup', from: base, to: base + 25, limit: 10, ...filter })).map(
          ({ value, queries, states }) => [value, queries, states],
        );
      expect(await by({})).toEqual([
        ['etl', 3, { FINISHED: 2, DENIED: 1 }],
        ['ops', 2, { FINISHED: 2 }],
      ]);
      expect(await by({ user: 'nobody' })).toEqual([]);
      await store.history.deleteBefore(base + 12);
      expect(await ids({ userGroup: 'etl' })).toEqual(['denied']);
      await store.history.deleteBefore(base + 100);
      expect(await store.database.knex('eg_query_groups').where('created', '<', base + 100)).toEqual([]);
    });

    it('counts queries by what they have in common', async () => {
      const base = 1_740_000_000_000;
      await store.outcomes.put(
        Array.from({ length: 1000 }, (_, index) =>
          outcome(`count ${index}`, {
            ...{
              created: base + index,
              user: index % 10 === 0 ? null : `u${index % 2}`,
              elapsedMillis: index,
              queuedMillis: 0,
            },
            ...{ state: index % 4 === 0 ? 'FAILED' : 'FINISHED', cpuMillis: 2, processedBytes: 9e12, resultBytes: 3 },
          }),
        ),
      );
      const request = { by: 'user', from: base, to: base + 1000, limit: 10 } as const;
      const counted = await store.queryStatistics.of(request);
      expect(counted.map(({ value, queries, states }) => [value, queries, states])).toEqual([
        ['u1', 500, { FINISHED: 500 }],
        ['u0', 400, { FINISHED: 200, FAILED: 200 }],
        [null, 100, { FINISHED: 50, FAILED: 50 }],
      ]);
      const [one] = counted;
      expect(one).toMatchObject({ cpuMillis: 1000, processedBytes: 4.5e15, resultBytes: 1500 });
      for (const [share, exact] of [
        ['p50', 500],
        ['p95', 950],
        ['p99', 990],
      ] as const) {
        const found = one?.elapsedMillis[share] ?? 0;
        expect(Math.abs(found - exact) / exact).toBeLessThan(0.05);
      }
      expect(one?.queuedMillis).toEqual({ p50: 0, p95: 0, p99: 0 });
      expect(await store.queryStatistics.of({ ...request, by: 'cluster', user: 'u0', limit: 1 })).toMatchObject([
        { value: 'a', queries: 400 },
      ]);
      const of = async (filter: { readonly cluster?: string; readonly routingGroup?: string }) =>
        (await store.queryStatistics.of({ ...request, ...filter })).reduce((sum, { queries }) => sum + queries, 0);
      expect([await of({ cluster: 'a' }), await of({ cluster: 'none' })]).toEqual([1000, 0]);
      expect([await of({ routingGroup: 'adhoc' }), await of({ routingGroup: 'none' })]).toEqual([1000, 0]);
      expect(await store.queryStatistics.of({ ...request, to: base })).toEqual([]);
    });

    it('counts those with most queries where very many values have some', async () => {
      const base = 1_730_000_000_000;
      await store.outcomes.put(
        Array.from({ length: 21_000 }, (_, index) =>
          outcome(`most ${index}`, { created: base, source: index < 900 ? 'much' : index < 990 ? null : `s${index}` }),
        ),
      );
      const counted = await store.queryStatistics.of({ by: 'source', from: base, to: base + 1, limit: 2 });
      expect(counted).toMatchObject([
        { value: 'much', queries: 900 },
        { value: null, queries: 90 },
      ]);
    });

    it('counts rates, durations and faults by time', async () => {
      const base = 1_900_000_020_000;
      const minute = 60_000;
      const failed = { ...error, state: 'FAILED', errorType: 'EXTERNAL', errorName: 'GONE' } as const;
      const times = (elapsedMillis: number | null, queuedMillis: number | null) => ({ elapsedMillis, queuedMillis });
      const rows: Partial<QueryOutcomeRecord>[] = [
        { created: base, ...times(100, 1), gatewayQueuedMillis: 7 },
        { created: base + minute - 1, ...times(100, 8) },
        { created: base + minute, ...failed, ...times(4_000, null) },
        { created: base + minute, ...failed, ...times(4_000, null), errorName: null, state: 'LOST', errorType: null },
        { created: base + minute, ...error, state: 'FAILED', ...times(1_000, 8) },
        { created: base + minute, state: 'REFUSED', refused: true, cluster: null, ...times(null, null) },
        { created: base + minute, state: 'RUNNING', certainty: certainty.running, ...times(null, null) },
        { created: base + 3 * minute, cluster: 'b', routingGroup: 'etl', ...times(1, 1) },
        { created: base + 4 * minute },
      ];
      await store.outcomes.put(rows.map((row, index) => outcome(`rated-${index}`, row)));
      const [from, to] = [base, base + 4 * minute];
      const counted = await store.queryRates.perInterval({ from, to, length: minute });
      const near = (milliseconds: number) => expect.closeTo(milliseconds, milliseconds > 100 ? -2.5 : -1);
      const none = { failures: 0, userErrors: 0, refused: 0 };
      expect(counted).toEqual([
        {
          ...{ ...none, start: base, queries: 2, ended: 2 },
          ...{ elapsedMillis: { p50: near(100), p95: near(100) }, queuedMillis: { p50: near(8), p95: near(8) } },
        },
        {
          ...{ start: base + minute, queries: 5, ended: 4, failures: 2, userErrors: 1, refused: 1 },
          ...{ elapsedMillis: { p50: near(4_000), p95: near(4_000) }, queuedMillis: { p50: near(8), p95: near(8) } },
        },
        {
          ...{ ...none, start: base + 3 * minute, queries: 1, ended: 1 },
          ...{ elapsedMillis: { p50: 1, p95: 1 }, queuedMillis: { p50: 1, p95: 1 } },
        },
      ]);
      const hour = await store.queryRates.perInterval({ from: base - 30 * 3_600_000, to, length: 3_600_000 });
      expect(hour.map(({ queries }) => queries)).toEqual([8]);

      expect(await store.queryRates.errors({ from, to, limit: 2 })).toHaveLength(2);
      const errors = await store.queryRates.errors({ from, to, limit: 10 });
      expect(new Set(errors)).toEqual(
        new Set([
          { state: 'FAILED', errorName: 'GONE', errorType: 'EXTERNAL', queries: 1 },
          { state: 'FAILED', errorName: 'SYNTAX_ERROR', errorType: 'USER_ERROR', queries: 1 },
          { state: 'LOST', errorName: null, errorType: null, queries: 1 },
          { state: 'REFUSED', errorName: null, errorType: null, queries: 1 },
        ]),
      );

      const faults = await store.queryRates.faults({ from, recentFrom: base + minute });
      expect(new Set(faults)).toEqual(
        new Set([
          // What comes after the ranges above is recent as well.
          {
            ...{ cluster: 'a', group: null, groups: ['adhoc'] },
            ...{ before: { ended: 2, faults: 0 }, recent: { ended: 4, faults: 2 } },
          },
          // Of all queries of the group one was refused.
          {
            ...{ cluster: null, group: 'adhoc', groups: ['adhoc'] },
            ...{ before: { ended: 2, faults: 0 }, recent: { ended: 5, faults: 1 } },
          },
          {
            ...{ cluster: 'b', group: null, groups: [] },
            ...{ before: { ended: 0, faults: 0 }, recent: { ended: 1, faults: 0 } },
          },
        ]),
      );
      const minutes = await store.queryRates.faultMinutes(base + minute, [
        { cluster: null, group: 'adhoc' },
        { cluster: 'b', group: null },
      ]);
      expect(minutes.filter(({ cluster }) => cluster !== 'a')).toEqual([
        { cluster: 'b', group: 'etl', start: base + 3 * minute, ended: 1, faults: 0, errorName: null },
        { cluster: null, group: 'adhoc', start: base + minute, ended: 1, faults: 1, errorName: null },
      ]);
      expect(await store.queryRates.faultMinutes(base, [])).toEqual([]);
    });

    it('leaves turns to everything else while writes follow one another', async () => {
      let turns = 0;
      let immediate: NodeJS.Immediate;
      const turn = () => {
        turns++;
        immediate = setImmediate(turn);
      };
      immediate = setImmediate(turn);
      const worker = async (_: unknown, number: number) => {
        // As each turn takes 5 ms and a few statements at most, there are five of them long before.
        for (let version = 1; version <= 500 && turns < 5; version++) {
          await store.resources.confirmDeletions();
          await store.resources.get(key(`busy${number}`));
        }
      };
      await Promise.all(Array.from({ length: 4 }, worker));
      clearImmediate(immediate);
      expect(turns).toBeGreaterThan(4);
    });

    describe('the set of the leader', () => {
      let fence: Fence;
      beforeAll(async () => {
        fence = (await store.leader.acquire('leader', 600_000)) as Fence;
      });
      afterAll(() => store.leader.release(fence));
      const write = (stored: readonly StoredResource[], removed: readonly string[] = [], removedRows = removed) =>
        store.resources.writeDifference({ stored, removed: removed.map(key), removedRows }, fence);

      it('is stored whole with its rows, which it returns as they were', async () => {
        const whole = resource('whole', '5', { row: backend('whole') });
        expect(await write([whole])).toEqual([]);
        expect(await store.resources.get(key('whole'))).toEqual(whole);
        expect(await store.backends.all()).toContainEqual({ ...backend('whole'), managed: true });
        expect((await store.backends.all('directory')).find(({ name }) => name === 'whole')?.managed).toBe(false);
        const off = resource('whole', '4', { row: backend('whole', false) });
        expect(await write([off])).toEqual([backend('whole')]);
        expect(await store.resources.get(key('whole'))).toEqual(off);
        expect(await store.backends.rows()).toContainEqual(backend('whole', false));
      });

      it('is stored in one transaction, of any size and with any text', async () => {
        const spec = { text: `'"\\ 🚀${'é'.repeat(2_000)}\u0000` };
        const names = Array.from({ length: 260 }, (_, index) => `many-${index}`);
        await write(names.map((name) => resource(name, '1', { spec, row: backend(name) })));
        const stored = async () => (await store.resources.all()).filter(({ name }) => name.startsWith('many-'));
        expect((await stored()).every((each) => each.spec.text === spec.text)).toBe(true);
        expect(await stored()).toHaveLength(260);
        const long = resource('long', '1', { row: { ...backend('long'), proxyTo: `http://${'x'.repeat(300_000)}` } });
        if (database.name !== 'sqlite') {
          await expect(write([resource('many-0', '2'), long])).rejects.toThrow();
          expect((await store.resources.get(key('many-0')))?.resourceVersion).toBe('1');
        }
        await write([], names);
        expect(await stored()).toEqual([]);
        expect((await store.backends.rows()).filter(({ name }) => name.startsWith('many-'))).toEqual([]);
      });

      it('moves a row with the registry name', async () => {
        await write([resource('moved', '1', { row: backend('old name') })]);
        await write([resource('moved', '2', { registryName: 'new', row: backend('new name') })], [], ['old name']);
        const names = (await store.backends.all()).map((row) => row.name);
        expect(names).toContain('new name');
        expect(names).not.toContain('old name');
      });

      it('is not written with a fence that is lost', async () => {
        expect(await store.leader.acquire('two', 60_000)).toBeNull();
        expect(await store.leader.state()).toEqual({ isHeld: true, expiredForMs: null });
        expect(await store.leader.acquire('leader', 600_000)).toEqual(fence);
        const lost = fence;
        await store.leader.release(fence);
        expect(await store.leader.state()).toEqual({ isHeld: false, expiredForMs: null });
        expect(await write([resource('fenced', '1')])).toBe('fenced');
        fence = (await store.leader.acquire('two', 600_000)) as Fence;
        expect(fence.epoch).toBeGreaterThan(lost.epoch);
        expect(await store.resources.removeWithoutRow(key('whole'), lost)).toBeNull();
        expect(await store.resources.get(key('fenced'))).toBeNull();
      });

      it('leaves the mark of a deletion by REST, by which other replicas know of it', async () => {
        await write([resource('gone', '1', { row: backend('gone') })]);
        expect(await store.resources.delete(key('gone'), { uid: 'other' })).toBe(false);
        expect(await store.resources.delete(key('gone'), { uid: 'uid-gone' })).toBe(true);
        expect(await store.resources.get(key('gone'))).toBeNull();
        expect((await store.backends.rows()).map(({ name }) => name)).not.toContain('gone');
        await write([], ['gone']);
        expect(await store.resources.deletedByApi()).toContain('uid-gone');
        await write([resource('gone', '2', { uid: 'second' })]);
        expect(await store.resources.get(key('gone'))).toMatchObject({ uid: 'second' });
        expect(await store.resources.deletedByApi()).not.toContain('uid-gone');
      });

      it('is never read with a row but without the resource that gave it', async () => {
        let done = false;
        const change = async () => {
          for (let round = 0; round < 60; round++) {
            await write([resource('brief', String(round), { row: backend('brief') })]);
            await write([], ['brief']);
          }
        };
        const look = async () => {
          while (!done) {
            expect((await store.backends.all()).filter((row) => row.name === 'brief' && !row.managed)).toEqual([]);
          }
        };
        const ended = change().finally(() => {
          done = true;
        });
        await Promise.all([ended, look(), look()]);
      });
    });

    describe('resources of source database', () => {
      const draft = (name: string, extra: Partial<StoredResource> = {}) =>
        resource(name, '0', { source: 'database', row: backend(name), ...extra });
      const create = (name: string) => store.resources.edit(key(name), null, () => draft(name));

      it('are changed by version, and their rows with them', async () => {
        const before = BigInt(await store.resources.changeMark());
        const created = await create('edited');
        expect(created).toMatchObject({ generation: 1 });
        expect(BigInt(await store.resources.changeMark())).toBeGreaterThan(before);
        expect(await create('edited')).toBeNull();
        const version = created?.resourceVersion ?? '';
        const annotated = await store.resources.edit(key('edited'), version, (stored, row) => {
          expect([stored, row]).toEqual([created, backend('edited')]);
          return { ...draft('edited'), annotations: { x: 'y' }, row: backend('edited', false) };
        });
        expect(annotated).toMatchObject({ generation: 1 });
        expect(await store.backends.rows()).toContainEqual(backend('edited', false));
        expect(await store.resources.edit(key('edited'), version, () => draft('edited'))).toBeNull();
        const second = await store.resources.edit(key('edited'), annotated?.resourceVersion ?? '', () =>
          draft('edited', { spec: { proxyTo: 'http://b:1' } }),
        );
        expect(second?.generation).toBe(2);
        expect(await store.resources.putStatus(key('edited'), 'other', {}, null)).toBe('gone');
        expect(await store.resources.putStatus(key('edited'), 'uid-edited', { a: 1 }, null)).toBe('written');
        expect(await store.resources.putStatus(key('edited'), 'uid-edited', {}, { holder: 'x', epoch: 0 })).toBe(
          'fenced',
        );
        expect(await store.resources.get(key('edited'))).toEqual({ ...second, status: { a: 1 } });
        expect(await store.resources.delete(key('edited'), { resourceVersion: version })).toBe(false);
        expect(await store.resources.delete(key('edited'), {})).toBe(true);
        expect(await create('edited')).not.toBeNull();
      });

      it('have one of several racing writers win', async () => {
        const results = await Promise.all(Array.from({ length: 8 }, () => create('raced')));
        expect(results.filter((result) => result !== null)).toHaveLength(1);
      });

      it('are removed when another program deleted their row, and not before', async () => {
        const fence = (await store.leader.acquire('leader', 60_000)) as Fence;
        await create('rowless');
        expect(await store.resources.removeWithoutRow(key('rowless'), fence)).toBeNull();
        await store.database.knex('gateway_backend').where('name', 'rowless').delete();
        expect(await store.resources.removeWithoutRow(key('rowless'), fence)).toMatchObject({ name: 'rowless' });
        expect(await store.resources.get(key('rowless'))).toBeNull();
        await store.leader.release(fence);
      });
    });

    it('remembers the first cluster of a suffix', async () => {
      const row = { suffix: 'kvhrm', cluster: 'a', proxyTo: 'http://a', lastSeen: 1000 };
      expect(await store.coordinators.learn(row)).toEqual(row);
      expect(await store.coordinators.learn({ ...row, cluster: 'b' })).toEqual(row);
      await store.coordinators.touch(['kvhrm'], 1_800_000_000_000);
      await store.coordinators.touch(['kvhrm'], 5);
      expect(await store.coordinators.get('kvhrm')).toEqual({ ...row, lastSeen: 1_800_000_000_000 });
      expect(await store.coordinators.get('KVHRM')).toBeNull();
      expect(await store.coordinators.deleteBefore(1_800_000_000_001)).toBe(1);
      expect(await store.coordinators.all()).toEqual([]);
    });

    it('gives a suffix to another owner only from the one that is named, and only when that was not seen', async () => {
      const row = { suffix: 'kvhrm', cluster: 'a', proxyTo: 'http://a', uid: 'u1', lastSeen: 1000 };
      const other = { suffix: 'kvhrm', cluster: 'b', proxyTo: 'http://b', lastSeen: 2000 };
      await store.coordinators.learn(row);
      // Another coordinator of the same owner was seen later.
      await store.coordinators.learn({ ...row, suffix: 'later', lastSeen: 1500 });
      expect(await store.coordinators.replace(other, 'http://x', null)).toEqual(row);
      expect(await store.coordinators.replace(other, 'http://a', 1500)).toEqual(row);
      expect(await store.coordinators.replace(other, 'http://a', 1501)).toEqual(other);
      expect(await store.coordinators.replace({ ...row, uid: 'u2' }, 'http://b', null)).toEqual({ ...row, uid: 'u2' });
      // A row that was deleted meanwhile.
      await store.coordinators.deleteBefore(5000);
      expect(await store.coordinators.replace(other, 'http://a', 0)).toEqual(other);
      await store.coordinators.deleteBefore(5000);
    });

    it('keeps 256 suffixes of a cluster: further ones displace its own, those unseen for the longest first', async () => {
      const row = (suffix: string, cluster: string, lastSeen: number) => ({
        suffix,
        cluster,
        proxyTo: `http://${cluster}`,
        lastSeen,
      });
      await store.coordinators.learn(row('first', 'a', 1));
      const suffixes = Array.from({ length: 300 }, (_, index) => `b${String(index).padStart(4, '0')}`);
      for (const [index, suffix] of suffixes.entries()) await store.coordinators.learn(row(suffix, 'b', 10 + index));
      const left = (await store.coordinators.all()).map(({ suffix }) => suffix);
      expect(left).toEqual([...suffixes.slice(44), 'first']);
      await store.coordinators.deleteBefore(5000);
    });

    it('stores owners by full id', async () => {
      const row = { queryId: 'q1', cluster: 'a', proxyTo: 'http://a', created: 1_800_000_000_000 };
      const other = { ...row, cluster: 'b', proxyTo: 'http://b' };
      expect(await store.queries.learn(row)).toEqual(row);
      expect(await store.queries.learn(other)).toEqual(row);
      expect(await store.queries.replace(other, 'http://x')).toEqual(row);
      expect(await store.queries.replace(other, 'http://a')).toEqual(other);
      expect(await store.queries.get('q1')).toEqual(other);
      expect(await store.queries.deleteBefore(row.created + 1)).toBe(1);
      expect(await store.queries.get('q1')).toBeNull();
    });

    it('keeps the first cluster of a transaction until that cluster ends it', async () => {
      const row = { transactionId: 'c52ccb51-f265', cluster: 'a', proxyTo: 'http://a', created: 1_800_000_000_000 };
      expect(await store.transactions.begin(row)).toEqual(row);
      expect(await store.transactions.begin({ ...row, cluster: 'b', proxyTo: 'http://b' })).toEqual(row);
      await store.transactions.end(row.transactionId, 'http://b');
      expect(await store.transactions.get(row.transactionId)).toEqual(row);
      await store.transactions.end(row.transactionId, 'http://a');
      expect(await store.transactions.get(row.transactionId)).toBeNull();
      await store.transactions.begin(row);
      expect(await store.transactions.deleteBefore(row.created)).toBe(0);
      expect(await store.transactions.deleteBefore(row.created + 1)).toBe(1);
    });

    it('keeps running queries of all replicas', async () => {
      const row = (queryId: string, started: number, lastSeen: number, cluster = 'a') => ({
        queryId,
        cluster,
        started,
        lastSeen,
      });
      const many = Array.from({ length: 2_200 }, (_, index) => row(`many${index}`, index, 5, 'many'));
      await store.runningQueries.put([row('q2', 2, 20), row('q1', 1, 10), row('other', 1, 99, 'b'), ...many]);
      expect(await store.runningQueries.ofCluster('many', 0)).toEqual(many);
      await store.runningQueries.put([row('q1', 7, 30)]);
      expect(await store.runningQueries.ofCluster('a', 20)).toEqual([row('q1', 1, 30), row('q2', 2, 20)]);
      expect(await store.runningQueries.ofCluster('a', 21)).toEqual([row('q1', 1, 30)]);
      await store.runningQueries.remove(['q1', 'unknown', ...many.map(({ queryId }) => queryId)]);
      expect(await store.runningQueries.ofCluster('many', 0)).toEqual([]);
      expect(await store.runningQueries.deleteBefore(21)).toBe(1);
      expect(await store.runningQueries.ofCluster('b', 0)).toEqual([row('other', 1, 99, 'b')]);
    });

    it('takes running queries of any name', async () => {
      const row = (queryId: string, lastSeen: number, cluster = `o'clock \\ "\u0000🚀\ud800`) => ({
        queryId,
        cluster,
        started: 1,
        lastSeen,
      });
      const stored = (queryId: string, lastSeen: number) => row(queryId, lastSeen, `o'clock \\ "🚀\ufffd`);
      const hostile = `'); \\' ?? $1 :x "\u0000\ud800 é\n`;
      const clean = `'); \\' ?? $1 :x "\ufffd é\n`;
      const long = '🚀'.repeat(300);
      await store.runningQueries.put([]);
      await store.runningQueries.put([row(hostile, 5), row('same\u0000', 5), row('same', 6), row(long, 5)]);
      const found = await store.runningQueries.ofCluster(row('', 0).cluster, 0);
      expect(found.toSorted((a, b) => a.queryId.length - b.queryId.length)).toEqual([
        stored('same', 6),
        stored(clean, 5),
        stored('🚀'.repeat(256), 5),
      ]);
      await store.runningQueries.put([row(hostile, 7)]);
      expect(await store.runningQueries.ofCluster(row('', 0).cluster, 7)).toEqual([stored(clean, 7)]);
      await store.runningQueries.remove([]);
      await store.runningQueries.remove([hostile, 'same\u0000', long]);
      expect(await store.runningQueries.ofCluster(row('', 0).cluster, 0)).toEqual([]);
    });

    it('keeps history, pages it newest first and filters it', async () => {
      const records = Array.from({ length: 25 }, (_, index) =>
        record(`h${String(index).padStart(2, '0')}`, {
          created: 1_800_000_000_000 + index,
          user: index % 2 === 0 ? 'alice' : 'bob',
          cluster: index % 5 === 0 ? 'b' : 'a',
        }),
      );
      await store.history.insert(records);
      await store.history.insert([record('h00', { queryText: 'changed' })]);
      expect(await store.history.get('h00')).toEqual(records[0]);
      const page = await store.history.find({}, { offset: 5, limit: 3 });
      expect(page.total).toBe(25);
      expect(page.records.map((found) => found.queryId)).toEqual(['h19', 'h18', 'h17']);
      expect((await store.history.find({ user: 'bob' }, { offset: 0, limit: 0 })).total).toBe(12);
      expect((await store.history.find({ cluster: 'b' }, { offset: 0, limit: 9 })).records).toHaveLength(5);
      const window = { from: 1_800_000_000_003, to: 1_800_000_000_005 };
      expect((await store.history.find(window, { offset: 0, limit: 9 })).records.map((r) => r.queryId)).toEqual([
        'h04',
        'h03',
      ]);
      const ids = async (filter: HistoryFilter, after: QueryRecord | undefined, limit: number) => {
        const found = await store.history.find(filter, { offset: 0, limit, ...(after === undefined ? {} : { after }) });
        return [found.total, ...found.records.map((r) => r.queryId)];
      };
      expect(await ids({}, records[3], 2)).toEqual([25, 'h02', 'h01']);
      expect(await ids({ user: 'bob' }, records[3], 9)).toEqual([12, 'h01']);
      expect(await ids({}, records[0], 9)).toEqual([25]);
      expect(await store.history.find({}, { offset: 1_000_000_000, limit: 9 })).toEqual({ total: 25, records: [] });
      expect(await store.history.deleteBefore(1_800_000_000_020)).toBe(20);
      expect((await store.history.find({}, { offset: 0, limit: 1 })).total).toBe(5);
    });

    it('goes on after a row among others of the same time', async () => {
      await store.history.insert(['a', 'b', 'c', 'd'].map((id) => record(id, { created: 7, source: 'same time' })));
      const pages: string[] = [];
      for (let after: QueryListRow | undefined; ; ) {
        const page = { offset: 0, limit: 1, ...(after === undefined ? {} : { after }) };
        after = (await store.history.find({ source: 'same time' }, page)).records[0];
        if (after === undefined) break;
        pages.push(after.queryId);
      }
      expect(pages).toEqual(['d', 'c', 'b', 'a']);
      await store.history.deleteBefore(8);
    });

    it('lists texts whole up to four million characters a page, and cuts them to equal shares beyond', async () => {
      const texts = ['a', 'b', 'c', 'd', 'e'].map((letter) => letter.repeat(1_000_000));
      await store.history.insert(
        texts.map((queryText, index) => record(`long-${index}`, { queryText, source: 'long' })),
      );
      const lengths = async (limit: number) => {
        const { records } = await store.history.find({ source: 'long' }, { offset: 0, limit });
        return records.map(({ queryText }) => queryText.length);
      };
      expect(await lengths(4)).toEqual([1_000_000, 1_000_000, 1_000_000, 1_000_000]);
      expect(await lengths(5)).toEqual([800_000, 800_000, 800_000, 800_000, 800_000]);
      expect(await lengths(2000)).toEqual([2000, 2000, 2000, 2000, 2000]);
      expect((await store.history.get('long-4'))?.queryText).toBe(texts[4]);
    });

    it('takes texts of any kind', async () => {
      const hostile = record('hostile', {
        queryText: `select '\u0000\ud800 \\' ?? $1 :x 🚀 ${'é'.repeat(70_000)}'`,
        user: `${'🚀'.repeat(300)}`,
        source: null,
        externalUrl: 'x'.repeat(400),
        decision: null,
      });
      await store.history.insert([hostile]);
      const found = await store.history.get('hostile');
      expect(found?.queryText).toBe(hostile.queryText.replace('\u0000', '').replace('\ud800', '\ufffd'));
      expect(found?.user).toBe('🚀'.repeat(256));
      expect(found?.externalUrl).toHaveLength(255);
      expect(found).toMatchObject({ source: null, decision: null });
    });

    it('keeps each decision with its query where several share one', async () => {
      const decisions = ['{"rule":"a"}', null, '{"rule":"\\"é🚀"}', '{"rule":"a"}', '', null, '{"rule":"a"}'];
      await store.history.insert(decisions.map((decision, index) => record(`shared-${index}`, { decision })));
      const found = await Promise.all(decisions.map((_, index) => store.history.get(`shared-${index}`)));
      expect(found.map((each) => each?.decision)).toEqual(decisions);
    });

    it('migrates once when several start at the same time', async () => {
      const settings = await server.create();
      const stores = await Promise.all(
        Array.from({ length: 6 }, () => openStore({ ...settings, runMigrations: true, logger })),
      );
      await Promise.all(
        stores.map((opened, index) =>
          opened.queries.learn({ queryId: `m${index}`, cluster: 'a', proxyTo: 'b', created: 1 }),
        ),
      );
      expect(await stores[0]?.queries.deleteBefore(2)).toBe(6);
      await Promise.all(stores.map((opened) => opened.close()));
    });

    it('says which tables are missing when migrations are off', async () => {
      const settings = await server.create();
      await expect(openStore({ ...settings, runMigrations: false, logger })).rejects.toMatchObject({
        code: 'EG_IMPOSSIBLE',
        message: expect.stringContaining('table query_history'),
      });
      const migrated = await openStore({ ...settings, runMigrations: true, logger });
      const checked = await openStore({ ...settings, runMigrations: false, logger });
      await Promise.all([migrated.close(), checked.close()]);
    });
  });
}

// Counting does not depend on the database: one is enough.
it('histories are counted up to a bound, and pages beyond it are refused', async () => {
  const server = await sqlite.start();
  const long = await openStore({ ...(await server.create()), runMigrations: true, logger });
  for (let start = 0; start < 100_002; start += 10_002) {
    await long.history.insert(
      Array.from({ length: 10_002 }, (_, index) => record(`l${start + index}`, { created: start + index })),
    );
  }
  expect((await long.history.find({}, { offset: 0, limit: 1 })).total).toBe(100_000);
  expect((await long.history.find({}, { offset: 99_999, limit: 2 })).records).toHaveLength(2);
  await expect(long.history.find({}, { offset: 100_000, limit: 1 })).rejects.toMatchObject({
    code: 'EG_MALFORMED',
    field: 'page',
  });
  expect((await long.history.find({ queryId: 'l7' }, { offset: 0, limit: 5 })).total).toBe(1);
  await long.close();
  await server.dispose();
});

it('SQLite ends a condition that is compared row by row after a second', async () => {
  const store = await openStore({ jdbcUrl: 'jdbc:sqlite::memory:', runMigrations: true, logger });
  const rows = 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000)';
  const counting = store.database.run((knex) => knex.raw(`${rows} select count(*) as found from n where eg_in_time()`));
  await expect(counting).rejects.toMatchObject({ code: 'EG_DATABASE_UNAVAILABLE' });
  await store.close();
}, 30_000);
