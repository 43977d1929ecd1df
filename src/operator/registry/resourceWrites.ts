import { createHash } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type Acceptance, isSuspended, type ResourceOutcome } from '../../kinds/outcome.ts';
import type { ResourceKind } from '../../kinds/resourceKind.ts';
import type { Clock } from '../../model/clock.ts';
import type { ClusterAddresses } from '../../model/clusterAddresses.ts';
import { GatewayError } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import {
  type Condition,
  type Kind,
  keyOf,
  type Resource,
  type ResourceKey,
  registryNameOf,
} from '../../model/resource.ts';
import { resourceNames } from '../../model/resourceName.ts';
import type { RoutingTableHolder } from '../../routing/routingTable.ts';
import type { GrantRejection } from '../../rules/tenancy.ts';
import type { Controller } from '../reconcile/controller.ts';
import {
  isEmptyChange,
  noSuchResource,
  type Provenance,
  type ResourceChange,
  type ResourceSource,
  VersionConflict,
  writeDigest,
} from '../sources/source.ts';

/** Number of times that a write is decided again as the resource changed under it. */
const ATTEMPTS = 5;

/** `resources.apiWrites`. */
export type ApiWrites = 'enabled' | 'activation-only' | 'off';

/** Author and force flag of a change. */
export interface WriteContext {
  /** Name for the audit and for override annotations, e.g. `api` or a user. */
  readonly by: string;
  readonly force: boolean;
  /** Namespace of a new resource; undefined: the gateway's own. */
  readonly namespace?: string | undefined;
}

export interface SpecWriteContext {
  readonly force: boolean;
  readonly namespace?: string | undefined;
  /** `specVersion` of what the caller has seen; undefined: whatever there is is replaced. */
  readonly version: string | undefined;
}

export interface ResourceReference extends ResourceKey {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Of what a call left, for the audit. */
  readonly digest?: string;
}

/** A write of a resource. */
export interface SpecWrite {
  /** True when the database is unavailable and catches up later. */
  readonly pending: boolean;
  readonly resource: ResourceReference;
}

/** Object of a change: a resource, or an object without one (resource groups, a rules file). */
export type ChangedThing = ResourceReference | 'gateway';

/** A change that a user made by REST and that is active. */
export interface AppliedChange {
  /** In words, e.g. `cluster etl-1`. */
  readonly object: string;
  readonly regarding: ChangedThing;
  /** Its fields as they were; null: it was not there. */
  readonly before: unknown;
  /** Its fields as they are; null: it is gone. */
  readonly after: unknown;
  readonly user: string;
  readonly roles: readonly string[];
  /** Authentication method, e.g. `session`; `open` without authentication. */
  readonly recognisedBy: string;
}

export function referenceTo({ kind, metadata }: Resource): ResourceReference {
  const { namespace, name, uid, resourceVersion } = metadata;
  return { kind, namespace, name, uid, resourceVersion };
}

/** A resource for users: where it is written, and what its status states. */
export interface DeclaredResource extends Provenance {
  readonly namespace: string;
  readonly name: string;
  readonly generation: number;
  readonly suspended: boolean;
  /** As its status has them, which the leader writes. */
  readonly conditions: readonly Condition[];
}

/** The resource of an outcome, with its present status. */
export function declaredResource(
  { resource, suspended }: ResourceOutcome,
  source: Pick<ResourceSource, 'get' | 'provenance'>,
): DeclaredResource {
  const key = keyOf(resource);
  // The outcome holds the resource as it was when anything but its status changed last.
  const conditions = (source.get(key) ?? resource).status?.conditions ?? [];
  const { namespace, name, generation } = resource.metadata;
  const provenance = source.provenance(key) ?? { place: '', managers: [] };
  return { namespace, name, generation, suspended, conditions, ...provenance };
}

/** A short text that changes whenever a value does. */
export function digestOfJson(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url').slice(0, 16);
}

/** A short text that changes whenever what a resource declares does. */
export function specVersion({ metadata, spec }: Resource): string {
  return digestOfJson([metadata.uid, spec]);
}

/** Fields of a spec that no call of the REST API writes: they state the owner of the resource. */
const ownFields = new Set(['name', 'gatewayClassName']);

/**
 * Writes of resources by REST (docs/resources.md#rest-writes). A write is active and stored when it resolves. Writes reject with a
 * GatewayError: EG_CONFLICT (another version, suspended, another gateway's), EG_NOT_FOUND, EG_FIELD_OWNED, EG_READ_ONLY,
 * EG_API_WRITES_DISABLED, EG_IMPOSSIBLE, EG_SOURCE_UNAVAILABLE.
 */
export class ResourceWrites {
  readonly source: ResourceSource;
  readonly controller: Controller;
  readonly table: RoutingTableHolder;
  readonly addresses: ClusterAddresses;
  readonly clock: Clock;
  readonly #apiWrites: ApiWrites;

  constructor(
    source: ResourceSource,
    controller: Controller,
    table: RoutingTableHolder,
    addresses: ClusterAddresses,
    clock: Clock,
    apiWrites: ApiWrites,
  ) {
    this.source = source;
    this.controller = controller;
    this.table = table;
    this.addresses = addresses;
    this.clock = clock;
    this.#apiWrites = apiWrites;
  }

  /** Rejects what `resources.apiWrites` does not allow. @param what begin of the sentence, such as `cannot add a cluster` */
  mayWrite(what: string, isActivation = false): void {
    const mode = this.#apiWrites;
    if (mode === 'enabled' || (mode === 'activation-only' && isActivation)) return;
    throw new GatewayError('EG_API_WRITES_DISABLED', `${what} by REST: resources.apiWrites is ${mode}`);
  }

  /** Decides on a write, and again where the resource changed meanwhile. Rejects as the decision does. */
  async decide<T>(decision: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await decision();
      } catch (error) {
        if (!(error instanceof VersionConflict)) throw error;
        if (attempt === ATTEMPTS)
          throw new GatewayError('EG_CONFLICT', `${error.message}; try again`, { cause: error });
        // The source has the other's change at hand or is reading it.
        await sleep(50 * attempt);
        this.controller.refreshNow();
      }
    }
  }

  /** The key of a resource to be created for a registry name: the first name for it that nothing else has. */
  newKey(kind: Kind, registryName: string, namespace = this.source.writeNamespace): ResourceKey {
    const { source } = this;
    if (namespace !== source.writeNamespace && this.controller.tenancy.tenantOf(namespace) === null) {
      const message = `namespace ${namespace} is neither the gateway's own nor one of a tenant`;
      throw new GatewayError('EG_IMPOSSIBLE', message, { field: 'namespace' });
    }
    const keys = resourceNames(registryName).map((name) => ({ kind, namespace, name }));
    // The next candidate is for a name that a resource of another registry name, or of another gateway, has.
    const isFree = (key: ResourceKey): boolean => {
      const there = source.get(key);
      return (there === null || registryNameOf(there) === registryName) && !source.isOfAnother(key);
    };
    return keys.find(isFree) as ResourceKey;
  }

  /** The outcome that holds a registry name, among those of a kind, or null. */
  holder<Outcome extends ResourceOutcome & { readonly acceptance: Acceptance }>(
    name: string,
    isOfKind: (outcome: ResourceOutcome) => outcome is Outcome,
  ): Outcome | null {
    const outcomes = this.controller.outcomes.values().filter(isOfKind);
    const isHolder = ({ registryName, acceptance }: Outcome) =>
      registryName === name && acceptance.reason !== 'NameConflict';
    return outcomes.find(isHolder) ?? null;
  }

  /** Rejects to change a suspended resource. */
  mustNotBeSuspended(resource: Resource): void {
    if (!isSuspended(resource)) return;
    const message = `${titleOf(keyOf(resource))} is suspended; set its spec.suspend to false first`;
    throw new GatewayError('EG_CONFLICT', message);
  }

  /** Changes a resource as it was decided on; an empty change leaves it as it is. */
  async apply(resource: Resource, change: ResourceChange, force: boolean): Promise<Resource> {
    if (isEmptyChange(change)) return resource;
    const expectedVersion = resource.metadata.resourceVersion;
    return await this.source.apply(keyOf(resource), change, { force, expectedVersion });
  }

  /** Deletes a resource, which is no loss. @param isVersioned true: only as it was decided on */
  async remove(resource: Resource, isVersioned: boolean): Promise<void> {
    const key = keyOf(resource);
    const unexpect = this.controller.expectDeletion(key);
    try {
      await this.source.delete(key, isVersioned ? resource.metadata.resourceVersion : null);
    } catch (error) {
      unexpect();
      throw error;
    }
  }

  /** Has own table and database follow a written or deleted resource. */
  async settle(resource: Resource): Promise<SpecWrite> {
    // With thousands of resources each of these steps takes a while, and SQLite gets a response within a turn.
    await nextTurn();
    this.controller.refreshNow();
    await nextTurn();
    const pending = (await this.controller.whenStored(resource)) === 'pending';
    // What follows looks through all resources again.
    await nextTurn();
    const digest = writeDigest(resource, this.source.writers(resource));
    return { pending, resource: { ...referenceTo(resource), digest } };
  }

  /** Creates a resource with a spec that is sent whole, or changes the present one. */
  async put(
    { spec: schema, plural }: ResourceKind,
    key: ResourceKey,
    wanted: Resource['spec'],
    { force, version }: SpecWriteContext,
  ): Promise<SpecWrite> {
    this.mayWrite(`${plural} cannot be changed`);
    return await this.decide(async () => {
      const present = this.#present(key, version);
      // A name that is no Kubernetes name goes with the creation.
      if (present === null) return await this.settle(await this.source.create({ ...key, spec: wanted }));
      return await this.settle(await this.apply(present, wholeChange(schema, present, wanted), force));
    });
  }

  /** Changes the spec of a present resource. Rejects as `edit` does, which is called again where the resource changed meanwhile. */
  async change(
    { spec: schema, plural }: ResourceKind,
    key: ResourceKey,
    edit: (present: Resource) => Resource['spec'] | Promise<Resource['spec']>,
    force: boolean,
  ): Promise<SpecWrite> {
    this.mayWrite(`${plural} cannot be changed`);
    return await this.decide(async () => {
      const present = this.#present(key, undefined);
      if (present === null) throw noSuchResource(key);
      const change = wholeChange(schema, present, await edit(present));
      return await this.settle(await this.apply(present, change, force));
    });
  }

  async delete({ plural }: ResourceKind, key: ResourceKey, version: string | undefined): Promise<SpecWrite> {
    this.mayWrite(`${plural} cannot be deleted`);
    return await this.decide(async () => {
      const present = this.#present(key, version);
      if (present === null) throw new GatewayError('EG_NOT_FOUND', `there is no ${titleOf(key)}`, { field: 'name' });
      await this.remove(present, version !== undefined);
      return await this.settle(present);
    });
  }

  #present(key: ResourceKey, version: string | undefined): Resource | null {
    const title = titleOf(key);
    if (this.source.isOfAnother(key)) {
      const message = `${title} is another gateway's, by its class, labels or namespace`;
      throw new GatewayError('EG_CONFLICT', message, { field: 'name' });
    }
    const present = this.source.get(key);
    if (version !== undefined && (present === null || specVersion(present) !== version)) {
      const what = present === null ? 'deleted' : 'changed';
      throw new GatewayError('EG_CONFLICT', `${title} was ${what} meanwhile; look at it again`, { field: 'version' });
    }
    return present;
  }
}

/** Rejects what would be stored and then not accepted. */
export function mustBeGranted(refusal: GrantRejection | null): void {
  if (refusal === null) return;
  const { field, message } = refusal;
  throw field === null
    ? new GatewayError('EG_IMPOSSIBLE', message)
    : new GatewayError('EG_IMPOSSIBLE', `${field}: ${message}`, { field });
}

function titleOf({ kind, namespace, name }: ResourceKey): string {
  return `${kind} ${namespace}/${name}`;
}

interface FieldSchema {
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
}

/** A value with the defaults of its schema, as the API server stores it. */
function withDefaults({ properties, items }: FieldSchema, value: unknown): unknown {
  if (Array.isArray(value)) return items === undefined ? value : value.map((each) => withDefaults(items, each));
  if (!isRecord(value) || properties === undefined) return value;
  const filled = Object.entries(properties).flatMap(([name, field]) => {
    const present = value[name] ?? field.default;
    return present === undefined ? [] : [[name, withDefaults(field, present)]];
  });
  return { ...value, ...Object.fromEntries(filled) };
}

/** The change to a spec that is sent whole: only what differs, so that equal values are not taken over from their owners. */
function wholeChange(schema: object, { spec }: Resource, wanted: Resource['spec']): ResourceChange {
  const present = withDefaults(schema, spec) as Resource['spec'];
  const whole = withDefaults(schema, wanted) as Resource['spec'];
  const fields = [...new Set([...Object.keys(wanted), ...Object.keys(spec)])].filter((field) => !ownFields.has(field));
  const changed = fields.filter((field) => !isDeepStrictEqual(present[field], whole[field]));
  return {
    set: Object.fromEntries(changed.flatMap((field) => (wanted[field] === undefined ? [] : [[field, wanted[field]]]))),
    remove: changed.filter((field) => wanted[field] === undefined),
    annotations: {},
  };
}

/** Numbers the states of immutable parts: the number grows whenever a part has changed since the last call. */
export class ChangeCount {
  #parts: readonly unknown[] = [];
  #count = 0;

  /** The number of the present state, from 1. @param parts always in the same order; compared by `Object.is` */
  of(parts: Iterable<unknown>): number {
    const present = [...parts];
    const isSame =
      present.length === this.#parts.length && present.every((part, index) => Object.is(part, this.#parts[index]));
    if (isSame && this.#count > 0) return this.#count;
    this.#parts = present;
    this.#count += 1;
    return this.#count;
  }
}
