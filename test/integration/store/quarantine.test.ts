import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { queryOutcome } from '../../support/queryRecords.ts';

for (const family of databases) {
  describe.skipIf(!family.available())(`quarantine on ${family.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;
    let lost = 0;
    beforeAll(async () => {
      server = await family.start();
    });
    beforeEach(async () => {
      store = await openStore({ ...(await server.create()), runMigrations: true, logger: pino({ level: 'silent' }) });
      return () => store.close();
    });
    afterAll(() => server?.dispose());

    const lose = (cluster: string, more: Partial<Parameters<KnexStore['quarantine']['note']>[0]> = {}) =>
      store.quarantine.note({
        ...{ queryId: `q${lost++}`, cluster, group: 'adhoc', user: 'ann', qualifier: 'c.s' },
        ...{ exactDigest: 'e1', digest: 'd1', ...more },
      });
    const entries = async () =>
      (await store.quarantine.active()).map(({ group, exactDigest, digest, clusters }) =>
        [group, exactDigest ?? digest, ...clusters].join(' '),
      );
    const finish = (digest: string, exactDigest: string, created: number, elapsedMillis: number) =>
      store.outcomes.put([queryOutcome(`f${lost++}`, { digest, exactDigest, created, elapsedMillis })]);

    test('is of a statement that lost two clusters of its group, in its catalog and schema, once', async () => {
      expect(await lose('a')).toBe('no');
      expect(await lose('a')).toBe('no');
      expect(await lose('b', { group: 'etl' })).toBe('no');
      expect(await lose('b', { qualifier: 'c.other' })).toBe('no');
      expect(await lose('b', { exactDigest: 'e2' })).toBe('no');
      expect(await lose('b', { queryId: 'again' })).toBe('new');
      expect(await lose('b', { queryId: 'again' })).toBe('yes');
      expect(await lose('c')).toBe('yes');
      expect(await entries()).toEqual(['adhoc e1 a b']);
      expect(await store.quarantine.release('adhoc', 'd1')).toBe(0);
      expect(await store.quarantine.release('etl', 'e1')).toBe(1);
      expect(await entries()).toEqual(['adhoc e1 a b']);
      await store.quarantine.release('adhoc', 'e1');
      expect(await entries()).toEqual([]);
      expect(await lose('d')).toBe('no');
    });

    test('is of a shape after three statements of two users, which are released together', async () => {
      const users = ['ann', 'ann', 'ann', 'bob'];
      for (const [index, user] of users.entries()) {
        expect((await entries()).some((entry) => entry.includes('d1'))).toBe(false);
        for (const cluster of ['a', 'b']) await lose(cluster, { exactDigest: `e${index}`, user });
      }
      const [shape, ...statements] = await entries();
      expect(shape).toBe('adhoc d1 a b');
      expect(statements.toSorted()).toEqual([0, 1, 2, 3].map((index) => `adhoc e${index} a b`));
      await store.quarantine.release('adhoc', 'd1');
      expect(await entries()).toEqual([]);
    });

    test('is never of a statement or shape that succeeded within the hour', async () => {
      const now = Date.now();
      await finish('d1', 'e1', now - 5 * 3_600_000, 4.5 * 3_600_000);
      await finish('d1', 'e2', now - 5 * 3_600_000, 1_000);
      for (const cluster of ['a', 'b']) await lose(cluster);
      expect(await entries()).toEqual([]);
      for (const cluster of ['a', 'b']) await lose(cluster, { exactDigest: 'e2' });
      expect(await entries()).toEqual(['adhoc e2 a b']);
      for (const [exactDigest, user] of ['bob', 'eve', 'ann'].entries())
        for (const cluster of ['a', 'b']) await lose(cluster, { exactDigest: `x${exactDigest}`, user });
      expect((await entries()).filter((entry) => entry.includes('d1'))).toEqual([]);
    });

    test('ends after an hour, and losses of an hour ago do not count', async () => {
      const { knex, dialect } = store.database;
      const ago = (ms: number) => knex.raw(`${dialect.clockMs} - ?`, [ms]);
      await lose('a');
      await knex('eg_lost_queries').update({ lost_at: ago(3_600_001) });
      expect(await lose('b')).toBe('no');
      expect(await lose('c')).toBe('new');
      await knex('eg_lost_queries').update({ until_at: ago(1) });
      expect(await entries()).toEqual([]);
      expect(await store.quarantine.deleteBefore(Date.now() - 1_800_000)).toBe(1);
    });
  });
}
