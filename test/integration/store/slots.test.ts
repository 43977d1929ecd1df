import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LeasedSlots } from '../../../src/admission/leasedSlots.ts';
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
  });
}
