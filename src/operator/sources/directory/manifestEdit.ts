import { isDeepStrictEqual } from 'node:util';
import {
  type DocumentOptions,
  isMap,
  isScalar,
  type ParseOptions,
  parse,
  parseDocument,
  type SchemaOptions,
  stringify,
} from 'yaml';
import { GatewayError } from '../../../model/errors.ts';
import { apiVersionOf } from '../../../model/resource.ts';
import type { NewResource, ResourceChange } from '../source.ts';

/** A field to set, or (undefined) to take out. */
export interface Edit {
  readonly path: readonly [string, ...string[]];
  readonly value: unknown;
}

type Value = Record<string, unknown>;

/**
 * The text of a document after a change. Where only plain values change, nothing but their characters does; otherwise
 * the document is rewritten with its comments. What it states afterwards is compared with what was meant.
 * @param text one document, as `splitDocuments` cuts it
 * @throws GatewayError EG_IMPOSSIBLE when the document cannot be edited, e.g. as the field is an alias
 */
export function editDocument(text: string, change: ResourceChange, format: 'yaml' | 'json'): string {
  const edits = editsOf(change);
  if (edits.length === 0) return text;
  const before = (format === 'json' ? JSON.parse(text.replace(/^\uFEFF/, '')) : parse(text, quiet)) as Value;
  const expected = structuredClone(before);
  for (const edit of edits) editValue(expected, edit);
  if (format === 'json') return jsonText(text, expected);
  for (const after of editedTexts(text, edits)) {
    if (isDeepStrictEqual(parse(after, quiet), expected)) return after;
  }
  throw new GatewayError(
    'EG_IMPOSSIBLE',
    'the document that holds the resource cannot be edited by the gateway (aliases or tags in it); edit the file by hand',
  );
}

export function newDocument(
  { kind, name, namespace, labels = {}, annotations, spec }: NewResource,
  creationTimestamp: string,
): string {
  const named = Object.keys(labels).length === 0 ? {} : { labels };
  const metadata = {
    name,
    namespace,
    creationTimestamp,
    ...named,
    ...(annotations === undefined ? {} : { annotations }),
  };
  return stringify({ apiVersion: apiVersionOf(kind), kind, metadata, spec }, { lineWidth: 0 });
}

const quiet = { logLevel: 'silent' } as const;
type YamlOptions = ParseOptions & DocumentOptions & SchemaOptions;

/** Texts of a YAML document after edits, the one first that changes the fewest characters. What they state is yet to be checked. */
export function* editedTexts(text: string, edits: readonly Edit[], options: YamlOptions = {}): Generator<string> {
  for (const attempt of [replaceScalars, rewrite]) {
    const after = attempt(text, edits, { ...options, ...quiet });
    if (after !== null) yield lineEndsOf(text, after);
  }
}

function editsOf(change: ResourceChange): readonly Edit[] {
  return [
    ...Object.entries(change.set).map(([field, value]): Edit => ({ path: ['spec', field], value })),
    ...change.remove.map((field): Edit => ({ path: ['spec', field], value: undefined })),
    ...Object.entries(change.annotations).map(
      ([name, value]): Edit => ({ path: ['metadata', 'annotations', name], value: value ?? undefined }),
    ),
  ];
}

/** Makes an edit in a plain value; a mapping that it leaves empty goes too, except `spec`. */
function editValue(root: Value, { path, value }: Edit): void {
  const parents: Value[] = [root];
  for (const step of path.slice(0, -1)) {
    const parent = parents.at(-1) as Value;
    const child = parent[step];
    if (typeof child !== 'object' || child === null) {
      if (value === undefined) return;
      parent[step] = {};
    }
    parents.push(parent[step] as Value);
  }
  const last = path.at(-1) as string;
  const holder = parents.at(-1) as Value;
  if (value !== undefined) holder[last] = value;
  else {
    delete holder[last];
    if (path.length > 2 && Object.keys(holder).length === 0) delete parents.at(-2)?.[path.at(-2) as string];
  }
}

/** Exchanges the characters of single-line scalars; null when an edit is anything else. */
function replaceScalars(text: string, edits: readonly Edit[], options: YamlOptions): string | null {
  const document = parseDocument(text, options);
  const cuts: { readonly from: number; readonly to: number; readonly text: string }[] = [];
  for (const { path, value } of edits) {
    const node = document.getIn(path, true);
    if (!isScalar(node) || node.range == null || node.anchor !== undefined || node.tag !== undefined) return null;
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return null;
    if (node.type === 'BLOCK_LITERAL' || node.type === 'BLOCK_FOLDED' || node.source === '') return null;
    const quoted = node.type === 'QUOTE_DOUBLE' || node.type === 'QUOTE_SINGLE';
    const fresh = stringify(value, {
      lineWidth: 0,
      ...(quoted && typeof value === 'string' ? { defaultStringType: node.type as 'QUOTE_DOUBLE' } : {}),
    }).trimEnd();
    if (fresh.includes('\n')) return null;
    cuts.push({ from: node.range[0], to: node.range[1], text: fresh });
  }
  return cuts
    .toSorted((a, b) => b.from - a.from)
    .reduce((result, cut) => result.slice(0, cut.from) + cut.text + result.slice(cut.to), text);
}

/** Rewrites the document from its tree, comments and order kept. */
function rewrite(text: string, edits: readonly Edit[], options: YamlOptions): string | null {
  const document = parseDocument(text, options);
  try {
    for (const { path, value } of edits) {
      if (value === undefined) {
        document.deleteIn(path);
        const parent = path.length > 2 ? document.getIn(path.slice(0, -1), true) : undefined;
        if (isMap(parent) && parent.items.length === 0) document.deleteIn(path.slice(0, -1));
        continue;
      }
      for (let length = 1; length < path.length; length += 1) {
        // An empty `annotations:` is null, and nothing can be set in it.
        if (document.getIn(path.slice(0, length)) === null) document.deleteIn(path.slice(0, length));
      }
      document.setIn(path, document.createNode(value));
    }
    const flushSequences = /^(\s*)[^\s#-][^\n]*:[^\S\n]*\r?\n\1- /m.test(text);
    return document.toString({ lineWidth: 0, indentSeq: !flushSequences });
  } catch {
    return null;
  }
}

function jsonText(before: string, value: Value): string {
  const indent = /^[^\S\n]*\{\s*\n([^\S\n]+)"/.exec(before.replace(/^\uFEFF/, ''))?.[1];
  const text = JSON.stringify(value, null, indent ?? (before.trimEnd().includes('\n') ? 2 : undefined));
  return lineEndsOf(before, text + (/\n\s*$/.test(before) ? '\n' : ''));
}

function lineEndsOf(before: string, after: string): string {
  return before.includes('\r\n') ? after.replaceAll(/\r?\n/g, '\r\n') : after;
}
