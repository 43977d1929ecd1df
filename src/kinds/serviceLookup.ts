import type { ServiceRef } from './engineCluster/spec.ts';

/** A Service that a resource refers to, complete. */
export type ServiceReference = Required<ServiceRef>;

/** Where a cluster's requests go, or why that is not known. */
export type Address =
  /** `externalName`: the name that a Service of type ExternalName stands for. */
  | { readonly ok: true; readonly url: string; readonly externalName?: string }
  /** `final`: only a change of the resource can fix it. */
  | {
      readonly ok: false;
      readonly reason: string;
      readonly message: string;
      readonly final: boolean;
      /** An address that may not be used, not even as that of the last good version: leave to use it was taken back. */
      readonly forbidden?: string;
    };

/** Address of a Service, as pods resolve it. */
export function serviceUrl({ name, namespace, port, scheme }: ServiceReference): string {
  return `${scheme}://${name}.${namespace}.svc:${port}`;
}

/** A port of a Service. */
export interface ServicePort {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
  readonly appProtocol: string;
}

/** A Service, as far as discoveries look at it. */
export interface KnownService {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** RFC 3339. */
  readonly creationTimestamp: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** `ClusterIP`, `ExternalName` and others. */
  readonly type: string;
  readonly ports: readonly ServicePort[];
}

/** The Services of a namespace, as they were last read. */
export interface ServiceList {
  /** Whether they have been read at all. */
  readonly synced: boolean;
  /** Why they cannot be read now; null while they can. */
  readonly reason: string | null;
  readonly services: readonly KnownService[];
}

/** Name of the kind of Services, which is Kubernetes' own. */
export const SERVICE = 'Service';
/** Stands for all namespaces. */
export const ALL_NAMESPACES = '*';

/** All Services of namespaces; answers from memory. */
export interface ServiceLists {
  /** Those of a namespace, or of all (`*`); the same object while nothing changed. */
  list(namespace: string): ServiceList;
  /** Registers a listener for Services that became known, changed or went; the answer removes it. */
  onChange(listener: () => void): () => void;
}

/** Looks a Service up; answers from memory, as reconciling does not wait for it. */
export interface ServiceLookup {
  address(reference: ServiceReference): Address;
  /** Registers a listener for Services that became known, changed or went; the answer removes it. */
  onChange(listener: () => void): () => void;
}

/** Where there is no Kubernetes there are no Services. */
export const noServices: ServiceLookup = {
  address: () => ({
    ok: false,
    reason: 'ServiceRefUnsupported',
    message: 'spec.serviceRef needs resources.source: kubernetes; set spec.proxyTo instead',
    final: true,
  }),
  onChange: () => () => false,
};
