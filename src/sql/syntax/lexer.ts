import { classOf, DIGIT, LETTER, UNDERSCORE, WHITESPACE, WORD } from './characters.ts';
import { hashWith, wordKind } from './keywordTable.ts';
import { T } from './kinds.ts';
import { lexFraction, lexNumber, numberEnd } from './numbers.ts';
import { grow, LOOKAHEAD, MAX_TOKENS, sharedBuffer, type TokenBuffer } from './tokenBuffer.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ARROW, ASTERISK, AT_SIGN, BACKQUOTED_IDENTIFIER, BAR, BINARY_LITERAL, CARET, COLON, COMMA, CONCAT,
  DOLLAR, DOLLAR_STRING, DOT, DOUBLE_ARROW, DOUBLE_COLON, EOF, EQ, GT, GTE, LBRACE, LBRACKET, LEXCLUDE, LPAREN,
  LT, LTE, MINUS, NEQ, PERCENT, PLUS, QUESTION_MARK, QUOTED_IDENTIFIER, RBRACE, RBRACKET, REXCLUDE, RPAREN,
  SEMICOLON, SLASH, STRING, UNICODE_STRING, UNRECOGNIZED,
} = T;

/** Kinds of tokens that are one character, regardless of the next one. */
const singles = new Uint16Array(128);
for (const [character, kind] of [
  ['(', LPAREN],
  [')', RPAREN],
  [',', COMMA],
  ['@', AT_SIGN],
  ['[', LBRACKET],
  [']', RBRACKET],
  ['^', CARET],
  ['}', RBRACE],
  ['+', PLUS],
  ['*', ASTERISK],
  ['%', PERCENT],
  ['?', QUESTION_MARK],
  [';', SEMICOLON],
] as const) {
  singles[character.charCodeAt(0)] = kind;
}

const COMMENT = -1;

/** End of the token lexed last; its kind is the return value (avoids an object for the pair). */
let tokenEnd = 0;
/** False once a comment or a `$$` of the text was never closed: later ones are not searched for their end. */
let commentsCanClose = true;
let dollarsCanClose = true;

/** End of a quoted text with doubled quotes inside, `from` after the opening quote; -1 if it is not closed. */
function quotedEnd(text: string, from: number, quote: string): number {
  const code = quote.charCodeAt(0);
  let closed = -1;
  let at = from;
  for (;;) {
    const quoteAt = text.indexOf(quote, at);
    if (quoteAt < 0) return closed;
    closed = quoteAt + 1;
    if (text.charCodeAt(closed) !== code) return closed;
    at = closed + 1;
  }
}

/** A quoted text; if it is not closed, only the quote, which is not a token of the grammar. */
function lexQuoted(text: string, start: number, quote: string, kind: number): number {
  const end = quotedEnd(text, start + 1, quote);
  tokenEnd = end > 0 ? end : start + 1;
  return end > 0 ? kind : UNRECOGNIZED;
}

/** A keyword or identifier, whose first character is `c`, or a text with the prefix `U&` or `X`. */
function lexWord(text: string, start: number, c: number): number {
  let hash = hashWith(0, c);
  let at = start + 1;
  for (;;) {
    const next = text.charCodeAt(at);
    if ((classOf(next) & WORD) === 0) break;
    hash = hashWith(hash, next);
    at += 1;
  }
  tokenEnd = at;
  return at - start === 1 ? lexLetter(text, start, c, hash) : wordKind(text, start, at, hash);
}

function lexLetter(text: string, start: number, c: number, hash: number): number {
  const next = text.charCodeAt(start + 1);
  if ((c | 32) === 117 && next === 38 && text.charCodeAt(start + 2) === 39) {
    const end = quotedEnd(text, start + 3, "'");
    if (end > 0) {
      tokenEnd = end;
      return UNICODE_STRING;
    }
  } else if ((c | 32) === 120 && next === 39) {
    const end = text.indexOf("'", start + 2);
    if (end > 0) {
      tokenEnd = end + 1;
      return BINARY_LITERAL;
    }
  }
  return wordKind(text, start, start + 1, hash);
}

/** A minus, an operator that begins with it, or a comment up to the end of the line. */
function lexMinus(text: string, start: number, next: number): number {
  if (next === 62) return lexPair(start, ARROW);
  if (next === 125) return lexPair(start, REXCLUDE);
  if (next !== 45) return lexSingle(start, MINUS);
  let at = start + 2;
  while (at < text.length) {
    const end = text.charCodeAt(at);
    if (end === 10 || end === 13) break;
    at += 1;
  }
  tokenEnd = at;
  return COMMENT;
}

function lexSlash(text: string, start: number, next: number): number {
  if (next === 42 && commentsCanClose) {
    const end = text.indexOf('*/', start + 2);
    if (end >= 0) {
      tokenEnd = end + 2;
      return COMMENT;
    }
    commentsCanClose = false;
  }
  return lexSingle(start, SLASH);
}

/** A dollar sign, or a text between two pairs of them. */
function lexDollar(text: string, start: number, next: number): number {
  if (next === 36 && dollarsCanClose) {
    const end = text.indexOf('$$', start + 2);
    if (end >= 0) {
      tokenEnd = end + 2;
      return DOLLAR_STRING;
    }
    dollarsCanClose = false;
  }
  return lexSingle(start, DOLLAR);
}

function lexPoint(text: string, start: number, next: number): number {
  if (!(next >= 48 && next <= 57)) return lexSingle(start, DOT);
  const kind = lexFraction(text, start);
  tokenEnd = numberEnd;
  return kind;
}

function lexSingle(start: number, kind: number): number {
  tokenEnd = start + 1;
  return kind;
}

function lexPair(start: number, kind: number): number {
  tokenEnd = start + 2;
  return kind;
}

/** A token that begins with a sign shared by several tokens. */
function lexSign(text: string, start: number, c: number): number {
  const next = text.charCodeAt(start + 1);
  switch (c) {
    case 39: // '
      return lexQuoted(text, start, "'", STRING);
    case 34: // "
      return lexQuoted(text, start, '"', QUOTED_IDENTIFIER);
    case 96: // `
      return lexQuoted(text, start, '`', BACKQUOTED_IDENTIFIER);
    case 46: // .
      return lexPoint(text, start, next);
    case 45: // -
      return lexMinus(text, start, next);
    case 47: // /
      return lexSlash(text, start, next);
    case 36: // $
      return lexDollar(text, start, next);
    case 61: // =
      return next === 62 ? lexPair(start, DOUBLE_ARROW) : lexSingle(start, EQ);
    case 60: // <
      if (next === 62) return lexPair(start, NEQ);
      return next === 61 ? lexPair(start, LTE) : lexSingle(start, LT);
    case 62: // >
      return next === 61 ? lexPair(start, GTE) : lexSingle(start, GT);
    case 33: // !
      return next === 61 ? lexPair(start, NEQ) : lexSingle(start, UNRECOGNIZED);
    case 124: // |
      return next === 124 ? lexPair(start, CONCAT) : lexSingle(start, BAR);
    case 58: // :
      return next === 58 ? lexPair(start, DOUBLE_COLON) : lexSingle(start, COLON);
    case 123: // {
      return next === 45 ? lexPair(start, LEXCLUDE) : lexSingle(start, LBRACE);
    default: {
      const isPair = c >= 0xd800 && c <= 0xdbff && next >= 0xdc00 && next <= 0xdfff;
      return isPair ? lexPair(start, UNRECOGNIZED) : lexSingle(start, UNRECOGNIZED);
    }
  }
}

/** The token or comment at `start`; `c` is neither white space nor a single-character token. */
function lexLonger(text: string, start: number, c: number, charClass: number): number {
  if ((charClass & (LETTER | UNDERSCORE)) !== 0) return lexWord(text, start, c);
  if ((charClass & DIGIT) === 0) return lexSign(text, start, c);
  const kind = lexNumber(text, start);
  tokenEnd = numberEnd;
  return kind;
}

/**
 * Splits a text into tokens. Never fails: unknown text becomes tokens of kind UNRECOGNIZED (one code point), which no
 * rule of the grammar accepts. The result is valid until the next call.
 */
export function tokenizeSql(text: string): TokenBuffer {
  const length = text.length;
  let { kinds, starts, ends } = sharedBuffer;
  let free = kinds.length - LOOKAHEAD - 1;
  let count = 0;
  let at = 0;
  commentsCanClose = true;
  dollarsCanClose = true;
  while (at < length && count < MAX_TOKENS) {
    const c = text.charCodeAt(at);
    const charClass = classOf(c);
    if (charClass === WHITESPACE) {
      at += 1;
      continue;
    }
    const start = at;
    let kind = c < 128 ? (singles[c] as number) : 0;
    if (kind !== 0) at += 1;
    else {
      kind = lexLonger(text, start, c, charClass);
      at = tokenEnd;
    }
    if (kind === COMMENT) continue;
    kinds[count] = kind;
    starts[count] = start;
    ends[count] = at;
    count += 1;
    if (count === free) {
      grow(sharedBuffer);
      ({ kinds, starts, ends } = sharedBuffer);
      free = kinds.length - LOOKAHEAD - 1;
    }
  }
  endTokens(sharedBuffer, count, length);
  sharedBuffer.isCut = at < length;
  return sharedBuffer;
}

/** Adds the EOF entries after the last token. */
function endTokens(buffer: TokenBuffer, count: number, length: number): void {
  for (let i = 0; i < LOOKAHEAD; i += 1) {
    buffer.kinds[count + i] = EOF;
    buffer.starts[count + i] = length;
    buffer.ends[count + i] = length;
  }
  buffer.count = count;
}
