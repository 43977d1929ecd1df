import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type ParsedNode,
  parseDocument,
  type YAMLParseError,
} from 'yaml';
import { type Environment, expand, holdsMarks, markReferences, oddReference, unmarkReferences } from './environment.ts';
import type { ConfigProblem } from './problem.ts';

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
  #resolve: (node: Node) => Node | undefined = () => undefined;

  constructor(environment: Environment, firstLine: number, inside = false) {
    this.#environment = environment;
    this.#firstLine = firstLine;
    this.#inside = inside;
  }

  read(text: string): Source {
    const document = parseDocument(this.#inside ? text : markReferences(text), {
      lineCounter: this.#lines,
      prettyErrors: false,
      uniqueKeys: false,
      stringKeys: false,
    });
    for (const error of document.errors) {
      this.#problem(this.#lineAt(error.pos[0]), `${NOT_YAML}: ${sentence(error)}`);
    }
    this.#resolve = (node) => (isAlias(node) ? node.resolve(document) : undefined);
    const root = this.#convert(document.contents as ParsedNode | null, this.#firstLine);
    return { root, problems: this.#problems };
  }

  #convert(node: Node | null, lineBefore: number): SourceNode {
    if (node === null) return { kind: 'null', line: lineBefore };
    const converted = this.#nodes.get(node);
    if (converted !== undefined) return converted;
    const line = this.#lineOf(node, lineBefore);
    if (isAlias(node)) return this.#alias(node, line);
    if (isScalar(node)) return this.#scalar(node, line);
    if (isSeq(node)) return this.#list(node, line);
    if (isMap(node)) return this.#map(node, line);
    return { kind: 'unreadable', line };
  }

  #alias(node: Node, line: number): SourceNode {
    const target = this.#resolve(node);
    if (target !== undefined) return this.#convert(target, line);
    this.#problem(line, `${NOT_YAML}: there is no anchor for the alias`);
    return { kind: 'unreadable', line };
  }

  #scalar(node: { value: unknown; source?: string; type?: string }, line: number): SourceNode {
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
      this.#problem(line, `${odd} is no reference: ${form}`);
    }
    if (problems.length > 0 || odd !== null) return { kind: 'unreadable', line };
    if (plain && wholly && text === '') return { kind: 'null', line };
    const reference = text === written ? null : unmarkReferences(written);
    return { kind: 'scalar', line, text, reference, wholly: wholly && plain };
  }

  #list(node: { items: readonly unknown[] } & Node, line: number): SourceNode {
    const items: SourceNode[] = [];
    const list: SourceNode = { kind: 'list', line, items };
    this.#nodes.set(node, list);
    for (const item of node.items) items.push(this.#convert(item as Node | null, line));
    return list;
  }

  #map(node: { items: readonly { key: unknown; value: unknown }[] } & Node, line: number): SourceNode {
    const entries: SourceEntry[] = [];
    const map: SourceNode = { kind: 'map', line, entries };
    this.#nodes.set(node, map);
    for (const pair of node.items) {
      const key = this.#convert(pair.key as Node | null, line);
      if (key.kind === 'unreadable') continue;
      if (key.kind !== 'scalar') {
        this.#problem(key.line, 'a key must be text');
        continue;
      }
      entries.push({ key: key.text, line: key.line, node: this.#convert(pair.value as Node | null, key.line) });
    }
    return map;
  }

  #lineOf(node: Node, lineBefore: number): number {
    return node.range === undefined || node.range === null ? lineBefore : this.#lineAt(node.range[0]);
  }

  #lineAt(offset: number): number {
    return this.#inside ? this.#firstLine : this.#lines.linePos(offset).line + this.#firstLine - 1;
  }

  #problem(line: number, message: string): void {
    this.#problems.push({ field: '', line, message });
  }
}

function sentence(error: YAMLParseError): string {
  if (error.code === 'MULTIPLE_DOCS') return 'there is more than one document';
  return unmarkReferences(error.message.split('\n', 1)[0] ?? error.message);
}
