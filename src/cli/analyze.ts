import { analyzeSql, type SqlAnalysis } from '../sql/analyzeSql.ts';
import { type AnalysisCase, analyzeCase } from '../sql/caseRequest.ts';
import { type CliIo, command, convertLines, exitCodes, fail } from './io.ts';

interface AnalyzeOptions {
  readonly catalog?: string;
  readonly schema?: string;
  readonly json?: boolean;
  readonly cases?: boolean;
  readonly product: string;
}

/** `analyze`: prints the gateway's analysis of a statement. */
export const analyzeCommand = command<AnalyzeOptions, string | undefined>({
  name: 'analyze',
  description: 'show what rules see of a statement: its kind, tables, catalogs, schemas',
  argument: ['[sql]', 'the statement, without a trailing semicolon'],
  options: [
    ['--catalog <name>', 'default catalog, as the client would send it'],
    ['--schema <name>', 'default schema, as the client would send it'],
    ['--json', 'print JSON'],
    ['--cases', 'read requests as JSON lines from standard input, write {"id", …} with the analysis for each'],
    ['--product <name>', "product name in the requests' headers (--cases)", 'Engine'],
  ],
  run: analyze,
});

async function analyze(options: AnalyzeOptions, io: CliIo, sql: string | undefined): Promise<number> {
  const { catalog = null, schema = null, json, cases, product } = options;
  if (cases === true) {
    return await convertLines<AnalysisCase>(io, (line) => ({ id: line.id, ...analyzeCase(line, product) }));
  }
  if (sql === undefined) fail(io, "error: missing the statement: engine-gateway analyze 'SELECT …'", exitCodes.usage);
  const analysis = analyzeSql(sql, { catalog, schema, prepared: new Map() });
  const tables = analysis.tables.map((table) => table.join('.'));
  io.stdout.write(json === true ? `${JSON.stringify({ ...analysis, tables })}\n` : readableAnalysis(analysis, tables));
  return analysis.errorMessage === null ? exitCodes.success : exitCodes.failure;
}

/** Lines of `name: value`, without empty values. */
function readableAnalysis(analysis: SqlAnalysis, tables: readonly string[]): string {
  const rows: readonly (readonly [string, string])[] = [
    ['error', analysis.errorMessage ?? ''],
    ['statement', analysis.queryType],
    ['resource group query type', analysis.resourceGroupQueryType],
    ['tables', tables.join(', ')],
    ['catalogs', analysis.catalogs.join(', ')],
    ['schemas', analysis.schemas.join(', ')],
    ['catalog schemas', analysis.catalogSchemas.join(', ')],
    ['kills query', analysis.queryId ?? ''],
  ];
  return rows
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${`${name}:`.padEnd(28)}${value}\n`)
    .join('');
}
