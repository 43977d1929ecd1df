import type { Knex } from 'knex';
import type { FittedRecord } from './columns.ts';
import type { Dialect } from './store.ts';

/** Everything in which the three databases differ, beyond what knex's builder covers. */
export interface SqlDialect {
  readonly name: Dialect;
  /** SQL expression: the database's clock in whole milliseconds since 1970. */
  readonly clockMs: string;
  /** Appended to a select to lock its rows; empty if a transaction locks the database. */
  readonly forUpdate: string;
  /** Makes a transaction one whose statements all see the database as it was at the first of them. */
  readonly snapshot: Knex.TransactionConfig;
  /** Statement that has the transaction add up very many rows quickly; null if there is nothing to set. */
  readonly addingUp: string | null;
  /** SQL: an aggregate that puts the texts of a group together, with commas between them. */
  joined(text: string): string;
  /** Column types of the shared tables (docs/database.md#tables) and of ours. */
  readonly types: {
    readonly identity: string;
    readonly longText: string;
    readonly timestamp: string;
    /** `query_type` of exact_match_source_selectors. */
    readonly exactQueryType: string;
    /** Written after a table of ours: character set and exact comparison. */
    readonly tableOptions: string;
    /** Keys of exact_match_source_selectors. */
    readonly exactKeys: string;
  };
  /** Runs `work` alone among all processes that migrate this database; in a transaction where DDL allows one. */
  migrateAlone<T>(knex: Knex, work: (connection: Knex) => Promise<T>): Promise<T>;
  /** Columns of a table in the schema that statements use, with their type and `not null` in lower case; null when there is no such table. */
  columns(knex: Knex, table: string): Promise<ReadonlyMap<string, string> | null>;
  hasIndex(knex: Knex, table: string, index: string): Promise<boolean>;
  /** Statement that widens `query_history.query_text` to unbounded text; null if no table has it narrow. */
  readonly widenQueryText: string | null;
  /** The key that allowed each name in `resource_groups` once: its index, and what removes it. @param create statement that creates the table without it */
  readonly uniqueGroupNames: { readonly index: string; readonly remove: (create: string) => readonly string[] };
  /** Inserts fitted records into query_history and eg_query_decisions; existing ids are left as they are. */
  insertHistory(knex: Knex, records: readonly FittedRecord[]): Promise<void>;
  /** Deletes rows of eg_running_queries by their ids; unknown ones are none. */
  removeRunningQueries(knex: Knex, queryIds: readonly string[]): Promise<void>;
  /** Deletes up to `limit` rows whose `column` is below the bound; returns their number. */
  deleteBatch(knex: Knex, table: string, column: string, bound: number, limit: number): Promise<number>;
}
