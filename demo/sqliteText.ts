/** Rewrites a statement of the engine to one of SQLite, by the positions of names that the parser of the gateway gives. */
import { LAST_IDENTIFIER, T } from '../src/sql/syntax/kinds.ts';
import { NameRole, type Parser } from '../src/sql/syntax/parser.ts';
import { QueryError } from './queryError.ts';

/** Catalog and schema that complete a name, and the user. */
export interface NameContext {
  readonly catalog: string | undefined;
  readonly schema: string | undefined;
  readonly user: string;
}

export interface SqliteText {
  readonly sql: string;
  /** Qualified names of tables in the statement, in order; the first one is what a statement writes to. */
  readonly tables: readonly string[];
  /** Rows that its table functions return, multiplied. */
  readonly functionRows: number;
  /** Milliseconds that the statement runs before its first row. */
  readonly runMillis: number;
}

/** Longest run time that a client may ask of `slow`. */
const MAX_RUN_MILLIS = 600_000;
/** Words after a table's name that are not its alias, though they can be identifiers. */
const CLAUSE = /^(?:limit|offset|fetch|tablesample|match_recognize|for|window)$/i;

/** @param writes true if the first name is that of a table that the statement writes to */
export function toSqlite(parser: Parser, context: NameContext, writes: boolean): SqliteText {
  const { text, tokens, kinds, names } = parser;
  const startOf = (token: number) => tokens.starts[token] ?? text.length;
  const edits: { readonly start: number; readonly end: number; readonly text: string }[] = [];
  const tables: string[] = [];
  let functionRows = 1;
  let runMillis = 0;
  for (let i = 0; i < names.length; i += 3) {
    const [role, token = 0, parts = 0] = names.slice(i, i + 3);
    if (role === NameRole.table || role === NameRole.renamedTable) {
      const name = qualifiedName(parser, token, parts, context).join('.');
      const isTarget = writes && (tables.length === 0 || role === NameRole.renamedTable);
      tables.push(name);
      const end = tokens.ends[token + 2 * (parts - 1)] ?? text.length;
      edits.push({
        start: startOf(token),
        end,
        text: `${quoted(name)}${isTarget ? '' : aliasAfter(parser, token, parts)}`,
      });
      if (!isTarget && kinds[token - 1] === T.TABLE) {
        edits.push({ start: startOf(token - 1), end: startOf(token), text: 'SELECT * FROM ' });
      }
    } else if (role === NameRole.tableFunction) {
      const last = closing(parser, token - 1);
      const call = tableFunction(parser.identifierValue(token), text.slice(startOf(token), startOf(last)));
      edits.push({ start: startOf(token - 2), end: startOf(last) + 1, text: call.sql });
      functionRows *= call.rows;
      runMillis += call.runMillis;
    }
  }
  const query = parser.statement === 'CreateTableAsSelect' ? kinds.subarray(0, tokens.count).indexOf(T.AS) + 1 : 0;
  if (query > 0 && kinds[query] === T.LPAREN) {
    // SQLite takes the query after AS only without parentheses.
    for (const token of [query, closing(parser, query)])
      edits.push({ start: startOf(token), end: startOf(token) + 1, text: '' });
  }
  for (let token = 0; token < tokens.count; token += 1) {
    const value = sessionValue(kinds[token], context);
    if (value !== undefined) edits.push({ start: startOf(token), end: tokens.ends[token] ?? 0, text: value });
  }
  let sql = '';
  let position = 0;
  for (const edit of edits.sort((a, b) => a.start - b.start)) {
    sql += text.slice(position, edit.start) + edit.text;
    position = edit.end;
  }
  return { sql: sql + text.slice(position), tables, functionRows, runMillis };
}

/** Completes a table's name with the catalog and schema of the session. */
export function qualifiedName(
  parser: Parser,
  token: number,
  parts: number,
  { catalog, schema }: NameContext,
): readonly [catalog: string, schema: string, table: string] {
  const written = Array.from({ length: parts }, (_, i) => parser.identifierValue(token + 2 * i));
  const [table = '', inSchema = schema, inCatalog = catalog] = written.reverse();
  if (inSchema === undefined) {
    throw new QueryError('NOT_SUPPORTED', 'Schema must be specified when session schema is not set');
  }
  if (inCatalog === undefined) {
    throw new QueryError('NOT_SUPPORTED', 'Catalog must be specified when session catalog is not set');
  }
  return [inCatalog, inSchema, table];
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The table's own name as its alias, unless the statement gives one: SQLite has only the whole identifier. */
function aliasAfter(parser: Parser, token: number, parts: number): string {
  const after = token + 2 * parts - 1;
  const kind = parser.kinds[after] ?? T.EOF;
  const isAlias = kind === T.AS || (kind !== T.EOF && kind <= LAST_IDENTIFIER && !CLAUSE.test(parser.tokenText(after)));
  return isAlias ? '' : ` AS ${quoted(parser.identifierValue(after - 1))}`;
}

/** Returns the token of the parenthesis that closes the one at `open`. */
function closing(parser: Parser, open: number): number {
  let depth = 0;
  for (let token = open; token < parser.tokens.count; token += 1) {
    if (parser.kinds[token] === T.LPAREN) depth += 1;
    else if (parser.kinds[token] === T.RPAREN) depth -= 1;
    if (depth === 0) return token;
  }
  return parser.tokens.count;
}

/** `sequence(start => a, stop => b, step => c)` as in the engine, and `slow(seconds => n)`: one row after n seconds. */
function tableFunction(name: string, call: string): { sql: string; rows: number; runMillis: number } {
  const args = new Map<string, number>();
  const positions = name === 'slow' ? ['seconds'] : ['start', 'stop', 'step'];
  for (const [, argument, value] of call.slice(call.indexOf('(')).matchAll(/(?:(\w+)\s*=>\s*)?(-?[\d.]+)/g)) {
    args.set(argument?.toLowerCase() ?? positions[args.size] ?? '', Number(value));
  }
  if (name === 'slow') {
    const runMillis = Math.min(Math.max((args.get('seconds') ?? 1) * 1000, 0), MAX_RUN_MILLIS);
    return { sql: `(SELECT ${runMillis / 1000} AS seconds)`, rows: 1, runMillis };
  }
  const [start = 0, stop = 0, step = 1] = positions.map((each) => args.get(each));
  if (name !== 'sequence' || step === 0) {
    throw new QueryError(
      'NOT_SUPPORTED',
      "The demo's table functions are sequence, with a step other than 0, and slow",
    );
  }
  const more = `n ${step > 0 ? '<=' : '>='} ${stop}`;
  const sql = `(WITH RECURSIVE s (n) AS (SELECT ${start} UNION ALL SELECT n + ${step} FROM s WHERE ${more}) SELECT n AS sequential_number FROM s WHERE ${more})`;
  return { sql, rows: Math.max((stop - start) / step, 0) + 1, runMillis: 0 };
}

function sessionValue(kind: number | undefined, { user, catalog, schema }: NameContext): string | undefined {
  const text = (value: string | undefined) => (value === undefined ? 'NULL' : `'${value.replaceAll("'", "''")}'`);
  if (kind === T.CURRENT_USER) return text(user);
  if (kind === T.CURRENT_CATALOG) return text(catalog);
  return kind === T.CURRENT_SCHEMA ? text(schema) : undefined;
}
