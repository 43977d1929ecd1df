/** Catalogs and schemas of a simulated engine. */
const schemas = [
  ...['memory.default', 'memory.information_schema', 'tpch.information_schema', 'tpch.tiny'],
  ...['information_schema', 'jdbc', 'metadata', 'runtime'].map((schema) => `system.${schema}`),
];

const regions = ['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'];

/** Names and regions of TPC-H's 25 nations, in the order of their keys. */
const nations =
  'ALGERIA 0,ARGENTINA 1,BRAZIL 1,CANADA 1,EGYPT 4,ETHIOPIA 0,FRANCE 3,GERMANY 3,INDIA 2,INDONESIA 2,IRAN 4,IRAQ 4,JAPAN 2,JORDAN 4,KENYA 0,MOROCCO 0,MOZAMBIQUE 0,PERU 1,CHINA 2,ROMANIA 3,SAUDI ARABIA 4,VIETNAM 2,RUSSIA 3,UNITED KINGDOM 3,UNITED STATES 1';

/** Columns of the JDBC driver's metadata that are constant here, with their values. */
const jdbcTableRest =
  'NULL AS remarks, NULL AS type_cat, NULL AS type_schem, NULL AS type_name, NULL AS self_referencing_col_name, NULL AS ref_generation';
const jdbcColumnRest = `NULL AS column_size, NULL AS buffer_length, NULL AS decimal_digits, 10 AS num_prec_radix, 1 AS nullable,
  NULL AS remarks, NULL AS column_def, NULL AS sql_data_type, NULL AS sql_datetime_sub, NULL AS char_octet_length,
  ordinal_position, 'YES' AS is_nullable, NULL AS scope_catalog, NULL AS scope_schema, NULL AS scope_table,
  NULL AS source_data_type, 'NO' AS is_autoincrement, 'NO' AS is_generatedcolumn`;
/** Numbers of `java.sql.Types`. */
const jdbcType =
  "CASE part(replace(data_type, '(', '.'), 0) WHEN 'bigint' THEN -5 WHEN 'integer' THEN 4 WHEN 'double' THEN 8 WHEN 'boolean' THEN 16 ELSE 12 END";

const list = (rows: readonly string[]) => `VALUES ${rows.map((row) => `(${row})`).join(', ')}`;

/**
 * Statements that create the tables of a simulated engine. `names` and `columns` list its tables and their columns; the
 * engine's own catalog and each `information_schema` are views of them.
 */
export const createTables = `
CREATE TABLE "tpch.tiny.nation" (nationkey bigint, name varchar(25), regionkey bigint);
INSERT INTO "tpch.tiny.nation" ${list(nations.split(',').map((each, key) => `${key}, '${each.slice(0, -2)}', ${each.slice(-1)}`))};
CREATE TABLE "tpch.tiny.region" (regionkey bigint, name varchar(25));
INSERT INTO "tpch.tiny.region" ${list(regions.map((name, key) => `${key}, '${name}'`))};
CREATE TABLE "system.runtime.nodes" (node_id varchar, http_uri varchar, node_version varchar, coordinator boolean, state varchar);
CREATE TABLE "system.runtime.queries" (query_id varchar, state varchar, user varchar, source varchar, query varchar,
  created "timestamp(3) with time zone");
CREATE TABLE schemas (catalog_name varchar, schema_name varchar);
INSERT INTO schemas ${list(schemas.map((name) => `'${name.replace('.', "', '")}'`))};
CREATE VIEW names AS SELECT name AS full_name, part(name, 0) AS table_catalog, part(name, 1) AS table_schema,
  part(name, 2) AS table_name, CASE type WHEN 'view' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type
  FROM sqlite_schema WHERE type IN ('table', 'view') AND name LIKE '%.%.%';
CREATE VIEW columns AS SELECT n.*, c.name AS column_name, c.cid + 1 AS ordinal_position,
  coalesce(nullif(lower(c.type), ''), 'varchar') AS data_type FROM names n, pragma_table_info(n.full_name) c;
${['memory', 'system', 'tpch']
  .map(
    (catalog) => `
CREATE VIEW "${catalog}.information_schema.schemata" AS SELECT * FROM schemas WHERE catalog_name = '${catalog}';
CREATE VIEW "${catalog}.information_schema.tables" AS SELECT table_catalog, table_schema, table_name, table_type FROM names
  WHERE table_catalog = '${catalog}';
CREATE VIEW "${catalog}.information_schema.views" AS SELECT table_catalog, table_schema, table_name FROM names
  WHERE table_catalog = '${catalog}' AND table_type = 'VIEW';
CREATE VIEW "${catalog}.information_schema.columns" AS SELECT table_catalog, table_schema, table_name, column_name,
  ordinal_position, NULL AS column_default, 'YES' AS is_nullable, data_type FROM columns WHERE table_catalog = '${catalog}';`,
  )
  .join('')}
CREATE VIEW "system.metadata.catalogs" AS SELECT DISTINCT catalog_name, catalog_name AS connector_id,
  catalog_name AS connector_name FROM schemas;
CREATE VIEW "system.metadata.table_comments" AS SELECT table_catalog AS catalog_name, table_schema AS schema_name, table_name,
  NULL AS comment FROM names;
CREATE VIEW "system.metadata.materialized_views" AS SELECT table_catalog AS catalog_name, table_schema AS schema_name,
  table_name AS name FROM names WHERE false;
CREATE VIEW "system.jdbc.catalogs" AS SELECT DISTINCT catalog_name AS table_cat FROM schemas;
CREATE VIEW "system.jdbc.schemas" AS SELECT schema_name AS table_schem, catalog_name AS table_catalog FROM schemas;
CREATE VIEW "system.jdbc.table_types" AS SELECT DISTINCT table_type FROM names;
CREATE VIEW "system.jdbc.tables" AS SELECT table_catalog AS table_cat, table_schema AS table_schem, table_name,
  CASE table_type WHEN 'VIEW' THEN 'VIEW' ELSE 'TABLE' END AS table_type, ${jdbcTableRest} FROM names;
CREATE VIEW "system.jdbc.columns" AS SELECT table_catalog AS table_cat, table_schema AS table_schem, table_name, column_name,
  ${jdbcType} AS data_type, data_type AS type_name, ${jdbcColumnRest} FROM columns;
`;

/** Queries for SHOW statements, by the statement's name in the engine's tree. */
export const showQueries: Readonly<Record<string, string>> = {
  ShowCatalogs: `SELECT DISTINCT catalog_name AS "Catalog" FROM schemas WHERE catalog_name LIKE :pattern ESCAPE '\\' ORDER BY 1`,
  ShowSchemas: `SELECT schema_name AS "Schema" FROM schemas
    WHERE catalog_name = :catalog AND schema_name LIKE :pattern ESCAPE '\\' ORDER BY 1`,
  ShowTables: `SELECT table_name AS "Table" FROM names
    WHERE table_catalog = :catalog AND table_schema = :schema AND table_name LIKE :pattern ESCAPE '\\' ORDER BY 1`,
  ShowColumns: `SELECT column_name AS "Column", data_type AS "Type", '' AS "Extra", '' AS "Comment" FROM columns
    WHERE full_name = :table AND column_name LIKE :pattern ESCAPE '\\' ORDER BY ordinal_position`,
  ShowSession: `SELECT '' AS "Name", '' AS "Value", '' AS "Default", '' AS "Type", '' AS "Description" WHERE false`,
};
