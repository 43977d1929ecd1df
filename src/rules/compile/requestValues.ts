import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { RuleRequest } from '../decision.ts';
import { isUnanalysed } from '../objects/query.ts';

/** One text of a request; null or undefined where it has none. */
export type ReadText = (request: RuleRequest) => string | null | undefined;
/** Several texts of a request, each of one or more parts. */
type ReadTexts = (request: RuleRequest) => readonly (string | readonly string[])[] | undefined;

/** True if a statement was analysed and is certain: declarative denies fail if they read another one. */
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

/** Names of the sources of several texts. */
export type ListSource = keyof typeof lists;

/** The source of a header's first value. */
export function headerSource(name: string, names: ProductNames): string {
  return `${HEADER}${names.ownHeader(name).toLowerCase()}`;
}

/** Name in lower case of the header that a source is; null for other sources. */
export function headerName(source: string): string | null {
  return source.startsWith(HEADER) ? source.slice(HEADER.length) : null;
}

/** Whether a source comes from the body, which may not have been analysed. */
export function isFromBody(source: string): boolean {
  return !source.startsWith(HEADER) && !ofHead.has(source);
}

const ofHead: ReadonlySet<string> = new Set(['method', 'path', 'user', 'group']);

/** Whether a source is one of several texts. */
export function isList(source: string): source is ListSource {
  return Object.hasOwn(lists, source);
}

/** How a source of one text is read. */
export function textReader(source: string): ReadText {
  if (!source.startsWith(HEADER)) return texts[source] ?? (() => null);
  const name = source.slice(HEADER.length);
  return ({ headers }) => firstHeader(headers, name) ?? null;
}

/** How a source of several texts is read. */
export function listReader<S extends ListSource>(source: S): (typeof lists)[S] {
  return lists[source];
}
