import { runQuery } from '../support/statementClient.ts';

/** A query of the suite, on one line. */
export interface SuiteQuery {
  readonly sql: string;
  /** What it is there for; plain queries when absent. */
  readonly kind?: 'big' | 'failing' | 'cancelled';
}

/** A catalog whose tables have no rows but those that they make up, and as late as they say. */
export const idleCatalog = { blackhole: { 'connector.name': 'blackhole' } };

/** Pages of a row that the tables of that catalog have, and how long they take to come. */
const tables = { idle: [1000, '1s'], stream: [8, '400ms'] } as const;

/** Creates the tables of `slowQuery` and `longQuery` at a server that has `idleCatalog`. */
export async function createIdleTables(url: string): Promise<void> {
  for (const [table, [pages, delay]] of Object.entries(tables)) {
    const rows = `split_count = 1, pages_per_split = ${pages}, rows_per_page = 1, page_processing_delay = '${delay}'`;
    const sql = `CREATE TABLE blackhole.default.${table} (n bigint) WITH (${rows})`;
    const { error } = await runQuery(url, sql, { productName: 'Trino', user: 'suite' });
    if (error !== undefined) throw new Error(`the table cannot be created: ${error.message}`);
  }
}

/** Runs until it is cancelled, for as long as a test needs; it waits, and so leaves the processors to others. */
export const slowQuery = 'SELECT count(*) FROM blackhole.default.idle';

/** Twenty queries: types, joins, aggregates, metadata, a big result, one that fails and one that is cancelled. */
export const queries: readonly SuiteQuery[] = [
  { sql: 'SELECT 1' },
  {
    sql: "SELECT 'é ✓ ☃', 1.50, DATE '2026-11-21', TIMESTAMP '2026-11-21 01:02:03.456', true, NULL, 1e300, BIGINT '9007199254740993'",
  },
  { sql: "SELECT ARRAY[1, 2, NULL], MAP(ARRAY['a', 'b'], ARRAY[1, 2]), ROW(1, 'x'), X'65683F'" },
  { sql: 'SELECT count(*) FROM tpch.tiny.lineitem' },
  { sql: 'SELECT * FROM tpch.tiny.nation' },
  {
    sql: 'SELECT r.name, count(*) FROM tpch.tiny.nation n JOIN tpch.tiny.region r ON n.regionkey = r.regionkey GROUP BY 1',
  },
  {
    sql: 'SELECT returnflag, linestatus, sum(quantity), avg(discount), count(*) FROM tpch.tiny.lineitem GROUP BY 1, 2',
  },
  { sql: 'SELECT * FROM tpch.tiny.orders ORDER BY orderkey LIMIT 100' },
  { sql: 'SHOW CATALOGS' },
  { sql: 'SHOW TABLES FROM tpch.tiny' },
  { sql: 'DESCRIBE tpch.tiny.orders' },
  { sql: 'EXPLAIN (TYPE VALIDATE) SELECT * FROM tpch.tiny.customer' },
  { sql: "VALUES (1, 'a'), (2, 'b'), (3, NULL)" },
  { sql: 'SELECT custkey, name, address, comment FROM tpch.tiny.customer' },
  { sql: 'SELECT orderkey, row_number() OVER (ORDER BY totalprice DESC) FROM tpch.tiny.orders LIMIT 50' },
  { sql: 'SELECT n, n * n FROM UNNEST(sequence(1, 500)) AS t (n)' },
  { sql: 'WITH RECURSIVE t (n) AS (VALUES 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) SELECT sum(n) FROM t' },
  { sql: 'SELECT * FROM TABLE(sequence(start => 1, stop => 50000))', kind: 'big' },
  { sql: 'SELECT 100 / (nationkey - 7) FROM tpch.tiny.nation', kind: 'failing' },
  { sql: slowQuery, kind: 'cancelled' },
];

/** Takes a few seconds and streams its rows all the while: for the run in which an engine is stopped. */
export const longQuery = 'SELECT o.orderkey, o.comment FROM blackhole.default.stream s CROSS JOIN tpch.tiny.orders o';

/** Rows that the big query has at least. */
export const BIG_ROWS = 50_000;
