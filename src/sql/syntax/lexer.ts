import { keywords, T } from './kinds.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  ARROW, ASTERISK, AT_SIGN, BACKQUOTED_IDENTIFIER, BAR, BINARY_LITERAL, CARET, COLON, COMMA, CONCAT,
  DECIMAL_VALUE, DIGIT_IDENTIFIER, DOLLAR, DOLLAR_STRING, DOT, DOUBLE_ARROW, DOUBLE_COLON, DOUBLE_VALUE, EOF,
  EQ, GT, GTE, IDENTIFIER, INTEGER_VALUE, LBRACE, LBRACKET, LEXCLUDE, LPAREN, LT, LTE, MINUS, NEQ, PERCENT,
  PLUS, QUESTION_MARK, QUOTED_IDENTIFIER, RBRACE, RBRACKET, REXCLUDE, RPAREN, SEMICOLON, SLASH, STRING,
  UNICODE_STRING, UNRECOGNIZED,
} = T;

/**
 * Tokens of one text: kinds and places in arrays that are used again for the next text. Comments and white space are left
 * out. After the last token there are at least `LOOKAHEAD` entries of kind EOF, so that a parser may peek without asking.
 */
export interface TokenBuffer {
  kinds: Uint16Array;
  /** Offsets in UTF-16 units: first unit of the token … */
  starts: Int32Array;
  /** … and the unit after its last one. */
  ends: Int32Array;
  /** Number of tokens without EOF. */
  count: number;
  /** The text has more than `MAX_TOKENS` tokens: those after them are left out. */
  isCut: boolean;
}

/** Most tokens of a text: what they and the names among them take is bounded so. */
export const MAX_TOKENS = 4_000_000;
/** EOF entries behind the last token. */
const LOOKAHEAD = 8;
/** Buffers larger than this many tokens are not kept after use. */
const KEPT_TOKENS = 1 << 16;

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
const classOf = (c: number): number => (c < 128 ? (classes[c] as number) : 0);

/** Kinds of tokens that are one character whatever follows. */
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

const HASH_SIZE = 2048;
const LONGEST_KEYWORD = 17;
/** Open-addressing table of the keywords: kind, and where the word stands in `keywordChars`. */
const hashKinds = new Uint16Array(HASH_SIZE);
const hashStarts = new Uint16Array(HASH_SIZE);
const hashLengths = new Uint8Array(HASH_SIZE);
const keywordChars = new Uint8Array(8192);
{
  let next = 0;
  for (const [word, kind] of keywords) {
    let hash = 0;
    for (let i = 0; i < word.length; i += 1) hash = (hash * 31 + (word.charCodeAt(i) & 0xdf)) | 0;
    let slot = hash & (HASH_SIZE - 1);
    while (hashKinds[slot] !== 0) slot = (slot + 1) & (HASH_SIZE - 1);
    hashKinds[slot] = kind;
    hashStarts[slot] = next;
    hashLengths[slot] = word.length;
    for (let i = 0; i < word.length; i += 1) keywordChars[next + i] = word.charCodeAt(i);
    next += word.length;
  }
}

/** Kind of the word at `start`, whose characters are letters, digits and `_`; `hash` as the table was filled. */
function wordKind(text: string, start: number, end: number, hash: number): number {
  const length = end - start;
  if (length > LONGEST_KEYWORD) return IDENTIFIER;
  let slot = hash & (HASH_SIZE - 1);
  for (;;) {
    const kind = hashKinds[slot] as number;
    if (kind === 0) return IDENTIFIER;
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

/** End of a quoted token whose quote is doubled inside, `from` after the opening quote; -1 when it is never closed. */
function quotedEnd(text: string, from: number, quote: string): number {
  const code = quote.charCodeAt(0);
  let closed = -1;
  let at = from;
  for (;;) {
    const found = text.indexOf(quote, at);
    if (found < 0) return closed;
    closed = found + 1;
    if (text.charCodeAt(closed) !== code) return closed;
    at = closed + 1;
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

/** End of `E [+-]? digit+` at `from`; -1 when there is none. */
function exponent(text: string, from: number): number {
  if ((text.charCodeAt(from) | 32) !== 101) return -1;
  const sign = text.charCodeAt(from + 1);
  const at = sign === 43 || sign === 45 ? from + 2 : from + 1;
  const end = digits(text, at);
  return end > at ? end : -1;
}

/** End of the number lexed last; its kind is the function's value (no object is made for the pair). */
let numberEnd = 0;

/** The longest of the number forms and of identifiers starting with a digit, as ANTLR takes it; the first one of equals. */
function lexNumber(text: string, start: number): number {
  const integerEnd = decimalInteger(text, start);
  const after = text.charCodeAt(integerEnd);
  // Most numbers are plain ones: all other forms go on with a point, a letter or an underscore.
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

/** A number that starts with its point. */
function lexFraction(text: string, start: number): number {
  numberEnd = decimalInteger(text, start + 1);
  const double = exponent(text, digits(text, start + 1));
  if (double > numberEnd) {
    numberEnd = double;
    return DOUBLE_VALUE;
  }
  return DECIMAL_VALUE;
}

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

/** Gives large arrays back to the memory manager; to be called when the tokens are no longer used. */
export function releaseTokens(): void {
  if (sharedBuffer.kinds.length <= KEPT_TOKENS) return;
  sharedBuffer.kinds = new Uint16Array(1024);
  sharedBuffer.starts = new Int32Array(1024);
  sharedBuffer.ends = new Int32Array(1024);
}

/**
 * Cuts a text into tokens. Never fails: what is no token becomes one of kind UNRECOGNIZED (one code point), which no rule
 * of the grammar takes. The result is valid until the next call.
 */
export function tokenize(text: string): TokenBuffer {
  const length = text.length;
  let { kinds, starts, ends } = sharedBuffer;
  let room = kinds.length - LOOKAHEAD - 1;
  let count = 0;
  let at = 0;
  let commentsCanClose = true;
  let dollarsCanClose = true;
  while (at < length && count < MAX_TOKENS) {
    const c = text.charCodeAt(at);
    const start = at;
    let kind: number = UNRECOGNIZED;
    const charClass = c < 128 ? (classes[c] as number) : 0;
    if (charClass === WHITESPACE) {
      at += 1;
      continue;
    }
    if ((charClass & (LETTER | UNDERSCORE)) !== 0) {
      let hash = c & 0xdf;
      at += 1;
      for (;;) {
        const next = text.charCodeAt(at);
        if (!(next < 128) || ((classes[next] as number) & WORD) === 0) break;
        hash = (hash * 31 + (next & 0xdf)) | 0;
        at += 1;
      }
      kind = wordKind(text, start, at, hash);
      if (at - start === 1) {
        if ((c | 32) === 117 && text.charCodeAt(at) === 38 && text.charCodeAt(at + 1) === 39) {
          const end = quotedEnd(text, at + 2, "'");
          if (end > 0) {
            at = end;
            kind = UNICODE_STRING;
          }
        } else if ((c | 32) === 120 && text.charCodeAt(at) === 39) {
          const end = text.indexOf("'", at + 1);
          if (end > 0) {
            at = end + 1;
            kind = BINARY_LITERAL;
          }
        }
      }
    } else if ((charClass & DIGIT) !== 0) {
      kind = lexNumber(text, start);
      at = numberEnd;
    } else if (c < 128 && singles[c] !== 0) {
      kind = singles[c] as number;
      at += 1;
    } else {
      const next = text.charCodeAt(at + 1);
      at += 1;
      switch (c) {
        case 39: {
          const end = quotedEnd(text, at, "'");
          if (end > 0) {
            at = end;
            kind = STRING;
          }
          break;
        }
        case 34: {
          const end = quotedEnd(text, at, '"');
          if (end > 0) {
            at = end;
            kind = QUOTED_IDENTIFIER;
          }
          break;
        }
        case 96: {
          const end = quotedEnd(text, at, '`');
          if (end > 0) {
            at = end;
            kind = BACKQUOTED_IDENTIFIER;
          }
          break;
        }
        case 46:
          if (next >= 48 && next <= 57) {
            kind = lexFraction(text, start);
            at = numberEnd;
          } else kind = DOT;
          break;
        case 45: // -
          if (next === 45) {
            at += 1;
            while (at < length) {
              const end = text.charCodeAt(at);
              if (end === 10 || end === 13) break;
              at += 1;
            }
            continue;
          }
          if (next === 62 || next === 125) {
            kind = next === 62 ? ARROW : REXCLUDE;
            at += 1;
          } else kind = MINUS;
          break;
        case 47: // /
          if (next === 42 && commentsCanClose) {
            const end = text.indexOf('*/', at + 1);
            if (end >= 0) {
              at = end + 2;
              continue;
            }
            commentsCanClose = false;
          }
          kind = SLASH;
          break;
        case 61: // =
          if (next === 62) {
            kind = DOUBLE_ARROW;
            at += 1;
          } else kind = EQ;
          break;
        case 60: // <
          if (next === 62 || next === 61) {
            kind = next === 62 ? NEQ : LTE;
            at += 1;
          } else kind = LT;
          break;
        case 62: // >
          if (next === 61) {
            kind = GTE;
            at += 1;
          } else kind = GT;
          break;
        case 33: // !
          if (next === 61) {
            kind = NEQ;
            at += 1;
          }
          break;
        case 124: // |
          if (next === 124) {
            kind = CONCAT;
            at += 1;
          } else kind = BAR;
          break;
        case 58: // :
          if (next === 58) {
            kind = DOUBLE_COLON;
            at += 1;
          } else kind = COLON;
          break;
        case 123: // {
          if (next === 45) {
            kind = LEXCLUDE;
            at += 1;
          } else kind = LBRACE;
          break;
        case 36: // $
          kind = DOLLAR;
          if (next === 36 && dollarsCanClose) {
            const end = text.indexOf('$$', at + 1);
            if (end >= 0) {
              at = end + 2;
              kind = DOLLAR_STRING;
            } else dollarsCanClose = false;
          }
          break;
        default:
          if (c >= 0xd800 && c <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) at += 1;
      }
    }
    kinds[count] = kind;
    starts[count] = start;
    ends[count] = at;
    count += 1;
    if (count === room) {
      grow(sharedBuffer);
      ({ kinds, starts, ends } = sharedBuffer);
      room = kinds.length - LOOKAHEAD - 1;
    }
  }
  for (let i = 0; i < LOOKAHEAD; i += 1) {
    kinds[count + i] = EOF;
    starts[count + i] = length;
    ends[count + i] = length;
  }
  sharedBuffer.count = count;
  sharedBuffer.isCut = at < length;
  return sharedBuffer;
}
