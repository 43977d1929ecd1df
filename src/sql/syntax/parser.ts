import { LAST_IDENTIFIER, T } from './kinds.ts';
import { type TokenBuffer, tokenizeSql } from './lexer.ts';

// biome-ignore format: a line for each name would be longer than the rest of the file.
const {
  BACKQUOTED_IDENTIFIER, BINARY_LITERAL, COMMA, DAY, DECIMAL_VALUE, DIGIT_IDENTIFIER, DOT, DOUBLE, DOUBLE_VALUE,
  EOF, FALSE, HOUR, IDENTIFIER, INTEGER_VALUE, INTERVAL, LPAREN, MINUS, MINUTE, MONTH, NULL, PLUS, PRECISION,
  QUOTED_IDENTIFIER, RPAREN, SECOND, STRING, TO, TRUE, UESCAPE, UNICODE_STRING, YEAR,
} = T;

const lastIdentifier = LAST_IDENTIFIER;

/** Thrown to leave the parser, which holds the error. A single shared object, as errors are a normal result. */
class SyntaxFailure extends Error {}
const failure = new SyntaxFailure('syntax error');

/** Values of `Parser.blamed` that are no token. */
const UNBLAMED = -1;
const SELF = -2;

/** Maximum nesting depth of recursive constructs; deeper text is rejected (the engine's own parser overflows). */
const MAX_DEPTH = 1_500;
/** The engine's message for a text that is nested too deep for its parser. */
export const TOO_DEEP = 'statement is too large (stack overflow while parsing)';

export const NameRole = {
  table: 0,
  schema: 1,
  catalog: 2,
  column: 3,
  /** A procedure: must be a full name, but is no table. */
  procedure: 4,
  /** The schema of the defaults, as nothing is named. */
  defaultSchema: 5,
  /** The catalog of the defaults, as nothing is named. */
  defaultCatalog: 6,
  renamedSchema: 7,
  /** The new name of the table or view named before, whose catalog it takes if it has none. */
  renamedTable: 8,
  tableFunction: 9,
} as const;

/**
 * State of a parse: tokens, position and results. Rules of the grammar are functions that take it, one per rule, in the
 * other files of this folder. They only move forward and peek where the grammar needs to look ahead.
 */
export class Parser {
  readonly text: string;
  readonly tokens: TokenBuffer;
  readonly kinds: Uint16Array;
  pos = 0;
  /** Kind of the token at `pos`. */
  kind: number;
  statement = '';
  /** Class name of the statement that EXPLAIN ANALYZE runs; "" for none. */
  analyzed = '';
  /** Names found: role, first token, number of parts; parts are two tokens apart. */
  readonly names: number[] = [];
  /** Token of the error; the message reports its position. */
  errorToken = 0;
  /** Message of the error; "" for a mismatched token. */
  errorMessage = '';
  /** First token of the select item being read, where `x.*` may stand. */
  starStart = -1;
  /** True while reading the relation of `NEAREST (FROM …)`, whose alias cannot be the MATCH that follows. */
  inNearest = false;
  private scope: Map<string, number> | null = null;
  /**
   * For EXECUTE, DESCRIBE INPUT and DESCRIBE OUTPUT, also under EXPLAIN: token of the prepared statement's name; for EXECUTE
   * IMMEDIATE: token of its text. -1 for others.
   */
  executed = -1;
  /** For CALL: token of the literal that names the query, where there is one; see `callArguments`. */
  readonly call = { nameToken: -1, nameParts: 0, queryIdToken: -1 };
  /**
   * Token at which errors are reported instead of their own position. The engine's parser looks ahead over all of `IN
   * (…)`, as IN may follow an expression too; if that fails it takes the expression as finished before IN. `UNBLAMED`
   * for none;
   * `SELF` if an outer decision looks ahead over everything, so that errors are reported at their own position. The
   * outermost decision counts.
   */
  blamed: number = UNBLAMED;
  private opened = -1;
  private depth = 0;
  private softToken = -1;
  private softMessage = '';

  constructor(text: string) {
    this.text = text;
    this.tokens = tokenizeSql(text);
    this.kinds = this.tokens.kinds;
    this.kind = this.kinds[0] as number;
  }

  /** Kind of the token `offset` places ahead (at most `LOOKAHEAD` beyond the end). */
  peek(offset: number): number {
    return this.kinds[this.pos + offset] as number;
  }

  next(): void {
    this.pos += 1;
    this.kind = this.kinds[this.pos] as number;
  }

  accept(kind: number): boolean {
    if (this.kind !== kind) return false;
    this.next();
    return true;
  }

  expect(kind: number): void {
    if (this.kind !== kind) throw this.mismatch();
    this.next();
  }

  /** Takes one of two kinds. */
  expectEither(one: number, other: number): void {
    if (this.kind !== one && this.kind !== other) throw this.mismatch();
    this.next();
  }

  /** True if the token, or the one `offset` ahead, can be an identifier. */
  atIdentifier(offset = 0): boolean {
    const kind = this.kinds[this.pos + offset] as number;
    return kind !== EOF && kind <= lastIdentifier;
  }

  identifier(): void {
    const kind = this.kind;
    if (kind === EOF || kind > lastIdentifier) throw this.mismatch();
    if (kind !== IDENTIFIER && kind <= DIGIT_IDENTIFIER) this.checkIdentifier(kind);
    this.next();
  }

  /** Rejects identifiers that the grammar reads only for a better error message. */
  private checkIdentifier(kind: number): void {
    if (kind === BACKQUOTED_IDENTIFIER) {
      throw this.fail(this.pos, 'backquoted identifiers are not supported; use double quotes to quote identifiers');
    }
    if (kind === DIGIT_IDENTIFIER) {
      throw this.fail(this.pos, 'identifiers must not start with a digit; surround the identifier with double quotes');
    }
    if ((this.tokens.ends[this.pos] as number) - (this.tokens.starts[this.pos] as number) === 2) {
      throw this.fail(this.pos, 'Zero-length delimited identifier not allowed');
    }
  }

  /** Takes `a.b.c`; returns the number of its parts. */
  qualifiedName(): number {
    this.identifier();
    let parts = 1;
    while (this.kind === DOT) {
      this.next();
      this.identifier();
      parts += 1;
    }
    return parts;
  }

  /** Takes a qualified name and records its role. */
  namedObject(role: number): void {
    const token = this.pos;
    this.names.push(role, token, this.qualifiedName());
  }

  tokenText(token: number): string {
    return this.text.slice(this.tokens.starts[token] as number, this.tokens.ends[token] as number);
  }

  /** Value of an identifier's token in lower case. */
  identifierValue(token: number): string {
    const start = this.tokens.starts[token] as number;
    const end = this.tokens.ends[token] as number;
    if (this.kinds[token] !== QUOTED_IDENTIFIER) return this.text.slice(start, end).toLowerCase();
    const inner = this.text.slice(start + 1, end - 1).toLowerCase();
    return inner.includes('"') ? inner.replaceAll('""', '"') : inner;
  }

  /** Returns the exception for a token that no rule accepts. */
  mismatch(): Error {
    const place = this.pos === this.opened ? this.pos + 1 : this.pos;
    this.errorToken = this.blamed >= 0 ? this.blamed : place;
    this.errorMessage = '';
    return failure;
  }

  fail(token: number, message: string): Error {
    this.errorToken = token;
    this.errorMessage = message;
    return failure;
  }

  /**
   * Records an error that the engine finds only in the finished tree: a later syntax error takes precedence. The first
   * one counts, unless the engine checks this before some of the parts that stand before it: tokens `from` to `to`.
   */
  later(token: number, message: string, from = Number.MAX_SAFE_INTEGER, to = Number.MAX_SAFE_INTEGER): void {
    if (this.softToken >= 0 && (this.softToken < from || this.softToken >= to)) return;
    this.softToken = token;
    this.softMessage = message;
  }

  /** Throws the error that `later` recorded. */
  settle(): void {
    if (this.softToken >= 0) throw this.fail(this.softToken, this.softMessage);
  }

  /** Enters a nested construct. */
  enter(): void {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw this.fail(0, TOO_DEEP);
  }

  leave(): void {
    this.depth -= 1;
  }

  /** Reports following errors at this token, unless an outer decision already does; returns the value for `unblame`. */
  blame(token: number): number {
    const outer = this.blamed;
    if (outer === UNBLAMED) this.blamed = token;
    return outer;
  }

  /** Reports following errors at their own position, unless an outer decision already reports them elsewhere. */
  blameSelf(): number {
    return this.blame(SELF);
  }

  /**
   * Records a token that could start a construct that the next token does not continue. If an outer decision looks
   * ahead, and nothing else accepts the first token, the error is at the second.
   */
  open(token: number): void {
    if (this.blamed !== UNBLAMED) this.opened = token;
  }

  /** True while an outer decision determines the position of errors. */
  isBlamed(): boolean {
    return this.blamed !== UNBLAMED;
  }

  unblame(outer: number): void {
    this.blamed = outer;
  }

  bindName(name: string): void {
    this.scope ??= new Map();
    this.scope.set(name, (this.scope.get(name) ?? 0) + 1);
  }

  unbindNames(names: readonly string[]): void {
    for (const name of names) {
      const count = this.scope?.get(name) ?? 0;
      if (count <= 1) this.scope?.delete(name);
      else this.scope?.set(name, count - 1);
    }
  }

  /** Records a relation's name as a table unless it is a name of WITH. */
  relationName(token: number, parts: number): void {
    if (parts === 1 && this.scope !== null && this.scope.size > 0 && this.scope.has(this.identifierValue(token)))
      return;
    this.names.push(NameRole.table, token, parts);
  }
}

export function isSyntaxFailure(error: unknown): boolean {
  return error === failure;
}

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
