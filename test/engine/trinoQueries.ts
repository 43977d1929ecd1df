import type { TrinoServer } from './trinoServer.ts';

/** A query as its coordinator lists it. */
export interface ListedQuery {
  readonly queryId: string;
  readonly state: string;
  readonly query: string;
  readonly session: { readonly user: string; readonly source?: string };
  readonly errorCode?: { readonly name: string; readonly type: string };
}

/** A query that is over, as its coordinator has it. Times and sizes are texts such as `1.23s` and `459B`. */
export interface EngineRecord {
  readonly state: string;
  readonly errorCode: { readonly code: number; readonly name: string; readonly type: string } | null;
  readonly queryStats: {
    readonly elapsedTime: string;
    readonly queuedTime: string;
    readonly totalCpuTime: string;
    readonly processedInputPositions: number;
    readonly rawInputDataSize: string;
    readonly peakUserMemoryReservation: string;
  };
}

/** What a server has of one query, asked of itself. */
export async function engineRecord({ url }: Pick<TrinoServer, 'url'>, queryId: string): Promise<EngineRecord> {
  const response = await fetch(`${url}/v1/query/${queryId}`, { headers: { 'X-Trino-User': 'suite' } });
  if (!response.ok) throw new Error(`${url}/v1/query/${queryId} answered ${response.status}`);
  return (await response.json()) as EngineRecord;
}

const millis: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** A time that an engine wrote, and how far it may be from what it was: half of its last digit. Milliseconds. */
export function writtenTime(text: string): { readonly value: number; readonly roundedBy: number } {
  const [, number = '', unit = ''] = /^([\d.]+)([a-z]+)$/.exec(text) ?? [];
  const scale = millis[unit];
  if (scale === undefined) throw new Error(`${text} is no time`);
  const decimals = number.split('.')[1]?.length ?? 0;
  return { value: Number(number) * scale, roundedBy: (scale * 10 ** -decimals) / 2 };
}

/** A size that an engine wrote in bytes. */
export function writtenBytes(text: string): number {
  const [, number] = /^(\d+)B$/.exec(text) ?? [];
  if (number === undefined) throw new Error(`${text} is no number of bytes`);
  return Number(number);
}

/** Queries that a server remembers, or those in a state, asked of itself: the list of all takes the server long. */
export async function listQueries(
  { url }: Pick<TrinoServer, 'url'>,
  state?: 'RUNNING',
): Promise<readonly ListedQuery[]> {
  const path = `/v1/query${state === undefined ? '' : `?state=${state}`}`;
  const response = await fetch(`${url}${path}`, { headers: { 'X-Trino-User': 'suite' } });
  if (!response.ok) throw new Error(`${url}${path} answered ${response.status}`);
  return (await response.json()) as readonly ListedQuery[];
}

/** The end of all query ids of a coordinator's life. */
export const suffixOf = (queryId: string): string => queryId.slice(-5);
