import type { IntervalRates, QueryRates } from '../../store/queryRates.ts';
import type { RateSeries } from '../answers/overview.ts';
import { type SeriesRange, seriesRange } from './seriesRange.ts';

/** Most intervals; a longer range has longer intervals. */
export const MAX_RATE_INTERVALS = 60;
const MAX_ERRORS = 10;

const unknown = { p50: null, p95: null };
const none = {
  ...{ queries: 0, ended: 0, failures: 0, userErrors: 0, refused: 0 },
  ...{ elapsedMillis: unknown, queuedMillis: unknown },
};

/** Rates and durations of the queries of the last minutes by interval, on all replicas. */
export async function rateSeries(
  rates: QueryRates,
  { now, minutes, keptHours }: SeriesRange & { readonly keptHours: number },
): Promise<RateSeries> {
  const { from, to, intervalMs, length } = seriesRange({ now, minutes }, MAX_RATE_INTERVALS);
  const [rows, errors] = await Promise.all([
    rates.perInterval({ from, to, length: intervalMs }),
    rates.errors({ from, to, limit: MAX_ERRORS }),
  ]);
  const byStart = new Map<number, IntervalRates>(rows.map((row) => [row.start, row]));
  const intervals = Array.from({ length }, (_, index) => {
    const start = from + index * intervalMs;
    return { ...none, start, ...byStart.get(start) };
  });
  return { asOf: new Date(now).toISOString(), from, to, intervalMs, keptHours, intervals, errors };
}
