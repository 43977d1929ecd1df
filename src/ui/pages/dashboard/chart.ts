import type { QuerySeries } from '../../client/types.ts';

/** Most lines of the chart; the clusters with the fewest queries share the last one. */
const MAX_LINES = 8;

const MINUTE_MS = 60_000;

/** Colours of the lines, distinguishable with colour vision deficiency (Okabe and Ito). */
const colors = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b8a800', '#868e96'];

/** The colour of the line at an index. */
export function colorOf(index: number): string {
  return colors[Math.min(index, colors.length - 1)] as string;
}

/** What the chart draws. */
export interface ChartPoints {
  /** Names of the lines, most queries first. */
  readonly names: readonly string[];
  /** Queries per minute of each line, in order of the names, by start of the interval. */
  readonly points: readonly { readonly at: number; readonly counts: readonly number[] }[];
}

/** Brings counts by interval to queries per minute, and many clusters to few lines. */
export function chartPoints({ from, intervalMs, clusters }: QuerySeries): ChartPoints {
  const whole = clusters.length > MAX_LINES ? clusters.slice(0, MAX_LINES - 1) : clusters;
  const rest = clusters.slice(whole.length);
  const others = rest.length === 0 ? [] : [`${rest.length} others`];
  const length = clusters[0]?.counts.length ?? 0;
  const rate = (count: number) => Math.round((count * MINUTE_MS * 100) / intervalMs) / 100;
  const points = Array.from({ length }, (_, index) => {
    const counts = whole.map((line) => rate(line.counts[index] ?? 0));
    const restCount = rest.reduce((sum, line) => sum + (line.counts[index] ?? 0), 0);
    return { at: from + index * intervalMs, counts: rest.length === 0 ? counts : [...counts, rate(restCount)] };
  });
  return { names: [...whole.map(({ cluster }) => cluster), ...others], points };
}
