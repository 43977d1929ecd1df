import type { Knex } from 'knex';
import type { StatementColumns } from './queryOutcome.ts';
import type { QueryRecord } from './store.ts';

/** Columns of a table by the fields of its rows, as knex selects them. */
export type ColumnNames<R> = Readonly<Record<keyof R & string, string>>;

/** The columns of a row; fields that are left out are null. */
export function toColumns<R extends object>(row: R, columns: ColumnNames<R>): Record<string, unknown> {
  const values = row as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries<string>(columns).map(([field, column]) => [column, values[field] ?? null]));
}

/** Splits rows into those of one statement each. @param max bound of the sum of sizes of several rows */
export function* batches<T>(all: readonly T[], max: number, sizeOf: (row: T) => number = () => 1): Iterable<T[]> {
  let start = 0;
  let total = 0;
  for (const [index, row] of all.entries()) {
    const size = all.length === 1 ? 0 : sizeOf(row);
    total += size;
    if (total <= max || index === start) continue;
    yield all.slice(start, index);
    start = index;
    total = size;
  }
  if (start < all.length) yield all.slice(start);
}

/** A text as a pattern of `like … escape '!'` that matches only it. */
export const literalPattern = (text: string): string => text.replace(/[!%_]/g, '!$&');

export function whereBegins(query: Knex.QueryBuilder, column: string, text: string): void {
  query.whereRaw("?? like ? escape '!'", [column, `${literalPattern(text)}%`]);
}

/** Place of a query in lists. */
export interface QueryPlace {
  readonly created: number;
  readonly queryId: string;
}

/** Sorts queries from the newest on, and leaves out those up to a place. @param table its alias */
export function newestFirst(query: Knex.QueryBuilder, table: string, after: QueryPlace | null = null): void {
  const [created, id] = [`${table}.created`, `${table}.query_id`];
  query.orderBy([
    { column: created, order: 'desc' },
    { column: id, order: 'desc' },
  ]);
  if (after === null) return;
  query.where(created, '<=', after.created);
  query.where((older) => older.where(created, '<', after.created).orWhere(id, '<', after.queryId));
}

/** Narrows to times, in milliseconds: `from` inclusive, `to` exclusive. */
export function whereWithin(
  query: Knex.QueryBuilder,
  column: string,
  { from, to }: { readonly from?: number; readonly to?: number },
): void {
  if (from !== undefined) query.where(column, '>=', from);
  if (to !== undefined) query.where(column, '<', to);
}

/** Narrows to the values that are given. @param isPrefix true if their beginnings are enough */
export function whereGiven(
  query: Knex.QueryBuilder,
  columns: Readonly<Record<string, string | undefined>>,
  isPrefix: boolean,
): void {
  for (const [column, value] of Object.entries(columns)) {
    if (value === undefined) continue;
    if (isPrefix) whereBegins(query, column, value);
    else query.where(column, value);
  }
}

/** The same by the columns of a table's alias. */
export function prefixed<T>(table: string, columns: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(columns).map(([column, value]) => [`${table}.${column}`, value]));
}

/** Widths of `query_history` in characters (docs/compatibility.md#tables), and of eg_query_decisions. */
const WIDTH = 256;
const NARROW = 255;

/** A text that all three databases take: without NUL, lone surrogates replaced. */
export function storable(text: string): string {
  const clean = text.includes('\0') ? text.replaceAll('\0', '') : text;
  return clean.isWellFormed() ? clean : clean.toWellFormed();
}

/** The first `width` characters (code points, as databases count) of a storable text. */
export function cutToWidth<T extends string | null>(text: T, width: number): T | string {
  if (text === null) return text;
  const clean = storable(text);
  if (clean.length <= width) return clean;
  let end = 0;
  for (let count = 0; count < width && end < clean.length; count++) {
    end += (clean.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  }
  return clean.slice(0, end);
}

/** The longest start of the text of at most `bytes` bytes of UTF-8, no character cut in half. */
export function cutToBytes(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text;
  if (text.length <= bytes && Buffer.byteLength(text) <= bytes) return text;
  let end = 0;
  for (let used = 0; end < text.length; ) {
    const point = text.codePointAt(end) ?? 0;
    used += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (used > bytes) break;
    end += point > 0xffff ? 2 : 1;
  }
  return text.slice(0, end);
}

/** A record as columns take it. */
export interface FittedRecord
  extends Omit<QueryRecord, 'statement' | 'groups'>,
    Pick<Nullable<StatementColumns>, (typeof statementFields)[number]> {
  readonly rule: string | null;
  readonly gatewayQueuedMillis: number | null;
  /** As of `eg_query_outcomes`. */
  readonly groupSet: string | null;
}

/** Columns of `eg_query_decisions` of the statement. */
const statementFields = ['digest', 'exactDigest', 'tool', 'model', 'dashboard', 'replay'] as const;
type Nullable<T> = { readonly [K in keyof T]: T[K] | null };

export function fitRecord(record: QueryRecord, groupSet: string | null): FittedRecord {
  const columns = record.statement?.columns;
  return {
    queryId: cutToWidth(record.queryId, WIDTH),
    queryText: storable(record.queryText),
    user: cutToWidth(record.user, WIDTH),
    source: cutToWidth(record.source, WIDTH),
    backendUrl: cutToWidth(record.backendUrl, WIDTH),
    created: record.created,
    routingGroup: cutToWidth(record.routingGroup, NARROW),
    externalUrl: cutToWidth(record.externalUrl, NARROW),
    cluster: cutToWidth(record.cluster, WIDTH),
    decision: record.decision === null ? null : storable(record.decision),
    rule: cutToWidth(record.rule ?? null, WIDTH),
    gatewayQueuedMillis: record.gatewayQueuedMillis ?? null,
    groupSet,
    digest: columns?.digest ?? null,
    exactDigest: columns?.exactDigest ?? null,
    tool: columns?.tool ?? null,
    model: cutToWidth(columns?.model ?? null, WIDTH),
    dashboard: cutToWidth(columns?.dashboard ?? null, WIDTH),
    replay: columns?.replay == null ? null : storable(columns.replay),
  };
}

/** The text in ASCII, `?` in place of what ASCII lacks. */
export const asciiOf = (text: string): string => text.replace(/[^\t\n\r -~]/gu, '?');
