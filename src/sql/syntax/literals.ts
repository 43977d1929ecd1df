import { T } from './kinds.ts';
import type { Parser } from './parser.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  BINARY_LITERAL, COMMA, DAY, DECIMAL_VALUE, DOUBLE, DOUBLE_VALUE, FALSE, HOUR, IDENTIFIER, INTEGER_VALUE,
  INTERVAL, LPAREN, MINUS, MINUTE, MONTH, NULL, PLUS, PRECISION, QUOTED_IDENTIFIER, RPAREN, SECOND, STRING, TO,
  TRUE, UESCAPE, UNICODE_STRING, YEAR,
} = T;

/** Literals, and the checks that the engine makes of them when it builds its tree. */

export function atString(p: Parser): boolean {
  return p.kind === STRING || p.kind === UNICODE_STRING;
}

/** `string` of the grammar. */
export function string(p: Parser): void {
  if (p.kind === STRING) {
    p.next();
    return;
  }
  if (p.kind !== UNICODE_STRING) throw p.mismatch();
  const token = p.pos;
  p.next();
  if (p.accept(UESCAPE)) {
    p.expect(STRING);
    checkUnicode(p, token, p.pos - 1);
  } else checkUnicode(p, token, -1);
}

function checkUnicode(p: Parser, token: number, escapeToken: number): void {
  const decoded = decodeUnicode(p, token, escapeToken);
  if (decoded.error !== null) p.later(token, decoded.error);
}

/** Value of a string's tokens, as the engine reads it; null if its escapes are invalid. */
export function stringValue(p: Parser, token: number): string | null {
  if (p.kinds[token] === STRING) return unquote(p.tokenText(token));
  return decodeUnicode(p, token, p.kinds[token + 1] === UESCAPE ? token + 2 : -1).value;
}

function unquote(text: string): string {
  return text.slice(1, -1).replaceAll("''", "'");
}

const isHexDigit = (c: string): boolean => /^[0-9a-fA-F]$/.test(c);
const isValidEscape = (c: string): boolean => c < '\x7f' && c > ' ' && !isHexDigit(c) && !'"+\''.includes(c);

type Decoded = { readonly value: string; readonly error: null } | { readonly value: null; readonly error: string };
const wrong = (error: string): Decoded => ({ value: null, error });

/** Decodes `U&'…'`: an escape character and four hexadecimal digits, or `+` and six; the escape character twice is itself. */
function decodeUnicode(p: Parser, token: number, escapeToken: number): Decoded {
  let escapeSign = '\\';
  if (escapeToken >= 0) {
    escapeSign = unquote(p.tokenText(escapeToken));
    if (escapeSign === '') return wrong('Empty Unicode escape character');
    if (escapeSign.length !== 1 || !isValidEscape(escapeSign))
      return wrong(`Invalid Unicode escape character: ${escapeSign}`);
  }
  const raw = unquote(p.tokenText(token).slice(2));
  let value = '';
  let at = 0;
  while (at < raw.length) {
    const signAt = raw.indexOf(escapeSign, at);
    if (signAt < 0) break;
    value += raw.slice(at, signAt);
    const first = raw[signAt + 1];
    if (first === undefined) return wrong('Incomplete escape sequence: ');
    if (first === escapeSign) {
      value += escapeSign;
      at = signAt + 2;
      continue;
    }
    if (first !== '+' && !isHexDigit(first)) return wrong(`Invalid hexadecimal digit: ${first}`);
    const from = first === '+' ? signAt + 2 : signAt + 1;
    const needed = first === '+' ? 6 : 4;
    let code = '';
    while (code.length < needed) {
      const digit = raw[from + code.length];
      if (digit === undefined || !isHexDigit(digit)) return wrong(`Incomplete escape sequence: ${code}`);
      code += digit;
    }
    const codePoint = Number.parseInt(code, 16);
    if (codePoint > 0x10ffff) return wrong(`Invalid escaped character: ${code}`);
    if (codePoint >= 0xd800 && codePoint <= 0xdfff) {
      return wrong(`Invalid escaped character: ${code}. Escaped character is a surrogate. Use '\\+123456' instead.`);
    }
    value += String.fromCodePoint(codePoint);
    at = from + needed;
  }
  return { value: value + raw.slice(at), error: null };
}

/** Takes an integer; `sign` is the token of the minus that belongs to it, or -1. */
export function integerLiteral(p: Parser, sign: number): void {
  const token = p.pos;
  const length = (p.tokens.ends[token] as number) - (p.tokens.starts[token] as number);
  // Eighteen characters always fit a long, whatever the base.
  if (length > 15) checkInteger(p, token, sign);
  p.next();
}

const LONG_MAX = 2n ** 63n;

function checkInteger(p: Parser, token: number, sign: number): void {
  const text = p.tokenText(token);
  // BigInt takes time quadratic in the length; nothing this long fits anyway, unless it is zeros.
  const digits = text.replaceAll('_', '').toLowerCase();
  const significant = digits.replace(/^(0[xob])?0*/, '').length;
  const value = significant > 64 ? LONG_MAX * 2n : BigInt(/^0[xob]/.test(digits) ? digits : digits || '0');
  if (value >= LONG_MAX + (sign >= 0 ? 1n : 0n)) {
    p.later(sign >= 0 ? sign : token, `Invalid numeric literal: ${sign >= 0 ? '-' : ''}${text}`);
  }
}

/** Takes `X'…'`. */
export function binaryLiteral(p: Parser): void {
  const token = p.pos;
  p.next();
  const digits = p.tokenText(token).slice(2, -1).replace(/\s+/g, '');
  if (/[^0-9A-Fa-f]/.test(digits)) p.later(token, 'Binary literal can only contain hexadecimal digits');
  else if (digits.length % 2 !== 0) p.later(token, 'Binary literal must contain an even number of digits');
}

/** True if the token `offset` ahead is a field of intervals. */
export function isIntervalField(kind: number): boolean {
  return kind === YEAR || kind === MONTH || kind === DAY || kind === HOUR || kind === MINUTE || kind === SECOND;
}

/** `intervalQualifier` of the grammar; TO is taken only where a field that can stand there follows. */
export function intervalQualifier(p: Parser): void {
  const token = p.pos;
  const field = p.kind;
  if (!isIntervalField(field)) throw p.mismatch();
  p.next();
  if (p.kind === LPAREN && (p.peek(1) === INTEGER_VALUE || p.isBlamed())) {
    p.next();
    p.expect(INTEGER_VALUE);
    if (field === SECOND && p.accept(COMMA)) p.expect(INTEGER_VALUE);
    p.expect(RPAREN);
  }
  if (p.kind !== TO) return;
  const to = p.peek(1);
  if (field === YEAR) {
    if (to !== MONTH) return;
    p.next();
    p.next();
    return;
  }
  if (field !== DAY && field !== HOUR && field !== MINUTE) return;
  if (to !== HOUR && to !== MINUTE && to !== SECOND) return;
  p.next();
  p.next();
  if (to === SECOND && p.accept(LPAREN)) {
    p.expect(INTEGER_VALUE);
    p.expect(RPAREN);
  }
  const valid = field === DAY || (field === HOUR && to !== HOUR) || (field === MINUTE && to === SECOND);
  if (!valid) {
    const word = (kind: number): string => (kind === HOUR ? 'HOUR' : kind === MINUTE ? 'MINUTE' : 'SECOND');
    p.later(token, `Invalid interval qualifier: ${word(field)} TO ${word(to)}`);
  }
}

/** `interval` of the grammar, at INTERVAL. */
export function interval(p: Parser): void {
  p.expect(INTERVAL);
  if (p.kind === PLUS || p.kind === MINUS) p.next();
  string(p);
  intervalQualifier(p);
}

/** True if INTERVAL at the token starts an interval's literal, not a column or a typed literal of that name. */
export function atInterval(p: Parser): boolean {
  let offset = 1;
  if (p.peek(1) === PLUS || p.peek(1) === MINUS) offset = 2;
  if (p.peek(offset) === STRING) return isIntervalField(p.peek(offset + 1));
  if (p.peek(offset) !== UNICODE_STRING) return false;
  return isIntervalField(p.peek(p.peek(offset + 1) === UESCAPE ? offset + 3 : offset + 1));
}

/** `identifier string`: a literal with its type's name. */
export function typedLiteral(p: Parser): void {
  const token = p.pos;
  p.identifier();
  string(p);
  if (p.kinds[token] === IDENTIFIER || p.kinds[token] === QUOTED_IDENTIFIER) {
    if (p.identifierValue(token) === 'x') {
      p.later(token, "Spaces are not allowed between 'X' and the starting quote of a binary literal");
    }
  }
}

/** `literal` of the grammar (defaults of columns). */
export function literal(p: Parser): void {
  switch (p.kind) {
    case INTERVAL:
      if (atInterval(p)) interval(p);
      else typedLiteral(p);
      return;
    case DOUBLE:
      if (p.peek(1) === PRECISION) {
        p.next();
        p.next();
        string(p);
      } else typedLiteral(p);
      return;
    case MINUS: {
      const sign = p.pos;
      p.next();
      if (p.kind === INTEGER_VALUE) integerLiteral(p, sign);
      else p.expectEither(DECIMAL_VALUE, DOUBLE_VALUE);
      return;
    }
    case INTEGER_VALUE:
      integerLiteral(p, -1);
      return;
    case BINARY_LITERAL:
      binaryLiteral(p);
      return;
    case DECIMAL_VALUE:
    case DOUBLE_VALUE:
    case TRUE:
    case FALSE:
    case NULL:
      p.next();
      return;
    case STRING:
    case UNICODE_STRING:
      string(p);
      return;
    default:
      typedLiteral(p);
  }
}
