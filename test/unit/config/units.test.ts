import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatDuration, formatSize, parseDuration, parseSize } from '../../../src/config/units.ts';

const outcome = (result: ReturnType<typeof parseDuration>) => ('value' in result ? result.value : result.wrong);

describe('durations', () => {
  test.each([
    ['0s', 0],
    ['30s', 30_000],
    ['1m', 60_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['250ms', 250],
    ['500us', 0.5],
    ['100ns', 0.0001],
    ['1.5m', 90_000],
    ['2.00m', 120_000],
    [' 5 s ', 5000],
  ])('%s', (text, milliseconds) => expect(outcome(parseDuration(text))).toBeCloseTo(milliseconds, 9));

  test.each([
    ['30', 'needs a unit: write 30s (units ns, us, ms, s, m, h, d)'],
    ['30sec', 'has the unknown unit "sec" (units ns, us, ms, s, m, h, d); write 30s'],
    ['5min', 'has the unknown unit "min" (units ns, us, ms, s, m, h, d); write 5m'],
    ['5M', 'has the unknown unit "M" (units ns, us, ms, s, m, h, d)'],
    ['5MB', 'has the unknown unit "MB" (units ns, us, ms, s, m, h, d)'],
    ['constructor', 'must be a duration such as 30s (units ns, us, ms, s, m, h, d), not "constructor"'],
    ['5constructor', 'has the unknown unit "constructor" (units ns, us, ms, s, m, h, d)'],
    ['-1s', 'must be a duration such as 30s (units ns, us, ms, s, m, h, d), not "-1s"'],
    ['1e3s', 'must be a duration such as 30s (units ns, us, ms, s, m, h, d), not "1e3s"'],
    ['', 'must be a duration such as 30s (units ns, us, ms, s, m, h, d), not ""'],
    [`${'9'.repeat(310)}d`, 'is too large a duration'],
  ])('%s is refused', (text, message) => expect(parseDuration(text)).toEqual({ wrong: message }));

  test('what is written reads back the same', () =>
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 45 }), (milliseconds) => {
        expect(parseDuration(formatDuration(milliseconds))).toEqual({ value: milliseconds });
      }),
    ));

  test('fractions of a millisecond read back to a millionth', () =>
    fc.assert(
      fc.property(fc.double({ min: 1e-6, max: 1e6, noNaN: true }), (milliseconds) => {
        expect(outcome(parseDuration(formatDuration(milliseconds)))).toBeCloseTo(milliseconds, 6);
      }),
    ));

  test('no text makes it throw, and what is read is a number of milliseconds', () =>
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const result = parseDuration(text);
        if ('value' in result) expect(result.value).toBeGreaterThanOrEqual(0);
        else expect(result.wrong).not.toBe('');
      }),
    ));
});

describe('sizes', () => {
  test.each([
    ['0B', 0],
    ['1B', 1],
    ['1kB', 1024],
    ['16MB', 16 * 1024 ** 2],
    ['2GB', 2 * 1024 ** 3],
    ['1.5kB', 1536],
    ['32 MB', 32 * 1024 ** 2],
  ])('%s', (text, bytes) => expect(parseSize(text)).toEqual({ value: bytes }));

  test.each([
    ['1024', 'needs a unit: write 1024B (units B, kB, MB, GB)'],
    ['1KB', 'has the unknown unit "KB" (units B, kB, MB, GB); write 1kB'],
    ['1MiB', 'has the unknown unit "MiB" (units B, kB, MB, GB); write 1MB'],
    ['1s', 'has the unknown unit "s" (units B, kB, MB, GB)'],
    ['much', 'must be a size such as 16MB (units B, kB, MB, GB), not "much"'],
  ])('%s is refused', (text, message) => expect(parseSize(text)).toEqual({ wrong: message }));

  test('what is written reads back the same', () =>
    fc.assert(
      fc.property(fc.maxSafeNat(), (bytes) => {
        expect(parseSize(formatSize(bytes))).toEqual({ value: bytes });
      }),
    ));
});
