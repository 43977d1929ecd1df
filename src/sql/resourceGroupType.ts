/** The engine's resource group query type of a statement, by the class name of its tree. */
const types: ReadonlyMap<string, string> = new Map([
  ['Query', 'SELECT'],
  ['Explain', 'EXPLAIN'],
  ['DescribeInput', 'DESCRIBE'],
  ['DescribeOutput', 'DESCRIBE'],
  ['Insert', 'INSERT'],
  ['CreateTableAsSelect', 'INSERT'],
  ['RefreshMaterializedView', 'INSERT'],
  ['Update', 'UPDATE'],
  ['Delete', 'DELETE'],
  ['Merge', 'MERGE'],
  ['Analyze', 'ANALYZE'],
  ['TableExecute', 'ALTER_TABLE_EXECUTE'],
  ['Execute', 'UNKNOWN'],
  ['ExecuteImmediate', 'UNKNOWN'],
]);

/**
 * Returns the resource group query type, e.g. `SELECT`, `DATA_DEFINITION`.
 * @param statement class name, e.g. `ShowTables`
 * @param analyzed class name of the statement that EXPLAIN ANALYZE runs; "" for all others
 */
export function resourceGroupQueryType(statement: string, analyzed = ''): string {
  if (statement === 'ExplainAnalyze') return resourceGroupQueryType(analyzed);
  return types.get(statement) ?? (statement.startsWith('Show') ? 'DESCRIBE' : 'DATA_DEFINITION');
}
