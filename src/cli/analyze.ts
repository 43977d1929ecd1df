import { createInterface } from 'node:readline';
import { Command } from 'commander';
import { analyzeSql, type SqlVerdict } from '../sql/analyzeSql.ts';
import { type AnalysisCase, caseVerdict } from '../sql/caseRequest.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';

interface AnalyzeOptions {
  readonly catalog?: string;
  readonly schema?: string;
  readonly json?: boolean;
  readonly cases?: boolean;
  readonly product: string;
}

/** `analyze`: what the gateway sees in a statement. */
export const analyzeCommand: CommandFactory = (io, finish) =>
  new Command('analyze')
    .description('show what rules see of a statement: its kind, tables, catalogs, schemas')
    .argument('[sql]', 'the statement, without a trailing semicolon')
    .option('--catalog <name>', 'default catalog, as the client would send it')
    .option('--schema <name>', 'default schema, as the client would send it')
    .option('--json', 'print JSON')
    .option('--cases', 'read requests as JSON lines from standard input, write {"id", …} with the verdict for each')
    .option('--product <name>', "product name in the requests' headers (--cases)", 'Engine')
    .action(async (sql: string | undefined, options: AnalyzeOptions) => {
      if (options.cases === true) return finish(await answerCases(io, options.product));
      if (sql === undefined) {
        io.stderr.write("error: missing the statement: engine-gateway analyze 'SELECT …'\n");
        return finish(exitCodes.usage);
      }
      const verdict = analyzeSql(sql, {
        catalog: options.catalog ?? null,
        schema: options.schema ?? null,
        prepared: new Map(),
      });
      io.stdout.write(options.json === true ? `${JSON.stringify(jsonVerdict(verdict))}\n` : readableVerdict(verdict));
      finish(verdict.errorMessage === null ? exitCodes.success : exitCodes.failure);
    });

function jsonVerdict(verdict: SqlVerdict): object {
  return { ...verdict, tables: verdict.tables.map((table) => table.join('.')) };
}

/** Lines of `name: value`; what is empty is left out. */
function readableVerdict(verdict: SqlVerdict): string {
  const rows: readonly (readonly [string, string])[] = [
    ['error', verdict.errorMessage ?? ''],
    ['statement', verdict.queryType],
    ['resource group query type', verdict.resourceGroupQueryType],
    ['tables', verdict.tables.map((table) => table.join('.')).join(', ')],
    ['catalogs', verdict.catalogs.join(', ')],
    ['schemas', verdict.schemas.join(', ')],
    ['catalog schemas', verdict.catalogSchemas.join(', ')],
    ['kills query', verdict.queryId ?? ''],
  ];
  return rows
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${`${name}:`.padEnd(28)}${value}\n`)
    .join('');
}

/** Answers each line of standard input by a line with the case's id and its verdict, in the same order. */
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
    io.stdout.write(`${JSON.stringify({ id: request.id, ...caseVerdict(request, productName) })}\n`);
  }
  return exitCodes.success;
}
