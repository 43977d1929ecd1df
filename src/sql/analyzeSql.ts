import {
  type PreparedStatements,
  type PreparedText,
  type PreparedTexts,
  preparedStatements,
} from './preparedStatements.ts';
import type { QualifiedName, QueryProperties } from './queryProperties.ts';
import { T } from './syntax/kinds.ts';
import { MAX_TOKENS, releaseTokens, tokenizeSql } from './syntax/lexer.ts';
import { isSyntaxFailure, NameRole, Parser, stringValue, TOO_DEEP } from './syntax/parser.ts';
import { singleStatement } from './syntax/statements.ts';

const { EOF, QUOTED_IDENTIFIER, STRING, UNICODE_STRING } = T;

/** Type and references of a statement (docs/sql-analysis.md#what-is-found). */
export interface SqlAnalysis extends ReferencedNames {
  /** Class name of the statement in the engine's tree; "" when it has a syntax error. */
  readonly queryType: string;
  readonly resourceGroupQueryType: string;
  /** The text that was analyzed: the prepared text if EXECUTE named it. */
  readonly body: string;
  /** The query that `CALL system.runtime.kill_query(…)` names; null for any other statement. */
  readonly queryId: string | null;
  /** Reason that it is not certain what the engine runs (`QueryProperties.unreadable`); undefined if it is. */
  readonly unreadable?: string | undefined;
}

/** Inputs of an analysis in addition to the text. */
export interface SqlContext extends NameDefaults {
  /** Prepared statements; only those that are executed, explained or described are looked up. */
  readonly prepared: PreparedTexts;
}

const NOT_PREPARED = 'the request does not have the prepared statement that it names';
const TOO_MANY_FOLLOWED = 'prepared statements that explain or describe each other are nested too deep';
const NO_LITERAL_ID = 'Unable to route kill_query procedures where the first argument is not a String Literal';

/** Maximum depth of prepared statements and texts of EXECUTE IMMEDIATE that refer to each other. */
const MAX_FOLLOWED = 10;

/** Analysis of one text, and the statement that it runs, explains or describes. */
interface TextAnalysis {
  readonly analysis: SqlAnalysis;
  /** Text of that statement; null for none. */
  readonly inner: string | null;
  /** True for EXECUTE itself: the statement takes its place. */
  readonly isReplaced: boolean;
}

/**
 * Analyzes one statement, syntax only. Never throws: errors of the text are in `errorMessage`, as `line L:C: …` where
 * the engine's own parser would reject it (columns count code points from 1, only a line feed ends a line).
 *
 * Follows EXECUTE as the engine does: the text of an EXECUTE is not executed again, but may explain or describe another
 * statement.
 * @param text the statement, without a trailing semicolon
 */
export function analyzeSql(text: string, context: SqlContext): SqlAnalysis {
  try {
    let outer: SqlAnalysis | null = null;
    let step = analyzeText(text, context, true);
    for (let steps = 0; step.inner !== null; steps += 1) {
      if (steps === MAX_FOLLOWED) return { ...(outer ?? step.analysis), unreadable: TOO_MANY_FOLLOWED };
      if (!step.isReplaced) outer = withNames(outer, step.analysis);
      step = analyzeText(step.inner, context, false);
    }
    return withNames(outer, step.analysis);
  } finally {
    releaseTokens();
  }
}

/**
 * True if a statement only reads, so that it may run again: a query without table functions, which may run statements in
 * other systems.
 */
export function isRead({ queryType, errorMessage, unreadable, body }: QueryProperties): boolean {
  if (queryType !== 'Query' || errorMessage !== null || unreadable !== undefined) return false;
  try {
    const parser = new Parser(body);
    singleStatement(parser);
    return parser.names.every((role, index) => index % 3 !== 0 || role !== NameRole.tableFunction);
  } catch {
    return false;
  } finally {
    releaseTokens();
  }
}

/** Adds the names of the explained or described statement to an analysis. */
function withNames(outer: SqlAnalysis | null, inner: SqlAnalysis): SqlAnalysis {
  if (outer === null) return inner;
  return { ...outer, ...joinedNames(outer, inner), unreadable: outer.unreadable ?? inner.unreadable };
}

export function unanalyzed(errorMessage: string): SqlAnalysis {
  return analysisOf({ ...noNames, errorMessage }, '', '', '', null);
}

/** @param executes true if EXECUTE is followed, and not only what is explained or described */
function analyzeText(text: string, context: SqlContext, executes: boolean): TextAnalysis {
  const parser = new Parser(text);
  if (parser.tokens.isCut) return only(unanalyzed(`the statement has more than ${MAX_TOKENS} tokens`));
  try {
    singleStatement(parser);
  } catch (error) {
    if (error instanceof RangeError) parser.fail(0, TOO_DEEP);
    else if (!isSyntaxFailure(error)) throw error;
    return only(analysisOf({ ...noNames, errorMessage: errorText(parser) }, '', '', text, null));
  }
  const { statement, executed } = parser;
  const isReplaced = statement === 'Execute' || statement === 'ExecuteImmediate';
  const isFollowed = executed >= 0 && statement !== 'Prepare' && (executes || !isReplaced);
  const inner = isFollowed ? innerText(parser, executed, context) : null;
  const unknown = typeof inner === 'string' ? null : inner;
  const innerNames: ReferencedNames = { ...noNames, errorMessage: unknown?.errorMessage ?? null };
  const step = { inner: typeof inner === 'string' ? inner : null, isReplaced: isReplaced && isFollowed };
  if (step.isReplaced) {
    return {
      ...step,
      analysis: { ...analysisOf(innerNames, statement, '', text, null), unreadable: unknown?.unreadable },
    };
  }
  let names = referencedNames(parser, context);
  if (innerNames.errorMessage !== null) names = joinedNames(names, innerNames);
  let queryId: string | null = null;
  if (names.errorMessage === null && callsKillQuery(parser, context)) {
    const token = parser.call.queryIdToken;
    queryId = token < 0 ? null : stringValue(parser, token);
    if (queryId === null) names = { ...names, errorMessage: NO_LITERAL_ID };
  }
  const groupType = resourceGroupQueryType(statement, parser.analyzed);
  const analysis = analysisOf(names, statement, groupType, text, queryId);
  return { ...step, analysis: unknown === null ? analysis : { ...analysis, unreadable: unknown.unreadable } };
}

function only(analysis: SqlAnalysis): TextAnalysis {
  return { analysis, inner: null, isReplaced: false };
}

/** Returns the text of a name or string, or the reason that it is not known. */
function innerText(
  parser: Parser,
  token: number,
  { prepared }: SqlContext,
): string | { readonly errorMessage: string | null; readonly unreadable: string } {
  if (parser.kinds[token] === STRING || parser.kinds[token] === UNICODE_STRING) return stringValue(parser, token) ?? '';
  const text = prepared.get(originalName(parser, token));
  if (typeof text === 'string') return text;
  const errorMessage = text?.errorMessage ?? null;
  return { errorMessage, unreadable: errorMessage ?? NOT_PREPARED };
}

function analysisOf(
  names: ReferencedNames,
  queryType: string,
  resourceGroup: string,
  body: string,
  queryId: string | null,
): SqlAnalysis {
  return {
    errorMessage: names.errorMessage,
    tables: names.tables,
    catalogs: names.catalogs,
    schemas: names.schemas,
    catalogSchemas: names.catalogSchemas,
    queryType,
    resourceGroupQueryType: resourceGroup,
    body,
    queryId,
  };
}

/** Value of an identifier as written; only names of prepared statements keep their case. */
export function originalName(parser: Parser, token: number): string {
  const text = parser.tokenText(token);
  return parser.kinds[token] === QUOTED_IDENTIFIER ? text.slice(1, -1).replaceAll('""', '"') : text;
}

function errorText(parser: Parser): string {
  const offset = parser.tokens.starts[parser.errorToken] as number;
  const lineStart = offset === 0 ? 0 : parser.text.lastIndexOf('\n', offset - 1) + 1;
  let line = 1;
  for (let at = parser.text.indexOf('\n'); at >= 0 && at < offset; at = parser.text.indexOf('\n', at + 1)) line += 1;
  let column = 1;
  for (let at = lineStart; at < offset; at += 1) {
    const unit = parser.text.charCodeAt(at);
    // The second half of a pair is no code point of its own.
    const next = parser.text.charCodeAt(at + 1);
    if (unit >= 0xd800 && unit <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) at += 1;
    column += 1;
  }
  const position = parser.errorMessage === TOO_DEEP ? '1:1' : `${line}:${column}`;
  return `line ${position}: ${parser.errorMessage === '' ? mismatch(parser) : parser.errorMessage}`;
}

/** Longest text of a token that a message repeats. */
const SHOWN_TOKEN = 100;

function mismatch(parser: Parser): string {
  const token = parser.errorToken;
  const text = parser.kinds[token] === EOF ? '<EOF>' : parser.tokenText(token);
  return `mismatched input '${text.length > SHOWN_TOKEN ? `${text.slice(0, SHOWN_TOKEN)}…` : text}'`;
}

/** Defaults that complete names; null if the client sent none. */
export interface NameDefaults {
  readonly catalog: string | null;
  readonly schema: string | null;
}

/** Names in a statement: lower case, sorted by UTF-16 units, each once. */
export interface ReferencedNames {
  /**
   * Set if a name cannot be completed or has too many parts. All lists are empty then, except for the name of a table
   * function: the engine finds built-in functions without defaults.
   */
  readonly errorMessage: string | null;
  /** Three parts each, sorted by their text joined with dots. */
  readonly tables: readonly QualifiedName[];
  readonly catalogs: readonly string[];
  readonly schemas: readonly string[];
  readonly catalogSchemas: readonly string[];
}

const none: readonly string[] = [];
export const noNames: ReferencedNames = {
  errorMessage: null,
  tables: [],
  catalogs: none,
  schemas: none,
  catalogSchemas: none,
};

const NOT_QUALIFIED = 'Name not fully qualified';
const EMPTY = 'Identifier cannot be empty or null';

/** Completes the names that a parse found. The first one that cannot be completed decides. */
export function referencedNames(parser: Parser, defaults: NameDefaults): ReferencedNames {
  const parsed = parser.names;
  if (parsed.length === 0) return noNames;
  const catalog = defaults.catalog === null ? null : defaults.catalog.toLowerCase();
  const schema = defaults.schema === null ? null : defaults.schema.toLowerCase();
  const tables = new DistinctTables();
  const catalogs = new DistinctTexts();
  const schemas = new DistinctTexts();
  const catalogSchemas = new DistinctTexts();
  const addSchema = (inCatalog: string, name: string): void => {
    catalogs.add(inCatalog);
    schemas.add(name);
    catalogSchemas.add(`${inCatalog}.${name}`);
  };
  let errorMessage: string | null = null;
  let renamedIn: string | null = null;
  let lastCatalog = catalog;
  for (let i = 0; i < parsed.length; i += 3) {
    const role = parsed[i] as number;
    const token = parsed[i + 1] as number;
    const parts = parsed[i + 2] as number;
    const part = (index: number): string => parser.identifierValue(token + 2 * index);
    switch (role) {
      case NameRole.table:
      case NameRole.tableFunction:
      case NameRole.column:
      case NameRole.procedure:
      case NameRole.renamedTable: {
        const count = role === NameRole.column ? parts - 1 : parts;
        if (count === 0) break;
        const inCatalog = role === NameRole.renamedTable ? lastCatalog : catalog;
        const name = completed(count, part, inCatalog, schema);
        if (typeof name === 'string') {
          if (role !== NameRole.tableFunction) return failed(name);
          errorMessage ??= name;
          break;
        }
        if (role === NameRole.procedure) break;
        lastCatalog = name[0] as string;
        if (tables.add(name)) addSchema(name[0] as string, name[1] as string);
        break;
      }
      case NameRole.schema: {
        renamedIn = parts > 1 ? part(0) : catalog;
        if (parts > 2) break;
        if (renamedIn === null) return failed(NOT_QUALIFIED);
        addSchema(renamedIn, part(parts - 1));
        break;
      }
      case NameRole.renamedSchema:
        if (renamedIn === null) return failed(NOT_QUALIFIED);
        if (renamedIn === '') return failed(EMPTY);
        addSchema(renamedIn, part(0));
        break;
      case NameRole.catalog:
        catalogs.add(part(0));
        break;
      case NameRole.defaultSchema:
        if (catalog === null || schema === null) return failed(NOT_QUALIFIED);
        addSchema(catalog, schema);
        break;
      default:
        if (catalog === null) return failed(NOT_QUALIFIED);
        catalogs.add(catalog);
    }
  }
  return {
    errorMessage,
    tables: tables.sorted(),
    catalogs: catalogs.sorted(),
    schemas: schemas.sorted(),
    catalogSchemas: catalogSchemas.sorted(),
  };
}

/** Returns the name with three parts, or the error message. */
function completed(
  count: number,
  part: (index: number) => string,
  catalog: string | null,
  schema: string | null,
): QualifiedName | string {
  if (count === 3) return [part(0), part(1), part(2)];
  if (count > 3) return `Unexpected qualified name: [${Array.from({ length: count }, (_, i) => part(i)).join(', ')}]`;
  if (catalog === null || (count === 1 && schema === null)) return NOT_QUALIFIED;
  if (catalog === '' || (count === 1 && schema === '')) return EMPTY;
  return count === 2 ? [catalog, part(0), part(1)] : [catalog, schema as string, part(0)];
}

/** Merges the names of two statements and keeps the first error. */
export function joinedNames(one: ReferencedNames, other: ReferencedNames): ReferencedNames {
  const tables = new DistinctTables();
  for (const table of [...one.tables, ...other.tables]) tables.add(table);
  const texts = (list: 'catalogs' | 'schemas' | 'catalogSchemas'): readonly string[] => {
    const distinct = new DistinctTexts();
    for (const text of [...one[list], ...other[list]]) distinct.add(text);
    return distinct.sorted();
  };
  return {
    errorMessage: one.errorMessage ?? other.errorMessage,
    tables: tables.sorted(),
    catalogs: texts('catalogs'),
    schemas: texts('schemas'),
    catalogSchemas: texts('catalogSchemas'),
  };
}

function failed(errorMessage: string): ReferencedNames {
  return { ...noNames, errorMessage };
}

/** True if the procedure that a CALL names is `system.runtime.kill_query`, its name completed with the defaults. */
export function callsKillQuery(parser: Parser, defaults: NameDefaults): boolean {
  const { nameToken, nameParts } = parser.call;
  if (nameToken < 0) return false;
  const name = completed(
    nameParts,
    (index) => parser.identifierValue(nameToken + 2 * index),
    defaults.catalog === null ? null : defaults.catalog.toLowerCase(),
    defaults.schema === null ? null : defaults.schema.toLowerCase(),
  );
  return typeof name !== 'string' && name[0] === 'system' && name[1] === 'runtime' && name[2] === 'kill_query';
}

/** Up to this number of names, a linear search is cheaper than a set; most statements name fewer. */
const SEARCHED = 8;

export class DistinctTexts {
  readonly #texts: string[] = [];
  #set: Set<string> | null = null;

  add(text: string): void {
    const texts = this.#texts;
    if (this.#set === null) {
      if (texts.includes(text)) return;
      texts.push(text);
      if (texts.length > SEARCHED) this.#set = new Set(texts);
    } else if (!this.#set.has(text)) {
      this.#set.add(text);
      texts.push(text);
    }
  }

  /** Sorts by UTF-16 units. Call it after the last text was added. */
  sorted(): readonly string[] {
    return sorted(this.#texts, compare);
  }
}

export class DistinctTables {
  readonly #tables: QualifiedName[] = [];
  #keys: Set<string> | null = null;

  add(table: QualifiedName): boolean {
    const tables = this.#tables;
    if (this.#keys === null) {
      for (const other of tables) {
        if (other[2] === table[2] && other[1] === table[1] && other[0] === table[0]) return false;
      }
      tables.push(table);
      if (tables.length > SEARCHED) this.#keys = new Set(tables.map(keyOf));
      return true;
    }
    const key = keyOf(table);
    if (this.#keys.has(key)) return false;
    this.#keys.add(key);
    tables.push(table);
    return true;
  }

  /** Sorts by the UTF-16 units of the parts joined with dots. */
  sorted(): readonly QualifiedName[] {
    return sorted(this.#tables, byJoinedText);
  }
}

/** Parts may contain dots, so the joined text is not unique. */
function keyOf(table: QualifiedName): string {
  return JSON.stringify(table);
}

/** Compares like the parts joined with dots; joins them only if that can matter. */
function byJoinedText(a: QualifiedName, b: QualifiedName): number {
  for (let part = 0; part < 3; part += 1) {
    const [one, other] = [a[part] as string, b[part] as string];
    if (one === other) continue;
    // Of a part that begins the other one, the dot after it is compared with what follows there.
    if (part < 2 && (one.startsWith(other) || other.startsWith(one))) return compare(a.join('.'), b.join('.'));
    return compare(one, other);
  }
  return 0;
}

/** Sorts in place. Uses insertion sort for a few items, because the built-in sort copies them first. */
function sorted<T>(items: T[], order: (a: T, b: T) => number): readonly T[] {
  if (items.length > SEARCHED) return items.sort(order);
  for (let next = 1; next < items.length; next += 1) {
    const item = items[next] as T;
    let at = next;
    for (; at > 0 && order(items[at - 1] as T, item) > 0; at -= 1) items[at] = items[at - 1] as T;
    items[at] = item;
  }
  return items;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The engine's resource group query type of a statement, by the class name of its tree. */
const types: ReadonlyMap<string, string> = new Map([
  ['Query', 'SELECT'],
  ['Explain', 'EXPLAIN'],
  ['DescribeInput', 'DESCRIBE'],
  ['DescribeOutput', 'DESCRIBE'],
  ['Insert', 'INSERT'],
  ['CreateTableAsSelect', 'INSERT'],
  ['RefreshMaterializedView', 'INSERT'],
  ['Update', 'UPDATE'],
  ['Delete', 'DELETE'],
  ['Merge', 'MERGE'],
  ['Analyze', 'ANALYZE'],
  ['TableExecute', 'ALTER_TABLE_EXECUTE'],
  ['Execute', 'UNKNOWN'],
  ['ExecuteImmediate', 'UNKNOWN'],
]);

/**
 * Returns the resource group query type, e.g. `SELECT`, `DATA_DEFINITION`.
 * @param statement class name, e.g. `ShowTables`
 * @param analyzed class name of the statement that EXPLAIN ANALYZE runs; "" for all others
 */
export function resourceGroupQueryType(statement: string, analyzed = ''): string {
  if (statement === 'ExplainAnalyze') return resourceGroupQueryType(analyzed);
  return types.get(statement) ?? (statement.startsWith('Show') ? 'DESCRIBE' : 'DATA_DEFINITION');
}

/** Header lines with prepared statements, and limits for decoding them. */
export interface PreparedLines {
  readonly lines: readonly string[];
  /** Maximum number of bytes to decode for the request. */
  readonly maxBytes: number;
  /** Statements of this many characters or more are not analyzed (`maxBodySize`). */
  readonly maxCharacters: number;
}

/** A statement and the inputs of its analysis, in a form that can be sent to another thread. */
export interface StatementTask {
  readonly text: string;
  readonly catalog: string | null;
  readonly schema: string | null;
  /** Prepared statements: of the headers, or texts by name. */
  readonly prepared: PreparedLines | ReadonlyMap<string, string>;
}

export function taskCharacters({ text, prepared }: StatementTask): number {
  let characters = text.length;
  for (const statement of 'lines' in prepared ? prepared.lines : prepared.values()) characters += statement.length;
  return characters;
}

export function analyzeTask(task: StatementTask): SqlAnalysis {
  return analyzeWith(task, preparedOf(task.prepared));
}

/**
 * Analyzes a statement, unless the prepared statements that it names are long: then `long` is the task for another
 * thread.
 * @param longest maximum number of characters of prepared statements that are analyzed here
 */
export function analyzeShort(task: StatementTask, longest: number): SqlAnalysis | { readonly long: StatementTask } {
  let characters = 0;
  const prepared = preparedOf(task.prepared, (text) => {
    characters += text.length;
    return characters <= longest ? text : { errorMessage: 'long' };
  });
  const analysis = analyzeWith(task, prepared);
  return characters > longest ? { long: task } : analysis;
}

function analyzeWith({ text, catalog, schema }: StatementTask, prepared: PreparedStatements): SqlAnalysis {
  const { statements, errorMessage } = prepared;
  if (statements === null) return { ...unanalyzed(errorMessage), body: text, unreadable: errorMessage };
  const analysis = analyzeSql(text, { catalog, schema, prepared: statements });
  return errorMessage === null ? analysis : { ...analysis, errorMessage, unreadable: errorMessage };
}

/** @param bounded returns the text of a prepared statement, or the reason that it is not analyzed */
function preparedOf(
  prepared: StatementTask['prepared'],
  bounded: (text: string) => PreparedText = (text) => text,
): PreparedStatements {
  if (!('lines' in prepared)) return { statements: prepared, errorMessage: null };
  const { lines, maxBytes, maxCharacters } = prepared;
  const read = preparedStatements(lines, maxBytes);
  const { statements } = read;
  if (statements === null) return read;
  const get = (name: string): PreparedText => {
    const text = statements.get(name);
    if (typeof text !== 'string') return text;
    if (text.length < maxCharacters) return bounded(text);
    const limit = `${maxCharacters} characters or more (requestAnalyzerConfig.maxBodySize)`;
    return { errorMessage: `preparedStatement has ${limit}` };
  };
  return { ...read, statements: { get } };
}

/** True if a statement has ORDER BY outside of parentheses: its rows have an order. */
export function isOrdered(text: string): boolean {
  try {
    const { kinds, count } = tokenizeSql(text);
    let depth = 0;
    for (let at = 0; at < count; at++) {
      if (kinds[at] === T.LPAREN) depth += 1;
      else if (kinds[at] === T.RPAREN) depth -= 1;
      else if (depth === 0 && kinds[at] === T.ORDER && kinds[at + 1] === T.BY) return true;
    }
    return false;
  } finally {
    releaseTokens();
  }
}
