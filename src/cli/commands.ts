import { once } from 'node:events';
import { effectiveYaml } from '../config/derived.ts';
import { createLogger, type LogLevel, logOutput } from '../config/logger.ts';
import { GatewayError } from '../model/errors.ts';
import { version } from '../model/version.ts';
import { analyzeSql, type SqlAnalysis } from '../sql/analyzeSql.ts';
import { type AnalysisCase, analyzeCase } from '../sql/caseRequest.ts';
import { shapeText, statementDigests } from '../sql/statementDigests.ts';
import { openStore, plannedMigration } from '../store/openStore.ts';
import { configName, readConfigFiles } from './configFile.ts';
import type { RunningGateway } from './gateway.ts';
import {
  type CliIo,
  type CommandLine,
  command,
  configFlags,
  convertLines,
  exitCodes,
  fail,
  stderrLogger,
} from './io.ts';
import { databaseSettings } from './settings.ts';

/** `serve`: runs the gateway until it receives a signal to stop. */
export const serveCommand = command({
  name: 'serve',
  description: 'run the gateway',
  options: [[configFlags, 'configuration file; several are laid over each other; without it the defaults']],
  run: serve,
});

/** Runs the gateway until SIGTERM or SIGINT. */
async function serve({ config: configPaths }: CommandLine, io: CliIo): Promise<number> {
  const loaded = await readConfigFiles(configPaths, io);
  const logger = createLogger({ level: loaded.config.logging.level, destination: io.log ?? logOutput() });
  switchLevelBySignal(io, logger, loaded.config.logging.level);
  logger.info({ version, node: process.version, config: configPaths }, 'starting');
  for (const { file = configPaths?.[0], line, field, message } of loaded.notes) {
    logger.warn({ file, line, key: field }, message);
  }
  // Loaded on demand, so that --help and --version need not load the whole program.
  const { startGateway } = await import('./gateway.ts');
  // Registered before the start, which may take long, so that a signal during it is not lost.
  const stopped = Promise.race(['SIGTERM', 'SIGINT'].map((signal) => once(io.signals, signal)));
  let gateway: RunningGateway;
  try {
    gateway = await startGateway({ config: loaded.config, version, logger, environment: io.environment });
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    logger.fatal({ code: error.code, field: error.field }, error.message);
    fail(io, error.message);
  }
  const [signal] = await stopped;
  logger.info({ signal }, 'stopping');
  await gateway.stop();
  logger.info('stopped');
  return exitCodes.success;
}

/** Switches between the configured level of the log and `debug` at each SIGUSR2. */
function switchLevelBySignal({ signals }: CliIo, logger: ReturnType<typeof createLogger>, configured: LogLevel): void {
  signals.on('SIGUSR2', () => {
    const level = logger.level === configured ? 'debug' : configured;
    logger.level = level;
    logger.info({ newLevel: level }, 'log level changed by SIGUSR2');
  });
}

/** `config`: checks the configuration and its files and prints it; notes go to standard error. */
export const configCommand = command({
  name: 'config',
  description: 'print the effective configuration as YAML, defaults included and secrets masked',
  options: [[configFlags, 'configuration file; several are laid over each other; without it the defaults']],
  run: printConfig,
});

async function printConfig(options: CommandLine, io: CliIo): Promise<number> {
  const { config, notes } = await readConfigFiles(options.config, io);
  for (const note of notes) io.stderr.write(`${note.text}\n`);
  // Loaded on demand, so that other commands need not load code that reads keys.
  const { namedFileProblems } = await import('./namedFiles.ts');
  const problems = await namedFileProblems(config, io.environment);
  if (problems.length > 0)
    fail(
      io,
      problems.map((problem) => `${configName(options.config)}: ${problem}`),
    );
  const { resourceMistakes } = await import('./validate.ts');
  const mistakes = await resourceMistakes(config);
  if (mistakes !== null) fail(io, mistakes.replace(/\n$/, ''));
  io.stdout.write(effectiveYaml(config));
  return exitCodes.success;
}

/** `migrate`: creates missing parts of the database, or prints the statements for administrators. */
export const migrateCommand = command({
  name: 'migrate',
  description: 'make the tables, columns and indexes that the database lacks, without starting the gateway',
  options: [
    [configFlags, 'configuration file that names the database; may be repeated'],
    ['--print-sql', 'print the statements and change nothing'],
  ],
  run: migrateDatabase,
});

async function migrateDatabase({ config: paths, printSql }: CommandLine, io: CliIo): Promise<number> {
  const { config } = await readConfigFiles(paths, io);
  const database = { ...databaseSettings(config), logger: stderrLogger(io, 'info') };
  const steps = await plannedMigration(database);
  if (printSql === true) {
    for (const { adds, sql } of steps) io.stdout.write(`-- ${adds}\n${sql.replace(/\s*\n\s*/g, '\n  ')};\n`);
    return exitCodes.success;
  }
  await (await openStore({ ...database, runMigrations: true })).close();
  for (const { adds } of steps) io.stdout.write(`made: ${adds}\n`);
  io.stdout.write(steps.length === 0 ? 'nothing to do: the database is migrated\n' : 'the database is migrated\n');
  return exitCodes.success;
}

/** `analyze`: prints the gateway's analysis of a statement. */
export const analyzeCommand = command<string | undefined>({
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

async function analyze(options: CommandLine, io: CliIo, sql: string | undefined): Promise<number> {
  const { catalog = null, schema = null, json, cases, product = '' } = options;
  if (cases === true) {
    return await convertLines<AnalysisCase>(io, (line) => ({ id: line.id, ...analyzeCase(line, product) }));
  }
  if (sql === undefined) fail(io, "error: missing the statement: engine-gateway analyze 'SELECT …'", exitCodes.usage);
  const analysis = analyzeSql(sql, { catalog, schema, prepared: new Map() });
  const tables = analysis.tables.map((table) => table.join('.'));
  io.stdout.write(json === true ? `${JSON.stringify({ ...analysis, tables })}\n` : readableAnalysis(analysis, tables));
  return analysis.errorMessage === null ? exitCodes.success : exitCodes.failure;
}

const MAX_SHAPE = 1_000;

function digestRows(text: string): readonly (readonly [string, string])[] {
  const { exact, shape } = statementDigests(text, null);
  return [
    ['exact digest', exact],
    ['shape digest', shape],
    ['shape', shapeText(text, MAX_SHAPE)],
  ];
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
    ...(analysis.errorMessage === null ? digestRows(analysis.body) : []),
  ];
  return rows
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${`${name}:`.padEnd(28)}${value}\n`)
    .join('');
}
