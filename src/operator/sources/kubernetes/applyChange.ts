import { API_FIELD_MANAGER, API_GROUP_VERSION, type ResourceKey } from '../../../model/resource.ts';
import { isEmptyChange, type ResourceChange } from '../source.ts';
import { specOwnership } from './fieldOwnership.ts';
import type { KubeApi, KubeObject } from './kubeApi.ts';
import { fieldConflicts, fieldOwned } from './kubeErrors.ts';

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
  const { own, others } = specOwnership(live.metadata.managedFields ?? []);
  if (change.remove.length > 0) {
    const conflicts = [...change.remove, ...Object.keys(change.set)].flatMap((field) =>
      (others.get(field) ?? []).map((manager) => ({ manager, field: `spec.${field}` })),
    );
    if (conflicts.length > 0 && !force) throw fieldOwned(conflicts);
    // Apply only removes fields without other managers; a merge patch removes and sets fields of any manager.
    const nulls = Object.fromEntries(change.remove.map((field) => [field, null]));
    const { resourceVersion } = live.metadata;
    const body = { metadata: { resourceVersion }, spec: { ...change.set, ...nulls } };
    return await api.merge(key, body, API_FIELD_MANAGER);
  }
  const owned = Object.entries(live.spec ?? {}).filter(([field]) => own.has(field));
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
