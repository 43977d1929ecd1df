import { ClusterAddresses } from '../../model/clusterAddresses.ts';
import { GroupBindings } from '../../model/groupBindings.ts';
import type { NamespaceTrust } from '../../model/namespaceTrust.ts';

/** Rights of the authors of resources (docs/resources.md#several-teams). */
export interface ClusterPolicy {
  readonly addresses: ClusterAddresses;
  readonly groups: GroupBindings;
  readonly trust?: NamespaceTrust | undefined;
}

/** The policy without limits: resources may use the gateway's own machine, and every routing group. */
export const openPolicy: ClusterPolicy = {
  addresses: new ClusterAddresses({ allowed: [], loopback: true }),
  groups: new GroupBindings({}),
};

/** Reason that the policy rejects a cluster, or null. */
export interface PolicyRefusal {
  /** Reason of the condition `Accepted`. */
  readonly reason: 'NameNotAllowed' | 'AddressNotAllowed' | 'GroupNotAllowed';
  /** Field of the spec, without `spec.`. */
  readonly field: string;
  /** Rest of the sentence that starts with the field. */
  readonly message: string;
}

/**
 * Returns the reason that a cluster may not have a name, an address or a group.
 * @param namespace the resource's
 */
export function policyRefusal(
  { addresses, groups, trust }: ClusterPolicy,
  namespace: string,
  { name, proxyTo, routingGroup }: { readonly name: string; readonly proxyTo: string; readonly routingGroup: string },
): PolicyRefusal | null {
  const ofName = trust?.nameRejection(namespace, name);
  if (ofName != null) return { reason: 'NameNotAllowed', field: 'name', message: `: ${ofName}` };
  const address = addresses.urlRejection(proxyTo);
  if (address !== null) return { reason: 'AddressNotAllowed', field: 'proxyTo', message: `: ${address}` };
  const group = groups.joinRejection(namespace, routingGroup);
  return group === null ? null : { reason: 'GroupNotAllowed', field: 'routingGroup', message: `: ${group}` };
}
