import type { SizeEstimates } from '../model/sizeEstimates.ts';

/** A name as its parts, lower-case: `[catalog, schema, table]` for a table. Parts may hold dots. */
export type QualifiedName = readonly string[];

/** Analysis of a request's query (docs/sql-analysis.md#what-is-found). */
export interface QueryProperties {
  /** `line L:C: …` of a syntax error, or the text of a name or header error; null if there is no error. */
  readonly errorMessage: string | null;
  /** True if the request is a POST to a statement path. */
  readonly isNewQuerySubmission: boolean;
  /** Class name of the statement, e.g. `ShowCreate`; "" when nothing was parsed. */
  readonly queryType: string;
  /** `SELECT`, `DATA_DEFINITION`, …; "" when nothing was parsed. */
  readonly resourceGroupQueryType: string;
  /** Value of the header; null if missing. */
  readonly defaultCatalog: string | null;
  readonly defaultSchema: string | null;
  /** Tables as three parts each, in the order of their joined text, each once. */
  readonly tables: readonly QualifiedName[];
  /** Sorted, each once. */
  readonly catalogs: readonly string[];
  readonly schemas: readonly string[];
  /** `catalog.schema`, sorted, each once. */
  readonly catalogSchemas: readonly string[];
  readonly body: string;
  /** The query id of `CALL system.runtime.kill_query('id')`; null for anything else. */
  readonly queryId: string | null;
  /**
   * Reason that it is not certain what the engine runs: the header with prepared statements cannot be read, or the
   * named statement is missing. Deny rules that read the statement then deny. Undefined if it is certain.
   */
  readonly unreadable?: string | undefined;
  /** Estimates of its size; absent: nothing is estimated. */
  readonly estimates?: SizeEstimates | undefined;
}
