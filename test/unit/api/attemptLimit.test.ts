import { expect, test } from 'vitest';
import { AttemptLimit } from '../../../src/api/auth/attemptLimit.ts';

const now = { ahead: 0 };
const clock = { now: () => now.ahead, monotonic: () => now.ahead };

test('a flood of names from many addresses makes no name that is guessed at forgotten, and takes bounded memory', {
  retry: 2,
}, async () => {
  const limit = new AttemptLimit({ maxAttempts: 5, window: 900_000 }, clock, () => undefined);
  const attempt = (name: string, address: string) =>
    limit.guard(
      name,
      { address, peer: address },
      async () => false,
      (right) => right,
    );
  for (let index = 0; index < 5; index++) await attempt('victim', '203.0.113.7');
  await expect(attempt('victim', '203.0.113.7')).rejects.toThrow('Too many failed logins');
  const before = process.memoryUsage().heapUsed;
  // More pairs of name and address than are remembered, each failed once.
  for (let index = 0; index < 55_000; index++) await attempt(`name-${index}`, `2001:db8:${(index).toString(16)}::1`);
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * 1024 ** 2);
  await expect(attempt('victim', '203.0.113.7')).rejects.toThrow('Too many failed logins');
});
