import type { Knex } from 'knex';
import { prepared } from './knexClients.ts';
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
   * @param changes condition as SQL under which the assignments change a row, so that others are not written; null: always
   * @param from joins to the new rows `t`, and values of columns other than their own, as SQL; MySQL knows neither
   */
  constructor(
    table: string,
    columns: Readonly<Record<string, string>>,
    key: string,
    update: ((fresh: (column: string) => string) => string) | null,
    changes: ((fresh: (column: string) => string) => string) | null = null,
    from: {
      readonly joins: { readonly sqlite: string; readonly postgresql: string };
      readonly values: Readonly<Record<string, string>>;
    } = { joins: { sqlite: '', postgresql: '' }, values: {} },
  ) {
    this.#names = Object.keys(columns);
    const names = this.#names.join(', ');
    const insert = `insert into ${table} (${names})`;
    const types = Object.entries(columns).map(([name, type]) => `${name} ${type}`);
    const excluded = (column: string) => `excluded.${column}`;
    const condition = changes === null ? '' : ` where ${changes(excluded)}`;
    const present =
      update === null ? 'on conflict do nothing' : `on conflict (${key}) do update set ${update(excluded)}${condition}`;
    const values = this.#names.map((name) => from.values[name] ?? `t.${name}`).join(', ');
    const select = (rows: string, joins: string) =>
      `${insert} select ${values} from ${rows} ${joins} where true ${present}`;
    const elements = this.#names.map((name, index) => `value->>${index} as ${name}`).join(', ');
    const renewed =
      update === null ? `${this.#names[0]} = ${table}.${this.#names[0]}` : update((name) => `values(${name})`);
    this.#sql = {
      postgresql: select(`json_to_recordset(cast(? as json)) as t(${types.join(', ')})`, from.joins.postgresql),
      sqlite: select(`(select ${elements} from json_each(?)) as t`, from.joins.sqlite),
      // MySQL 5.7 cannot unpack JSON into rows. The driver writes out an array of rows by itself.
      mysql: `${insert} values ? on duplicate key update ${renewed}`,
    };
  }

  /**
   * @param rows values in the order of the columns; each key once
   * @param within the whole statement; by default only the insert
   */
  async run(
    knex: Knex,
    dialect: Dialect,
    rows: readonly (readonly Value[])[],
    within = (insert: string) => insert,
  ): Promise<void> {
    if (rows.length === 0) return;
    const named = (row: readonly Value[]) => Object.fromEntries(this.#names.map((name, index) => [name, row[index]]));
    const binding =
      dialect === 'mysql' ? rows : JSON.stringify(dialect === 'postgresql' ? rows.map((row) => named(row)) : rows);
    await knex.raw(within(this.#sql[dialect]), [binding as unknown as Knex.RawBinding]).options(prepared);
  }
}
