import { isDeepStrictEqual } from 'node:util';
import { isPaused } from '../../kinds/outcome.ts';
import type { ResourceKind } from '../../kinds/resourceKind.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, type Resource, type ResourceKey } from '../../model/resource.ts';
import type { Controller } from '../reconcile/controller.ts';
import { isEmptyChange } from '../sources/resourceChange.ts';
import { noSuchResource, type ResourceChange, type ResourceSource } from '../sources/source.ts';
import { type ResourceReference, referenceTo } from './appliedChange.ts';
import { specVersion } from './declaredResource.ts';
import { decideRepeatedly } from './repeatedDecision.ts';
import type { ApiWrites } from './resourceClusterRegistry.ts';

/** A spec as a caller wants it, whole: what is absent has its default. */
export type WantedSpec = Readonly<Record<string, unknown>>;

export interface SpecWriteContext {
  readonly force: boolean;
  /** `specVersion` of what the caller has seen; undefined: whatever there is is replaced. */
  readonly version: string | undefined;
}

export interface SpecWrite {
  /** True when the database is unavailable and catches up later. */
  readonly pending: boolean;
  readonly resource: ResourceReference;
}

export interface SpecWritesOptions {
  readonly source: ResourceSource;
  readonly controller: Pick<Controller, 'refreshNow' | 'whenStored' | 'expectDeletion'>;
  readonly apiWrites: ApiWrites;
}

interface SpecSchema {
  readonly properties: Readonly<Record<string, { readonly default?: unknown }>>;
}

/** Fields of a spec that no call of the REST API writes: they say whose the resource is. */
const ownFields = new Set(['name', 'gatewayClassName']);

/**
 * Writes resources of a kind whose spec callers send whole (docs/rest-api.md#groups-and-limits). A write is in force and
 * stored when it resolves. Writes reject with a GatewayError: EG_CONFLICT (another version, paused, another gateway's),
 * EG_NOT_FOUND, EG_FIELD_OWNED, EG_READ_ONLY, EG_API_WRITES_DISABLED, EG_SOURCE_UNAVAILABLE.
 */
export class SpecWrites {
  readonly #kind: ResourceKind;
  readonly #options: SpecWritesOptions;

  constructor(kind: ResourceKind, options: SpecWritesOptions) {
    this.#kind = kind;
    this.#options = options;
  }

  async put(key: ResourceKey, wanted: WantedSpec, context: SpecWriteContext): Promise<SpecWrite> {
    this.#mayWrite('changed');
    const { source } = this.#options;
    return await this.#decided(async () => {
      const present = this.#present(key, context.version);
      if (present === null) {
        // A name that is no Kubernetes name goes with the creation.
        return await this.#settle(await source.create({ ...key, spec: wanted }));
      }
      return await this.#apply(present, wanted, context.force);
    });
  }

  /**
   * Changes the spec of a resource that is there. Rejects as `edit` does, and with EG_NOT_FOUND.
   * @param edit answers the spec as it is to be, whole; called again where the resource was changed meanwhile
   */
  async change(
    key: ResourceKey,
    edit: (present: Resource) => WantedSpec,
    { force }: Pick<SpecWriteContext, 'force'>,
  ): Promise<SpecWrite> {
    this.#mayWrite('changed');
    return await this.#decided(async () => {
      const present = this.#present(key, undefined);
      if (present === null) throw noSuchResource(key);
      return await this.#apply(present, edit(present), force);
    });
  }

  async delete(key: ResourceKey, version: string | undefined): Promise<SpecWrite> {
    this.#mayWrite('deleted');
    const { source, controller } = this.#options;
    return await this.#decided(async () => {
      const present = this.#present(key, version);
      if (present === null) {
        throw new GatewayError('EG_NOT_FOUND', `there is no ${key.kind} ${key.namespace}/${key.name}`, {
          field: 'name',
        });
      }
      const unexpect = controller.expectDeletion(key);
      try {
        await source.delete(key, version === undefined ? null : present.metadata.resourceVersion);
      } catch (error) {
        unexpect();
        throw error;
      }
      return await this.#settle(present);
    });
  }

  async #apply(present: Resource, wanted: WantedSpec, force: boolean): Promise<SpecWrite> {
    const change = this.#change(present, wanted);
    if (isEmptyChange(change)) return await this.#settle(present);
    const expectedVersion = present.metadata.resourceVersion;
    return await this.#settle(await this.#options.source.apply(keyOf(present), change, { force, expectedVersion }));
  }

  #mayWrite(what: string): void {
    const mode = this.#options.apiWrites;
    if (mode === 'enabled') return;
    const { plural } = this.#kind;
    throw new GatewayError(
      'EG_API_WRITES_DISABLED',
      `resources.apiWrites is ${mode}: ${plural} cannot be ${what} by REST`,
    );
  }

  #present(key: ResourceKey, version: string | undefined): Resource | null {
    const { source } = this.#options;
    const name = `${key.kind} ${key.namespace}/${key.name}`;
    if (source.isOfAnother(key)) {
      throw new GatewayError('EG_CONFLICT', `${name} is another gateway's, by its class, labels or namespace`, {
        field: 'name',
      });
    }
    const present = source.get(key);
    if (version !== undefined && (present === null || specVersion(present) !== version)) {
      const what = present === null ? 'deleted' : 'changed';
      throw new GatewayError('EG_CONFLICT', `${name} was ${what} meanwhile; look at it again`, { field: 'version' });
    }
    if (present !== null && isPaused(present)) {
      throw new GatewayError('EG_CONFLICT', `${name} is paused; remove its annotation enginegateway.dev/paused first`);
    }
    return present;
  }

  /** Only what differs, so that equal values are not taken over from who owns them. */
  #change({ spec }: Resource, wanted: WantedSpec): ResourceChange {
    const { properties } = this.#kind.spec as unknown as SpecSchema;
    const defaults = new Map(Object.entries(properties).map(([field, schema]) => [field, schema.default]));
    const set: Record<string, unknown> = {};
    for (const [field, value] of Object.entries(wanted)) {
      const present = spec[field] ?? defaults.get(field);
      if (!ownFields.has(field) && !isDeepStrictEqual(present, value)) set[field] = value;
    }
    const remove = Object.keys(spec).filter(
      (field) =>
        !ownFields.has(field) && wanted[field] === undefined && !isDeepStrictEqual(spec[field], defaults.get(field)),
    );
    return { set, remove, annotations: {} };
  }

  /** Has own table and database follow a written resource. */
  async #settle(resource: Resource): Promise<SpecWrite> {
    const { controller } = this.#options;
    controller.refreshNow();
    const result = await controller.whenStored(resource);
    return { pending: result === 'pending', resource: referenceTo(resource) };
  }

  async #decided<T>(decide: () => Promise<T>): Promise<T> {
    return await decideRepeatedly(decide, () => this.#options.controller.refreshNow());
  }
}
