import type { PreparedTexts } from './preparedStatements.ts';
import {
  callsKillQuery,
  type NameDefaults,
  noNames,
  type ReferencedNames,
  referencedNames,
} from './referencedNames.ts';
import { resourceGroupQueryType } from './resourceGroupType.ts';
import { T } from './syntax/kinds.ts';
import { stringValue } from './syntax/literals.ts';
import { isSyntaxFailure, Parser, TOO_DEEP } from './syntax/parser.ts';
import { singleStatement } from './syntax/statements.ts';
import { MAX_TOKENS, releaseTokens } from './syntax/tokenBuffer.ts';

const { EOF, QUOTED_IDENTIFIER } = T;

/** What a statement is and refers to (docs/sql-analysis.md#what-is-found). */
export interface SqlAnalysis extends ReferencedNames {
  /** Class name of the statement in the engine's tree; "" when it has a syntax error. */
  readonly queryType: string;
  readonly resourceGroupQueryType: string;
  /** The text that was analysed: the prepared one where EXECUTE named it. */
  readonly body: string;
  /** The query that `CALL system.runtime.kill_query(…)` names; null for everything else. */
  readonly queryId: string | null;
}

/** What an analysis needs beside the text. */
export interface SqlContext extends NameDefaults {
  /** Prepared statements; only the one that is executed is looked up, once. */
  readonly prepared: PreparedTexts;
}

const NO_LITERAL_ID = 'Unable to route kill_query procedures where the first argument is not a String Literal';

/**
 * Analyses one statement, syntax only. Never throws: errors of the text are in `errorMessage`, as `line L:C: …` where the
 * engine's own parser would refuse it (columns count code points from 1, only a line feed ends a line).
 * @param text the statement, without a trailing semicolon
 */
export function analyzeSql(text: string, context: SqlContext): SqlAnalysis {
  try {
    const first = analyzeText(text, context, true);
    if (typeof first !== 'string') return first;
    return analyzeText(first, context, false) as SqlAnalysis;
  } finally {
    releaseTokens();
  }
}

/** The analysis of a text that was not analysed, with the reason. */
export function unanalyzed(text: string, errorMessage: string): SqlAnalysis {
  return analysisOf({ ...noNames, errorMessage }, '', '', text, null);
}

/** One statement's analysis; with `expand`, the text that EXECUTE runs instead. */
function analyzeText(text: string, context: SqlContext, expand: boolean): SqlAnalysis | string {
  const parser = new Parser(text);
  if (parser.tokens.isCut) return unanalyzed(text, `the statement has more than ${MAX_TOKENS} tokens`);
  try {
    singleStatement(parser);
  } catch (error) {
    if (error instanceof RangeError) parser.fail(0, TOO_DEEP);
    else if (!isSyntaxFailure(error)) throw error;
    return analysisOf({ ...noNames, errorMessage: errorText(parser) }, '', '', text, null);
  }
  const statement = parser.statement;
  if (expand && parser.executed >= 0 && (statement === 'Execute' || statement === 'ExecuteImmediate')) {
    if (statement === 'ExecuteImmediate') return stringValue(parser, parser.executed) ?? '';
    const prepared = context.prepared.get(originalName(parser, parser.executed));
    if (prepared === undefined) return analysisOf(noNames, statement, '', text, null);
    if (typeof prepared === 'string') return prepared;
    return analysisOf({ ...noNames, errorMessage: prepared.errorMessage }, '', '', text, null);
  }
  let names = referencedNames(parser, context);
  let queryId: string | null = null;
  if (names.errorMessage === null && callsKillQuery(parser, context)) {
    const token = parser.call.queryIdToken;
    queryId = token < 0 ? null : stringValue(parser, token);
    if (queryId === null) names = { ...names, errorMessage: NO_LITERAL_ID };
  }
  return analysisOf(names, statement, resourceGroupQueryType(statement, parser.analyzed), text, queryId);
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
function originalName(parser: Parser, token: number): string {
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
