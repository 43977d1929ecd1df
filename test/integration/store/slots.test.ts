import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LeasedSlots } from '../../../src/admission/leasedSlots.ts';
import { adoptSlots } from '../../../src/admission/takeover.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';

const logger = pino({ level: 'silent' });

for (const database of databases) {
  describe.skipIf(!database.available())(`slots on ${database.name}`, () => {
    let server: TestDatabase;
    let stores: KnexStore[];

    beforeAll(async () => {
      server = await database.start();
      const settings = await server.create();
      stores = [];
      for (let index = 0; index < 3; index++)
        stores.push(await openStore({ ...settings, runMigrations: true, logger }));
    });

    afterAll(async () => {
      for (const store of stores ?? []) await store.close();
      await server?.dispose();
    });

    it('are never more than the limit while replicas ask at the same time', async () => {
      const demands = [
        { key: 'group:etl', limit: 5 },
        { key: 'cluster:etl-1', limit: 3 },
      ];
      let inUse = 0;
      let most = 0;
      let done = 0;
      const replica = async (store: KnexStore, index: number) => {
        const slots = new LeasedSlots({ replica: `r${index}`, clock: systemClock, random: Math.random });
        while (done < 100) {
          for (const demand of demands) slots.setWaiting(demand, 4);
          const beat = slots.begin();
          if (beat !== null) {
            await store.slots.exchange(`r${index}`, beat.keys, (now, counters) => beat.decide(now, counters));
            beat.commit();
          }
          for (;;) {
            const { taken } = slots.take(demands);
            if (taken === null) break;
            inUse += 1;
            most = Math.max(most, inUse);
            setTimeout(() => {
              inUse -= 1;
              done += 1;
              taken.release();
            }, 20);
          }
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      };
      await Promise.all(stores.map(replica));
      expect(most).toBeLessThanOrEqual(3);
      expect(most).toBeGreaterThan(0);
    });

    it('keeps counters of which some are new, says who waits elsewhere, and forgets what is unused', async () => {
      const [store] = stores as [KnexStore];
      const own = { granted: 2, inUse: 1, waiting: 3, expires: Number.MAX_SAFE_INTEGER };
      const keys = Array.from({ length: 200 }, (_, index) => `limit:a/b:${index}`);
      const change = { own, expired: [], bucket: { tokens: 1_500, filled: 7, expires: 9 }, isUnused: false };
      await store.slots.exchange('one', keys, (now, counters) => {
        expect(now).toBeGreaterThan(1_700_000_000_000);
        expect([...counters.keys()].sort()).toEqual(keys.toSorted());
        return keys.map((key) => ({ key, ...change }));
      });
      expect((await store.slots.waitingElsewhere('two')).filter((key) => key.startsWith('limit:a/b:'))).toHaveLength(
        200,
      );
      expect((await store.slots.waitingElsewhere('one')).filter((key) => key.startsWith('limit:a/b:'))).toEqual([]);
      await store.slots.exchange('two', keys, (_, counters) => {
        expect(counters.get('limit:a/b:7')).toEqual({
          rows: [{ replica: 'one', ...own }],
          bucket: { tokens: 1_500, filled: 7 },
        });
        return keys.map((key) => ({ key, own: null, expired: ['one'], bucket: null, isUnused: true }));
      });
      await store.slots.exchange('two', keys, (_, counters) => {
        expect(counters.get('limit:a/b:7')).toEqual({ rows: [], bucket: null });
        return keys.map((key) => ({ key, own: null, expired: [], bucket: null, isUnused: true }));
      });
    });

    it('passes ends of queries on', async () => {
      const [store] = stores as [KnexStore];
      const { mark } = await store.endedQueries.since(null);
      await store.endedQueries.put(['20261101_000000_00001_aaaaa', '20261101_000000_00002_aaaaa']);
      await store.endedQueries.put(['20261101_000000_00002_aaaaa']);
      const first = await store.endedQueries.since(mark);
      expect(first.queryIds.toSorted()).toEqual(['20261101_000000_00001_aaaaa', '20261101_000000_00002_aaaaa']);
      expect(first.mark).toBeGreaterThanOrEqual(mark);
      expect(await store.endedQueries.deleteBefore(Date.now() + 60_000)).toBe(2);
      await store.runningQueries.put([{ queryId: 'q', cluster: 'a', started: 1, lastSeen: 2 }]);
      expect(await store.runningQueries.lastSeen(['q', 'other'])).toEqual(new Map([['q', 2]]));
    });

    it('gives what a dead replica left to one heir: noted queries, and slots that others may use', async () => {
      const [store, second, third] = stores as [KnexStore, KnexStore, KnexStore];
      const slots = (expires: number, granted = 0) => ({ granted, inUse: 0, waiting: 0, expires });
      const change = { expired: [], bucket: null, isUnused: false };
      const ids = (queries: readonly { readonly queryId: string }[]) => queries.map(({ queryId }) => queryId).sort();
      const now = Date.now();
      await store.slots.exchange('heir', ['group:x'], () => [
        { key: 'group:x', own: { ...slots(now + 60_000, 3), inUse: 2 }, ...change },
      ]);
      await store.slots.exchange('dead', ['cluster:x', 'cluster:y', 'group:x'], () => [
        { key: 'cluster:x', own: slots(now - 9_000, 5), ...change },
        { key: 'cluster:y', own: slots(now - 8_000, 5), ...change },
        { key: 'group:x', own: slots(now - 7_000, 5), ...change },
      ]);
      const query = (queryId: string, ...keys: string[]) => ({ queryId, cluster: 'x', keys });
      await store.slotQueries.put('dead', [
        query('q1', 'cluster:x', 'group:x'),
        query('q2', 'cluster:x'),
        query('q3', 'group:x'),
        query('q4'),
      ]);
      await store.slotQueries.put('heir', [query('q1', 'cluster:y'), query('q0', 'group:x')]);
      await store.endedQueries.put(['q3']);
      const row = { cluster: 'x', started: now - 8_000, lastSeen: now };
      // One that is noted, one that nobody noted, one that began long ago, and one that is over.
      await store.runningQueries.put([
        { ...row, queryId: 'q1' },
        { ...row, queryId: 'q9' },
        { ...row, queryId: 'q8', started: now - 100_000 },
        { ...row, queryId: 'q3' },
      ]);
      expect(await store.slotQueries.dead('heir', 5_000)).toEqual(['dead']);
      expect(await store.slotQueries.dead('heir', 30_000)).toEqual([]);
      const options = (heir: string) => ({
        dead: 'dead',
        heir,
        graceMs: 5_000,
        leaseMs: 15_000,
        decide: (left: Parameters<typeof adoptSlots>[0]) =>
          adoptSlots(left, (cluster, key) => key === `cluster:${cluster}` || key.startsWith('group:')),
      });
      expect(await store.slotQueries.takeOver({ ...options('heir'), graceMs: 30_000 })).toBeNull();
      const estates = await Promise.all([
        store.slotQueries.takeOver(options('heir')),
        second.slotQueries.takeOver(options('other')),
        third.slotQueries.takeOver(options('third')),
      ]);
      expect(ids(estates.flatMap((estate) => estate?.queries ?? []))).toEqual(['q1', 'q2', 'q4']);
      expect(estates.filter((estate) => estate !== null && estate.queries.length > 0)).toHaveLength(1);
      const [heir] = ['heir', 'other', 'third'].filter((_, index) => (estates[index]?.queries.length ?? 0) > 0);
      const expected = ['q1', 'q2', 'q4', ...(heir === 'heir' ? ['q0'] : [])].sort();
      expect(ids(await store.slotQueries.ofReplica(heir as string))).toEqual(expected);
      const rows = new Map<string, Record<string, readonly number[]>>();
      await store.slots.exchange('look', ['cluster:x', 'cluster:y', 'group:x'], (_, counters) => {
        for (const [key, counter] of counters) {
          rows.set(
            key,
            Object.fromEntries(counter.rows.map(({ replica, granted, inUse }) => [replica, [granted, inUse]])),
          );
        }
        return [];
      });
      // q9 may use slots of what it runs on, and of any group, as far as the dead replica had some.
      expect(rows.get('cluster:x')).toEqual({ dead: [1, 1], [heir as string]: [2, 2] });
      expect(rows.get('cluster:y')).toEqual({});
      const ofGroup = heir === 'heir' ? { heir: [4, 3] } : { heir: [3, 2], [heir as string]: [1, 1] };
      expect(rows.get('group:x')).toEqual({ dead: [1, 1], ...ofGroup });
      await store.runningQueries.remove(['q9']);
      expect(await store.slotQueries.takeOver(options('heir'))).toMatchObject({ queries: [] });
      expect(await store.slotQueries.dead('heir', 5_000)).toEqual([]);
      expect(await store.slotQueries.remove('another', ['q1', 'q2'])).toBe(0);
      expect(await store.slotQueries.remove(heir as string, ['q1', 'q2', 'q7'])).toBe(2);
      await store.slotQueries.leave('heir', 5_000);
      expect(await store.slotQueries.dead('another', 5_000)).toEqual(['heir']);
      expect(await store.slotQueries.deleteBefore(Date.now() + 60_000)).toBeGreaterThan(0);
    });
  });
}
