import { useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import type { RunningFilter } from './running.ts';
import type { QueryPage, Statistics } from './types.ts';

/** Polling interval of figures of a range, which the database computes. */
const FIGURES_OF_RANGE_MS = 60_000;
/** Ranges begin at whole minutes. */
const MINUTE_MS = 60_000;
const MAX_FAILURES = 10;

/** Ranges of figures by parameter of the page's address; milliseconds. */
export const figureRanges = { hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000 } as const;
export type Range = keyof typeof figureRanges;

/** Figures and last errors of a cluster's or group's queries that were submitted within a range and have ended. */
export function useFigures(of: RunningFilter, range: Range) {
  return useQuery({
    queryKey: ['figures', of, range],
    queryFn: async ({ signal }) => {
      const options = { method: 'GET', signal } as const;
      const from = String(Math.floor((Date.now() - figureRanges[range]) / MINUTE_MS) * MINUTE_MS);
      const by = of.cluster === undefined ? 'routingGroup' : 'cluster';
      const statistics = new URLSearchParams({ by, from, limit: '1', ...of });
      const failures = new URLSearchParams({ state: 'FAILED,LOST,REFUSED', from, limit: String(MAX_FAILURES), ...of });
      const [figures, failed] = await Promise.all([
        call<Statistics>(`/api/statistics?${statistics}`, options),
        call<QueryPage>(`/api/queries?${failures}`, options),
      ]);
      return { figures: figures.values[0] ?? null, failures: failed.queries, keptHours: figures.keptHours };
    },
    refetchInterval: FIGURES_OF_RANGE_MS,
  });
}
