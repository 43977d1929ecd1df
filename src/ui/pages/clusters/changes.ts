import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ApiError } from '../../client/apiError.ts';
import { call, callWhole } from '../../client/call.ts';
import { CLUSTERS, drainQuery } from '../../client/clusters.ts';
import type { ClusterState, RegistryClusterInput } from '../../client/types.ts';
import { confirm } from '../../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../../components/notify.ts';

/** Reads the clusters again, so that a change is shown at once. */
function useRefresh(): () => Promise<void> {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: CLUSTERS });
}

/** A cluster to be stored, and how. */
export interface Save {
  readonly cluster: RegistryClusterInput;
  /** A cluster of that name must not exist yet. */
  readonly isNew: boolean;
  /** Fields of other managers are taken over (ADMIN). */
  readonly force: boolean;
}

/** The cluster that was to be changed is not there any more; nothing was stored. */
export class DeletedMeanwhile extends Error {}

/** A call that changes a cluster would add one that is not there. @throws DeletedMeanwhile */
async function mustBeThere(name: string): Promise<void> {
  try {
    await call(`/api/clusters/${encodeURIComponent(name)}`, { method: 'GET' });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) throw new DeletedMeanwhile();
    throw error;
  }
}

/** Stores a cluster. Its errors are shown by the form. */
export function useSave() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: async ({ cluster, isNew, force }: Save) => {
      if (!isNew) await mustBeThere(cluster.name);
      const path = `/webapp/${isNew ? 'saveBackend' : 'updateBackend'}${force ? '?force=true' : ''}`;
      return await callWhole(path, { body: cluster });
    },
    onSuccess: async (answer, { cluster, isNew }) => {
      await refresh();
      notifyWritten(`${cluster.name} is ${isNew ? 'added' : 'changed'}.`, answer);
    },
  });
}

/** Asks, then deletes a cluster. */
export function useDelete(): (cluster: ClusterState) => Promise<void> {
  const client = useQueryClient();
  const refresh = useRefresh();
  const { mutate } = useMutation({
    mutationFn: (name: string) => callWhole('/webapp/deleteBackend', { body: { name } }),
    onSuccess: async (answer, name) => {
      await refresh();
      notifyWritten(`${name} is deleted.`, answer);
    },
    onError: (error, name) => notifyFailed(`${name} could not be deleted`, error),
  });
  return async ({ name, running, origin, resource }) => {
    // Who cannot be asked now is no reason not to delete.
    const drain = await client.fetchQuery(drainQuery(name)).catch(() => null);
    const left = Math.max(running ?? 0, drain?.runningQueries ?? 0);
    const queries =
      left === 0 ? '' : ` ${left === 1 ? '1 query runs' : `${left} queries run`} on it and can still be followed.`;
    const returns =
      resource !== null && origin === 'kubernetes'
        ? ' Where a GitOps controller declares it, that controller will create it again.'
        : '';
    const text = `${name} takes no queries any more and is gone for everybody.${queries}${returns}`;
    if (await confirm({ title: `Delete ${name}?`, text, action: 'Delete', dangerous: true })) mutate(name);
  };
}
