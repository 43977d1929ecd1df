import { readFile, stat } from 'node:fs/promises';
import { pino } from 'pino';
import {
  analyzableRequest,
  type DescribedRequest,
  describedRuleRequest,
  parseDescribedRequest,
} from '../gateway/analysis/explainRequest.ts';
import { localUsers } from '../gateway/user/userExtractor.ts';
import { MappedUsers, mappedSources, type NameMappingSettings, openNameRules } from '../gateway/user/userMapping.ts';
import { routingRule } from '../kinds/routingRule/kind.ts';
import { ROUTING_RULE, type RoutingRule, type RoutingRuleSpec } from '../kinds/routingRule/spec.ts';
import { systemClock } from '../model/clock.ts';
import { problemText } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import type { RequestUser } from '../model/requestUser.ts';
import { API_GROUP_VERSION, keyOf, keyText } from '../model/resource.ts';
import { listManifestFiles, type Manifest, manifestsIn } from '../operator/sources/directory/manifestFiles.ts';
import { STATEMENT_PATH } from '../routing/statementProtocol.ts';
import type { RuleDraft } from '../rules/compile/ruleDraft.ts';
import { parseRulesFile } from '../rules/compile/rulesFile.ts';
import { createRuleCompiler } from '../rules/compiler.ts';
import type { RuleRequest, RuleSet } from '../rules/decision.ts';
import type { RuleEdit } from '../rules/replay/recordedRequest.ts';
import { requestAnalysis } from '../sql/analyzeRequest.ts';
import { type CliIo, fail } from './io.ts';

export function holdsManifests(text: string): boolean {
  return /^\s*(?:\{\s*)?["']?apiVersion["']?\s*:/m.test(text);
}

/** Files of a path: the file itself, or the manifests of a directory. */
export async function filesAt(path: string): Promise<readonly string[]> {
  return (await stat(path)).isDirectory() ? [...(await listManifestFiles(path)).keys()] : [path];
}

const filesOf = (path: string, io: CliIo) =>
  filesAt(path).catch((error: Error) => fail(io, `${path}: error: ${error.message}`));

export interface OfflineRuleOptions {
  readonly names: ProductNames;
  /** `requestAnalyzerConfig.analyzeRequest`. */
  readonly analyzeRequest: boolean;
  /** Priority of rules of a rules file without one; default: 2147483647. */
  readonly defaultPriority?: number | undefined;
}

/**
 * Compiles the rules of a rules file, of a file of manifests, or of a directory of manifests. Ends the command with the
 * mistakes, each with file and position if known.
 */
export async function offlineRules(path: string, options: OfflineRuleOptions, io: CliIo): Promise<RuleSet | null> {
  const { names, analyzeRequest, defaultPriority } = options;
  const files = await filesOf(path, io);
  const compiler = createRuleCompiler({
    ...{ names, analyzeRequest, rulesEngineEnabled: true, rulesType: 'FILE' },
    ...{ onRuleError: 'skip', onFileError: 'header', monotonic: () => 0 },
  });
  const resources: RoutingRule[] = [];
  const mistakes: string[] = [];
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch(() => null);
    if (text !== null && holdsManifests(text)) resources.push(...ruleManifests(file, text, mistakes).map(ruleOf));
    else if (files.length === 1) {
      const { ruleSet, fileProblems, fileState } = compiler.compile([], { path, text, defaultPriority });
      const lines = fileProblems.map(({ line, column, message }) => `${path}:${line}:${column}: error: ${message}`);
      if (fileState !== 'loaded') fail(io, lines);
      for (const line of lines) io.stderr.write(`${line}\n`);
      return ruleSet;
    }
  }
  if (resources.length === 0) mistakes.push(`${path}: error: there is no ${ROUTING_RULE}`);
  const { ruleSet, reports } = compiler.compile(resources, null);
  for (const resource of resources) {
    const report = reports.get(keyText(keyOf(resource)));
    if (report?.accepted === false) mistakes.push(`${path}: error: ${report.rule}: ${report.message}`);
  }
  if (mistakes.length > 0) fail(io, mistakes);
  return ruleSet;
}

function ruleManifests(file: string, text: string, mistakes: string[]): readonly Manifest[] {
  return [...manifestsIn(text, 'default')].flatMap((document) => {
    if (document.kind === 'broken') mistakes.push(`${file}:${document.problemLine}:1: error: ${document.message}`);
    const isRule = document.kind === 'resource' && document.manifest.key.kind === ROUTING_RULE;
    return isRule ? [document.manifest] : [];
  });
}

function ruleOf({ key: { name, namespace }, labels, annotations, spec }: Manifest): RoutingRule {
  const metadata = { name, namespace, uid: name, resourceVersion: '1', generation: 1, labels, annotations };
  return {
    apiVersion: API_GROUP_VERSION,
    kind: ROUTING_RULE,
    metadata: { ...metadata, creationTimestamp: '1970-01-01T00:00:00Z' },
    spec: spec as RoutingRule['spec'],
  };
}

/**
 * Reads rules that replace rules by name, or are added: of a rules file, a file of manifests, or a directory of
 * manifests. Ends the command with the mistakes, each with file and position if known.
 */
export async function readRuleEdits(
  path: string,
  defaultPriority: number | undefined,
  io: CliIo,
): Promise<readonly RuleEdit[]> {
  const files = await filesOf(path, io);
  const drafts: RuleDraft[] = [];
  const mistakes: string[] = [];
  for (const file of files) {
    const text = await readFile(file, 'utf8');
    if (holdsManifests(text)) drafts.push(...draftsOfManifests(file, text, mistakes));
    else if (files.length === 1) drafts.push(...draftsOfFile(file, text, defaultPriority, mistakes));
  }
  const twice = drafts.find(({ name }, index) => drafts.findIndex((each) => each.name === name) < index);
  if (twice !== undefined) mistakes.push(`${path}: error: the rule ${twice.name} is there twice; give each rule once`);
  if (mistakes.length > 0) fail(io, mistakes);
  if (drafts.length === 0) fail(io, `${path}: error: there is no ${ROUTING_RULE}`);
  return drafts.map((rule) => ({ name: rule.name, rule }));
}

function draftsOfManifests(file: string, text: string, mistakes: string[]): readonly RuleDraft[] {
  return ruleManifests(file, text, mistakes).flatMap(({ key, spec }) => {
    const problems = routingRule.specProblems(spec);
    if (problems.length === 0) return [draftOfSpec(key.name, spec as unknown as RoutingRuleSpec)];
    mistakes.push(`${file}: error: ${key.name}: ${problemText(problems)}`);
    return [];
  });
}

function draftOfSpec(resource: string, spec: RoutingRuleSpec): RuleDraft {
  const { name = resource, actions = [], priority = null, routeTo = null, deny = null } = spec;
  const { description = '', whenUnavailable = 'Fallback', stop = false, suspend = false } = spec;
  const { condition } = spec;
  return { name, description, priority, condition, actions, routeTo, deny, whenUnavailable, stop, suspend };
}

function draftsOfFile(
  path: string,
  text: string,
  defaultPriority: number | undefined,
  mistakes: string[],
): readonly RuleDraft[] {
  const { documents, problems } = parseRulesFile({ path, text, defaultPriority });
  for (const { effect, line, column, message } of problems) {
    if (effect !== 'warning') mistakes.push(`${path}:${line}:${column}: error: ${message}`);
  }
  return documents.map(({ rule: { name, description, priority, condition, actions } }) => ({
    ...{ name, description, priority, condition: condition.text },
    actions: actions.map((action) => action.text),
  }));
}

/** Users by the defaults of requestAnalyzerConfig. */
const userSettings = {
  ...{ tokenUserField: 'email', oauthTokenInfoUrl: null, jwksUrl: null, issuer: null, audience: null },
  trustedUserSources: ['header', 'basic', 'bearer', 'cookie'],
} as const;

/**
 * Reads rules for mapping user names.
 * @param settings as `userMapping`; by default names of all sources are mapped
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function offlineMapping({
  pattern,
  file,
  sources = mappedSources,
}: Pick<NameMappingSettings, 'pattern' | 'file'> & Partial<NameMappingSettings>): Promise<MappedUsers> {
  const rules = { current: await openNameRules({ pattern, file }), stop: () => undefined };
  return new MappedUsers(rules, { sources, rewriteUserHeader: false });
}

export interface OfflineReading {
  readonly statementPaths?: readonly string[];
  /** Mapping of user names; default: none. */
  readonly mapping?: MappedUsers | null;
}

/** Returns a function that converts a description of a request to a request for rules, without network access. */
export function offlineRequests(
  names: ProductNames,
  analyzeRequest: boolean,
  { statementPaths = [STATEMENT_PATH], mapping = null }: OfflineReading = {},
): (description: DescribedRequest) => RuleRequest {
  const analyze = requestAnalysis({ names, maxBodySize: 1_000_000, clientsUseV2Format: false, cacheBytes: 0 });
  const reader = {
    ...{ names, statementPaths, analyzeRequest },
    userOf: localUsers(userSettings, { names, clock: systemClock, logger: pino({ level: 'silent' }) }),
    ...(mapping !== null && {
      mapped: (user: RequestUser) => mapping.of(user),
      mappedName: (name: string) => mapping.ofName(name),
    }),
  };
  return (description) => describedRuleRequest(description, reader, analyze(analyzableRequest(description, reader)));
}

/** Checks a described request; ends the command with its mistakes. */
export function describedRequestOf(path: string, description: unknown, io: CliIo): DescribedRequest {
  const checked = parseDescribedRequest(description);
  if (checked.ok) return checked.value;
  return fail(
    io,
    checked.problems.map(({ field, message }) => `${path}: error: ${field} ${message}`),
  );
}
