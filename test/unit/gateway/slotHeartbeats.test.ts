import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LeasedSlots } from '../../../src/admission/leasedSlots.ts';
import { SlotHeartbeats } from '../../../src/gateway/admission/slotHeartbeats.ts';
import type { SlotRow, Store } from '../../../src/store/store.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Milliseconds that each statement takes. */
const STATEMENT_MS = 5;
const clock = { monotonic: () => performance.now() };

/** `eg_slots`, without buckets. */
function memory(): Store['slots'] {
  const rows = new Map<string, readonly SlotRow[]>();
  const answered = () => new Promise((resolve) => setTimeout(resolve, STATEMENT_MS));
  return {
    async exchange(replica, keys, decide) {
      await answered();
      const locked = new Map(keys.map((key) => [key, { rows: rows.get(key) ?? [], bucket: null }]));
      for (const { key, own } of decide(Date.now(), locked)) {
        const others = (rows.get(key) ?? []).filter((row) => row.replica !== replica);
        rows.set(key, own === null ? others : [...others, { ...own, replica }]);
      }
    },
    async waitingElsewhere(replica) {
      await answered();
      const isWaiting = (row: SlotRow) => row.replica !== replica && row.waiting > 0;
      return [...rows].flatMap(([key, those]) => (those.some(isWaiting) ? [key] : []));
    },
    deleteBefore: async () => 0,
  } satisfies Pick<Store['slots'], keyof Store['slots']> as unknown as Store['slots'];
}

type Running = ConstructorParameters<typeof SlotHeartbeats>[0]['running'];

function startReplica(replica: string, repository: Store['slots'], running: Partial<Running> = {}) {
  const ledger = new LeasedSlots({ replica, clock, random: () => 0.7 });
  const nothing = async () => {};
  const beats = new SlotHeartbeats({
    ...{ replica, ledger, repository, clock, logger: pino({ level: 'silent' }) },
    running: {
      ...{ isWatching: false, exchange: nothing, publish: nothing, handOver: nothing, reconcile: nothing },
      ...{ isLate: false, noteLate: nothing, onGone: () => {}, onExternalEnd: () => {}, ...running },
    },
    deadReplicas: {
      ...{ dueIn: Number.POSITIVE_INFINITY, wasPaused: false, look: nothing, noteFailure: () => {} },
      take: () => ledger.adopt([]),
    } as unknown as ConstructorParameters<typeof SlotHeartbeats>[0]['deadReplicas'],
    slotQueries: { leave: nothing },
  });
  beats.wake();
  return ledger;
}

/** Takes a slot at a replica, and waits for it where there is none. @returns with how long that took, milliseconds */
async function taken(ledger: LeasedSlots, limit: number) {
  const demand = { key: 'limit:people:ann', limit };
  const since = performance.now();
  for (;;) {
    const answer = ledger.take([demand]);
    if (answer.taken !== null) {
      ledger.setWaiting(demand, 0);
      return { slot: answer.taken, ms: performance.now() - since };
    }
    ledger.setWaiting(demand, 1);
    await vi.advanceTimersByTimeAsync(1);
    if (performance.now() - since > 10_000) throw new Error('no slot within 10 s');
  }
}

test('the only slot, which a replica without any that wait does not use, is used by another one within 300 ms', async () => {
  const repository = memory();
  const [one, other] = [startReplica('one', repository), startReplica('other', repository)];
  const waits: number[] = [];
  for (let pause = 500; pause < 1_500; pause += 17) {
    (await taken(one, 1)).slot.release();
    await vi.advanceTimersByTimeAsync(pause);
    const { slot, ms } = await taken(other, 1);
    waits.push(ms);
    slot.release();
    await vi.advanceTimersByTimeAsync(pause);
  }
  expect(waits).toHaveLength(59);
  expect(Math.max(...waits)).toBeLessThan(300);
});

test('a lease is not renewed before queries are noted that should have been', async () => {
  const repository = memory();
  let isAvailable = true;
  const ledger = startReplica('one', repository, {
    noteLate: () => (isAvailable ? Promise.resolve() : Promise.reject(new Error('the database is unavailable'))),
  });
  await taken(ledger, 2);
  isAvailable = false;
  await vi.advanceTimersByTimeAsync(12_500);
  expect(ledger.hasRoom({ key: 'limit:people:ann', limit: 2 })).toBe(false);
  isAvailable = true;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ledger.hasRoom({ key: 'limit:people:ann', limit: 2 })).toBe(true);
});
