/**
 * The states of queued queries as several replicas change them: random interleavings of their events, with replicas that die or
 * are taken for dead, and lost responses of the database. No query is sent twice, and each has one outcome.
 */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GatewayError } from '../../../src/model/errors.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { randomOf } from '../../support/groupCases.ts';

const logger = pino({ level: 'silent' });
const HISTORIES = 4;
const STEPS = 60;
const QUERIES = 12;

for (const family of databases) {
  describe.skipIf(!family.available())(`queued queries on ${family.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;

    beforeAll(async () => {
      server = await family.start();
      store = await openStore({ ...(await server.create()), runMigrations: true, logger });
    });
    afterAll(async () => {
      await store?.close();
      await server?.dispose();
    });

    it.each(Array.from({ length: HISTORIES }, (_, seed) => seed))(
      'are sent once, and end once, history %i',
      async (seed) => {
        const random = randomOf(seed + 1);
        const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
        const queue = store.queuedQueries;
        let isLossy = true;
        let answers = 0;
        const alive = new Set(['r0', 'r1', 'r2'].map((name) => `${name}-${seed}`));
        const ids = Array.from({ length: QUERIES }, (_, index) => `q${index}-${seed}`);
        const sent = new Map<string, number>();
        const ends = new Map<string, Set<string>>(ids.map((id) => [id, new Set()]));
        const busy = new Set<string>();
        for (const id of ids) {
          const row = { id, group: 'g', user: 'ann', source: null, reason: 'g', request: `request of ${id}` };
          await queue.put({ ...row, replica: pick([...alive]) });
        }

        /** Applies an event as a replica does: again if the response was lost; null if the replica died meanwhile. */
        const apply = async (as: string, ...step: Parameters<typeof queue.apply>) => {
          for (;;) {
            try {
              const applied = await queue.apply(...step);
              if (isLossy && random() < 0.1) throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the response is lost');
              return alive.has(as) ? applied : null;
            } catch (error) {
              expect(error).toMatchObject({ code: 'EG_DATABASE_UNAVAILABLE' });
              if (!alive.has(as)) return null;
            }
          }
        };
        const end = async (as: string, event: 'respond' | 'fail' | 'reject', id: string, holder: string) => {
          const answer = `answer ${seed}-${answers++}`;
          const applied = await apply(as, event, id, holder, { answer, engineId: event === 'respond' ? 'e' : null });
          if (applied !== null) ends.get(id)?.add(answer);
        };
        /** The holder has a turn for a query that waits. */
        const submit = async (id: string, holder: string) => {
          const begun = await apply(holder, 'begin', id, holder);
          if (begun === null) return;
          expect(begun.request).toBe(`request of ${id}`);
          if (random() < 0.3) {
            await apply(holder, 'putBack', id, holder);
            return;
          }
          sent.set(id, (sent.get(id) ?? 0) + 1);
          await end(holder, random() < 0.8 ? 'respond' : 'fail', id, holder);
        };
        const step = async () => {
          const id = pick(ids);
          const as = pick([...alive]);
          const row = await queue.get(id);
          if (row === null || !alive.has(as)) return;
          const isOwn = row.replica === as;
          const choice = random();
          if (row.state === 'waiting') {
            // Also of a replica that lives, but was paused.
            if (!isOwn && (choice < 0.3 || !alive.has(row.replica))) {
              await apply(as, 'adopt', id, row.replica, { replica: as });
            } else if (isOwn && choice < 0.6 && !busy.has(`${as} ${id}`)) {
              busy.add(`${as} ${id}`);
              await submit(id, as);
              busy.delete(`${as} ${id}`);
            } else if (isOwn && choice < 0.65) await apply(as, 'adopt', id, as, { replica: '' });
            else if (choice < 0.7) await end(as, 'reject', id, row.replica);
            else if (choice < 0.73 && (await apply(as, 'cancel', id, row.replica)) !== null)
              ends.get(id)?.add('cancelled');
          } else if (row.state === 'submitting' && !isOwn && (choice < 0.1 || !alive.has(row.replica))) {
            await end(as, 'fail', id, row.replica);
          }
        };
        for (let count = 0; count < STEPS; count++) {
          if (random() < 0.1) {
            alive.delete(pick([...alive]));
            alive.add(`r${count + 3}-${seed}`);
          }
          await Promise.all(Array.from({ length: 1 + Math.floor(random() * 6) }, step));
        }
        isLossy = false;

        // One replica is left: every query ends there.
        const last = `last-${seed}`;
        alive.clear();
        alive.add(last);
        for (const id of ids) {
          const row = await queue.get(id);
          if (row?.state === 'submitting') await end(last, 'fail', id, row.replica);
          if (row?.state === 'waiting') {
            await apply(last, 'adopt', id, row.replica, { replica: last });
            while ((await queue.get(id))?.state === 'waiting') await submit(id, last);
          }
        }
        for (const id of ids) {
          const row = await queue.get(id);
          expect([id, row?.state ?? 'cancelled']).toEqual([
            id,
            expect.stringMatching(/^(submitted|failed|cancelled)$/),
          ]);
          // An end whose replica died before it knew is in the row only.
          const known = [...(ends.get(id) ?? [])];
          expect(known.length, id).toBeLessThanOrEqual(1);
          if (known.length === 1) expect([id, row?.answer ?? 'cancelled']).toEqual([id, known[0]]);
          expect(await queue.request(id)).toBeNull();
          expect(sent.get(id) ?? 0, id).toBeLessThanOrEqual(1);
          for (const event of ['adopt', 'begin', 'putBack', 'reject', 'cancel'] as const) {
            expect(await queue.apply(event, id, row?.replica ?? last), `${event} of ${id}`).toBeNull();
          }
        }
      },
      60_000,
    );

    it('are left to the next replica that asks, and to no two', async () => {
      const queue = store.queuedQueries;
      const row = { group: 'g', user: 'ann', source: null, reason: 'g', request: 'r', replica: '' };
      await queue.put({ ...row, id: 'left' });
      const adopters = ['a', 'b', 'c', 'd'];
      const adopted = await Promise.all(adopters.map((replica) => queue.apply('adopt', 'left', '', { replica })));
      const winners = adopters.filter((_, index) => adopted[index] !== null);
      expect(winners).toHaveLength(1);
      expect(await queue.get('left')).toMatchObject({ state: 'waiting', replica: winners[0] });
    });
  });
}
