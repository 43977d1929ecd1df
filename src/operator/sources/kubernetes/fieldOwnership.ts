import { API_FIELD_MANAGER } from '../../../model/resource.ts';
import type { FieldWriter } from '../source.ts';
import type { ManagedFieldsEntry, SpecManager } from './kubeApi.ts';

/** Owners of fields in `spec`, by metadata.managedFields (Kubernetes: server-side apply, field management). */
export interface SpecOwnership {
  /** Fields of `spec` that REST owns. */
  readonly own: ReadonlySet<string>;
  readonly others: ReadonlyMap<string, readonly string[]>;
}

/** Reads the owners of the fields right below `spec`. */
export function specOwnership(managedFields: readonly ManagedFieldsEntry[]): SpecOwnership {
  const own = new Set<string>();
  const others = new Map<string, string[]>();
  for (const { manager, fields } of specManagers(managedFields)) {
    for (const field of fields) {
      if (manager === API_FIELD_MANAGER) own.add(field);
      else others.set(field, [...(others.get(field) ?? []), manager]);
    }
  }
  return { own, others };
}

/** The managers that own fields right below `spec`, in the order of their entries. */
export function specManagers(managedFields: readonly ManagedFieldsEntry[]): readonly SpecManager[] {
  return managedFields.flatMap(({ manager = 'another manager', subresource = '', fieldsV1 }) => {
    if (subresource !== '') return [];
    const fields = Object.keys((fieldsV1?.['f:spec'] ?? {}) as object)
      .filter((key) => key.startsWith('f:'))
      .map((key) => key.slice(2));
    return fields.length === 0 ? [] : [{ manager, fields }];
  });
}

/** The managers that wrote something other than the status, each with the time of its last change. */
export function fieldWriters(managedFields: readonly ManagedFieldsEntry[]): readonly FieldWriter[] {
  return managedFields
    .filter(({ subresource = '' }) => subresource === '')
    .map(({ manager = 'another manager', operation = '', time = '' }) => ({ manager, operation, time: String(time) }));
}
