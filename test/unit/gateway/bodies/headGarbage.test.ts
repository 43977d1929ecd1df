import { describe, expect, test } from 'vitest';
import { HeadGarbage } from '../../../../src/gateway/bodies/headGarbage.ts';

const MB = 1024 ** 2;

describe('the garbage of heads over HTTP/2', () => {
  test.each([
    ['an eighth of the request memory', 256 * MB, 32 * MB],
    ['16 MB at least', 8 * MB, 16 * MB],
  ])('is collected after %s', (_name, memory, limit) => {
    let collections = 0;
    const garbage = new HeadGarbage(memory, () => {
      collections++;
    });
    for (let bytes = 0; bytes < limit; bytes += MB) garbage.add(MB);
    expect(collections).toBe(0);
    garbage.add(1);
    expect(collections).toBe(1);
    for (let bytes = 0; bytes < limit; bytes += MB) garbage.add(MB);
    expect(collections).toBe(1);
    garbage.add(1);
    expect(collections).toBe(2);
  });

  test('is collected by the runtime, which frees what nobody refers to', () => {
    const garbage = new HeadGarbage(0);
    const forgotten = new WeakRef({ large: true });
    return new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      garbage.add(16 * MB + 1);
      expect(forgotten.deref()).toBeUndefined();
    });
  });
});
