import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { parseDuration } from '../config/units.ts';
import { replayHistory } from '../gateway/replay/historyReplay.ts';
import type { ReplayReport, ReplayTarget } from '../gateway/replay/replayJob.ts';
import { ROUTING_RULE, type RoutingRule } from '../kinds/routingRule/spec.ts';
import { productNames } from '../model/names.ts';
import { resourceOfStored } from '../operator/sources/storedResource.ts';
import { routeRights } from '../rules/boundRights.ts';
import { createRuleCompiler } from '../rules/compiler.ts';
import type { RuleTrace } from '../rules/decision.ts';
import type { EditedRules, RuleEdit } from '../rules/replay/editedRules.ts';
import type { RulesFile } from '../rules/ruleCompiler.ts';
import { readBackends, readResources } from '../store/openStore.ts';
import { type CliIo, fail, stderrLogger } from './io.ts';
import { readRuleEdits } from './offlineRules.ts';
import { clusterPolicy, databaseSettings, replaySettings, ruleCompilerOptions } from './settings.ts';

/** Options of `compare` with edited rules of a running gateway. */
interface EditOptions {
  readonly edits?: string;
  readonly delete?: readonly string[];
  readonly since?: string;
}

const LISTED = 20;
/** A command has no waiting caller; users can interrupt it. */
const REPLAY_MS = 600_000;

/**
 * Replays the history of a gateway's database with its rules, and with edited rules.
 * @param queries maximum number of queries, newest first
 */
export async function compareEdits(
  config: GatewayConfig,
  options: EditOptions,
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
  const stored = await readResources(database, [ROUTING_RULE]);
  const { groups } = clusterPolicy(config);
  const clusters = groups.areOpen ? [] : await readBackends(database);
  const rights = routeRights(groups, clusters, config.routing.defaultRoutingGroup);
  const compiler = createRuleCompiler({
    ...ruleCompilerOptions(config),
    names: productNames(config.protocol.productName, config.protocol.clusterHeaders),
    monotonic: () => performance.now(),
  });
  const file = await rulesFile(config);
  // As in the operator, the compilation finds invalid rules.
  const rules: readonly unknown[] = stored.map(resourceOfStored);
  const { order, fileProblems } = compiler.compile(rules as readonly RoutingRule[], file, rights);
  for (const { line, column, message } of fileProblems)
    io.stderr.write(`${file?.path}:${line}:${column}: warning: ${message}\n`);
  const names = new Set([...order.map(({ rule }) => rule), ...stored.map(({ registryName }) => registryName)]);
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

export function reportLines(report: ReplayReport): readonly string[] {
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

export function effectText({ outcome, put, error }: RuleTrace): string {
  return `${outcome}${put === undefined ? '' : ` ${JSON.stringify(put)}`}${error === undefined ? '' : ` (${error})`}`;
}

function targetText({ kind, name }: ReplayTarget): string {
  if (kind === 'group') return `routing group ${name}`;
  if (kind === 'cluster') return `cluster ${name}`;
  return kind === 'uncertain' ? 'one of several' : kind;
}
