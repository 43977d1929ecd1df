import { randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { chmod, open, readdir, readFile, readlink, realpath, rename, stat, unlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { load } from 'js-yaml';
import { type Document, isMap, isScalar, Lexer, LineCounter, parseDocument, visit } from 'yaml';
import { resourceKinds } from '../../../kinds/registry.ts';
import type { KindRegistry } from '../../../kinds/resourceKind.ts';
import { GatewayError } from '../../../model/errors.ts';
import { isRecord } from '../../../model/record.ts';
import { API_GROUP, apiVersionOf, keyText, type ResourceKey } from '../../../model/resource.ts';

export interface FileStamp {
  /** Inode, size and times: changes with every writing and with every exchange of the file. */
  readonly signature: string;
  /** Time of the last change of the file's inode in microseconds since 1970: later than every earlier content's. */
  readonly changedAtMicros: bigint;
  readonly createdAtMs: number;
}

export interface FileText {
  readonly stamp: FileStamp;
  /** Null when the file is not UTF-8 text or too large; `error` states so. */
  readonly text: string | null;
  readonly error: string | null;
}

/** Largest manifest file that is read, in bytes. */
const MAX_FILE_SIZE = 16 * 1024 * 1024;

const MAX_FOLDERS = 1_000;
/** Ends of the names of manifests. */
export const extensions: ReadonlySet<string> = new Set(['.yaml', '.yml', '.json']);

/**
 * Lists the manifest files of a directory and of those below it. Names that begin with a dot are left out: editors' and
 * our own temporary files, and the `..data` folders of mounted ConfigMaps, whose links in addition to them are
 * followed.
 * @throws the error of the file system when the directory itself cannot be read
 */
export async function listManifestFiles(root: string): Promise<ReadonlyMap<string, FileStamp>> {
  const files = new Map<string, FileStamp>();
  const pending = [root];
  let count = 0;
  for (let directory = pending.shift(); directory !== undefined; directory = pending.shift()) {
    const names = await (directory === root ? readdir(root) : readdir(directory).catch(nullIfGone));
    if (names === null) continue;
    count += 1;
    for (const name of names.sort()) {
      if (name.startsWith('.')) continue;
      const path = join(directory, name);
      // A file that goes between listing and looking; a link to nowhere.
      const stats = await stat(path, { bigint: true }).catch(nullIfGone);
      if (stats === null) continue;
      if (stats.isDirectory()) {
        if (count + pending.length < MAX_FOLDERS) pending.push(path);
      } else if (stats.isFile() && extensions.has(extname(name))) files.set(path, stampOf(stats));
    }
  }
  return files;
}

/** Stamps of those paths that are files. */
export async function manifestStamps(paths: Iterable<string>): Promise<ReadonlyMap<string, FileStamp>> {
  const files = new Map<string, FileStamp>();
  for (const path of paths) {
    const stats = await stat(path, { bigint: true }).catch(nullIfGone);
    if (stats?.isFile()) files.set(path, stampOf(stats));
  }
  return files;
}

/** Stamp of a file as it is now; null when it is not there. */
export async function fileStamp(path: string): Promise<FileStamp | null> {
  const stats = await stat(path, { bigint: true }).catch(nullIfGone);
  return stats === null ? null : stampOf(stats);
}

/**
 * Reads a file; null when it is not there, or when it changed while it was being read.
 */
export async function readManifestFile(path: string): Promise<FileText | null> {
  const handle = await open(path, 'r').catch(nullIfGone);
  if (handle === null) return null;
  try {
    const before = await handle.stat({ bigint: true });
    const stamp = stampOf(before);
    if (before.size > MAX_FILE_SIZE) {
      return { stamp, text: null, error: `has more than ${MAX_FILE_SIZE} bytes; split it into several files` };
    }
    const bytes = await handle.readFile();
    if (stampOf(await handle.stat({ bigint: true })).signature !== stamp.signature) return null;
    try {
      // The byte order mark stays, so that writing releases what was read.
      return { stamp, text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), error: null };
    } catch {
      return { stamp, text: null, error: 'is not UTF-8 text' };
    }
  } finally {
    await handle.close();
  }
}

function stampOf({ dev, ino, size, mtimeNs, ctimeNs, birthtimeMs }: BigIntStats): FileStamp {
  return {
    signature: `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`,
    changedAtMicros: ctimeNs / 1_000n,
    createdAtMs: Number(birthtimeMs),
  };
}

/** Null for the error of a file or folder that is not there. */
function nullIfGone(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
  throw error;
}

/** Number of times that a write starts again as the file changed under it. */
const ATTEMPTS = 5;
const LOCK_TIMEOUT_MS = 5_000;

/**
 * Makes a file's new text from its present one (null: there is no file). Null as the response removes the file; the
 * present text leaves it as it is. May throw to give up.
 */
type TextChange = (present: string | null) => string | null | Promise<string | null>;

/**
 * Changes a manifest file: reads it, makes the new text, writes that beside it and renames it, under the directory's
 * lock. When the file is changed meanwhile, by an editor that knows no lock, it starts again.
 * @throws GatewayError EG_READ_ONLY naming the file
 */
export async function changeManifestFile(root: string, path: string, change: TextChange): Promise<void> {
  try {
    await withFileLock(join(root, '.engine-gateway.lock'), LOCK_TIMEOUT_MS, async () => {
      const target = await writablePath(path);
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        if (await tryChange(target, change)) return;
      }
      throw new GatewayError('EG_CONFLICT', `${path} is being written by something else; try again`);
    });
  } catch (error) {
    throw readOnly(error) ? new GatewayError('EG_READ_ONLY', `${path} cannot be written: ${reason(error)}`) : error;
  }
}

async function tryChange(path: string, change: TextChange): Promise<boolean> {
  const read = await readManifestFile(path);
  if (read === null && (await fileStamp(path)) !== null) return false;
  if (read !== null && read.text === null) throw new GatewayError('EG_IMPOSSIBLE', `${path} ${read.error ?? ''}`);
  const before = read?.text ?? null;
  const after = await change(before);
  if (after === before) return true;
  const unchanged = async (): Promise<boolean> => (await fileStamp(path))?.signature === read?.stamp.signature;
  if (after === null) {
    if (!(await unchanged())) return false;
    await unlink(path);
  } else {
    const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}.tmp`);
    try {
      await writeDurably(temporary, after);
      if (read !== null) await chmod(temporary, (await stat(path)).mode & 0o7777);
      if (!(await unchanged())) return false;
      await rename(temporary, path);
    } finally {
      await unlink(temporary).catch(() => undefined);
    }
  }
  await syncDirectory(dirname(path));
  return true;
}

/**
 * The file that a path means; a file of a mounted ConfigMap is rejected, as the next swap of its link would undo the
 * change.
 */
async function writablePath(path: string): Promise<string> {
  const link = await readlink(path).catch(() => null);
  if (link === null) return path;
  if (link.split('/').includes('..data')) {
    throw new GatewayError('EG_READ_ONLY', `${path} cannot be written: it belongs to a mounted ConfigMap or Secret`);
  }
  return await realpath(path);
}

async function writeDurably(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r').catch(() => null);
  if (handle === null) return;
  try {
    // Some network file systems cannot; the rename is as durable as they make it.
    await handle.sync().catch(() => undefined);
  } finally {
    await handle.close();
  }
}

/**
 * A path for a new resource's file that is not in use.
 * @param notice called with each path that is in use, and the file's stamp: another replica may just have written it
 */
export async function newManifestPath(
  root: string,
  { kind, name }: { readonly kind: string; readonly name: string },
  notice: (path: string, stamp: FileStamp) => Promise<void>,
): Promise<string> {
  const stem = `${kind.toLowerCase()}-${name}`;
  for (let attempt = 1; ; attempt += 1) {
    const path = join(root, attempt === 1 ? `${stem}.yaml` : `${stem}-${attempt}.yaml`);
    const stamp = await fileStamp(path);
    if (stamp === null) return path;
    await notice(path, stamp);
  }
}

function readOnly(error: unknown): boolean {
  return ['EROFS', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function reason(error: unknown): string {
  return (error as NodeJS.ErrnoException).code === 'EROFS' ? 'the file system is read-only' : 'permission denied';
}

/** After this time without a sign of life the holder of a lock is taken for dead. Milliseconds. */
const STALE_MS = 10_000;
const LOCK_RETRY_MS = 20;

/**
 * Runs work while holding a lock file, so that replicas on one file system (also a shared one) write one after another.
 * The file is made exclusively, its time renewed while it is held, and one that was not renewed for 10 s is removed.
 * @param path path of the lock file
 * @param timeoutMs how long to wait for the lock
 * @throws Error when the time is over, or that of the file system when no file can be made there
 */
async function withFileLock<T>(path: string, timeoutMs: number, work: () => Promise<T>): Promise<T> {
  const token = `${hostname()} ${process.pid} ${randomUUID()}\n`;
  const deadline = performance.now() + timeoutMs;
  while (!(await take(path, token))) {
    await removeStale(path);
    if (performance.now() > deadline) throw new Error(`${path} is held by another process`);
    await sleep(LOCK_RETRY_MS);
  }
  const renewal = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => undefined);
  }, STALE_MS / 4);
  try {
    return await work();
  } finally {
    clearInterval(renewal);
    if ((await readFile(path, 'utf8').catch(() => null)) === token) await unlink(path).catch(() => undefined);
  }
}

async function take(path: string, token: string): Promise<boolean> {
  try {
    const handle = await open(path, 'wx');
    try {
      await handle.writeFile(token);
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function removeStale(path: string): Promise<void> {
  const stats = await stat(path).catch(() => null);
  if (stats !== null && Date.now() - stats.mtimeMs > STALE_MS) await unlink(path).catch(() => undefined);
}

/** A document of a manifest file as text: its place, byte for byte. */
export interface DocumentText {
  /** Counted from 1. */
  readonly number: number;
  /** Line of its first character, counted from 1. */
  readonly line: number;
  /** Its characters in the file: `text.slice(start, end)`, the `---` that begins it included. */
  readonly start: number;
  readonly end: number;
}

export interface Manifest {
  readonly key: ResourceKey;
  /** The key by `keyText`. */
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** RFC 3339, where the manifest has one. */
  readonly creationTimestamp: string | null;
  readonly spec: Readonly<Record<string, unknown>>;
}

export type ManifestDocument =
  /** Nothing in it, or a resource of another API group: not ours. */
  | ({ readonly kind: 'other' } & DocumentText)
  | ({ readonly kind: 'resource'; readonly manifest: Manifest } & DocumentText)
  /** `key` is what it seems to be about, where that can be seen. */
  | ({
      readonly kind: 'broken';
      readonly message: string;
      readonly problemLine: number;
      readonly key: ResourceKey | null;
    } & DocumentText);

/** Characters of a document; as a resource in Kubernetes may have. */
const MAX_DOCUMENT_LENGTH = 1_048_576;
/** Words and signs of a document: a line `name: value` has three. */
const MAX_DOCUMENT_TOKENS = 100_000;
const MAX_ALIASES = 100;
const MAX_DEPTH = 100;
/** Shorter documents are read in a few milliseconds, whatever they contain. */
const SHORT_DOCUMENT_LENGTH = 4096;

const HYPHEN = 0x2d;
const FULL_STOP = 0x2e;
const SPACE = 0x20;
const ASTERISK = 0x2a;

/**
 * Splits a file into its documents. A `---` at the start of a line begins one wherever it stands (YAML 1.2, 9.1.2:
 * such a line is forbidden inside of scalars), so that an unclosed quote in one document cannot swallow the next.
 */
export function splitDocuments(text: string): readonly DocumentText[] {
  const starts: { readonly start: number; readonly line: number }[] = [{ start: 0, line: 1 }];
  let line = 1;
  // Comments and directives before a `---` belong to the document that it begins.
  let prefix = true;
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; line += 1) {
    const newline = text.indexOf('\n', at);
    const next = newline < 0 ? text.length : newline + 1;
    const first = text.charCodeAt(at);
    const isMark = first === HYPHEN || first === FULL_STOP;
    // Of thousands of documents most lines are none of these.
    const content = isMark || prefix ? text.slice(at, next) : '';
    if (isMark && /^---(\s|$)/.test(content)) {
      if (!prefix) starts.push({ start: at, line });
      prefix = false;
    } else if (isMark && /^\.\.\.(\s|$)/.test(content)) {
      if (next < text.length) starts.push({ start: next, line: line + 1 });
      prefix = true;
    } else if (prefix && !/^(\s*(#|$)|%)/.test(content)) prefix = false;
    at = next;
  }
  return starts.map(({ start, line: firstLine }, index) => ({
    number: index + 1,
    line: firstLine,
    start,
    end: starts[index + 1]?.start ?? text.length,
  }));
}

export interface ReadFile {
  readonly text: string;
  readonly documents: readonly ManifestDocument[];
}

/**
 * Reads all documents of a manifest file; each on its own, so that a broken one affects only itself.
 * @param defaultNamespace namespace of resources that name none
 * @param before the file as it was read before: its documents whose text is the same are not read again, and keep their
 *   manifest objects
 */
export function* manifestsIn(
  text: string,
  defaultNamespace: string,
  before: ReadFile | null = null,
  kinds = resourceKinds,
): Generator<ManifestDocument> {
  const byText = new Map(before?.documents.map((each) => [before.text.slice(each.start, each.end), each]));
  for (const place of splitDocuments(text)) {
    const own = text.slice(place.start, place.end);
    const same = byText.get(own);
    // A broken one names a line of its file, which may be another one now.
    const isKnown = same !== undefined && same.kind !== 'broken';
    yield isKnown ? { ...same, ...place } : readDocument(own, place, defaultNamespace, kinds);
  }
}

function readDocument(
  text: string,
  place: DocumentText,
  defaultNamespace: string,
  kinds: KindRegistry,
): ManifestDocument {
  const lines = new LineCounter();
  const lineOf = (offset: number): number => place.line + lines.linePos(offset).line - 1;
  const guess = (): ResourceKey | null => guessKey(text.slice(0, 65_536), defaultNamespace, kinds);
  const broken = (message: string, problemLine: number): ManifestDocument => ({
    ...place,
    kind: 'broken',
    message,
    problemLine,
    key: guess(),
  });
  const excess = excessOf(text);
  if (excess !== null) return broken(excess, place.line);
  const manifest = quickManifest(text, defaultNamespace, kinds);
  if (manifest !== null) return { ...place, kind: 'resource', manifest };
  // The library compares each key with all others of its mapping.
  const document = parseDocument(text, {
    lineCounter: lines,
    logLevel: 'silent',
    prettyErrors: false,
    uniqueKeys: false,
  });
  const error = document.errors[0];
  if (error !== undefined) return broken(firstLine(error.message), lineOf(error.pos[0]));
  const contentLine = document.contents?.range == null ? place.line : lineOf(document.contents.range[0]);
  let value: unknown;
  try {
    const repeated = repeatedKey(document);
    if (repeated !== null) return broken('Map keys must be unique', lineOf(repeated));
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (cause) {
    return broken(firstLine(String((cause as Error).message)), contentLine);
  }
  if (value === null || value === undefined) return { ...place, kind: 'other' };
  if (!isRecord(value)) return broken('is no mapping with apiVersion, kind, metadata and spec', contentLine);
  const lineOfField = (...path: string[]): number => {
    for (let length = path.length; length > 0; length -= 1) {
      const parent = length === 1 ? document.contents : document.getIn(path.slice(0, length - 1), true);
      const pair = isMap(parent) ? parent.items.find((item) => String(item.key) === path[length - 1]) : undefined;
      const range = (pair?.key as { range?: readonly [number, number, number] } | undefined)?.range;
      if (range != null) return lineOf(range[0]);
    }
    return contentLine;
  };
  const read = manifestOf(value, defaultNamespace, kinds);
  if (read === null) return { ...place, kind: 'other' };
  if ('message' in read) return broken(read.message, lineOfField(...read.path));
  return { ...place, kind: 'resource', manifest: read };
}

/**
 * Reads a document without mistakes, aliases and directives by the quicker library (docs/decisions/0008-yaml-library.md).
 * @returns null for any other document
 */
function quickManifest(text: string, defaultNamespace: string, kinds: KindRegistry): Manifest | null {
  try {
    const value = /^%/m.test(text) ? null : load(text, { maxAliases: 0, maxDepth: MAX_DEPTH });
    const manifest = isRecord(value) ? manifestOf(value, defaultNamespace, kinds) : null;
    return manifest === null || 'message' in manifest ? null : manifest;
  } catch {
    return null;
  }
}

/** Returns which limit a document exceeds, and what to do; null for none. Stops at the limit. */
function excessOf(text: string): string | null {
  if (text.length <= SHORT_DOCUMENT_LENGTH) return null;
  const split = 'split it into several resources';
  if (text.length > MAX_DOCUMENT_LENGTH) return `has more than ${MAX_DOCUMENT_LENGTH} characters; ${split}`;
  let tokens = 0;
  let aliases = 0;
  let depth = 0;
  for (const token of new Lexer().lex(text)) {
    const first = token.charCodeAt(0);
    // White space, and marks of the lexer itself.
    if (first <= SPACE) continue;
    tokens += 1;
    if (first === ASTERISK) aliases += 1;
    else if (token === '[' || token === '{') depth += 1;
    else if (token === ']' || token === '}') depth -= 1;
    if (tokens > MAX_DOCUMENT_TOKENS) return `has more than ${MAX_DOCUMENT_TOKENS} words and signs; ${split}`;
    if (aliases > MAX_ALIASES) return `has more than ${MAX_ALIASES} aliases; write their values in full`;
    if (depth > MAX_DEPTH) return `has more than ${MAX_DEPTH} levels of brackets`;
  }
  return null;
}

/** Returns the position of the first key that its mapping has already; null for none. */
function repeatedKey(document: Document): number | null {
  let position: number | null = null;
  visit(document, {
    Map(_, { items }) {
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        if (keys.has(key.value)) {
          position = key.range?.[0] ?? 0;
          return visit.BREAK;
        }
        keys.add(key.value);
      }
      return undefined;
    },
  });
  return position;
}

interface Mistake {
  readonly path: readonly string[];
  readonly message: string;
}

/** The manifest of a document of ours; null for other groups. */
function manifestOf(
  value: Readonly<Record<string, unknown>>,
  defaultNamespace: string,
  kinds: KindRegistry,
): Manifest | Mistake | null {
  const { apiVersion, kind, metadata, spec } = value;
  if (kind === 'List' && apiVersion === 'v1') {
    return { path: ['kind'], message: 'kind List is not read; write its items as documents of their own' };
  }
  if (typeof apiVersion !== 'string') return { path: ['apiVersion'], message: 'apiVersion is missing' };
  if (apiVersion.split('/')[0] !== API_GROUP) return null;
  if (typeof kind !== 'string' || kinds.find(kind) === null) {
    return { path: ['kind'], message: `kind must be ${kinds.names.join(' or ')}, not ${String(kind)}` };
  }
  if (apiVersion !== apiVersionOf(kind)) {
    return { path: ['apiVersion'], message: `apiVersion must be ${apiVersionOf(kind)}, not ${apiVersion}` };
  }
  if (!isRecord(metadata)) return { path: ['metadata'], message: 'metadata with a name is missing' };
  const name = metadata.name;
  if (typeof name !== 'string' || !isSubdomain(name, 253)) {
    return {
      path: ['metadata', 'name'],
      message:
        'metadata.name must be a Kubernetes name (lower-case letters, digits, - and .); a registry name of another form goes into spec.name',
    };
  }
  const namespace = kinds.of(kind).isClusterScoped ? '' : (metadata.namespace ?? defaultNamespace);
  if (typeof namespace !== 'string' || (namespace !== '' && !isSubdomain(namespace, 63))) {
    return { path: ['metadata', 'namespace'], message: 'metadata.namespace must be a Kubernetes namespace' };
  }
  for (const field of ['labels', 'annotations'] as const) {
    const wrong = textMapMistake(metadata[field]);
    if (wrong !== null) return { path: ['metadata', field], message: `metadata.${field}${wrong}` };
  }
  if (spec !== undefined && spec !== null && !isRecord(spec))
    return { path: ['spec'], message: 'spec must be a mapping' };
  return {
    key: { kind, namespace, name },
    id: keyText({ kind, namespace, name }),
    labels: (metadata.labels ?? {}) as Readonly<Record<string, string>>,
    annotations: (metadata.annotations ?? {}) as Readonly<Record<string, string>>,
    creationTimestamp: timestamp(metadata.creationTimestamp),
    spec: spec ?? {},
  };
}

function textMapMistake(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (!isRecord(value)) return ' must be a mapping of texts';
  const wrong = Object.entries(value).find(([, text]) => typeof text !== 'string');
  return wrong === undefined ? null : `.${wrong[0]} must be a text; put it in quotes`;
}

function timestamp(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  const time = Date.parse(value);
  return Number.isNaN(time) ? null : new Date(time).toISOString();
}

/** Probable key of an unreadable document, from the lines that name kind, name and namespace. */
function guessKey(text: string, defaultNamespace: string, kinds: KindRegistry): ResourceKey | null {
  const kind = new RegExp(`^["']?kind["']?\\s*:\\s*["']?(${kinds.names.join('|')})\\b`, 'm').exec(text)?.[1];
  const metadata = /^["']?metadata["']?\s*:[^\S\n]*\n((?:[^\S\n]+[^\n]*\n|\s*\n)*)/m.exec(text)?.[1] ?? '';
  const indent = /^([^\S\n]+)\S/m.exec(metadata)?.[1] ?? '';
  const field = (name: string): string | undefined =>
    new RegExp(`^${indent}["']?${name}["']?\\s*:\\s*["']?([a-z0-9]([-a-z0-9.]*[a-z0-9])?)["']?\\s*(#.*)?$`, 'm').exec(
      metadata,
    )?.[1];
  const name = field('name');
  if (kind === undefined || name === undefined) return null;
  const isOfCluster = kinds.find(kind)?.isClusterScoped === true;
  return { kind, name, namespace: isOfCluster ? '' : (field('namespace') ?? defaultNamespace) };
}

function isSubdomain(text: string, maxLength: number): boolean {
  return text.length <= maxLength && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(text);
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0]?.replace(/ at line \d+, column \d+:?$/, '') ?? text;
}
