import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import type { AdmissionAnswer } from '../../../src/gateway/admission/admission.ts';
import { DurableQueue } from '../../../src/gateway/queue/durableQueue.ts';
import { QueueKey } from '../../../src/gateway/queue/queueKey.ts';
import { encodeSubmission } from '../../../src/gateway/queue/storedSubmission.ts';
import { productNames } from '../../../src/model/names.ts';
import type { Refusal } from '../../../src/routing/refusal.ts';
import { noTrace } from '../../../src/rules/decision.ts';
import type { Store } from '../../../src/store/store.ts';

const id = '20261121_015745_471130200042_queue';
const late: Refusal = { reason: 'queue_timeout', message: 'late', queryId: null };

/** A replica that has just taken a waiting query over, with a clock and a database of the test's own. */
async function waitingQuery() {
  const state = {
    now: 1_000_000,
    released: 0,
    admitted: 0,
    begun: 0,
    silent: [] as string[],
    removed: [] as string[],
    ends: [] as unknown[],
  };
  const key = new QueueKey(randomBytes(32));
  const decision = {
    ...{ group: 'adhoc', cluster: null, rule: null, trace: noTrace },
    ...{ decidedBy: 'default' as const, onUnavailable: 'fallback' as const },
  };
  const request = key.seal(
    'request',
    id,
    encodeSubmission({
      rawTarget: '/v1/statement',
      headers: [],
      connection: { remoteAddress: undefined, localAddress: undefined, localPort: undefined, encrypted: false },
      httpVersion: [1, 1],
      certificateUser: null,
      user: { user: 'alice', userInfo: null },
      decision,
      body: Buffer.from('SELECT 1'),
    }),
  );
  const repository = {
    renew: async () => {},
    adopt: async () => true,
    request: async () => request,
    touch: async () => {},
    forgetAnswers: async () => 0,
    deleteAbandoned: async () => 0,
    unpolled: async (ids: readonly string[]) => ids.filter((one) => state.silent.includes(one)),
    remove: async (one: string) => state.removed.push(one) > 0,
    setReason: async () => {},
    // It is being submitted from here on; the test ends there.
    begin: () => {
      state.begun += 1;
      return new Promise(() => {});
    },
  } as unknown as Store['queuedQueries'];
  let turn = Promise.withResolvers<null>();
  const room = new DurableQueue({
    names: productNames('Engine'),
    repository,
    key,
    replica: 'r',
    admission: {
      admit(): AdmissionAnswer {
        state.admitted += 1;
        turn = Promise.withResolvers<null>();
        const slots = {
          note: null,
          beginChoice: () => {},
          takeCluster: () => null,
          bind: () => {},
          release: () => {
            state.released += 1;
          },
        };
        return { answer: 'wait', slots, atMost: 3_600_000, late, begin: () => turn.promise };
      },
    },
    send: () => {},
    followUp: () => {},
    answers: { waiting() {}, outcome() {}, gone() {}, killed() {}, refuse() {} },
    ends: { note: (one, _stored, waitedMs, end) => state.ends.push([one, waitedMs, end]) },
    clock: { now: () => state.now, monotonic: () => state.now },
    logger: pino({ level: 'silent' }),
    random: 0.5,
  });
  await room.adopt({
    ...{ id, created: 0, waitingMs: 0, group: 'adhoc', user: 'alice', source: null, replica: 'dead', isHeld: false },
    ...{ state: 'waiting', command: null, movedAt: null, engineId: null, answer: null },
  });
  /** Its turn comes. */
  const takeTurn = async () => {
    turn.resolve(null);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { state, room, takeTurn };
}

describe('a waiting query whose client does not ask for it', () => {
  test('is sent on when it is its turn soon', async () => {
    const { state, takeTurn } = await waitingQuery();
    state.now += 29_000;
    await takeTurn();
    expect(state).toMatchObject({ begun: 1, released: 0 });
  });

  test('is not sent on after half a minute: it gives its turn up, until its client asks any replica', async () => {
    const { state, room, takeTurn } = await waitingQuery();
    state.now += 31_000;
    state.silent = [id];
    await takeTurn();
    expect(state).toMatchObject({ begun: 0, released: 1, admitted: 1 });
    await room.maintain();
    expect(state).toMatchObject({ begun: 0, admitted: 1 });
    state.silent = [];
    await room.maintain();
    expect(state).toMatchObject({ begun: 0, admitted: 2 });
    await takeTurn();
    expect(state).toMatchObject({ begun: 1, released: 1 });
  });

  test('is sent on at once where it asked another replica', async () => {
    const { state, takeTurn } = await waitingQuery();
    state.now += 31_000;
    await takeTurn();
    await takeTurn();
    expect(state).toMatchObject({ begun: 1, admitted: 2 });
  });

  test('is dropped after five minutes, as engines do', async () => {
    const { state, room } = await waitingQuery();
    state.silent = [id];
    state.now += 299_000;
    await room.maintain();
    expect(room.size).toBe(1);
    state.now += 1_000;
    await room.maintain();
    expect(room.size).toBe(0);
    await expect.poll(() => state.ends).toEqual([[id, 300_000, 'ABANDONED']]);
    expect(state).toMatchObject({ removed: [id], released: 1, begun: 0 });
  });
});
