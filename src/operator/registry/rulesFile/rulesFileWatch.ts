import { readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { followFiles, type RefreshableFileWatch, watchFolder } from '../../../config/followedFiles.ts';
import { DEFAULT_PRIORITY, ROUTING_RULE } from '../../../kinds/routingRule/spec.ts';
import { GatewayError } from '../../../model/errors.ts';
import type { ResourceKey } from '../../../model/resource.ts';
import { Turns } from '../../../model/turns.ts';
import type { RuleDefinition } from '../../../rules/compile/definition.ts';
import { parseRulesFileInTurns, type RuleDocument } from '../../../rules/compile/rulesFile.ts';
import type { RulesFile, RulesFileProblem } from '../../../rules/ruleCompiler.ts';
import { type Edit, editedTexts } from '../../sources/directory/manifestEdit.ts';

/** A file that changed within this time may be half written: it is read again before it counts as broken. */
const SETTLE_MS = 1000;
/** Longest rules file in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_LOGGED = 20;
const EFFECTS = ['fileNotLoaded', 'ruleLeftOut', 'warning'] as const;

/**
 * The rules file, read again every refresh period and whenever its folder states that something changed (an editor's
 * rename, the symlink swap of a mounted ConfigMap).
 */
export class RulesFileWatch {
  current: RulesFile;
  readonly #check: (file: RulesFile) => Promise<readonly RulesFileProblem[]>;
  readonly #onChange: () => void;
  readonly #logger: Logger;
  #files: RefreshableFileWatch<RulesFile> | null = null;

  /**
   * @param check returns mistakes and warnings of a text, for the log and to detect a file that is being written
   * @param onChange called when `current` is another one. Must not throw
   */
  constructor(
    file: Pick<RulesFile, 'path' | 'defaultPriority'>,
    check: (file: RulesFile) => Promise<readonly RulesFileProblem[]>,
    onChange: () => void,
    logger: Logger,
  ) {
    this.current = { ...file, text: null, error: 'not read yet' };
    this.#check = check;
    this.#onChange = onChange;
    this.#logger = logger;
  }

  /**
   * Reads the file for the first time and begins to follow it. Resolves when `current` is what there is.
   * @param refreshPeriod milliseconds after which the file is read again at the latest
   */
  async start(refreshPeriod: number): Promise<void> {
    const { path } = this.current;
    const report = (reason: string | null) => {
      if (reason !== null) this.#logger.error({ reason, file: path }, 'failed to check rules file');
    };
    const watching = (refresh: () => void) => watchFolder(dirname(path), refresh, this.#logger);
    const use = (file: RulesFile, age: number) => this.#use(file, age);
    this.#files = await followFiles(() => this.#read(), use, report, refreshPeriod, watching);
  }

  stop(): void {
    this.#files?.stop();
  }

  /** Reads the file now. */
  async refresh(): Promise<void> {
    await this.#files?.refresh();
  }

  async #read(): Promise<RulesFile> {
    const { path, defaultPriority } = this.current;
    try {
      if ((await stat(path)).size > MAX_BYTES) throw new Error(`it is longer than ${MAX_BYTES} bytes`);
      const text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
      return { path, defaultPriority, text };
    } catch (error) {
      return { path, defaultPriority, text: null, error: reasonOf(error) };
    }
  }

  /** Checks and uses a file; undefined if it is broken, empty or gone, but only just: perhaps it is being written. */
  async #use(file: RulesFile, age: number): Promise<RulesFile | undefined> {
    const problems = await this.#check(file);
    const isEmptied = file.text?.trim() === '' && (this.current.text ?? '').trim() !== '';
    if (age < SETTLE_MS && (isEmptied || problems.some(({ effect }) => effect !== 'warning'))) {
      const changed = await stat(file.path).catch(() => null);
      if (changed === null || Date.now() - changed.mtimeMs < SETTLE_MS) return undefined;
    }
    this.current = file;
    this.#log(file, problems);
    this.#onChange();
    return file;
  }

  #log(file: RulesFile, problems: readonly RulesFileProblem[]): void {
    const logger = this.#logger;
    if (problems.every(({ effect }) => effect !== 'fileNotLoaded'))
      logger.info({ file: file.path }, 'rules file loaded');
    const worstFirst = EFFECTS.flatMap((each) => problems.filter(({ effect }) => effect === each));
    for (const { effect, path, document, line, column, rule, message } of worstFirst.slice(0, MAX_LOGGED)) {
      const place = { file: path, document, line, column, rule };
      if (effect === 'warning') logger.warn(place, `rules file: ${message}`);
      else if (effect === 'ruleLeftOut') logger.error(place, `rule of the rules file left out: ${message}`);
      else logger.error(place, `rules file does not load: ${message}`);
    }
    const more = worstFirst.length - MAX_LOGGED;
    if (more > 0) {
      logger.warn({ file: file.path, more }, 'rules file has more mistakes and warnings; GET /api/rules lists them');
    }
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return 'it is not UTF-8';
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied';
  return code ?? (error instanceof Error ? error.message : String(error));
}

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
