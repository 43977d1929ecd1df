import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { RuleRequest } from '../decision.ts';
import { isUnanalysed } from '../objects/query.ts';

/** Reads one text of a request; null or undefined if missing. */
export type ReadText = (request: RuleRequest) => string | null | undefined;
type ReadTexts = (request: RuleRequest) => readonly (string | readonly string[])[] | undefined;

/** True if a statement was analyzed and is certain: declarative denies fail if they read any other statement. */
export const ANALYSED = 'analysed';

const texts: Readonly<Record<string, ReadText>> = {
  method: ({ method }) => method,
  path: ({ path }) => path,
  user: ({ user }) => user?.user,
  queryType: ({ queryProperties }) => queryProperties?.queryType,
  resourceGroupQueryType: ({ queryProperties }) => queryProperties?.resourceGroupQueryType,
  defaultCatalog: ({ queryProperties }) => queryProperties?.defaultCatalog,
  defaultSchema: ({ queryProperties }) => queryProperties?.defaultSchema,
  [ANALYSED]: ({ queryProperties: query }) =>
    query === null || query.unreadable !== undefined || isUnanalysed(query) ? null : 'yes',
};

const lists = {
  catalog: ({ queryProperties }) => queryProperties?.catalogs,
  schema: ({ queryProperties }) => queryProperties?.schemas,
  catalogSchema: ({ queryProperties }) => queryProperties?.catalogSchemas,
  table: ({ queryProperties }) => queryProperties?.tables,
  group: ({ user }) => user?.membership?.groups,
} satisfies Readonly<Record<string, ReadTexts>>;

const HEADER = 'header:';

export type ListSource = keyof typeof lists;

export function headerSource(name: string, names: ProductNames): string {
  return `${HEADER}${names.ownHeader(name).toLowerCase()}`;
}

/** Returns the lower-case name of a source's header; null for other sources. */
export function headerName(source: string): string | null {
  return source.startsWith(HEADER) ? source.slice(HEADER.length) : null;
}

/** True if a source comes from the body, which may not have been analyzed. */
export function isFromBody(source: string): boolean {
  return !source.startsWith(HEADER) && !ofHead.has(source);
}

const ofHead: ReadonlySet<string> = new Set(['method', 'path', 'user', 'group']);

export function isList(source: string): source is ListSource {
  return Object.hasOwn(lists, source);
}

export function textReader(source: string): ReadText {
  if (!source.startsWith(HEADER)) return texts[source] ?? (() => null);
  const name = source.slice(HEADER.length);
  return (request) => (request.header === undefined ? firstHeader(request.headers, name) : request.header(name));
}

export function listReader<S extends ListSource>(source: S): (typeof lists)[S] {
  return lists[source];
}
