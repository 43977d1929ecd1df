import { isDeepStrictEqual } from 'node:util';
import {
  API_FIELD_MANAGER,
  API_GROUP_VERSION,
  type Kind,
  type OwnerReference,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
} from '../../../model/resource.ts';
import { type FieldWriter, isEmptyChange, type ResourceChange } from '../source.ts';
import type { KubeApi, KubeObject, ManagedFieldsEntry, SpecManager } from './kubeApi.ts';
import { fieldConflicts, fieldOwned } from './kubeErrors.ts';

/** An annotation of kubectl that repeats the whole manifest. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

export function resourceOfObject(kind: Kind, object: KubeObject): Resource {
  const { metadata } = object;
  const { [lastApplied]: _, ...annotations } = metadata.annotations ?? {};
  return {
    apiVersion: API_GROUP_VERSION,
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
      ...(metadata.ownerReferences === undefined ? {} : { ownerReferences: metadata.ownerReferences.map(ownerOf) }),
    },
    spec: object.spec ?? {},
    ...(object.status === undefined ? {} : { status: object.status as ResourceStatus }),
  };
}

function ownerOf({ apiVersion, kind, name, uid, controller }: OwnerReference): OwnerReference {
  return { apiVersion, kind, name, uid, ...(controller === true ? { controller } : {}) };
}

/**
 * True if a later resource is the same as an earlier one but for its status, and for the version that each written
 * status makes. A version that is lower is of an API server that went back to an earlier state: there a generation may
 * have been given twice, and is compared with the rest.
 */
export function onlyStatusDiffers(a: Resource, b: Resource): boolean {
  return (
    a.metadata.uid === b.metadata.uid &&
    !isLower(b.metadata.resourceVersion, a.metadata.resourceVersion) &&
    isDeepStrictEqual(a.spec, b.spec) &&
    a.metadata.generation === b.metadata.generation &&
    a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
    isDeepStrictEqual(a.metadata.annotations, b.metadata.annotations) &&
    isDeepStrictEqual(a.metadata.labels, b.metadata.labels) &&
    isDeepStrictEqual(a.metadata.ownerReferences, b.metadata.ownerReferences)
  );
}

function isLower(version: string, than: string): boolean {
  return version.length < than.length || (version.length === than.length && version < than);
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

type WritingApi = Pick<KubeApi, 'apply' | 'merge'>;

/**
 * Applies a change by REST to an object: its spec by server-side apply, its annotations by a merge patch.
 * @param live the object as it is on the API server now
 * @param force takes fields over from other managers
 * @throws GatewayError EG_FIELD_OWNED; errors of the API server as the client gives them
 */
export async function applyChange(
  api: WritingApi,
  live: KubeObject,
  key: ResourceKey,
  change: ResourceChange,
  force: boolean,
): Promise<KubeObject> {
  const { annotations } = change;
  const isSpecChanged = !isEmptyChange({ ...change, annotations: {} });
  const applied = isSpecChanged ? await applySpec(api, live, key, change, force) : live;
  if (Object.keys(annotations).length === 0) return applied;
  const { resourceVersion } = applied.metadata;
  return await api.merge(key, { metadata: { resourceVersion, annotations } }, API_FIELD_MANAGER);
}

/**
 * Server-side apply of what changes and of what REST owns already, so that it stays ours. Conflicts with what REST
 * itself wrote otherwise (the creation, which is no apply) are none.
 */
async function applySpec(
  api: WritingApi,
  live: KubeObject,
  key: ResourceKey,
  change: ResourceChange,
  force: boolean,
): Promise<KubeObject> {
  const managers = specManagers(live.metadata.managedFields ?? []);
  const isOwn = (field: string) =>
    managers.some((each) => each.manager === API_FIELD_MANAGER && each.fields.includes(field));
  if (change.remove.length > 0) {
    const conflicts = [...change.remove, ...Object.keys(change.set)].flatMap((field) =>
      managers
        .filter(({ manager, fields }) => manager !== API_FIELD_MANAGER && fields.includes(field))
        .map(({ manager }) => ({ manager, field: `spec.${field}` })),
    );
    if (conflicts.length > 0 && !force) throw fieldOwned(conflicts);
    // Apply only removes fields without other managers; a merge patch removes and sets fields of any manager.
    const nulls = Object.fromEntries(change.remove.map((field) => [field, null]));
    const { resourceVersion } = live.metadata;
    const body = { metadata: { resourceVersion }, spec: { ...change.set, ...nulls } };
    return await api.merge(key, body, API_FIELD_MANAGER);
  }
  const owned = Object.entries(live.spec ?? {}).filter(([field]) => isOwn(field));
  const body = {
    apiVersion: API_GROUP_VERSION,
    kind: key.kind,
    // The uid keeps a resource that was deleted meanwhile from being created by the apply.
    metadata: { name: key.name, namespace: key.namespace, uid: live.metadata.uid },
    spec: { ...Object.fromEntries(owned), ...change.set },
  };
  try {
    return await api.apply(key, body, API_FIELD_MANAGER, force);
  } catch (error) {
    const conflicts = fieldConflicts(error);
    if (conflicts.length === 0) throw error;
    const foreign = conflicts.filter((conflict) => conflict.manager !== API_FIELD_MANAGER);
    if (foreign.length > 0) throw fieldOwned(foreign);
    return await api.apply(key, body, API_FIELD_MANAGER, true);
  }
}
