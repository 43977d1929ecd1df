/**
 * The counters of limits as several replicas use them: random interleavings of acquisitions, ends at any replica, crashes and lost
 * responses of the database.
 */
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Acquisition, Demand } from '../../../src/admission/acquisitions.ts';
import { LimitCounters, type Slot } from '../../../src/admission/limitCounters.ts';
import { type Clock, systemClock } from '../../../src/model/clock.ts';
import { GatewayError } from '../../../src/model/errors.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { databases, oneDatabase, type TestDatabase } from '../../support/databases.ts';
import { until } from '../../support/gateway.ts';
import { randomOf } from '../../support/groupCases.ts';

const logger = pino({ level: 'silent' });
const limits: Readonly<Record<string, number>> = {
  ...{ 'cluster:a': 3, 'cluster:b': 2, 'group:g': 4, 'limit:l:ann': 1, 'group:wide': 12 },
};
const demand = (key: string): Demand => ({ key, limit: limits[key] ?? 0 });
const acquisition = (keys: readonly string[], more: Partial<Acquisition> = {}): Acquisition => ({
  ...{ demands: keys.map(demand), clusters: [], observed: [], place: null, mode: 'normal', ...more },
});
const HISTORIES = 4;
const STEPS = 120;

for (const family of databases) {
  describe.skipIf(!family.available())(`counters of limits on ${family.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;
    let replicas = 0;
    let failing = () => false;
    /** Queries whose rows were looked for, by statement. */
    let sought: string[][] = [];
    const open: LimitCounters[] = [];

    beforeAll(async () => {
      server = await family.start();
      store = await openStore({ ...(await server.create()), runMigrations: true, logger });
    });
    beforeEach(async () => {
      for (const table of ['eg_running', 'eg_limit_counters']) await store.database.knex(table).delete();
    });
    afterAll(async () => {
      await Promise.all(open.map((one) => one.stop()));
      await store?.close();
      await server?.dispose();
    });

    /** A replica; statements may take effect and their responses be lost. */
    const replica = (admits = false, clock: Clock = systemClock): LimitCounters => {
      const { limitCounters } = store;
      const lossy = new Proxy(limitCounters, {
        get: (target, name) => {
          const value = Reflect.get(target, name) as unknown;
          if (typeof value !== 'function') return value;
          return async (...parameters: unknown[]) => {
            const ids =
              name === 'ofQueries'
                ? (parameters[0] as string[])
                : name === 'changeAtOnce'
                  ? (parameters[1] as { ends: readonly { queryId: string }[] }).ends.map(({ queryId }) => queryId)
                  : [];
            if (ids.length > 0) sought.push(ids);
            const result: unknown = await value.apply(target, parameters);
            if (failing()) throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the response is lost');
            return result;
          };
        },
      });
      const counters = new LimitCounters(lossy, `replica${replicas++}`, admits, clock, logger);
      counters.enable(true);
      open.push(counters);
      return counters;
    };
    const maintain = (counters: LimitCounters) => counters.maintain(false, () => false);
    const rows = async () => (await store.database.knex('eg_running')) as Record<string, unknown>[];
    const inUse = async () => {
      const counters = await store.database.knex('eg_limit_counters').where('in_use', '>', 0).orderBy('limit_key');
      return Object.fromEntries(counters.map(({ limit_key, in_use }: Record<string, unknown>) => [limit_key, in_use]));
    };
    /** Time passes without a sign of any slot, and the leader sweeps. */
    const sweep = async () => {
      await store.database.knex('eg_running').decrement('seen', 400_000);
      await store.limitCounters.change('leader', await store.limitCounters.all(), []);
      await store.limitCounters.recount();
    };

    it.each(Array.from({ length: HISTORIES }, (_, seed) => seed))('never exceed a limit, history %i', async (seed) => {
      const random = randomOf(seed + 1);
      const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
      failing = () => random() < 0.04;
      const alive = [replica(), replica(), replica()];
      const running = new Map<string, readonly string[]>();
      const unbound = new Map<Slot, readonly string[]>();
      let queries = 0;
      const used = () => {
        const counts: Record<string, number> = {};
        for (const keys of [...running.values(), ...unbound.values()])
          for (const key of keys) counts[key] = (counts[key] ?? 0) + 1;
        return counts;
      };
      const begin = async () => {
        const isWide = random() < 0.4;
        const keys = isWide ? ['group:wide'] : ['group:g', ...(random() < 0.3 ? ['limit:l:ann'] : [])];
        const clusters = !isWide && random() < 0.8 ? [demand('cluster:a'), demand('cluster:b')] : [];
        const acquired = await pick(alive).acquire(acquisition(keys, { clusters }));
        if (acquired.slot === null) return;
        const all = acquired.slot.taken.map(({ key }) => key);
        if (random() < 0.15) unbound.set(acquired.slot, all);
        else {
          const id = `q${seed}-${queries++}`;
          running.set(id, all);
          acquired.slot.bind(id, 'a');
        }
        for (const [key, count] of Object.entries(used())) expect(count, key).toBeLessThanOrEqual(limits[key] ?? 0);
      };
      for (let step = 0; step < STEPS; step++) {
        const choice = random();
        if (choice < 0.5) await Promise.all(Array.from({ length: 1 + Math.floor(random() * 4) }, begin));
        else if (choice < 0.85) {
          const [id] = running.keys();
          if (id !== undefined) {
            pick(alive).ended(id);
            running.delete(id);
          }
          const [slot] = unbound.keys();
          if (slot !== undefined && random() < 0.5) {
            slot.release();
            unbound.delete(slot);
          }
        } else if (choice < 0.9) {
          // A replica dies: what it had continues, and it is replaced.
          alive[Math.floor(random() * alive.length)] = replica();
        } else for (const one of alive) await maintain(one);
      }
      failing = () => false;
      for (const id of running.keys()) pick(alive).ended(id);
      for (const slot of unbound.keys()) slot.release();
      for (const one of open) await maintain(one);
      await sweep();
      expect(await rows()).toEqual([]);
      expect(await inUse()).toEqual({});
    });

    it('give a slot back once, at the replica that sees the end, and also if the end is seen first', async () => {
      failing = () => false;
      const [one, other] = [replica(), replica()];
      const first = await one.acquire(acquisition(['limit:l:ann']));
      first.slot?.bind('first', 'a');
      for (const each of [other, one, other]) each.ended('first');
      const isFree = async () => {
        // Ends that came before the id are tried again.
        for (const each of [one, other]) await maintain(each);
        return (await rows()).length === 0;
      };
      await until(isFree, 'the slot to be free');
      expect((await other.acquire(acquisition(['limit:l:ann']))).kind).toBe('acquired');
      expect((await one.acquire(acquisition(['limit:l:ann']))).kind).toBe('full');
      expect(await inUse()).toEqual({ 'limit:l:ann': 1 });
    });

    it('keep a slot for the next query while there is much capacity, and release it unless one comes soon', async () => {
      failing = () => false;
      let now = 0;
      const one = replica(false, { ...systemClock, monotonic: () => now });
      const wide = acquisition(['group:wide']);
      const slots: (Slot | null)[] = [];
      const acquire = async () => slots.push((await one.acquire(wide)).slot);
      await acquire();
      await acquire();
      expect(await inUse()).toEqual({ 'group:wide': 3 });
      await acquire();
      expect(await inUse()).toEqual({ 'group:wide': 3 });
      expect(new Set(slots.map((slot) => slot?.slotId)).size).toBe(3);
      // With more than two thirds of the limit in use there is none for the next one.
      for (let count = 3; count < 12; count++) await acquire();
      expect([slots.includes(null), (await one.acquire(wide)).kind, await inUse()]).toEqual([
        ...[false, 'full', { 'group:wide': 12 }],
      ]);
      for (const slot of slots) slot?.release();
      await acquire();
      now = 10_000;
      await acquire();
      await acquire();
      expect(await inUse()).toEqual({ 'group:wide': 4 });
      now = 20_000;
      await until(async () => (await inUse())['group:wide'] === 3, 'the slot to be released');
    });

    it('correct themselves by the rows, and keep no unused row', async () => {
      failing = () => false;
      const one = replica();
      await one.acquire(acquisition(['group:g']));
      await store.database.knex('eg_limit_counters').update({ in_use: 4 });
      expect((await one.acquire(acquisition(['group:g']))).kind).toBe('full');
      expect(await store.limitCounters.recount()).toBe(1);
      expect((await one.acquire(acquisition(['group:g']))).kind).toBe('acquired');
      await sweep();
      await store.database.knex('eg_limit_counters').update({ expires: 0 });
      await store.limitCounters.recount();
      expect(await store.database.knex('eg_limit_counters')).toEqual([]);
    });

    it('let a burst begin and refill; count what observes; keep places apart from slots', async () => {
      failing = () => false;
      const one = replica();
      const rate = { key: 'rate:r', limit: 2, rate: { queries: 1, periodMs: 3_600_000, burst: 2 } };
      const begin = () => one.acquire({ ...acquisition([]), demands: [rate] });
      expect([(await begin()).kind, (await begin()).kind, (await begin()).kind]).toEqual([
        'acquired',
        'acquired',
        'full',
      ]);
      await store.database.knex('eg_limit_counters').where('limit_key', 'rate:r').decrement('refilled', 3_600_000);
      expect([(await begin()).kind, (await begin()).kind]).toEqual(['acquired', 'full']);
      const observed = await Promise.all(
        [1, 2].map(() => one.acquire(acquisition([], { observed: [demand('limit:l:ann')] }))),
      );
      expect(observed.map((each) => ('exceeded' in each ? each.exceeded : null))).toEqual([[], ['limit:l:ann']]);
      const place = [
        { key: 'queue:group:g', limit: 1 },
        { key: 'bytes:all', limit: 100, amount: 60 },
      ];
      const blocked = () => one.acquire(acquisition(['group:g'], { place, mode: 'blocked' }));
      const first = await blocked();
      expect([first.kind, await blocked()]).toMatchObject(['waiting', { kind: 'full', fullPlace: 'queue:group:g' }]);
      expect(await inUse()).toMatchObject({ 'queue:group:g': 1, 'bytes:all': 60, 'limit:l:ann': 2 });
    });

    it('share the slot of a transaction among its statements, one at a time', async () => {
      failing = () => false;
      const [one, other] = [replica(), replica()];
      const begun = await one.acquire(acquisition(['limit:l:ann']));
      begun.slot?.bind('start', 'a');
      one.began('start', 'transaction');
      one.ended('start');
      const isIdle = async () => {
        for (const each of [one, other]) await maintain(each);
        const [row] = await rows();
        return row?.transaction_id === 'transaction' && row.query_id === null;
      };
      await until(isIdle, 'the transaction to be idle');
      const first = await other.ofTransaction('transaction');
      expect([first === null, await one.ofTransaction('transaction')]).toEqual([false, null]);
      first?.bind('statement', 'a');
      one.ended('statement');
      await until(isIdle, 'the statement to end');
      const last = await one.ofTransaction('transaction');
      last?.bind('commit', 'a');
      other.ended('commit', true);
      const isOver = async () => {
        for (const each of [one, other]) await maintain(each);
        return (await rows()).length === 0;
      };
      await until(isOver, 'the transaction to end');
      expect(await inUse()).toEqual({});
    });

    // It waits for seconds, whatever the database is.
    if (family === oneDatabase)
      it('look four times for the slot of an ended query, which its replica may still be binding', async () => {
        sought = [];
        const one = replica();
        const other = replica();
        const { slot } = await one.acquire(acquisition(['cluster:a']));
        other.ended('bound_later');
        other.ended('without_slot');
        await until(() => sought.length > 0, 'the first attempt');
        slot?.bind('bound_later', 'a');
        await until(() => sought.filter((ids) => ids.includes('without_slot')).length === 4, 'four attempts');
        expect(await inUse()).toEqual({});
        for (let second = 0; second < 3; second++) await maintain(other);
        other.ended('last');
        await until(() => sought.some((ids) => ids.includes('last')), 'the next end');
        expect(sought.filter((ids) => ids.includes('without_slot'))).toHaveLength(4);
      });

    it('count alone while the database is unavailable, and write that down later', async () => {
      failing = () => true;
      const one = replica(true);
      const kinds = [];
      for (let count = 0; count < 2; count++) kinds.push((await one.acquire(acquisition(['limit:l:ann']))).kind);
      expect([one.isAway, kinds]).toEqual([true, ['acquired', 'full']]);
      failing = () => false;
      await until(async () => !one.isAway && (await inUse())['limit:l:ann'] !== undefined, 'the slot to be counted');
    });
  });
}
