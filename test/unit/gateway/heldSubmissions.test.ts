import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { HeldSubmissions } from '../../../src/gateway/admission/heldSubmissions.ts';
import type { Refusal } from '../../../src/routing/refusal.ts';

const late: Refusal = { reason: 'no_cluster', message: 'late', queryId: null };
const stopping: Refusal = { reason: 'stopping', message: 'stopping', queryId: null };
const never = () => Promise.withResolvers<null>().promise;

test('no more are held than the limit; places of those that are over are free again', async () => {
  const held = new HeldSubmissions(2);
  const clients = [new EventEmitter(), new EventEmitter()];
  const hold = (client: EventEmitter, begin: (signal: AbortSignal) => Promise<Refusal | null> = never) =>
    held.hold(client, { atMost: 60_000, late, begin });
  const signals: AbortSignal[] = [];
  const begin = (signal: AbortSignal) => {
    signals.push(signal);
    return never();
  };
  void hold(clients[0] as EventEmitter, begin);
  const second = hold(clients[1] as EventEmitter, begin);
  expect(await hold(new EventEmitter())).toMatchObject({ reason: 'overloaded' });
  clients[0]?.emit('close');
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  expect(await hold(new EventEmitter(), async () => null)).toBeNull();
  held.endAll(stopping);
  expect(await second).toBe(stopping);
  expect(await hold(new EventEmitter(), async () => late)).toBe(late);
  expect(clients.map((client) => client.listenerCount('close'))).toEqual([0, 0]);
});
