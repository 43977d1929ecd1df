/** The small SQL that the simulated engine understands: tokens and syntax trees. */

/** An error of a query, as the engine names them (errorCode, errorName and errorType of its StandardErrorCode). */
export class QueryError extends Error {
  override readonly name = 'QueryError';
  readonly errorName: ErrorName;
  /** 1-based line and column of the statement where it is known. */
  readonly location: { readonly lineNumber: number; readonly columnNumber: number } | undefined;

  constructor(errorName: ErrorName, message: string, location?: { lineNumber: number; columnNumber: number }) {
    super(message);
    this.errorName = errorName;
    this.location = location;
  }
}

/** The engine's error codes that the simulated engine uses. */
export const errorCodes = {
  ABANDONED_QUERY: { code: 2, type: 'USER_ERROR' },
  SYNTAX_ERROR: { code: 1, type: 'USER_ERROR' },
  USER_CANCELED: { code: 3, type: 'USER_ERROR' },
  NOT_FOUND: { code: 5, type: 'USER_ERROR' },
  FUNCTION_NOT_FOUND: { code: 6, type: 'USER_ERROR' },
  DIVISION_BY_ZERO: { code: 8, type: 'USER_ERROR' },
  NOT_SUPPORTED: { code: 13, type: 'USER_ERROR' },
  UNKNOWN_TRANSACTION: { code: 20, type: 'USER_ERROR' },
  NOT_IN_TRANSACTION: { code: 21, type: 'USER_ERROR' },
  ADMINISTRATIVELY_KILLED: { code: 31, type: 'USER_ERROR' },
  CATALOG_NOT_FOUND: { code: 44, type: 'USER_ERROR' },
  SCHEMA_NOT_FOUND: { code: 45, type: 'USER_ERROR' },
  TABLE_NOT_FOUND: { code: 46, type: 'USER_ERROR' },
  COLUMN_NOT_FOUND: { code: 47, type: 'USER_ERROR' },
  TYPE_MISMATCH: { code: 58, type: 'USER_ERROR' },
  TABLE_ALREADY_EXISTS: { code: 55, type: 'USER_ERROR' },
  SERVER_STARTING_UP: { code: 65541, type: 'INTERNAL_ERROR' },
  GENERIC_INTERNAL_ERROR: { code: 65536, type: 'INTERNAL_ERROR' },
} as const;
export type ErrorName = keyof typeof errorCodes;

/** A value of a row. Decimals are numbers until they are printed. */
export type Value = string | number | boolean | null;

export interface Token {
  readonly kind: 'word' | 'quoted' | 'string' | 'number' | 'symbol' | 'end';
  readonly text: string;
  readonly line: number;
  readonly column: number;
}

/** An expression. */
export type Expression =
  | { readonly kind: 'literal'; readonly value: Value; readonly type: string }
  | { readonly kind: 'column'; readonly name: string; readonly token: Token }
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly Expression[]; readonly token: Token };

export interface SelectItem {
  /** Absent for `*`. */
  readonly expression?: Expression;
  readonly alias?: string;
}

/** What a query reads: a table by name, or a table function such as `TABLE(sequence(start => 1, stop => 10))`. */
export type Relation =
  | { readonly kind: 'table'; readonly name: readonly string[]; readonly token: Token }
  | {
      readonly kind: 'function';
      readonly name: string;
      readonly args: ReadonlyMap<string, Expression>;
      readonly token: Token;
    }
  | { readonly kind: 'values'; readonly rows: readonly (readonly Expression[])[] }
  | { readonly kind: 'select'; readonly query: Select };

export interface Select {
  readonly items: readonly SelectItem[];
  readonly from?: Relation;
  readonly where?: Expression;
  readonly groupBy: readonly Expression[];
  readonly orderBy: readonly { readonly expression: Expression; readonly descending: boolean }[];
  readonly limit?: number;
}

const tokenPattern =
  /\s+|--[^\n]*|\/\*[\s\S]*?\*\/|(?<word>[A-Za-z_][\w$]*)|"(?<quoted>(?:[^"]|"")*)"|'(?<string>(?:[^']|'')*)'|(?<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?<symbol><>|<=|>=|!=|\|\||=>|[-+*/%=<>(),.?])/gy;

/** Tokens of a statement, blank space and comments left out; the last one is of kind `end`. */
export function tokenize(text: string): readonly Token[] {
  const tokens: Token[] = [];
  let line = 1;
  let lineStart = 0;
  let at = 0;
  tokenPattern.lastIndex = 0;
  while (at < text.length) {
    tokenPattern.lastIndex = at;
    const match = tokenPattern.exec(text);
    const column = at - lineStart + 1;
    if (match === null) throw mismatch({ kind: 'symbol', text: text.charAt(at), line, column });
    const groups = match.groups ?? {};
    const kind = (['word', 'quoted', 'string', 'number', 'symbol'] as const).find((name) => groups[name] !== undefined);
    if (kind !== undefined) {
      const raw = groups[kind] ?? '';
      const quote = kind === 'quoted' ? '"' : kind === 'string' ? "'" : '';
      tokens.push({ kind, text: quote === '' ? raw : raw.replaceAll(quote + quote, quote), line, column });
    }
    for (let i = match[0].indexOf('\n'); i !== -1; i = match[0].indexOf('\n', i + 1)) {
      line += 1;
      lineStart = at + i + 1;
    }
    at += match[0].length;
  }
  tokens.push({ kind: 'end', text: '<EOF>', line, column: at - lineStart + 1 });
  return tokens;
}

/** The engine's message for a token that does not belong there. */
export function mismatch(token: Token, expecting?: string): QueryError {
  const expectation = expecting === undefined ? '' : `. Expecting: ${expecting}`;
  return new QueryError(
    'SYNTAX_ERROR',
    `line ${token.line}:${token.column}: mismatched input '${token.text}'${expectation}`,
    { lineNumber: token.line, columnNumber: token.column },
  );
}
