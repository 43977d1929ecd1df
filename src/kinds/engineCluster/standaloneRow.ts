import { ACTIVE_ANNOTATION, type Resource } from '../../model/resource.ts';
import { rowChanges } from '../../store/externalRow.ts';
import type { BackendRow } from '../../store/store.ts';
import { noServices } from '../serviceLookup.ts';
import { activeAnnotation } from './activeOverride.ts';
import { backendRow, clusterOutcomes } from './clusterOutcome.ts';
import { openPolicy } from './clusterPolicy.ts';

/** Who changed a cluster, in annotations. */
const BY = 'another gateway (gateway_backend)';

/**
 * Row of `gateway_backend` that a cluster gives when it is looked at alone; null if it is paused or not accepted, as its last
 * good version may be routed, which is not known here.
 */
export function standaloneRow(resource: Resource): BackendRow | null {
  const context = { services: noServices, allowedServiceNamespaces: [], policy: openPolicy, lastGood: new Map() };
  const [outcome] = clusterOutcomes([resource], context).values();
  return outcome?.routable == null ? null : backendRow(outcome.routable);
}

/** A cluster with what another program wrote into its row: group and URLs in the spec, `active` as an override. Pure. */
export function resourceWithRow(resource: Resource, written: BackendRow, present: BackendRow, at: string): Resource {
  const values = new Map(rowChanges(written, present).map(({ field, row }) => [field, row]));
  const spec: Record<string, unknown> = { ...resource.spec };
  if (values.has('routingGroup')) spec.routingGroup = values.get('routingGroup');
  if (values.has('proxyTo')) {
    spec.proxyTo = values.get('proxyTo');
    delete spec.serviceRef;
  }
  if (values.has('externalUrl')) spec.externalUrl = values.get('externalUrl');
  if (spec.externalUrl === spec.proxyTo) delete spec.externalUrl;
  const active = values.get('active');
  const annotation = typeof active === 'boolean' ? activeAnnotation({ ...resource, spec }, active, BY, at) : undefined;
  const { [ACTIVE_ANNOTATION]: before, ...others } = resource.metadata.annotations ?? {};
  const text = annotation === undefined ? before : annotation;
  const annotations = text == null ? others : { ...others, [ACTIVE_ANNOTATION]: text };
  return { ...resource, metadata: { ...resource.metadata, annotations }, spec };
}
