import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { GatewayError } from '../../model/errors.ts';
import { type LabelSelector, labelsFor, matchesLabels } from '../../model/labelSelector.ts';
import { isRecord } from '../../model/record.ts';
import {
  API_FIELD_MANAGER,
  API_GROUP,
  apiVersionOf,
  gatewayClassOf,
  type Kind,
  type OwnerReference,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
  registryNameOf,
} from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { BackendRow, Fence, SourceName, StoredResource } from '../../store/store.ts';

/** Availability of a source, with the start of an outage. */
export interface SourceState {
  /** True once everything there was at the start has been read; stays true. */
  readonly synced: boolean;
  readonly available: boolean;
  /** Reason that it is unavailable as text, or null. */
  readonly reason: string | null;
  /** Monotonic milliseconds of the last sign of life (event, bookmark, look at the directory); null before the first. */
  readonly lastEventAt: number | null;
}

/** A mistake in what a source holds that belongs to no readable resource: a broken document, a doubled identity. */
export interface SourceProblem {
  /** A file's path, or a key. */
  readonly place: string;
  /** Document in the file, counted from 1; null when it is about the whole. */
  readonly document: number | null;
  /** Line in the file, counted from 1; null when it is missing. */
  readonly line: number | null;
  readonly message: string;
}

/** Location and author of a resource. */
export interface Provenance {
  /** A file's path and document, or the resource's key. */
  readonly place: string;
  /** Field managers of its spec (Kubernetes: managedFields), each with the fields it owns; empty elsewhere. */
  readonly managers: readonly { readonly manager: string; readonly fields: readonly string[] }[];
}

/** A field manager that wrote something of a resource other than its status (Kubernetes: managedFields). */
export interface FieldWriter {
  readonly manager: string;
  readonly operation: string;
  /** When it changed something last, RFC 3339 in seconds. */
  readonly time: string;
}

export interface NewResource extends ResourceKey {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A resource that another one owns: what its owner states of it, whole. */
export interface OwnedResource extends NewResource {
  readonly owner: OwnerReference;
}

/** A change to fields of `spec` and to annotations. What is not named stays. */
export interface ResourceChange {
  /** Fields of `spec` with their new values. */
  readonly set: Readonly<Record<string, unknown>>;
  /** Fields of `spec` to take out. */
  readonly remove: readonly string[];
  /** Annotations; null takes one out. */
  readonly annotations: Readonly<Record<string, string | null>>;
}

/** Called with a key that was added, changed or deleted; `status`: only its status changed, by another writer. Must not throw. */
export type ChangeListener = (key: ResourceKey, part: 'resource' | 'status') => void;

export interface ApplyOptions {
  /** Takes fields over from other managers, where the source knows managers (Kubernetes). */
  readonly force: boolean;
  /** The resource must still have this version; otherwise `VersionConflict`. */
  readonly expectedVersion: string;
}

/** The resource changed meanwhile: read it again and decide again. Not an error of the caller. */
export class VersionConflict extends Error {
  override readonly name = 'VersionConflict';

  constructor(key: ResourceKey) {
    super(`${key.kind} ${key.namespace}/${key.name} was changed at the same time`);
  }
}

/** A write was rejected as another replica is the leader by now: nothing was changed. */
export class FencedWrite extends Error {
  override readonly name = 'FencedWrite';

  constructor() {
    super('another replica is the leader');
  }
}

export function noSuchResource({ kind, namespace, name }: ResourceKey): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `there is no ${kind} ${namespace}/${name}`);
}

export function resourceExists({ kind, namespace, name }: ResourceKey): GatewayError {
  return new GatewayError('EG_CONFLICT', `${kind} ${namespace}/${name} already exists`);
}

/** Which resources of a source are a gateway's own (docs/resources.md#several-gateways). */
export interface ResourceSelection {
  /** `resources.class`; null: resources that name no class. */
  readonly gatewayClass: string | null;
  /** `resources.labelSelector`; null: whatever their labels are. */
  readonly labels: LabelSelector | null;
  /** `resources.namespaces`; null: of every namespace that the source reads. */
  readonly namespaces: ReadonlySet<string> | null;
}

/**
 * Source of resources (docs/architecture.md#the-way-of-the-data). Three back ends: Kubernetes, a directory of
 * manifests, the database. Reads are from memory and never wait; writes are stored in that memory before it resolves,
 * so that the writer reads its own write.
 *
 * It shows the gateway's own resources: those of its class, labels and namespaces. All others are as if they were not there, and
 * nothing of theirs is written. What is created gets the class and the labels.
 *
 * Writes reject with a GatewayError: EG_CONFLICT (create of what exists), EG_FIELD_OWNED, EG_NOT_FOUND, EG_READ_ONLY,
 * EG_SOURCE_UNAVAILABLE, EG_DATABASE_UNAVAILABLE (source `database`), EG_IMPOSSIBLE (the API server rejects the spec);
 * or with `VersionConflict`. In each case nothing was changed.
 */
export abstract class ResourceSource {
  abstract readonly name: SourceName;
  abstract readonly writeNamespace: string;
  #selection: ResourceSelection | null = null;
  readonly #changeListeners = new Set<ChangeListener>();
  readonly #stateListeners = new Set<() => void>();
  readonly #changes = new Map<Kind, number>();
  /** Lists by kind: to make them takes 2 ms of a refresh with 5,000 resources. */
  readonly #lists = new Map<Kind, { readonly change: number; readonly own: readonly Resource[] }>();
  #changesOfAll = 0;

  /** Restricts the source to the gateway's own resources; before its start. */
  selecting(selection: ResourceSelection): this {
    this.#selection = selection;
    return this;
  }

  /**
   * Gives the source what the database remembers of its resources, before `start`: what a directory cannot hold
   * itself (creation time, generation, status) is taken from there.
   */
  restore(_stored: readonly StoredResource[]): void {
    // Most hold everything themselves.
  }

  /**
   * Begins reading and watching. Resolves when it has synced or when the time is over; watching continues after that.
   */
  abstract start(syncTimeoutMs: number): Promise<void>;
  abstract stop(): Promise<void>;
  abstract state(): SourceState;

  problems(): readonly SourceProblem[] {
    return [];
  }

  /** All own resources, in no particular order: the same list while none of the kind changes. */
  list(kind: Kind): readonly Resource[] {
    const change = this.changeCount(kind);
    const last = this.#lists.get(kind);
    if (last?.change === change) return last.own;
    const own = this.readAll(kind).filter((resource) => this.selects(resource));
    this.#lists.set(kind, { change, own });
    return own;
  }

  get(key: ResourceKey): Resource | null {
    const resource = this.read(key);
    return resource !== null && this.selects(resource) ? resource : null;
  }

  /** Another number after each change of what `list`, `get` and `provenance` return for resources of a kind. */
  changeCount(kind: Kind): number {
    return this.#changesOfAll + (this.#changes.get(kind) ?? 0);
  }

  /** True if a resource, also one that the database remembers, is this gateway's own. */
  selects({ spec, metadata }: Pick<Resource, 'spec' | 'metadata'>): boolean {
    if (this.#selection === null) return true;
    const { gatewayClass, labels, namespaces } = this.#selection;
    if (gatewayClassOf(spec) !== gatewayClass) return false;
    // Resources of the cluster have none.
    const { namespace } = metadata;
    if (namespaces !== null && namespace !== '' && !namespaces.has(namespace)) return false;
    return labels === null || matchesLabels(labels, metadata.labels ?? {});
  }

  /** True if there is a resource of that key that is another gateway's: `get` returns null for it. */
  isOfAnother(key: ResourceKey): boolean {
    const resource = this.read(key);
    return resource !== null && !this.selects(resource);
  }

  /** Location and author of a resource; null when it is not there. */
  provenance(key: ResourceKey): Provenance | null {
    return this.get(key) === null ? null : { place: this.placeOf(key), managers: [] };
  }

  /** Authors of the changes of a resource, as this source has read or written it; empty if the source does not know them. */
  writers(_resource: Resource): readonly FieldWriter[] {
    return [];
  }

  /** Registers a listener for changed keys; the response removes it. */
  watch(listener: ChangeListener): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  /** Registers a listener for changes of state or problems; the response removes it. Must not throw. */
  onState(listener: () => void): () => void {
    this.#stateListeners.add(listener);
    return () => this.#stateListeners.delete(listener);
  }

  async create(resource: NewResource): Promise<Resource> {
    return await this.createResource(this.complete(resource));
  }

  async apply(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource> {
    if (this.get(key) === null) throw noSuchResource(key);
    return await this.applyChange(key, change, options);
  }

  /** Deletes a resource; false when it is not there. With `expectedVersion` only that version. */
  async delete(key: ResourceKey, expectedVersion: string | null): Promise<boolean> {
    return !this.isOfAnother(key) && (await this.deleteResource(key, expectedVersion));
  }

  /** Writes the status of the resource with this uid; does nothing when that is gone. Only the leader calls it. */
  async patchStatus(key: ResourceKey, uid: string, status: ResourceStatus, fence: Fence | null): Promise<void> {
    if (this.get(key) !== null) await this.writeStatus(key, uid, status, fence);
  }

  /** A resource with the class and the labels that make it this gateway's own. @throws GatewayError EG_IMPOSSIBLE */
  protected complete<Fresh extends NewResource>(fresh: Fresh): Fresh {
    const { gatewayClass = null, labels: selector = null } = this.#selection ?? {};
    const labels = selector === null ? {} : labelsFor(selector);
    if (labels === null) {
      throw new GatewayError(
        'EG_IMPOSSIBLE',
        'no labels meet resources.labelSelector, so that nothing can be created; change it in the configuration',
      );
    }
    return {
      ...fresh,
      labels: { ...labels, ...fresh.labels },
      spec: gatewayClass === null ? fresh.spec : { gatewayClassName: gatewayClass, ...fresh.spec },
    };
  }

  /** All resources of a kind, whichever gateway's they are. */
  protected abstract readAll(kind: Kind): readonly Resource[];
  protected abstract read(key: ResourceKey): Resource | null;
  /** A file's path and document, or the resource's key. */
  protected abstract placeOf(key: ResourceKey): string;
  protected abstract createResource(resource: NewResource): Promise<Resource>;
  protected abstract applyChange(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource>;
  protected abstract deleteResource(key: ResourceKey, expectedVersion: string | null): Promise<boolean>;
  protected abstract writeStatus(
    key: ResourceKey,
    uid: string,
    status: ResourceStatus,
    fence: Fence | null,
  ): Promise<void>;

  /** Counts a change that listeners need not know of, e.g. of where a resource is written. @param kind left out, of any kind */
  protected countChange(kind?: Kind): void {
    if (kind === undefined) this.#changesOfAll += 1;
    else this.#changes.set(kind, (this.#changes.get(kind) ?? 0) + 1);
  }

  /** Reports that an own resource, or one that has ceased to be, was added, changed or deleted; `status`: only its status changed. */
  protected reportChange(key: ResourceKey, before: Resource | null, part: 'resource' | 'status' = 'resource'): void {
    this.countChange(key.kind);
    if (this.get(key) === null && (before === null || !this.selects(before))) return;
    for (const listener of this.#changeListeners) listener(key, part);
  }

  /** Reports that state or problems changed. */
  protected reportState(): void {
    for (const listener of this.#stateListeners) listener();
  }
}

/** A source that looks again and again, and keeps what its last look found. */
export abstract class PolledSource extends ResourceSource {
  #state: SourceState = { synced: false, available: false, reason: 'not read yet', lastEventAt: null };
  readonly #synced = Promise.withResolvers<void>();

  state(): SourceState {
    return this.#state;
  }

  /** Takes over what a look found; true when it is unavailable from now on. */
  protected setState(change: Partial<SourceState>): boolean {
    const before = this.#state;
    this.#state = { ...before, ...change };
    if (this.#state.synced) this.#synced.resolve();
    const { available, synced, reason } = this.#state;
    if (before.available === available && before.synced === synced && before.reason === reason) return false;
    this.reportState();
    return !this.#state.available;
  }

  /** Resolves when everything has been read once, or when the time is over. */
  protected async whenSynced(timeoutMs: number): Promise<void> {
    await within(this.#synced.promise, timeoutMs, undefined);
  }
}

/** Sets or (null) removes annotations, without regard to the owners of other fields. */
export function annotate(
  source: Pick<ResourceSource, 'apply'>,
  key: ResourceKey,
  annotations: Readonly<Record<string, string | null>>,
  expectedVersion: string,
): Promise<Resource> {
  return source.apply(key, { set: {}, remove: [], annotations }, { force: false, expectedVersion });
}

/** A resource after a change, metadata that the source assigns left as it was. */
export function changedResource(resource: Resource, change: ResourceChange): Resource {
  const spec: Record<string, unknown> = { ...resource.spec, ...change.set };
  for (const field of change.remove) delete spec[field];
  const annotations: Record<string, string> = { ...resource.metadata.annotations };
  for (const [name, value] of Object.entries(change.annotations)) {
    if (value === null) delete annotations[name];
    else annotations[name] = value;
  }
  return { ...resource, metadata: { ...resource.metadata, annotations }, spec };
}

export function isEmptyChange(change: ResourceChange): boolean {
  return (
    Object.keys(change.set).length === 0 && change.remove.length === 0 && Object.keys(change.annotations).length === 0
  );
}

/** A row of `eg_resources` as a resource. */
export function resourceOfStored(stored: StoredResource): Resource {
  return {
    apiVersion: apiVersionOf(stored.kind),
    kind: stored.kind,
    metadata: {
      name: stored.name,
      namespace: stored.namespace,
      uid: stored.uid,
      resourceVersion: stored.resourceVersion,
      generation: stored.generation,
      creationTimestamp: stored.creationTimestamp,
      labels: stored.labels,
      annotations: stored.annotations,
    },
    spec: stored.spec,
    ...(stored.status === null ? {} : { status: stored.status as ResourceStatus }),
  };
}

/** A resource as a row of `eg_resources`. @param row that it gives in `gateway_backend` */
export function storedOfResource(resource: Resource, source: SourceName, row: BackendRow | null): StoredResource {
  const { metadata } = resource;
  return {
    kind: resource.kind,
    namespace: metadata.namespace,
    name: metadata.name,
    registryName: registryNameOf(resource),
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    generation: metadata.generation,
    creationTimestamp: metadata.creationTimestamp,
    spec: resource.spec,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    status: resource.status === undefined ? null : { ...resource.status },
    source,
    row,
  };
}

/**
 * True if a row of `eg_resources` of one resource is also that of the other. On Kubernetes each written status makes a version,
 * and the status is kept there: neither makes a row out of date.
 */
export function isSameResource(a: Resource, b: Resource, source: SourceName): boolean {
  if (a === b) return true;
  return (
    a.metadata.uid === b.metadata.uid &&
    a.metadata.generation === b.metadata.generation &&
    isDeepStrictEqual(a.spec, b.spec) &&
    isDeepStrictEqual(a.metadata.annotations ?? {}, b.metadata.annotations ?? {}) &&
    (source === 'kubernetes' ||
      (a.metadata.resourceVersion === b.metadata.resourceVersion && isDeepStrictEqual(a.status, b.status)))
  );
}

/** Audited part of a resource: its spec and the gateway's own annotations. */
export function stateOf({ spec, metadata }: Pick<Resource, 'spec' | 'metadata'>): object {
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([name]) => name.startsWith(`${API_GROUP}/`));
  return annotations.length === 0 ? spec : { ...spec, annotations: Object.fromEntries(annotations) };
}

const digests = new WeakMap<object, string>();

/** Digest of all that the audit compares of a resource, secrets and what is cut included. */
export function stateDigest(resource: Pick<Resource, 'spec' | 'metadata'>): string {
  return digests.getOrInsertComputed(resource, () => digestOfState(stateOf(resource)));
}

/**
 * Digest of what a write by REST left of a resource. Another write by the same field manager has another digest, as its time or
 * its state differs: the name of a manager is any client's to choose.
 */
export function writeDigest(resource: Pick<Resource, 'spec' | 'metadata'>, writers: readonly FieldWriter[]): string {
  const own = writers.filter(({ manager }) => manager === API_FIELD_MANAGER);
  return digestOfState([
    'written',
    stateDigest(resource),
    ...own.map((each) => `${each.operation} ${each.time}`).toSorted(),
  ]);
}

/** Digest of a state, with any order of its fields. What is gone has that of a list of its uid. */
export function digestOfState(state: object): string {
  const cached = digests.get(state);
  if (cached !== undefined) return cached;
  const text = JSON.stringify(state, (_, value: unknown) =>
    isRecord(value) ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) : value,
  );
  const digest = createHash('sha256').update(text).digest('hex');
  digests.set(state, digest);
  return digest;
}
