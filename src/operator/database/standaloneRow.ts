import { backendRow, clusterOutcomes } from '../../kinds/engineCluster/clusterOutcome.ts';
import { noServices } from '../../kinds/engineCluster/dereference.ts';
import type { Resource } from '../../model/resource.ts';
import type { BackendRow } from '../../store/store.ts';

/**
 * Row of `gateway_backend` that a resource gives when it is looked at alone, for a write whose transaction stores both.
 * What others have to do with it (a name that is claimed twice) the reconcile puts right.
 */
export function standaloneRow(resource: Resource): BackendRow | null {
  if (resource.kind !== 'EngineCluster') return null;
  const surroundings = { services: noServices, allowedServiceNamespaces: [], lastGood: new Map() };
  const [outcome] = clusterOutcomes([resource], surroundings).values();
  return outcome?.routable == null ? null : backendRow(outcome.routable);
}
