import { keywords, T } from './kinds.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ARROW, ASTERISK, AT_SIGN, BACKQUOTED_IDENTIFIER, BAR, BINARY_LITERAL, CARET, COLON, COMMA, CONCAT,
  DECIMAL_VALUE, DIGIT_IDENTIFIER, DOUBLE_VALUE, INTEGER_VALUE,
  DOLLAR, DOLLAR_STRING, DOT, DOUBLE_ARROW, DOUBLE_COLON, EOF, EQ, GT, GTE, LBRACE, LBRACKET, LEXCLUDE, LPAREN,
  LT, LTE, MINUS, NEQ, PERCENT, PLUS, QUESTION_MARK, QUOTED_IDENTIFIER, RBRACE, RBRACKET, REXCLUDE, RPAREN,
  SEMICOLON, SLASH, STRING, UNICODE_STRING, UNRECOGNIZED,
} = T;

/**
 * Tokens of one text: kinds and positions in arrays that are reused for the next text. Comments and white space are
 * left out. After the last token there are at least `LOOKAHEAD` entries of kind EOF, so that a parser may peek without
 * a check.
 */
export interface TokenBuffer {
  kinds: Uint16Array;
  /** Offsets of the first unit of each token, in UTF-16 units. */
  starts: Int32Array;
  ends: Int32Array;
  count: number;
  /** True if the text has more than `MAX_TOKENS` tokens; the rest are left out. */
  isCut: boolean;
}

export const MAX_TOKENS = 4_000_000;
/** EOF entries behind the last token. */
const LOOKAHEAD = 8;
/** Buffers larger than this many tokens are not reused. */
const KEPT_TOKENS = 1 << 16;

const sharedBuffer: TokenBuffer = {
  kinds: new Uint16Array(1024),
  starts: new Int32Array(1024),
  ends: new Int32Array(1024),
  count: 0,
  isCut: false,
};

function grow(buffer: TokenBuffer): void {
  const size = buffer.kinds.length * 2;
  const kinds = new Uint16Array(size);
  kinds.set(buffer.kinds);
  const starts = new Int32Array(size);
  starts.set(buffer.starts);
  const ends = new Int32Array(size);
  ends.set(buffer.ends);
  buffer.kinds = kinds;
  buffer.starts = starts;
  buffer.ends = ends;
}

/** Releases large arrays; call it when the tokens are no longer used. */
export function releaseTokens(): void {
  if (sharedBuffer.kinds.length <= KEPT_TOKENS) return;
  sharedBuffer.kinds = new Uint16Array(1024);
  sharedBuffer.starts = new Int32Array(1024);
  sharedBuffer.ends = new Int32Array(1024);
}

const WHITESPACE = 1;
const LETTER = 2;
const DIGIT = 4;
const UNDERSCORE = 8;
const HEX = 16;
const WORD = LETTER | DIGIT | UNDERSCORE;

/** Classes of the ASCII characters; everything else is in none. */
const classes = new Uint8Array(128);
for (let c = 0; c < 128; c += 1) {
  const character = String.fromCharCode(c);
  if (' \t\r\n'.includes(character)) classes[c] = WHITESPACE;
  else if (/[0-9]/.test(character)) classes[c] = DIGIT | HEX;
  else if (/[a-f]/i.test(character)) classes[c] = LETTER | HEX;
  else if (/[a-z]/i.test(character)) classes[c] = LETTER;
  else if (character === '_') classes[c] = UNDERSCORE;
}
/** Classes of a UTF-16 unit, as bits; 0 for NaN, the unit after the end of a text. */
const classOf = (c: number): number => (c < 128 ? (classes[c] as number) : 0);

const HASH_SIZE = 2048;
const MAX_KEYWORD_LENGTH = 17;

/** Adds a character to the hash of a word, ignoring case. The hash of the empty word is 0. */
const hashWith = (hash: number, c: number): number => (hash * 31 + (c & 0xdf)) | 0;

/** Open-addressing table of the keywords: kind, and position of the word in `keywordChars`. */
const hashKinds = new Uint16Array(HASH_SIZE);
const hashStarts = new Uint16Array(HASH_SIZE);
const hashLengths = new Uint8Array(HASH_SIZE);
const keywordChars = new Uint8Array(8192);
{
  let next = 0;
  for (const [word, kind] of keywords) {
    let hash = 0;
    for (let i = 0; i < word.length; i += 1) hash = hashWith(hash, word.charCodeAt(i));
    let slot = hash & (HASH_SIZE - 1);
    while (hashKinds[slot] !== 0) slot = (slot + 1) & (HASH_SIZE - 1);
    hashKinds[slot] = kind;
    hashStarts[slot] = next;
    hashLengths[slot] = word.length;
    for (let i = 0; i < word.length; i += 1) keywordChars[next + i] = word.charCodeAt(i);
    next += word.length;
  }
}

/** Kind of the word from `start` to `end`, whose characters are letters, digits and `_`; `hash` of all of them by `hashWith`. */
function wordKind(text: string, start: number, end: number, hash: number): number {
  const length = end - start;
  if (length > MAX_KEYWORD_LENGTH) return T.IDENTIFIER;
  let slot = hash & (HASH_SIZE - 1);
  for (;;) {
    const kind = hashKinds[slot] as number;
    if (kind === 0) return T.IDENTIFIER;
    if (hashLengths[slot] === length) {
      const from = hashStarts[slot] as number;
      let i = 0;
      while (i < length) {
        const c = text.charCodeAt(start + i);
        if ((c >= 97 ? c - 32 : c) !== keywordChars[from + i]) break;
        i += 1;
      }
      if (i === length) return kind;
    }
    slot = (slot + 1) & (HASH_SIZE - 1);
  }
}

/** End of `('_'? digit)+` after a prefix such as `0x`, digits of class `mask` up to character `highest`; `from` if none. */
function prefixedDigits(text: string, from: number, mask: number, highest: number): number {
  let at = from;
  for (;;) {
    let c = text.charCodeAt(at);
    const digit = c === 95 ? at + 1 : at;
    c = text.charCodeAt(digit);
    if ((classOf(c) & mask) === 0 || c > highest) return at;
    at = digit + 1;
  }
}

/** End of `digit ('_'? digit)*`; there is a digit at `from`. */
function decimalInteger(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    const c = text.charCodeAt(at);
    if (c >= 48 && c <= 57) at += 1;
    else if (c === 95 && (classOf(text.charCodeAt(at + 1)) & DIGIT) !== 0) at += 2;
    else return at;
  }
}

/** End of `digit*`. */
function digits(text: string, from: number): number {
  let at = from;
  while ((classOf(text.charCodeAt(at)) & DIGIT) !== 0) at += 1;
  return at;
}

/** End of `E [+-]? digit+` at `from`; -1 if there is no exponent. */
function exponent(text: string, from: number): number {
  if ((text.charCodeAt(from) | 32) !== 101) return -1;
  const sign = text.charCodeAt(from + 1);
  const at = sign === 43 || sign === 45 ? from + 2 : from + 1;
  const end = digits(text, at);
  return end > at ? end : -1;
}

/** End of the number lexed last; its kind is the return value (avoids an object for the pair). */
let numberEnd = 0;

/**
 * The longest of the number forms and of identifiers starting with a digit, as ANTLR takes it; the first of equally
 * long forms.
 */
function lexNumber(text: string, start: number): number {
  const integerEnd = decimalInteger(text, start);
  const after = text.charCodeAt(integerEnd);
  // Most numbers are plain ones: all other forms continue with a point, a letter or an underscore.
  if (after !== 46 && (classOf(after) & WORD) === 0) {
    numberEnd = integerEnd;
    return INTEGER_VALUE;
  }
  let end = integerEnd;
  let kind: number = INTEGER_VALUE;
  if (text.charCodeAt(start) === 48) {
    const mark = text.charCodeAt(start + 1) | 32;
    let prefixed = start + 2;
    if (mark === 120) prefixed = prefixedDigits(text, start + 2, HEX, 127);
    else if (mark === 111) prefixed = prefixedDigits(text, start + 2, DIGIT, 55);
    else if (mark === 98) prefixed = prefixedDigits(text, start + 2, DIGIT, 49);
    if (prefixed > start + 2) end = Math.max(end, prefixed);
  }
  if (after === 46) {
    const fraction = integerEnd + 1;
    end = (classOf(text.charCodeAt(fraction)) & DIGIT) !== 0 ? decimalInteger(text, fraction) : fraction;
    kind = DECIMAL_VALUE;
  }
  const plain = digits(text, start);
  const fraction = text.charCodeAt(plain) === 46 ? digits(text, plain + 1) : plain;
  const double = exponent(text, fraction);
  if (double > end) {
    end = double;
    kind = DOUBLE_VALUE;
  }
  let word = start + 1;
  while ((classOf(text.charCodeAt(word)) & WORD) !== 0) word += 1;
  if (word > end) {
    end = word;
    kind = DIGIT_IDENTIFIER;
  }
  numberEnd = end;
  return kind;
}

function lexFraction(text: string, start: number): number {
  numberEnd = decimalInteger(text, start + 1);
  const double = exponent(text, digits(text, start + 1));
  if (double > numberEnd) {
    numberEnd = double;
    return DOUBLE_VALUE;
  }
  return DECIMAL_VALUE;
}

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
