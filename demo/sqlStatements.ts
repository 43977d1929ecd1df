import type { Catalogs, Table } from './catalogs.ts';
import { aggregating, type BindContext, type Bound, bind, type Column, compare, type Row } from './sqlExpressions.ts';
import { SqlParser } from './sqlParser.ts';
import {
  type Expression,
  mismatch,
  QueryError,
  type Relation,
  type Select,
  type Token,
  tokenize,
} from './sqlSyntax.ts';

/** What running a statement gives. */
export interface StatementResult {
  readonly columns?: readonly Column[];
  readonly rows: Iterable<Row>;
  /** e.g. `CREATE TABLE`; absent for queries. */
  readonly updateType?: string;
  /** Rows written. */
  readonly updateCount?: number;
  /** Response headers without the product's prefix, e.g. `Set-Catalog`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds that the statement runs before its first row. */
  readonly runMillis?: number;
}

export interface StatementContext {
  readonly catalogs: Catalogs;
  readonly catalog: string | undefined;
  readonly schema: string | undefined;
  readonly user: string;
  readonly now: Date;
  readonly version: string;
  /** Ends a query of this engine; false when it is not known. */
  readonly kill: (queryId: string, message: string) => boolean;
}

/** Longest run time that a client may ask of `slow`. */
const MAX_RUN_MILLIS = 600_000;

/** Parses and runs one statement. Throws QueryError. */
export function runStatement(text: string, context: StatementContext): StatementResult {
  const parser = new SqlParser(tokenize(text));
  if (parser.sees('select') || parser.sees('values') || parser.sees('table')) {
    const query = parser.query();
    parser.end();
    return select(query, context);
  }
  if (parser.takes('show')) return show(parser, context);
  if (parser.takes('use')) return use(parser, context);
  if (parser.takes('set', 'session')) return setSession(parser);
  if (parser.takes('create')) return create(parser, context);
  if (parser.takes('drop')) return drop(parser, context);
  if (parser.takes('insert', 'into')) return insert(parser, context);
  if (parser.takes('call')) return call(parser, context);
  throw mismatch(
    parser.peek(),
    "'CALL', 'CREATE', 'DROP', 'INSERT', 'SELECT', 'SET', 'SHOW', 'TABLE', 'USE', 'VALUES'",
  );
}

function varcharRows(name: string, values: readonly string[]): StatementResult {
  return { columns: [{ name, type: 'varchar' }], rows: values.map((value) => [value]) };
}

function show(parser: SqlParser, context: StatementContext): StatementResult {
  if (parser.takes('catalogs')) {
    parser.end();
    return varcharRows('Catalog', context.catalogs.names);
  }
  if (parser.takes('schemas')) {
    const catalog = parser.takes('from') || parser.takes('in') ? parser.identifier() : context.catalog;
    parser.end();
    if (catalog === undefined)
      throw new QueryError('NOT_SUPPORTED', 'Catalog must be specified when session catalog is not set');
    return varcharRows('Schema', schemasOf(catalog, context));
  }
  parser.expect('tables');
  const name = parser.takes('from') || parser.takes('in') ? parser.qualifiedName() : [];
  parser.end();
  const [catalog, schema] = resolve([...name, ''], context);
  schemasOf(catalog, context, schema);
  return varcharRows('Table', [...context.catalogs.tables(catalog).keys()].sort());
}

function schemasOf(catalog: string, context: StatementContext, schema?: string): readonly string[] {
  const schemas = context.catalogs.schemas(catalog);
  if (schemas === undefined) throw new QueryError('CATALOG_NOT_FOUND', `Catalog '${catalog}' not found`);
  if (schema !== undefined && !schemas.includes(schema)) {
    throw new QueryError('SCHEMA_NOT_FOUND', `Schema '${schema}' does not exist`);
  }
  return schemas;
}

/** Completes a table's name with the session's catalog and schema. */
function resolve(name: readonly string[], context: StatementContext): readonly [string, string, string] {
  const [table = '', schema = context.schema, catalog = context.catalog] = [...name].reverse();
  if (schema === undefined) {
    throw new QueryError('NOT_SUPPORTED', 'Schema must be specified when session schema is not set');
  }
  if (catalog === undefined) {
    throw new QueryError('NOT_SUPPORTED', 'Catalog must be specified when session catalog is not set');
  }
  return [catalog, schema, table];
}

function use(parser: SqlParser, context: StatementContext): StatementResult {
  const name = parser.qualifiedName();
  parser.end();
  const [catalog, schema] = resolve([...name, ''], context);
  schemasOf(catalog, context, schema);
  const headers = { ...(name.length > 1 ? { 'Set-Catalog': catalog } : {}), 'Set-Schema': schema };
  return { rows: [], updateType: 'USE', headers };
}

function setSession(parser: SqlParser): StatementResult {
  const name = parser.qualifiedName().join('.');
  parser.expect('=');
  const value = parser.expression();
  parser.end();
  if (value.kind !== 'literal') throw new QueryError('NOT_SUPPORTED', 'A session property is set to a literal');
  const headers = { 'Set-Session': `${name}=${encodeURIComponent(String(value.value))}` };
  return { rows: [], updateType: 'SET SESSION', headers };
}

/** `TABLE`, `SCHEMA` or `VIEW` and the name of a table in the catalog `memory`. */
function memoryTable(name: readonly string[], context: StatementContext): string {
  const [catalog, schema, table] = resolve(name, context);
  schemasOf(catalog, context, schema);
  if (catalog !== 'memory') throw new QueryError('NOT_SUPPORTED', 'This connector does not support this statement');
  return table;
}

function create(parser: SqlParser, context: StatementContext): StatementResult {
  parser.expect('table');
  const lenient = parser.takes('if', 'not', 'exists');
  const table = memoryTable(parser.qualifiedName(), context);
  const exists = context.catalogs.tables('memory').has(table);
  if (exists && !lenient)
    throw new QueryError('TABLE_ALREADY_EXISTS', `Table 'memory.default.${table}' already exists`);
  if (parser.takes('as')) {
    const query = parser.query();
    parser.end();
    const { columns = [], rows } = select(query, context);
    const stored = [...rows];
    if (!exists) context.catalogs.put(table, { columns, rows: stored });
    return written('CREATE TABLE', exists ? 0 : stored.length);
  }
  parser.expect('(');
  const columns = parser.list(() => ({ name: parser.identifier(), type: typeName(parser) }));
  parser.expect(')');
  parser.end();
  if (!exists) context.catalogs.put(table, { columns, rows: [] });
  return { rows: [], updateType: 'CREATE TABLE' };
}

function typeName(parser: SqlParser): string {
  const name = parser.identifier();
  if (!parser.takes('(')) return name;
  const args = parser.list(() => parser.next().text);
  parser.expect(')');
  return `${name}(${args.join(',')})`;
}

/** The result of a statement that writes rows: their number, as a count and as a row. */
function written(updateType: string, count: number): StatementResult {
  return { columns: [{ name: 'rows', type: 'bigint' }], rows: [[count]], updateType, updateCount: count };
}

function drop(parser: SqlParser, context: StatementContext): StatementResult {
  parser.expect('table');
  const lenient = parser.takes('if', 'exists');
  const name = parser.qualifiedName();
  parser.end();
  const table = memoryTable(name, context);
  if (!context.catalogs.drop(table) && !lenient) {
    throw new QueryError('TABLE_NOT_FOUND', `Table 'memory.default.${table}' does not exist`);
  }
  return { rows: [], updateType: 'DROP TABLE' };
}

function insert(parser: SqlParser, context: StatementContext): StatementResult {
  const token = parser.peek();
  const name = parser.qualifiedName();
  const query = parser.query();
  parser.end();
  const key = memoryTable(name, context);
  const table = tableOf(name, token, context);
  const { columns = [], rows } = select(query, context);
  if (columns.length !== table.columns.length) {
    throw new QueryError(
      'TYPE_MISMATCH',
      `Insert query has mismatched column types: ${table.columns.length} columns are needed`,
    );
  }
  const added = [...rows];
  context.catalogs.put(key, { columns: table.columns, rows: [...table.rows, ...added] });
  return written('INSERT', added.length);
}

/** `CALL system.runtime.kill_query(query_id => '…', message => '…')`, also with arguments by position. */
function call(parser: SqlParser, context: StatementContext): StatementResult {
  const token = parser.peek();
  const name = parser.qualifiedName().join('.');
  parser.expect('(');
  const byPosition = ['query_id', 'message'];
  const args = parser.list((): [string, Expression] => {
    const named = parser.peek().kind === 'word' && parser.peek(1).text === '=>';
    const key = named ? parser.identifier() : (byPosition.shift() ?? '');
    if (named) parser.expect('=>');
    return [key, parser.expression()];
  });
  parser.expect(')');
  parser.end();
  if (!['system.runtime.kill_query', 'runtime.kill_query', 'kill_query'].includes(name)) {
    throw new QueryError('NOT_FOUND', `line ${token.line}:${token.column}: Procedure not registered: ${name}`);
  }
  const constants = new Map(args.map(([key, value]) => [key, constant(value, context)]));
  const queryId = String(constants.get('query_id') ?? '');
  const message = constants.get('message');
  const reason = `Query killed${typeof message === 'string' ? `. Message: ${message}` : '.'}`;
  if (!context.kill(queryId, reason)) throw new QueryError('NOT_FOUND', `Target query not found: ${queryId}`);
  return { rows: [], updateType: 'CALL' };
}

function constant(expression: Expression, context: StatementContext) {
  return bind(expression, { columns: [], ...context }).of({ row: [], group: [] });
}

function tableOf(name: readonly string[], token: Token, context: StatementContext): Table {
  const [catalog, schema, table] = resolve(name, context);
  const where = `line ${token.line}:${token.column}: `;
  const schemas = context.catalogs.schemas(catalog);
  if (schemas === undefined) throw new QueryError('CATALOG_NOT_FOUND', `${where}Catalog '${catalog}' not found`);
  if (!schemas.includes(schema)) throw new QueryError('SCHEMA_NOT_FOUND', `${where}Schema '${schema}' does not exist`);
  const found = context.catalogs.tables(catalog).get(table);
  if (found === undefined) {
    throw new QueryError('TABLE_NOT_FOUND', `${where}Table '${catalog}.${schema}.${table}' does not exist`, {
      lineNumber: token.line,
      columnNumber: token.column,
    });
  }
  return found;
}

interface Source {
  readonly columns: readonly Column[];
  readonly rows: Iterable<Row>;
  readonly runMillis?: number;
}

function source(relation: Relation | undefined, context: StatementContext): Source {
  if (relation === undefined) return { columns: [], rows: [[]] };
  if (relation.kind === 'table') return tableOf(relation.name, relation.token, context);
  if (relation.kind === 'select') {
    const { columns = [], ...rest } = select(relation.query, context);
    return { columns, ...rest };
  }
  if (relation.kind === 'values') {
    const bound = relation.rows.map((row) => row.map((each) => bind(each, { columns: [], ...context })));
    const columns = (bound[0] ?? []).map((each, i) => ({ name: `_col${i}`, type: each.type }));
    return { columns, rows: bound.map((row) => row.map((each) => each.of({ row: [], group: [] }))) };
  }
  return tableFunction(relation, context);
}

/** `sequence(start => a, stop => b, step => c)` as in the engine, and `slow(seconds => n)`: one row after n seconds. */
function tableFunction(relation: Relation & { kind: 'function' }, context: StatementContext): Source {
  const number = (name: string, otherwise: number) => {
    const expression = relation.args.get(name);
    return expression === undefined ? otherwise : Number(constant(expression, context));
  };
  if (relation.name === 'sequence') {
    const columns = [{ name: 'sequential_number', type: 'bigint' }];
    return { columns, rows: sequence(number('start', 0), number('stop', 0), number('step', 1)) };
  }
  if (relation.name === 'slow') {
    const runMillis = Math.min(Math.max(number('seconds', 1) * 1000, 0), MAX_RUN_MILLIS);
    return { columns: [{ name: 'seconds', type: 'double' }], rows: [[runMillis / 1000]], runMillis };
  }
  const { line, column } = relation.token;
  throw new QueryError(
    'FUNCTION_NOT_FOUND',
    `line ${line}:${column}: Table function '${relation.name}' not registered`,
  );
}

/** A new pass over the numbers each time it is iterated. */
function sequence(start: number, stop: number, step: number): Iterable<Row> {
  if (step === 0) throw new QueryError('NOT_SUPPORTED', 'Step must be non-zero');
  return {
    *[Symbol.iterator]() {
      for (let n = start; step > 0 ? n <= stop : n >= stop; n += step) yield [n];
    },
  };
}

function select(query: Select, context: StatementContext): StatementResult {
  const from = source(query.from, context);
  const scope: BindContext = { columns: from.columns, ...context };
  const outputs = query.items.flatMap((item, i) => {
    if (item.expression === undefined)
      return from.columns.map((column) => ({ column, bound: columnOf(column, scope) }));
    const bound = bind(item.expression, scope);
    const name = item.alias ?? (item.expression.kind === 'column' ? item.expression.name : `_col${i}`);
    return [{ column: { name, type: bound.type }, bound }];
  });
  const where = query.where === undefined ? undefined : bind(query.where, scope);
  const columns = outputs.map((each) => each.column);
  const sorting = query.orderBy.map(({ expression, descending }) => ({
    descending,
    bound: orderKey(expression, outputs, scope),
  }));
  const keys = query.groupBy.map((each) => orderKey(each, outputs, scope));
  const grouped =
    keys.length > 0 || query.items.some((item) => item.expression !== undefined && aggregating(item.expression));

  function* rows(): Generator<Row> {
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    if (left === 0) return;
    for (const scopeRow of ordered()) {
      yield outputs.map((each) => each.bound.of(scopeRow));
      left -= 1;
      if (left === 0) return;
    }
  }
  function* filtered() {
    for (const row of from.rows) {
      const one = { row, group: [row] };
      if (where === undefined || where.of(one) === true) yield one;
    }
  }
  function groups() {
    const found = new Map<string, Row[]>();
    if (keys.length === 0) found.set('[]', []);
    for (const one of filtered()) {
      const key = JSON.stringify(keys.map((each) => each.of(one)));
      const group = found.get(key);
      if (group === undefined) found.set(key, [one.row]);
      else group.push(one.row);
    }
    return [...found.values()].map((group) => ({ row: group[0] ?? [], group }));
  }
  function ordered() {
    const scopes = grouped ? groups() : filtered();
    if (sorting.length === 0) return scopes;
    return [...scopes].sort((a, b) => {
      for (const { bound, descending } of sorting) {
        const order = compare(bound.of(a), bound.of(b));
        if (order !== 0) return descending ? -order : order;
      }
      return 0;
    });
  }
  const runMillis = from.runMillis;
  return { columns, rows: { [Symbol.iterator]: rows }, ...(runMillis === undefined ? {} : { runMillis }) };
}

function columnOf(column: Column, scope: BindContext): Bound {
  const index = scope.columns.indexOf(column);
  return { type: column.type, of: ({ row }) => row[index] ?? null };
}

/** An expression of ORDER BY or GROUP BY: a number is a position, a name may be an output's alias. */
function orderKey(
  expression: Expression,
  outputs: readonly { readonly column: Column; readonly bound: Bound }[],
  scope: BindContext,
): Bound {
  if (expression.kind === 'literal' && typeof expression.value === 'number') {
    const output = outputs[expression.value - 1];
    if (output === undefined) {
      throw new QueryError('COLUMN_NOT_FOUND', `Position ${expression.value} is not in select list`);
    }
    return output.bound;
  }
  const output = expression.kind === 'column' && outputs.find((each) => each.column.name === expression.name);
  return output ? output.bound : bind(expression, scope);
}
