import fc from 'fast-check';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { QueryOutcomeRecord } from '../../../src/store/queryOutcome.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { queryOutcome } from '../../support/queryRecords.ts';

const logger = pino({ level: 'silent' });
const HOUR = 3_600_000;
type SizeBorders = Parameters<KnexStore['sizeEstimates']['read']>[1];
const now = 500_000 * HOUR + HOUR / 2;
const borders: SizeBorders = { measure: 'elapsed', mediumFrom: 10_000, largeFrom: 120_000 };
const [exact, shape] = ['00000000000000e1', '00000000000000a1'];

let ids = 0;
const run = (elapsedMillis: number | null, more: Partial<QueryOutcomeRecord> = {}): QueryOutcomeRecord => {
  ids += 1;
  const columns = {
    ...{ digest: shape, exactDigest: exact, tool: null, model: null, dashboard: null, shapeText: null, replay: '{}' },
    ...(more.digest != null && { digest: more.digest }),
    ...(more.exactDigest != null && { exactDigest: more.exactDigest }),
  };
  const created = now - HOUR;
  return queryOutcome(`q${ids}`, { created, ...more, elapsedMillis, statement: { columns } });
};
const runs = (count: number, elapsedMillis: number, more: Partial<QueryOutcomeRecord> = {}) =>
  Array.from({ length: count }, () => run(elapsedMillis, more));

for (const family of databases) {
  describe.skipIf(!family.available())(`size estimates on ${family.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;
    beforeAll(async () => {
      server = await family.start();
    });
    beforeEach(async () => {
      store = await openStore({ ...(await server.create()), runMigrations: true, logger });
      return () => store.close();
    });
    afterAll(() => server?.dispose());

    const estimate = async (outcomes: readonly QueryOutcomeRecord[], of: SizeBorders = borders) => {
      await store.outcomes.put(outcomes);
      const table = await store.sizeEstimates.read(now, of);
      return table.exact.get(exact) ?? table.shapes.get(shape) ?? { sizeClass: 'unknown', source: 'none' };
    };

    it('have the class of the duration that 90 % of the runs took at most', async () => {
      const is = (seconds: number) => expect.closeTo(seconds, seconds > 10 ? 0 : 1);
      const memory = { peakMemoryBytes: expect.closeTo(1 << 20, -5), source: 'exact' };
      for (const [outcomes, figures] of [
        [[], { source: 'none' }],
        [[...runs(18, 1_000)], { sizeClass: 'S', seconds: is(1), confidence: 0.9, runs: 18, ...memory }],
        // Two of 20 are larger: 90 % are not.
        [[...runs(2, 130_000)], { sizeClass: 'S', seconds: is(1), confidence: 0.82, runs: 20, ...memory }],
        [[...runs(1, 30_000)], { sizeClass: 'M', seconds: expect.closeTo(30, -1), confidence: 0.04, runs: 21 }],
        [[...runs(20, 200_000)], { sizeClass: 'L', confidence: 0.51, runs: 41 }],
      ] as const) {
        expect(await estimate(outcomes)).toMatchObject(figures);
      }
    });

    it('are those of processor time if it is the measure', async () => {
      const outcomes = runs(3, 200_000, { cpuMillis: 500 });
      expect(await estimate(outcomes, { ...borders, measure: 'cpu' })).toMatchObject({ sizeClass: 'S', runs: 3 });
    });

    it('are those of the shape for fewer than three runs of the exact statement', async () => {
      const others = runs(9, 200_000, { exactDigest: '00000000000000ff' });
      expect(await estimate([...others, ...runs(2, 1_000)])).toMatchObject({
        sizeClass: 'L',
        source: 'shape',
        runs: 11,
      });
      expect(await estimate(runs(1, 1_000))).toMatchObject({ sizeClass: 'S', source: 'exact', runs: 3 });
    });

    it('count runs of five days that ended with a duration', async () => {
      const outcomes = [
        ...runs(3, 1_000, { created: now - 122 * HOUR }),
        ...runs(3, 1_000, { created: now }),
        run(null, { state: 'REFUSED', refused: true }),
        run(5_000, { state: 'RUNNING' }),
      ];
      expect(await estimate(outcomes)).toMatchObject({ source: 'none' });
      expect(await estimate([run(2_000, { created: now - 120 * HOUR })])).toMatchObject({ source: 'shape', runs: 1 });
    });

    it('count runs that were not sent through the gateway, and no query that it rejected', async () => {
      const created = now - 3 * HOUR;
      const outcomes = [
        ...runs(3, 200_000, { created, bypassed: true }),
        ...Array.from({ length: 9 }, () => run(null, { created, state: 'REFUSED', refused: true })),
      ];
      const expected = { sizeClass: 'L', source: 'exact', runs: 3 };
      expect(await estimate(outcomes)).toMatchObject(expected);
      expect(await store.hourlySums.sum(now)).toMatchObject({ left: 0, failure: null });
      expect(await estimate([])).toMatchObject(expected);
      expect((await store.sizeEstimates.read(now, borders)).shapes.get(shape)).toMatchObject({
        sizeClass: 'L',
        runs: 3,
      });
    });

    it('are equal for equal data, whatever the order, and whether an hour is summed', async () => {
      const created = fc.integer({ min: now - 8 * HOUR, max: now - 1 });
      const digests = fc.constantFrom('00000000000000b1', '00000000000000b2', exact);
      const outcomes = fc.array(
        fc
          .record({ elapsed: fc.integer({ min: 0, max: 400_000 }), created, digest: digests, exactDigest: digests })
          .map(({ elapsed, ...rest }) => run(elapsed, rest)),
        { minLength: 1, maxLength: 40 },
      );
      const clear = () => store.database.knex('eg_query_outcomes').delete();
      await fc.assert(
        fc.asyncProperty(outcomes, async (all) => {
          await clear();
          await store.database.knex('eg_query_hours').delete();
          await store.outcomes.put(all);
          const first = await store.sizeEstimates.read(now, borders);
          await clear();
          await store.outcomes.put(all.toReversed());
          expect(await store.sizeEstimates.read(now, borders)).toEqual(first);
          for (let left = 1; left > 0; ) ({ left } = await store.hourlySums.sum(now));
          expect(await store.sizeEstimates.read(now, borders)).toEqual(first);
        }),
        { numRuns: 8 },
      );
    });
  });
}
