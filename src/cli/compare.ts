import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { createLogging } from '../config/logger.ts';
import { type DescribedRequest, parseDescribedRequest } from '../gateway/analysis/describedRequest.ts';
import type { MappedUsers } from '../gateway/user/mappedUsers.ts';
import { GatewayError } from '../model/errors.ts';
import { type ProductNames, productNames } from '../model/names.ts';
import { isRecord } from '../model/record.ts';
import { type ExplainedRouting, routingOf } from '../routing/explanation.ts';
import { GroupRouter } from '../routing/groupRouter.ts';
import { STATEMENT_PATH } from '../routing/proxiedPaths.ts';
import { emptyTable } from '../routing/routingTable.ts';
import { userRefusal } from '../routing/userRefusal.ts';
import { REFERENCE_PRIORITY } from '../rules/compile/priorityDifferences.ts';
import type { RuleRequest, RuleSet, RuleTrace } from '../rules/decision.ts';
import { readLastQueries } from '../store/openStore.ts';
import { compareEdits, reportLines } from './compareEdits.ts';
import { configFlags, configName, oneMoreFile, readConfigFiles } from './configFile.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';
import { offlineMapping, offlineRequests } from './offlineRequests.ts';
import { offlineRules } from './offlineRules.ts';
import { databaseSettings } from './settings.ts';

interface CompareOptions {
  readonly config: readonly string[];
  readonly rules?: string;
  readonly requests?: string;
  readonly history?: string;
  readonly json?: boolean;
  readonly edits?: string;
  readonly delete?: readonly string[];
  readonly since?: string;
}

interface Recorded {
  readonly id: string;
  readonly request: DescribedRequest;
}

/** Exit codes as of diff: 0 alike, 1 different, 2 in trouble. */
const codes = { alike: exitCodes.success, different: exitCodes.failure, trouble: exitCodes.usage } as const;

const MAX_QUERIES = 100_000;

/** `compare`: shows recorded queries that other rules would route differently, and the reasons. */
export const compareCommand: CommandFactory = (io, finish) =>
  new Command('compare')
    .description(
      'decide recorded requests by the rules file of Trino Gateway as that gateway does, and by rules as this one does; or, with --edits or --delete, the history of this gateway by its rules and by edited ones; exit code 1 where some would move',
    )
    .requiredOption(
      configFlags,
      'configuration of the old gateway, which names its rules file and database; may be repeated',
      oneMoreFile,
    )
    .option(
      '--rules <path>',
      'the new rules: a rules file, manifests, or a directory of them; the same file by default',
    )
    .option('--requests <file>', 'requests as JSON: a list or a line each; fields as of evaluate, and id')
    .option('--history <n>', 'the last N queries of the history in the database')
    .option(
      '--edits <path>',
      "rules to replace or add to this gateway's, as after that change: a rules file, manifests, or a directory of them",
    )
    .option('--delete <name>', "a rule to leave out of this gateway's; may be repeated", oneMoreFile)
    .option('--since <duration>', 'with --edits or --delete: how far back the history is decided; 24h by default')
    .option('--json', 'print a line of JSON for each request that would move')
    .action(async (options: CompareOptions) => finish(await compare(options, io)));

async function compare(options: CompareOptions, io: CliIo): Promise<number> {
  const complain = (line: string): void => void io.stderr.write(`${line}\n`);
  if (options.edits !== undefined || options.delete !== undefined) return await compareRules(options, io);
  const count = options.history === undefined ? null : Number(options.history);
  if ((options.requests === undefined) === (count === null)) {
    complain('error: give one of --requests FILE and --history N');
    return codes.trouble;
  }
  if (count !== null && !isCount(count)) {
    complain(`error: --history must be a whole number from 1 to ${MAX_QUERIES}`);
    return codes.trouble;
  }
  const loaded = await readConfigFiles(options.config, io);
  if (loaded === null) return codes.trouble;
  const { config } = loaded;
  const { rulesConfigPath } = config.routingRules;
  if (rulesConfigPath === null) {
    complain(
      `${configName(options.config)}: error: routingRules.rulesConfigPath must name the rules file to compare with`,
    );
    return codes.trouble;
  }
  const names = productNames(config.protocol.productName, config.protocol.clusterHeaders);
  const analysis = { names, analyzeRequest: config.requestAnalyzerConfig.analyzeRequest };
  const before = await offlineRules(rulesConfigPath, { ...analysis, defaultPriority: REFERENCE_PRIORITY }, complain);
  const defaultPriority = config.routingRules.defaultPriority ?? undefined;
  const after = await offlineRules(options.rules ?? rulesConfigPath, { ...analysis, defaultPriority }, complain);
  if (before === null || after === null) return codes.trouble;
  const recorded =
    count === null ? await readRequests(options.requests ?? '', complain) : await readHistory(config, names, count, io);
  if (recorded === null) return codes.trouble;

  const mapping = await readMapping(config, complain);
  if (mapping === undefined) return codes.trouble;
  const statementPaths = [STATEMENT_PATH, ...config.additionalStatementPaths];
  const asSent = offlineRequests(names, analysis.analyzeRequest, { statementPaths });
  const asMapped = offlineRequests(names, analysis.analyzeRequest, { statementPaths, mapping });
  const chain = new GroupRouter(names, config.routing.defaultRoutingGroup);
  const decide = async (request: RuleRequest, rules: RuleSet): Promise<ExplainedRouting> => {
    const routing = await routingOf(chain, request, { ...emptyTable, rules });
    const refusal = request.user === null ? null : userRefusal(request.user);
    return refusal === null ? routing : { ...routing, refused: { refusal, rule: null } };
  };
  let moved = 0;
  for (const { id, request } of recorded) {
    // Trino Gateway maps no names.
    const mapped = asMapped(request);
    const [there, here] = [await decide(asSent(request), before), await decide(mapped, after)];
    const [from, to] = [target(there), target(here)];
    if (from === to) continue;
    moved += 1;
    const why = [
      ...mappingLines(mapped),
      ...differences(there.decision.trace.rules, here.decision.trace.rules, here.refused),
    ];
    if (options.json === true) io.stdout.write(`${JSON.stringify({ id, from, to, why })}\n`);
    else io.stdout.write(`${id}: ${from} -> ${to}\n${why.map((line) => `  ${line}\n`).join('')}`);
  }
  const summary = `${recorded.length} requests: ${recorded.length - moved} alike, ${moved} would move\n`;
  (options.json === true ? io.stderr : io.stdout).write(summary);
  return moved === 0 ? codes.alike : codes.different;
}

/** Decides the history with the rules of a running gateway, and with edited ones. */
async function compareRules(options: CompareOptions, io: CliIo): Promise<number> {
  const complain = (line: string): void => void io.stderr.write(`${line}\n`);
  if (options.rules !== undefined || options.requests !== undefined) {
    complain('error: --edits and --delete take no --rules and no --requests: they compare with the rules in force');
    return codes.trouble;
  }
  const count = Number(options.history ?? MAX_QUERIES);
  if (!isCount(count)) {
    complain(`error: --history must be a whole number from 1 to ${MAX_QUERIES}`);
    return codes.trouble;
  }
  const loaded = await readConfigFiles(options.config, io);
  if (loaded === null) return codes.trouble;
  const report = await compareEdits(loaded.config, options, count, io);
  if (report === null) return codes.trouble;
  if (options.json === true) io.stdout.write(`${JSON.stringify(report)}\n`);
  else
    io.stdout.write(
      reportLines(report)
        .map((line) => `${line}\n`)
        .join(''),
    );
  return report.moved + report.unknown === 0 ? codes.alike : codes.different;
}

function isCount(count: number): boolean {
  return Number.isInteger(count) && count > 0 && count <= MAX_QUERIES;
}

function target({ decision, refused }: ExplainedRouting): string {
  if (refused !== null) return refused.rule === null ? 'refused by the user mapping' : `denied by rule ${refused.rule}`;
  if (decision.cluster !== null) return `cluster ${decision.cluster}`;
  return `routing group ${decision.group}`;
}

function mappingLines({ user }: RuleRequest): readonly string[] {
  if (user?.refusal !== undefined) return [user.refusal];
  if (user?.mapping === undefined || user.mapping.from === user.user) return [];
  return [`user ${user.mapping.from} before, ${user.user} now`];
}

/** Differences between the rules' effects; if all effects are equal, the order of their groups. */
function differences(
  before: readonly RuleTrace[],
  after: readonly RuleTrace[],
  refused: ExplainedRouting['refused'],
): readonly string[] {
  const what = ({ outcome, put, error }: RuleTrace): string =>
    `${outcome}${put === undefined ? '' : ` ${JSON.stringify(put)}`}${error === undefined ? '' : ` (${error})`}`;
  const names = [...new Set([...before, ...after].map(({ rule }) => rule))];
  const lines = names.flatMap((name) => {
    const old = before.find(({ rule }) => rule === name);
    const now = after.find(({ rule }) => rule === name);
    const [there, here] = [old === undefined ? 'absent' : what(old), now === undefined ? 'absent' : what(now)];
    return there === here ? [] : [`rule ${name}: ${there} before, ${here} now`];
  });
  if (lines.length > 0 || refused?.rule === null) return lines;
  const order = (rules: readonly RuleTrace[]): string =>
    rules
      .filter(({ outcome }) => outcome === 'fired')
      .map(({ rule, priority }) => `${rule} (priority ${priority})`)
      .join(', ');
  return [`rules fire in the order ${order(before)} before, ${order(after)} now; the last one decides`];
}

/** `userMapping` of a configuration; null without it, undefined if invalid. */
async function readMapping(
  { userMapping }: GatewayConfig,
  complain: (line: string) => void,
): Promise<MappedUsers | null | undefined> {
  if (userMapping === null) return null;
  try {
    return await offlineMapping(userMapping);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    complain(`error: ${error.message}`);
    return undefined;
  }
}

/** Requests of a file; null if it has mistakes. */
async function readRequests(path: string, complain: (line: string) => void): Promise<readonly Recorded[] | null> {
  let items: readonly unknown[];
  try {
    const text = await readFile(path, 'utf8');
    items = text.trimStart().startsWith('[')
      ? (JSON.parse(text) as unknown[])
      : text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [JSON.parse(line) as unknown]));
  } catch (error) {
    complain(`${path}: error: ${(error as Error).message}`);
    return null;
  }
  const recorded: Recorded[] = [];
  let hasMistakes = false;
  for (const [index, item] of items.entries()) {
    const { id = index + 1, ...description } = isRecord(item) ? item : { id: index + 1, item };
    const checked = parseDescribedRequest(description);
    if (checked.ok) recorded.push({ id: String(id), request: checked.value });
    else {
      hasMistakes = true;
      for (const { field, message } of checked.problems)
        complain(`${path}: error: request ${index + 1}: ${field} ${message}`);
    }
  }
  return hasMistakes ? null : recorded;
}

/** The last queries of the history, oldest first, with user, source and text. */
async function readHistory(
  config: GatewayConfig,
  names: ProductNames,
  count: number,
  io: CliIo,
): Promise<readonly Recorded[] | null> {
  const { logger } = createLogging({ level: 'warn', destination: { write: (line) => io.stderr.write(line) } });
  try {
    const rows = await readLastQueries({ ...databaseSettings(config), logger }, count);
    return rows.map((row) => ({
      id: row.queryId,
      request: {
        headers: {
          ...(row.user === null ? {} : { [names.header('User')]: row.user }),
          ...(row.source === null ? {} : { [names.header('Source')]: row.source }),
        },
        body: row.queryText,
        user: row.user,
      },
    }));
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    io.stderr.write(`error: ${error.message}\n`);
    return null;
  }
}
