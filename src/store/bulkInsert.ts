import type { Knex } from 'knex';
import type { Dialect } from './store.ts';

type Value = string | number | null;

/** Inserts rows into a table with one binding for all of them: at thousands of rows a second bindings are most of the cost. */
export class BulkInsert {
  readonly #names: readonly string[];
  readonly #sql: Readonly<Record<Dialect, string>>;

  /**
   * @param columns types of the columns by their names, without keys
   * @param key columns of the primary key
   * @param update assignments to a row that is there, as SQL; null: it stays. `fresh` is the new value of a column
   */
  constructor(
    table: string,
    columns: Readonly<Record<string, string>>,
    key: string,
    update: ((fresh: (column: string) => string) => string) | null,
  ) {
    this.#names = Object.keys(columns);
    const names = this.#names.join(', ');
    const insert = `insert into ${table} (${names})`;
    const types = Object.entries(columns).map(([name, type]) => `${name} ${type}`);
    const present =
      update === null
        ? 'on conflict do nothing'
        : `on conflict (${key}) do update set ${update((column) => `excluded.${column}`)}`;
    const renewed =
      update === null ? `${this.#names[0]} = ${table}.${this.#names[0]}` : update((name) => `values(${name})`);
    this.#sql = {
      postgresql: `${insert} select ${names} from json_to_recordset(cast(? as json)) as t(${types.join(', ')}) ${present}`,
      sqlite: `${insert} select ${this.#names.map((_, index) => `value->>${index}`).join(', ')} from json_each(?) where true ${present}`,
      // MySQL 5.7 cannot unpack JSON into rows. The driver writes out an array of rows by itself.
      mysql: `${insert} values ? on duplicate key update ${renewed}`,
    };
  }

  /** @param rows values in the order of the columns; each key once */
  async run(knex: Knex, dialect: Dialect, rows: readonly (readonly Value[])[]): Promise<void> {
    if (rows.length === 0) return;
    const named = (row: readonly Value[]) => Object.fromEntries(this.#names.map((name, index) => [name, row[index]]));
    const binding =
      dialect === 'mysql' ? rows : JSON.stringify(dialect === 'postgresql' ? rows.map((row) => named(row)) : rows);
    await knex.raw(this.#sql[dialect], [binding as unknown as Knex.RawBinding]);
  }
}
