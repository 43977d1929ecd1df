import { expect, test } from 'vitest';
import { CircuitBreaker } from '../../../../src/gateway/external/circuitBreaker.ts';

function breakerAt(start: number) {
  let now = start;
  const breaker = new CircuitBreaker(
    { failureThreshold: 3, retryAfter: 1_000 },
    {
      now: () => now,
      monotonic: () => now,
    },
  );
  const pass = (milliseconds: number): void => {
    now += milliseconds;
  };
  return { breaker, pass };
}

function fail(breaker: CircuitBreaker, times: number): void {
  for (let time = 0; time < times; time++) {
    expect(breaker.enter()).toBe(true);
    breaker.noteFailure();
  }
}

test('lets everybody through until failures in a row reach the threshold', () => {
  const { breaker } = breakerAt(0);
  fail(breaker, 2);
  breaker.enter();
  breaker.noteSuccess();
  fail(breaker, 2);
  expect(breaker.isOpen).toBe(false);
  fail(breaker, 1);
  expect(breaker.isOpen).toBe(true);
  expect(breaker.enter()).toBe(false);
});

test('after the time one may try; its failure keeps the others waiting, its success lets them in', () => {
  const { breaker, pass } = breakerAt(0);
  fail(breaker, 3);
  pass(999);
  expect(breaker.enter()).toBe(false);
  pass(1);
  expect(breaker.enter()).toBe(true);
  expect(breaker.enter()).toBe(false);
  breaker.noteFailure();
  expect(breaker.enter()).toBe(false);
  pass(1_000);
  expect(breaker.enter()).toBe(true);
  breaker.noteSuccess();
  expect(breaker.isOpen).toBe(false);
  expect([breaker.enter(), breaker.enter()]).toEqual([true, true]);
});

test('failures of those who were on their way do not keep it open longer', () => {
  const { breaker, pass } = breakerAt(0);
  for (let caller = 0; caller < 10; caller++) expect(breaker.enter()).toBe(true);
  for (let caller = 0; caller < 3; caller++) breaker.noteFailure();
  pass(900);
  for (let caller = 3; caller < 10; caller++) breaker.noteFailure();
  pass(100);
  expect(breaker.enter()).toBe(true);
});
