import * as fc from 'fast-check';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startHourlySums } from '../../../src/store/hourlySumsJob.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { certainty, type QueryOutcomeRecord, queryStates } from '../../../src/store/queryOutcome.ts';
import type { StatisticsRequest } from '../../../src/store/queryStatistics.ts';
import { statisticsDimensions } from '../../../src/store/statisticsDimension.ts';
import { expectCountedFigures } from '../../support/countedFigures.ts';
import { databases, oneDatabase, type TestDatabase } from '../../support/databases.ts';

const logger = pino({ level: 'silent' });
const HOUR = 3_600_000;
const START = 490_000 * HOUR;
const HOURS = 6;
/** By then all of them are over. */
const END = START + (HOURS + 1) * HOUR;

const value = fc.constantFrom(null, '', 'a', 'b', 'c');
const amount = fc.option(fc.integer({ min: 0, max: 2_000_000 }), { nil: null });
const outcome: fc.Arbitrary<QueryOutcomeRecord> = fc
  .record({
    id: fc.integer({ min: 0, max: 299 }),
    // Another replica may take another time for the time of the submission.
    late: fc.integer({ min: 0, max: HOUR }),
    lastSeen: fc.constant(START),
    state: fc.constantFrom('RUNNING' as const, ...queryStates),
    surer: fc.constantFrom(certainty.guessed, certainty.cancelled, certainty.said),
    errorType: fc.constantFrom(null, 'USER_ERROR', 'EXTERNAL', 'INTERNAL_ERROR'),
    cluster: value,
    routingGroup: value,
    user: value,
    source: value,
    rule: value,
    digest: value,
    elapsedMillis: amount,
    queuedMillis: amount,
    gatewayQueuedMillis: amount,
    cpuMillis: amount,
    processedBytes: amount,
    resultBytes: amount,
    peakMemoryBytes: amount,
    groups: fc.constantFrom(undefined, [], ['a'], ['b', 'a'], ['c', 'a', 'b'], ['']),
  })
  .map(({ id, late, surer, groups, ...facts }) => ({
    ...{ queryId: `q${id}`, created: START + ((id * 7_919 + late) % (HOURS * 3_600)) * 1_000, refused: false },
    ...{ errorName: null, errorCode: null, errorMessage: null, processedRows: null },
    ...{ pages: null, queryText: null, decision: null },
    ...{ ...facts, certainty: facts.state === 'RUNNING' ? certainty.running : surer },
    ...(groups === undefined ? {} : { groups }),
  }));
const time = fc.integer({ min: -1, max: HOURS * 4 }).map((quarter) => START + (quarter * HOUR) / 4);
const request: fc.Arbitrary<StatisticsRequest> = fc.record(
  {
    by: fc.constantFrom(...statisticsDimensions),
    from: fc.oneof(fc.constant(START), time),
    to: fc.oneof(fc.constant(END), time),
    limit: fc.constant(100),
    cluster: fc.constantFrom('a', 'b'),
    user: fc.constantFrom('a', 'b'),
  },
  { requiredKeys: ['by', 'from', 'to', 'limit'] },
);
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ put: fc.array(outcome, { minLength: 1, maxLength: 60 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ sumAt: fc.integer({ min: 1, max: HOURS + 1 }), replicas: fc.constantFrom(1, 2) }),
  },
  { weight: 3, arbitrary: fc.record({ putWhileSummed: fc.array(outcome, { minLength: 1, maxLength: 60 }) }) },
  { weight: 1, arbitrary: fc.record({ deleteBefore: time }) },
  { weight: 1, arbitrary: fc.record({ endForgottenBefore: time }) },
);

for (const family of databases) {
  /** Declares a test of what does not depend on the dialect. */
  const once = (name: string, run: () => Promise<void>): void => void (family === oneDatabase && it(name, run));

  describe.skipIf(!family.available())(`figures by hour on ${family.name}`, () => {
    let server: TestDatabase;
    const replicas: KnexStore[] = [];
    beforeAll(async () => {
      server = await family.start();
      const settings = { ...(await server.create()), runMigrations: true, logger };
      for (let index = 0; index < 2; index += 1) replicas.push(await openStore(settings));
    });
    afterAll(async () => {
      for (const store of replicas) await store.close();
      await server?.dispose();
    });
    beforeEach(async () => {
      for (const table of [
        'eg_query_outcomes',
        'eg_query_hours',
        'eg_query_sums',
        'eg_digest_hours',
        'eg_group_sets',
      ]) {
        await replicas[0]?.database.knex(table).delete();
      }
    });

    it('are those of the queries, whatever is written late, deleted, or summed by two replicas at once', async () => {
      const [one, other] = replicas as [KnexStore, KnexStore];
      const history = fc.record({
        steps: fc.array(step, { minLength: 8, maxLength: 14 }),
        requests: fc.array(request, { minLength: 6, maxLength: 6 }),
      });
      await fc.assert(
        fc.asyncProperty(history, async ({ steps, requests }) => {
          for (const each of steps) {
            if ('put' in each) await one.outcomes.put(each.put);
            else if ('sumAt' in each) {
              const now = START + each.sumAt * HOUR + HOUR / 2;
              await Promise.all(replicas.slice(0, each.replicas).map((store) => store.hourlySums.sum(now)));
            } else if ('putWhileSummed' in each) {
              const half = each.putWhileSummed.length >> 1;
              await Promise.all([
                other.outcomes.put(each.putWhileSummed.slice(0, half)),
                one.hourlySums.sum(END),
                one.outcomes.put(each.putWhileSummed.slice(half)),
                other.hourlySums.sum(END),
              ]);
            } else if ('deleteBefore' in each) await one.outcomes.deleteBefore(each.deleteBefore);
            else await one.outcomes.endForgotten(each.endForgottenBefore, END);
            for (const asked of requests.slice(0, 2)) {
              await expectCountedFigures(other, asked, one);
            }
          }
          await one.hourlySums.sum(END);
          for (const asked of requests) {
            await expectCountedFigures(other, asked, one);
          }
        }),
        { numRuns: 3, endOnFailure: true },
      );
    });

    it('come from the sums once an hour is over, and until a query of it is written', async () => {
      const [store] = replicas as [KnexStore];
      const [of] = fc.sample(outcome, { numRuns: 1, seed: 1 }) as [QueryOutcomeRecord];
      const put = (queryId: string) =>
        store.outcomes.put([
          { ...of, queryId, created: START + 5, state: 'FINISHED', source: 'a', groups: ['a', 'b'] },
        ]);
      await put('one');
      const count = async (from: number, by: 'source' | 'userGroup' = 'source') =>
        (await store.queryStatistics.of({ by, from, to: START + HOUR, limit: 9 })).map(({ value: each, queries }) => [
          each,
          queries,
        ]);
      const summed = async () => await store.database.knex('eg_query_hours').select('hour', 'sums');
      // Too early: many queries of the hour are not over.
      expect(await store.hourlySums.sum(START + HOUR)).toEqual({ summed: 0, left: 0, failure: null });
      expect(await store.hourlySums.sum(START + HOUR + 300_000)).toEqual({ summed: 1, left: 0, failure: null });
      expect(await store.hourlySums.sum(START + HOUR + 300_000)).toEqual({ summed: 0, left: 0, failure: null });
      expect(await summed()).toEqual([{ hour: START / HOUR, sums: 5 }]);
      // Only the sums say so.
      await store.database.knex('eg_query_sums').where('dimension', 'source').update({ value: 'summed' });
      expect(await count(START)).toEqual([['summed', 1]]);
      expect(await count(START + 1)).toEqual([['a', 1]]);
      expect(await count(START, 'userGroup')).toEqual([
        ['a', 1],
        ['b', 1],
      ]);
      await store.database.knex('eg_query_sums').where({ dimension: 'userGroup', value: 'b' }).delete();
      expect(await count(START, 'userGroup')).toEqual([['a', 1]]);
      await put('late');
      expect(await count(START)).toEqual([['a', 2]]);
      await store.hourlySums.sum(END);
      expect(await count(START)).toEqual([['a', 2]]);
      await store.outcomes.deleteBefore(START + 3 * HOUR);
      expect(await count(START)).toEqual([]);
      for (const table of ['eg_query_hours', 'eg_query_sums', 'eg_digest_hours']) {
        expect(await store.database.knex(table).where('hour', START / HOUR)).toEqual([]);
      }
      // Sets stay for a day or two longer.
      const sets = async () => await store.database.knex('eg_group_sets').distinct('set_id');
      expect(await sets()).toHaveLength(1);
      await store.outcomes.deleteBefore(START + 72 * HOUR);
      expect(await sets()).toEqual([]);
    });

    it('of whole days come from the sums of the days, and until a query of a day is written', async () => {
      const [store] = replicas as [KnexStore];
      const day = 20_417 * 24 * HOUR;
      const [from, to, now] = [day - 3 * HOUR, day + 50 * HOUR, day + 52 * HOUR];
      const put = async (seed: number) => {
        const records = fc.sample(outcome, { numRuns: 200, seed });
        const spread = ({ created }: QueryOutcomeRecord) => from + ((created - START) * (to - from)) / (HOURS * HOUR);
        await store.outcomes.put(records.map((record) => ({ ...record, created: spread(record) })));
      };
      const sumAll = async () => {
        for (let summed = 1; summed > 0; ) {
          const round = await store.hourlySums.sum(now);
          expect(round.failure).toBeNull();
          summed = round.summed;
        }
      };
      const compare = async () => {
        for (const by of statisticsDimensions) {
          for (const asked of [
            { by, from, to, limit: 100 },
            { by, from: day, to: day + 24 * HOUR, limit: 100 },
            { by, from: day + HOUR, to: day + 48 * HOUR + 1, limit: 100 },
          ]) {
            await expectCountedFigures(store, asked);
          }
        }
      };
      const days = async (table: string) => await store.database.knex(table).where('hour', '>=', 1_000_000_000);
      const sources = async () => {
        const of = await store.queryStatistics.of({ by: 'source', from: day, to: day + 24 * HOUR, limit: 100 });
        return of.map(({ value: each }) => each);
      };
      await put(1);
      await sumAll();
      expect(await days('eg_query_hours')).toHaveLength(2);
      await compare();
      // Only the sums of the day have it.
      const ofDay = () => store.database.knex('eg_query_sums').where({ hour: 1_000_000_000 + 20_417, value: 'a' });
      await ofDay().update({ value: 'of the day' });
      expect(await sources()).toContain('of the day');
      await put(2);
      expect(await sources()).not.toContain('of the day');
      await compare();
      await sumAll();
      await compare();
      const digest = (await store.digestStatistics.top({ from: day, to: day + 24 * HOUR }, 'count', 1))[0]!;
      const details = await store.digestStatistics.of(digest.digest ?? '', { from: day, to: day + 24 * HOUR });
      expect(details?.hours.length).toBeGreaterThan(1);
      expect(details?.figures.totals).toEqual(digest.figures.totals);
      await store.outcomes.deleteBefore(day + 24 * HOUR);
      for (const table of ['eg_query_hours', 'eg_query_sums', 'eg_digest_hours'])
        expect(new Set((await days(table)).map(({ hour }) => hour))).toEqual(new Set([1_000_000_000 + 20_418]));
    });

    once('are made by the leader while the gateway runs', async () => {
      const [store] = replicas as [KnexStore];
      const [of] = fc.sample(outcome, { numRuns: 1, seed: 1 }) as [QueryOutcomeRecord];
      await store.outcomes.put([{ ...of, created: START, state: 'FAILED' }]);
      const clock = { now: () => END, monotonic: () => 0 };
      const asked: boolean[] = [];
      const job = (isLeader: boolean) =>
        startHourlySums({
          ...{ sums: store.hourlySums, logger, clock, firstDelayMs: 1 },
          isLeader: () => {
            asked.push(isLeader);
            return isLeader;
          },
        });
      const hours = async () => (await store.database.knex('eg_query_hours').where('sums', 5)).length;
      const stopFollower = job(false);
      await expect.poll(() => asked).toEqual([false]);
      await stopFollower();
      expect(await hours()).toBe(0);
      const stopLeader = job(true);
      await expect.poll(hours).toBe(HOURS);
      await stopLeader();
    });

    it('of an hour with very many digests count the rest as other', async () => {
      const [store] = replicas as [KnexStore];
      const [of] = fc.sample(outcome, { numRuns: 1, seed: 1 }) as [QueryOutcomeRecord];
      const facts = {
        ...of,
        created: START,
        state: 'FINISHED' as const,
        cpuMillis: 1,
        cluster: 'a',
        routingGroup: 'g',
      };
      const ids = Array.from({ length: 3_000 }, (_, index) => index);
      await store.outcomes.put(ids.map((id) => ({ ...facts, queryId: `m${id}`, digest: `d${id}` })));
      await store.outcomes.put([{ ...facts, queryId: 'cpu', digest: 'dcpu', cpuMillis: 5_000 }]);
      await store.outcomes.put([1, 2].map((id) => ({ ...facts, queryId: `more${id}`, digest: 'dmore' })));
      await store.hourlySums.sum(END);
      const range = { from: START, to: START + HOUR };
      const top = await store.digestStatistics.top(range, 'count', 5_000);
      expect(top.length).toBeGreaterThan(1_000);
      expect(top.length).toBeLessThanOrEqual(2_001);
      const queries = (digest: string) => top.find((each) => each.digest === digest)?.figures.totals.queries;
      expect([queries('dcpu'), queries('dmore'), queries('other')]).toEqual([1, 2, 3_003 - 2 - (top.length - 2)]);
      expect(top.reduce((sum, { figures }) => sum + figures.totals.queries, 0)).toBe(3_003);
      // The hour before, of sums and of queries that are not summed yet.
      await store.outcomes.put([{ ...facts, queryId: 'next', digest: 'dmore', created: START + HOUR }]);
      for (const order of ['count', 'growth'] as const) {
        const next = await store.digestStatistics.top({ from: START + HOUR, to: START + 2 * HOUR }, order, 9);
        expect(next.map(({ digest, before }) => [digest, before.totals.queries])).toEqual([['dmore', 2]]);
        const [one] = await store.digestStatistics.top({ from: START, to: START + 1 }, order, 1);
        expect(one?.before.totals.queries).toBe(0);
      }
    });

    it('of an hour with very many values come from the queries', async () => {
      const [store] = replicas as [KnexStore];
      const [of] = fc.sample(outcome, { numRuns: 1, seed: 1 }) as [QueryOutcomeRecord];
      const facts = { ...of, created: START, state: 'FINISHED' as const, user: 'u' };
      const records = Array.from({ length: 10_001 }, (_, index) => ({
        ...facts,
        queryId: `m${index}`,
        source: `s${index}`,
      }));
      await store.outcomes.put(records);
      expect(await store.hourlySums.sum(END)).toMatchObject({ left: 0, failure: null });
      expect(await store.hourlySums.sum(END)).toMatchObject({ summed: 0, left: 0 });
      expect(await store.database.knex('eg_query_sums').where('hour', START / HOUR)).toEqual([]);
      const asked = { by: 'user', from: START, to: START + HOUR, limit: 9 } as const;
      expect(await store.queryStatistics.of(asked)).toMatchObject([{ value: 'u', queries: 10_001 }]);
    });
  });
}
