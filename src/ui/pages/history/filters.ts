/** Filters of the history as parameters of the page's address, so that they survive reloads and can be shared. */
const filterNames = [
  ...(['cluster', 'user', 'userGroup', 'source', 'routingGroup', 'queryId', 'text', 'state'] as const),
  ...(['errorName', 'errorType', 'minElapsedMillis', 'maxElapsedMillis', 'from', 'to'] as const),
] as const;

type FilterName = (typeof filterNames)[number];

/**
 * Values of filters; empty: no filter. `from` and `to` are milliseconds since 1970 as text, bounds of the duration
 * milliseconds.
 */
export type Filters = Readonly<Record<FilterName, string>>;

const filtersOf = (read: (name: FilterName) => string): Filters =>
  Object.fromEntries(filterNames.map((name) => [name, read(name)])) as Filters;

export const noFilters: Filters = filtersOf(() => '');

export function parseFilters(parameters: URLSearchParams): Filters {
  return filtersOf((name) => parameters.get(name) ?? '');
}

/** Address parameters for filters and a page (from 1). */
export function toAddressParameters(filters: Filters, page: number): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const name of filterNames) if (filters[name] !== '') parameters.set(name, filters[name]);
  if (page > 1) parameters.set('page', String(page));
  return parameters;
}

/** Greatest page number (docs/rest-api.md#calls-of-the-web-application). */
const LAST_PAGE = 4_000;

/** Page number of an address, from 1. */
export function pageOf(parameters: URLSearchParams): number {
  const page = Number(parameters.get('page') ?? 1);
  return Number.isSafeInteger(page) && page >= 1 ? Math.min(page, LAST_PAGE) : 1;
}

/** Filters that only `/api/queries` supports. */
const listedBy = ['state', 'userGroup', 'errorName', 'errorType', 'minElapsedMillis', 'maxElapsedMillis'] as const;

/** True if the filters need `/api/queries`, because `/api/history/search` only has queries with a cluster. */
export function isListed(filters: Filters): boolean {
  return listedBy.some((name) => filters[name] !== '') || filters.queryId.includes(REFUSED);
}

/** Marks ids of submissions that the gateway rejected (docs/protocol.md#outcomes). */
const REFUSED = '_refused_';

const numbers = ['from', 'to', 'minElapsedMillis', 'maxElapsedMillis'] as const;

/** Parameters of `/api/queries`; invalid numbers are ignored. */
export function toListParameters(filters: Filters): URLSearchParams {
  const parameters = toAddressParameters(filters, 1);
  for (const name of numbers) if (!isCount(filters[name])) parameters.delete(name);
  parameters.set('match', 'prefix');
  return parameters;
}

/** True if a text is a valid number of milliseconds. */
export function isCount(text: string): boolean {
  return /^\d{1,15}$/.test(text);
}

/** The body of `/api/history/search`. */
export function toSearchRequest(filters: Filters, page: number, size: number): Record<string, unknown> {
  const time = (text: string) => (isCount(text) ? Number(text) : null);
  const { cluster, user, source, routingGroup, queryId, text, from, to } = filters;
  const used = Object.entries({ cluster, user, source, routingGroup, queryId, text }).filter(([, each]) => each !== '');
  return { ...Object.fromEntries(used), from: time(from), to: time(to), match: 'prefix', page, size };
}
