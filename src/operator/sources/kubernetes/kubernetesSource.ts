import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { KindRegistry, ResourceKind } from '../../../kinds/resourceKind.ts';
import type { Clock, Random } from '../../../model/clock.ts';
import { GatewayError } from '../../../model/errors.ts';
import {
  API_FIELD_MANAGER,
  apiVersionOf,
  type Kind,
  keyText,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
} from '../../../model/resource.ts';
import { within } from '../../../model/timeLimit.ts';
import {
  type ApplyOptions,
  type FieldWriter,
  type NewResource,
  type OwnedResource,
  type Provenance,
  type ResourceChange,
  ResourceSource,
  resourceExists,
  type SourceState,
  VersionConflict,
} from '../source.ts';
import { Informer } from './informer.ts';
import { type KubeApi, type KubeObject, kindPath } from './kubeApi.ts';
import { fieldConflicts, fieldOwned, isUnavailable, kubeCode, unavailable, writeError } from './kubeErrors.ts';
import { type KubeResource, resourceOfObject, specManagers } from './kubeResource.ts';

const STATUS_FIELD_MANAGER = 'engine-gateway';

export interface KubernetesSourceOptions {
  readonly api: KubeApi;
  /** Kinds that are followed; left out, all there are. */
  readonly kinds: KindRegistry;
  /** Namespaces that are watched; null for all. */
  readonly namespaces: readonly string[] | null;
  readonly writeNamespace: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/**
 * Resources as custom resources on a Kubernetes API server. Writes by REST are server-side apply with the field manager
 * `engine-gateway-api`; statuses have the manager `engine-gateway`.
 */
export class KubernetesSource extends ResourceSource {
  readonly name = 'kubernetes';
  readonly writeNamespace: string;
  readonly #api: KubeApi;
  /** By kind and namespace; `*`: of all. */
  readonly #informers: ReadonlyMap<Kind, ReadonlyMap<string, Informer>>;
  readonly #all: readonly Informer[];
  readonly #clock: Clock;
  /** The last refusal of a status by an API server that is unavailable, and the monotonic milliseconds before which none is sent. */
  #statusPause: { readonly until: number; readonly rejection: GatewayError } | null = null;

  constructor(options: KubernetesSourceOptions) {
    super();
    this.#api = options.api;
    this.#clock = options.clock;
    this.writeNamespace = options.writeNamespace;
    const { api, kinds, namespaces, clock, random, logger } = options;
    // An API server that starts may reject for a moment. One namespace needs nothing of the cluster.
    const forbiddenAfter = namespaces?.length === 1 ? 0 : 3;
    const informerOf = ({ kind, plural, isRequired, isClusterScoped }: ResourceKind, namespace: string | null) =>
      new Informer({
        kind,
        name: isClusterScoped || (namespaces ?? []).length < 2 ? kind : `${kind} in ${namespace}`,
        config: api.config,
        calls: api.calls,
        list: (limit, token) => api.list(kind, namespace, limit, token),
        version: async () => (await api.list(kind, namespace, 1, undefined)).metadata.resourceVersion ?? '',
        watchPath: kindPath(plural, namespace),
        mayBeAbsent: !isRequired,
        forbiddenAfter: isClusterScoped ? forbiddenAfter : undefined,
        ...{ clock, random, logger },
        onChange: (local, before, part) => {
          const [ofResource = '', name = ''] = local.split('/');
          this.reportChange({ kind, namespace: ofResource, name }, before, part);
        },
        onState: () => this.reportState(),
      });
    this.#informers = new Map(
      kinds.all.map((kind) => {
        const followed = kind.isClusterScoped ? [''] : (namespaces ?? [null]);
        return [kind.kind, new Map(followed.map((namespace) => [namespace ?? '*', informerOf(kind, namespace)]))];
      }),
    );
    this.#all = [...this.#informers.values()].flatMap((ofKind) => [...ofKind.values()]);
  }

  async start(syncTimeoutMs: number): Promise<void> {
    for (const informer of this.#all) informer.start();
    await within(Promise.all(this.#all.map((informer) => informer.whenSynced())), syncTimeoutMs, undefined);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((informer) => informer.stop()));
  }

  state(): SourceState {
    const states = this.#all.map((informer) => informer.state);
    const times = states.map((state) => state.lastEventAt);
    return {
      synced: states.every((state) => state.synced),
      available: states.every((state) => state.available),
      reason: states.find((state) => !state.available)?.reason ?? null,
      lastEventAt: times.includes(null) ? null : Math.min(...times.map((time) => time ?? 0)),
    };
  }

  protected readAll(kind: Kind): readonly Resource[] {
    return [...(this.#informers.get(kind)?.values() ?? [])].flatMap((informer) => informer.list());
  }

  protected read(key: ResourceKey): KubeResource | null {
    return this.#informer(key).get(`${key.namespace}/${key.name}`);
  }

  /** The object as the API server has it now, also one that is being deleted; null if it is not there. */
  async #fetch(key: ResourceKey): Promise<KubeObject | null> {
    try {
      return await this.#api.get(key);
    } catch (error) {
      if (kubeCode(error) === 404) return null;
      throw error;
    }
  }

  override provenance(key: ResourceKey): Provenance | null {
    const place = super.provenance(key);
    return place === null ? null : { ...place, managers: this.read(key)?.managers ?? [] };
  }

  protected placeOf(key: ResourceKey): string {
    return keyText(key);
  }

  override writers(resource: Resource): readonly FieldWriter[] {
    return (resource as Partial<KubeResource>).writers ?? [];
  }

  protected async createResource(fresh: NewResource): Promise<Resource> {
    const { kind, namespace, name, spec, labels = {}, annotations } = fresh;
    const body = {
      apiVersion: apiVersionOf(kind),
      kind,
      metadata: { name, namespace, labels, ...(annotations === undefined ? {} : { annotations }) },
      spec,
    };
    try {
      return this.#remember(kind, await this.#api.create(kind, namespace, body, API_FIELD_MANAGER));
    } catch (error) {
      // A creation that ends in 404 has no namespace, or no kind, to be in: not something the caller can fix.
      throw kubeCode(error) === 404 ? unavailable(error) : writeError(error, fresh);
    }
  }

  /**
   * Has a resource be as its owner states, by server-side apply with a field manager: fields that it sets are taken
   * from others, those that it set before and sets no more are removed, all else stays.
   * @param uid of the resource that is there; null creates it
   * @throws as `create` and `apply`; VersionConflict where another resource has the name by now
   */
  async applyOwned(owned: OwnedResource, uid: string | null, fieldManager: string): Promise<Resource> {
    const resource = this.complete(owned);
    const { kind, namespace, name, spec, labels = {}, annotations = {}, owner } = resource;
    // The uid keeps a resource that was deleted meanwhile from being created, and another one from being changed.
    const identity = uid === null ? { name, namespace } : { name, namespace, uid };
    const metadata = { ...identity, labels, annotations, ownerReferences: [owner] };
    try {
      if (uid === null && (await this.#fetch(resource)) !== null) throw resourceExists(resource);
      const body = { apiVersion: apiVersionOf(kind), kind, metadata, spec };
      return this.#remember(kind, await this.#api.apply(resource, body, fieldManager, uid !== null));
    } catch (error) {
      throw kubeCode(error) === 404 ? unavailable(error) : writeError(error, resource);
    }
  }

  protected async applyChange(key: ResourceKey, change: ResourceChange, options: ApplyOptions): Promise<Resource> {
    try {
      const { set, remove, annotations } = change;
      let object = await this.#live(key, options.expectedVersion);
      if (remove.length > 0) object = await this.#mergeSpec(object, key, change, options.force);
      else if (Object.keys(set).length > 0) object = await this.#applySpec(object, key, set, options.force);
      if (Object.keys(annotations).length > 0) {
        const metadata = { resourceVersion: object.metadata.resourceVersion, annotations };
        object = await this.#api.merge(key, { metadata }, API_FIELD_MANAGER);
      }
      return this.#remember(key.kind, object);
    } catch (error) {
      throw writeError(error, key);
    }
  }

  /** Sets and removes fields by a merge patch: apply only removes fields without other managers. */
  async #mergeSpec(live: KubeObject, key: ResourceKey, change: ResourceChange, force: boolean): Promise<KubeObject> {
    const fields = [...change.remove, ...Object.keys(change.set)];
    const others = specManagers(live.metadata.managedFields ?? []).filter(
      ({ manager }) => manager !== API_FIELD_MANAGER,
    );
    const conflicts = fields.flatMap((field) =>
      others.filter((each) => each.fields.includes(field)).map(({ manager }) => ({ manager, field: `spec.${field}` })),
    );
    if (conflicts.length > 0 && !force) throw fieldOwned(conflicts);
    const nulls = Object.fromEntries(change.remove.map((field) => [field, null]));
    const { resourceVersion } = live.metadata;
    const body = { metadata: { resourceVersion }, spec: { ...change.set, ...nulls } };
    return await this.#api.merge(key, body, API_FIELD_MANAGER);
  }

  /**
   * Server-side apply of what changes and of what REST owns already, so that it stays ours. Conflicts with what REST
   * itself wrote otherwise (the creation, which is no apply) are none.
   */
  async #applySpec(
    live: KubeObject,
    key: ResourceKey,
    set: ResourceChange['set'],
    force: boolean,
  ): Promise<KubeObject> {
    const managers = specManagers(live.metadata.managedFields ?? []);
    const own = managers.flatMap(({ manager, fields }) => (manager === API_FIELD_MANAGER ? fields : []));
    const owned = Object.entries(live.spec ?? {}).filter(([field]) => own.includes(field));
    // The uid keeps a resource that was deleted meanwhile from being created by the apply.
    const metadata = { name: key.name, namespace: key.namespace, uid: live.metadata.uid };
    const spec = { ...Object.fromEntries(owned), ...set };
    const body = { apiVersion: apiVersionOf(key.kind), kind: key.kind, metadata, spec };
    try {
      return await this.#api.apply(key, body, API_FIELD_MANAGER, force);
    } catch (error) {
      const conflicts = fieldConflicts(error);
      if (conflicts.length === 0) throw error;
      const others = conflicts.filter((conflict) => conflict.manager !== API_FIELD_MANAGER);
      if (others.length > 0) throw fieldOwned(others);
      return await this.#api.apply(key, body, API_FIELD_MANAGER, true);
    }
  }

  protected async deleteResource(key: ResourceKey, expectedVersion: string | null): Promise<boolean> {
    const current = this.read(key);
    if (current === null) return false;
    const { uid } = current.metadata;
    try {
      await this.#api.delete(key, { uid, ...(expectedVersion === null ? {} : { resourceVersion: expectedVersion }) });
    } catch (error) {
      if (kubeCode(error) !== 404) throw writeError(error, key);
      this.#informer(key).forget(current);
      return false;
    }
    this.#informer(key).forget(current);
    return true;
  }

  /** @throws the last refusal, while the API server asked not to be called again */
  #rejectInPause(): void {
    const pause = this.#statusPause;
    if (pause === null) return;
    const waitMs = pause.until - this.#clock.monotonic();
    if (waitMs <= 0) {
      this.#statusPause = null;
      return;
    }
    const { message, code } = pause.rejection;
    throw new GatewayError(code, message, { retryAfterSeconds: Math.ceil(waitMs / 1_000), cause: pause.rejection });
  }

  protected async writeStatus(key: ResourceKey, uid: string, status: ResourceStatus): Promise<void> {
    const current = this.read(key);
    if (current === null || current.metadata.uid !== uid) return;
    this.#rejectInPause();
    // The version makes a write that comes late, e.g. from a leader that was paused, a conflict.
    const { name, namespace, resourceVersion } = current.metadata;
    const metadata = { name, namespace, uid, resourceVersion };
    const body = { apiVersion: apiVersionOf(key.kind), kind: key.kind, metadata, status };
    try {
      this.#remember(key.kind, await this.#api.applyStatus(key, body, STATUS_FIELD_MANAGER));
    } catch (error) {
      // Gone, or changed: what the watch brings is looked at again.
      if (kubeCode(error) === 404 || kubeCode(error) === 409) throw new VersionConflict(key);
      if (!isUnavailable(error)) throw writeError(error, key);
      const rejection = unavailable(error);
      // The others that wait would be rejected as well; missing rights concern one kind in one namespace.
      const until = this.#clock.monotonic() + (rejection.retryAfterSeconds ?? 0) * 1_000;
      if (kubeCode(error) !== 403) this.#statusPause = { until, rejection };
      throw rejection;
    }
  }

  /** The object as it is on the API server now, provided that it states what the caller decided on. */
  async #live(key: ResourceKey, expectedVersion: string): Promise<KubeObject> {
    const informer = this.#informer(key);
    const name = `${key.namespace}/${key.name}`;
    const [held, listed] = [informer.get(name), informer.listed(name)];
    const live = await this.#api.get(key);
    const current = resourceOfObject(key.kind, live);
    const isSame =
      held?.metadata.uid === current.metadata.uid &&
      isDeepStrictEqual(held.spec, current.spec) &&
      isDeepStrictEqual(held.metadata.annotations, current.metadata.annotations);
    // A status that was written since is no other decision.
    if (isSame && [held, listed].some((each) => each?.metadata.resourceVersion === expectedVersion)) return live;
    this.#remember(key.kind, live);
    throw new VersionConflict(key);
  }

  /** The informer of a kind in a namespace; of a namespace that is not watched, one that knows nothing of it. */
  #informer({ kind, namespace }: Pick<ResourceKey, 'kind' | 'namespace'>): Informer {
    const ofKind = this.#informers.get(kind);
    const informer = ofKind?.get(namespace) ?? ofKind?.values().next().value;
    if (informer === undefined) throw new GatewayError('EG_INTERNAL', `kind ${kind} is not followed`);
    return informer;
  }

  /** Takes over the response to a write of our own. */
  #remember(kind: Kind, object: KubeObject): Resource {
    this.#informer({ kind, namespace: object.metadata.namespace ?? '' }).remember(object);
    this.countChange(kind);
    return resourceOfObject(kind, object);
  }
}
