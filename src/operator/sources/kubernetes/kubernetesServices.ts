import type { Logger } from 'pino';
import {
  type Address,
  ALL_NAMESPACES,
  type NamespaceLabels,
  type ObjectData,
  SERVICE,
  type Service,
  type ServiceList,
  type ServiceLists,
  type ServiceLookup,
  type ServicePort,
  type ServiceReference,
  serviceUrl,
} from '../../../kinds/serviceLookup.ts';
import type { Clock, Random } from '../../../model/clock.ts';
import { Informer } from './informer.ts';
import { type KubeApi, type KubeObject, NAMESPACES_PATH, servicesPath } from './kubeApi.ts';
import { ReferencedObjects } from './referencedObjects.ts';

/** Services that are followed by one list: as many as the largest clusters have. */
const MAX_SERVICES = 20_000;
/** Annotations of a Service that are kept, and their longest value: others say nothing about a cluster. */
const MAX_ANNOTATIONS = 64;
const MAX_ANNOTATION_LENGTH = 255;

/** Name of the list of namespaces among those of Services; no namespace has it. */
const NAMESPACES = '';

/** Looks Services up: follows those of a namespace from the first question about them on. */
export class KubernetesServices implements ServiceLookup, ServiceLists {
  readonly #api: KubeApi;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #logger: Logger;
  /** By namespace, or `*`. */
  readonly #informers = new Map<string, Informer>();
  /** By namespace, until something changes there. */
  readonly #lists = new Map<string, ServiceList>();
  readonly #listeners = new Set<() => void>();
  readonly #objects: ReferencedObjects;
  #stopped = false;

  constructor(api: KubeApi, clock: Clock, random: Random, logger: Logger) {
    this.#api = api;
    this.#clock = clock;
    this.#random = random;
    this.#logger = logger;
    this.#objects = new ReferencedObjects(api, () => this.#notify());
  }

  address(reference: ServiceReference): Address {
    const { name, namespace, port } = reference;
    const informer = this.#follow(namespace);
    const unknown = (reason: string, message: string): Address => ({ ok: false, reason, message });
    const service = informer.get(`${namespace}/${name}`);
    if (service === null) {
      const { synced, available, reason } = informer.state;
      if (synced) return unknown('ServiceNotFound', `there is no Service ${namespace}/${name}`);
      const why = available || reason === null ? 'being looked up' : reason;
      return unknown('ServicePending', `Service ${namespace}/${name}: ${why}`);
    }
    const { type, ports, externalName } = service.spec as unknown as SlimSpec;
    const isExternal = type === 'ExternalName';
    const match = ports.find((each) => each.port === port || each.name === port);
    const number = match?.port ?? (isExternal && typeof port === 'number' ? port : undefined);
    if (number === undefined) {
      const present = ports.map((each) => (each.name === '' ? each.port : `${each.name} ${each.port}`)).join(', ');
      return unknown(
        'ServicePortNotFound',
        `Service ${namespace}/${name} has no port ${port} (it has ${present || 'none'})`,
      );
    }
    const url = serviceUrl(reference, number);
    return isExternal && typeof externalName === 'string' ? { ok: true, url, externalName } : { ok: true, url };
  }

  list(namespace: string): ServiceList {
    const informer = this.#follow(namespace);
    const before = this.#lists.get(namespace);
    if (before !== undefined) return before;
    const { synced, available, reason } = informer.state;
    const list = { synced, reason: available ? null : reason, services: informer.list() as readonly Service[] };
    this.#lists.set(namespace, list);
    return list;
  }

  objectData(...parameters: Parameters<ServiceLookup['objectData']>): ObjectData {
    return this.#objects.get(...parameters);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  namespaces(): NamespaceLabels {
    const informer = this.#follow(NAMESPACES);
    const { synced, available, reason } = informer.state;
    const labels = new Map(informer.list().map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
    return { synced, reason: available ? null : reason, labels };
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#objects.stop();
    await Promise.all(this.#informers.values().map((informer) => informer.stop()));
  }

  #follow(namespace: string): Informer {
    const existing = this.#informers.get(namespace);
    if (existing !== undefined) return existing;
    const api = this.#api;
    const notify = (): void => {
      this.#lists.delete(namespace);
      this.#notify();
    };
    const scope = namespace === ALL_NAMESPACES ? null : namespace;
    const isOfNamespaces = namespace === NAMESPACES;
    const path = isOfNamespaces ? NAMESPACES_PATH : servicesPath(scope);
    const informer = new Informer({
      kind: SERVICE,
      name: isOfNamespaces ? 'Namespace' : scope === null ? 'Service' : `Service in ${namespace}`,
      config: api.config,
      calls: api.calls,
      list: (limit, token) => api.listAt(path, limit, token),
      watchPath: path,
      keep: isOfNamespaces ? slimNamespace : slimService,
      most: MAX_SERVICES,
      ...{ clock: this.#clock, random: this.#random, logger: this.#logger },
      onChange: notify,
      onState: notify,
    });
    this.#informers.set(namespace, informer);
    if (!this.#stopped) informer.start();
    return informer;
  }
}

interface SlimSpec {
  readonly type: string;
  readonly ports: readonly ServicePort[];
  readonly externalName: unknown;
}

function slimNamespace({ metadata: { name, uid, resourceVersion, labels = {} } }: KubeObject): KubeObject {
  return { metadata: { name, uid, resourceVersion, labels } };
}

function slimService({ metadata, spec = {} }: KubeObject): KubeObject {
  const {
    name,
    namespace = '',
    uid,
    resourceVersion,
    creationTimestamp = '',
    labels = {},
    annotations = {},
  } = metadata;
  const short = Object.entries(annotations).filter(([, value]) => value.length <= MAX_ANNOTATION_LENGTH);
  const slimAnnotations = Object.fromEntries(short.slice(0, MAX_ANNOTATIONS));
  const { type = 'ClusterIP', externalName, ports = [] } = spec;
  const slimPorts = (ports as readonly Partial<ServicePort>[]).map(
    ({ name: portName = '', port = 0, protocol = 'TCP', appProtocol = '' }): ServicePort => ({
      name: portName,
      ...{ port, protocol, appProtocol },
    }),
  );
  return {
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp, labels, annotations: slimAnnotations },
    spec: { type, externalName, ports: slimPorts },
  };
}
