import type { TrinoServer } from './trinoServer.ts';

/** A query as its coordinator lists it. */
export interface ListedQuery {
  readonly queryId: string;
  readonly state: string;
  readonly session: { readonly user: string; readonly source?: string };
  readonly errorCode?: { readonly name: string; readonly type: string };
}

/** Figures of a query that is over, as its coordinator has them. */
export interface EngineFigures {
  readonly processedInputPositions: number;
}

/** What a server has of one query, asked of itself. */
export async function engineFigures({ url }: Pick<TrinoServer, 'url'>, queryId: string): Promise<EngineFigures> {
  const response = await fetch(`${url}/v1/query/${queryId}`, { headers: { 'X-Trino-User': 'suite' } });
  if (!response.ok) throw new Error(`${url}/v1/query/${queryId} answered ${response.status}`);
  return ((await response.json()) as { readonly queryStats: EngineFigures }).queryStats;
}

/** All queries that a server remembers, asked of itself. */
export async function listQueries({ url }: Pick<TrinoServer, 'url'>): Promise<readonly ListedQuery[]> {
  const response = await fetch(`${url}/v1/query`, { headers: { 'X-Trino-User': 'suite' } });
  if (!response.ok) throw new Error(`${url}/v1/query answered ${response.status}`);
  return (await response.json()) as readonly ListedQuery[];
}

/** The end of all query ids of a coordinator's life. */
export const suffixOf = (queryId: string): string => queryId.slice(-5);
