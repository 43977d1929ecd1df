import { readFile } from 'node:fs/promises';
import type { Secret } from '../model/secret.ts';
import { withoutLineEnd } from './environment.ts';
import { type FieldSchema, isSlip, nearest, sectionsWith } from './fields.ts';
import { MASK } from './logger.ts';
import { readScalar } from './scalar.ts';
import {
  type ConfigNote,
  type ConfigProblem,
  readValue,
  type SourceEntry,
  type SourceNode,
  type SourceScalar,
} from './source.ts';

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
    if (node === undefined || node.kind === 'null') {
      if (schema.default !== undefined) return schema.default;
      if (schema.kind === 'section') return this.#sectionOf(schema, [], node, path);
      this.#problem(path, node?.line ?? null, 'must be given');
      return null;
    }
    if (node.kind === 'unreadable') return standIn(schema);
    return this.#present(schema, node, path) ?? standIn(schema);
  }

  /** The value of a node; undefined if it has mistakes. */
  #present(schema: FieldSchema, node: SourceNode, path: string): unknown {
    if (schema.kind !== 'section' && schema.kind !== 'map' && schema.kind !== 'list') {
      return this.#scalar(schema, node, path);
    }
    const inner = this.#unfold(node, path);
    if (inner.kind === 'list' && schema.kind === 'list') {
      const before = this.problems.length;
      const items = inner.items.map((item, index) => this.read(itemsOf(schema), item, `${path}[${index}]`));
      return this.problems.length === before ? items : undefined;
    }
    if (inner.kind === 'map' && schema.kind === 'map') return this.#mapOf(schema, inner.entries, path);
    if (inner.kind === 'map' && schema.kind === 'section') return this.#sectionOf(schema, inner.entries, inner, path);
    const { shorthand } = schema;
    if (shorthand !== undefined && inner.kind === 'scalar' && inner.text === shorthand.word) {
      const value = this.#sectionOf(schema, [{ key: shorthand.key, line: inner.line, node: inner }], inner, path);
      // The key itself is not in the file.
      this.keyLines.delete(join(path, shorthand.key));
      return value;
    }
    const form = path === '' ? ' (key: value, one a line)' : '';
    const word = shorthand === undefined ? '' : ` or the word ${shorthand.word}`;
    const wanted = schema.kind === 'list' ? 'a list such as [a, b]' : `a group of keys${form}${word}`;
    return this.#wrongKind(path, node.line, inner, wanted);
  }

  #sectionOf(
    schema: FieldSchema,
    entries: readonly SourceEntry[],
    node: SourceNode | undefined,
    path: string,
  ): Record<string, unknown> {
    const ignored = entries.filter(({ key }) => isIgnored(schema, key));
    const byName = this.#entriesByName(schema, entries, path);
    this.#noteIgnored(schema, ignored, path);
    const values: Record<string, unknown> = {};
    for (const [name, child] of Object.entries(schema.properties ?? {})) {
      const entry = byName.get(name);
      const childPath = join(path, name);
      if (entry !== undefined && child.withoutEffect !== undefined && entry.node.kind !== 'null') {
        this.#note(childPath, entry.line, `accepted, without effect: ${child.withoutEffect}`);
      }
      // A missing key of a section that is there is the section's mistake: its line helps to find the place.
      const isMissing = child.default === undefined && child.kind !== 'section' && entry === undefined;
      if (isMissing) this.#problem(childPath, node?.line ?? null, 'must be given');
      values[name] = isMissing ? null : this.read(child, entry && nullInPlace(entry), childPath);
    }
    return values;
  }

  #mapOf(schema: FieldSchema, entries: readonly SourceEntry[], path: string): Record<string, unknown> {
    // Free keys: no prototype, so that a name such as "constructor" finds nothing that the file does not hold.
    const values: Record<string, unknown> = Object.create(null);
    for (const [name, entry] of this.#entriesByName(schema, entries, path)) {
      values[name] = this.read(itemsOf(schema), nullInPlace(entry), join(path, name));
    }
    return values;
  }

  /** Entries by the key's proper name; keys that are unknown or given twice are reported. */
  #entriesByName(schema: FieldSchema, entries: readonly SourceEntry[], path: string): ReadonlyMap<string, SourceEntry> {
    const byName = new Map<string, SourceEntry>();
    for (const entry of entries) {
      const name = schema.kind === 'map' ? entry.key : properName(schema, entry.key);
      const before = name === undefined ? undefined : byName.get(name);
      if (before !== undefined) {
        const message =
          before.key === entry.key
            ? `is given twice; the first is in line ${before.line}`
            : `is another name of "${before.key}" in line ${before.line}: give one of them`;
        this.#problem(join(path, entry.key), entry.line, message);
      } else if (name !== undefined) {
        byName.set(name, entry);
        this.keyLines.set(join(path, name), entry.line);
      } else if (!isIgnored(schema, entry.key)) {
        const fullPath = join(path, entry.key);
        this.#problem(fullPath, entry.line, this.#unknownMessage(schema, entry.key, fullPath));
      }
    }
    return byName;
  }

  /** Keys of one section that mean nothing here: one note for all of them, by reason. */
  #noteIgnored(schema: FieldSchema, entries: readonly SourceEntry[], path: string): void {
    const [first] = entries;
    if (first === undefined) return;
    const keysByReason = Map.groupBy(entries, ({ key }) => schema.ignored?.[key] ?? '');
    const texts = Array.from(
      keysByReason,
      ([why, keys]) => `${keys.map(({ key, line }) => `${key} (line ${line})`).join(', ')}: ${why}`,
    );
    const isOne = entries.length === 1;
    const reasons = isOne ? (schema.ignored?.[first.key] ?? '') : texts.join('; ');
    this.#note(isOne ? join(path, first.key) : path, first.line, `accepted, without effect: ${reasons}`);
  }

  #unknownMessage(schema: FieldSchema, key: string, fullPath: string): string {
    const retired = retiredKeys.get(fullPath);
    if (retired !== undefined) return `is not a key of this gateway: ${retired}`;
    const names = Object.keys(schema.properties ?? {});
    const dotted = names.find((name) => name.startsWith(`${key}.`));
    if (dotted !== undefined) return `is not known; write the dotted name as one key, such as "${dotted}"`;
    const near = nearest(key, names);
    if (near !== null && isSlip(key, near)) return `is not known; did you mean "${near}"?`;
    const homes = sectionsWith(key, this.#whole).map((home) =>
      home === '' ? 'at the top of the file' : `under "${home}"`,
    );
    if (homes.length > 0) return `is not known here; it belongs ${homes.join(' or ')}`;
    const ignored = nearest(key, Object.keys(schema.ignored ?? {}));
    if (ignored !== null && isSlip(key, ignored)) return `is not known; did you mean "${ignored}"?`;
    return `is not known; the nearest known key is "${near}"`;
  }

  #scalar(schema: FieldSchema, node: SourceNode, path: string): unknown {
    if (node.kind !== 'scalar') return this.#wrongKind(path, node.line, node, nounOf(schema));
    const result = readScalar(schema, node.text);
    if ('wrong' in result) return this.#problem(path, node.line, withoutSecret(result.wrong, node));
    if (result.note !== undefined) this.#note(path, node.line, result.note);
    return schema.followed === true ? new SecretText(node.text, node.reference) : result.value;
  }

  #wrongKind(path: string, line: number, inner: SourceNode, wanted: string): undefined {
    if (inner.kind !== 'unreadable') this.#problem(path, line, `must be ${wanted}, not ${nodeNouns[inner.kind]}`);
  }

  /** A reference standing for a whole list or group of keys is read as YAML of its own. */
  #unfold(node: SourceNode, path: string): SourceNode {
    if (node.kind !== 'scalar' || !node.wholly) return node;
    const inner = readValue(node);
    if (inner.problems.length === 0) return inner.root;
    this.#problem(path, node.line, `the value of ${node.reference} is not valid YAML`);
    return { kind: 'unreadable', line: node.line };
  }

  #problem(field: string, line: number | null, message: string): undefined {
    this.problems.push({ field, line, message });
  }

  #note(field: string, line: number, message: string): void {
    this.notes.push({ field, line, message });
  }
}

const nodeNouns = { scalar: 'a single value', null: 'nothing', list: 'a list', map: 'a group of keys' };

function nounOf(schema: FieldSchema): string {
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

function standIn(schema: FieldSchema): unknown {
  if (schema.kind !== 'section' || schema.default === null) return schema.default ?? null;
  return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, child]) => [name, standIn(child)]));
}

function nullInPlace(entry: SourceEntry): SourceNode {
  return entry.node.kind === 'null' ? { kind: 'null', line: entry.line } : entry.node;
}

function isIgnored(schema: FieldSchema, key: string): boolean {
  return Object.hasOwn(schema.ignored ?? {}, key) && properName(schema, key) === undefined;
}

function properName({ properties = {} }: FieldSchema, key: string): string | undefined {
  if (Object.hasOwn(properties, key)) return key;
  return Object.keys(properties).find((name) => properties[name]?.aliases?.includes(key));
}

function itemsOf(schema: FieldSchema): FieldSchema {
  if (schema.items === undefined) throw new Error(`a ${schema.kind} without schema of its items`);
  return schema.items;
}

function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

/** A value from the environment may be a secret in the wrong place: messages show the reference instead. */
function withoutSecret(message: string, node: SourceScalar): string {
  if (node.reference === null) return message;
  const safeMessage = message.replaceAll(`"${node.text}"`, node.reference);
  return node.text.length < 4 ? safeMessage : safeMessage.replaceAll(node.text, node.reference);
}

/** A secret of the configuration. It follows its file if the value is `${FILE:PATH}` (docs/secrets.md). */
export class SecretText implements Secret {
  /** The value as written in the configuration, by which configurations are compared. */
  readonly written: string;
  readonly #path: string | null;
  #text: string;

  /** @param reference the value as written if it contains references; null for a literal text */
  constructor(text: string, reference: string | null) {
    this.#text = text;
    this.#path = /^\$\{FILE:([^}]*)\}$/.exec(reference ?? '')?.[1] ?? null;
    this.written = this.#path === null ? text : (reference ?? '');
  }

  get text(): string {
    return this.#text;
  }

  async read(): Promise<string> {
    if (this.#path !== null) {
      this.#text = await readFile(this.#path, 'utf8').then(withoutLineEnd, () => this.#text);
    }
    return this.#text;
  }

  toJSON(): string {
    return MASK;
  }
}

/** Keys of older documents and releases of the reference that it rejects itself, and what to write instead. */
export const retiredKeys: ReadonlyMap<string, string> = new Map([
  ['monitor.connectTimeoutSeconds', 'write monitor.timeout, e.g. 10s'],
  ['monitor.requestTimeoutSeconds', 'write monitor.timeout, e.g. 10s'],
  ['monitor.idleTimeoutSeconds', 'write monitor.timeout, e.g. 10s'],
  ['monitor.taskDelaySeconds', 'write monitor.taskDelay, e.g. 1m'],
  ['dataStore.queryHistoryHours', 'write dataStore.queryHistoryHoursRetention'],
  ['httpConnectionPool', 'write serverConfig "proxy.http-client.max-connections-per-server" and its siblings'],
  ['requestRouter', 'write serverConfig "http-server.http.port"'],
  ['server.applicationConnectors', 'write serverConfig "http-server.http.port"'],
  ['server.adminConnectors', 'write server.adminPort'],
  ['clusterStatsConfiguration.useApi', 'write clusterStatsConfiguration.monitorType, e.g. UI_API or INFO_API'],
  ['cookiePaths', 'write gatewayCookieConfiguration and oauth2GatewayCookieConfiguration'],
  ['notifier', 'there are no notifications; watch /metrics'],
]);
