/**
 * Every interleaving of what happens to a read whose cluster is lost: two replicas that see the loss and send it again, of which
 * one may die between any two steps; its client gets rows, or cancels it. It is sent again at most once, and never after rows or
 * a cancellation.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { KnexStore } from '../../../src/store/openStore.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('test');
let store: KnexStore;

beforeEach(async () => {
  store = await world.store();
});
afterEach(() => store.close());

type Actor = 'r0' | 'r1' | 'death' | 'rows' | 'cancel';

/** All orders of the steps of some actors. */
function* orders(left: Readonly<Partial<Record<Actor, number>>>): Generator<readonly Actor[]> {
  const actors = (Object.keys(left) as Actor[]).filter((actor) => (left[actor] ?? 0) > 0);
  if (actors.length === 0) yield [];
  for (const actor of actors) {
    for (const rest of orders({ ...left, [actor]: (left[actor] ?? 0) - 1 })) yield [actor, ...rest];
  }
}

/** Plays an order of steps; each replica retries, adopts, sends, and stores the response. */
async function play(id: string, order: readonly Actor[], budget: number) {
  const queue = store.queuedQueries;
  const row = { id, group: 'g', user: 'ann', source: null, reason: 'runs', request: 'first', replica: 'r0' };
  await queue.put({ ...row, engineId: 'e1' });
  const dead = new Set<string>();
  const done = { retries: 0, sent: 0, isCancelled: false, hasRows: false, sentAfterEnd: 0 };
  const begunBy = new Set<string>();
  const steps = { r0: 0, r1: 0 };
  const retry = { lostId: 'e1', request: 'second', group: 'g', countedFor: id, perMinute: budget };
  const replicaStep = async (replica: string, step: number) => {
    const now = await queue.get(id);
    if (now === null || dead.has(replica)) return;
    const isOver = done.isCancelled || done.hasRows;
    if (step === 0 && now.engineId === 'e1') {
      const applied = await queue.apply('retry', id, now.replica, { replica, retry });
      if (applied !== null) done.retries++;
      expect(applied === null || !isOver).toBe(true);
    } else if (step === 1 && (now.replica === replica || dead.has(now.replica))) {
      await queue.apply('adopt', id, now.replica, { replica });
    } else if (step === 2 && !begunBy.has(replica)) {
      const begun = await queue.apply('begin', id, replica);
      if (begun === null) return;
      expect(begun.request).toBe('second');
      begunBy.add(replica);
      done.sent++;
      if (isOver) done.sentAfterEnd++;
    } else if (step === 3) await queue.apply('accept', id, replica, { engineId: 'e2', answer: 'response' });
  };
  for (const actor of order) {
    if (actor === 'death') dead.add('r0');
    else if (actor === 'rows') {
      // Rows of the first attempt reach the client only if its cluster was not taken for lost.
      const isFirst = (await queue.get(id))?.engineId === 'e1';
      await queue.settle([id]);
      done.hasRows ||= isFirst;
    } else if (actor === 'cancel') {
      const now = await queue.get(id);
      if (now !== null) done.isCancelled ||= (await queue.apply('cancel', id, now.replica)) !== null;
    } else await replicaStep(actor, steps[actor]++);
  }
  // A replica that lives continues what is left.
  for (const step of [1, 2, 3]) await replicaStep(dead.has('r0') ? 'r1' : 'r0', step);
  return { ...done, row: await queue.get(id), request: await queue.request(id) };
}

const histories: readonly Partial<Record<Actor, number>>[] = [
  { r0: 4, r1: 4 },
  { r0: 4, r1: 2, death: 1 },
  { r0: 4, r1: 1, rows: 1 },
  { r0: 4, r1: 1, cancel: 1 },
  { r0: 3, r1: 2, rows: 1, cancel: 1 },
];

test.each(histories)(
  'is sent again at most once: %o',
  async (left) => {
    let count = 0;
    for (const order of orders(left)) {
      const text = order.join(' ');
      const { retries, sent, sentAfterEnd, isCancelled, hasRows, row, request } = await play(`q${count++}`, order, 5);
      expect(retries, text).toBeLessThanOrEqual(1);
      expect(sent, text).toBeLessThanOrEqual(1);
      expect(sentAfterEnd, text).toBe(0);
      if (isCancelled) expect(row, text).toBeNull();
      else if (hasRows) {
        expect([retries, row?.state, request], text).toEqual([0, 'submitted', null]);
      } else if (row?.state === 'running' && row.engineId === 'e2') expect(request, text).toBe('second');
    }
    expect(count).toBeGreaterThan(4);
  },
  120_000,
);

test('is not retried beyond the budget of its group', async () => {
  const { retries, row } = await play('budget', ['r0'], 0);
  expect([retries, row?.state, row?.engineId]).toEqual([0, 'running', 'e1']);
});

test('loses its request five minutes after its last poll', async () => {
  const queue = store.queuedQueries;
  const row = { group: 'g', user: null, source: null, reason: 'runs', request: 'first', replica: 'r0', engineId: 'e1' };
  await queue.put({ ...row, id: 'silent' });
  await queue.settleUnpolled(300_000);
  expect(await queue.request('silent')).toBe('first');
  await store.database.knex('eg_queued_queries').update({ polled_at: 0 });
  await queue.settleUnpolled(300_000);
  expect(await queue.get('silent')).toMatchObject({ state: 'submitted', engineId: 'e1' });
  expect(await queue.request('silent')).toBeNull();
});
