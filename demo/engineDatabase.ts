/** The SQLite database of a simulated engine. Each table has its qualified name as one identifier: `"tpch.tiny.nation"`. */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { QueryError } from './queryError.ts';
import { createTables } from './tables.ts';

/** A column of a result. `type` is the engine's type name, e.g. `bigint`, `varchar(25)`. */
export interface Column {
  readonly name: string;
  readonly type: string;
}

/** A value as the protocol carries it. */
export type Value = string | number | boolean | null;
export type Row = readonly Value[];

/** Some rows of a result, in order. */
export interface Rows {
  readonly rows: readonly Row[];
  /** True if these are the last ones. */
  readonly isLast: boolean;
}

/** Rows that are read before columns get a type: SQLite has types of values, not of columns. */
const TYPED_ROWS = 100;
/** Types that SQLite gives to columns of `CREATE TABLE … AS`. */
const affinities: Readonly<Record<string, string>> = { int: 'bigint', text: 'varchar', num: 'double', real: 'double' };

/** @param bytes a database that `serialize` returned; without it the database has the tables of the demonstration */
export function openDatabase(version: string, bytes?: Uint8Array): DatabaseSync {
  const database = new DatabaseSync(':memory:');
  const now = () => engineTime(Date.now());
  const units = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 };
  const millis = (time: unknown) => Date.parse(String(time).replace(' UTC', 'Z'));
  const options = { deterministic: true };
  database.function('part', options, (name, index) => String(name).split('.')[Number(index)] ?? null);
  database.function('version', () => version);
  database.function('now', now);
  database.function('date_diff', (unit, from, to) => {
    const length = units[String(unit) as keyof typeof units];
    return length === undefined ? null : Math.trunc((millis(to) - millis(from)) / length);
  });
  if (bytes === undefined) database.exec(createTables);
  else database.deserialize(bytes);
  return database;
}

/** Formats a time as the engine prints `timestamp(3) with time zone`. */
export function engineTime(millis: number): string {
  return `${new Date(millis).toISOString().slice(0, -1)} UTC`.replace('T', ' ');
}

/** Runs something in SQLite. @throws QueryError that names the demonstration if SQLite rejects it */
export function inSqlite<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new QueryError(
      'NOT_SUPPORTED',
      `The demo's simulated engine runs statements in SQLite, which rejects this one: ${(error as Error).message}`,
    );
  }
}

/** A query that SQLite runs. Rows are computed when they are read. */
export class DatabaseQuery {
  readonly columns: readonly Column[];
  readonly #rows: Iterator<readonly unknown[]>;
  readonly #first: (readonly unknown[])[] = [];

  /** @throws QueryError */
  constructor(database: DatabaseSync, sql: string, parameters: readonly Value[] | Readonly<Record<string, Value>>) {
    const statement = inSqlite(() => database.prepare(sql));
    statement.setReturnArrays(true);
    statement.setAllowUnknownNamedParameters(true);
    const rows = inSqlite(() =>
      Array.isArray(parameters)
        ? statement.iterate(...parameters.map(toSqliteValue))
        : statement.iterate(parameters as Record<string, SQLInputValue>),
    );
    this.#rows = rows as unknown as Iterator<readonly unknown[]>;
    while (this.#first.length < TYPED_ROWS) {
      const row = this.#next();
      if (row === undefined) break;
      this.#first.push(row);
    }
    this.columns = columnsOf(statement, this.#first);
  }

  /** Reads at most so many rows. @throws QueryError */
  read(count: number): Rows {
    const rows: Row[] = [];
    while (rows.length < count) {
      const row = this.#first.shift() ?? this.#next();
      if (row === undefined) return { rows, isLast: true };
      rows.push(this.columns.map(({ type }, i) => wireValue(row[i], type)));
    }
    return { rows, isLast: false };
  }

  #next(): readonly unknown[] | undefined {
    const { done, value } = inSqlite(() => this.#rows.next());
    return done === true ? undefined : value;
  }
}

export function toSqliteValue(value: Value): SQLInputValue {
  return typeof value === 'boolean' ? Number(value) : value;
}

function columnsOf(statement: StatementSync, rows: readonly (readonly unknown[])[]): readonly Column[] {
  return statement.columns().map(({ name, type }, i) => {
    const declared = type?.toLowerCase();
    if (declared !== undefined && declared !== '') return { name, type: affinities[declared] ?? declared };
    const value = rows.map((row) => row[i]).find((each) => each !== null);
    const isDouble = rows.some((row) => typeof row[i] === 'number' && !Number.isInteger(row[i]));
    if (typeof value === 'number') return { name, type: isDouble ? 'double' : 'bigint' };
    if (value === undefined) return { name, type: 'unknown' };
    return { name, type: typeof value === 'string' ? 'varchar' : 'varbinary' };
  });
}

function wireValue(value: unknown, type: string): Value {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  return type === 'boolean' && typeof value === 'number' ? value !== 0 : ((value ?? null) as Value);
}
