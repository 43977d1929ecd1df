/** Filters of the history as they stand in the page's address: they survive reloads and can be sent to others. */
const filterNames = [
  'cluster',
  'user',
  'userGroup',
  'source',
  'routingGroup',
  'queryId',
  'text',
  'state',
  'from',
  'to',
] as const;

type FilterName = (typeof filterNames)[number];

/** What is filtered by; empty: not by this. `from` and `to` are milliseconds since 1970 as text. */
export type Filters = Readonly<Record<FilterName, string>>;

export const noFilters: Filters = {
  cluster: '',
  user: '',
  userGroup: '',
  source: '',
  routingGroup: '',
  queryId: '',
  text: '',
  state: '',
  from: '',
  to: '',
};

/** The filters of an address. */
export function filtersOf(parameters: URLSearchParams): Filters {
  return Object.fromEntries(filterNames.map((name) => [name, parameters.get(name) ?? ''])) as Filters;
}

/** The address's parameters for filters and a page (from 1). */
export function parametersOf(filters: Filters, page: number): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const name of filterNames) if (filters[name] !== '') parameters.set(name, filters[name]);
  if (page > 1) parameters.set('page', String(page));
  return parameters;
}

/** Greater numbers are no page's (docs/rest-api.md#calls-of-the-web-application). */
const LAST_PAGE = 4_000;

/** The page of an address, from 1. */
export function pageOf(parameters: URLSearchParams): number {
  const page = Number(parameters.get('page') ?? 1);
  return Number.isSafeInteger(page) && page >= 1 ? Math.min(page, LAST_PAGE) : 1;
}

/** Whether `/api/history/search` does not have these filters, but `/api/queries` does. */
export function isListed({ state, userGroup }: Filters): boolean {
  return state !== '' || userGroup !== '';
}

/** The parameters of `/api/queries` for filters that it alone has. */
export function listParametersOf(filters: Filters): URLSearchParams {
  const parameters = parametersOf(filters, 1);
  parameters.set('match', 'prefix');
  return parameters;
}

/** The body of `/api/history/search` for filters and a page. */
export function requestOf(filters: Filters, page: number, size: number): Record<string, unknown> {
  const time = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : null);
  const { from, to, state: _, userGroup: __, ...texts } = filters;
  const used = Object.entries(texts).filter(([, text]) => text !== '');
  return { ...Object.fromEntries(used), from: time(from), to: time(to), match: 'prefix', page, size };
}
