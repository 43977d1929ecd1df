import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HeldMemory, RequestMemory, SMALL_REQUEST_BYTES } from '../../../../src/gateway/bodies/requestMemory.ts';

const LIMIT = 100 * SMALL_REQUEST_BYTES;
const large = 10 * SMALL_REQUEST_BYTES;
const connection = () => ({});

/** A request that may be refused, and whether it was. */
function request(memory: RequestMemory, from: object = connection()) {
  const held = new HeldMemory(memory, from);
  const state = { held, refused: false };
  held.mayBeRefused(() => {
    state.refused = true;
  });
  return state;
}

describe('memory for bodies of requests', () => {
  test('large requests leave room for small ones', () => {
    const memory = new RequestMemory(LIMIT, 0);
    const taken = Array.from({ length: 20 }, () => request(memory)).filter(({ held }) => {
      const hasRoom = held.growTo(large);
      if (!hasRoom) held.release();
      return hasRoom;
    });
    expect(taken.length).toBe(7);
    const small = Array.from({ length: 100 }, () => request(memory).held.growTo(SMALL_REQUEST_BYTES));
    expect(small.filter((hasRoom) => hasRoom).length).toBe(30);
    expect(memory.used).toBe(LIMIT);
  });

  test('beyond the limit the newest request whose body is not there is refused, older ones go on', () => {
    const memory = new RequestMemory(LIMIT, 0);
    const requests = Array.from({ length: 7 }, () => request(memory));
    for (const { held } of requests) expect(held.growTo(large)).toBe(true);
    requests[6]?.held.keep();
    expect(requests[0]?.held.growTo(2 * large)).toBe(true);
    expect(requests.map(({ refused }) => refused)).toEqual([false, false, false, false, false, true, false]);
  });

  test('the newest is refused itself, and keeps what it has until it is released', () => {
    const memory = new RequestMemory(LIMIT, 0);
    const requests = Array.from({ length: 7 }, () => request(memory));
    for (const { held } of requests) held.growTo(large);
    expect(requests[6]?.held.growTo(2 * large)).toBe(false);
    expect(requests.some(({ refused }) => refused)).toBe(false);
    expect(memory.used).toBe(7 * large);
    requests[6]?.held.release();
    expect(memory.used).toBe(6 * large);
  });

  test('one connection has a share, which has room for its largest request', () => {
    const memory = new RequestMemory(LIMIT, 0);
    const shared = connection();
    const taken = Array.from({ length: 10 }, () => request(memory, shared).held.growTo(large));
    expect(taken.filter((hasRoom) => hasRoom).length).toBe(2);
    expect(request(memory).held.growTo(large)).toBe(true);
    expect(request(new RequestMemory(LIMIT, 6 * large)).held.growTo(6 * large)).toBe(true);
    expect(request(new RequestMemory(LIMIT, 0)).held.growTo(6 * large)).toBe(false);
  });

  test('any requests: never more than the limit, nothing held in the end', () => {
    const step = fc.record({
      request: fc.integer({ min: 0, max: 9 }),
      what: fc.constantFrom('grow', 'grow', 'grow', 'keep', 'release'),
      bytes: fc.integer({ min: 1, max: LIMIT }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const memory = new RequestMemory(LIMIT, 0);
        const connections = [connection(), connection(), connection()];
        const requests = Array.from({ length: 10 }, (_, index) => request(memory, connections[index % 3]));
        for (const { request: index, what, bytes } of steps) {
          const { held } = requests[index]!;
          if (what === 'grow') held.growTo(Math.floor(bytes / 4));
          else if (what === 'keep') held.keep();
          else held.release();
          expect(memory.used).toBeLessThanOrEqual(LIMIT);
          expect(memory.used).toBe(requests.reduce((sum, each) => sum + each.held.bytes, 0));
        }
        for (const { held } of requests) held.release();
        expect(memory.used).toBe(0);
      }),
    );
  });
});
