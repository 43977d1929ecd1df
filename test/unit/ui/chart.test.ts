import { expect, test } from 'vitest';
import { chartPoints } from '../../../src/ui/pages/dashboard/chart.ts';

const series = (clusters: number, intervalMs: number) => ({
  from: 0,
  to: 2 * intervalMs,
  intervalMs,
  total: 0,
  clusters: Array.from({ length: clusters }, (_, i) => ({ cluster: `c${i}`, total: 4, counts: [1, 3] })),
});

test('counts become queries per minute', () => {
  expect(chartPoints(series(1, 240_000))).toEqual({
    names: ['c0'],
    points: [
      { at: 0, counts: [0.25] },
      { at: 240_000, counts: [0.75] },
    ],
  });
});

test('beyond eight clusters the smallest share a line', () => {
  expect(chartPoints(series(8, 60_000)).names).toHaveLength(8);
  const { names, points } = chartPoints(series(10, 60_000));
  expect(names).toEqual(['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', '3 others']);
  expect(points[1]?.counts).toEqual([3, 3, 3, 3, 3, 3, 3, 9]);
});

test('without queries there is nothing to draw', () => {
  expect(chartPoints(series(0, 60_000))).toEqual({ names: [], points: [] });
});
