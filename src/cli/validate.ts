import { readFile, stat } from 'node:fs/promises';
import { Command } from 'commander';
import { productNames } from '../model/names.ts';
import { listManifestFiles } from '../operator/sources/directory/manifestFiles.ts';
import { checkRulesFile } from '../rules/compile/checkRules.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import { duplicates, type NamedPlace } from './duplicates.ts';
import { groupReferenceFindings } from './groupReferences.ts';
import { checkGroupsFileText, looksLikeGroupsFile } from './groupsFileCheck.ts';
import { type CommandFactory, exitCodes } from './io.ts';
import { checkManifests, type Finding } from './manifestCheck.ts';
import { holdsManifests } from './offlineRules.ts';
import { PRIORITY_MISTAKE, priorityOption } from './priorityOption.ts';
import { productOfRules } from './productName.ts';

interface ValidateOptions {
  readonly product?: string;
  readonly analysis: boolean;
  readonly strict?: boolean;
  readonly class?: string;
  readonly differences: boolean;
  readonly defaultPriority?: string;
}

export interface ValidateSettings {
  readonly context: CompileContext;
  readonly defaultPriority: number | undefined;
  readonly isStrict: boolean;
  /** `resources.class`; undefined: absent. */
  readonly gatewayClass: string | undefined;
}

/** `validate`: checks manifests, rules files and files of resource groups, for pipelines. */
export const validateCommand: CommandFactory = (io, finish) =>
  new Command('validate')
    .description(
      'check manifests, rules files and files of resource groups: exit code 1 and file:line messages for mistakes',
    )
    .argument('<path...>', 'files, or directories whose .yaml, .yml and .json files are checked')
    .option(
      '--product <name>',
      'product name of the objects in rules (protocol.productName); inferred from the names in the rules by default',
    )
    .option('--no-analysis', 'the gateway runs with requestAnalyzerConfig.analyzeRequest: false')
    .option('--class <name>', 'class of the gateway they are for (resources.class): warns of resources of others')
    .option('--strict', 'warnings count as mistakes')
    .option('--default-priority <number>', 'routingRules.defaultPriority')
    .option('--no-differences', 'say nothing of what rules mean here and not in Trino Gateway')
    .action(async (paths: readonly string[], options: ValidateOptions) => {
      const defaultPriority = priorityOption(options.defaultPriority);
      if (defaultPriority === null) {
        io.stderr.write(PRIORITY_MISTAKE);
        return finish(exitCodes.usage);
      }
      const context = {
        names: productNames(options.product ?? (await productOfRules(paths, io))),
        analyzeRequest: options.analysis,
        differenceWarnings: options.differences,
      };
      const isStrict = options.strict === true;
      finish(await validate(paths, { context, defaultPriority, isStrict, gatewayClass: options.class }, io));
    });

/**
 * Checks files for `validate`.
 * @returns exit code
 */
export async function validate(
  paths: readonly string[],
  { context, defaultPriority, isStrict, gatewayClass }: ValidateSettings,
  io: { readonly stdout: { write(text: string): unknown } },
): Promise<number> {
  let mistakes = 0;
  let rules = 0;
  let resources = 0;
  const files: string[] = [];
  const ranges: { readonly path: string; readonly start: number; readonly end: number }[] = [];
  for (const path of paths) {
    const start = files.length;
    try {
      if ((await stat(path)).isDirectory()) files.push(...(await listManifestFiles(path)).files.keys());
      else files.push(path);
      ranges.push({ path, start, end: files.length });
    } catch (error) {
      mistakes += 1;
      io.stdout.write(
        `${path}: error: ${(error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file or directory' : String(error)}\n`,
      );
    }
  }
  const named: NamedPlace[] = [];
  const findings: { readonly problems: Finding[]; readonly warnings: Finding[]; readonly isLeftOut: boolean }[] = [];
  for (const path of files) {
    const text = await readFile(path, 'utf8').catch(() => null);
    const isManifest = text !== null && holdsManifests(text);
    const isGroups = text !== null && !isManifest && looksLikeGroupsFile(text);
    const isRules = text === null || (!isManifest && !isGroups && looksLikeRules(text));
    const ofPath = {
      problems: [] as Finding[],
      warnings: [] as Finding[],
      isLeftOut: !isManifest && !isGroups && !isRules,
    };
    findings.push(ofPath);
    if (isManifest) {
      const check = checkManifests(path, text, context, undefined, gatewayClass ?? null);
      resources += check.resources;
      ofPath.problems.push(...check.problems);
      ofPath.warnings.push(...check.warnings);
      named.push(...check.named);
    } else if (isGroups) {
      const check = checkGroupsFileText(path, text);
      ofPath.problems.push(...check.problems);
      ofPath.warnings.push(...check.warnings);
    } else if (isRules) {
      const check = checkRulesFile({ path, text, defaultPriority }, context);
      rules += check.rules.length;
      ofPath.problems.push(...check.problems);
      ofPath.warnings.push(...check.warnings);
      named.push(...check.documents.map(({ rule, document, place }) => rulePlace(path, rule.name, document, place)));
    }
  }
  const same = duplicates(named);
  const references = groupReferenceFindings(named);
  for (const [index, path] of files.entries()) {
    const ofPath = findings[index];
    if (ofPath === undefined) continue;
    if (ofPath.isLeftOut) io.stdout.write(`${path}: note: neither manifests nor rules nor resource groups; left out\n`);
    const ofFile = (finding: Finding): boolean => finding.path === path;
    const problems = [...ofPath.problems, ...same.problems.filter(ofFile)];
    const warnings = [...ofPath.warnings, ...same.warnings.filter(ofFile), ...references.filter(ofFile)];
    report(problems, warnings, io);
    mistakes += problems.length + (isStrict ? warnings.length : 0);
  }
  for (const { path, start, end } of ranges) {
    if (findings.slice(start, end).some(({ isLeftOut }) => !isLeftOut)) continue;
    mistakes += 1;
    io.stdout.write(`${path}: error: no manifests, rules or resource groups are in it; correct the path\n`);
  }
  io.stdout.write(
    `${files.length} files, ${resources} resources, ${rules} rules: ${mistakes === 0 ? 'no mistakes' : `${mistakes} mistakes`}\n`,
  );
  return mistakes === 0 ? exitCodes.success : exitCodes.failure;
}

function rulePlace(path: string, name: string, document: number, place: { line: number; column: number }): NamedPlace {
  return { path, name, document, ...place, resource: null };
}

function looksLikeRules(text: string): boolean {
  return (
    /^\s*[{,]?\s*["']?(?:condition|actions|priority)["']?\s*:/m.test(text) ||
    text.replace(/^\s*(?:#.*|---.*)?$/gm, '').trim() === ''
  );
}

function report(
  problems: readonly Finding[],
  warnings: readonly Finding[],
  io: { readonly stdout: { write(text: string): unknown } },
): void {
  const lines = [
    ...problems.map((problem) => ({ ...problem, kind: 'error' })),
    ...warnings.map((warning) => ({ ...warning, kind: 'warning' })),
  ].sort((a, b) => a.line - b.line || a.column - b.column);
  for (const { path, line, column, kind, rule, message } of lines) {
    io.stdout.write(`${path}:${line}:${column}: ${kind}: ${rule === null ? '' : `${rule}: `}${message}\n`);
  }
}
