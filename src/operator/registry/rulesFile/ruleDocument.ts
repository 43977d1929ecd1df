import { isDeepStrictEqual } from 'node:util';
import { isMap, parseDocument } from 'yaml';
import { DEFAULT_PRIORITY, ROUTING_RULE } from '../../../kinds/routingRule/spec.ts';
import { GatewayError } from '../../../model/errors.ts';
import type { ResourceKey } from '../../../model/resource.ts';
import { Turns } from '../../../model/turns.ts';
import type { RuleDefinition } from '../../../rules/compile/definition.ts';
import { parseRulesFileInTurns, type RuleDocument } from '../../../rules/compile/rulesFile.ts';
import type { RulesFile } from '../../../rules/ruleCompiler.ts';

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
  if (isSameRule(target.rule, rule)) return text;
  const before = text.slice(target.start, target.end);
  const edited = edit(before, target.rule, rule, given.priority !== null);
  const after = text.slice(0, target.start) + matchEnd(before, edited) + text.slice(target.end);
  const check = await parseRulesFileInTurns({ path, text: after, defaultPriority });
  const written = check.documents.find(({ document }) => document === target.document);
  if (
    written === undefined ||
    !isSameRule(written.rule, rule) ||
    !(await isSameBeside(target.document, documents, check.documents))
  ) {
    throw new GatewayError(
      'EG_IMPOSSIBLE',
      `the document of ${rule.name} in ${path} cannot be edited by the gateway; edit the file by hand`,
    );
  }
  return after;
}

/**
 * The text of a rules file without the document of a rule; every other byte stays. Null when no document has the name. Works in turns of
 * the event loop.
 * @throws GatewayError EG_CONFLICT when two documents have the name, EG_IMPOSSIBLE when nothing would be left or the document cannot be
 * cut out
 */
export async function removeRule(file: RulesFile, text: string, name: string): Promise<string | null> {
  const { path, defaultPriority } = file;
  const { documents } = await parseRulesFileInTurns(withText(file, text));
  const target = onlyNamed(path, documents, name);
  if (target === null) return null;
  if (documents.length === 1) {
    throw new GatewayError(
      'EG_IMPOSSIBLE',
      `${name} is the only rule of ${path}, which must not become empty; edit the file by hand`,
    );
  }
  const index = documents.indexOf(target);
  const next = documents[index + 1];
  const from = separatorBefore(text, documents[index - 1]?.end ?? 0, target.start);
  const to = next === undefined ? text.length : separatorBefore(text, target.end, next.start);
  const after = text.slice(0, from) + text.slice(to);
  const check = await parseRulesFileInTurns({ path, text: after, defaultPriority });
  const others = documents.toSpliced(index, 1).map(({ rule }) => fieldsOf(rule));
  const left = check.documents.map(({ rule }) => fieldsOf(rule));
  if (!isDeepStrictEqual(left, others)) {
    throw new GatewayError(
      'EG_IMPOSSIBLE',
      `the document of ${name} in ${path} cannot be cut out by the gateway; edit the file by hand`,
    );
  }
  return after;
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

/** True if a document states what is wanted already. */
function isSameRule(document: RuleDefinition, rule: RuleFields): boolean {
  return isDeepStrictEqual(fieldsOf(document), rule);
}

export function fieldsOf({ name, description, priority, condition, actions }: RuleDefinition): RuleFields {
  return { name, description, priority, condition: condition.text, actions: actions.map(({ text }) => text) };
}

/** True if two readings of a file have the same rules, apart from one document. */
async function isSameBeside(
  edited: number,
  before: readonly RuleDocument[],
  after: readonly RuleDocument[],
): Promise<boolean> {
  if (before.length !== after.length) return false;
  const turns = new Turns();
  for (const [index, { document, rule }] of before.entries()) {
    const other = after[index];
    if (other?.document !== document) return false;
    if (document !== edited && !isDeepStrictEqual(fieldsOf(rule), fieldsOf(other.rule))) return false;
    if (turns.isOver) await turns.next();
  }
  return true;
}

function edit(text: string, before: RuleDefinition, rule: RuleFields, hasPriority: boolean): string {
  const document = parseDocument(text, {
    version: '1.1',
    schema: 'yaml-1.1',
    uniqueKeys: false,
    merge: false,
    logLevel: 'silent',
  });
  if (!isMap(document.contents))
    throw new GatewayError('EG_IMPOSSIBLE', 'the document is no map; edit the file by hand');
  const present = fieldsOf(before);
  if (present.description !== rule.description) document.set('description', rule.description);
  if (present.condition !== rule.condition) document.set('condition', rule.condition);
  if (!isDeepStrictEqual(present.actions, rule.actions)) document.set('actions', document.createNode(rule.actions));
  if (present.priority !== rule.priority) {
    if (hasPriority) document.set('priority', rule.priority);
    else document.delete('priority');
  }
  return document.toString({ lineWidth: 0 });
}

function matchEnd(before: string, after: string): string {
  const lines = before.includes('\r\n') ? after.replace(/\r?\n/g, '\r\n') : after;
  const end = /\s*$/.exec(before)?.[0] ?? '';
  return lines.trimEnd() + end;
}

/** A rule of the rules file, with a key as resources have one: its namespace is empty. */
export interface FileRule {
  readonly key: ResourceKey;
  readonly fields: ReturnType<typeof fieldsOf>;
}

export function fileRuleKey(name: string): ResourceKey {
  return { kind: ROUTING_RULE, namespace: '', name };
}

/** The rules of a rules file in its order; null if it cannot be read, so that nothing is known of its rules. */
export async function fileRules(file: RulesFile): Promise<readonly FileRule[] | null> {
  const { documents, problems } = await parseRulesFileInTurns(file);
  if (problems.some(({ effect }) => effect === 'fileNotLoaded')) return null;
  return documents.map(({ rule }) => ({ key: fileRuleKey(rule.name), fields: fieldsOf(rule) }));
}
