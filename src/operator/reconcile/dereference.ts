import type { EngineClusterSpec, ServiceRef } from '../../model/engineCluster.ts';
import type { Resource } from '../../model/resource.ts';

/** Where a cluster's requests go, or why that is not known. */
export type Address =
  | { readonly ok: true; readonly url: string }
  /** `final`: only a change of the resource can mend it. */
  | { readonly ok: false; readonly reason: string; readonly message: string; readonly final: boolean };

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
  const namespace = spec.serviceRef.namespace ?? own;
  if (namespace !== own && !allowedServiceNamespaces.includes(namespace)) {
    return {
      ok: false,
      reason: 'RefNotPermitted',
      message: `spec.serviceRef.namespace ${namespace} is not this resource's own; add it to resources.allowedServiceNamespaces`,
      final: true,
    };
  }
  const { name, port, scheme = 'http' } = spec.serviceRef;
  return services.address({ name, namespace, port, scheme });
}

/** One trailing slash is cut (contract §1.2). */
export function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url;
}
