import { LAST_IDENTIFIER, T } from './kinds.ts';
import { type TokenBuffer, tokenizeSql } from './lexer.ts';

const { BACKQUOTED_IDENTIFIER, DIGIT_IDENTIFIER, DOT, EOF, IDENTIFIER, QUOTED_IDENTIFIER } = T;

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
