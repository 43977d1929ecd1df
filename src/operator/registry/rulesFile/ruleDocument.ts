import { isDeepStrictEqual } from 'node:util';
import { DEFAULT_PRIORITY, ROUTING_RULE } from '../../../kinds/routingRule/spec.ts';
import { GatewayError } from '../../../model/errors.ts';
import type { ResourceKey } from '../../../model/resource.ts';
import { Turns } from '../../../model/turns.ts';
import type { RuleDefinition } from '../../../rules/compile/definition.ts';
import { parseRulesFileInTurns, type RuleDocument } from '../../../rules/compile/rulesFile.ts';
import type { RulesFile } from '../../../rules/ruleCompiler.ts';
import { type Edit, editedTexts } from '../../sources/directory/manifestEdit.ts';

/** A rule as the web application sends and lists it (docs/rules.md#fields). */
export interface RuleFields {
  readonly name: string;
  readonly description: string;
  /** Null: the default. */
  readonly priority: number | null;
  readonly condition: string;
  readonly actions: readonly string[];
}

/**
 * The text of a rules file with one rule replaced: only the document of that name changes, and of it only the fields
 * that differ; every other byte stays. Null when no document has the name. Works in turns of the event loop.
 * @throws GatewayError EG_CONFLICT when two documents have the name, EG_IMPOSSIBLE when the document cannot be edited
 */
export async function replaceRule(file: RulesFile, text: string, given: RuleFields): Promise<string | null> {
  const { path, defaultPriority } = file;
  const rule = { ...given, priority: given.priority ?? defaultPriority ?? DEFAULT_PRIORITY };
  const { documents } = await parseRulesFileInTurns(withText(file, text));
  const target = onlyNamed(path, documents, rule.name);
  if (target === null) return null;
  const present = fieldsOf(target.rule);
  const edits = (['description', 'priority', 'condition', 'actions'] as const).flatMap((field): readonly Edit[] => {
    const value = field === 'priority' ? (given.priority ?? undefined) : rule[field];
    return isDeepStrictEqual(present[field], rule[field]) ? [] : [{ path: [field], value }];
  });
  if (edits.length === 0) return text;
  const wanted = documents.map((each) => (each === target ? rule : fieldsOf(each.rule)));
  const before = text.slice(target.start, target.end);
  const end = /\s*$/.exec(before)?.[0] ?? '';
  for (const edited of editedTexts(before, edits, yaml11)) {
    const after = text.slice(0, target.start) + edited.trimEnd() + end + text.slice(target.end);
    if (await states(withText(file, after), wanted)) return after;
  }
  const message = `the document of ${rule.name} in ${path} cannot be edited by the gateway; edit the file by hand`;
  throw new GatewayError('EG_IMPOSSIBLE', message);
}

/** As Trino Gateway reads rules files. */
const yaml11 = { version: '1.1', schema: 'yaml-1.1', uniqueKeys: false, merge: false } as const;

/** True if a rules file states these rules, in their order. Works in turns of the event loop. */
async function states(file: RulesFile, rules: readonly RuleFields[]): Promise<boolean> {
  const { documents } = await parseRulesFileInTurns(file);
  const turns = new Turns();
  for (const [index, { rule }] of documents.entries()) {
    if (!isDeepStrictEqual(fieldsOf(rule), rules[index])) return false;
    if (turns.isOver) await turns.next();
  }
  return documents.length === rules.length;
}

/**
 * The text of a rules file without the document of a rule; every other byte stays. Null when no document has the name. Works in turns of
 * the event loop.
 * @throws GatewayError EG_CONFLICT when two documents have the name, EG_IMPOSSIBLE when nothing would be left or the document cannot be
 * cut out
 */
export async function removeRule(file: RulesFile, text: string, name: string): Promise<string | null> {
  const { path } = file;
  const { documents } = await parseRulesFileInTurns(withText(file, text));
  const target = onlyNamed(path, documents, name);
  if (target === null) return null;
  if (documents.length === 1) {
    const message = `${name} is the only rule of ${path}, which must not become empty; edit the file by hand`;
    throw new GatewayError('EG_IMPOSSIBLE', message);
  }
  const index = documents.indexOf(target);
  const next = documents[index + 1];
  const from = separatorBefore(text, documents[index - 1]?.end ?? 0, target.start);
  const to = next === undefined ? text.length : separatorBefore(text, target.end, next.start);
  const after = text.slice(0, from) + text.slice(to);
  const others = documents.toSpliced(index, 1).map(({ rule }) => fieldsOf(rule));
  if (await states(withText(file, after), others)) return after;
  const message = `the document of ${name} in ${path} cannot be cut out by the gateway; edit the file by hand`;
  throw new GatewayError('EG_IMPOSSIBLE', message);
}

/** A file with the text that it has now; the file itself if that is its text, which is parsed already. */
function withText(file: RulesFile, text: string): RulesFile {
  return text === file.text ? file : { path: file.path, text, defaultPriority: file.defaultPriority };
}

/** Start of the line that separates two documents; comments before it belong to the first. */
function separatorBefore(text: string, from: number, to: number): number {
  const offset = text.slice(from, to).search(/^---/m);
  return offset === -1 ? from : from + offset;
}

/** The document of that name, or null. @throws GatewayError EG_CONFLICT for two of them */
function onlyNamed(path: string, documents: readonly RuleDocument[], name: string): RuleDocument | null {
  const matches = documents.filter(({ rule }) => rule.name === name);
  if (matches.length > 1) {
    throw new GatewayError(
      'EG_CONFLICT',
      `${path} has ${matches.length} rules named ${name}; give them different names`,
      { field: 'name' },
    );
  }
  return matches[0] ?? null;
}

export function fieldsOf({ name, description, priority, condition, actions }: RuleDefinition): RuleFields {
  return { name, description, priority, condition: condition.text, actions: actions.map(({ text }) => text) };
}

/** A rule of the rules file, with a key as resources have one: its namespace is empty. */
export interface FileRule {
  readonly key: ResourceKey;
  readonly fields: ReturnType<typeof fieldsOf>;
}

export function fileRuleKey(name: string): ResourceKey {
  return { kind: ROUTING_RULE, namespace: '', name };
}

const rulesOf = new WeakMap<RulesFile, Promise<readonly FileRule[] | null>>();

/** The rules of a rules file in its order, the same objects each time; null if it cannot be read, so that nothing is known of its rules. */
export function fileRules(file: RulesFile): Promise<readonly FileRule[] | null> {
  return rulesOf.getOrInsertComputed(file, async () => {
    const { documents, problems } = await parseRulesFileInTurns(file);
    if (problems.some(({ effect }) => effect === 'fileNotLoaded')) return null;
    return documents.map(({ rule }) => ({ key: fileRuleKey(rule.name), fields: fieldsOf(rule) }));
  });
}
