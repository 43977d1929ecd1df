import { createInterface } from 'node:readline';
import { Command } from 'commander';
import { analyzeSql, type SqlAnalysis } from '../sql/analyzeSql.ts';
import { type AnalysisCase, analyzeCase } from '../sql/caseRequest.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';

interface AnalyzeOptions {
  readonly catalog?: string;
  readonly schema?: string;
  readonly json?: boolean;
  readonly cases?: boolean;
  readonly product: string;
}

/** `analyze`: prints the gateway's analysis of a statement. */
export const analyzeCommand: CommandFactory = (io, finish) =>
  new Command('analyze')
    .description('show what rules see of a statement: its kind, tables, catalogs, schemas')
    .argument('[sql]', 'the statement, without a trailing semicolon')
    .option('--catalog <name>', 'default catalog, as the client would send it')
    .option('--schema <name>', 'default schema, as the client would send it')
    .option('--json', 'print JSON')
    .option('--cases', 'read requests as JSON lines from standard input, write {"id", …} with the analysis for each')
    .option('--product <name>', "product name in the requests' headers (--cases)", 'Engine')
    .action(async (sql: string | undefined, options: AnalyzeOptions) => {
      if (options.cases === true) return finish(await answerCases(io, options.product));
      if (sql === undefined) {
        io.stderr.write("error: missing the statement: engine-gateway analyze 'SELECT …'\n");
        return finish(exitCodes.usage);
      }
      const analysis = analyzeSql(sql, {
        catalog: options.catalog ?? null,
        schema: options.schema ?? null,
        prepared: new Map(),
      });
      io.stdout.write(
        options.json === true ? `${JSON.stringify(jsonAnalysis(analysis))}\n` : readableAnalysis(analysis),
      );
      finish(analysis.errorMessage === null ? exitCodes.success : exitCodes.failure);
    });

function jsonAnalysis(analysis: SqlAnalysis): object {
  return { ...analysis, tables: analysis.tables.map((table) => table.join('.')) };
}

/** Lines of `name: value`, without empty values. */
function readableAnalysis(analysis: SqlAnalysis): string {
  const rows: readonly (readonly [string, string])[] = [
    ['error', analysis.errorMessage ?? ''],
    ['statement', analysis.queryType],
    ['resource group query type', analysis.resourceGroupQueryType],
    ['tables', analysis.tables.map((table) => table.join('.')).join(', ')],
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

/** Writes a line with the case's id and its analysis for each line of standard input, in order. */
async function answerCases(io: CliIo, productName: string): Promise<number> {
  let line = 0;
  for await (const text of createInterface({ input: io.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    line += 1;
    if (text.trim() === '') continue;
    let request: AnalysisCase;
    try {
      request = JSON.parse(text) as AnalysisCase;
    } catch (error) {
      io.stderr.write(`error: line ${line} is not JSON: ${(error as Error).message}\n`);
      return exitCodes.failure;
    }
    io.stdout.write(`${JSON.stringify({ id: request.id, ...analyzeCase(request, productName) })}\n`);
  }
  return exitCodes.success;
}
