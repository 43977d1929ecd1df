import { effectiveActive, overrideOf, specActive } from '../../kinds/engineCluster/activeOverride.ts';
import { withoutSlash } from '../../kinds/engineCluster/clusterOutcome.ts';
import type { RegistryCluster } from '../../model/registryCluster.ts';
import { ACTIVE_ANNOTATION, type Resource } from '../../model/resource.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { ResourceChange } from '../sources/source.ts';

/**
 * Spec of the resource of a cluster that has none. What states the default is left out.
 * @param resourceName metadata.name that it gets
 */
export function newClusterSpec(cluster: RegistryCluster, resourceName: string): Readonly<Record<string, unknown>> {
  return {
    ...(cluster.name === resourceName ? {} : { name: cluster.name }),
    proxyTo: cluster.proxyTo,
    ...(cluster.externalUrl === cluster.proxyTo ? {} : { externalUrl: cluster.externalUrl }),
    active: cluster.active,
    routingGroup: cluster.routingGroup,
  };
}

/**
 * Changes of a REST update to a resource: only fields that differ from the listed ones, so that equal values are not
 * taken over from their owner. A changed `active` goes into the spec and ends an override. Pure.
 * @param routed the currently routed cluster, or null
 */
export function clusterChange(
  resource: Resource,
  routed: RoutableCluster | null,
  target: RegistryCluster,
): ResourceChange {
  const { spec } = resource;
  const set: Record<string, unknown> = {};
  const remove: string[] = [];
  // A Service is listed with the URL it resolved to: sending that back changes nothing.
  const present = typeof spec.proxyTo === 'string' ? withoutSlash(spec.proxyTo) : (routed?.proxyTo ?? null);
  if (target.proxyTo !== present) {
    set.proxyTo = target.proxyTo;
    if (spec.serviceRef !== undefined) remove.push('serviceRef');
  }
  const external = typeof spec.externalUrl === 'string' ? withoutSlash(spec.externalUrl) : target.proxyTo;
  if (target.externalUrl !== external) set.externalUrl = target.externalUrl;
  if (target.routingGroup !== spec.routingGroup) set.routingGroup = target.routingGroup;
  // An override that states what is wanted stays: the spec may be another's, and would not be what it is listed as.
  const { kind } = overrideOf(resource);
  const asListed = target.active === effectiveActive(resource);
  if (!asListed && target.active !== specActive(resource)) set.active = target.active;
  const keepsAnnotation = kind === 'none' || (kind === 'inForce' && asListed);
  return { set, remove, annotations: keepsAnnotation ? {} : { [ACTIVE_ANNOTATION]: null } };
}
