import { createHash } from 'node:crypto';
import type { FSWatcher } from 'node:fs';
import { extname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { watchFolder } from '../../../config/followedFiles.ts';
import type { KindRegistry } from '../../../kinds/resourceKind.ts';
import type { Clock } from '../../../model/clock.ts';
import { GatewayError } from '../../../model/errors.ts';
import {
  apiVersionOf,
  type Kind,
  keyOf,
  keyText,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
} from '../../../model/resource.ts';
import { Turns } from '../../../model/turns.ts';
import type { StoredResource } from '../../../store/store.ts';
import {
  type ApplyOptions,
  type NewResource,
  noSuchResource,
  PolledSource,
  type ResourceChange,
  resourceExists,
  resourceOfStored,
  type SourceProblem,
  VersionConflict,
} from '../source.ts';
import { editDocument, newDocument } from './manifestEdit.ts';
import {
  changeManifestFile,
  extensions,
  type FileStamp,
  fileStamp,
  listManifestFiles,
  type Manifest,
  type ManifestDocument,
  manifestStamps,
  manifestsIn,
  newManifestPath,
  readManifestFile,
} from './manifestFiles.ts';

/** Options of a directory source. */
export interface DirectorySourceOptions {
  readonly directory: string;
  /** Kinds that are read; left out, all there are. */
  readonly kinds: KindRegistry;
  /** Namespace of resources that name none, and of those that REST creates. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly times?: Partial<typeof defaultTimes>;
}

/** In milliseconds. */
const defaultTimes = {
  /** A changed file is read once it has been quiet for this time: an editor may still be writing. */
  settleMs: 60,
  /** Time that a manifest must be missing before its resource counts as deleted. */
  confirmDeletionMs: 1_000,
  /** The same when all manifests went at once, e.g. as a volume was unmounted. */
  confirmEmptyMs: 5_000,
  /** Time between scans of all files, where the file system reports no changes (network file systems). */
  pollMs: 1_000,
};
/** All files are scanned again after so many times the time of a scan: one of thousands of files takes a while. */
const POLL_PAUSES = 10;

interface AcceptedFile {
  readonly stamp: FileStamp;
  /** Source text of the documents; may be empty. */
  readonly text: string;
  readonly documents: readonly ManifestDocument[];
  /** Read error, or null. */
  readonly error: string | null;
}

type ResourceDocument = ManifestDocument & { readonly kind: 'resource' };

interface IndexedResource {
  readonly resource: Resource;
  readonly path: string;
  /** Its document in the file; null while no file has it. */
  readonly document: ResourceDocument | null;
  /** Monotonic milliseconds since which no file has it; null while one has. */
  readonly missingSince: number | null;
}

interface DocumentPlace {
  readonly path: string;
  readonly document: ResourceDocument;
  readonly stamp: FileStamp;
}

const noKeys: ReadonlySet<string> = new Set();

/**
 * Resources as YAML or JSON manifests in a directory: any number of documents in any number of files, watched. See
 * docs/resources.md for what is written where. It keeps what was read last of each resource, also while its document is broken or,
 * for a moment, gone, and gives each the metadata that a file does not hold:
 *
 * - `uid` follows from kind, namespace and name: replicas that read copies of the directory agree on it.
 * - `resourceVersion` is the time at which the file was changed last (its inode's, which copying and restoring cannot
 *   set back), in microseconds, taken when the content of the resource changes; always more than before.
 * - `generation` counts changes of the spec; it continues from the database's copy after a restart.
 */
export class DirectorySource extends PolledSource {
  readonly name = 'directory';
  readonly writeNamespace: string;
  readonly #options: DirectorySourceOptions;
  readonly #times: typeof defaultTimes;
  readonly #files = new Map<string, AcceptedFile>();
  /** By `keyText`. */
  readonly #resources = new Map<string, IndexedResource>();
  /** Resources of the database's copy that no file has had yet. */
  readonly #restored = new Map<string, StoredResource>();
  #problems: readonly SourceProblem[] = [];
  /** Changes in folders below it are noticed by a scan of all files. */
  #watcher: FSWatcher | null = null;
  /** Files to be scanned; null: all. */
  #due: Set<string> | null = null;
  /** When all files are to be scanned, monotonic milliseconds. */
  #pollAt = 0;
  /** True if a changed file waits until it is quiet. */
  #isSettling = false;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  /** Looks and writes follow each other, never overlap. */
  #turn: Promise<unknown> = Promise.resolve();
  #running = false;

  constructor(options: DirectorySourceOptions) {
    super();
    this.#options = options;
    this.#times = { ...defaultTimes, ...options.times };
    this.writeNamespace = options.namespace;
  }

  override restore(stored: readonly StoredResource[]): void {
    for (const each of stored) if (each.source === 'directory') this.#restored.set(keyText(each), each);
  }

  async start(syncTimeoutMs: number): Promise<void> {
    this.#running = true;
    await this.#scan();
    await this.whenSynced(syncTimeoutMs);
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    this.#unwatch();
    await this.#turn;
  }

  override problems(): readonly SourceProblem[] {
    return this.#problems;
  }

  protected readAll(kind: Kind): readonly Resource[] {
    const resources: Resource[] = [];
    for (const { resource } of this.#resources.values()) if (resource.kind === kind) resources.push(resource);
    return resources;
  }

  protected read(key: ResourceKey): Resource | null {
    return this.#resources.get(keyText(key))?.resource ?? null;
  }

  protected placeOf(key: ResourceKey): string {
    const { path = '', document = null } = this.#resources.get(keyText(key)) ?? {};
    return document === null ? path : `${path}, document ${document.number}`;
  }

  protected async createResource(resource: NewResource): Promise<Resource> {
    return await this.#write(async () => {
      if (this.read(resource) !== null) throw resourceExists(resource);
      const path = await newManifestPath(this.#options.directory, resource, async (used, { signature }) => {
        // Written by another replica, or an editor, since the last poll: the resource may be in it.
        if (this.#files.get(used)?.stamp.signature !== signature) await this.#accept(used);
        if (this.read(resource) !== null) throw resourceExists(resource);
      });
      const text = newDocument(resource, new Date(this.#options.clock.now()).toISOString());
      await changeManifestFile(this.#options.directory, path, (present) => {
        if (present !== null) throw resourceExists(resource);
        return text;
      });
      return await this.#readBack(path, resource);
    });
  }

  protected async applyChange(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource> {
    return await this.#write(async () => {
      const current = this.#mustHave(key, options.expectedVersion);
      const path = await this.#changeDocument(current, (text, format) => editDocument(text, change, format));
      return await this.#readBack(path, key);
    });
  }

  protected async deleteResource(key: ResourceKey, expectedVersion: string | null): Promise<boolean> {
    return await this.#write(async () => {
      if (this.read(key) === null) return false;
      const path = await this.#changeDocument(this.#mustHave(key, expectedVersion), () => '');
      await this.#accept(path, new Set([keyText(key)]));
      return true;
    });
  }

  protected async writeStatus(key: ResourceKey, uid: string, status: ResourceStatus): Promise<void> {
    // A file has no place for status: it is kept here and in the database's copy.
    const entry = this.#resources.get(keyText(key));
    if (entry?.resource.metadata.uid !== uid) return;
    this.#resources.set(keyText(key), { ...entry, resource: { ...entry.resource, status } });
    this.reportChange(key, entry.resource);
  }

  /**
   * Changes the document of a resource, provided that it still states what we hold. Returns the path of its file.
   * @param edit makes the document's new text from its present one; an empty one takes it out
   * @throws VersionConflict when the document states something else than the resource that is held
   * @throws GatewayError EG_CONFLICT when the document cannot be read
   */
  async #changeDocument(current: Resource, edit: (text: string, format: 'yaml' | 'json') => string): Promise<string> {
    const { directory, namespace, kinds } = this.#options;
    const key = keyOf(current);
    const { path = '' } = this.#resources.get(keyText(key)) ?? {};
    const change = (text: string | null): string | null => {
      const documents = [...manifestsIn(text ?? '', namespace, this.#files.get(path) ?? null, kinds)];
      const document = documents.find((each) => each.kind === 'resource' && isDeepStrictEqual(each.manifest.key, key));
      const broken = documents.find((each) => each.kind === 'broken');
      if (document === undefined && broken !== undefined && isDeepStrictEqual(broken.key ?? key, key)) {
        const where = `document ${broken.number}, line ${broken.problemLine}`;
        const message = `the document of ${key.name} in ${path} (${where}) cannot be read; fix the file first`;
        throw new GatewayError('EG_CONFLICT', message);
      }
      if (text === null || document?.kind !== 'resource' || !sameContent(current, document.manifest)) {
        throw new VersionConflict(key);
      }
      const { start, end } = document;
      const after = edit(text.slice(start, end), extname(path) === '.json' ? 'json' : 'yaml');
      const others = documents.filter((each) => each !== document).map((each) => text.slice(each.start, each.end));
      const isLast = others.every((other) => other.replaceAll(/^---|^\.\.\.|\s/gm, '') === '');
      return after === '' && isLast ? null : text.slice(0, start) + after + text.slice(end);
    };
    try {
      await changeManifestFile(directory, path, change);
    } catch (error) {
      if (error instanceof VersionConflict) this.#scanIn(0, path);
      throw error;
    }
    return path;
  }

  #mustHave(key: ResourceKey, expectedVersion: string | null): Resource {
    const current = this.read(key);
    if (current === null) throw noSuchResource(key);
    if (![null, current.metadata.resourceVersion].includes(expectedVersion)) throw new VersionConflict(key);
    return current;
  }

  /** Runs a write in its turn. @throws GatewayError EG_SOURCE_UNAVAILABLE */
  async #write<T>(work: () => Promise<T>): Promise<T> {
    return await this.#inTurn(async () => {
      const { available, reason } = this.state();
      if (available) return await work();
      const message = `the directory ${this.#options.directory} cannot be read: ${reason ?? 'not read yet'}`;
      throw new GatewayError('EG_SOURCE_UNAVAILABLE', message, { retryAfterSeconds: 5 });
    });
  }

  async #readBack(path: string, key: ResourceKey): Promise<Resource> {
    await this.#accept(path);
    const resource = this.read(key);
    if (resource === null) throw new VersionConflict(key);
    return resource;
  }

  /** Reads a file that we wrote ourselves: nothing to wait for. */
  async #accept(path: string, deleted = noKeys): Promise<void> {
    const accepted = (await fileStamp(path)) === null ? null : await this.#read(path);
    // A file that another writer changed since is read by the next poll.
    if (accepted === undefined) this.#scanIn(0, path);
    else this.#update(new Map([[path, accepted]]), deleted);
  }

  /** A file's documents; undefined when it changed while being read. */
  async #read(path: string): Promise<AcceptedFile | undefined> {
    const file = await readManifestFile(path);
    if (file === null) return undefined;
    const { stamp, error } = file;
    const text = file.text ?? '';
    const before = this.#files.get(path) ?? null;
    const { namespace, kinds } = this.#options;
    const documents: ManifestDocument[] = [];
    // A file may have thousands of documents.
    const turns = new Turns();
    for (const document of file.text === null ? [] : manifestsIn(text, namespace, before, kinds)) {
      documents.push(document);
      if (turns.isOver) await turns.next();
    }
    return { stamp, text, documents, error };
  }

  /** Scans the directory: takes over what changed and is quiet. */
  async #scan(): Promise<void> {
    await this.#inTurn(async () => {
      const { directory, clock, logger } = this.#options;
      const began = performance.now();
      // Deletions are confirmed by all files: the file system may not report the return of one.
      const due = began < this.#pollAt && !this.#isUnconfirmed ? this.#due : null;
      this.#due = new Set();
      if (due === null) this.#pollAt = began + this.#times.pollMs;
      let listing: ReadonlyMap<string, FileStamp>;
      try {
        listing = await (due === null ? listManifestFiles(directory) : manifestStamps(due));
      } catch (error) {
        const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
        const reason = isMissing
          ? `there is no directory ${directory}: create it or correct resources.directory`
          : (error as Error).message;
        if (this.setState({ available: false, reason }))
          logger.warn({ directory, reason }, 'manifests directory unavailable');
        this.#unwatch();
        // A timer may fire before its time: the next scan must list the directory as well.
        this.#due = null;
        return;
      }
      if (due === null) this.#pollAt = Math.max(this.#pollAt, began + (performance.now() - began) * POLL_PAUSES);
      if (this.#running) this.#watcher ??= watchFolder(directory, this.#onEvent, logger);
      const updates = new Map<string, AcceptedFile | null>();
      for (const path of due ?? this.#files.keys())
        if (this.#files.has(path) && !listing.has(path)) updates.set(path, null);
      this.#isSettling = false;
      for (const [path, stamp] of listing) {
        if (this.#files.get(path)?.stamp.signature === stamp.signature) continue;
        const age = clock.now() - Number(stamp.changedAtMicros / 1_000n);
        // A time that is to come, as of another clock, is not waited for.
        const isQuiet = age < 0 || age >= this.#times.settleMs;
        const accepted = isQuiet ? await this.#read(path).catch((error) => unreadable(stamp, error)) : undefined;
        if (accepted === undefined) {
          this.#isSettling = true;
          this.#due?.add(path);
        } else updates.set(path, accepted);
      }
      const synced = this.state().synced || !this.#isSettling;
      const state = { available: true, reason: null, synced, lastEventAt: clock.monotonic() };
      this.#update(updates, noKeys, () => this.setState(state));
    });
    const pollMs = Math.max(0, this.#pollAt - performance.now());
    this.#scanIn(this.#isSettling || this.#isUnconfirmed ? this.#times.settleMs : pollMs);
  }

  /** True while no file has some of the resources, which is not confirmed yet. */
  get #isUnconfirmed(): boolean {
    return this.#resources.values().some((entry) => entry.missingSince !== null);
  }

  /** Has a file scanned of which the watch reports the name; all files, if anything may have changed. */
  readonly #onEvent = (name: string | null): void => {
    const isHidden = name?.startsWith('.') === true && name !== '..data';
    if (isHidden) return;
    const isManifest = name !== null && extensions.has(extname(name));
    this.#scanIn(5, isManifest ? join(this.#options.directory, name) : null);
  };

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  /** @param path of a file to scan; null: all files; left out: none in addition */
  #scanIn(delayMs: number, path?: string | null): void {
    if (!this.#running) return;
    if (path === null) this.#due = null;
    else if (path !== undefined) this.#due?.add(path);
    const at = performance.now() + delayMs;
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#scan().catch((error: unknown) => {
        this.#options.logger.error({ err: error }, 'failed to read manifests directory');
        this.#scanIn(this.#times.pollMs, null);
      });
    }, delayMs);
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return await result;
  }

  /**
   * Takes over files that changed, came or (null) went, works out what that means, and reports it.
   * @param deleted keys whose absence needs no confirmation, as the gateway itself deleted them
   * @param onTaken called before changes are reported
   */
  #update(
    files: ReadonlyMap<string, AcceptedFile | null>,
    deleted: ReadonlySet<string>,
    onTaken: () => void = () => undefined,
  ): void {
    const changed = new Map<ResourceKey, Resource | null>();
    // Most looks at a directory find nothing new, and thousands of resources take a while to compare.
    if (files.size > 0 || deleted.size > 0 || this.#isUnconfirmed) {
      for (const [path, file] of files) {
        if (file === null) this.#files.delete(path);
        else this.#files.set(path, file);
      }
      const { places, problems } = this.#collect();
      for (const [text, place] of places) {
        const before = this.#resources.get(text);
        const { path, document } = place;
        if (before?.document === document && before.path === path) continue;
        const isSame = before !== undefined && before.document?.manifest === document.manifest;
        const resource = isSame ? before.resource : this.#resourceOf(text, place, before?.resource);
        this.#resources.set(text, { resource, path, document, missingSince: null });
        if (resource !== before?.resource) changed.set(document.manifest.key, before?.resource ?? null);
      }
      for (const resource of this.#settleMissing(places, deleted)) changed.set(keyOf(resource), resource);
      // Also where a resource is the same as before, its document may be at another place.
      if (files.size > 0) this.countChange();
      this.#report(problems);
    }
    onTaken();
    for (const [key, before] of changed) this.reportChange(key, before);
  }

  #report(problems: readonly SourceProblem[]): void {
    if (isDeepStrictEqual(problems, this.#problems)) return;
    this.#problems = problems;
    for (const problem of problems) this.#options.logger.warn(problem, 'manifest problem');
    this.reportState();
  }

  /** Documents by key, each identity once: where it was before, otherwise in the first file by name. */
  #collect(): { readonly places: ReadonlyMap<string, DocumentPlace>; readonly problems: readonly SourceProblem[] } {
    const places = new Map<string, DocumentPlace>();
    const problems: SourceProblem[] = [];
    for (const path of [...this.#files.keys()].sort()) {
      const file = this.#files.get(path) as AcceptedFile;
      if (file.error !== null) problems.push({ place: path, document: null, line: null, message: file.error });
      for (const document of file.documents) {
        if (document.kind === 'broken') {
          const { number, problemLine: line, message } = document;
          problems.push({ place: path, document: number, line, message });
        }
        if (document.kind !== 'resource') continue;
        const text = document.manifest.id;
        const here: DocumentPlace = { path, document, stamp: file.stamp };
        const there = places.get(text) ?? here;
        const stays = this.#resources.get(text)?.path === path && there.path !== path ? here : there;
        places.set(text, stays);
        if (there === here) continue;
        const other = stays === here ? there : here;
        const message = `${text} is also in ${stays.path}, document ${stays.document.number}, which is the one in force; remove one of the two`;
        problems.push({ place: other.path, document: other.document.number, line: other.document.line, message });
      }
    }
    return { places, problems };
  }

  /** Returns the resources that are gone. */
  #settleMissing(places: ReadonlyMap<string, DocumentPlace>, deleted: ReadonlySet<string>): readonly Resource[] {
    const now = this.#options.clock.monotonic();
    const { confirmEmptyMs, confirmDeletionMs } = this.#times;
    const limit = places.size === 0 && this.#resources.size > 1 ? confirmEmptyMs : confirmDeletionMs;
    const deletions: Resource[] = [];
    const missing = [...this.#resources].filter(([text]) => !places.has(text));
    if (missing.length === 0) return deletions;
    const broken = this.#brokenDocuments();
    for (const [text, entry] of missing) {
      const isBroken = broken.keys.has(text) || broken.paths.has(entry.path);
      const missingSince = isBroken ? null : (entry.missingSince ?? now);
      if (!deleted.has(text) && (missingSince === null || now - missingSince < limit)) {
        this.#resources.set(text, { ...entry, document: null, missingSince });
        continue;
      }
      this.#resources.delete(text);
      this.#restored.delete(text);
      deletions.push(entry.resource);
    }
    return deletions;
  }

  /** A broken document keeps the resource it is about; where that cannot be seen, all that its file held. */
  #brokenDocuments() {
    const keys = new Set<string>();
    const paths = new Set<string>();
    for (const [path, file] of this.#files) {
      if (file.error !== null) paths.add(path);
      for (const document of file.documents) {
        if (document.kind !== 'broken') continue;
        if (document.key === null) paths.add(path);
        else keys.add(keyText(document.key));
      }
    }
    return { keys, paths };
  }

  #resourceOf(text: string, { document: { manifest }, stamp }: DocumentPlace, before: Resource | undefined): Resource {
    const restored = before === undefined ? this.#restored.get(text) : undefined;
    const asBefore = before ?? (restored === undefined ? undefined : resourceOfStored(restored));
    if (asBefore !== undefined && sameContent(asBefore, manifest)) return asBefore;
    const last = before === undefined ? 0n : BigInt(before.metadata.resourceVersion);
    const version = stamp.changedAtMicros > last ? stamp.changedAtMicros : last + 1n;
    const generation = asBefore?.metadata.generation ?? 0;
    const isSameSpec = asBefore !== undefined && isDeepStrictEqual(asBefore.spec, manifest.spec);
    const createdAt = Math.min(stamp.createdAtMs || Number.POSITIVE_INFINITY, Number(stamp.changedAtMicros / 1_000n));
    const { key, labels, annotations, spec } = manifest;
    return {
      apiVersion: apiVersionOf(key.kind),
      kind: key.kind,
      metadata: {
        ...{ name: key.name, namespace: key.namespace, uid: directoryUid(key), labels, annotations },
        resourceVersion: String(version),
        generation: isSameSpec ? generation : generation + 1,
        creationTimestamp:
          manifest.creationTimestamp ?? asBefore?.metadata.creationTimestamp ?? new Date(createdAt).toISOString(),
      },
      spec,
      ...(asBefore?.status === undefined ? {} : { status: asBefore.status }),
    };
  }
}

function unreadable(stamp: FileStamp, error: unknown): AcceptedFile {
  return { stamp, text: '', documents: [], error: `cannot be read: ${(error as Error).message}` };
}

/** uid of a resource of a directory: a UUID made of its identity (RFC 9562, version 8: custom, here SHA-256). */
function directoryUid(key: ResourceKey): string {
  const hex = createHash('sha256')
    .update(`directory/${keyText(key)}`)
    .digest('hex');
  const variant = ((Number.parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function sameContent(resource: Resource, manifest: Manifest): boolean {
  return (
    isDeepStrictEqual(resource.spec, manifest.spec) &&
    isDeepStrictEqual(resource.metadata.labels ?? {}, manifest.labels) &&
    isDeepStrictEqual(resource.metadata.annotations ?? {}, manifest.annotations) &&
    (manifest.creationTimestamp === null ||
      Date.parse(manifest.creationTimestamp) === Date.parse(resource.metadata.creationTimestamp))
  );
}
