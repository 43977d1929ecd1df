import type { Resource } from '../../model/resource.ts';
import type { BackendRow, KEPT_ROW } from '../../store/store.ts';
import { noServices } from '../serviceLookup.ts';
import { backendRow, clusterOutcomes } from './clusterOutcome.ts';
import { openPolicy } from './clusterPolicy.ts';

/**
 * Row of `gateway_backend` that a cluster gives when it is looked at alone. Of one that is paused or not accepted the last
 * good version may be in force, which is not known here: its row stays as it is.
 */
export function standaloneRow(resource: Resource): BackendRow | typeof KEPT_ROW {
  const context = { services: noServices, allowedServiceNamespaces: [], policy: openPolicy, lastGood: new Map() };
  const [outcome] = clusterOutcomes([resource], context).values();
  return outcome?.routable == null ? 'kept' : backendRow(outcome.routable);
}
