import { readFile, stat } from 'node:fs/promises';
import { routingRule } from '../kinds/routingRule/kind.ts';
import { ROUTING_RULE, type RoutingRuleSpec } from '../kinds/routingRule/spec.ts';
import { problemText } from '../model/errors.ts';
import { readManifests } from '../operator/sources/directory/manifestDocuments.ts';
import { listManifestFiles } from '../operator/sources/directory/manifestFiles.ts';
import type { RuleDraft } from '../rules/compile/ruleDraft.ts';
import { parseRulesFile } from '../rules/compile/rulesFile.ts';
import type { RuleEdit } from '../rules/replay/editedRules.ts';
import { holdsManifests } from './offlineRules.ts';

/**
 * Reads rules that replace rules by name, or are added: of a rules file, a file of manifests, or a directory of
 * manifests.
 * @param report receives a line for each mistake, with file and position if known
 * @returns null if there are mistakes
 */
export async function readRuleEdits(
  path: string,
  defaultPriority: number | undefined,
  report: (line: string) => void,
): Promise<readonly RuleEdit[] | null> {
  let files: readonly string[];
  try {
    files = (await stat(path)).isDirectory() ? [...(await listManifestFiles(path)).files.keys()] : [path];
  } catch (error) {
    report(`${path}: error: ${(error as Error).message}`);
    return null;
  }
  const drafts: RuleDraft[] = [];
  let hasMistakes = false;
  const mistake = (line: string): void => {
    hasMistakes = true;
    report(line);
  };
  for (const file of files) {
    const text = await readFile(file, 'utf8');
    if (holdsManifests(text)) drafts.push(...draftsOfManifests(file, text, mistake));
    else if (files.length === 1) drafts.push(...draftsOfFile(file, text, defaultPriority, mistake));
  }
  const twice = drafts.find(({ name }, index) => drafts.findIndex((each) => each.name === name) < index);
  if (twice !== undefined) mistake(`${path}: error: the rule ${twice.name} is there twice; give each rule once`);
  if (drafts.length === 0 && !hasMistakes) mistake(`${path}: error: there is no ${ROUTING_RULE}`);
  return hasMistakes ? null : drafts.map((rule) => ({ name: rule.name, rule }));
}

function draftsOfManifests(file: string, text: string, mistake: (line: string) => void): readonly RuleDraft[] {
  const drafts: RuleDraft[] = [];
  for (const document of readManifests(text, 'default')) {
    if (document.kind === 'broken') mistake(`${file}:${document.problemLine}:1: error: ${document.message}`);
    if (document.kind !== 'resource' || document.manifest.key.kind !== ROUTING_RULE) continue;
    const { key, spec } = document.manifest;
    const problems = routingRule.specProblems(spec);
    if (problems.length > 0) mistake(`${file}: error: ${key.name}: ${problemText(problems)}`);
    else drafts.push(draftOfSpec(key.name, spec as unknown as RoutingRuleSpec));
  }
  return drafts;
}

function draftOfSpec(resource: string, spec: RoutingRuleSpec): RuleDraft {
  const { name = resource, actions = [], priority = null, routeTo = null, deny = null } = spec;
  const { description = '', onUnavailable = 'fallback', stop = false, suspended = false } = spec;
  const { condition } = spec;
  return { name, description, priority, condition, actions, routeTo, deny, onUnavailable, stop, suspended };
}

function draftsOfFile(
  path: string,
  text: string,
  defaultPriority: number | undefined,
  mistake: (line: string) => void,
): readonly RuleDraft[] {
  const { documents, problems } = parseRulesFile({ path, text, defaultPriority });
  for (const { effect, line, column, message } of problems) {
    if (effect !== 'warning') mistake(`${path}:${line}:${column}: error: ${message}`);
  }
  return documents.map(({ rule: { name, description, priority, condition, actions } }) => ({
    ...{ name, description, priority, condition: condition.text },
    actions: actions.map((action) => action.text),
  }));
}
