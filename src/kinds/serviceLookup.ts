import type { Resource } from '../model/resource.ts';
import type { ServiceRef } from './engineCluster/spec.ts';

/** A Service that a resource refers to, complete. */
export type ServiceReference = Required<ServiceRef>;

export type Address =
  /** `externalName`: the name that a Service of type ExternalName stands for. */
  | { readonly ok: true; readonly url: string; readonly externalName?: string }
  /** `final`: only a change of the resource can fix it. */
  | {
      readonly ok: false;
      readonly reason: string;
      readonly message: string;
      readonly final?: true;
      /** Beginning of addresses that may not be used, not even as that of the last good version: leave to use them was taken back. */
      readonly forbidden?: string;
    };

/** Address of a Service without its port, as pods resolve it. */
export function serviceHost({ name, namespace, scheme }: Omit<ServiceReference, 'port'>): string {
  return `${scheme.toLowerCase()}://${name}.${namespace}.svc:`;
}

/** Address of a Service, as pods resolve it. */
export function serviceUrl(reference: Omit<ServiceReference, 'port'>, port: number): string {
  return `${serviceHost(reference)}${port}`;
}

export interface ServicePort {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
  readonly appProtocol: string;
}

/** A Service, as far as discoveries look at it; its spec is empty if only its name is known. */
export type Service = Resource<
  Readonly<Record<string, unknown>> & {
    /** `ClusterIP`, `ExternalName` and others. */
    readonly type?: string;
    readonly ports?: readonly ServicePort[];
  }
>;

export interface ServiceList {
  readonly synced: boolean;
  /** Reason that they cannot be read now, or null. */
  readonly reason: string | null;
  readonly services: readonly Service[];
}

export const SERVICE = 'Service';
export const ALL_NAMESPACES = '*';

/** Labels of every namespace. */
export interface NamespaceLabels {
  readonly synced: boolean;
  /** Reason that they cannot be read now, or null. */
  readonly reason: string | null;
  readonly labels: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

/** All Services of namespaces; responses from memory. */
export interface ServiceLists {
  /** Those of a namespace, or of all (`*`); the same object while nothing changed. */
  list(namespace: string): ServiceList;
  namespaces(): NamespaceLabels;
  /** Registers a listener for Services that became known, changed or went; the response removes it. */
  onChange(listener: () => void): () => void;
}

/** Data of an object that a resource refers to, or the reason that they cannot be used. */
export type ObjectData =
  | { readonly ok: true; readonly data: Readonly<Record<string, string>> }
  /** `final`: only a change of the resource can fix it. */
  | { readonly ok: false; readonly reason: string; readonly message: string; readonly final?: true };

/** Looks up Services and objects that clusters refer to; responses from memory, as reconciling does not wait for it. */
export interface ServiceLookup {
  objectData(kind: 'ConfigMap' | 'Secret', namespace: string, name: string): ObjectData;
  namespaces(): NamespaceLabels;
  address(reference: ServiceReference): Address;
  /** Registers a listener for Services that became known, changed or went; the response removes it. */
  onChange(listener: () => void): () => void;
}

export const noServices: ServiceLookup = {
  objectData: () => ({
    ok: false,
    reason: 'RefUnsupported',
    message:
      'references need resources.source: kubernetes; set spec.tls.caBundle, or key-store-path of the gateway instead',
    final: true,
  }),
  address: () => ({
    ok: false,
    reason: 'ServiceRefUnsupported',
    message: 'spec.serviceRef needs resources.source: kubernetes; set spec.proxyTo instead',
    final: true,
  }),
  namespaces: () => ({
    synced: false,
    reason: 'it needs resources.source: kubernetes; set spec.namespaces.names instead',
    labels: new Map(),
  }),
  onChange: () => () => false,
};

/**
 * Services for a resource that is not declared yet: addresses as they would be, and no object is read, since its author may not
 * be allowed to have it read.
 */
export function unreadServices(services: Pick<ServiceLookup, 'namespaces'>): ServiceLookup {
  return {
    objectData: () => ({
      ok: false,
      reason: 'RefPending',
      message: 'it is read once the resource is there',
    }),
    address: ({ port, ...reference }) => ({
      ok: true,
      url: serviceUrl(reference, typeof port === 'number' ? port : 80),
    }),
    namespaces: () => services.namespaces(),
    onChange: () => () => false,
  };
}
