import { JavaDouble, JavaFloat, JavaLong, type Value } from '../values/value.ts';
import type { CompileBudget } from './compileBudget.ts';
import { CompileError, UnavailableError } from './source.ts';

export interface Token {
  readonly type: 'name' | 'operator' | 'literal' | 'end';
  /** Text of a name or operator; '' for literals and the end. */
  readonly text: string;
  readonly value: Value;
  readonly offset: number;
  readonly end: number;
}

/** Longest first, so that the first match is correct. */
const OPERATORS = [
  '>>>=', '>>>', '<<=', '>>=', '===', '!==', '**', '==', '!=', '<=', '>=', '&&', '||', '~=', '+=', '-=', '*=', '/=', '%=',
  '++', '--', '->', '::', '.?', '?.', '<<', '>>', '+', '-', '*', '/', '%', '<', '>', '=', '!', '?', ':', '.', ',', ';',
  '(', ')', '[', ']', '{', '}', '&', '|', '^', '~', '#', '$', '@',
]; // biome-ignore format: a table

const NAME_START = /[\p{L}_$]/u;
const NAME = /[\p{L}_$][\p{L}\p{Nd}_$]*/uy;
const NUMBER =
  /(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.(?![.?\p{L}_])[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)/uy;
const WORD_PART = /[\p{L}\p{Nd}_]+/uy;

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  '\\': '\\',
  '"': '"',
  "'": "'",
};

/**
 * Splits a text into tokens; the last one is `end`.
 * @throws CompileError for unknown characters, literals and comments
 */
export function tokenize(text: string, budget: CompileBudget): Token[] {
  const tokens: Token[] = [];
  let offset = skipBlank(text, 0);
  while (offset < text.length) {
    budget.countToken(offset);
    const token = readToken(text, offset);
    tokens.push(token);
    offset = skipBlank(text, token.end);
  }
  tokens.push({ type: 'end', text: '', value: null, offset: text.length, end: text.length });
  return tokens;
}

function skipBlank(text: string, from: number): number {
  let offset = from;
  while (offset < text.length) {
    const char = text.charAt(offset);
    if (char <= ' ' || char === '\u00a0' || char === '\ufeff') {
      offset += 1;
    } else if (text.startsWith('//', offset)) {
      const end = text.indexOf('\n', offset);
      offset = end < 0 ? text.length : end;
    } else if (text.startsWith('/*', offset)) {
      const end = text.indexOf('*/', offset + 2);
      if (end < 0) throw new CompileError('the comment has no end: */ is missing', offset);
      offset = end + 2;
    } else {
      return offset;
    }
  }
  return offset;
}

function readToken(text: string, offset: number): Token {
  const char = text.charAt(offset);
  if (char === '"' || char === "'") return readString(text, offset, char);
  if ((char >= '0' && char <= '9') || (char === '.' && /[0-9]/.test(text.charAt(offset + 1)))) {
    return readNumber(text, offset);
  }
  if (NAME_START.test(char) && char !== '$') {
    NAME.lastIndex = offset;
    const name = NAME.exec(text)?.[0] ?? char;
    return { type: 'name', text: name, value: null, offset, end: offset + name.length };
  }
  const operator = OPERATORS.find((candidate) => text.startsWith(candidate, offset));
  if (operator === undefined) {
    throw new CompileError(`the character ${JSON.stringify(char)} is not part of the language`, offset);
  }
  return { type: 'operator', text: operator, value: null, offset, end: offset + operator.length };
}

const STRINGS: Readonly<Record<string, RegExp>> = {
  '"': /"((?:[^"\\]+|\\.)*)("?)/sy,
  "'": /'((?:[^'\\]+|\\.)*)('?)/sy,
};
/** A backslash with what follows it: octal digits of a character up to \377, as in MVEL, or one character. */
const ESCAPE = /\\(?:([0-3][0-7]{2}|[0-7]{1,2}(?![89]))|(.?))/gs;

function readString(text: string, start: number, quote: string): Token {
  const form = STRINGS[quote] as RegExp;
  form.lastIndex = start;
  const [whole = quote, body = '', close] = form.exec(text) ?? [];
  const value = body.replace(ESCAPE, (_all, octal: string | undefined, char: string, offset: number) => {
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
    const escaped = ESCAPES[char];
    if (escaped !== undefined) return escaped;
    throw new CompileError(
      `\\${char} is no escape sequence; allowed are \\\\ \\" \\' \\n \\t \\r \\b \\f \\101, other characters as they are`,
      start + 1 + offset,
    );
  });
  if (close === quote) return { type: 'literal', text: '', value, offset: start, end: start + whole.length };
  const hint = 'in YAML, # after a space starts a comment, unless the whole value is quoted or a block after |';
  throw new CompileError(`the string has no end: ${quote} is missing; ${hint}`, start);
}

function readNumber(text: string, offset: number): Token {
  NUMBER.lastIndex = offset;
  const digits = NUMBER.exec(text)?.[0];
  if (digits === undefined) throw new CompileError('not a number', offset);
  WORD_PART.lastIndex = offset + digits.length;
  const suffix = WORD_PART.exec(text)?.[0] ?? '';
  const value = numberValue(digits, suffix, offset);
  return { type: 'literal', text: '', value, offset, end: offset + digits.length + suffix.length };
}

/** Maximum number of digits that messages show; longer numbers are not whole numbers of the language. */
const MAX_SHOWN_LENGTH = 40;

function numberValue(digits: string, suffix: string, offset: number): Value {
  const isWhole = !/[.eE]/.test(digits) || /^0[xX]/.test(digits);
  const text = digits.length > MAX_SHOWN_LENGTH ? `${digits.slice(0, MAX_SHOWN_LENGTH)}…` : digits;
  if (digits.startsWith('0X') || (/^0[0-9]/.test(digits) && isWhole)) {
    throw new CompileError(
      `${text} is no number here; hexadecimal numbers start with 0x, octal ones do not exist`,
      offset,
    );
  }
  if (suffix === '' && isWhole) return wholeValue(digits, offset);
  if (/^[lL]$/.test(suffix) && isWhole) return longValue(digits, offset);
  if (/^[dD]?$/.test(suffix)) return new JavaDouble(Number(digits));
  if (/^[fF]$/.test(suffix)) return new JavaFloat(Number(digits));
  const ErrorType = /^[bBiI]$/.test(suffix) ? UnavailableError : CompileError;
  throw new ErrorType(
    `${text}${suffix.slice(0, MAX_SHOWN_LENGTH)} is no number; allowed suffixes are L, f and d`,
    offset,
  );
}

/** The literal 2147483647 is a long already, as in MVEL. */
function wholeValue(digits: string, offset: number): Value {
  const value = Number(digits);
  return value < 2_147_483_647 ? value : longValue(digits, offset);
}

function longValue(digits: string, offset: number): Value {
  if (digits.length > MAX_SHOWN_LENGTH)
    throw new CompileError(`${digits.slice(0, MAX_SHOWN_LENGTH)}… is too large for a long`, offset);
  const value = BigInt(digits);
  if (value > 9_223_372_036_854_775_807n) throw new CompileError(`${digits} is too large for a long`, offset);
  return new JavaLong(value);
}
