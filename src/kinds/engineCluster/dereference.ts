import type { Resource } from '../../model/resource.ts';
import { type Address, type ServiceLookup, serviceUrl } from '../serviceLookup.ts';
import type { EngineClusterSpec } from './spec.ts';

/** First step of a reconcile: from what a resource refers to, to what it states. */
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
