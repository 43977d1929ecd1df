import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { createLogging } from '../config/logger.ts';
import type { ExportedRule } from '../kinds/resourceKind.ts';
import { GatewayError } from '../model/errors.ts';
import { checkGroupsFile } from '../model/groupsFile/groupsFile.ts';
import { environmentsOf, storedGroups } from '../model/groupsFile/storedGroups.ts';
import { exportManifests } from '../operator/exportManifests.ts';
import { parseRulesFile } from '../rules/compile/rulesFile.ts';
import { readBackends, readResourceGroups } from '../store/openStore.ts';
import { configFlags, oneMoreFile, readConfigFiles } from './configFile.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';
import { databaseSettings } from './settings.ts';

interface ExportOptions {
  readonly config?: readonly string[];
  readonly rules?: string;
  readonly namespace?: string;
  readonly all?: boolean;
  readonly resourceGroups?: string;
  readonly schema?: string;
  readonly manifest?: boolean;
}

/** `export`: prints database and rules file of Trino Gateway as manifests, or its resource groups. */
export const exportCommand: CommandFactory = (io, finish) =>
  new Command('export')
    .description('print clusters of the database and rules of a rules file as manifests, ready for kubectl apply')
    .option(configFlags, 'configuration file that names the database and the rules file; may be repeated', oneMoreFile)
    .option('--rules <file>', "rules file; the configuration's routingRules.rulesConfigPath by default")
    .option('-n, --namespace <name>', 'namespace to write into each manifest')
    .option('--all', 'clusters that have a resource already, too')
    .option(
      '--resource-groups <environment>',
      "in place of manifests: the resource groups of an environment as a file of the engine's file-based manager",
    )
    .option(
      '--schema <name>',
      "with --resource-groups: another database of the gateway's database server, as useSchema names it",
    )
    .option('--manifest', 'with --resource-groups: as a resource, which takes the rows over when it is applied')
    .action(async (options: ExportOptions) => {
      if (options.resourceGroups !== undefined) return finish(await printGroups(options, io));
      if (options.schema !== undefined || options.manifest === true) {
        const alone = options.schema === undefined ? '--manifest' : '--schema';
        io.stderr.write(`error: ${alone} is for --resource-groups ENVIRONMENT\n`);
        return finish(exitCodes.usage);
      }
      finish(await printManifests(options, io));
    });

/**
 * Prints the resource groups of an environment as JSON, and their mistakes to standard error.
 * @returns exit code
 */
async function printGroups(options: ExportOptions, io: CliIo): Promise<number> {
  const loaded = await readConfigFiles(options.config, io);
  if (loaded === null) return exitCodes.failure;
  const { resourceGroups: environment = '', schema: database = null } = options;
  const { resources, resourceGroups } = loaded.config;
  try {
    const from = { ...databaseSettings(loaded.config), logger: warnings(io) };
    const rows = await readResourceGroups(from, database, resourceGroups.allowedSchemas);
    const present = environmentsOf(rows.groups);
    if (!present.includes(environment)) {
      const others =
        present.length === 0 ? 'there are none with an environment' : `there are groups of ${present.join(', ')}`;
      io.stderr.write(`error: there is no resource group of the environment ${environment}; ${others}\n`);
      return exitCodes.failure;
    }
    const { file, problems } = storedGroups(rows, environment);
    const check = checkGroupsFile(file);
    for (const { field, message } of [...problems, ...check.problems, ...check.warnings]) {
      io.stderr.write(`warning: ${field} ${message}\n`);
    }
    if (options.manifest !== true) io.stdout.write(`${JSON.stringify(file, null, 2)}\n`);
    else {
      const exported = { clusters: [], rules: [], resourceGroups: [{ environment, database, file }] };
      const namespace = options.namespace ?? null;
      io.stdout.write(exportManifests({ ...exported, namespace, gatewayClass: resources.class }).yaml);
    }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    io.stderr.write(`error: ${error.message.replace(/^useSchema\b/, '--schema')}\n`);
    return exitCodes.failure;
  }
  return exitCodes.success;
}

/** Standard output has results only. */
function warnings(io: CliIo): Logger {
  return createLogging({ level: 'warn', destination: { write: (line) => io.stderr.write(line) } }).logger;
}

/**
 * Reads the database without changing it.
 * @returns exit code
 */
async function printManifests(options: ExportOptions, io: CliIo): Promise<number> {
  const loaded = await readConfigFiles(options.config, io);
  if (loaded === null) return exitCodes.failure;
  const { routingRules, resources } = loaded.config;
  const rules = await readRules(options.rules ?? routingRules.rulesConfigPath, routingRules.defaultPriority, io);
  if (rules === null) return exitCodes.failure;
  try {
    const rows = await readBackends({ ...databaseSettings(loaded.config), logger: warnings(io) });
    const clusters = rows.filter((row) => options.all === true || !row.managed);
    const namespace = options.namespace ?? null;
    const { yaml, problems } = exportManifests({ clusters, rules, namespace, gatewayClass: resources.class });
    io.stdout.write(yaml);
    for (const problem of problems) io.stderr.write(`warning: ${problem}; correct it before it is applied\n`);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    io.stderr.write(`error: ${error.message}\n`);
    return exitCodes.failure;
  }
  return exitCodes.success;
}

/** Rules of a file; null if it has mistakes, which are printed. */
async function readRules(
  path: string | null,
  defaultPriority: number | null,
  io: CliIo,
): Promise<readonly ExportedRule[] | null> {
  if (path === null) return [];
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    io.stderr.write(`error: ${path}: ${(error as Error).message}\n`);
    return null;
  }
  const { documents, problems } = parseRulesFile({ path, text, defaultPriority: defaultPriority ?? undefined });
  for (const { effect, line, column, message } of problems) {
    io.stderr.write(`${path}:${line}:${column}: ${effect === 'warning' ? 'warning: ' : ''}${message}\n`);
  }
  if (problems.some(({ effect }) => effect !== 'warning')) return null;
  return documents.map(({ rule }) => ({
    name: rule.name,
    description: rule.description,
    priority: rule.priority,
    condition: rule.condition.text,
    actions: rule.actions.map((action) => action.text),
  }));
}
