/** A query of the suite, on one line. */
export interface SuiteQuery {
  readonly sql: string;
  /** What it is there for; plain queries when absent. */
  readonly kind?: 'big' | 'failing' | 'cancelled';
}

/** Runs until it is cancelled, for as long as a test needs. */
export const slowQuery = "SELECT count(*) FROM tpch.sf1000.lineitem WHERE comment LIKE '%no such comment%'";

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
  { sql: 'SELECT * FROM TABLE(sequence(start => 1, stop => 150000))', kind: 'big' },
  { sql: 'SELECT 100 / (nationkey - 7) FROM tpch.tiny.nation', kind: 'failing' },
  { sql: slowQuery, kind: 'cancelled' },
];

/** Takes a few seconds and streams its rows all the while: for the run in which an engine is stopped. */
export const longQuery = 'SELECT orderkey, comment FROM tpch.sf1.orders WHERE orderkey < 480000';

/** Rows that the big query has at least. */
export const BIG_ROWS = 100_000;
