import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import { createLogging } from '../config/logger.ts';
import type { ExportedRule } from '../kinds/exported.ts';
import { GatewayError } from '../model/errors.ts';
import { exportManifests } from '../operator/exportManifests.ts';
import { parseRulesFile } from '../rules/compile/rulesFile.ts';
import { readBackends } from '../store/openStore.ts';
import { configFlags, oneMoreFile, readConfigFiles } from './configFile.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';
import { databaseSettings } from './settings.ts';

interface ExportOptions {
  readonly config?: readonly string[];
  readonly rules?: string;
  readonly namespace?: string;
  readonly all?: boolean;
}

/** `export`: prints what a gateway that ran before has in database and rules file as manifests. */
export const exportCommand: CommandFactory = (io, finish) =>
  new Command('export')
    .description('print clusters of the database and rules of a rules file as manifests, ready for kubectl apply')
    .option(configFlags, 'configuration file that names the database and the rules file; may be repeated', oneMoreFile)
    .option('--rules <file>', "rules file; the configuration's routingRules.rulesConfigPath by default")
    .option('-n, --namespace <name>', 'namespace to write into each manifest')
    .option('--all', 'clusters that have a resource already, too')
    .action(async (options: ExportOptions) => finish(await printManifests(options, io)));

/**
 * Reads the database as it is, without making anything in it.
 * @returns exit code
 */
async function printManifests(options: ExportOptions, io: CliIo): Promise<number> {
  const loaded = await readConfigFiles(options.config, io);
  if (loaded === null) return exitCodes.failure;
  const { routingRules, resources } = loaded.config;
  const rules = await readRules(options.rules ?? routingRules.rulesConfigPath, routingRules.defaultPriority, io);
  if (rules === null) return exitCodes.failure;
  // Results go to standard output: the log must not.
  const { logger } = createLogging({ level: 'warn', destination: { write: (line) => io.stderr.write(line) } });
  try {
    const rows = await readBackends({ ...databaseSettings(loaded.config), logger });
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

/** Rules of a file; null when it has mistakes, which are printed. */
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
