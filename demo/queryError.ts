/** An error of a query, as the engine names them (errorCode, errorName and errorType of its StandardErrorCode). */
export class QueryError extends Error {
  override readonly name = 'QueryError';
  readonly errorName: ErrorName;
  /** 1-based line and column of the statement, if the message begins with them. */
  readonly location: { readonly lineNumber: number; readonly columnNumber: number } | undefined;

  constructor(errorName: ErrorName, message: string) {
    super(message);
    this.errorName = errorName;
    const [, line, column] = /^line (\d+):(\d+): /.exec(message) ?? [];
    if (line !== undefined) this.location = { lineNumber: Number(line), columnNumber: Number(column) };
  }
}

/** The engine's error codes that the simulated engine uses. */
export const errorCodes = {
  SYNTAX_ERROR: { code: 1, type: 'USER_ERROR' },
  ABANDONED_QUERY: { code: 2, type: 'USER_ERROR' },
  USER_CANCELED: { code: 3, type: 'USER_ERROR' },
  NOT_FOUND: { code: 5, type: 'USER_ERROR' },
  NOT_SUPPORTED: { code: 13, type: 'USER_ERROR' },
  UNKNOWN_TRANSACTION: { code: 20, type: 'USER_ERROR' },
  NOT_IN_TRANSACTION: { code: 21, type: 'USER_ERROR' },
  ADMINISTRATIVELY_KILLED: { code: 31, type: 'USER_ERROR' },
  CATALOG_NOT_FOUND: { code: 44, type: 'USER_ERROR' },
  SCHEMA_NOT_FOUND: { code: 45, type: 'USER_ERROR' },
  TABLE_NOT_FOUND: { code: 46, type: 'USER_ERROR' },
  SERVER_STARTING_UP: { code: 65541, type: 'INTERNAL_ERROR' },
} as const;
export type ErrorName = keyof typeof errorCodes;
