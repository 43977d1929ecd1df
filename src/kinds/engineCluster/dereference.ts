import type { Resource } from '../../model/resource.ts';
import type { EngineClusterSpec, ServiceRef } from './spec.ts';

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
export function serviceUrl({ name, namespace, port, scheme }: Required<ServiceRef>): string {
  return `${scheme}://${name}.${namespace}.svc:${port}`;
}

/** Looks a Service up; answers from memory, as reconciling does not wait for it. */
export interface ServiceLookup {
  address(reference: Required<ServiceRef>): Address;
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

/** First step of a reconcile: from what a resource refers to, to what it says. */
export function dereference(
  resource: Resource,
  spec: EngineClusterSpec,
  services: ServiceLookup,
  allowedServiceNamespaces: readonly string[],
): Address {
  if (spec.serviceRef === undefined) return { ok: true, url: withoutSlash(spec.proxyTo ?? '') };
  const own = resource.metadata.namespace;
  const { name, namespace = own, port, scheme = 'http' } = spec.serviceRef;
  const reference = { name, namespace, port, scheme };
  if (namespace !== own && !allowedServiceNamespaces.includes(namespace)) {
    return {
      ok: false,
      reason: 'RefNotPermitted',
      message: `spec.serviceRef.namespace ${namespace} is not this resource's own; add it to resources.allowedServiceNamespaces`,
      final: true,
      forbidden: serviceUrl(reference),
    };
  }
  return services.address(reference);
}

/** One trailing slash is cut (docs/compatibility.md#cluster-registry). */
export function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url;
}
