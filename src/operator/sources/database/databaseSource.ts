import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { KindRegistry } from '../../../kinds/kindRegistry.ts';
import type { Clock } from '../../../model/clock.ts';
import {
  API_GROUP_VERSION,
  type Kind,
  keyOf,
  keyText,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
} from '../../../model/resource.ts';
import type { Fence, Store, StoredResource } from '../../../store/store.ts';
import { changedResource } from '../resourceChange.ts';
import {
  type ApplyOptions,
  FencedWrite,
  type NewResource,
  noSuchResource,
  type Provenance,
  type ResourceChange,
  type ResourceSource,
  resourceExists,
  type SourceProblem,
  VersionConflict,
} from '../source.ts';
import { resourceOfStored, storedOfResource } from '../storedResource.ts';
import { PolledSource } from '../watchedSource.ts';

export interface DatabaseSourceOptions {
  readonly store: Pick<Store, 'resources'>;
  /** Kinds that there are; left out, all of `registry.ts`. */
  readonly kinds: KindRegistry;
  /** Namespace of resources that REST creates. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time between looks for other replicas' changes, in milliseconds: 500. */
  readonly pollMs?: number;
}

/** Resources as rows of `eg_resources`, which are the truth; other replicas' changes are seen by a change mark. */
export class DatabaseSource extends PolledSource implements ResourceSource {
  readonly name = 'database';
  readonly writeNamespace: string;
  readonly #options: DatabaseSourceOptions;
  readonly #kinds: KindRegistry;
  readonly #pollMs: number;
  #resources: ReadonlyMap<string, Resource> = new Map();
  #mark: string | null = null;
  /** Counts own writes. */
  #writes = 0;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();
  #running = false;

  constructor(options: DatabaseSourceOptions) {
    super();
    this.#options = options;
    this.#kinds = options.kinds;
    this.writeNamespace = options.namespace;
    this.#pollMs = options.pollMs ?? 500;
  }

  restore(): void {
    // The rows are read by `start` themselves.
  }

  async start(syncTimeoutMs: number): Promise<void> {
    this.#running = true;
    void this.#poll();
    await this.whenSynced(syncTimeoutMs);
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    await this.#turn;
  }

  problems(): readonly SourceProblem[] {
    return [];
  }

  list(kind: Kind): readonly Resource[] {
    return this.#resources
      .values()
      .filter((resource) => resource.kind === kind)
      .toArray();
  }

  get(key: ResourceKey): Resource | null {
    return this.#resources.get(keyText(key)) ?? null;
  }

  async readCurrent(): Promise<null> {
    return null;
  }

  provenance(key: ResourceKey): Provenance | null {
    return this.get(key) === null ? null : { place: `eg_resources: ${keyText(key)}`, managers: [] };
  }

  async create(fresh: NewResource): Promise<Resource> {
    const resource: Resource = {
      apiVersion: API_GROUP_VERSION,
      kind: fresh.kind,
      metadata: {
        name: fresh.name,
        namespace: fresh.namespace,
        uid: randomUUID(),
        resourceVersion: '0',
        generation: 1,
        creationTimestamp: new Date(this.#options.clock.now()).toISOString(),
        labels: fresh.labels ?? {},
        annotations: fresh.annotations ?? {},
      },
      spec: fresh.spec,
    };
    const written = await this.#write(resource, null);
    if (written !== null) return written;
    await this.#read();
    throw resourceExists(fresh);
  }

  async apply(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource> {
    const current = this.get(key);
    if (current === null) throw noSuchResource(key);
    if (current.metadata.resourceVersion !== options.expectedVersion) throw new VersionConflict(key);
    const written = await this.#write(changedResource(current, change), options.expectedVersion);
    if (written !== null) return written;
    await this.#read();
    throw new VersionConflict(key);
  }

  async delete(key: ResourceKey, expectedVersion: string | null): Promise<boolean> {
    const deleted = await this.#options.store.resources.delete(key, expectedVersion);
    if (deleted) {
      this.#take(keyText(key), null);
      return true;
    }
    await this.#read();
    if (expectedVersion !== null && this.get(key) !== null) throw new VersionConflict(key);
    return false;
  }

  renewVersion(): boolean {
    return false;
  }

  async patchStatus(key: ResourceKey, uid: string, status: ResourceStatus, fence: Fence | null): Promise<void> {
    const current = this.get(key);
    if (current === null || current.metadata.uid !== uid) return;
    const resource = { ...current, status };
    const stored = storedOfResource(resource, 'database');
    const result = await this.#options.store.resources.project(stored, this.#kinds.rowOf(resource), fence);
    if (result === 'applied' || result === 'foreign') {
      // Deleted meanwhile: the answer to a later transaction may come before that to an earlier one.
      if (this.get(key)?.metadata.uid === uid) this.#take(keyText(key), resource);
    } else if (result === 'stale') await this.#read();
    else if (result === 'fenced') throw new FencedWrite();
  }

  async #write(resource: Resource, expectedVersion: string | null): Promise<Resource | null> {
    const stored = storedOfResource(resource, 'database');
    const written = await this.#options.store.resources.write(stored, this.#kinds.rowOf(resource), expectedVersion);
    if (written === null) return null;
    const result = resourceOfStored(written);
    this.#take(keyText(keyOf(result)), result);
    return result;
  }

  /** Takes over one resource that we wrote, unless a newer one has been read meanwhile. */
  #take(key: string, resource: Resource | null): void {
    const before = this.#resources.get(key);
    if (
      resource !== null &&
      before !== undefined &&
      before.metadata.uid === resource.metadata.uid &&
      BigInt(before.metadata.resourceVersion) > BigInt(resource.metadata.resourceVersion)
    ) {
      return;
    }
    this.#writes += 1;
    const next = new Map(this.#resources);
    if (resource === null) next.delete(key);
    else next.set(key, resource);
    this.#replace(next);
  }

  #replace(next: ReadonlyMap<string, Resource>): void {
    const before = this.#resources;
    this.#resources = next;
    for (const key of new Set([...before.keys(), ...next.keys()])) {
      const a = before.get(key);
      const b = next.get(key);
      if (a !== b) this.tellChange(keyOf((b ?? a) as Resource));
    }
  }

  async #poll(): Promise<void> {
    try {
      const mark = await this.#options.store.resources.changeMark();
      if (mark !== this.#mark) {
        await this.#read();
        this.#mark = mark;
      }
      this.setState({ available: true, synced: true, reason: null, lastEventAt: this.#options.clock.monotonic() });
    } catch (error) {
      const reason = (error as Error).message;
      if (this.setState({ available: false, reason })) {
        this.#options.logger.warn({ reason }, 'the database that holds the resources is unavailable');
      }
    }
    if (this.#running) this.#timer = setTimeout(() => void this.#poll(), this.#pollMs);
  }

  async #read(): Promise<void> {
    const result = this.#turn.then(async () => {
      let writes: number;
      let stored: readonly StoredResource[];
      do {
        // What we write ourselves while the rows are on their way is newer than they are.
        writes = this.#writes;
        stored = await this.#options.store.resources.all();
      } while (writes !== this.#writes);
      const next = new Map<string, Resource>();
      for (const row of stored) {
        const fresh = resourceOfStored(row);
        const current = this.#resources.get(keyText(row));
        next.set(keyText(row), current !== undefined && isDeepStrictEqual(current, fresh) ? current : fresh);
      }
      this.#replace(next);
    });
    this.#turn = result.catch(() => undefined);
    await result;
  }
}
