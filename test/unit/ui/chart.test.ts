import { describe, expect, test } from 'vitest';
import { areaPath, linePath, stacked, ticksOf } from '../../../src/ui/components/chartPaths.ts';
import {
  clusterLines,
  colorOf,
  durationLines,
  failureLines,
  rateTotals,
} from '../../../src/ui/pages/dashboard/chart.ts';
import { rangeName, ranges, retentionText } from '../../../src/ui/pages/dashboard/ranges.ts';

const facts = { asOf: '2026-11-23T12:00:00Z', from: 0, keptHours: 720, total: 0 };
const series = (clusters: number, intervalMs: number, others: readonly number[] | null = null) => ({
  ...facts,
  ...{ to: 2 * intervalMs, intervalMs, others },
  clusters: Array.from({ length: clusters }, (_, i) => ({ cluster: `c${i}`, color: i % 12, total: 4, counts: [1, 3] })),
});

describe('lines of clusters', () => {
  test('counts become queries per minute', () => {
    expect(clusterLines(series(1, 240_000))).toEqual([
      { name: 'c0', color: colorOf(0), isDashed: false, values: [0.25, 0.75] },
    ]);
  });

  test('those without a line of their own are one; of two with one colour the second is dashed', () => {
    const many = series(13, 60_000, [9, 9]);
    const clusters = [...many.clusters, { cluster: 'small', color: 5, total: 1, counts: null }];
    const lines = clusterLines({ ...many, clusters });
    expect(lines.at(-1)).toMatchObject({ name: '1 others', values: [9, 9] });
    expect(lines.filter(({ isDashed }) => isDashed).map(({ name }) => name)).toEqual(['c12']);
    expect(lines[12]?.color).toBe(lines[0]?.color);
  });

  test('without queries there is nothing to draw', () => {
    expect(clusterLines(series(0, 60_000))).toEqual([]);
  });
});

describe('rates', () => {
  const times = (p50: number | null, p95: number | null) => ({ p50, p95 });
  const interval = { start: 0, queries: 60, ended: 50, failures: 2, userErrors: 4, refused: 3 };
  const rates = {
    ...facts,
    ...{ to: 240_000, intervalMs: 120_000, errors: [] },
    intervals: [
      { ...interval, elapsedMillis: times(100, 900), queuedMillis: times(1, 5) },
      { ...interval, start: 120_000, ended: 0, elapsedMillis: times(null, null), queuedMillis: times(null, null) },
    ],
  };

  test('failures of users are counted apart', () => {
    expect(failureLines(rates).map(({ name, values }) => [name, values])).toEqual([
      ['failed', [1, 1]],
      ['refused by the gateway', [1.5, 1.5]],
      ["users' errors", [2, 2]],
    ]);
    expect(rateTotals(rates)).toEqual({
      ...{ queries: 120, perMinute: 30, failed: 4, userErrors: 8, refused: 6 },
      faultyShare: 0.2,
    });
  });

  test('durations have gaps where no query ended', () => {
    expect(durationLines(rates).map(({ name, values }) => [name, values])).toEqual([
      ['duration, p95', [900, null]],
      ['duration, p50', [100, null]],
      ['queued, p95', [5, null]],
      ['queued, p50', [1, null]],
    ]);
  });
});

describe('the picture', () => {
  const places = { x: (index: number) => index * 10, y: (value: number) => 100 - value };

  test.each([
    [0, [0, 1]],
    [1, [0, 0.5, 1]],
    [4, [0, 1, 2, 3, 4]],
    [37, [0, 10, 20, 30, 40]],
    [0.3, [0, 0.1, 0.2, 0.3]],
    [1_000, [0, 500, 1000]],
  ])('a scale up to %d', (highest, ticks) => {
    expect(ticksOf(highest)).toEqual(ticks);
  });

  test('areas are steps upon each other', () => {
    const line = (values: readonly number[]) => ({ name: '', color: '', isDashed: false, values });
    const [lower, upper] = stacked([line([1, 2]), line([10, 20])]);
    expect([lower, upper]).toEqual([
      { low: [0, 0], high: [1, 2] },
      { low: [1, 2], high: [11, 22] },
    ]);
    expect(areaPath([0, 0], [1, 2], places)).toBe('M0 99H10V98H20V100H10V100H0Z');
    expect(areaPath([], [], places)).toBe('');
  });

  test('lines break where there is no value, and a value alone is a stroke', () => {
    expect(linePath([1, 2, null, 3, null], places)).toBe('M5 99L15 98M30 97H40');
  });
});

describe('ranges', () => {
  test('those that are longer than queries are kept cannot be chosen', () => {
    const open = (keptHours: number | null) =>
      ranges(keptHours).flatMap(({ label, disabled }) => (disabled ? [] : [label]));
    expect(open(null)).toEqual(['15 min', '1 h', '4 h', '24 h', '7 d', '30 d']);
    expect(open(720)).toEqual(open(null));
    expect(open(719)).toEqual(['15 min', '1 h', '4 h', '24 h', '7 d']);
    expect(open(4)).toEqual(['15 min', '1 h', '4 h']);
    expect(open(0)).toEqual(['15 min', '1 h']);
  });

  test.each([
    [720, 'Queries are kept for 30 days.'],
    [25, 'Queries are kept for 1 day and 1 hour.'],
    [4, 'Queries are kept for 4 hours.'],
    [0, 'Queries are deleted within two hours.'],
  ])('%d hours', (hours, text) => {
    expect(retentionText(hours)).toBe(text);
  });

  test('have names', () => {
    expect(rangeName({ from: 0, to: 3_600_000 })).toBe('the last hour');
    expect(rangeName({ from: 0, to: 90_000 * 60 })).toBe('the last 90 minutes');
  });
});
