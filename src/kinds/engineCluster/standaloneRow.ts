import type { Resource } from '../../model/resource.ts';
import type { BackendRow } from '../../store/store.ts';
import { noServices } from '../serviceLookup.ts';
import { backendRow, clusterOutcomes } from './clusterOutcome.ts';
import { openPolicy } from './clusterPolicy.ts';

/**
 * Row of `gateway_backend` that a cluster gives when it is looked at alone; null if it is paused or not accepted, as its last
 * good version may be routed, which is not known here.
 */
export function standaloneRow(resource: Resource): BackendRow | null {
  const context = { services: noServices, allowedServiceNamespaces: [], policy: openPolicy, lastGood: new Map() };
  const [outcome] = clusterOutcomes([resource], context).values();
  return outcome?.routable == null ? null : backendRow(outcome.routable);
}
