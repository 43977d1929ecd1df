import { product } from '../../app/gateway.ts';
import { ApiError, call } from '../../client/call.ts';
import type { Explanation, WholeQuery } from '../../client/types.ts';

type StoredQuery = Pick<WholeQuery, 'user' | 'source' | 'queryText' | 'decision'>;

/** The body of `POST /api/explain` for a past query. */
interface StoredDescription {
  readonly method: 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly user?: string;
  readonly groups?: readonly string[];
}

const STATEMENT_PATH = '/v1/statement';
/** Longer sources are truncated by columns of the history. */
const COLUMN_WIDTH = 256;

const header = (suffix: string) => `X-${product}-${suffix}`.toLowerCase();
const [userHeader, sourceHeader, groupHeader] = [header('User'), header('Source'), header('Routing-Group')];
/** Protocol headers with stored values (docs/rules.md#impact). */
const keptHeaders: readonly string[] = ['User', 'Catalog', 'Schema', 'Client-Tags', 'Client-Info', 'Routing-Group'].map(
  header,
);

/** Headers that identify a user: callers without ADMIN may not name them (docs/rest-api.md#routing-explained). */
const identityHeaders: ReadonlySet<string> = new Set([
  ...[userHeader, header('Original-User'), header('Role')],
  ...['authorization', 'cookie', 'proxy-authorization', 'forwarded'],
  ...['x-forwarded-for', 'x-forwarded-user', 'x-forwarded-client-cert'],
]);

/**
 * Returns the stored part of a query's request.
 * @param isOwn true if the caller may only explain their own requests: headers that identify a user are omitted
 */
function storedDescription(query: StoredQuery, isOwn: boolean): StoredDescription {
  const { user, source, queryText, decision } = query;
  const headers = Object.entries(storedHeaders(query)).filter(([name]) => !isOwn || !identityHeaders.has(name));
  const groups = isOwn ? null : storedGroups(query);
  return {
    method: 'POST',
    path: decision?.request?.path ?? STATEMENT_PATH,
    headers: { ...Object.fromEntries(headers), ...(source === null ? {} : { [sourceHeader]: source }) },
    body: queryText,
    ...(user === null ? {} : { user }),
    ...(groups === null ? {} : { groups }),
  };
}

/** Returns the description without a field that a rejection names; null if it does not have the field. */
function withoutField(description: StoredDescription, field: string): StoredDescription | null {
  const { groups, ...rest } = description;
  if (field === 'groups' && groups !== undefined) return rest;
  const name = field.replace(/^headers\./, '');
  if (name === field || !Object.hasOwn(description.headers, name)) return null;
  const { [name]: _, ...headers } = description.headers;
  return { ...description, headers };
}

/** Stored header lines, except the source, by name in lower case. */
export function storedHeaders({ user, decision }: StoredQuery): Readonly<Record<string, string>> {
  const facts = decision?.request;
  if (facts === undefined) {
    // Queries of earlier versions and queries that ended in the queue only have the user and the header that named the
    // group.
    const isNamed = decision?.decidedBy === 'header';
    return { ...(user === null ? {} : { [userHeader]: user }), ...(isNamed ? { [groupHeader]: decision.group } : {}) };
  }
  const present = Object.entries(facts.headers).flatMap(([name, value]) => (value === null ? [] : [[name, value]]));
  return Object.fromEntries(present);
}

/** The groups of its user at that time; null if they are not completely stored. */
function storedGroups({ decision }: StoredQuery): readonly string[] | null {
  const { userGroups } = decision ?? {};
  if (userGroups === undefined || userGroups.some(({ more }) => more !== undefined)) return null;
  return [...new Set(userGroups.flatMap(({ groups }) => groups))];
}

/**
 * True if a condition's value follows from stored data, so that it is the value that the condition read then.
 * @param source origin of the value as the explanation names it, e.g. `header:x-engine-source`; null if unknown
 */
export function isStored(query: StoredQuery, source: string | null): boolean {
  if (source === null) return false;
  const name = /^header:(.*)$/s.exec(source)?.[1];
  if (name !== undefined) return isStoredHeader(query, name);
  if (source === 'method' || source === 'user') return true;
  if (source === 'group') return storedGroups(query) !== null;
  if (source === 'path') return query.decision?.request !== undefined;
  if (source === 'defaultCatalog') return isStoredHeader(query, header('Catalog'));
  if (source === 'defaultSchema') return isStoredHeader(query, header('Schema'));
  return isTextStored(query);
}

function isStoredHeader({ source, decision }: StoredQuery, name: string): boolean {
  if (name === sourceHeader) return source === null || source.length < COLUMN_WIDTH;
  const facts = decision?.request;
  if (facts === undefined) return name === userHeader || (name === groupHeader && decision?.decidedBy === 'header');
  return Object.hasOwn(facts.headers, name) || (keptHeaders.includes(name) && facts.unkept?.includes(name) !== true);
}

/** True if the stored text is complete for rules and the analysis. */
function isTextStored({ queryText, decision }: StoredQuery): boolean {
  const facts = decision?.request;
  if (facts === undefined) return true;
  const { text, unkept = [] } = facts;
  if (text !== queryText.length || unkept.includes('text')) return false;
  return !unkept.includes(header('Prepared-Statement')) || !/\bexecute\b/i.test(queryText);
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
