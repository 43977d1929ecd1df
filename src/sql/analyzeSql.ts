import type { PreparedTexts } from './preparedStatements.ts';
import {
  callsKillQuery,
  joinedNames,
  type NameDefaults,
  noNames,
  type ReferencedNames,
  referencedNames,
} from './referencedNames.ts';
import { resourceGroupQueryType } from './resourceGroupType.ts';
import { T } from './syntax/kinds.ts';
import { MAX_TOKENS, releaseTokens } from './syntax/lexer.ts';
import { stringValue } from './syntax/literals.ts';
import { isSyntaxFailure, Parser, TOO_DEEP } from './syntax/parser.ts';
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
