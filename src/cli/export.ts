import { readFile } from 'node:fs/promises';
import { Document } from 'yaml';
import { resourceKinds } from '../kinds/registry.ts';
import type { Exportable, ExportedRule } from '../kinds/resourceKind.ts';
import { GatewayError } from '../model/errors.ts';
import { checkGroupsFile } from '../model/groupsFile/groupsFile.ts';
import { environmentsOf, type GroupRows, storedGroups } from '../model/groupsFile/storedGroups.ts';
import { apiVersionOf } from '../model/resource.ts';
import { resourceNames } from '../model/resourceName.ts';
import { parseRulesFile } from '../rules/compile/rulesFile.ts';
import { readBackends, readResourceGroups } from '../store/openStore.ts';
import { readConfigFiles } from './configFile.ts';
import { type CliIo, type CommandLine, command, configFlags, exitCodes, fail, stderrLogger } from './io.ts';
import { databaseSettings } from './settings.ts';

/** `export`: prints database and rules file of Trino Gateway as manifests, or its resource groups. */
export const exportCommand = command({
  name: 'export',
  description: 'print clusters of the database and rules of a rules file as manifests, ready for kubectl apply',
  options: [
    [configFlags, 'configuration file that names the database and the rules file; may be repeated'],
    ['--rules <file>', "rules file; the configuration's routingRules.rulesConfigPath by default"],
    ['-n, --namespace <name>', 'namespace to write into each manifest'],
    ['--all', 'clusters that have a resource already, too'],
    [
      '--resource-groups <environment>',
      "in place of manifests: the resource groups of an environment as a file of the engine's file-based manager",
    ],
    [
      '--schema <name>',
      "with --resource-groups: another database of the gateway's database server, as useSchema names it",
    ],
    ['--manifest', 'with --resource-groups: as a resource, which takes the rows over when it is applied'],
  ],
  async run(options, io) {
    if (options.resourceGroups !== undefined) return await printGroups(options.resourceGroups, options, io);
    if (options.schema !== undefined || options.manifest === true) {
      const format = options.schema === undefined ? '--manifest' : '--schema';
      fail(io, `error: ${format} is for --resource-groups ENVIRONMENT`, exitCodes.usage);
    }
    return await printManifests(options, io);
  },
});

/** Prints the resource groups of an environment as JSON, and their mistakes to standard error. */
async function printGroups(environment: string, options: CommandLine, io: CliIo): Promise<number> {
  const { config } = await readConfigFiles(options.config, io);
  const { schema: database = null, namespace = null } = options;
  const from = { ...databaseSettings(config), logger: stderrLogger(io) };
  let rows: GroupRows;
  try {
    rows = await readResourceGroups(from, database, config.resourceGroups.allowedSchemas);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    fail(io, `error: ${error.message.replace(/^useSchema\b/, '--schema')}`);
  }
  const present = environmentsOf(rows.groups);
  if (!present.includes(environment)) {
    const others =
      present.length === 0 ? 'there are none with an environment' : `there are groups of ${present.join(', ')}`;
    fail(io, `error: there is no resource group of the environment ${environment}; ${others}`);
  }
  const { file, problems } = storedGroups(rows, environment);
  const check = checkGroupsFile(file);
  for (const { field, message } of [...problems, ...check.problems, ...check.warnings]) {
    io.stderr.write(`warning: ${field} ${message}\n`);
  }
  if (options.manifest !== true) io.stdout.write(`${JSON.stringify(file, null, 2)}\n`);
  else {
    const exported = { clusters: [], rules: [], resourceGroups: [{ environment, database, file }] };
    io.stdout.write(exportManifests({ ...exported, namespace, gatewayClass: config.resources.class }).yaml);
  }
  return exitCodes.success;
}

/** Reads the database without changing it. */
async function printManifests(options: CommandLine, io: CliIo): Promise<number> {
  const { config } = await readConfigFiles(options.config, io);
  const { routingRules, resources } = config;
  const rules = await readRules(options.rules ?? routingRules.rulesConfigPath, routingRules.defaultPriority, io);
  const rows = await readBackends({ ...databaseSettings(config), logger: stderrLogger(io) });
  const clusters = rows.filter((row) => options.all === true || !row.managed);
  const { namespace = null } = options;
  const { yaml, problems } = exportManifests({ clusters, rules, namespace, gatewayClass: resources.class });
  io.stdout.write(yaml);
  for (const problem of problems) io.stderr.write(`warning: ${problem}; correct it before it is applied\n`);
  return exitCodes.success;
}

/** Rules of a file; ends the command if it has mistakes. */
async function readRules(
  path: string | null,
  defaultPriority: number | null,
  io: CliIo,
): Promise<readonly ExportedRule[]> {
  if (path === null) return [];
  const text = await readFile(path, 'utf8').catch((error: Error) => fail(io, `error: ${path}: ${error.message}`));
  const { documents, problems } = parseRulesFile({ path, text, defaultPriority: defaultPriority ?? undefined });
  for (const { effect, line, column, message } of problems) {
    io.stderr.write(`${path}:${line}:${column}: ${effect === 'warning' ? 'warning: ' : ''}${message}\n`);
  }
  if (problems.some(({ effect }) => effect !== 'warning')) fail(io, []);
  return documents.map(({ rule: { name, description, priority, condition, actions } }) => ({
    ...{ name, description, priority, condition: condition.text },
    actions: actions.map((action) => action.text),
  }));
}

export interface ExportInput extends Exportable {
  /** Written into each manifest; null leaves the choice to `kubectl --namespace`. */
  readonly namespace: string | null;
  /** `resources.class` of the gateway that they are for; null: it has none. */
  readonly gatewayClass?: string | null;
}

/** Manifests as YAML, and what of them has to be corrected before they are accepted: a sentence each. */
export interface ExportedManifests {
  readonly yaml: string;
  readonly problems: readonly string[];
}

/**
 * Prints what Trino Gateway has as manifests, ready for `kubectl apply` or for a directory. Names that are no
 * Kubernetes names get the metadata.name that a REST write would give them.
 */
export function exportManifests(
  { namespace, gatewayClass = null, ...input }: ExportInput,
  kinds = resourceKinds,
): ExportedManifests {
  const problems: string[] = [];
  const manifests = kinds.all.flatMap(({ kind, exported, specProblems, hasUniqueNames }) => {
    const names = new Set<string>();
    return [...exported(input)].map(({ registryName, spec: exportedSpec }) => {
      const name = resourceNames(registryName).find((each) => !names.has(each)) as string;
      names.add(name);
      const spec = {
        // A kind without such names is known by metadata.name alone.
        ...(name === registryName || !hasUniqueNames ? {} : { name: registryName }),
        ...(gatewayClass === null ? {} : { gatewayClassName: gatewayClass }),
        ...exportedSpec,
      };
      for (const { field, message } of specProblems(spec))
        problems.push(`${kind} ${name} (${JSON.stringify(registryName)}): ${field} ${message}`);
      return {
        apiVersion: apiVersionOf(kind),
        kind,
        metadata: { name, ...(namespace === null ? {} : { namespace }) },
        spec,
      };
    });
  });
  const yaml = manifests.map((manifest) => `---\n${new Document(manifest).toString({ lineWidth: 0 })}`).join('');
  return { yaml, problems };
}
