import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LeasedSlots } from '../../../src/admission/leasedSlots.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';

const logger = pino({ level: 'silent' });

for (const database of databases) {
  describe.skipIf(!database.available())(`counts of limits on ${database.name}`, () => {
    let server: TestDatabase;
    let stores: KnexStore[];

    beforeAll(async () => {
      server = await database.start();
      const settings = await server.create();
      stores = [];
      for (let index = 0; index < 2; index++)
        stores.push(await openStore({ ...settings, runMigrations: true, logger }));
    });

    afterAll(async () => {
      for (const store of stores ?? []) await store.close();
      await server?.dispose();
    });

    it('are the sums over replicas of what is in use and waits', async () => {
      const demand = { key: 'limit:team/people:ann', limit: 5 };
      for (const [index, store] of stores.entries()) {
        const slots = new LeasedSlots({ replica: `r${index}`, clock: systemClock, random: Math.random });
        slots.adopt([demand]);
        slots.setWaiting({ key: 'queue:group:etl', limit: 0 }, index + 2);
        for (let beat = slots.begin(); beat !== null; beat = slots.begin()) {
          await store.slots.exchange(`r${index}`, beat.keys, beat.decide);
          beat.commit();
        }
      }
      const counters = (await stores[0]!.limitCounts.inUse()).toSorted((a, b) => a.key.localeCompare(b.key));
      expect(counters).toEqual([
        { key: 'limit:team/people:ann', inUse: 2, waiting: 0 },
        { key: 'queue:group:etl', inUse: 0, waiting: 5 },
      ]);
    });

    it('of refusals are added up, also those that replicas report at the same time, and are forgotten', async () => {
      const reports = Array.from({ length: 20 }, (_, turn) => {
        const { limitCounts } = stores[turn % 2]!;
        return limitCounts.addRefusals(
          new Map(turn % 2 === 0 ? Object.entries({ 'group:etl': 1, 'limit:a/b': 2 }) : [['group:etl', 3]]),
        );
      });
      await Promise.all(reports);
      const counted = { 'group:etl': 40, 'limit:a/b': 20 };
      expect(Object.fromEntries(await stores[1]!.limitCounts.refusals())).toEqual(counted);
      expect(await stores[0]!.limitCounts.deleteBefore(0)).toBe(0);
      expect(await stores[0]!.limitCounts.deleteBefore(Date.now() + 3_600_000)).toBe(2);
      expect(await stores[1]!.limitCounts.refusals()).toEqual(new Map());
    });
  });
}
