import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { NewQueuedQuery } from '../../../src/store/store.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';

const logger = pino({ level: 'silent' });

const query = (id: string, more: Partial<NewQueuedQuery> = {}): NewQueuedQuery => ({
  id,
  group: 'etl',
  user: 'alice',
  source: 'dbt',
  reason: 'group etl: 5 of 5 running',
  request: `sealed ${id}`,
  replica: 'one',
  ...more,
});

for (const database of databases) {
  describe.skipIf(!database.available())(`queued queries on ${database.name}`, () => {
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
    beforeEach(async () => {
      await store.queuedQueries.deleteUnpolledBefore(Number.MAX_SAFE_INTEGER);
    });
    const queue = () => store.queuedQueries;

    it('keeps one with its place, by the clock of the database, and knows whether its replica lives', async () => {
      const before = Date.now();
      await queue().put(query('a'));
      const row = await queue().get('a');
      expect(row).toMatchObject({ id: 'a', group: 'etl', user: 'alice', source: 'dbt', replica: 'one', isHeld: false });
      expect(row).toMatchObject({ state: 'waiting', command: null, engineId: null, answer: null });
      expect(Math.abs((row?.created ?? 0) - before)).toBeLessThan(60_000);
      await queue().renew('one', 60_000);
      await queue().renew('one', 60_000);
      expect((await queue().get('a'))?.isHeld).toBe(true);
      await queue().renew('one', -1);
      expect((await queue().get('a'))?.isHeld).toBe(false);
      expect(await queue().get('other')).toBeNull();
    });

    it('gives those that do not wait any more, and those whose replica is dead', async () => {
      await Promise.all(['a', 'b', 'c'].map((id) => queue().put(query(id))));
      await queue().put(query('dead', { replica: 'two' }));
      await queue().renew('one', 60_000);
      await queue().begin('b', 'one');
      const settled = async () => (await queue().settled(['a', 'b', 'dead', 'none'])).map(({ id }) => id).sort();
      expect(await settled()).toEqual(['b', 'dead']);
      await queue().renew('two', 60_000);
      expect(await settled()).toEqual(['b']);
      await queue().renew('two', -1);
      await queue().renew('one', -1);
      expect(await settled()).toEqual(['a', 'b', 'dead']);
    });

    it('writes those that come together in few statements, each once, and names of any kind', async () => {
      let statements = 0;
      const count = ({ sql }: { sql: string }) => {
        if (sql.startsWith('insert')) statements++;
      };
      store.database.knex.on('query', count);
      const hostile = `'); -- \u0000\ud800 🚀${'x'.repeat(300)}`;
      await Promise.all([
        ...Array.from({ length: 500 }, (_, index) => queue().put(query(`many${index}`))),
        queue().put(query('hostile', { user: hostile, source: hostile, group: hostile, reason: hostile.repeat(9) })),
        queue().put(query('large', { request: 'r'.repeat(1_600_000) })),
      ]);
      store.database.knex.off('query', count);
      expect(statements).toBeLessThan(8);
      expect(await queue().list(1_000)).toHaveLength(502);
      expect((await queue().get('hostile'))?.user).toContain(`'); -- \ufffd 🚀xxx`);
      expect((await queue().begin('large', 'one'))?.length).toBe(1_600_000);
      expect(await queue().many(['many1', 'many499', 'none'])).toHaveLength(2);
      await expect(queue().put(query('many1', { user: 'mallory' }))).rejects.toThrow();
      expect((await queue().get('many1'))?.user).toBe('alice');
    });

    it('is submitted once by one of those that try, and ends without its request', async () => {
      await queue().put(query('a'));
      const begun = await Promise.all(Array.from({ length: 8 }, () => queue().begin('a', 'one')));
      expect(begun.filter((request) => request !== null)).toEqual(['sealed a']);
      expect(await queue().begin('a', 'two')).toBeNull();
      expect(await queue().adopt('a', 'one', 'two')).toBe(false);
      expect(await queue().remove('a')).toBe(false);
      const end = { state: 'submitted', engineId: 'engine', answer: 'sealed answer' } as const;
      expect(await queue().end('a', 'one', 'waiting', end)).toBe(false);
      expect(await queue().end('a', 'one', 'submitting', end)).toBe(true);
      expect(await queue().end('a', 'one', 'submitting', { ...end, state: 'failed' })).toBe(false);
      expect(await queue().get('a')).toMatchObject({ state: 'submitted', engineId: 'engine', answer: 'sealed answer' });
      expect(await queue().request('a', 'one')).toBeNull();
      expect(await queue().forgetAnswers(60_000)).toBe(0);
      expect(await queue().forgetAnswers(-1)).toBe(1);
      expect(await queue().get('a')).toMatchObject({ engineId: 'engine', answer: null });
    });

    it('writes begins and ends that come together in few statements, each for itself', async () => {
      const ids = Array.from({ length: 60 }, (_, index) => `many${index}`);
      await Promise.all(ids.map((id) => queue().put(query(id))));
      await queue().adopt('many7', 'one', 'two');
      await queue().begin('many8', 'one');
      await queue().remove('many9');
      let statements = 0;
      const count = () => statements++;
      store.database.knex.on('query', count);
      const begun = await Promise.all(ids.map((id) => queue().begin(id, 'one')));
      const others = ['many7', 'many8', 'many9'];
      expect(begun).toEqual(ids.map((id) => (others.includes(id) ? null : `sealed ${id}`)));
      const end = (id: string) => ({
        ...{ state: id === 'many3' ? ('failed' as const) : ('submitted' as const) },
        ...{ engineId: id === 'many3' ? null : `engine ${id}`, answer: `${id} '?`.repeat(id === 'many4' ? 9_999 : 1) },
      });
      const ended = await Promise.all(ids.map((id) => queue().end(id, 'one', 'submitting', end(id))));
      store.database.knex.off('query', count);
      expect(ended).toEqual(ids.map((id) => !['many7', 'many9'].includes(id)));
      expect(statements).toBeLessThan(12);
      for (const { id, state, engineId, answer } of await queue().many(ids)) {
        expect([id, { state, engineId, answer }]).toEqual([
          id,
          id === 'many7' ? { state: 'waiting', engineId: null, answer: null } : end(id),
        ]);
      }
    });

    it('goes back with its place, and to one other replica', async () => {
      await queue().put(query('a'));
      const created = (await queue().get('a'))?.created;
      await queue().begin('a', 'one');
      expect(await queue().putBack('a', 'one')).toBe(true);
      const adopted = await Promise.all(['two', 'three', 'four'].map((to) => queue().adopt('a', 'one', to)));
      expect(adopted.filter(Boolean)).toHaveLength(1);
      expect((await queue().get('a'))?.created).toBe(created);
      expect(await queue().begin('a', 'one')).toBeNull();
    });

    it('passes what is asked of the replica that holds it on to it', async () => {
      await Promise.all([query('a'), query('b'), query('c', { replica: 'two' })].map((row) => queue().put(row)));
      expect(await queue().setCommand('b', 'kill')).toBe(true);
      expect(await queue().setCommand('c', 'drop')).toBe(true);
      expect(await queue().setCommand('none', 'drop')).toBe(false);
      expect(await queue().commands('one')).toEqual([{ id: 'b', command: 'kill', movedAt: null }]);
      expect(await queue().remove('b')).toBe(true);
      expect(await queue().commands('one')).toEqual([]);
    });

    it('passes on which ones were moved first, the last one at the end, and what is to end before all', async () => {
      await Promise.all(['a', 'b', 'c'].map((id) => queue().put(query(id))));
      expect(await queue().moveFirst('b')).toBe(true);
      await vi.waitFor(async () => {
        await queue().moveFirst('a');
        const [b, a] = await Promise.all(['b', 'a'].map((id) => queue().get(id)));
        expect(a?.movedAt ?? 0).toBeGreaterThan(b?.movedAt ?? 0);
      });
      expect(await queue().moveFirst('none')).toBe(false);
      expect((await queue().commands('one')).map(({ id }) => id)).toEqual(['b', 'a']);
      await queue().setCommand('c', 'kill');
      expect((await queue().commands('one')).find(({ command }) => command !== null)?.id).toBe('c');
      expect((await queue().list(5)).filter(({ movedAt }) => movedAt !== null).map(({ id }) => id)).toEqual(['a', 'b']);
      await queue().begin('a', 'one');
      expect(await queue().moveFirst('a')).toBe(false);
    });

    it('says why some wait, and counts those of a group that others hold', async () => {
      const rows = [
        query('a'),
        query('b', { replica: 'two' }),
        query('c', { replica: '' }),
        query('d', { group: 'x' }),
      ];
      await Promise.all(rows.map((row) => queue().put(row)));
      await queue().setReason(['a', 'b'], 'limit people: 3 of 3 running');
      const reasons = (await queue().list(5)).map(({ id, reason }) => [id, reason]).toSorted();
      expect(reasons.slice(0, 3)).toEqual([
        ['a', 'limit people: 3 of 3 running'],
        ['b', 'limit people: 3 of 3 running'],
        ['c', 'group etl: 5 of 5 running'],
      ]);
      expect(await queue().countElsewhere('etl', 'one')).toBe(2);
      expect((await queue().waitingByGroup()).get('etl')).toBeGreaterThanOrEqual(2);
      expect(await queue().countElsewhere('ETL', 'one')).toBe(0);
      await queue().begin('b', 'two');
      expect(await queue().countElsewhere('etl', 'one')).toBe(1);
    });

    it('finds those that nobody asks for, and deletes them', async () => {
      await Promise.all(['a', 'b', 'c'].map((id) => queue().put(query(id))));
      expect(await queue().unpolled(['a', 'b'], 60_000)).toEqual([]);
      expect((await queue().unpolled(['a', 'b'], -60_000)).toSorted()).toEqual(['a', 'b']);
      await queue().touch(['a', 'none']);
      expect(await queue().deleteAbandoned(60_000)).toBe(0);
      await queue().begin('b', 'one');
      await queue().end('b', 'one', 'submitting', { state: 'submitted', engineId: 'e', answer: null });
      expect(await queue().deleteAbandoned(-1_000)).toBe(2);
      expect((await queue().get('b'))?.state).toBe('submitted');
    });

    it('is free for others once its replica ends', async () => {
      await Promise.all(['a', 'b'].map((id) => queue().put(query(id))));
      await queue().renew('one', 60_000);
      await queue().begin('b', 'one');
      await queue().handOver('one');
      expect(await queue().get('a')).toMatchObject({ replica: '', isHeld: false });
      expect(await queue().get('b')).toMatchObject({ replica: 'one', isHeld: false, state: 'submitting' });
      expect(await queue().adopt('a', '', 'two')).toBe(true);
    });
  });
}
