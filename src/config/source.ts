import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type Scalar,
  type YAMLParseError,
} from 'yaml';
import type { Problem } from '../model/errors.ts';
import { type Environment, expand, holdsMarks, markReferences, oddReference, unmarkReferences } from './environment.ts';

/** Start of messages about invalid YAML. */
export const NOT_YAML = 'is not valid YAML';

export interface SourceScalar {
  readonly kind: 'scalar';
  readonly line: number;
  /** Text as written, without quotes; numbers and booleans unchanged. */
  readonly text: string;
  /** As it stands in the file where a reference gave (part of) the text, so that messages show no secret. */
  readonly reference: string | null;
  /** True when the text is one unquoted reference: it may hold a list or map in YAML of its own. */
  readonly wholly: boolean;
}

export interface SourceEntry {
  readonly key: string;
  readonly line: number;
  readonly node: SourceNode;
}

/** A node of the file with its line; what is left of YAML once scalars are text. */
export type SourceNode =
  | SourceScalar
  | { readonly kind: 'null'; readonly line: number }
  /** A node whose problem has been reported already. */
  | { readonly kind: 'unreadable'; readonly line: number }
  | { readonly kind: 'list'; readonly line: number; readonly items: readonly SourceNode[] }
  | { readonly kind: 'map'; readonly line: number; readonly entries: readonly SourceEntry[] };

/** The file as a tree, as far as it could be read, and what is wrong with its form. */
export interface Source {
  readonly root: SourceNode;
  readonly problems: readonly ConfigProblem[];
}

/**
 * Reads YAML text with `${ENV:NAME}` and `${FILE:PATH}` references (docs/compatibility.md#configuration).
 * @param firstLine number of the text's first line, where lines of several texts are counted on
 */
export function readSource(text: string, environment: Environment, firstLine = 1): Source {
  if (holdsMarks(text)) {
    const message = 'holds the characters U+E000 or U+E001, which cannot be used here';
    return { root: { kind: 'null', line: firstLine }, problems: [{ field: '', line: null, message }] };
  }
  return new Converter(environment, firstLine).read(text);
}

/** The value of a reference as YAML of its own; references in it mean themselves. */
export function readValue(scalar: SourceScalar): Source {
  return new Converter({}, scalar.line, true).read(scalar.text);
}

class Converter {
  readonly #environment: Environment;
  readonly #firstLine: number;
  /** Inside a variable's value: every node is at the reference's own line, and nothing is replaced again. */
  readonly #inside: boolean;
  readonly #lines = new LineCounter();
  readonly #nodes = new Map<Node, SourceNode>();
  readonly #problems: ConfigProblem[] = [];

  constructor(environment: Environment, firstLine: number, inside = false) {
    this.#environment = environment;
    this.#firstLine = firstLine;
    this.#inside = inside;
  }

  read(text: string): Source {
    const options = { lineCounter: this.#lines, prettyErrors: false, uniqueKeys: false, stringKeys: false };
    const document = parseDocument(this.#inside ? text : markReferences(text), options);
    for (const error of document.errors) {
      this.#problem(this.#lineAt(error.pos[0]), `${NOT_YAML}: ${sentence(error)}`);
    }
    return { root: this.#convert(document.contents, this.#firstLine, document), problems: this.#problems };
  }

  #convert(node: unknown, lineBefore: number, document: Document): SourceNode {
    if (!isNode(node)) return { kind: 'null', line: lineBefore };
    const converted = this.#nodes.get(node);
    if (converted !== undefined) return converted;
    const line = node.range == null ? lineBefore : this.#lineAt(node.range[0]);
    if (isScalar(node)) return this.#scalar(node, line);
    if (isAlias(node)) {
      const target = node.resolve(document);
      if (target !== undefined) return this.#convert(target, line, document);
      return this.#unreadable(line, `${NOT_YAML}: there is no anchor for the alias`);
    }
    if (isSeq(node)) {
      const items: SourceNode[] = [];
      this.#nodes.set(node, { kind: 'list', line, items });
      for (const item of node.items) items.push(this.#convert(item, line, document));
      return { kind: 'list', line, items };
    }
    if (!isMap(node)) return { kind: 'unreadable', line };
    const entries: SourceEntry[] = [];
    this.#nodes.set(node, { kind: 'map', line, entries });
    for (const pair of node.items) {
      const key = this.#convert(pair.key, line, document);
      if (key.kind === 'list' || key.kind === 'map' || key.kind === 'null')
        this.#problem(key.line, 'a key must be text');
      if (key.kind !== 'scalar') continue;
      entries.push({ key: key.text, line: key.line, node: this.#convert(pair.value, key.line, document) });
    }
    return { kind: 'map', line, entries };
  }

  #scalar(node: Scalar, line: number): SourceNode {
    const plain = node.type === undefined || node.type === 'PLAIN';
    const written = plain ? (node.source ?? '') : String(node.value);
    if (plain && node.value === null) return { kind: 'null', line };
    if (this.#inside) return { kind: 'scalar', line, text: written, reference: null, wholly: false };
    const { text, wholly, problems } = expand(written, this.#environment);
    for (const problem of problems) this.#problem(line, problem);
    const odd = oddReference(written);
    if (odd !== null) {
      const form = odd.startsWith('${ENV')
        ? 'names are letters, digits, "_" and "-", a letter first'
        : 'paths are letters, digits, "_", "-", "." and "/"';
      return this.#unreadable(line, `${odd} is no reference: ${form}`);
    }
    if (problems.length > 0) return { kind: 'unreadable', line };
    if (plain && wholly && text === '') return { kind: 'null', line };
    const reference = text === written ? null : unmarkReferences(written);
    return { kind: 'scalar', line, text, reference, wholly: wholly && plain };
  }

  #lineAt(offset: number): number {
    return this.#inside ? this.#firstLine : this.#lines.linePos(offset).line + this.#firstLine - 1;
  }

  #unreadable(line: number, message: string): SourceNode {
    this.#problem(line, message);
    return { kind: 'unreadable', line };
  }

  #problem(line: number, message: string): void {
    this.#problems.push({ field: '', line, message });
  }
}

function sentence(error: YAMLParseError): string {
  if (error.code === 'MULTIPLE_DOCS') return 'there is more than one document';
  return unmarkReferences(error.message.split('\n', 1)[0] ?? error.message);
}

/** A mistake in the configuration file. `field` is the key's path, e.g. `routing.asyncTimeout`. */
export interface ConfigProblem extends Problem {
  /** Line of the file, from 1; null if the problem has no single line. */
  readonly line: number | null;
  /** The file of that line; absent if the problem has no single line, or there is one file whose reader knows it. */
  readonly file?: string;
}

/** A note about the file that does not prevent the gateway from starting. */
export interface ConfigNote {
  readonly field: string;
  readonly line: number | null;
  readonly file?: string;
  readonly message: string;
}

/**
 * A problem or note in the form of compiler messages: `gateway.yaml:12: routing.asyncTimeout: needs a unit …`.
 * @param files the file, or what the files together are called, for a problem that names none
 */
export function problemLine(files: string, problem: ConfigProblem | ConfigNote): string {
  const file = problem.file ?? files;
  const place = problem.line === null ? file : `${file}:${problem.line}`;
  return problem.field === '' ? `${place}: ${problem.message}` : `${place}: ${problem.field}: ${problem.message}`;
}

/**
 * A tree with another laid over it, as Helm lays files of values: maps are merged key by key, anything else of the upper tree
 * replaces what is below it, lists whole. An upper tree without content changes nothing.
 */
export function overlay(below: SourceNode, above: SourceNode): SourceNode {
  if (above.kind === 'null') return below;
  if (below.kind !== 'map' || above.kind !== 'map') return above;
  // A key that one file gives twice stays twice, so that the reader reports it.
  const entries: SourceEntry[] = below.entries.map((entry) => {
    const upper = above.entries.find(({ key }) => key === entry.key);
    if (upper === undefined) return entry;
    return { ...upper, node: entryNode(entry.node, upper.node) };
  });
  const keys = new Set(below.entries.map(({ key }) => key));
  const repeated = above.entries.filter(
    (entry, index) => above.entries.findIndex(({ key }) => key === entry.key) < index,
  );
  const added = above.entries.filter((entry) => !keys.has(entry.key) || repeated.includes(entry));
  return { kind: 'map', line: above.line, entries: [...entries, ...added] };
}

/** A key that is given without a value returns to its default. */
function entryNode(below: SourceNode, above: SourceNode): SourceNode {
  return above.kind === 'null' ? above : overlay(below, above);
}
