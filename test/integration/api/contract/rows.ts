/** Words of databases, of their drivers and of stack traces: none of them is for a client. */
export const internals =
  /\b(select|insert|update|delete) .*\b(from|into|set|where)\b|sqlstate|\bER_[A-Z]|syntax error|constraint|violates|duplicate (key|entry)|relation "|knex|mysql|postgres|node_modules|\.ts:\d|\bat .+:\d+:\d+/i;

/** A call of an operation. */
export interface RowCall {
  /** Values of `{name}` in the path. */
  readonly path?: Readonly<Record<string, string | number>>;
  /** Query string without `?`. */
  readonly query?: string;
  /** Text is sent as it is, everything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Who calls; `root` (all roles) when absent, null: nobody. */
  readonly as?: string | null;
}

/** A call with what it must be answered. */
export interface Row extends RowCall {
  readonly why: string;
  readonly status: number;
  /** The field that an error names. */
  readonly field?: string;
  /** Part of a successful answer's JSON, or its whole text. */
  readonly shows?: unknown;
  /** Calls that come first, each of which must succeed. */
  readonly first?: readonly (readonly [operation: string, call: RowCall])[];
}

/**
 * The rows of one operation. Nothing can be left out silently: null says that there is no such error. What can be derived
 * from the document (not logged in, without role, fields missing or of a wrong type, media type, size) has no rows.
 */
export interface OperationRows {
  readonly success: readonly [Row, ...Row[]];
  /** Names of what does not exist. */
  readonly unknown: readonly Row[] | null;
  /** Well-formed, but against what exists or what can be. */
  readonly conflict: readonly Row[] | null;
  /** Beside what the document says itself. */
  readonly malformed?: readonly Row[];
}

/** What the rig has made before the first call. */
export interface Known {
  /** Id of a group without selectors or children. */
  readonly group: number;
  /** Id of a group that a selector points to. */
  readonly usedGroup: number;
  /** A database of the same server with the tables. */
  readonly otherDatabase: string;
  /** A database of the server itself. */
  readonly systemDatabase: string;
  /** Answer of the OpenID provider to a login that was begun here, and the cookie of its state. */
  readonly callback: { readonly query: string; readonly cookie: string };
  /** The same for a login that was begun at a provider by its name. */
  readonly namedCallback: { readonly query: string; readonly cookie: string };
  /** Token of a session. */
  readonly session: string;
}
