import { gatewayClassOf } from '../../model/gatewayClass.ts';
import { type LabelSelector, matchesLabels } from '../../model/labelSelector.ts';
import type { Resource } from '../../model/resource.ts';

/** Which resources of a source are a gateway's own (docs/resources.md#several-gateways). */
export interface ResourceSelection {
  /** `resources.class`; null: resources that name no class. */
  readonly gatewayClass: string | null;
  /** `resources.labelSelector`; null: whatever their labels are. */
  readonly labels: LabelSelector | null;
  /** `resources.namespaces`; null: of every namespace that the source reads. */
  readonly namespaces: ReadonlySet<string> | null;
}

export function isSelected(
  { gatewayClass, labels, namespaces }: ResourceSelection,
  { spec, metadata }: Pick<Resource, 'spec' | 'metadata'>,
): boolean {
  if (gatewayClassOf(spec) !== gatewayClass) return false;
  if (namespaces !== null && !namespaces.has(metadata.namespace)) return false;
  return labels === null || matchesLabels(labels, metadata.labels ?? {});
}
