import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { parseDuration } from '../config/units.ts';
import { type DescribedRequest, parseDescribedRequest } from '../gateway/analysis/explainRequest.ts';
import { type ReplayReport, replayHistory } from '../gateway/replay/historyReplay.ts';
import type { ReplayTarget } from '../gateway/replay/recordedQuery.ts';
import { storedTenancy } from '../kinds/engineTenant/kind.ts';
import { ENGINE_TENANT } from '../kinds/engineTenant/spec.ts';
import { ROUTING_RULE, type RoutingRule } from '../kinds/routingRule/spec.ts';
import { type ProductNames, productNames } from '../model/names.ts';
import { isRecord } from '../model/record.ts';
import { platformOf } from '../operator/operator.ts';
import { resourceOfStored } from '../operator/sources/source.ts';
import { type ExplainedRouting, routingOf } from '../routing/explanation.ts';
import { GroupRouter } from '../routing/groupRouter.ts';
import { toRefusal } from '../routing/refusal.ts';
import { emptyTable } from '../routing/routingTable.ts';
import { STATEMENT_PATH } from '../routing/statementProtocol.ts';
import { REFERENCE_PRIORITY } from '../rules/compile/priorityDifferences.ts';
import { createRuleCompiler } from '../rules/compiler.ts';
import type { RuleRequest, RuleSet, RuleTrace } from '../rules/decision.ts';
import type { EditedRules, RuleEdit } from '../rules/replay/recordedRequest.ts';
import type { RulesFile } from '../rules/ruleCompiler.ts';
import { ruleRights } from '../rules/tenancy.ts';
import { readBackends, readLastQueries, readResources } from '../store/openStore.ts';
import { configName, readConfigFiles } from './configFile.ts';
import { type CliIo, type CommandLine, command, configFlags, exitCodes, fail, stderrLogger } from './io.ts';
import { offlineMapping, offlineRequests, offlineRules, readRuleEdits } from './offlineRules.ts';
import { databaseSettings, replaySettings, ruleCompilerOptions } from './settings.ts';

interface Recorded {
  readonly id: string;
  readonly request: DescribedRequest;
}

/** Exit codes as of diff: 0 alike, 1 different, 2 in trouble. */
const codes = { alike: exitCodes.success, different: exitCodes.failure, trouble: exitCodes.usage } as const;

const MAX_QUERIES = 100_000;

/** `compare`: shows recorded queries that other rules would route differently, and the reasons. */
export const compareCommand = command({
  name: 'compare',
  description:
    'decide recorded requests by the rules file of Trino Gateway as that gateway does, and by rules as this one does; or, with --edits or --delete, the history of this gateway by its rules and by edited ones; exit code 1 where some would move',
  options: [
    [configFlags, 'configuration of the old gateway, which names its rules file and database; may be repeated'],
    ['--rules <path>', 'the new rules: a rules file, manifests, or a directory of them; the same file by default'],
    ['--requests <file>', 'requests as JSON: a list or a line each; fields as of evaluate, and id'],
    ['--history <n>', 'the last N queries of the history in the database'],
    [
      '--edits <path>',
      "rules to replace or add to this gateway's, as after that change: a rules file, manifests, or a directory of them",
    ],
    ['--delete <name>', "a rule to leave out of this gateway's; may be repeated"],
    ['--since <duration>', 'with --edits or --delete: how far back the history is decided; 24h by default'],
    ['--json', 'print a line of JSON for each request that would move'],
  ],
  repeated: ['--delete <name>'],
  required: configFlags,
  failed: codes.trouble,
  run: async (options, io) =>
    options.edits === undefined && options.delete === undefined
      ? await compareRequests(options, io)
      : await compareRules(options, io),
});

async function compareRequests(options: CommandLine, io: CliIo): Promise<number> {
  if ((options.requests === undefined) === (options.history === undefined))
    fail(io, 'error: give one of --requests FILE and --history N');
  const count = options.history === undefined ? null : countOf(options.history, io);
  const { config } = await readConfigFiles(options.config, io);
  const { rulesConfigPath, defaultPriority } = config.routingRules;
  if (rulesConfigPath === null) {
    const mistake = 'error: routingRules.rulesConfigPath must name the rules file to compare with';
    fail(io, `${configName(options.config)}: ${mistake}`);
  }
  const names = productNames(config.protocol.productName, config.protocol.clusterHeaders);
  const analysis = { names, analyzeRequest: config.requestAnalyzerConfig.analyzeRequest };
  const before = await offlineRules(rulesConfigPath, { ...analysis, defaultPriority: REFERENCE_PRIORITY }, io);
  const priority = { defaultPriority: defaultPriority ?? undefined };
  const after = await offlineRules(options.rules ?? rulesConfigPath, { ...analysis, ...priority }, io);
  const recorded =
    count === null ? await readRequests(options.requests ?? '', io) : await readHistory(config, names, count, io);
  const mapping = config.userMapping === null ? null : await offlineMapping(config.userMapping);
  const statementPaths = [STATEMENT_PATH, ...config.additionalStatementPaths];
  const asSent = offlineRequests(names, analysis.analyzeRequest, { statementPaths });
  const asMapped = offlineRequests(names, analysis.analyzeRequest, { statementPaths, mapping });
  const chain = new GroupRouter(names, config.routing.defaultRoutingGroup);
  const decide = async (request: RuleRequest, rules: RuleSet | null): Promise<ExplainedRouting> => {
    const routing = await routingOf(chain, request, { ...emptyTable, rules });
    const rejection = request.user?.rejection;
    if (rejection === undefined) return routing;
    return { ...routing, refused: { refusal: toRefusal('user_mapping', rejection), rule: null } };
  };
  let moved = 0;
  for (const { id, request } of recorded) {
    // Trino Gateway maps no names.
    const mapped = asMapped(request);
    const [there, here] = [await decide(asSent(request), before), await decide(mapped, after)];
    const [from, to] = [target(there), target(here)];
    if (from === to) continue;
    moved += 1;
    const [ours, theirs] = [here.decision.trace.rules, there.decision.trace.rules];
    const why = [...mappingLines(mapped), ...differences(theirs, ours, here.refused)];
    if (options.json === true) io.stdout.write(`${JSON.stringify({ id, from, to, why })}\n`);
    else io.stdout.write(`${id}: ${from} -> ${to}\n${why.map((line) => `  ${line}\n`).join('')}`);
  }
  const summary = `${recorded.length} requests: ${recorded.length - moved} alike, ${moved} would move\n`;
  (options.json === true ? io.stderr : io.stdout).write(summary);
  return moved === 0 ? codes.alike : codes.different;
}

/** Decides the history with the rules of a running gateway, and with edited ones. */
async function compareRules(options: CommandLine, io: CliIo): Promise<number> {
  if (options.rules !== undefined || options.requests !== undefined)
    fail(io, 'error: --edits and --delete take no --rules and no --requests: they compare with the rules in force');
  const count = countOf(options.history ?? String(MAX_QUERIES), io);
  const { config } = await readConfigFiles(options.config, io);
  const report = await compareEdits(config, options, count, io);
  const lines = options.json === true ? [JSON.stringify(report)] : reportLines(report);
  io.stdout.write(lines.map((line) => `${line}\n`).join(''));
  return report.moved + report.unknown === 0 ? codes.alike : codes.different;
}

function countOf(text: string, io: CliIo): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0 && count <= MAX_QUERIES) return count;
  return fail(io, `error: --history must be a whole number from 1 to ${MAX_QUERIES}`);
}

function target({ decision, refused }: ExplainedRouting): string {
  if (refused !== null) return refused.rule === null ? 'refused by the user mapping' : `denied by rule ${refused.rule}`;
  if (decision.cluster !== null) return `cluster ${decision.cluster}`;
  return `routing group ${decision.group}`;
}

function mappingLines({ user }: RuleRequest): readonly string[] {
  if (user?.rejection !== undefined) return [user.rejection];
  if (user?.mapping === undefined || user.mapping.from === user.user) return [];
  return [`user ${user.mapping.from} before, ${user.user} now`];
}

/** Differences between the rules' effects; if all effects are equal, the order of their groups. */
function differences(
  before: readonly RuleTrace[],
  after: readonly RuleTrace[],
  refused: ExplainedRouting['refused'],
): readonly string[] {
  const names = [...new Set([...before, ...after].map(({ rule }) => rule))];
  const lines = names.flatMap((name) => {
    const old = before.find(({ rule }) => rule === name);
    const now = after.find(({ rule }) => rule === name);
    const [there, here] = [
      old === undefined ? 'absent' : effectText(old),
      now === undefined ? 'absent' : effectText(now),
    ];
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

/** Requests of a file; ends the command if it has mistakes. */
async function readRequests(path: string, io: CliIo): Promise<readonly Recorded[]> {
  let items: readonly unknown[];
  try {
    const text = await readFile(path, 'utf8');
    items = text.trimStart().startsWith('[')
      ? (JSON.parse(text) as unknown[])
      : text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [JSON.parse(line) as unknown]));
  } catch (error) {
    fail(io, `${path}: error: ${(error as Error).message}`);
  }
  const mistakes: string[] = [];
  const recorded = items.flatMap((item, index) => {
    const { id = index + 1, ...description } = isRecord(item) ? item : { id: index + 1, item };
    const checked = parseDescribedRequest(description);
    if (checked.ok) return [{ id: String(id), request: checked.value }];
    const place = `${path}: error: request ${index + 1}`;
    mistakes.push(...checked.problems.map(({ field, message }) => `${place}: ${field} ${message}`));
    return [];
  });
  return mistakes.length === 0 ? recorded : fail(io, mistakes);
}

/** The last queries of the history, oldest first, with user, source and text. */
async function readHistory(
  config: GatewayConfig,
  names: ProductNames,
  count: number,
  io: CliIo,
): Promise<readonly Recorded[]> {
  const rows = await readLastQueries({ ...databaseSettings(config), logger: stderrLogger(io) }, count);
  return rows.map(({ queryId, user, source, queryText }) => ({
    id: queryId,
    request: {
      headers: {
        ...(user === null ? {} : { [names.header('User')]: user }),
        ...(source === null ? {} : { [names.header('Source')]: source }),
      },
      body: queryText,
      user,
    },
  }));
}

const LISTED = 20;
/** A command has no waiting caller; users can interrupt it. */
const REPLAY_MS = 600_000;

/**
 * Replays the history of a gateway's database with its rules, and with edited rules.
 * @param queries maximum number of queries, newest first
 */
async function compareEdits(
  config: GatewayConfig,
  options: { readonly edits?: string; readonly delete?: readonly string[]; readonly since?: string },
  queries: number,
  io: CliIo,
): Promise<ReplayReport> {
  const since = parseDuration(options.since ?? '24h');
  if (!('value' in since)) fail(io, `error: --since ${since.wrong}`);
  const defaultPriority = config.routingRules.defaultPriority ?? undefined;
  const edits = options.edits === undefined ? [] : await readRuleEdits(options.edits, defaultPriority, io);
  const deletions = (options.delete ?? []).map((name): RuleEdit => ({ name, rule: null }));
  const logger = stderrLogger(io);
  const rules = await editedRules(config, [...edits, ...deletions], logger, io);
  const to = Date.now() + 1;
  return await replayHistory(
    {
      database: databaseSettings(config),
      range: { from: to - since.value, to },
      rules,
      settings: replaySettings(config),
      estimates: null,
      bounds: { queries, time: REPLAY_MS, top: LISTED, examples: LISTED },
    },
    logger,
  );
}

/** The rules of the database's resources and of the rules file, with and without edits. */
async function editedRules(
  config: GatewayConfig,
  edits: readonly RuleEdit[],
  logger: Logger,
  io: CliIo,
): Promise<EditedRules> {
  const database = { ...databaseSettings(config), logger };
  const resources = await readResources(database, [ROUTING_RULE, ENGINE_TENANT]);
  const [stored, tenants] = [ROUTING_RULE, ENGINE_TENANT].map((of) => resources.filter(({ kind }) => kind === of));
  const { writeNamespace, namespaces, namespace } = config.resources;
  const platform = platformOf(config.resources, writeNamespace ?? namespaces[0] ?? namespace ?? 'default');
  const tenancy = storedTenancy((tenants ?? []).map(resourceOfStored), platform);
  const clusters = tenancy.isOpen ? [] : await readBackends(database);
  const rights = ruleRights(tenancy, clusters, config.routing.defaultRoutingGroup);
  const compiler = createRuleCompiler({
    ...ruleCompilerOptions(config),
    names: productNames(config.protocol.productName, config.protocol.clusterHeaders),
    monotonic: () => performance.now(),
  });
  const file = await rulesFile(config);
  // As in the operator, the compilation finds invalid rules.
  const rules: readonly unknown[] = (stored ?? []).map(resourceOfStored);
  const { order, fileProblems } = compiler.compile(rules as readonly RoutingRule[], file, rights);
  for (const { line, column, message } of fileProblems)
    io.stderr.write(`${file?.path}:${line}:${column}: warning: ${message}\n`);
  const names = new Set([...order.map(({ rule }) => rule), ...(stored ?? []).map(({ registryName }) => registryName)]);
  const missing = edits.find(({ name, rule }) => rule === null && !names.has(name));
  if (missing !== undefined)
    fail(io, `error: --delete ${missing.name} names no rule; there are ${[...names].join(', ') || 'none'}`);
  const edited = compiler.edited(edits);
  if (edited === null) return fail(io, 'error: routingRules.rulesEngineEnabled is false: no rule is asked');
  if (!('problems' in edited)) return edited;
  const lines = edited.problems.map(
    ({ edit, field, line, column, message }) =>
      `error: ${edits[edit]?.name}: ${field}, line ${line}, column ${column}: ${message}`,
  );
  return fail(io, lines);
}

async function rulesFile({ routingRules }: GatewayConfig): Promise<RulesFile | null> {
  const { rulesConfigPath: path, rulesType, defaultPriority } = routingRules;
  if (path === null || rulesType === 'EXTERNAL') return null;
  const text = await readFile(path, 'utf8').catch(() => null);
  return { path, text, defaultPriority: defaultPriority ?? undefined };
}

function reportLines(report: ReplayReport): readonly string[] {
  const { queries, unmoved, moved, unknown, cutBy, moves, users, sources, unreplayed, examples } = report;
  const shares = (what: string, all: ReplayReport['users']) =>
    all.map(
      (share) =>
        `${what} ${share.name ?? '(none)'}: ${share.moved} of ${share.queries}${share.unknown > 0 ? `, ${share.unknown} unknown` : ''}`,
    );
  return [
    ...examples.flatMap(({ queryId, user, from, to, before, after, assumed }) => [
      `${queryId} of ${user ?? '(no user)'}: ${targetText(from)} -> ${targetText(to)}`,
      ...traceLines('before', before),
      ...traceLines('now', after),
      ...(assumed.length === 0 ? [] : [`  not replayed: ${assumed.join(', ')}; it moves in any case`]),
    ]),
    ...moves.map((move) => `${targetText(move.from)} -> ${targetText(move.to)}: ${move.queries}`),
    ...shares('user', users),
    ...shares('source', sources),
    ...unreplayed.map(
      (each) =>
        `not replayed: ${each.rule || 'the routing group header'} reads ${each.reads.join(', ')}: ${each.queries} queries, ${each.unknown} of them unknown`,
    ),
    ...(cutBy === null ? [] : ['older queries are left out']),
    `${queries} queries: ${unmoved} alike, ${moved} would move, ${unknown} unknown`,
  ];
}

function traceLines(when: string, trace: readonly RuleTrace[]): readonly string[] {
  return trace
    .filter(({ outcome }) => outcome !== 'not-matched' && outcome !== 'skipped')
    .map((effect) => `  ${when}: rule ${effect.rule} ${effectText(effect)}`);
}

function effectText({ outcome, put, error }: RuleTrace): string {
  return `${outcome}${put === undefined ? '' : ` ${JSON.stringify(put)}`}${error === undefined ? '' : ` (${error})`}`;
}

function targetText({ kind, name }: ReplayTarget): string {
  if (kind === 'group') return `routing group ${name}`;
  if (kind === 'cluster') return `cluster ${name}`;
  return kind === 'uncertain' ? 'one of several' : kind;
}
