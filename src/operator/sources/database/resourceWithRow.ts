import { activeAnnotation } from '../../../kinds/engineCluster/activeOverride.ts';
import { ACTIVE_ANNOTATION, type Resource } from '../../../model/resource.ts';
import { rowChanges } from '../../../store/externalRow.ts';
import type { BackendRow } from '../../../store/store.ts';

/** The user of an override that another program made, in annotations. */
const BY = 'another gateway (gateway_backend)';

/**
 * Returns a cluster with what another program wrote into its row: group and URLs in the spec, `active` as an override. Pure.
 * @param written the row as it was written last
 * @param at when the change was noticed, RFC 3339
 */
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
