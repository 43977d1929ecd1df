import { setTimeout as sleep } from 'node:timers/promises';
import { type KubeConfig, Watch } from '@kubernetes/client-node';
import type { Logger } from 'pino';
import type { Clock, Random } from '../../../model/clock.ts';
import type { Kind } from '../../../model/resource.ts';
import type { SourceState } from '../source.ts';
import type { ApiServerCalls } from './apiServerCalls.ts';
import type { KubeList, KubeObject } from './kubeApi.ts';
import { kubeCode, kubeReason } from './kubeErrors.ts';
import { type KubeResource, onlyStatusDiffers, resourceOfObject } from './kubeResource.ts';

/** Objects that an informer follows. */
interface InformerTarget {
  /** Of the copies. */
  readonly kind: Kind;
  /** For the log. */
  readonly name: string;
  readonly list: (limit: number, continueToken: string | undefined) => Promise<KubeList>;
  /** The version that the API server is at; left out, a rejected watch is taken up without asking for it. */
  readonly version?: () => Promise<string>;
  readonly watchPath: string;
  /** True if the API server may not have the kind: then there are no objects, and it is looked for again. */
  readonly mayBeAbsent?: boolean;
  /** Failed lists after which a missing right (a ClusterRole) means that there are no objects; left out, it never does. */
  readonly forbiddenAfter?: number | undefined;
  /** Reduces an object before it is stored; default: unchanged. */
  readonly keep?: (object: KubeObject) => KubeObject;
}

interface InformerParts {
  readonly config: KubeConfig;
  /** Takes note of each watch. */
  readonly calls?: ApiServerCalls;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /**
   * Called with `namespace/name` of what came, changed or went, and what it was; `status`: only its status changed, by another writer.
   * Must not throw.
   */
  readonly onChange: (name: string, before: KubeResource | null, part: 'resource' | 'status') => void;
  /** Called when `state` changed. Must not throw. */
  readonly onState: () => void;
}

/** Times in milliseconds. */
interface InformerBounds {
  /** Objects at most; of more none is taken over, and they count as unavailable. Left out, any number. */
  readonly most?: number;
  /** Least time between tries, doubled up to the greatest: 500 to 10,000. */
  readonly backOffMs?: number;
  readonly maxBackOffMs?: number;
  /** A watch on which nothing came for this time is made again: its connection may be half open. 30,000. */
  readonly idleMs?: number;
  /** Time between full lists, to find what a watch may have lost: 600,000. */
  readonly relistMs?: number;
  /** Time after which a list that is empty after a non-empty one is requested again: 1,000. */
  readonly confirmEmptyMs?: number;
}

export type InformerOptions = InformerTarget & InformerParts & InformerBounds;

/** An object as it is, and as it was when anything but its status changed last: the same object while only that changes. */
interface Copy {
  readonly latest: KubeResource;
  readonly listed: KubeResource;
}

const PAGE = 500;

interface Listed {
  readonly items: readonly KubeResource[];
  readonly version: string;
}

const OPEN = Symbol('open');

/**
 * Keeps a copy of a set of objects of the API server: lists them, then follows a watch over the client library's
 * `Watch`, which ends at the first trouble. Lists again after a 410 and from time to time; takes up a lost watch where it
 * was, with back-off and jitter; asks for bookmarks, so that it can. A list that fails leaves the copy as it is.
 *
 * A list replaces the copy: after a restore of etcd versions are lower than those that are known, and no event follows a
 * version that is yet to come (docs/reliability.md#a-restored-etcd). Versions are compared only for events and own writes
 * since the last list.
 */
export class Informer {
  readonly #options: InformerOptions;
  readonly #watch: Watch;
  readonly #objects = new Map<string, Copy>();
  /** uid and name of what was deleted by ourselves: an older event about it changes nothing. */
  readonly #deleted = new Map<string, string>();
  /** While a list is made: names of what was written, and uids of what was deleted, by ourselves since it began. */
  #sinceList: { readonly written: Set<string>; readonly deleted: Map<string, string> } | null = null;
  /** Set when the API server could not be reached: what it has may be another state than before. */
  #doubted: 'version' | 'all' | null = null;
  /** Version of the last list or event, also while `#version` asks for a new list. */
  #lastVersion = '';
  state: SourceState = { synced: false, available: false, reason: 'not listed yet', lastEventAt: null };
  #version = '';
  #failures = 0;
  #abort = new AbortController();
  #running: Promise<void> = Promise.resolve();
  readonly #synced = Promise.withResolvers<void>();

  constructor(options: InformerOptions) {
    this.#options = options;
    this.#watch = new Watch(options.config);
    // The library's own limit for silence, 30 s, has no setter in its types.
    if (options.idleMs !== undefined) Object.assign(this.#watch, { requestTimeoutMs: options.idleMs });
  }

  /** @param name `namespace/name` */
  get(name: string): KubeResource | null {
    return this.#objects.get(name)?.latest ?? null;
  }

  /** An object as `list` has it. */
  listed(name: string): KubeResource | null {
    return this.#objects.get(name)?.listed ?? null;
  }

  /** All objects, as they were when anything but their status changed last. */
  list(): readonly KubeResource[] {
    return this.#objects
      .values()
      .map(({ listed }) => listed)
      .toArray();
  }

  /** Begins; continues until it is stopped. */
  start(): void {
    this.#abort = new AbortController();
    this.#running = this.#run(this.#abort.signal);
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    this.#synced.resolve();
    await this.#running;
  }

  /** Resolves when it has synced, or is stopped. */
  whenSynced(): Promise<void> {
    return this.#synced.promise;
  }

  /**
   * Takes over an object that we wrote ourselves, unless something newer is known. The response to a write may come after
   * the watch has reported the deletion: an object that is not held, and not newer than the last event of the watch, was
   * deleted since, and no event would ever take it away again.
   */
  remember(object: KubeObject): void {
    const isCoveredByWatch = this.#version !== '' && !isNewer(object.metadata.resourceVersion, this.#version);
    if (isCoveredByWatch && !this.#objects.has(nameOf(object))) return;
    this.#sinceList?.written.add(nameOf(object));
    this.#take(this.#copyOf(object), true);
  }

  /** Takes away an object that we deleted ourselves. */
  forget(object: Named): void {
    const name = nameOf(object);
    const { uid } = object.metadata;
    this.#deleted.set(uid, name);
    this.#sinceList?.deleted.set(uid, name);
    if (this.get(name)?.metadata.uid === uid) this.#remove(name);
  }

  async #run(signal: AbortSignal): Promise<void> {
    let relistAt = 0;
    while (!signal.aborted) {
      try {
        if (await this.#mustList(relistAt)) {
          await this.#relist(signal);
          // Replicas that were started together shall not list together.
          const relistMs = this.#options.relistMs ?? 600_000;
          relistAt = this.#options.clock.monotonic() + relistMs * (0.9 + this.#options.random() * 0.2);
        }
        await this.#follow(signal, relistAt);
      } catch (error) {
        if (signal.aborted) return;
        if (this.#isAbsence(kubeCode(error))) this.#takeAbsence();
        else this.#onFailure(error);
        await this.#pause(signal);
      }
    }
  }

  /** True if a watch cannot continue from the known version. */
  async #mustList(relistAt: number): Promise<boolean> {
    if (this.#version === '' || this.#doubted === 'all') return true;
    if (this.#options.clock.monotonic() >= relistAt) return true;
    if (this.#doubted === null) return false;
    const version = await this.#options.version?.();
    this.#doubted = null;
    return version !== undefined && isNewer(this.#lastVersion, version);
  }

  /** One watch, until it ends; throws when the API server is the trouble. */
  async #follow(signal: AbortSignal, relistAt: number): Promise<void> {
    const started = this.#options.clock.monotonic();
    const isExpired = await this.#watchOnce(signal, relistAt);
    if (signal.aborted) return;
    if (isExpired) {
      this.#options.logger.info({ informer: this.#options.name }, 'watch expired; listing again');
      this.#version = '';
    }
    // A watch that ends immediately, again and again, must not become a storm of requests.
    if (this.#options.clock.monotonic() - started < 500) {
      this.#failures += 1;
      await this.#pause(signal);
    } else this.#failures = 0;
  }

  async #relist(signal: AbortSignal): Promise<void> {
    this.#sinceList = { written: new Set(), deleted: new Map() };
    try {
      let listed = await this.#listAll();
      if (listed.items.length === 0 && this.#objects.size > 0) {
        // Everything gone is likelier a server that is not itself yet. Asked once more it is believed.
        await sleep(this.#options.confirmEmptyMs ?? 1_000, undefined, { signal });
        listed = await this.#listAll();
      }
      this.#replace(listed, this.#sinceList);
    } finally {
      this.#sinceList = null;
    }
    this.#noteEvent();
    this.#setState({ synced: true, available: true, reason: null });
  }

  /** Makes the copy what a list states, but for what we wrote and deleted ourselves while it was made. */
  #replace(listed: Listed, since: { readonly written: Set<string>; readonly deleted: Map<string, string> }): void {
    const isBehind = this.#lastVersion !== '' && isNewer(this.#lastVersion, listed.version);
    if (isBehind) {
      this.#options.logger.warn(
        { informer: this.#options.name, version: listed.version, before: this.#lastVersion },
        'API server returned to an earlier state; its state replaces the local one',
      );
    }
    // Versions that were given twice do not say that nothing changed.
    const isDoubted = isBehind || this.#doubted === 'all';
    this.#version = listed.version;
    this.#lastVersion = listed.version;
    this.#doubted = null;
    this.#deleted.clear();
    for (const [uid, name] of since.deleted) this.#deleted.set(uid, name);
    const names = new Set(listed.items.map(nameOf));
    for (const [name, { latest }] of this.#objects) {
      if (names.has(name)) continue;
      if (since.written.has(name) && isNewer(latest.metadata.resourceVersion, listed.version)) continue;
      this.#remove(name);
    }
    for (const object of listed.items) {
      const name = nameOf(object);
      const before = this.get(name)?.metadata;
      if (this.#deleted.has(object.metadata.uid)) continue;
      const { uid, resourceVersion } = object.metadata;
      const isKnown = before?.uid === uid && before.resourceVersion === resourceVersion;
      if (isKnown && !isDoubted) continue;
      if (before !== undefined && since.written.has(name) && isNewer(before.resourceVersion, resourceVersion)) continue;
      this.#store(name, object);
    }
  }

  /** @param isOwn true for the response to a write of our own: its status is no news */
  #store(name: string, latest: KubeResource, isOwn = false): void {
    const before = this.listed(name);
    const isSame = before !== null && onlyStatusDiffers(before, latest);
    this.#objects.set(name, { latest, listed: isSame ? before : latest });
    if (!isSame || !isOwn) this.#options.onChange(name, before, isSame ? 'status' : 'resource');
  }

  #remove(name: string): void {
    const before = this.listed(name);
    if (this.#objects.delete(name)) this.#options.onChange(name, before, 'resource');
  }

  async #listAll(): Promise<Listed> {
    const items: KubeResource[] = [];
    let token: string | undefined;
    for (;;) {
      const page: KubeList = await this.#options.list(PAGE, token);
      // At once: whole, thousands of objects would be held until the last page has come.
      for (const object of page.items) items.push(this.#copyOf(object));
      this.#mustFit(items.length);
      token = page.metadata.continue;
      if (token === undefined || token === '') return { items, version: page.metadata.resourceVersion ?? '' };
    }
  }

  /** @returns true if changes since the known version are not available any more (410). @throws if no watch could begin */
  async #watchOnce(signal: AbortSignal, relistAt: number): Promise<boolean> {
    const { name, watchPath, clock, logger } = this.#options;
    const { promise: end, resolve: ended } = Promise.withResolvers<unknown>();
    let isExpired = false;
    let controller: AbortController | undefined;
    const stop = (): void => controller?.abort();
    const parameters = {
      resourceVersion: this.#version,
      allowWatchBookmarks: true,
      timeoutSeconds: Math.max(5, Math.ceil((relistAt - clock.monotonic()) / 1_000)),
    };
    const onEvent = (type: string, object: KubeObject & { readonly code?: number }): void => {
      this.#noteEvent();
      try {
        if (type !== 'ERROR') {
          this.#apply(type, object);
          return;
        }
        isExpired = object.code === 410;
      } catch (error) {
        // The library would swallow it, and the event with it.
        logger.error({ informer: name, err: error }, 'failed to apply watch event; listing again');
      }
      // Any error ends the watch; the copy is listed again to be sure.
      this.#version = '';
      stop();
    };
    controller = await this.#watch.watch(watchPath, parameters, onEvent, ended);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    // A stopped watch is reported as an error too; what counts is whether it had begun.
    const isOpen = (await Promise.race([end, Promise.resolve(OPEN)])) === OPEN;
    if (isOpen) {
      this.#called(200);
      this.#noteEvent();
      this.#setState({ available: true, reason: null });
    }
    const error = await end;
    signal.removeEventListener('abort', stop);
    if (isExpired || kubeCode(error) === 410) return true;
    if (isOpen || error === null || error === undefined) return false;
    this.#called(kubeCode(error));
    throw error;
  }

  #apply(type: string, object: KubeObject): void {
    this.#version = object.metadata.resourceVersion;
    this.#lastVersion = this.#version;
    if (type === 'ADDED' || type === 'MODIFIED') this.#take(this.#copyOf(object), false);
    else if (type === 'DELETED') this.#drop(object);
  }

  #take(object: KubeResource, isOwn: boolean): void {
    const name = nameOf(object);
    const before = this.get(name);
    if (this.#deleted.has(object.metadata.uid)) return;
    if (before !== null && !isNewer(object.metadata.resourceVersion, before.metadata.resourceVersion)) return;
    if (before === null) this.#mustFit(this.#objects.size + 1);
    this.#store(name, object, isOwn);
  }

  #copyOf(object: KubeObject): KubeResource {
    const { kind, keep } = this.#options;
    return resourceOfObject(kind, keep === undefined ? object : keep(object));
  }

  /** @throws Error when there are more than are followed */
  #mustFit(count: number): void {
    const { most = Number.POSITIVE_INFINITY } = this.#options;
    if (count > most) throw new Error(`there are more than ${most}, which is more than are followed`);
  }

  #drop(object: KubeObject): void {
    const name = nameOf(object);
    this.#deleted.delete(object.metadata.uid);
    const before = this.get(name);
    if (before === null || isNewer(before.metadata.resourceVersion, object.metadata.resourceVersion)) return;
    this.#remove(name);
  }

  #called(code: number | null): void {
    this.#options.calls?.('GET', code);
  }

  #noteEvent(): void {
    this.state = { ...this.state, lastEventAt: this.#options.clock.monotonic() };
  }

  #onFailure(error: unknown): void {
    this.#failures += 1;
    const reason = kubeReason(error);
    const code = kubeCode(error);
    // A server that responds states itself what it has; one that was gone may come back with an earlier state.
    if (code === null) this.#doubted = 'all';
    else if (code >= 500) this.#doubted ??= 'version';
    // The kind itself is gone: when it comes back, what was known of it states nothing.
    if (code === 404) this.#version = '';
    if (this.state.available || this.state.reason !== reason) {
      this.#options.logger.warn({ informer: this.#options.name, reason }, 'API server watch failed; retrying');
    }
    this.#setState({ available: false, reason });
  }

  /** A right that was taken away is a failure: what was known stays. */
  #isAbsence(code: number | null): boolean {
    const { mayBeAbsent = false, forbiddenAfter = Number.POSITIVE_INFINITY } = this.#options;
    const isForbidden = code === 403 && this.#objects.size === 0 && this.#failures >= forbiddenAfter;
    return (mayBeAbsent && code === 404) || isForbidden;
  }

  /** The API server responds, and does not have the kind (docs/upgrades.md#skew). */
  #takeAbsence(): void {
    this.#failures += 1;
    this.#version = '';
    this.#lastVersion = '';
    this.#doubted = null;
    this.#deleted.clear();
    if (!this.state.synced || this.#objects.size > 0) {
      this.#options.logger.info(
        { informer: this.#options.name },
        'API server lacks the kind, or the right to it; apply the CRDs and ClusterRole of this version',
      );
    }
    for (const name of [...this.#objects.keys()]) this.#remove(name);
    this.#noteEvent();
    this.#setState({ synced: true, available: true, reason: null });
  }

  async #pause(signal: AbortSignal): Promise<void> {
    const full = Math.min(
      this.#options.maxBackOffMs ?? 10_000,
      (this.#options.backOffMs ?? 500) * 2 ** (this.#failures - 1),
    );
    await sleep(full * (0.5 + this.#options.random() / 2), undefined, { signal }).catch(() => undefined);
  }

  #setState(change: Partial<SourceState>): void {
    const before = this.state;
    this.state = { ...before, ...change };
    if (this.state.synced) this.#synced.resolve();
    if (before.synced && !before.available && this.state.available) {
      this.#options.logger.info({ informer: this.#options.name }, 'API server watch restored');
    }
    const { synced, available, reason } = this.state;
    if (before.synced !== synced || before.available !== available || before.reason !== reason) this.#options.onState();
  }
}

interface Named {
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly uid: string };
}

/** `namespace/name` of an object. */
function nameOf({ metadata: { namespace = '', name } }: Named): string {
  return `${namespace}/${name}`;
}

/** True if a version is newer. Versions of one kind are numbers that grow (Kubernetes: comparable since 1.35). */
function isNewer(version: string, than: string): boolean {
  if (!/^\d+$/.test(version) || !/^\d+$/.test(than)) return version !== than;
  return BigInt(version) > BigInt(than);
}
