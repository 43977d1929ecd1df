import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { StatementFacts } from '../../../src/store/queryOutcome.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { queryOutcome, queryRecord } from '../../support/queryRecords.ts';

const logger = pino({ level: 'silent' });
const DAY = 24 * 3_600_000;

const statement = (digest: string, more: Partial<StatementFacts['columns']> = {}): StatementFacts => ({
  columns: {
    ...{ digest, exactDigest: `${digest.slice(1)}e`, tool: 'dbt', model: 'model.shop.orders', dashboard: null },
    ...{ shapeText: `SELECT ${digest}`, replay: '{"complete":"yes","headers":{}}' },
    ...more,
  },
});
const digest = '00000000000000aa';

for (const family of databases) {
  describe.skipIf(!family.available())(`digests on ${family.name}`, () => {
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
    const rows = (table: string) => store.database.knex(table).select('*');

    it('are kept with the query, and with its outcome that another replica saw', async () => {
      await store.history.insert([queryRecord('q1', { statement: statement(digest) })]);
      const unknown = { cluster: 'a', routingGroup: null, user: null, source: null, rule: null };
      const figures = { physicalInputBytes: 5, planningMillis: 6, analysisMillis: 7, spilledBytes: 8 };
      await store.outcomes.put([queryOutcome('q1', { ...unknown, ...figures })]);
      expect(await store.outcomes.get('q1')).toMatchObject({
        ...{ digest, exactDigest: `${digest.slice(1)}e`, tool: 'dbt', model: 'model.shop.orders', dashboard: null },
        ...figures,
      });
      expect(await rows('eg_query_decisions')).toMatchObject([{ digest, replay: statement(digest).columns.replay }]);
    });

    it('are kept with a query that no cluster took, and come with the surer outcome of two', async () => {
      await store.outcomes.put([
        queryOutcome('q1', { refused: true, state: 'REFUSED', statement: statement(digest) }),
        queryOutcome('q2', { statement: statement('bb', { model: 'x'.repeat(300) }) }),
        queryOutcome('q2', { state: 'FAILED' }),
      ]);
      expect(await store.outcomes.get('q1')).toMatchObject({ digest });
      expect(await store.outcomes.get('q2')).toMatchObject({ digest: 'bb', model: 'x'.repeat(256) });
      // The history has the shape of the second one.
      expect(await rows('eg_digests')).toMatchObject([{ digest, shape: `SELECT ${digest}` }]);
    });

    it('have one shape each, with the time of the last use', async () => {
      const created = 20_000 * DAY;
      const insert = (id: string, at: number, facts: StatementFacts) =>
        store.history.insert([queryRecord(id, { created: at, statement: facts })]);
      await insert('q1', created, statement(digest));
      await insert('q2', created + 3 * DAY, statement(digest, { shapeText: 'another' }));
      await insert('q3', created, statement('bb', { shapeText: null }));
      expect((await rows('eg_digests')).map(Object.values)).toEqual([
        [digest, `SELECT ${digest}`, created, created + 4 * DAY],
      ]);
    });
  });
}
