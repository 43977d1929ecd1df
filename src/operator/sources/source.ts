import { GatewayError } from '../../model/errors.ts';
import type { Kind, OwnerReference, Resource, ResourceKey, ResourceStatus } from '../../model/resource.ts';
import type { Fence, SourceName, StoredResource } from '../../store/store.ts';

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
  /** For people: a file's path and document, or the resource's key. */
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

/** A resource as a write of this process left it. */
export interface WrittenResource {
  readonly resource: Resource;
  readonly writers: readonly FieldWriter[];
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

/**
 * Source of resources (docs/architecture.md#the-way-of-the-data). Three back ends: Kubernetes, a directory of
 * manifests, the database. Reads are from memory and never wait; writes are stored in that memory before it resolves,
 * so that the writer reads its own write.
 *
 * Writes reject with a GatewayError: EG_CONFLICT (create of what exists), EG_FIELD_OWNED, EG_NOT_FOUND, EG_READ_ONLY,
 * EG_SOURCE_UNAVAILABLE, EG_DATABASE_UNAVAILABLE (source `database`), EG_IMPOSSIBLE (the API server rejects the spec);
 * or with `VersionConflict`. In each case nothing was changed.
 */
export interface ResourceSource {
  readonly name: SourceName;
  readonly writeNamespace: string;
  /**
   * Gives the source what the database remembers of its resources, before `start`: what a directory cannot hold
   * itself (creation time, generation, status) is taken from there.
   */
  restore(stored: readonly StoredResource[]): void;
  /**
   * Begins reading and watching. Resolves when it has synced or when the time is over; watching continues after that.
   */
  start(syncTimeoutMs: number): Promise<void>;
  stop(): Promise<void>;
  state(): SourceState;
  problems(): readonly SourceProblem[];
  /** All resources, in no particular order. */
  list(kind: Kind): readonly Resource[];
  /** Another number after each change of what `list`, `get` and `provenance` answer for resources of a kind. */
  changeCount(kind: Kind): number;
  get(key: ResourceKey): Resource | null;
  /**
   * True if a resource, also one that the database remembers, is this gateway's own
   * (docs/resources.md#several-gateways).
   */
  selects(resource: Resource): boolean;
  /** True if there is a resource of that key that is another gateway's: `get` returns null for it. */
  isOfAnother(key: ResourceKey): boolean;
  /** Where a resource is written; null when it is not there. */
  provenance(key: ResourceKey): Provenance | null;
  /** Authors of a resource's changes; empty if the source does not know them. */
  writers(key: ResourceKey): readonly FieldWriter[];
  /** Returns what the last create or apply of this process left; null if it deleted the resource since, or the source does not know writers. */
  lastWrite(key: ResourceKey): WrittenResource | null;
  /** Registers a listener for changed keys; the response removes it. */
  watch(listener: ChangeListener): () => void;
  /** Registers a listener for changes of state or problems; the response removes it. Must not throw. */
  onState(listener: () => void): () => void;
  create(resource: NewResource): Promise<Resource>;
  apply(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource>;
  /** Deletes a resource; false when it is not there. With `expectedVersion` only that version. */
  delete(key: ResourceKey, expectedVersion: string | null): Promise<boolean>;
  /** Writes the status of the resource with this uid; does nothing when that is gone. Only the leader calls it. */
  patchStatus(key: ResourceKey, uid: string, status: ResourceStatus, fence: Fence | null): Promise<void>;
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
