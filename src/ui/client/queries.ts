import { useQuery } from '@tanstack/react-query';
import { product } from '../app/gateway.ts';
import { ApiError } from './apiError.ts';
import { call } from './call.ts';
import type { Explanation, QueryOutcome, RoutedQuery } from './types.ts';

/** Between two looks at a query that may still run, and where it has run for a while. */
const RUNNING_MS = 5_000;
const LONG_RUN_MS = 10_000;
/** Age from which a query has run for a while. */
const WHILE_MS = 60_000;
/** Age after which a query without an outcome is not looked at again by itself. */
const LONGEST_RUN_MS = 24 * 3_600_000;

/** A query with what became of it; the outcome is null where it is not known. */
export type WholeQuery = Omit<RoutedQuery, 'outcome'> & { readonly outcome?: QueryOutcome | null };

/** A query by its id, or by the id that it waited under; looked at again until it has ended. */
export function useWholeQuery(queryId: string) {
  return useQuery({
    queryKey: ['query', queryId],
    queryFn: ({ signal }) => call<WholeQuery>(`/api/queries/${encodeURIComponent(queryId)}`, { method: 'GET', signal }),
    refetchInterval: ({ state: { data } }) => {
      if (data === undefined) return RUNNING_MS;
      const age = Date.now() - Date.parse(data.created);
      if (data.outcome != null || age > LONGEST_RUN_MS) return false;
      return age > WHILE_MS ? LONG_RUN_MS : RUNNING_MS;
    },
  });
}

/** Whether an id is one that the gateway gave a query while it waited. */
export function isQueuedId(queryId: string): boolean {
  return queryId.endsWith('_queue');
}

/** Whether an error says that there is no such query. */
export function isNoQuery(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/** Headers of a request that are stored with its query, in lower case: what is read of others is not known later. */
export const storedHeaders: readonly string[] = ['User', 'Source'].map((suffix) =>
  `X-${product}-${suffix}`.toLowerCase(),
);

/** What would become of a query now, by what is stored of its request: user, source and text. */
export function explainAgain({ user, source, queryText }: WholeQuery, signal?: AbortSignal): Promise<Explanation> {
  const headers = {
    ...(user === null ? {} : { [`X-${product}-User`]: user }),
    ...(source === null ? {} : { [`X-${product}-Source`]: source }),
  };
  const body = { method: 'POST', path: '/v1/statement', headers, body: queryText, ...(user === null ? {} : { user }) };
  return call<Explanation>('/api/explain', { body, ...(signal === undefined ? {} : { signal }) });
}
