import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ApiError } from '../../client/apiError.ts';
import { call, callWhole } from '../../client/call.ts';
import { CLUSTERS, drainQuery } from '../../client/clusters.ts';
import type { ClusterInput, ClusterState } from '../../client/types.ts';
import { confirm } from '../../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../../components/notify.ts';

/** Refetches the clusters, so that a change is shown immediately. */
function useRefresh(): () => Promise<void> {
  const client = useQueryClient();
  return () => client.invalidateQueries({ queryKey: CLUSTERS });
}

export interface Save {
  readonly cluster: ClusterInput;
  readonly isNew: boolean;
  /** Takes over fields of other managers (ADMIN). */
  readonly force: boolean;
}

/** The cluster does not exist any more; nothing was stored. */
export class DeletedMeanwhile extends Error {}

/** A call that changes a missing cluster would add it. @throws DeletedMeanwhile */
async function mustBeThere(name: string): Promise<void> {
  try {
    await call(`/api/clusters/${encodeURIComponent(name)}`, { method: 'GET' });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) throw new DeletedMeanwhile();
    throw error;
  }
}

/** Stores a cluster. The form shows errors. */
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
    // A failed request for the remaining queries does not prevent the deletion.
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
