import { expect, test } from 'vitest';
import { defaultRequestMemory } from '../../../src/config/requestMemory.ts';

const MB = 1024 ** 2;

test.each([
  ['a quarter of the limit', 512 * MB, 1_000_000, 128 * MB],
  ['32 MB at least', 64 * MB, 1_000_000, 32 * MB],
  ['1 GB at most', 64 * 1024 * MB, 1_000_000, 1024 * MB],
  ['8 times the largest submission at least', 512 * MB, 50 * MB, 400 * MB],
])('%s', (_name, memoryLimit, maxAnalyzedBody, expected) => {
  expect(defaultRequestMemory(maxAnalyzedBody, memoryLimit)).toBe(expected);
});

test('there is a value without a limit of the process', () => {
  expect(defaultRequestMemory(1_000_000)).toBeGreaterThanOrEqual(32 * MB);
  expect(defaultRequestMemory(1_000_000)).toBeLessThanOrEqual(1024 * MB);
});
