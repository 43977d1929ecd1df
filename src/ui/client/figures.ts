import { useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import type { RunningFilter } from './running.ts';
import type { QueryPage, Statistics } from './types.ts';

/** Between two looks at figures of a range: the database counts them. */
const FIGURES_OF_RANGE_MS = 30_000;
/** Failures that are listed. */
const MAX_FAILURES = 10;

/** Ranges that figures are shown of, by what the page's address says; milliseconds. */
export const ranges = { hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000 } as const;
export type Range = keyof typeof ranges;

/** Figures of the queries of a cluster or group that were submitted within a range and have ended, and the failures that came last. */
export function useFigures(of: RunningFilter, range: Range) {
  return useQuery({
    queryKey: ['figures', of, range],
    queryFn: async ({ signal }) => {
      const from = String(Date.now() - ranges[range]);
      const by = of.cluster === undefined ? 'routingGroup' : 'cluster';
      const statistics = new URLSearchParams({ by, from, limit: '1', ...of });
      const failures = new URLSearchParams({ state: 'FAILED,LOST', from, limit: String(MAX_FAILURES), ...of });
      const [figures, failed] = await Promise.all([
        call<Statistics>(`/api/statistics?${statistics}`, { method: 'GET', signal }),
        call<QueryPage>(`/api/queries?${failures}`, { method: 'GET', signal }),
      ]);
      return { figures: figures.values[0] ?? null, failures: failed.queries, keptHours: figures.keptHours };
    },
    refetchInterval: FIGURES_OF_RANGE_MS,
  });
}
