import type { QuerySeries, RateSeries } from '../../client/types.ts';
import type { ChartLine } from './TimeChart.tsx';

/** Maximum number of clusters with a separate line, by queries; all others share one more. */
export const MAX_LINES = 7;

const MINUTE_MS = 60_000;

/**
 * Colours by the gateway's number of a cluster; those of Okabe and Ito first, which work with colour vision deficiency.
 */
const colors = [
  ...['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00'],
  ...['#b8a800', '#7f3fbf', '#8c564b', '#17a2a2', '#6b8e23', '#e15780'],
];
const OTHERS = '#868e96';

/** Colour of a cluster's number, stable across charts and ranges. */
export function colorOf(number: number): string {
  return colors[number % colors.length] ?? OTHERS;
}

/** Queries per minute of each cluster with a line, most queries first, and of all others together. */
export function clusterLines({ clusters, others, intervalMs }: QuerySeries): ChartLine[] {
  const rates = (counts: readonly number[]) => counts.map((count) => perMinute(count, intervalMs));
  const colorsInUse = new Set<number>();
  const lines = clusters.flatMap(({ cluster, color, counts }) => {
    if (counts === null) return [];
    // Beyond twelve clusters some share a colour.
    const isDashed = colorsInUse.has(color);
    colorsInUse.add(color);
    return [{ name: cluster, color: colorOf(color), isDashed, values: rates(counts) }];
  });
  if (others === null) return lines;
  const name = `${clusters.length - lines.length} others`;
  return [...lines, { name, color: OTHERS, isDashed: false, values: rates(others) }];
}

/** Failed queries per minute by type of error. */
export function failureLines({ intervals, intervalMs }: RateSeries): ChartLine[] {
  const line = (name: string, color: string, of: (interval: Interval) => number): ChartLine => ({
    ...{ name, color, isDashed: false },
    values: intervals.map((interval) => perMinute(of(interval), intervalMs)),
  });
  return [
    line('failed', '#d55e00', ({ failures }) => failures),
    line('refused by the gateway', '#7f3fbf', ({ refused }) => refused),
    line("users' errors", '#56b4e9', ({ userErrors }) => userErrors),
  ];
}

/** Durations in milliseconds; null without ended queries. */
export function durationLines({ intervals }: RateSeries): ChartLine[] {
  const line = (name: string, color: string, isDashed: boolean, of: (interval: Interval) => number | null) => ({
    ...{ name, color, isDashed },
    values: intervals.map(of),
  });
  return [
    line('duration, p95', '#0072b2', false, ({ elapsedMillis }) => elapsedMillis.p95),
    line('duration, p50', '#0072b2', true, ({ elapsedMillis }) => elapsedMillis.p50),
    line('queued, p95', '#e69f00', false, ({ queuedMillis }) => queuedMillis.p95),
    line('queued, p50', '#e69f00', true, ({ queuedMillis }) => queuedMillis.p50),
  ];
}

type Interval = RateSeries['intervals'][number];

export interface RateTotals {
  readonly queries: number;
  readonly perMinute: number;
  /** Failures that users did not cause. */
  readonly failed: number;
  readonly userErrors: number;
  readonly refused: number;
  /** Share of ended queries that failed or were rejected, 0 to 1; null without ended queries. */
  readonly faultyShare: number | null;
}

export function rateTotals({ intervals, intervalMs }: RateSeries): RateTotals {
  const sum = (of: (interval: Interval) => number) => intervals.reduce((total, interval) => total + of(interval), 0);
  const [queries, ended, refused] = [sum((i) => i.queries), sum((i) => i.ended), sum((i) => i.refused)];
  const [failed, userErrors] = [sum((i) => i.failures), sum((i) => i.userErrors)];
  return {
    ...{ queries, failed, userErrors, refused },
    perMinute: perMinute(queries, intervalMs * intervals.length),
    faultyShare: ended === 0 ? null : (failed + refused) / ended,
  };
}

export function failuresText({
  failed,
  refused,
  userErrors,
}: Pick<RateTotals, 'failed' | 'refused' | 'userErrors'>): string {
  const text = (count: number) => count.toLocaleString('en');
  return `${text(failed)} failed, ${text(refused)} refused; besides ${text(userErrors)} users’ errors`;
}

function perMinute(count: number, ms: number): number {
  return Math.round((count * MINUTE_MS * 100) / Math.max(ms, 1)) / 100;
}
