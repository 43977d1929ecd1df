import { useQuery } from '@tanstack/react-query';
import { ApiError } from './apiError.ts';
import { call } from './call.ts';
import { type StoredDescription, storedDescription, withoutField } from './storedRequest.ts';
import type { Explanation, WholeQuery } from './types.ts';

/** Polling interval of a query that may still run, and of one that has run for a while. */
const RUNNING_MS = 5_000;
const LONG_RUN_MS = 10_000;
const WHILE_MS = 60_000;
/** Maximum age at which a query without an outcome is polled. */
const MAX_RUN_MS = 24 * 3_600_000;

/** A query by its id or its id in the queue; polled until it has ended. */
export function useWholeQuery(queryId: string) {
  return useQuery({
    queryKey: ['query', queryId],
    queryFn: ({ signal }) => call<WholeQuery>(`/api/queries/${encodeURIComponent(queryId)}`, { method: 'GET', signal }),
    refetchInterval: ({ state: { data } }) => {
      if (data === undefined) return RUNNING_MS;
      const age = Date.now() - Date.parse(data.created);
      if (data.outcome != null || age > MAX_RUN_MS) return false;
      return age > WHILE_MS ? LONG_RUN_MS : RUNNING_MS;
    },
  });
}

/** True if the gateway assigned the id while the query was queued. */
export function isGatewayId(queryId: string): boolean {
  return queryId.endsWith('_queue');
}

export function isNoQuery(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/**
 * Explains the current routing of a query from its stored request.
 * @param isOwn true if the caller may only explain their own requests
 */
export async function explainAgain(query: WholeQuery, isOwn: boolean, signal?: AbortSignal): Promise<Explanation> {
  let description: StoredDescription | null = storedDescription(query, isOwn);
  for (;;) {
    try {
      return await call<Explanation>('/api/explain', {
        body: description,
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      // Which other headers identify a user, and who may name them, is configured: the rejection names the field.
      const field: string | undefined = error instanceof ApiError && error.status === 403 ? error.field : undefined;
      description = field === undefined ? null : withoutField(description, field);
      if (description === null) throw error;
    }
  }
}
