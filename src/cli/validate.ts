import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { productNames } from '../model/names.ts';
import { checkRulesFile } from '../rules/compile/checkRules.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import { duplicates, groupReferenceFindings, type NamedPlace } from './crossChecks.ts';
import { checkGroupsFileText, looksLikeGroupsFile } from './groupsFileCheck.ts';
import { command, exitCodes } from './io.ts';
import { checkManifests, type Finding } from './manifestCheck.ts';
import { filesAt, holdsManifests } from './offlineRules.ts';
import { priorityOption, productOfRules } from './productName.ts';
import { ruleCompilerOptions } from './settings.ts';

interface ValidateOptions {
  readonly product?: string;
  readonly analysis: boolean;
  readonly strict?: boolean;
  readonly class?: string;
  readonly differences: boolean;
  readonly defaultPriority?: string;
}

interface ValidateSettings {
  readonly context: CompileContext;
  readonly defaultPriority: number | undefined;
  readonly isStrict: boolean;
  /** `resources.class`; null: any. */
  readonly gatewayClass: string | null;
}

/** `validate`: checks manifests, rules files and files of resource groups, for pipelines. */
export const validateCommand = command<ValidateOptions, readonly string[]>({
  name: 'validate',
  description:
    'check manifests, rules files and files of resource groups: exit code 1 and file:line messages for mistakes',
  argument: ['<path...>', 'files, or directories whose .yaml, .yml and .json files are checked'],
  options: [
    [
      '--product <name>',
      'product name of the objects in rules (protocol.productName); inferred from the names in the rules by default',
    ],
    ['--no-analysis', 'the gateway runs with requestAnalyzerConfig.analyzeRequest: false'],
    ['--class <name>', 'class of the gateway they are for (resources.class): warns of resources of others'],
    ['--strict', 'warnings count as mistakes'],
    ['--default-priority <number>', 'routingRules.defaultPriority'],
    ['--no-differences', 'say nothing of what rules mean here and not in Trino Gateway'],
  ],
  async run(options, io, paths) {
    const defaultPriority = priorityOption(options.defaultPriority, io);
    const context = {
      names: productNames(options.product ?? (await productOfRules(paths, io))),
      analyzeRequest: options.analysis,
      differenceWarnings: options.differences,
    };
    const isStrict = options.strict === true;
    const gatewayClass = options.class ?? null;
    return await validate(paths, { context, defaultPriority, isStrict, gatewayClass }, io);
  },
});

interface Output {
  readonly stdout: { write(text: string): unknown };
}

/** Findings in a file; null if it has nothing to check. */
interface FileCheck {
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
  readonly named?: readonly NamedPlace[];
  readonly resources?: number;
  readonly rules?: number;
}

/**
 * Checks files for `validate`.
 * @returns exit code
 */
async function validate(paths: readonly string[], settings: ValidateSettings, { stdout }: Output): Promise<number> {
  let mistakes = 0;
  const mistake = (line: string): void => {
    mistakes += 1;
    stdout.write(`${line}\n`);
  };
  const filesOf = new Map<string, readonly string[]>();
  for (const path of paths) {
    try {
      filesOf.set(path, await filesAt(path));
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      mistake(`${path}: error: ${isMissing ? 'there is no such file or directory' : String(error)}`);
    }
  }
  const files = [...filesOf.values()].flat();
  const checks = await Promise.all(files.map(async (path) => [path, await checkFile(path, settings)] as const));
  const named = checks.flatMap(([, check]) => check?.named ?? []);
  const same = duplicates(named);
  const references = groupReferenceFindings(named);
  for (const [path, check] of checks) {
    if (check === null) stdout.write(`${path}: note: neither manifests nor rules nor resource groups; left out\n`);
    const ofFile = (finding: Finding): boolean => finding.path === path;
    const problems = [...(check?.problems ?? []), ...same.problems.filter(ofFile)];
    const warnings = [...(check?.warnings ?? []), ...[...same.warnings, ...references].filter(ofFile)];
    for (const line of findingLines(problems, warnings)) stdout.write(line);
    mistakes += problems.length + (settings.isStrict ? warnings.length : 0);
  }
  const checked = new Set(checks.flatMap(([path, check]) => (check === null ? [] : [path])));
  for (const [path, own] of filesOf) {
    if (own.some((file) => checked.has(file))) continue;
    mistake(`${path}: error: no manifests, rules or resource groups are in it; correct the path`);
  }
  const sum = (of: (check: FileCheck) => number) =>
    checks.reduce((total, [, check]) => total + (check === null ? 0 : of(check)), 0);
  const [resources, rules] = [sum((check) => check.resources ?? 0), sum((check) => check.rules ?? 0)];
  const verdict = mistakes === 0 ? 'no mistakes' : `${mistakes} mistakes`;
  stdout.write(`${files.length} files, ${resources} resources, ${rules} rules: ${verdict}\n`);
  return mistakes === 0 ? exitCodes.success : exitCodes.failure;
}

async function checkFile(path: string, settings: ValidateSettings): Promise<FileCheck | null> {
  const { context, defaultPriority, gatewayClass } = settings;
  const text = await readFile(path, 'utf8').catch(() => null);
  if (text !== null && holdsManifests(text)) return checkManifests(path, text, context, undefined, gatewayClass);
  if (text !== null && looksLikeGroupsFile(text)) return checkGroupsFileText(path, text);
  if (text !== null && !looksLikeRules(text)) return null;
  const { documents, problems, warnings, rules } = checkRulesFile({ path, text, defaultPriority }, context);
  const named = documents.map(({ rule, document, place }) => ({
    ...{ path, name: rule.name, document, ...place },
    resource: null,
  }));
  return { problems, warnings, named, rules: rules.length };
}

function looksLikeRules(text: string): boolean {
  return (
    /^\s*[{,]?\s*["']?(?:condition|actions|priority)["']?\s*:/m.test(text) ||
    text.replace(/^\s*(?:#.*|---.*)?$/gm, '').trim() === ''
  );
}

function findingLines(problems: readonly Finding[], warnings: readonly Finding[]): readonly string[] {
  return [
    ...problems.map((problem) => ({ ...problem, kind: 'error' })),
    ...warnings.map((warning) => ({ ...warning, kind: 'warning' })),
  ]
    .sort((a, b) => a.line - b.line || a.column - b.column)
    .map(({ path, line, column, kind, rule, message }) => {
      const subject = rule === null ? '' : `${rule}: `;
      return `${path}:${line}:${column}: ${kind}: ${subject}${message}\n`;
    });
}

/**
 * Checks the manifests directory and the rules file of a configuration as `validate` does.
 * @returns its output if there are mistakes, else null
 */
export async function resourceMistakes(config: GatewayConfig): Promise<string | null> {
  const { resources, routingRules, protocol } = config;
  const { rulesConfigPath, rulesType, defaultPriority } = routingRules;
  const paths = resources.source === 'directory' && resources.directory !== null ? [resources.directory] : [];
  // A rules file may be created later; the gateway follows its path.
  if (rulesType === 'FILE' && rulesConfigPath !== null && existsSync(rulesConfigPath)) paths.push(rulesConfigPath);
  if (paths.length === 0) return null;
  const context = {
    names: productNames(protocol.productName),
    // Rules that need the analysis are not mistakes of their files.
    analyzeRequest: true,
    differenceWarnings: ruleCompilerOptions(config).differenceWarnings !== false,
  };
  const settings = { context, defaultPriority: defaultPriority ?? undefined, isStrict: false, gatewayClass: null };
  let output = '';
  const code = await validate(paths, settings, { stdout: { write: (text) => (output += text) } });
  return code === exitCodes.success ? null : output;
}
