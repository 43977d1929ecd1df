import type { FSWatcher } from 'node:fs';
import { extname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { watchFolder } from '../../../config/followedFiles.ts';
import type { KindRegistry } from '../../../kinds/resourceKind.ts';
import type { Clock } from '../../../model/clock.ts';
import { GatewayError } from '../../../model/errors.ts';
import {
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
  type SourceProblem,
  VersionConflict,
} from '../source.ts';
import { type ManifestDocument, manifestsIn, readManifests } from './manifestDocuments.ts';
import { editDocument, newDocument } from './manifestEdit.ts';
import {
  changeManifestFile,
  type FileStamp,
  fileStamp,
  listManifestFiles,
  newManifestPath,
  readManifestFile,
} from './manifestFiles.ts';
import { type AcceptedFile, ManifestIndex, sameContent } from './manifestIndex.ts';

/** Options of a directory source. Times in milliseconds. */
export interface DirectorySourceOptions {
  readonly directory: string;
  /** Kinds that are read; left out, all there are. */
  readonly kinds: KindRegistry;
  /** Namespace of resources that name none, and of those that REST creates. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A changed file is read once it has been quiet for this time (an editor may still be writing): 60. */
  readonly settleMs?: number;
  /** Time that a manifest must be missing before its resource counts as deleted: 1,000. */
  readonly confirmDeletionMs?: number;
  /** The same when all manifests went at once: 5,000. */
  readonly confirmEmptyMs?: number;
  /** Time between polls where the file system reports no changes (network file systems): 1,000. */
  readonly pollMs?: number;
}

/**
 * Resources as YAML or JSON manifests in a directory: any number of documents in any number of files, watched. See
 * docs/resources.md for what is written where.
 */
export class DirectorySource extends PolledSource {
  readonly name = 'directory';
  readonly writeNamespace: string;
  readonly #options: DirectorySourceOptions;
  readonly #settleMs: number;
  readonly #pollMs: number;
  readonly #index: ManifestIndex;
  /** Changes in folders below it are noticed by the next look. */
  #watcher: FSWatcher | null = null;
  /** True if a changed file waits until it is quiet. */
  #isSettling = false;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  /** Looks and writes follow each other, never overlap. */
  #turn: Promise<void> = Promise.resolve();
  #running = false;

  constructor(options: DirectorySourceOptions) {
    super();
    this.#options = options;
    this.writeNamespace = options.namespace;
    this.#settleMs = options.settleMs ?? 60;
    this.#pollMs = options.pollMs ?? 1_000;
    this.#index = new ManifestIndex(options.confirmDeletionMs ?? 1_000, options.confirmEmptyMs ?? 5_000);
  }

  override restore(stored: readonly StoredResource[]): void {
    this.#index.restore(stored);
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
    return this.#index.problems;
  }

  protected readAll(kind: Kind): readonly Resource[] {
    return this.#index.list().filter((resource) => resource.kind === kind);
  }

  protected read(key: ResourceKey): Resource | null {
    return this.#index.get(key);
  }

  protected placeOf(key: ResourceKey): string {
    const { path = '', number = null } = this.#index.locate(key) ?? {};
    return number === null ? path : `${path}, document ${number}`;
  }

  protected async createResource(resource: NewResource): Promise<Resource> {
    return await this.#write(async () => {
      if (this.#index.get(resource) !== null) throw resourceExists(resource);
      const path = await newManifestPath(this.#options.directory, resource, async (used, { signature }) => {
        // Written by another replica, or an editor, since the last poll: the resource may be in it.
        if (this.#index.files.get(used)?.stamp.signature !== signature) await this.#accept(used, new Set());
        if (this.#index.get(resource) !== null) throw resourceExists(resource);
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
      if (this.#index.get(key) === null) return false;
      const path = await this.#changeDocument(this.#mustHave(key, expectedVersion), () => '');
      await this.#accept(path, new Set([keyText(key)]));
      return true;
    });
  }

  protected async writeStatus(key: ResourceKey, uid: string, status: ResourceStatus): Promise<void> {
    // A file has no place for status: it is kept here and in the database's copy.
    if (this.#index.setStatus(key, uid, status)) this.#notify([key]);
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
    const path = this.#index.locate(key)?.path ?? '';
    const change = (text: string | null): string | null => {
      const documents = readManifests(text ?? '', namespace, this.#index.files.get(path) ?? null, kinds);
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
      if (error instanceof VersionConflict) this.#scanIn(0);
      throw error;
    }
    return path;
  }

  #mustHave(key: ResourceKey, expectedVersion: string | null): Resource {
    const current = this.#index.get(key);
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
    await this.#accept(path, new Set());
    const resource = this.#index.get(key);
    if (resource === null) throw new VersionConflict(key);
    return resource;
  }

  /** Reads a file that we wrote ourselves: nothing to wait for. */
  async #accept(path: string, deleted: ReadonlySet<string>): Promise<void> {
    const accepted = (await fileStamp(path)) === null ? null : await this.#read(path);
    // A file that another writer changed since is read by the next poll.
    if (accepted === undefined) this.#scanIn(0);
    else this.#notify(this.#update(new Map([[path, accepted]]), this.#options.clock.monotonic(), deleted));
  }

  /** A file's documents; undefined when it changed while being read. */
  async #read(path: string): Promise<AcceptedFile | undefined> {
    const file = await readManifestFile(path);
    if (file === null) return undefined;
    const { stamp, error } = file;
    const text = file.text ?? '';
    const before = this.#index.files.get(path) ?? null;
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

  #update(...change: Parameters<ManifestIndex['update']>): readonly ResourceKey[] {
    const [files] = change;
    const changed = this.#index.update(...change);
    // Also where a resource is the same as before, its document may be at another place.
    if (files.size > 0) this.countChange();
    return changed;
  }

  /** Scans the directory: takes over what changed and is quiet. */
  async #scan(): Promise<void> {
    await this.#inTurn(async () => {
      const monotonic = this.#options.clock.monotonic();
      let listing: Awaited<ReturnType<typeof listManifestFiles>>;
      try {
        listing = await listManifestFiles(this.#options.directory);
      } catch (error) {
        const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
        const reason = isMissing
          ? `there is no directory ${this.#options.directory}: create it or correct resources.directory`
          : (error as Error).message;
        if (this.setState({ available: false, reason })) {
          const { directory } = this.#options;
          this.#options.logger.warn({ directory, reason }, 'manifests directory unavailable');
        }
        this.#unwatch();
        return;
      }
      const { directory, logger } = this.#options;
      if (this.#running) this.#watcher ??= watchFolder(directory, () => this.#scanIn(5), logger);
      const problemsBefore = this.#index.problems;
      const updates = new Map<string, AcceptedFile | null>();
      for (const path of this.#index.files.keys()) if (!listing.has(path)) updates.set(path, null);
      this.#isSettling = false;
      for (const [path, stamp] of listing) {
        if (this.#index.files.get(path)?.stamp.signature === stamp.signature) continue;
        if (!this.#isQuiet(stamp)) {
          this.#isSettling = true;
          continue;
        }
        const accepted = await this.#read(path).catch((error: unknown) => ({
          stamp,
          text: '',
          documents: [],
          error: `cannot be read: ${(error as Error).message}`,
        }));
        if (accepted === undefined) this.#isSettling = true;
        else updates.set(path, accepted);
      }
      const changed = this.#update(updates, monotonic);
      if (!isDeepStrictEqual(problemsBefore, this.#index.problems)) this.#reportProblems();
      this.setState({
        available: true,
        reason: null,
        synced: this.state().synced || !this.#isSettling,
        lastEventAt: this.#options.clock.monotonic(),
      });
      this.#notify(changed);
    });
    const soon = this.#isSettling || this.#index.unconfirmed;
    this.#scanIn(soon ? this.#settleMs : this.#pollMs);
  }

  /** True if a file was not changed within the settling time; a time that is to come, as of another clock, is not waited for. */
  #isQuiet(stamp: FileStamp): boolean {
    const age = this.#options.clock.now() - Number(stamp.changedAtMicros / 1_000n);
    return age < 0 || age >= this.#settleMs;
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  #scanIn(delayMs: number): void {
    if (!this.#running) return;
    const at = performance.now() + delayMs;
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#scan().catch((error: unknown) => {
        this.#options.logger.error({ err: error }, 'failed to read manifests directory');
        this.#scanIn(this.#pollMs);
      });
    }, delayMs);
  }

  #reportProblems(): void {
    for (const problem of this.#index.problems) this.#options.logger.warn(problem, 'manifest problem');
    this.reportState();
  }

  #notify(keys: readonly ResourceKey[]): void {
    for (const key of keys) this.reportChange(key);
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.then(ignore, ignore);
    return await result;
  }
}

const ignore = (): void => undefined;
