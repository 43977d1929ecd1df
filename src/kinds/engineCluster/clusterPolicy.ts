import { ClusterAddresses } from '../../model/clusterAddresses.ts';
import type { GrantRejection, Tenancy } from '../../rules/tenancy.ts';

/** Bounds of what clusters declare. */
export interface ClusterPolicy {
  readonly addresses: ClusterAddresses;
}

/** The policy without limits: resources may use the gateway's own machine. */
export const openPolicy: ClusterPolicy = {
  addresses: new ClusterAddresses({ allowed: [], loopback: true }),
};

/**
 * Returns the reason that a cluster may not have a name, an address or a group, or null.
 * @param namespace the resource's
 */
export function policyRejection(
  { addresses }: ClusterPolicy,
  tenancy: Tenancy,
  namespace: string,
  { name, proxyTo, routingGroup }: { readonly name: string; readonly proxyTo: string; readonly routingGroup: string },
): GrantRejection | null {
  const message = addresses.urlRejection(proxyTo);
  const ofAddress = message === null ? null : { reason: 'AddressNotAllowed', field: 'proxyTo', message };
  return (
    tenancy.nameRejection(namespace, name) ??
    ofAddress ??
    tenancy.groupRejection(namespace, 'routingGroup', routingGroup)
  );
}
