import {
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type ParsedNode,
  Parser,
  type Scalar,
} from 'yaml';
import { DEFAULT_PRIORITY } from '../../kinds/routingRule/spec.ts';
import { Turns } from '../../model/turns.ts';
import type { ProblemEffect, RulesFile, RulesFileProblem } from '../ruleCompiler.ts';
import { plainRule, type RuleDefinition, type RuleText } from './definition.ts';
import { textPlace } from './textPlace.ts';

/** Runs all steps of a generator; returns its result. */
export function runSteps<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** As `runSteps`, in turns of the event loop. */
export async function runInTurns<T>(steps: Generator<void, T>): Promise<T> {
  const turns = new Turns();
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (turns.isOver) await turns.next();
  }
}

export interface RuleDocument {
  /** Counted from 1. */
  readonly document: number;
  /** Offsets of the document's content in the text: first character and after the last. */
  readonly start: number;
  readonly end: number;
  readonly hasPriority: boolean;
  /** Position of its start in the file, counted from 1. */
  readonly place: { readonly line: number; readonly column: number };
  readonly rule: RuleDefinition;
}

/** Content of a rules file. If there are problems or warnings, the rules are the readable documents. */
export interface ParsedRulesFile {
  readonly documents: readonly RuleDocument[];
  readonly problems: readonly RulesFileProblem[];
}

const FIELDS = ['name', 'description', 'priority', 'condition', 'actions'];

/**
 * Reads a rules file: multi-document YAML, one rule per document (docs/rules.md). YAML 1.1, as Trino Gateway reads it:
 * `010` is 8, `1_000` is 1000, `yes` is a word; the last of two equal keys wins.
 */
export function parseRulesFile(file: RulesFile): ParsedRulesFile {
  return parsedFiles.get(file) ?? remembered(file, runSteps(parsingOf(file)));
}

/** As `parseRulesFile`, in multiple turns of the event loop: a file may have thousands of rules. */
export async function parseRulesFileInTurns(file: RulesFile): Promise<ParsedRulesFile> {
  return parsedFiles.get(file) ?? remembered(file, await runInTurns(parsingOf(file)));
}

/** Files are immutable, and each listing of the rules parses the file. */
const parsedFiles = new WeakMap<RulesFile, ParsedRulesFile>();

function remembered(file: RulesFile, parsed: ParsedRulesFile): ParsedRulesFile {
  parsedFiles.set(file, parsed);
  return parsed;
}

/** Reads a file document by document: yields after each. */
function* parsingOf({ path, text, error, defaultPriority }: RulesFile): Generator<void, ParsedRulesFile> {
  if (text !== null) return yield* new RulesFileReader(path, text, defaultPriority ?? DEFAULT_PRIORITY).read();
  const message = `the file cannot be read${error === undefined ? '' : `: ${error}`}`;
  return {
    documents: [],
    problems: [{ effect: 'fileNotLoaded', path, document: null, line: 1, column: 1, rule: null, message }],
  };
}

class RulesFileReader {
  readonly #path: string;
  readonly #text: string;
  readonly #defaultPriority: number;
  readonly #lines = new LineCounter();
  readonly #problems: RulesFileProblem[] = [];
  readonly #documents: RuleDocument[] = [];
  #document = 0;
  #rule: string | null = null;

  constructor(path: string, text: string, defaultPriority: number) {
    this.#path = path;
    this.#text = text;
    this.#defaultPriority = defaultPriority;
  }

  *read(): Generator<void, ParsedRulesFile> {
    const composer = new Composer<ParsedNode>({
      version: '1.1',
      schema: 'yaml-1.1',
      uniqueKeys: false,
      merge: false,
      lineCounter: this.#lines,
      prettyErrors: false,
      strict: true,
    });
    const documents: Document.Parsed[] = [];
    for (const document of composer.compose(new Parser(this.#lines.addNewLine).parse(this.#text))) {
      documents.push(document);
      yield;
    }
    for (const [index, document] of documents.entries()) {
      this.#document = index + 1;
      this.#rule = null;
      this.#read(document, index > 0 && index === documents.length - 1, documents.length === 1);
      yield;
    }
    return { documents: this.#documents, problems: this.#problems };
  }

  #problem(message: string, offset: number, effect: ProblemEffect = 'fileNotLoaded'): void {
    const { line, col } = this.#lines.linePos(offset);
    this.#problems.push({
      effect,
      path: this.#path,
      document: this.#document,
      line: Math.max(1, line),
      column: Math.max(1, col),
      rule: this.#rule,
      message,
    });
  }

  #read(document: Document.Parsed, isTrailing: boolean, isOnly: boolean): void {
    for (const error of document.errors) this.#problem(`YAML: ${error.message.split('\n')[0]}`, error.pos[0]);
    if (document.errors.length > 0) return;
    const { contents } = document;
    const start = document.range[0];
    if (contents === null || (isScalar(contents) && contents.value === null)) {
      // An empty text is a file without rules; a trailing `---` starts nothing.
      const isNothing = (contents === null || contents.range[0] === contents.range[1]) && !/^---/m.test(this.#text);
      const isAfterLast = isTrailing && this.#documents.length > 0;
      if ((isOnly && isNothing) || isAfterLast) return;
      this.#problem('the document is empty; a rule has name, description, condition and actions', start);
      return;
    }
    const before = this.#problems.length;
    const content = this.#ruleOf(contents, document);
    if (content === null || this.#problems.slice(before).some(({ effect }) => effect !== 'warning')) return;
    const [from, end] = contents.range;
    const { line, col } = this.#lines.linePos(from);
    this.#documents.push({ document: this.#document, start: from, end, place: { line, column: col }, ...content });
  }

  #ruleOf(contents: ParsedNode, document: Document.Parsed): Pick<RuleDocument, 'rule' | 'hasPriority'> | null {
    if (!isMap(contents)) {
      this.#problem('a rule must be a map with name, description, condition and actions', contents.range[0]);
      return null;
    }
    const named = contents.items.find(({ key }) => isScalar(key) && key.value === 'name')?.value;
    if (isScalar(named) && named.value !== null) this.#rule = textOf(named);
    const fields = new Map<string, { readonly node: Node | null; readonly offset: number }>();
    for (const { key, value } of contents.items) {
      const offset = (key as Node | null)?.range?.[0] ?? contents.range[0];
      const name = isScalar(key) ? String(key.source ?? key.value) : '';
      if (!FIELDS.includes(name)) {
        this.#problem(
          `unknown field ${name === '' ? 'that is no text' : name}; a rule has ${FIELDS.join(', ')}`,
          offset,
        );
      }
      fields.set(name, { node: value as Node | null, offset });
    }
    const node = (name: string): Node | null => fields.get(name)?.node ?? null;
    const offset = (name: string): number => fields.get(name)?.offset ?? contents.range[0];
    const name = this.#text1('name', node('name'), offset('name'), document);
    this.#rule = name;
    const description = this.#description(node('description'), offset('description'), document);
    const own = this.#priority(node('priority'), offset('priority'));
    const condition = this.#code('condition', node('condition'), offset('condition'));
    const actions = this.#actions(node('actions'), offset('actions'));
    if (name === null || description === null || own === null || condition === null || actions === null) return null;
    const { hasPriority, priority } = own;
    return { hasPriority, rule: { name, description, priority, condition, actions, origin: 'file', ...plainRule } };
  }

  /** A text field; numbers and words such as `yes` are taken as text. */
  #text1(field: string, node: Node | null, offset: number, document: Document.Parsed): string | null {
    const resolved = isAlias(node) ? node.resolve(document) : node;
    if (isScalar(resolved) && resolved.value !== null) return textOf(resolved);
    this.#problem(`${field} is ${node === null || isNull(node) ? 'missing' : 'no text'}`, offset);
    return null;
  }

  /** As in Trino Gateway, the default description is empty. */
  #description(node: Node | null, offset: number, document: Document.Parsed): string | null {
    if (node !== null && !isNull(node)) return this.#text1('description', node, offset, document);
    this.#problem('description is missing and taken as ""; say what the rule is for', offset, 'warning');
    return '';
  }

  #priority(node: Node | null, offset: number): { hasPriority: boolean; priority: number } | null {
    const value = isScalar(node) ? node.value : undefined;
    if (node === null || value === null || value === '') return { hasPriority: false, priority: this.#defaultPriority };
    const number = typeof value === 'string' && /^[+-]?[0-9]+$/.test(value.trim()) ? Number(value) : value;
    const whole = typeof number === 'number' ? Math.trunc(number) : Number.NaN;
    if (whole >= -2_147_483_648 && whole <= 2_147_483_647)
      return { hasPriority: true, priority: whole === 0 ? 0 : whole };
    this.#problem('priority must be a whole number from -2147483648 to 2147483647', offset);
    return null;
  }

  #actions(node: Node | null, offset: number): RuleText[] | null {
    if (!isSeq(node)) {
      this.#problem(node === null || isNull(node) ? 'actions is missing' : 'actions must be a list of texts', offset);
      return null;
    }
    const actions = node.items.map((item, index) => this.#code(`actions[${index}]`, item as Node | null, offset));
    return actions.every((action) => action !== null) ? actions : null;
  }

  #code(field: string, node: Node | null, offset: number): RuleText | null {
    if (isScalar(node) && typeof node.value === 'string') {
      return { text: node.value, field, place: textPlace(node, this.#text, this.#lines) };
    }
    const at = node?.range?.[0] ?? offset;
    if (node === null || isNull(node)) this.#problem(`${field} is missing`, at);
    else if (isAlias(node)) this.#problem(`${field} cannot be an alias; write the text itself`, at);
    // Trino Gateway reads a number or true and fails when it evaluates the rule.
    else this.#problem(`${field} must be a text; put it in quotes`, at, isScalar(node) ? 'ruleLeftOut' : undefined);
    return null;
  }
}

function isNull(node: Node): boolean {
  return isScalar(node) && node.value === null;
}

function textOf(node: Scalar): string {
  return node.type === 'PLAIN' && node.source !== undefined ? node.source : String(node.value);
}
