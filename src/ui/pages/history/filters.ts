import { type FilterField, filterParameters, filtersOf, isCount } from '../../components/forms.tsx';

const outcomes = [
  { value: '', label: 'any' },
  { value: 'FAILED', label: 'failed' },
  { value: 'CANCELLED', label: 'cancelled' },
  { value: 'ABANDONED', label: 'abandoned' },
  { value: 'REFUSED', label: 'refused by the gateway' },
  { value: 'DENIED', label: 'denied by a rule' },
  { value: 'LOST', label: 'lost with its cluster' },
  { value: 'RETRIED', label: 'continued on another cluster' },
  { value: 'REFUSED,DENIED', label: 'refused or denied' },
  { value: 'FAILED,LOST,REFUSED,DENIED', label: 'any but well' },
  { value: 'FINISHED', label: 'finished' },
];

const errorTypes = [
  { value: '', label: 'any' },
  { value: 'USER_ERROR', label: "the user's" },
  { value: 'INTERNAL_ERROR', label: 'internal' },
  { value: 'INSUFFICIENT_RESOURCES', label: 'insufficient resources' },
  { value: 'EXTERNAL', label: 'external' },
];

/** Filters of the history. */
export const historyFilters = [
  { name: 'user', label: 'User' },
  { name: 'state', label: 'Outcome', choices: outcomes },
  { name: 'text', label: 'Text of the query' },
  { name: 'cluster', label: 'Backend' },
  { name: 'source', label: 'Source' },
  { name: 'queryId', label: 'Query id' },
  { name: 'routingGroup', label: 'Routing group', isFolded: true },
  { name: 'userGroup', label: 'Member of', isFolded: true },
  { name: 'errorName', label: 'Error name, whole', placeholder: 'SYNTAX_ERROR', isFolded: true },
  { name: 'errorType', label: 'Error type', choices: errorTypes, isFolded: true },
  { name: 'minElapsedMillis', label: 'Ran at least (s)', kind: 'seconds', isFolded: true },
  {
    name: 'maxElapsedMillis',
    label: 'Ran at most (s)',
    kind: 'seconds',
    isFolded: true,
    above: ['minElapsedMillis', 'Must not be below "Ran at least".'],
  },
  { name: 'from', label: 'From', kind: 'time', isFolded: true },
  { name: 'to', label: 'To', kind: 'time', above: ['from', 'Must be later than "From".'], isFolded: true },
] as const satisfies readonly FilterField[];

type FilterName = (typeof historyFilters)[number]['name'];

export type Filters = Readonly<Record<FilterName, string>>;

export function parseFilters(parameters: URLSearchParams): Filters {
  return filtersOf<FilterName>(historyFilters, parameters);
}

/** Address parameters for filters and a page (from 1). */
export function toAddressParameters(filters: Filters, page: number): URLSearchParams {
  const parameters = filterParameters(filters);
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
  return listedBy.some((name) => filters[name] !== '') || filters.queryId.includes(REJECTED);
}

/** Marks ids of submissions that the gateway rejected (docs/protocol.md#outcomes). */
const REJECTED = '_refused_';

/** Parameters of `/api/queries`; invalid numbers are ignored. */
export function toListParameters(filters: Filters): URLSearchParams {
  const parameters = filterParameters(filters);
  for (const { name, ...field } of historyFilters)
    if ('kind' in field && !isCount(filters[name])) parameters.delete(name);
  parameters.set('match', 'prefix');
  return parameters;
}

/** The body of `/api/history/search`. */
export function toSearchRequest(filters: Filters, page: number, size: number): Record<string, unknown> {
  const time = (text: string) => (isCount(text) ? Number(text) : null);
  const { cluster, user, source, routingGroup, queryId, text, from, to } = filters;
  const used = Object.entries({ cluster, user, source, routingGroup, queryId, text }).filter(([, each]) => each !== '');
  return { ...Object.fromEntries(used), from: time(from), to: time(to), match: 'prefix', page, size };
}
