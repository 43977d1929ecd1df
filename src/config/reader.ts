import type { FieldSchema } from './fields.ts';
import { isSlip, nearest, sectionsWith } from './nearest.ts';
import type { ConfigNote, ConfigProblem } from './problem.ts';
import { retiredKeys } from './retiredKeys.ts';
import { readScalar } from './scalar.ts';
import { SecretText } from './secretText.ts';
import { readValue, type SourceEntry, type SourceNode, type SourceScalar } from './source.ts';

export interface Reading {
  /**
   * The value with defaults filled in. Where there are problems, defaults (null without one) stand for what could not
   * be read: good enough to look for mistakes between keys, but not to be used.
   */
  readonly value: unknown;
  readonly problems: readonly ConfigProblem[];
  readonly notes: readonly ConfigNote[];
  readonly keyLines: ReadonlyMap<string, number>;
}

/** Reads a tree by a schema: fills in defaults, finds every mistake, notes keys without effect. */
export function readBySchema(schema: FieldSchema, root: SourceNode): Reading {
  const reader = new Reader(schema);
  const value = reader.read(schema, root, '');
  return { value, problems: reader.problems, notes: reader.notes, keyLines: reader.keyLines };
}

class Reader {
  readonly problems: ConfigProblem[] = [];
  readonly notes: ConfigNote[] = [];
  readonly keyLines = new Map<string, number>();
  readonly #whole: FieldSchema;

  constructor(whole: FieldSchema) {
    this.#whole = whole;
  }

  /** @param node undefined if the file does not have the key */
  read(schema: FieldSchema, node: SourceNode | undefined, path: string): unknown {
    if (node === undefined || node.kind === 'null') return this.#absent(schema, node, path);
    if (node.kind === 'unreadable') return standIn(schema);
    return this.#present(schema, node, path) ?? standIn(schema);
  }

  #present(schema: FieldSchema, node: SourceNode, path: string): unknown {
    switch (schema.kind) {
      case 'section':
        return this.#section(schema, node, path);
      case 'map':
        return this.#map(schema, node, path);
      case 'list':
        return this.#list(schema, node, path);
      default:
        return this.#scalar(schema, node, path);
    }
  }

  #absent(schema: FieldSchema, node: SourceNode | undefined, path: string): unknown {
    if (schema.default !== undefined) return schema.default;
    if (schema.kind === 'section') return this.#sectionFrom(schema, [], node, path);
    this.#problem(path, node?.line ?? null, 'must be given');
    return null;
  }

  #section(schema: FieldSchema, node: SourceNode, path: string): unknown {
    const inner = this.#unfold(node, path);
    const { shorthand } = schema;
    if (shorthand !== undefined && inner.kind === 'scalar' && inner.text === shorthand.word) {
      const value = this.#sectionFrom(schema, [{ key: shorthand.key, line: inner.line, node: inner }], inner, path);
      // The key itself is not in the file.
      this.keyLines.delete(join(path, shorthand.key));
      return value;
    }
    if (inner.kind !== 'map') {
      const word = shorthand === undefined ? '' : ` or the word ${shorthand.word}`;
      return this.#wrongKind(path, node, inner, `a group of keys${atRoot(path)}${word}`);
    }
    return this.#sectionFrom(schema, inner.entries, inner, path);
  }

  #sectionFrom(
    schema: FieldSchema,
    entries: readonly SourceEntry[],
    node: SourceNode | undefined,
    path: string,
  ): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    const byName = this.#knownEntries(schema, entries, path);
    for (const [name, child] of Object.entries(schema.properties ?? {})) {
      const entry = byName.get(name);
      const childPath = join(path, name);
      if (entry !== undefined && child.withoutEffect !== undefined && entry.node.kind !== 'null') {
        this.#note(childPath, entry.line, `accepted, without effect: ${child.withoutEffect}`);
      }
      const inPlace = entry && nullInPlace(entry);
      // A missing key of a section that is there is the section's mistake: its line helps to find the place.
      const required = child.default === undefined && child.kind !== 'section' && inPlace === undefined;
      if (required) this.#problem(childPath, node?.line ?? null, 'must be given');
      values[name] = required ? null : this.read(child, inPlace, childPath);
    }
    return values;
  }

  /** Entries by the key's proper name; keys that are unknown, given twice or without effect are reported. */
  #knownEntries(schema: FieldSchema, entries: readonly SourceEntry[], path: string): Map<string, SourceEntry> {
    const byName = new Map<string, SourceEntry>();
    const ignored: SourceEntry[] = [];
    for (const entry of entries) {
      const name = properName(schema, entry.key);
      if (name === null) {
        if (Object.hasOwn(schema.ignored ?? {}, entry.key)) ignored.push(entry);
        else
          this.#problem(join(path, entry.key), entry.line, this.#unknownMessage(schema, entry, join(path, entry.key)));
        continue;
      }
      const before = byName.get(name);
      if (before !== undefined) this.#twice(before, entry, path);
      else {
        byName.set(name, entry);
        this.keyLines.set(join(path, name), entry.line);
      }
    }
    this.#ignored(schema, ignored, path);
    return byName;
  }

  /** Keys of one section that mean nothing here: one note for all of them, by reason. */
  #ignored(schema: FieldSchema, entries: readonly SourceEntry[], path: string): void {
    const [first, ...others] = entries;
    if (first === undefined) return;
    const reason = ({ key }: SourceEntry): string => schema.ignored?.[key] ?? '';
    if (others.length === 0) {
      this.#note(join(path, first.key), first.line, `accepted, without effect: ${reason(first)}`);
      return;
    }
    const texts = Array.from(
      Map.groupBy(entries, reason),
      ([why, keys]) => `${keys.map(({ key, line }) => `${key} (line ${line})`).join(', ')}: ${why}`,
    );
    this.#note(path, first.line, `accepted, without effect: ${texts.join('; ')}`);
  }

  #unknownMessage(schema: FieldSchema, entry: SourceEntry, fullPath: string): string {
    const retired = retiredKeys.get(fullPath);
    if (retired !== undefined) return `is not a key of this gateway: ${retired}`;
    const dotted = Object.keys(schema.properties ?? {}).find((name) => name.startsWith(`${entry.key}.`));
    if (dotted !== undefined) return `is not known; write the dotted name as one key, such as "${dotted}"`;
    const near = nearest(entry.key, Object.keys(schema.properties ?? {}));
    if (near !== null && isSlip(entry.key, near)) return `is not known; did you mean "${near}"?`;
    const homes = sectionsWith(entry.key, this.#whole);
    if (homes.length > 0) return `is not known here; it belongs ${homes.map(belongs).join(' or ')}`;
    const ignored = nearest(entry.key, Object.keys(schema.ignored ?? {}));
    if (ignored !== null && isSlip(entry.key, ignored)) return `is not known; did you mean "${ignored}"?`;
    return `is not known; the nearest known key is "${near}"`;
  }

  #twice(before: SourceEntry, entry: SourceEntry, path: string): void {
    const message =
      before.key === entry.key
        ? `is given twice; the first is in line ${before.line}`
        : `is another name of "${before.key}" in line ${before.line}: give one of them`;
    this.#problem(join(path, entry.key), entry.line, message);
  }

  #map(schema: FieldSchema, node: SourceNode, path: string): unknown {
    const inner = this.#unfold(node, path);
    if (inner.kind !== 'map') return this.#wrongKind(path, node, inner, 'a group of keys');
    // Free keys: no prototype, so that a name such as "constructor" finds nothing that the file does not hold.
    const values: Record<string, unknown> = Object.create(null);
    const entriesByKey = new Map<string, SourceEntry>();
    for (const entry of inner.entries) {
      const before = entriesByKey.get(entry.key);
      if (before !== undefined) {
        this.#twice(before, entry, path);
        continue;
      }
      entriesByKey.set(entry.key, entry);
      this.keyLines.set(join(path, entry.key), entry.line);
      values[entry.key] = this.read(itemsOf(schema), nullInPlace(entry), join(path, entry.key));
    }
    return values;
  }

  #list(schema: FieldSchema, node: SourceNode, path: string): unknown {
    const inner = this.#unfold(node, path);
    if (inner.kind !== 'list') return this.#wrongKind(path, node, inner, 'a list such as [a, b]');
    const before = this.problems.length;
    const items = inner.items.map((item, index) => this.read(itemsOf(schema), item, `${path}[${index}]`));
    return this.problems.length === before ? items : undefined;
  }

  #scalar(schema: FieldSchema, node: SourceNode, path: string): unknown {
    if (node.kind !== 'scalar') return this.#wrongKind(path, node, node, nounOfKind(schema));
    const result = readScalar(schema, node.text);
    if ('value' in result) {
      if (result.note !== undefined) this.#note(path, node.line, result.note);
      return schema.followed === true ? new SecretText(node.text, node.reference) : result.value;
    }
    this.#problem(path, node.line, withoutSecret(result.wrong, node));
    return undefined;
  }

  #wrongKind(path: string, { line }: SourceNode, inner: SourceNode, wanted: string): undefined {
    if (inner.kind !== 'unreadable') this.#problem(path, line, `must be ${wanted}, not ${nounOf(inner)}`);
  }

  /** A reference standing for a whole list or group of keys is read as YAML of its own. */
  #unfold(node: SourceNode, path: string): SourceNode {
    if (node.kind !== 'scalar' || !node.wholly) return node;
    const inner = readValue(node);
    if (inner.problems.length === 0) return inner.root;
    this.#problem(path, node.line, `the value of ${node.reference} is not valid YAML`);
    return { kind: 'unreadable', line: node.line };
  }

  #problem(field: string, line: number | null, message: string): void {
    this.problems.push({ field, line, message });
  }

  #note(field: string, line: number, message: string): void {
    this.notes.push({ field, line, message });
  }
}

function standIn(schema: FieldSchema): unknown {
  if (schema.kind !== 'section' || schema.default === null) return schema.default ?? null;
  return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, child]) => [name, standIn(child)]));
}

function nullInPlace(entry: SourceEntry): SourceNode {
  return entry.node.kind === 'null' ? { kind: 'null', line: entry.line } : entry.node;
}

function properName(schema: FieldSchema, key: string): string | null {
  const properties = schema.properties ?? {};
  if (Object.hasOwn(properties, key)) return key;
  for (const [name, child] of Object.entries(properties)) if (child.aliases?.includes(key)) return name;
  return null;
}

function itemsOf(schema: FieldSchema): FieldSchema {
  if (schema.items === undefined) throw new Error(`a ${schema.kind} without schema of its items`);
  return schema.items;
}

function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

function atRoot(path: string): string {
  return path === '' ? ' (key: value, one a line)' : '';
}

function belongs(path: string): string {
  return path === '' ? 'at the top of the file' : `under "${path}"`;
}

function nounOf(node: SourceNode): string {
  const nouns = {
    scalar: 'a single value',
    null: 'nothing',
    unreadable: 'nothing',
    list: 'a list',
    map: 'a group of keys',
  };
  return nouns[node.kind];
}

function nounOfKind(schema: FieldSchema): string {
  const nouns: Partial<Record<FieldSchema['kind'], string>> = {
    text: 'text',
    flag: 'true or false',
    integer: 'a whole number',
    number: 'a number',
    duration: 'a duration such as 30s',
    size: 'a size such as 16MB',
    choice: `one of ${(schema.enum ?? []).join(', ')}`,
  };
  return nouns[schema.kind] ?? 'a single value';
}

/** A value from the environment may be a secret in the wrong place: messages show the reference instead. */
function withoutSecret(message: string, node: SourceScalar): string {
  if (node.reference === null) return message;
  const safeMessage = message.replaceAll(`"${node.text}"`, node.reference);
  return node.text.length < 4 ? safeMessage : safeMessage.replaceAll(node.text, node.reference);
}
