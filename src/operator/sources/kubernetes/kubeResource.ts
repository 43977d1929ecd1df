import { isDeepStrictEqual } from 'node:util';
import { apiVersionOf, type Kind, type Resource, type ResourceStatus } from '../../../model/resource.ts';
import type { FieldWriter, Provenance } from '../source.ts';
import type { KubeObject, ManagedFieldsEntry } from './kubeApi.ts';

/** An annotation of kubectl that repeats the whole manifest. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/** A resource with its authors, of whom `managedFields` states more than all the rest. */
export interface KubeResource extends Resource {
  /** Managers of fields right below `spec`, in the order of their entries. */
  readonly managers: Provenance['managers'];
  /** Authors of changes of anything but the status. */
  readonly writers: readonly FieldWriter[];
}

export function resourceOfObject(kind: Kind, object: KubeObject): KubeResource {
  const { metadata } = object;
  const { managedFields = [] } = metadata;
  const { [lastApplied]: _, ...annotations } = metadata.annotations ?? {};
  return {
    apiVersion: apiVersionOf(kind),
    kind,
    metadata: {
      name: metadata.name,
      namespace: metadata.namespace ?? '',
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
      generation: metadata.generation ?? 0,
      creationTimestamp: String(metadata.creationTimestamp ?? ''),
      ...(metadata.deletionTimestamp === undefined ? {} : { deletionTimestamp: String(metadata.deletionTimestamp) }),
      labels: metadata.labels ?? {},
      annotations,
      ...(metadata.ownerReferences === undefined ? {} : { ownerReferences: metadata.ownerReferences }),
    },
    spec: object.spec ?? {},
    ...(object.status === undefined ? {} : { status: object.status as ResourceStatus }),
    managers: specManagers(managedFields),
    writers: fieldWriters(managedFields),
  };
}

/**
 * True if a later resource is the same as an earlier one but for its status, and for the version that each written
 * status makes. A version that is lower is of an API server that went back to an earlier state: there a generation may
 * have been given twice, and is compared with the rest.
 */
export function onlyStatusDiffers(a: Resource, b: Resource): boolean {
  const significant = ({ metadata, spec }: Resource) => [{ ...metadata, resourceVersion: '' }, spec];
  const isRestored = isLower(b.metadata.resourceVersion, a.metadata.resourceVersion);
  return !isRestored && isDeepStrictEqual(significant(a), significant(b));
}

function isLower(version: string, than: string): boolean {
  return version.length < than.length || (version.length === than.length && version < than);
}

/** The managers that own fields right below `spec`, in the order of their entries. */
export function specManagers(managedFields: readonly ManagedFieldsEntry[]): Provenance['managers'] {
  return managedFields.flatMap(({ manager = 'another manager', subresource = '', fieldsV1 }) => {
    if (subresource !== '') return [];
    const fields = Object.keys((fieldsV1?.['f:spec'] ?? {}) as object)
      .filter((key) => key.startsWith('f:'))
      .map((key) => key.slice(2));
    return fields.length === 0 ? [] : [{ manager, fields }];
  });
}

/** The managers that wrote something other than the status, each with the time of its last change. */
function fieldWriters(managedFields: readonly ManagedFieldsEntry[]): readonly FieldWriter[] {
  return managedFields
    .filter(({ subresource = '' }) => subresource === '')
    .map(({ manager = 'another manager', operation = '', time = '' }) => ({ manager, operation, time: String(time) }));
}
