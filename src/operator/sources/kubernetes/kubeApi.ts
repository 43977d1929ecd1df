import { ApiException, type HttpMethod, type KubeConfig, PatchStrategy, RequestContext } from '@kubernetes/client-node';
import { type Dispatcher, request } from 'undici';
import { resourceKinds } from '../../../kinds/registry.ts';
import type { KindRegistry } from '../../../kinds/resourceKind.ts';
import { API_GROUP, type Kind, kindVersion, type OwnerReference, type ResourceKey } from '../../../model/resource.ts';
import { withTimeLimit } from '../../../model/timeLimit.ts';
import { userAgent } from '../../../model/version.ts';
import { type ApiServerCalls, uncountedCalls } from './apiServerCalls.ts';

export interface KubeCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the server's address, its parts encoded, e.g. `/api/v1/namespaces/default/services`. */
  readonly path: string;
  /** Parameters; undefined ones are left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  /** Of the body: `application/json`, or the kind of patch. */
  readonly contentType?: string;
  /** Milliseconds after which it fails, its response included; default: those of the client. */
  readonly timeoutMs?: number;
}

/**
 * Calls of the API server with the access of a KubeConfig. The client library's generated calls do the same, but bring
 * 900 models of the whole Kubernetes API, which take 50 MB of memory, and copy each response into them.
 */
export class KubeRequests {
  readonly config: KubeConfig;
  /** Takes note of each call. */
  readonly calls: ApiServerCalls;
  readonly #timeoutMs: number;

  /** @param timeoutMs after which a call without a response fails; watches have times of their own */
  constructor(config: KubeConfig, calls: ApiServerCalls = uncountedCalls, timeoutMs = 10_000) {
    this.config = config;
    this.calls = calls;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The response's JSON.
   * @throws ApiException for a response that is no success, with its text as body; otherwise what the connection failed
   * of
   */
  async send<Result>(call: KubeCall): Promise<Result> {
    const server = this.config.getCurrentCluster()?.server;
    if (server === undefined) throw new Error('the kubeconfig has no current cluster');
    const { method, path, query = {}, body, contentType = 'application/json', timeoutMs = this.#timeoutMs } = call;
    const context = new RequestContext(`${server.replace(/\/$/, '')}${path}`, method as HttpMethod);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) context.setQueryParam(name, String(value));
    }
    context.setHeaderParam('Accept', 'application/json');
    context.setHeaderParam('User-Agent', userAgent);
    if (body !== undefined) context.setHeaderParam('Content-Type', contentType);
    await this.config.applySecurityAuthentication(context);
    const dispatcher = context.getDispatcher() as Dispatcher | undefined;
    let code: number | null = null;
    try {
      const late = () => new Error(`no answer within ${timeoutMs} ms`);
      return await withTimeLimit(timeoutMs, late, async (signal) => {
        const response = await request(context.getUrl(), {
          ...{ method, headers: context.getHeaders(), signal },
          ...(dispatcher === undefined ? {} : { dispatcher }),
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        code = response.statusCode;
        const text = await response.body.text();
        if (code >= 200 && code <= 299) return JSON.parse(text) as Result;
        const { 'retry-after': value } = response.headers;
        const retryAfter: Record<string, string> = typeof value === 'string' ? { 'retry-after': value } : {};
        throw new ApiException(code, `the API server answered ${code}`, text, retryAfter);
      });
    } finally {
      this.calls(method, code);
    }
  }
}

export function kubePath(...parts: readonly string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join('');
}

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
    readonly ownerReferences?: readonly OwnerReference[];
    readonly managedFields?: readonly ManagedFieldsEntry[];
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

export interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  /** RFC 3339. */
  readonly time?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}

export interface KubeList {
  readonly items: readonly KubeObject[];
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
}

/**
 * Path of a kind on the API server.
 * @param plural the kind's, as in paths
 * @param namespace null for all namespaces; empty for kinds of the cluster
 */
export function kindPath(plural: string, namespace: string | null): string {
  const scope = namespace === null || namespace === '' ? [] : ['namespaces', namespace];
  return kubePath('apis', API_GROUP, kindVersion(plural), ...scope, plural);
}

/** @param namespace null for all namespaces */
export function servicesPath(namespace: string | null): string {
  return kubePath('api', 'v1', ...(namespace === null ? [] : ['namespaces', namespace]), 'services');
}

export const NAMESPACES_PATH = kubePath('api', 'v1', 'namespaces');

type Texts = Readonly<Record<string, string>>;

/** A Lease (coordination.k8s.io/v1), as far as it is used. Times are RFC 3339 with microseconds. */
export interface Lease {
  readonly apiVersion: 'coordination.k8s.io/v1';
  readonly kind: 'Lease';
  readonly metadata: { readonly name: string; readonly namespace: string; readonly resourceVersion?: string };
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly acquireTime?: string;
    readonly renewTime?: string;
    readonly leaseTransitions?: number;
  };
}

/** An Event (events.k8s.io/v1). */
export interface KubeEvent {
  readonly metadata: { readonly name: string; readonly namespace: string };
  /** RFC 3339 with microseconds. */
  readonly eventTime: string;
  readonly reportingInstance: string;
  readonly regarding: ResourceKey & { readonly apiVersion: string; readonly uid?: string };
  readonly action: string;
  readonly reason: string;
  readonly note: string;
  readonly type: 'Normal' | 'Warning';
}

/** A moment as metav1.MicroTime has it. */
export function microTime(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().slice(0, -1)}000Z`;
}

/** Time that a call for the Lease may take: less than the time after which its holder gives up. */
const LEASE_TIMEOUT_MS = 5_000;

/** Calls of the API server for resources.  */
export class KubeApi extends KubeRequests {
  readonly #kinds: KindRegistry;

  constructor(config: KubeConfig, timeoutMs?: number, kinds = resourceKinds, calls = uncountedCalls) {
    super(config, calls, timeoutMs);
    this.#kinds = kinds;
  }

  async list(kind: Kind, namespace: string | null, limit: number, token: string | undefined): Promise<KubeList> {
    return await this.listAt(this.#kindPath(kind, namespace), limit, token);
  }

  async listAt(path: string, limit: number, token: string | undefined): Promise<KubeList> {
    return await this.#send('GET', path, { query: { limit, continue: token } });
  }

  async get(place: ResourceKey): Promise<KubeObject> {
    return await this.#send('GET', this.#placePath(place));
  }

  async create(kind: Kind, namespace: string, body: object, fieldManager: string): Promise<KubeObject> {
    const query = { fieldManager, fieldValidation: 'Strict' };
    return await this.#send('POST', this.#kindPath(kind, namespace), { query, body });
  }

  async apply(place: ResourceKey, body: object, fieldManager: string, force: boolean): Promise<KubeObject> {
    const query = { fieldManager, force, fieldValidation: 'Strict' };
    return await this.#send('PATCH', this.#placePath(place), {
      query,
      body,
      contentType: PatchStrategy.ServerSideApply,
    });
  }

  /** JSON merge patch (RFC 7386). */
  async merge(place: ResourceKey, body: object, fieldManager: string): Promise<KubeObject> {
    const query = { fieldManager };
    return await this.#send('PATCH', this.#placePath(place), { query, body, contentType: PatchStrategy.MergePatch });
  }

  /**
   * Server-side apply of the status subresource, taking over what others wrote there. The body is the gateway's own, so the
   * API server need not read it a second time for unknown and duplicate fields: a twentieth of its time for a status.
   */
  async applyStatus(place: ResourceKey, body: object, fieldManager: string): Promise<KubeObject> {
    const query = { fieldManager, force: true, fieldValidation: 'Ignore' };
    const path = `${this.#placePath(place)}/status`;
    return await this.#send('PATCH', path, { query, body, contentType: PatchStrategy.ServerSideApply });
  }

  async delete(
    place: ResourceKey,
    preconditions: { readonly uid: string; readonly resourceVersion?: string },
  ): Promise<void> {
    await this.#send('DELETE', this.#placePath(place), { body: { preconditions } });
  }

  /** Labels and (decoded) data of a ConfigMap or Secret. */
  async readObject(
    kind: 'ConfigMap' | 'Secret',
    namespace: string,
    name: string,
  ): Promise<{ readonly labels: Texts; readonly data: Texts }> {
    const plural = kind === 'Secret' ? 'secrets' : 'configmaps';
    const path = kubePath('api', 'v1', 'namespaces', namespace, plural, name);
    const { metadata, data = {} } = await this.#send<Pick<KubeObject, 'metadata'> & { readonly data?: Texts }>(
      'GET',
      path,
    );
    const { labels = {} } = metadata;
    const decode = (value: string) => (kind === 'Secret' ? Buffer.from(value, 'base64').toString() : value);
    const decoded = Object.entries(data).map(([key, value]) => [key, decode(value)]);
    return { labels, data: Object.fromEntries(decoded) };
  }

  async createEvent(event: KubeEvent): Promise<void> {
    const path = kubePath('apis', 'events.k8s.io', 'v1', 'namespaces', event.metadata.namespace, 'events');
    const type = { apiVersion: 'events.k8s.io/v1', kind: 'Event' };
    await this.#send('POST', path, { body: { ...type, reportingController: `${API_GROUP}/gateway`, ...event } });
  }

  /** Reads (GET), creates (POST) or replaces (PUT) a Lease. */
  async lease(method: 'GET' | 'POST' | 'PUT', namespace: string, name: string, body?: Lease): Promise<Lease> {
    const parts = [
      'coordination.k8s.io',
      'v1',
      'namespaces',
      namespace,
      'leases',
      ...(method === 'POST' ? [] : [name]),
    ];
    const rest = body === undefined ? {} : { body };
    return await this.#send(method, kubePath('apis', ...parts), { timeoutMs: LEASE_TIMEOUT_MS, ...rest });
  }

  #kindPath(kind: Kind, namespace: string | null): string {
    return kindPath(this.#kinds.of(kind).plural, namespace);
  }

  #placePath({ kind, namespace, name }: ResourceKey): string {
    return `${this.#kindPath(kind, namespace)}${kubePath(name)}`;
  }

  async #send<Result>(
    method: KubeCall['method'],
    path: string,
    rest: Partial<Omit<KubeCall, 'method' | 'path'>> = {},
  ): Promise<Result> {
    return await this.send({ method, path, ...rest });
  }
}
