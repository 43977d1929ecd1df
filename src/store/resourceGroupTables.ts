import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import type { Database } from './database.ts';
import { DatabaseFailure } from './failures.ts';
import type { Dialect } from './store.ts';

export interface ResourceGroupTables {
  readonly database: Pick<Database, 'dialect' | 'transaction'>;
  /** Its name for messages; null for the gateway's own. */
  readonly name: string | null;
}

/**
 * Runs the body in one transaction. What the database states is turned into errors of ours: its words, which hold
 * values, never leave the store but as `cause`.
 */
export async function inTransaction<T>(
  { database, name }: ResourceGroupTables,
  body: (trx: Knex.Transaction) => Promise<T>,
): Promise<T> {
  try {
    return await database.transaction(body);
  } catch (error) {
    throw asGatewayError(error, name);
  }
}

/** Locks the rows that a select reads until the transaction ends; SQLite locks as a whole. */
export function locked<Query extends Knex.QueryBuilder>(query: Query, dialect: Dialect): Query {
  return dialect === 'sqlite' ? query : (query.forUpdate() as Query);
}

/** Compares an id column with any whole number; PostgreSQL's `serial` would reject one beyond 32 bits. */
export function idEquals(trx: Knex, column: string, id: number, dialect: Dialect): Knex.Raw {
  return trx.raw(dialect === 'postgresql' ? '?? = cast(? as bigint)' : '?? = ?', [column, id]);
}

/** Codes of the three drivers (DatabaseFailure.code): SQLSTATE, MySQL's error name, SQLite's extended number. */
const codes = {
  duplicate: new Set(['23505', 'ER_DUP_ENTRY', 'SQLITE_2067', 'SQLITE_1555']),
  reference: new Set(['23503', 'ER_NO_REFERENCED_ROW_2', 'ER_ROW_IS_REFERENCED_2', 'SQLITE_787']),
  characters: new Set(['22P05', '22021', 'ER_TRUNCATED_WRONG_VALUE_FOR_FIELD']),
  noDatabase: new Set(['3D000', 'ER_BAD_DB_ERROR', 'ER_DBACCESS_DENIED_ERROR']),
  noTable: new Set(['42P01', 'ER_NO_SUCH_TABLE']),
};

function asGatewayError(error: unknown, name: string | null): unknown {
  const failure = error instanceof DatabaseFailure ? error : error instanceof GatewayError ? error.cause : null;
  if (!(failure instanceof DatabaseFailure)) return error;
  const where = name === null ? 'the database' : `the database ${name}`;
  const field = name === null ? {} : { field: 'useSchema' };
  if (codes.duplicate.has(failure.code)) {
    return new GatewayError('EG_CONFLICT', 'There is one of that name already.', { field: 'name', cause: failure });
  }
  if (codes.reference.has(failure.code)) {
    return new GatewayError('EG_CONFLICT', 'Another change of the groups came between; try again.', { cause: failure });
  }
  if (codes.characters.has(failure.code)) {
    const message = `The character set of ${where} lacks a character of the values.`;
    return new GatewayError('EG_IMPOSSIBLE', message, { cause: failure });
  }
  if (codes.noDatabase.has(failure.code) && name !== null) {
    return new GatewayError('EG_NOT_FOUND', `There is no database ${name} that the gateway may use.`, {
      ...field,
      cause: failure,
    });
  }
  if (codes.noTable.has(failure.code) || failure.driverMessage.includes('no such table')) {
    const message = `${where} lacks resource_groups, selectors or resource_groups_global_properties; an engine whose resource groups come from it makes them.`;
    return new GatewayError('EG_NOT_FOUND', message, { ...field, cause: failure });
  }
  return error;
}
