/** Runs statements of a simulated engine: queries and writes in SQLite, the rest from a table of responses. */
import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { analyzeSql } from '../src/sql/analyzeSql.ts';
import type { PreparedTexts } from '../src/sql/preparedStatements.ts';
import { T } from '../src/sql/syntax/kinds.ts';
import { NameRole, Parser, stringValue } from '../src/sql/syntax/parser.ts';
import { singleStatement } from '../src/sql/syntax/statements.ts';
import {
  type Column,
  DatabaseQuery,
  inSqlite,
  type Row,
  type Rows,
  toSqliteValue,
  type Value,
} from './engineDatabase.ts';
import { QueryError } from './queryError.ts';
import { type NameContext, qualifiedName, type SqliteText, toSqlite } from './sqliteText.ts';
import { showQueries } from './tables.ts';
import { startWorkerQuery } from './workerQuery.ts';

/** What a statement returns. */
export interface StatementResult {
  readonly columns?: readonly Column[];
  /** Reads at most so many rows. @throws QueryError */
  readonly read?: (count: number) => Rows | Promise<Rows>;
  /** Ends a query that nobody reads further. */
  readonly close?: () => void;
  /** e.g. `CREATE TABLE`; missing for queries. */
  readonly updateType?: string;
  /** Rows written. */
  readonly updateCount?: number;
  /** Response headers without the product's prefix, e.g. `Set-Catalog`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds that the statement runs before its first row. */
  readonly runMillis?: number;
}

export interface StatementContext extends NameContext {
  readonly database: DatabaseSync;
  /** Prepared statements of the client, by name. */
  readonly prepared: PreparedTexts;
  /** Ends a query of this engine; false if it is unknown. */
  readonly kill: (queryId: string, message: string) => boolean;
  readonly version: string;
}

/** Rows that a query may go through in this thread, by the sizes of its tables: it blocks all engines of the process. */
const MAX_SHORT_ROWS = 100_000;
/** Rows that a statement may go through that writes. */
const MAX_WRITTEN_ROWS = 2_000_000;

/** Statements that write to a table of the catalog `memory`, by their names in the engine's tree. */
const writes: Readonly<Record<string, string>> = {
  CreateTable: 'CREATE TABLE',
  CreateTableAsSelect: 'CREATE TABLE',
  CreateView: 'CREATE VIEW',
  Insert: 'INSERT',
  Update: 'UPDATE',
  Delete: 'DELETE',
  RenameTable: 'RENAME TABLE',
  AddColumn: 'ADD COLUMN',
  DropTable: 'DROP TABLE',
  DropView: 'DROP VIEW',
};
const counted = new Set(['CreateTableAsSelect', 'Insert', 'Update', 'Delete']);

/** Parses and runs one statement. @throws QueryError */
export function runStatement(
  text: string,
  context: StatementContext,
  parameters: readonly Value[] = [],
): StatementResult | Promise<StatementResult> {
  const analysis = analyzeSql(text, { catalog: null, schema: null, prepared: new Map() });
  if (analysis.queryType === '' && analysis.errorMessage !== null) {
    throw new QueryError('SYNTAX_ERROR', analysis.errorMessage);
  }
  const parser = new Parser(text);
  singleStatement(parser);
  const { statement } = parser;
  const show = showQueries[statement];
  if (show !== undefined) return showResult(show, parser, context);
  if (statement === 'Query') return runQuery(toSqlite(parser, context, false), context, parameters);
  const updateType = writes[statement];
  if (updateType !== undefined) return write(updateType, parser, context, parameters);
  switch (statement) {
    case 'Execute':
    case 'ExecuteImmediate':
      return execute(parser, context);
    case 'Call':
      return call(parser, context);
    default:
      return sessionStatement(parser, context);
  }
}

/** USE, SET SESSION, PREPARE and the like: the client keeps what their headers state. */
function sessionStatement(parser: Parser, context: StatementContext): StatementResult {
  const { statement, names, text, tokens } = parser;
  const after = (token: number) => text.slice(tokens.starts[token]);
  const [, token = 0, parts = 0] = names;
  switch (statement) {
    case 'Use': {
      const [catalog, schema] = schemaOf(parser, token, parts, context);
      const headers = { ...(parts > 1 ? { 'Set-Catalog': catalog } : {}), 'Set-Schema': schema };
      return { updateType: 'USE', headers };
    }
    case 'CreateSchema':
      schemaOf(parser, token, parts, context);
      return { updateType: 'CREATE SCHEMA' };
    case 'SetSession': {
      const [, name = '', expression = ''] = /^([^=]*?)\s*=(.*)$/s.exec(after(2)) ?? [];
      const value = valuesOf(expression, context)[0];
      return { updateType: 'SET SESSION', headers: { 'Set-Session': `${name}=${encodeURIComponent(String(value))}` } };
    }
    case 'ResetSession':
      return { updateType: 'RESET SESSION', headers: { 'Clear-Session': after(2).trim() } };
    case 'Prepare': {
      const name = encodeURIComponent(identifier(parser, 1));
      return { updateType: 'PREPARE', headers: { 'Added-Prepare': `${name}=${encodeURIComponent(after(3))}` } };
    }
    case 'Deallocate':
      return {
        updateType: 'DEALLOCATE',
        headers: { 'Deallocated-Prepare': encodeURIComponent(identifier(parser, 2)) },
      };
    default:
      throw new QueryError(
        'NOT_SUPPORTED',
        `The demo's simulated engine does not run this kind of statement: ${statement}`,
      );
  }
}

function identifier(parser: Parser, token: number): string {
  const text = parser.tokenText(token);
  return text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text;
}

/** Values of a list of expressions. */
function valuesOf(expressions: string, { database }: StatementContext): Row {
  return new DatabaseQuery(database, `SELECT ${expressions}`, []).read(1).rows[0] ?? [];
}

/** The catalog and schema that a statement names or implies. @throws QueryError if they do not exist */
function schemaOf(parser: Parser, token: number, parts: number, context: StatementContext): readonly [string, string] {
  const [first = context.catalog, schema] = Array.from({ length: parts }, (_, i) =>
    parser.identifierValue(token + 2 * i),
  );
  const name = parts === 1 ? [context.catalog, first] : [first, schema ?? context.schema];
  if (name[0] === undefined) {
    throw new QueryError('NOT_SUPPORTED', 'Catalog must be specified when session catalog is not set');
  }
  if (name[1] === undefined) {
    throw new QueryError('NOT_SUPPORTED', 'Schema must be specified when session schema is not set');
  }
  requireSchema(name[0], name[1], context.database);
  return [name[0], name[1]];
}

function requireSchema(catalog: string, schema: string | undefined, database: DatabaseSync): void {
  const schemas = database.prepare('SELECT schema_name FROM schemas WHERE catalog_name = ?').all(catalog);
  if (schemas.length === 0) throw new QueryError('CATALOG_NOT_FOUND', `Catalog '${catalog}' not found`);
  if (schema === undefined || schemas.some(({ schema_name }) => schema_name === schema)) return;
  throw new QueryError('SCHEMA_NOT_FOUND', `Schema '${schema}' does not exist`);
}

/** @throws QueryError if there is no such table */
function requireTable(name: string, database: DatabaseSync): void {
  const [catalog = '', schema = ''] = name.split('.');
  requireSchema(catalog, schema, database);
  const row = database.prepare('SELECT 1 FROM names WHERE full_name = ?').get(name);
  if (row === undefined) throw new QueryError('TABLE_NOT_FOUND', `Table '${name}' does not exist`);
}

function showResult(sql: string, parser: Parser, context: StatementContext): StatementResult {
  const { names, kinds, tokens, statement } = parser;
  const [role, token = 0, parts = 0] = names;
  const like = kinds.subarray(0, tokens.count).indexOf(T.LIKE);
  const bound: Record<string, Value> = { pattern: like < 0 ? '%' : stringValue(parser, like + 1) };
  if (statement === 'ShowColumns') {
    bound.table = qualifiedName(parser, token, parts, context).join('.');
    requireTable(bound.table, context.database);
  } else if (statement === 'ShowTables') {
    [bound.catalog, bound.schema] = schemaOf(parser, token, parts, context) as [string, string];
  } else if (statement === 'ShowSchemas') {
    const catalog = role === NameRole.catalog ? parser.identifierValue(token) : context.catalog;
    if (catalog === undefined) {
      throw new QueryError('NOT_SUPPORTED', 'Catalog must be specified when session catalog is not set');
    }
    requireSchema(catalog, undefined, context.database);
    bound.catalog = catalog;
  }
  return resultOf(new DatabaseQuery(context.database, sql, bound));
}

/** Reads all rows immediately: an open query would lock its tables. */
function resultOf(query: DatabaseQuery): StatementResult {
  const { rows } = query.read(Number.POSITIVE_INFINITY);
  let position = 0;
  const read = (count: number) => {
    position += count;
    return { rows: rows.slice(position - count, position), isLast: position >= rows.length };
  };
  return { columns: query.columns, read };
}

function runQuery(
  { sql, tables, functionRows, runMillis }: SqliteText,
  { database, version }: StatementContext,
  parameters: readonly Value[],
): StatementResult | Promise<StatementResult> {
  for (const table of tables) requireTable(table, database);
  const isLong =
    /\brecursive\b/i.test(sql.replaceAll('(WITH RECURSIVE s (n)', '')) ||
    rowsOf(tables, functionRows, database) > MAX_SHORT_ROWS;
  if (isLong) return startWorkerQuery(database, version, sql, parameters);
  return { ...resultOf(new DatabaseQuery(database, sql, parameters)), runMillis };
}

/** The rows of all tables of a statement, multiplied. */
function rowsOf(tables: readonly string[], functionRows: number, database: DatabaseSync): number {
  return tables.reduce((product, table) => {
    const row = database.prepare(`SELECT count(*) AS n FROM "${table.replaceAll('"', '""')}"`).get();
    return product * Math.max(Number(row?.n), 1);
  }, functionRows);
}

function write(
  updateType: string,
  parser: Parser,
  { database, ...context }: StatementContext,
  parameters: readonly Value[],
): StatementResult {
  const { sql, tables, functionRows } = toSqlite(parser, context, true);
  const [target = '', ...others] = tables;
  requireSchema(target.split('.')[0] ?? '', target.split('.')[1], database);
  if (!target.startsWith('memory.')) {
    throw new QueryError('NOT_SUPPORTED', 'This connector does not support this statement');
  }
  const isGuarded = /\bif\s+exists\b/i.test(sql);
  if (!updateType.startsWith('CREATE') && !isGuarded) requireTable(target, database);
  if (updateType !== 'RENAME TABLE') for (const table of others) requireTable(table, database);
  if (rowsOf(updateType === 'RENAME TABLE' ? [] : others, functionRows, database) > MAX_WRITTEN_ROWS) {
    throw new QueryError(
      'NOT_SUPPORTED',
      `The demo's simulated engine writes at most ${MAX_WRITTEN_ROWS} rows at a time`,
    );
  }
  const { changes } = inSqlite(() => database.prepare(sql).run(...parameters.map(toSqliteValue)));
  if (!counted.has(parser.statement)) return { updateType };
  const count = updateType === 'CREATE TABLE' ? rowsOf([target], 1, database) : Number(changes);
  return {
    columns: [{ name: 'rows', type: 'bigint' }],
    read: () => ({ rows: [[count]], isLast: true }),
    updateType,
    updateCount: count,
  };
}

/** EXECUTE of a prepared statement or of a text, with the values of USING. */
function execute(parser: Parser, context: StatementContext): StatementResult | Promise<StatementResult> {
  const { executed, kinds, text, tokens } = parser;
  const name = identifier(parser, executed);
  const isText = parser.statement === 'ExecuteImmediate';
  const prepared = isText ? stringValue(parser, executed) : context.prepared.get(name);
  if (typeof prepared !== 'string') throw new QueryError('NOT_FOUND', `Prepared statement not found: ${name}`);
  const using = kinds.subarray(0, tokens.count).indexOf(T.USING, executed + 1);
  const values = using < 0 ? [] : valuesOf(text.slice(tokens.ends[using]), context);
  if (/^\s*execute\b/i.test(prepared)) throw new QueryError('NOT_SUPPORTED', 'EXECUTE of EXECUTE');
  return runStatement(prepared, context, values);
}

/** `CALL system.runtime.kill_query(query_id => '…', message => '…')`, also with arguments by position. */
function call(parser: Parser, context: StatementContext): StatementResult {
  const { nameToken, nameParts, queryIdToken } = parser.call;
  const names = Array.from({ length: nameParts }, (_, i) => parser.identifierValue(nameToken + 2 * i)).join('.');
  if (!'system.runtime.kill_query'.endsWith(names))
    throw new QueryError('NOT_FOUND', `Procedure not registered: ${names}`);
  const queryId = queryIdToken < 0 ? '' : (stringValue(parser, queryIdToken) ?? '');
  const { kinds, tokens } = parser;
  const messageToken = kinds
    .subarray(0, tokens.count)
    .findIndex((kind, token) => kind === T.STRING && token !== queryIdToken);
  const message = messageToken < 0 ? '.' : `. Message: ${stringValue(parser, messageToken)}`;
  if (!context.kill(queryId, `Query killed${message}`)) {
    throw new QueryError('NOT_FOUND', `Target query not found: ${queryId}`);
  }
  return { updateType: 'CALL' };
}

/** Open transactions; the oldest is forgotten beyond. */
const MAX_OPEN = 10_000;
const control = /^\s*(start\s+transaction|commit|rollback)\b[^;]*;?\s*$/i;

/** The transactions of an engine: they separate nothing, but are begun, used and ended as those of real engines. */
export class EngineTransactions {
  readonly #open = new Set<string>();

  /**
   * Runs a statement in its transaction.
   * @param id value of the header `Transaction-Id`; `NONE` or undefined outside of transactions
   * @param statement runs it, unless it begins or ends a transaction
   * @throws QueryError for a transaction that is not known, or none where one is needed
   */
  run(
    text: string,
    id: string | undefined,
    statement: () => StatementResult | Promise<StatementResult>,
  ): StatementResult | Promise<StatementResult> {
    const current = id === undefined || id === 'NONE' ? null : id;
    const word = control.exec(text)?.[1]?.toLowerCase() ?? null;
    if (word === 'rollback' && current !== null) return this.#end(current, 'ROLLBACK');
    if (current !== null && !this.#open.has(current)) {
      const hint = 'Possibly expired? Commands ignored until end of transaction block';
      throw new QueryError('UNKNOWN_TRANSACTION', `Unknown transaction ID: ${current}. ${hint}`);
    }
    if (word === null) return statement();
    if (word.startsWith('start')) {
      if (current !== null) throw new QueryError('NOT_SUPPORTED', 'Nested transactions not supported');
      return this.#start();
    }
    if (current === null) throw new QueryError('NOT_IN_TRANSACTION', 'No transaction in progress');
    return this.#end(current, 'COMMIT');
  }

  #start(): StatementResult {
    const id = randomUUID();
    this.#open.add(id);
    for (const oldest of this.#open) if (this.#open.size > MAX_OPEN) this.#open.delete(oldest);
    return { updateType: 'START TRANSACTION', headers: { 'Started-Transaction-Id': id } };
  }

  #end(id: string, updateType: string): StatementResult {
    this.#open.delete(id);
    return { updateType, headers: { 'Clear-Transaction-Id': 'true' } };
  }
}
