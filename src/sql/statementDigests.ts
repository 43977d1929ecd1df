import { noEstimate, type SizeEstimate } from '../model/sizeEstimates.ts';
import { originalName } from './analyzeSql.ts';
import type { PreparedTexts } from './preparedStatements.ts';
import type { QueryProperties } from './queryProperties.ts';
import { keywords, LAST_IDENTIFIER, T } from './syntax/kinds.ts';
import { releaseTokens, type TokenBuffer, tokenizeSql } from './syntax/lexer.ts';
import { Parser, stringValue } from './syntax/parser.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ALL, ARROW, ASTERISK, AT_SIGN, BACKQUOTED_IDENTIFIER, BAR, BINARY_LITERAL, CARET, COLON, COMMA, CONCAT, CURRENT_CATALOG,
  CURRENT_DATE, CURRENT_PATH, CURRENT_ROLE, CURRENT_SCHEMA, CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_USER,
  DIGIT_IDENTIFIER, DOLLAR, DOT, DOUBLE_ARROW, DOUBLE_COLON, DOUBLE_VALUE, END, EOF, EQ, EXECUTE, FALSE, FIRST,
  GT, GTE, IDENTIFIER, IMMEDIATE, IN, INTEGER_VALUE, INTERVAL, IS, LBRACE, LBRACKET, LEXCLUDE, LIMIT, LOCALTIME,
  LOCALTIMESTAMP, LPAREN, LT, LTE, MINUS, NEQ, NEXT, NOT, NULL, OFFSET, ON, PERCENT, PLUS, QUESTION_MARK, QUOTED_IDENTIFIER,
  RBRACE, RBRACKET, REXCLUDE, RPAREN, SEMICOLON, SLASH, STRING, TRUE, UESCAPE, UNICODE_STRING, UNRECOGNIZED, USING, VALUES,
} = T;

/** Digests of a statement: 64 bits each as 16 hexadecimal characters, stable between releases (docs/digests.md#digests). */
export interface StatementDigests {
  /** Of the tokens, without white space, comments and letter case of keywords and unquoted names. */
  readonly exact: string;
  /** Of the tokens without literals; lists of IN and rows of VALUES count once. */
  readonly shape: string;
  /** The statement that the engine runs: that of an EXECUTE if it is known, else the text itself. */
  readonly text: string;
  /** True if `text` is the statement of an EXECUTE. */
  readonly isResolved: boolean;
}

/** Text of each keyword and sign by kind; "" for kinds with texts that differ. */
const texts: string[] = Array.from({ length: UNRECOGNIZED + 1 }, () => '');
for (const [word, kind] of keywords) texts[kind] = word;
// biome-ignore format: a line for each sign.
const signs = [
  EQ, NEQ, LT, LTE, GT, GTE, PLUS, MINUS, ASTERISK, SLASH, PERCENT, CONCAT, QUESTION_MARK, SEMICOLON, DOT, LPAREN, RPAREN,
  COMMA, AT_SIGN, DOUBLE_ARROW, DOUBLE_COLON, ARROW, LBRACKET, RBRACKET, COLON, BAR, CARET, DOLLAR, LEXCLUDE, REXCLUDE, LBRACE,
  RBRACE,
];
for (const [place, sign] of '= <> < <= > >= + - * / % || ? ; . ( ) , @ => :: -> [ ] : | ^ $ {- -} { }'
  .split(' ')
  .entries()) {
  texts[signs[place] as number] = sign;
}

const isNumber = (kind: number): boolean => kind >= INTEGER_VALUE && kind <= DOUBLE_VALUE;
/** Classes by kind: 1 for literals, 2 for the end of an operand, after which `-` subtracts. */
const LITERAL = 1;
const OPERAND = 2;
const classes = new Uint8Array(UNRECOGNIZED + 1);
for (let kind = STRING; kind <= DOUBLE_VALUE; kind += 1) classes[kind] = LITERAL | OPERAND;
for (const kind of [TRUE, FALSE, NULL, QUESTION_MARK]) classes[kind] = LITERAL | OPERAND;
for (let kind = IDENTIFIER; kind <= LAST_IDENTIFIER; kind += 1) classes[kind] = OPERAND;
for (const kind of [FIRST, INTERVAL, LIMIT, NEXT, OFFSET]) classes[kind] = 0;
// biome-ignore format: a line for each name.
for (const kind of [
  CURRENT_CATALOG, CURRENT_DATE, CURRENT_PATH, CURRENT_ROLE, CURRENT_SCHEMA, CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_USER, END,
  LOCALTIME, LOCALTIMESTAMP, RBRACKET, RPAREN,
]) {
  classes[kind] = OPERAND;
}

/** Two lanes of 32 bits, with multipliers that differ. */
const SEED_A = 0x9e3779b1 | 0;
const SEED_B = 0x85ebca77 | 0;
const PRIME_A = 0x01000193;
const PRIME_B = 0x27d4eb2f;
/** Starts of the hashes of tokens, by what they are: a word, a quoted name, a string. */
const WORD_TAG = 1;
const SIGN_TAG = 2;
const QUOTED_TAG = 3;
const LITERAL_TAG = 4;

/** Hash of the token hashed last, in two lanes (avoids an object for each token). */
let tokenA = 0;
let tokenB = 0;

/** Hashes characters. @param fold 32 ignores the case of ASCII letters in words and numbers; 0 keeps all characters */
function hashCharacters(text: string, start: number, end: number, tag: number, fold: number): void {
  let a = SEED_A ^ tag;
  let b = SEED_B ^ tag;
  for (let at = start; at < end; at += 1) {
    const c = text.charCodeAt(at) | fold;
    a = Math.imul(a ^ c, PRIME_A);
    b = Math.imul(b ^ c, PRIME_B);
  }
  tokenA = a ^ (a >>> 15);
  tokenB = b ^ (b >>> 13);
}

/** Hashes of keywords and signs by kind. */
const knownA = new Int32Array(UNRECOGNIZED + 1);
const knownB = new Int32Array(UNRECOGNIZED + 1);
for (const [kind, text] of texts.entries()) {
  const isWord = /^[A-Z]/.test(text);
  hashCharacters(text, 0, text.length, isWord ? WORD_TAG : SIGN_TAG, isWord ? 32 : 0);
  knownA[kind] = tokenA;
  knownB[kind] = tokenB;
}
const isKnown = Uint8Array.from(texts, (text) => (text === '' ? 0 : 1));

function hashToken(text: string, tokens: TokenBuffer, token: number, kind: number): void {
  const start = tokens.starts[token] as number;
  const end = tokens.ends[token] as number;
  if (kind === IDENTIFIER || kind === DIGIT_IDENTIFIER) hashCharacters(text, start, end, WORD_TAG, 32);
  else if (kind === QUOTED_IDENTIFIER || kind === BACKQUOTED_IDENTIFIER)
    hashCharacters(text, start, end, QUOTED_TAG, 0);
  else if (isNumber(kind)) hashCharacters(text, start, end, LITERAL_TAG, 32);
  // The prefix `X` or `U` is written in either case.
  else if (kind === BINARY_LITERAL) hashCharacters(text, start + 1, end, LITERAL_TAG + 1, 0);
  else if (kind === UNICODE_STRING) hashCharacters(text, start + 1, end, LITERAL_TAG + 2, 0);
  else hashCharacters(text, start, end, LITERAL_TAG, 0);
}

/** Mixes a value into a lane. */
const mixed = (hash: number, value: number, prime: number): number => {
  const product = Math.imul(hash ^ value, prime);
  return (product << 13) | (product >>> 19);
};

const hexBytes = Buffer.alloc(8);

/** Writes two lanes as 16 hexadecimal characters, each of which depends on both. */
function hex(laneA: number, laneB: number): string {
  let a = laneA;
  let b = laneB;
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  hexBytes.writeInt32BE(a, 0);
  hexBytes.writeInt32BE(b, 4);
  return hexBytes.toString('hex');
}

/** True for a sign that belongs to the number after it. */
function isSignOfNumber(kinds: Uint16Array, token: number): boolean {
  const kind = kinds[token];
  if ((kind !== MINUS && kind !== PLUS) || !isNumber(kinds[token + 1] as number)) return false;
  return token === 0 || ((classes[kinds[token - 1] as number] as number) & OPERAND) === 0;
}

/** True for a literal; NULL is none in `IS NULL`, `NOT NULL` and `ON NULL`. */
function isLiteral(kinds: Uint16Array, token: number): boolean {
  const kind = kinds[token] as number;
  if (((classes[kind] as number) & LITERAL) === 0) return false;
  const before = token === 0 ? EOF : (kinds[token - 1] as number);
  return kind !== NULL || (before !== IS && before !== NOT && before !== ON);
}

/** End of one literal at a token, with its sign and the name of its type (`DATE '2026-01-01'`); -1 for anything else. */
function literalEnd(kinds: Uint16Array, token: number): number {
  let at = token;
  if (isSignOfNumber(kinds, at)) at += 1;
  else if ((kinds[at] as number) <= LAST_IDENTIFIER && kinds[at + 1] === STRING) at += 1;
  if (!isLiteral(kinds, at)) return -1;
  return kinds[at + 1] === UESCAPE && kinds[at + 2] === STRING ? at + 3 : at + 1;
}

/** End of a list of literals with commas at a token; -1 if there is another element. Stops before what closes the list. */
function literalsEnd(kinds: Uint16Array, token: number): number {
  let at = literalEnd(kinds, token);
  while (at >= 0 && kinds[at] === COMMA) at = literalEnd(kinds, at + 1);
  return at;
}

/** Last token of the row at `other` if it equals the row from `row` to `rowEnd` but for literals; else -1. */
function sameRowEnd(text: string, tokens: TokenBuffer, row: number, rowEnd: number, other: number): number {
  const { kinds } = tokens;
  let b = other;
  for (let a = row; ; a += 1, b += 1) {
    if (isSignOfNumber(kinds, a)) a += 1;
    if (isSignOfNumber(kinds, b)) b += 1;
    if (a >= rowEnd) return kinds[b] === RPAREN ? b : -1;
    if (isLiteral(kinds, a) && isLiteral(kinds, b)) continue;
    const kind = kinds[a] as number;
    if (kind !== kinds[b]) return -1;
    if (isKnown[kind] === 1) continue;
    hashToken(text, tokens, a, kind);
    const [hashA, hashB] = [tokenA, tokenB];
    hashToken(text, tokens, b, kind);
    if (hashA !== tokenA || hashB !== tokenB) return -1;
  }
}

/** Deepest parentheses in which rows of VALUES are collapsed. */
const MAX_DEPTH = 64;
/** First token of the row of VALUES that is open at each depth; -1 for other parentheses. */
const rowStarts = new Int32Array(MAX_DEPTH + 1);

/** Lanes of both digests of the tokens hashed last. */
const lanes = { exactA: 0, exactB: 0, shapeA: 0, shapeB: 0 };

/** End of the literals that one placeholder after a token stands for; -1 if the shape has the next token as it is. */
function placeholderEnd(kinds: Uint16Array, token: number, kind: number): number {
  if (kind === LPAREN && token > 0 && kinds[token - 1] === IN) {
    const end = literalsEnd(kinds, token + 1);
    return end >= 0 && kinds[end] === RPAREN ? end : -1;
  }
  if (kind === LIMIT && kinds[token + 1] === ALL) return token + 2;
  if (kind !== VALUES) return -1;
  const end = literalsEnd(kinds, token + 1);
  return end >= 0 && ((kinds[end] as number) < STRING || kinds[end] === RPAREN) ? end : -1;
}

/**
 * Hashes all tokens from one on into `lanes`. The cost is linear in the text.
 * @param out takes the tokens of the shape; null: they are only hashed
 */
function hashTokens(text: string, tokens: TokenBuffer, from: number, out: ShapeWriter | null): void {
  const { kinds, count } = tokens;
  const literalA = knownA[QUESTION_MARK] as number;
  const literalB = knownB[QUESTION_MARK] as number;
  let exactA = SEED_A;
  let exactB = SEED_B;
  let shapeA = SEED_A;
  let shapeB = SEED_B;
  /** The shape has no tokens before this one. */
  let shapeFrom = from;
  let depth = 0;
  rowStarts[0] = -1;
  for (let token = from; token < count; token += 1) {
    const kind = kinds[token] as number;
    if (isKnown[kind] === 1) {
      tokenA = knownA[kind] as number;
      tokenB = knownB[kind] as number;
    } else hashToken(text, tokens, token, kind);
    exactA = mixed(exactA, tokenA, PRIME_A);
    exactB = mixed(exactB, tokenB, PRIME_B);
    if (token < shapeFrom) continue;
    if (((classes[kind] as number) & LITERAL) !== 0 && isLiteral(kinds, token)) {
      shapeA = mixed(shapeA, literalA, PRIME_A);
      shapeB = mixed(shapeB, literalB, PRIME_B);
      out?.add('?', QUESTION_MARK);
      if (kinds[token + 1] === UESCAPE) shapeFrom = token + 3;
      continue;
    }
    if ((kind === MINUS || kind === PLUS) && isSignOfNumber(kinds, token)) continue;
    shapeA = mixed(shapeA, tokenA, PRIME_A);
    shapeB = mixed(shapeB, tokenB, PRIME_B);
    out?.add(shownToken(text, tokens, token), kind);
    if (kind === LPAREN || kind === VALUES || kind === LIMIT) {
      const end = placeholderEnd(kinds, token, kind);
      if (end >= 0) {
        shapeA = mixed(shapeA, literalA, PRIME_A);
        shapeB = mixed(shapeB, literalB, PRIME_B);
        out?.add('?', QUESTION_MARK);
        shapeFrom = end;
      }
    }
    if (kind === LPAREN) {
      if (depth < MAX_DEPTH) {
        const before = token > 0 ? kinds[token - 1] : EOF;
        const isRow = before === VALUES || (before === COMMA && (rowStarts[depth] as number) >= 0);
        rowStarts[depth] = isRow ? token : -1;
        rowStarts[depth + 1] = -1;
      }
      depth += 1;
    } else if (kind === RPAREN && depth > 0) {
      depth -= 1;
      const row = depth < MAX_DEPTH ? (rowStarts[depth] as number) : -1;
      if (row >= 0) shapeFrom = rowsEnd(text, tokens, row, token, depth);
    }
  }
  lanes.exactA = exactA;
  lanes.exactB = exactB;
  lanes.shapeA = shapeA;
  lanes.shapeB = shapeB;
}

/** First token after the rows that equal the row from `row` to `rowEnd`. */
function rowsEnd(text: string, tokens: TokenBuffer, row: number, rowEnd: number, depth: number): number {
  const { kinds } = tokens;
  let end = rowEnd;
  while (kinds[end + 1] === COMMA && kinds[end + 2] === LPAREN) {
    const next = sameRowEnd(text, tokens, row, rowEnd, end + 2);
    if (next < 0) return end + 1;
    end = next;
  }
  rowStarts[depth] = -1;
  return end + 1;
}

/** A token as shapes show it: words that are parts of qualified names in lower case. */
function shownToken(text: string, { kinds, starts, ends }: TokenBuffer, token: number): string {
  const kind = kinds[token] as number;
  const isPart = kind <= LAST_IDENTIFIER && (kinds[token + 1] === DOT || (token > 0 && kinds[token - 1] === DOT));
  if (isKnown[kind] === 1) return isPart ? (texts[kind] as string).toLowerCase() : (texts[kind] as string);
  const name = text.slice(starts[token], ends[token]);
  return kind === QUOTED_IDENTIFIER ? name : name.toLowerCase();
}

/** Kinds without a space before them, and those without one after them. */
const closing = new Set([COMMA, DOT, RPAREN, RBRACKET, SEMICOLON]);
const opening = new Set([DOT, LPAREN, LBRACKET]);

/** Writes tokens of a shape as text. */
class ShapeWriter {
  text = '';
  readonly #maxLength: number;
  #last: number = LPAREN;

  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  add(token: string, kind: number): void {
    if (this.text.length >= this.#maxLength) return;
    const isCall = (kind === LPAREN || kind === LBRACKET) && this.#last <= LAST_IDENTIFIER;
    const isTight = isCall || closing.has(kind) || opening.has(this.#last);
    this.text += isTight ? token : ` ${token}`;
    if (this.text.length > this.#maxLength) this.text = `${this.text.slice(0, this.#maxLength)}…`;
    this.#last = kind;
  }
}

/** True for tokens that the grammar knows, in a text that was read to its end. */
function isReadable({ kinds, count, isCut }: TokenBuffer): boolean {
  if (isCut) return false;
  for (let token = 0; token < count; token += 1) if (kinds[token] === UNRECOGNIZED) return false;
  return true;
}

/** Digests of a text that is no statement: a hash of its characters. */
function digestsOfCharacters(text: string): StatementDigests {
  hashCharacters(text, 0, text.length, SIGN_TAG + LITERAL_TAG, 0);
  const digest = hex(tokenA, tokenB);
  return { exact: digest, shape: digest, text, isResolved: false };
}

/**
 * Computes the digests of a statement. Never throws.
 * @param prepared statements that EXECUTE may name
 * @param tokens those of the text, if the lexer's last call was for it
 */
export function statementDigests(
  text: string,
  prepared: PreparedTexts | null,
  tokens: TokenBuffer = tokenizeSql(text),
): StatementDigests {
  try {
    if (!isReadable(tokens)) return digestsOfCharacters(text);
    if (tokens.kinds[0] === EXECUTE) {
      const resolved = digestsOfExecuted(text, prepared);
      if (resolved !== null) return resolved;
      tokenizeSql(text);
    }
    hashTokens(text, tokens, 0, null);
    const { exactA, exactB, shapeA, shapeB } = lanes;
    return { exact: hex(exactA, exactB), shape: hex(shapeA, shapeB), text, isResolved: false };
  } finally {
    releaseTokens();
  }
}

/** Digests of the statement that an EXECUTE runs, with its parameters in the exact one; null if it is not known. */
function digestsOfExecuted(text: string, prepared: PreparedTexts | null): StatementDigests | null {
  const parser = new Parser(text);
  const { kinds } = parser;
  const isImmediate = kinds[1] === IMMEDIATE && (kinds[2] === STRING || kinds[2] === UNICODE_STRING);
  const named = isImmediate ? stringValue(parser, 2) : prepared?.get(originalName(parser, 1));
  if (typeof named !== 'string') return null;
  let using = 2;
  while (kinds[using] !== USING && kinds[using] !== EOF) using += 1;
  hashTokens(text, parser.tokens, using, null);
  const hasParameters = kinds[using] === USING;
  const [parametersA, parametersB] = [lanes.exactA, lanes.exactB];
  const tokens = tokenizeSql(named);
  if (!isReadable(tokens)) return { ...digestsOfCharacters(named), isResolved: true };
  hashTokens(named, tokens, 0, null);
  const { exactA, exactB, shapeA, shapeB } = lanes;
  const exact = hasParameters
    ? hex(mixed(exactA, parametersA, PRIME_A), mixed(exactB, parametersB, PRIME_B))
    : hex(exactA, exactB);
  return { exact, shape: hex(shapeA, shapeB), text: named, isResolved: true };
}

/**
 * Writes the shape of a statement: keywords in upper case, unquoted names in lower case, `?` for literals. The start of a
 * text that is no statement.
 * @param maxLength characters; what is longer ends with `…`
 */
export function shapeText(text: string, maxLength: number): string {
  try {
    const tokens = tokenizeSql(text);
    if (!isReadable(tokens)) return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
    const writer = new ShapeWriter(maxLength);
    hashTokens(text, tokens, 0, writer);
    return writer.text;
  } finally {
    releaseTokens();
  }
}

/** Longer statements of requests have the digests of their start: the lexer reads so many characters in 2 ms. */
const MAX_CHARACTERS = 262_144;

/** Computes the digests of the statement of a request, or of its start if it is long. @param prepared as of `statementDigests` */
export function requestDigests(text: string, prepared: PreparedTexts | null): StatementDigests {
  const digests = statementDigests(text.slice(0, MAX_CHARACTERS), prepared);
  return digests.isResolved ? digests : { ...digests, text };
}

const digestsOfQueries = new WeakMap<QueryProperties, StatementDigests>();
const estimatesOfQueries = new WeakMap<QueryProperties, SizeEstimate>();

/** Returns the digests of an analyzed statement, computed once; empty if nothing was analyzed. */
export function queryDigests(properties: QueryProperties): StatementDigests {
  let digests = digestsOfQueries.get(properties);
  if (digests === undefined) {
    const { body } = properties;
    digests = body === '' ? { exact: '', shape: '', text: '', isResolved: false } : requestDigests(body, null);
    digestsOfQueries.set(properties, digests);
  }
  return digests;
}

/** Returns the estimate of an analyzed statement, read once: all rules of a request read the same. */
export function queryEstimate(properties: QueryProperties): SizeEstimate {
  let estimate = estimatesOfQueries.get(properties);
  if (estimate === undefined) {
    estimate = properties.estimates?.read(queryDigests(properties)) ?? noEstimate;
    estimatesOfQueries.set(properties, estimate);
  }
  return estimate;
}

/** Labels of a statement, of the comments that tools write around it (docs/digests.md#labels). */
export interface StatementLabels {
  readonly tool: string;
  /** Model of dbt, question of Metabase, chart of Superset, workbook of Tableau. */
  readonly model?: string;
  readonly dashboard?: string;
}

/** Characters of comments at either end of a statement that are read. */
const MAX_COMMENTS = 4_096;
const MAX_LABEL = 256;

/** A tool, with patterns of its comments and of its value of the header Source. */
interface Tool {
  readonly tool: string;
  readonly comment: RegExp;
  readonly source: RegExp;
  readonly model?: RegExp;
  readonly dashboard?: RegExp;
}

/** `key: value`, `"key": "value"` and `key=value`. */
const valuePattern = (key: string): RegExp =>
  new RegExp(`\\b${key}["']?\\s{0,4}[:=]\\s{0,4}(?:"([^"\\n]{1,256})"|'([^'\\n]{1,256})'|([^\\s,;'"*{}]{1,256}))`, 'i');
const dashboard = valuePattern('dashboard(?:_?id|_?name)?');

const tools: readonly Tool[] = [
  { tool: 'dbt', comment: /"app":\s{0,4}"dbt"/, source: /\bdbt\b/i, model: valuePattern('node_id') },
  { tool: 'looker', comment: /Looker Query Context '/, source: /\blooker\b/i, dashboard },
  { tool: 'metabase', comment: /Metabase:: /, source: /\bmetabase\b/i, model: valuePattern('cardID'), dashboard },
  // The marker of Preset and its packages, and the examples of SQL_QUERY_MUTATOR.
  {
    tool: 'superset',
    comment: /\b6dcd92a04feb50f14bbcf07c661680ba\b|\[SQL LAB\]|(?:--|\/\*)\s{0,4}superset\b/i,
    source: /\bsuperset\b/i,
    model: valuePattern('(?:chart|slice)(?:_?id|_?name)?'),
    dashboard,
  },
  // Tableau itself writes no comment: those are of custom SQL.
  {
    tool: 'tableau',
    comment: /(?:--|\/\*)\s{0,4}tableau\b/i,
    source: /\btableau\b/i,
    model: valuePattern('workbook(?:_?id|_?name)?'),
    dashboard,
  },
];

/**
 * Reads the labels of a statement; null if no known tool wrote it.
 * @param source value of the header Source: names the tool if no comment does
 */
export function statementLabels(text: string, source: string | null): StatementLabels | null {
  const comments = outerComments(text);
  if (comments !== '') {
    for (const { tool, comment, ...patterns } of tools) {
      if (!comment.test(comments)) continue;
      const model = firstGroup(patterns.model, comments);
      const named = firstGroup(patterns.dashboard, comments);
      return { tool, ...(model !== null && { model }), ...(named !== null && { dashboard: named }) };
    }
  }
  const bySource = source === null ? undefined : tools.find((tool) => tool.source.test(source.slice(0, MAX_LABEL)));
  return bySource === undefined ? null : { tool: bySource.tool };
}

function firstGroup(pattern: RegExp | undefined, text: string): string | null {
  const match = pattern?.exec(text) ?? null;
  return match === null ? null : (match[1] ?? match[2] ?? match[3] ?? null);
}

const leading = /^(?:\s+|--[^\n\r]*|\/\*[^*]*(?:\*(?!\/)[^*]*)*\*\/|PREPARE\s+(?:\w+|"[^"]*")\s+FROM\b)+/i;

/** Comments before the first token of a statement, also of one that is prepared, and those after its last line. */
function outerComments(text: string): string {
  const before = leading.exec(text.slice(0, MAX_COMMENTS))?.[0].trim() ?? '';
  let comments = before;
  let rest = text.slice(Math.max(before.length, text.length - MAX_COMMENTS)).trimEnd();
  for (;;) {
    const line = rest.slice(rest.lastIndexOf('\n') + 1);
    const start = rest.endsWith('*/') ? rest.lastIndexOf('/*') : rest.length - line.trimStart().length;
    if (start < 0 || !(rest.endsWith('*/') || rest.startsWith('--', start))) return comments;
    comments += `\n${rest.slice(start)}`;
    rest = rest.slice(0, start).trimEnd();
  }
}
