import {
  CoordinationV1Api,
  CoreV1Api,
  CustomObjectsApi,
  EventsV1Api,
  type EventsV1Event,
  type KubeConfig,
  PatchStrategy,
  setHeaderOptions,
  type V1Lease,
} from '@kubernetes/client-node';
import { API_GROUP, API_VERSION, type Kind } from '../../model/resource.ts';

/** An object of the API server, as JSON has it. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation?: number;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly managedFields?: readonly ManagedFieldsEntry[];
  };
  /** Managers of the spec's fields, in place of `managedFields`: only in what an informer keeps. */
  readonly specManagers?: readonly SpecManager[];
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** A manager and the fields of the spec that it owns. */
export interface SpecManager {
  readonly manager: string;
  readonly fields: readonly string[];
}

/** An entry of metadata.managedFields. */
export interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}

/** A page of a list. */
export interface KubeList {
  readonly items: readonly KubeObject[];
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
}

/** Plural names of the kinds, as in paths. */
export const plurals: Readonly<Record<Kind, string>> = { EngineCluster: 'engineclusters', RoutingRule: 'routingrules' };

/** Path of a kind on the API server; null for all namespaces. */
export function kindPath(kind: Kind, namespace: string | null): string {
  const scope = namespace === null ? '' : `/namespaces/${namespace}`;
  return `/apis/${API_GROUP}/${API_VERSION}${scope}/${plurals[kind]}`;
}

/** Where an object is. */
interface Place {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

/** Calls of the API server, each bounded in time. Errors are the library's: see kubeErrors.ts. */
export class KubeApi {
  readonly config: KubeConfig;
  readonly #timeoutMs: number;
  readonly #custom: CustomObjectsApi;
  readonly #core: CoreV1Api;
  readonly #events: EventsV1Api;
  readonly #leases: CoordinationV1Api;

  /** @param timeoutMs after which a call that was not answered fails; watches have times of their own */
  constructor(config: KubeConfig, timeoutMs = 10_000) {
    this.config = config;
    this.#timeoutMs = timeoutMs;
    this.#custom = config.makeApiClient(CustomObjectsApi);
    this.#core = config.makeApiClient(CoreV1Api);
    this.#events = config.makeApiClient(EventsV1Api);
    this.#leases = config.makeApiClient(CoordinationV1Api);
  }

  async list(kind: Kind, namespace: string | null, limit: number, _continue: string | undefined): Promise<KubeList> {
    const page = { ...this.#group(kind), limit, ...(_continue === undefined ? {} : { _continue }) };
    return namespace === null
      ? await this.#custom.listClusterCustomObject(page, this.#options())
      : await this.#custom.listNamespacedCustomObject({ ...page, namespace }, this.#options());
  }

  async get(place: Place): Promise<KubeObject> {
    return await this.#custom.getNamespacedCustomObject(this.#place(place), this.#options());
  }

  async create(kind: Kind, namespace: string, body: object, fieldManager: string): Promise<KubeObject> {
    const parameters = { ...this.#group(kind), namespace, body, fieldManager, fieldValidation: 'Strict' };
    return await this.#custom.createNamespacedCustomObject(parameters, this.#options());
  }

  /** Server-side apply. */
  async apply(place: Place, body: object, fieldManager: string, force: boolean): Promise<KubeObject> {
    const parameters = { ...this.#place(place), body, fieldManager, force, fieldValidation: 'Strict' };
    return await this.#custom.patchNamespacedCustomObject(parameters, this.#options(PatchStrategy.ServerSideApply));
  }

  /** JSON merge patch (RFC 7386). */
  async merge(place: Place, body: object, fieldManager: string): Promise<KubeObject> {
    const parameters = { ...this.#place(place), body, fieldManager };
    return await this.#custom.patchNamespacedCustomObject(parameters, this.#options(PatchStrategy.MergePatch));
  }

  /** Server-side apply of the status subresource, taking over what others wrote there. */
  async applyStatus(place: Place, body: object, fieldManager: string): Promise<KubeObject> {
    const parameters = { ...this.#place(place), body, fieldManager, force: true };
    const options = this.#options(PatchStrategy.ServerSideApply);
    return await this.#custom.patchNamespacedCustomObjectStatus(parameters, options);
  }

  async delete(
    place: Place,
    preconditions: { readonly uid: string; readonly resourceVersion?: string },
  ): Promise<void> {
    const body = { preconditions };
    await this.#custom.deleteNamespacedCustomObject({ ...this.#place(place), body }, this.#options());
  }

  async listServices(namespace: string, limit: number, _continue: string | undefined): Promise<KubeList> {
    const page = { namespace, limit, ...(_continue === undefined ? {} : { _continue }) };
    return (await this.#core.listNamespacedService(page, this.#options())) as unknown as KubeList;
  }

  /** A Secret's labels and decoded data. */
  async readSecret(
    namespace: string,
    name: string,
  ): Promise<{ readonly labels: Readonly<Record<string, string>>; readonly data: Readonly<Record<string, string>> }> {
    const secret = await this.#core.readNamespacedSecret({ namespace, name }, this.#options());
    const data = Object.entries(secret.data ?? {}).map(([key, value]) => [
      key,
      Buffer.from(value, 'base64').toString(),
    ]);
    return { labels: secret.metadata?.labels ?? {}, data: Object.fromEntries(data) };
  }

  async createEvent(namespace: string, body: EventsV1Event): Promise<void> {
    await this.#events.createNamespacedEvent({ namespace, body }, this.#options());
  }

  async readLease(namespace: string, name: string): Promise<V1Lease> {
    return await this.#leases.readNamespacedLease({ namespace, name }, this.#options(undefined, 5_000));
  }

  async createLease(namespace: string, body: V1Lease): Promise<V1Lease> {
    return await this.#leases.createNamespacedLease({ namespace, body }, this.#options(undefined, 5_000));
  }

  async replaceLease(namespace: string, name: string, body: V1Lease): Promise<V1Lease> {
    return await this.#leases.replaceNamespacedLease({ namespace, name, body }, this.#options(undefined, 5_000));
  }

  #group(kind: Kind): { readonly group: string; readonly version: string; readonly plural: string } {
    return { group: API_GROUP, version: API_VERSION, plural: plurals[kind] };
  }

  #place({ kind, namespace, name }: Place) {
    return { ...this.#group(kind), namespace, name };
  }

  /** Options of a call: its time limit, and the kind of patch, which the library takes for a JSON patch otherwise. */
  #options(patch?: PatchStrategy, timeoutMs = this.#timeoutMs): ReturnType<typeof setHeaderOptions> {
    const options =
      patch === undefined ? setHeaderOptions('Accept', 'application/json') : setHeaderOptions('Content-Type', patch);
    const middleware = (options.middleware ?? []).map((each) => ({
      pre: (context: Parameters<typeof each.pre>[0]) => {
        context.setSignal(AbortSignal.timeout(timeoutMs));
        return each.pre(context);
      },
      post: (context: Parameters<typeof each.post>[0]) => each.post(context),
    }));
    return { ...options, middleware };
  }
}
