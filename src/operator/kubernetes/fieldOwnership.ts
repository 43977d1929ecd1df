import { API_FIELD_MANAGER } from '../../model/resource.ts';
import type { ManagedFieldsEntry } from './kubeApi.ts';

/** Who owns which fields of `spec`, by metadata.managedFields (Kubernetes: server-side apply, field management). */
export interface SpecOwnership {
  /** Fields of `spec` that REST owns. */
  readonly own: ReadonlySet<string>;
  /** Other owners of each field. */
  readonly others: ReadonlyMap<string, readonly string[]>;
}

/** Reads the owners of the fields right below `spec`. */
export function specOwnership(managedFields: readonly ManagedFieldsEntry[]): SpecOwnership {
  const own = new Set<string>();
  const others = new Map<string, string[]>();
  for (const { manager, subresource, fieldsV1 } of managedFields) {
    if (subresource !== undefined && subresource !== '') continue;
    for (const key of Object.keys((fieldsV1?.['f:spec'] ?? {}) as object)) {
      if (!key.startsWith('f:')) continue;
      const field = key.slice(2);
      if (manager === API_FIELD_MANAGER) own.add(field);
      else others.set(field, [...(others.get(field) ?? []), manager ?? 'another manager']);
    }
  }
  return { own, others };
}
