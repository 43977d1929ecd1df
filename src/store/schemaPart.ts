import type { Knex } from 'knex';
import type { SqlDialect } from './dialect.ts';
import type { IndexDefinition, TableDefinition } from './schema.ts';

/** A statement that adds or changes something in the database. */
export interface MigrationStep {
  readonly adds: string;
  readonly sql: string;
  /** The program works without it, more slowly or within narrower bounds. */
  readonly optional?: true;
  readonly isSlow?: true;
}

/** Part of a migration: plans the statements that the database needs for it, none if it is there. Only reads. */
export type SchemaPart = (schema: PlannedSchema) => Promise<readonly MigrationStep[]>;

/** A database's schema as it will be once the statements that are planned so far have run. */
export class PlannedSchema {
  readonly connection: Knex;
  readonly dialect: SqlDialect;
  /** Version that the database has; 0 where none is kept in it. */
  readonly version: number;
  /** Tables that are read or planned, with their columns and types; null: not there. */
  readonly #tables = new Map<string, Map<string, string> | null>();
  readonly #newTables = new Set<string>();
  readonly #required: { readonly table: string; readonly column: string }[] = [];

  constructor(connection: Knex, dialect: SqlDialect, version: number) {
    this.connection = connection;
    this.dialect = dialect;
    this.version = version;
  }

  /** Columns of a table with their types and `not null` in lower case, those of planned tables without types; null: there is no such table. */
  async columns(table: string): Promise<ReadonlyMap<string, string> | null> {
    return await this.#read(table);
  }

  isPlanned(table: string): boolean {
    return this.#newTables.has(table);
  }

  /** True if a table has an index of that name; a planned table has none. */
  async hasIndex(table: string, name: string): Promise<boolean> {
    return !this.#newTables.has(table) && (await this.dialect.hasIndex(this.connection, table, name));
  }

  /** True if a table has a row of that `name`; a planned table has none. */
  async hasRow(table: string, name: string): Promise<boolean> {
    if (this.#newTables.has(table)) return false;
    return (await this.connection(table).where('name', name).first('name')) !== undefined;
  }

  willHaveTable({ name, columns }: TableDefinition): void {
    this.#newTables.add(name);
    this.#tables.set(name, new Map(columns(this.dialect).map((column) => [column, ''])));
  }

  async willHaveColumn(table: string, column: string): Promise<void> {
    (await this.#read(table))?.set(column, '');
  }

  /** Notes columns that the program needs in a table. */
  require({ name, columns }: TableDefinition): void {
    this.#required.push(...columns(this.dialect).map((column) => ({ table: name, column })));
  }

  /** Columns that the program needs and that are neither there nor planned, as in a table that another user made. */
  async missingColumns(): Promise<readonly string[]> {
    const missing: string[] = [];
    for (const { table, column } of this.#required) {
      if ((await this.columns(table))?.has(column) === false) missing.push(`column ${table}.${column}`);
    }
    return missing;
  }

  async #read(table: string): Promise<Map<string, string> | null> {
    const present = this.#tables.get(table);
    if (present !== undefined) return present;
    const columns = await this.dialect.columns(this.connection, table);
    const read = columns === null ? null : new Map(columns);
    this.#tables.set(table, read);
    return read;
  }
}

export function addTable(definition: TableDefinition): SchemaPart {
  return async (schema) => {
    schema.require(definition);
    if ((await schema.columns(definition.name)) !== null) return [];
    schema.willHaveTable(definition);
    return [{ adds: `table ${definition.name}`, sql: definition.create(schema.dialect) }];
  };
}

/**
 * Adds a column to a table that is there.
 * @param type its SQL type; a column that is not null needs a default here, as the table may have rows
 */
export function addColumn(table: string, column: string, type: (dialect: SqlDialect) => string): SchemaPart {
  return async (schema) => {
    if ((await schema.columns(table))?.has(column) !== false) return [];
    await schema.willHaveColumn(table, column);
    const sql = `alter table ${table} add ${column} ${type(schema.dialect)}`;
    return [{ adds: `column ${table}.${column}`, sql }];
  };
}

/** Adds an index; without it the program works more slowly. */
export function addIndex({ table, name, columns, sparse }: IndexDefinition): SchemaPart {
  return async (schema) => {
    if (await schema.hasIndex(table, name)) return [];
    const isSparse = sparse === true && schema.dialect.name !== 'mysql';
    const where = isSparse ? ` where ${columns.split(',', 1)[0]} is not null` : '';
    const step: MigrationStep = {
      adds: `index ${name}`,
      sql: `create index ${name} on ${table} (${columns})${where}`,
      optional: true,
    };
    return [schema.isPlanned(table) ? step : { ...step, isSlow: true }];
  };
}

/** Adds a row that the program expects to find. @param name value of the table's column `name` */
export function addRow(table: string, name: string, sql: string): SchemaPart {
  return async (schema) => ((await schema.hasRow(table, name)) ? [] : [{ adds: `row of ${table}`, sql }]);
}

/**
 * Changes what is there: types, names, rows. Its statements run once, in databases below the migration's version, new
 * ones too. On MySQL each commits by itself: should the process end between two, all run again, so each must bear that.
 * @param version that of the migration
 * @param adds what changes, for users
 */
export function changeOnce(
  version: number,
  adds: string,
  statements: (dialect: SqlDialect) => readonly string[],
): SchemaPart {
  return async (schema) => (schema.version >= version ? [] : statements(schema.dialect).map((sql) => ({ adds, sql })));
}

/**
 * A part of a release that a later migration undoes, such as by renaming a column: it is looked for only in databases below that
 * migration.
 */
export function untilVersion(version: number, part: SchemaPart): SchemaPart {
  return async (schema) => (schema.version >= version ? [] : await part(schema));
}
