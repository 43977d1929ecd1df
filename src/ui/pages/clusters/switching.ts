import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query';
import { messageOf } from '../../client/apiError.ts';
import { type ApiResponse, call, callWhole } from '../../client/call.ts';
import { useReported } from '../../client/changes.ts';
import { CLUSTERS, clusterQuery, drainQuery, GROUPS_KEY, isMissing, objectPath } from '../../client/resources.ts';
import type { ClusterInput, ClusterState, NewQueries, SwitchedCluster } from '../../client/types.ts';
import { confirm } from '../../components/confirm.tsx';
import { notifyFailed, notifyUndoable, notifyWritten } from '../../components/notify.tsx';
import { describeLastActive, drainText, isLastActive } from './clusterTexts.ts';

/** @param version expected version of the cluster: rejected if another user has switched it since */
function put(name: string, active: boolean, version?: string): Promise<ApiResponse<SwitchedCluster>> {
  return callWhole(`${objectPath('/api/clusters', name)}/active`, { method: 'PUT', body: { active, version } });
}

const switchedKeys = [CLUSTERS, GROUPS_KEY];

function doneText(name: string, active: boolean): string {
  return `${name} ${active ? 'takes new queries' : 'takes no new queries; running ones go on'}.`;
}

/** Queries that run on a cluster; null if unknown. */
async function queriesOn(client: QueryClient, name: string): Promise<number | null> {
  const drain = await client.fetchQuery(drainQuery(name)).catch(() => null);
  return drain === null ? null : Math.max(drain.runningQueries, drain.reported?.running ?? 0);
}

/**
 * Activates or deactivates a cluster: asks first for the last one of its group. Can be reverted for some seconds unless
 * another user switches it meanwhile.
 */
export function useSwitch(name: string) {
  const client = useQueryClient();
  const failed = (active: boolean) => `${name} could not be ${active ? 'activated' : 'deactivated'}`;
  const { mutate, isPending, variables } = useReported({
    write: (active: boolean) => put(name, active),
    keys: switchedKeys,
    report: (response, active) => {
      const { version } = response.data;
      const undo = version === null ? null : () => void takeBack(client, [{ name, version }], active);
      notifyUndoable(doneText(name, active), response, undo);
    },
    failed,
  });
  const switchTo = async (active: boolean) => {
    try {
      if (active || (await isMeant(client, name))) mutate(active);
    } catch (error) {
      notifyFailed(failed(active), error);
    }
  };
  return { isPending, wanted: variables, switchTo };
}

/** Asks before the last active cluster of a group is deactivated. */
async function isMeant(client: QueryClient, name: string): Promise<boolean> {
  const cluster = await client.fetchQuery({ ...clusterQuery(name), staleTime: 0 });
  if (!isLastActive(cluster)) return true;
  const text = describeLastActive(cluster, await queriesOn(client, name));
  return await confirm({ title: `Switch off ${name}?`, text, action: 'Switch off', dangerous: true });
}

interface Switched {
  readonly name: string;
  readonly version: string;
}

/**
 * Switches clusters back, except clusters that another user has switched since. @param active their state before the
 * undo
 */
async function takeBack(client: QueryClient, clusters: readonly Switched[], active: boolean): Promise<void> {
  for (const { name, version } of clusters) {
    try {
      notifyWritten(doneText(name, !active), await put(name, !active, version));
    } catch (error) {
      notifyFailed(`${name} was not switched back`, error);
    }
  }
  await Promise.all(switchedKeys.map((queryKey) => client.invalidateQueries({ queryKey })));
}

interface GroupToDrain {
  readonly clusters: readonly string[];
  readonly withoutTakers: NewQueries;
}

/** Asks, then deactivates all active clusters of a group; can be reverted for some seconds. */
export function useDrainAll(group: string) {
  const client = useQueryClient();
  const { mutate, isPending } = useReported({
    write: switchOffAll,
    keys: switchedKeys,
    report: ({ data: { switched, failures } }) => {
      if (failures.length > 0) notifyFailed(`Not all of ${group} is switched off`, new Error(failures.join('; ')));
      if (switched.length === 0) return;
      const what = switched.length === 1 ? '1 backend of' : `${switched.length} backends of`;
      const message = `${what} ${group} ${switched.length === 1 ? 'takes' : 'take'} no new queries; running ones go on.`;
      notifyUndoable(message, noEffects, () => void takeBack(client, switched, false));
    },
    failed: () => `${group} could not be drained`,
  });
  const drain = async ({ clusters, withoutTakers }: GroupToDrain) => {
    const counts = await Promise.all(clusters.map((name) => queriesOn(client, name)));
    const text = drainText(clusters, counts, withoutTakers);
    if (await confirm({ title: `Drain all of ${group}?`, text, action: 'Drain all', dangerous: true }))
      mutate(clusters);
  };
  return { isPending, drain };
}

const noEffects = { pending: null, warnings: [] };

/** Deactivates clusters sequentially, each by a separate write; reports failures by name. */
async function switchOffAll(clusters: readonly string[]) {
  const switched: Switched[] = [];
  const failures: string[] = [];
  for (const name of clusters) {
    try {
      const { version } = (await put(name, false)).data;
      if (version !== null) switched.push({ name, version });
    } catch (error) {
      failures.push(`${name}: ${messageOf(error)}`);
    }
  }
  return { ...noEffects, data: { switched, failures } };
}

interface Save {
  readonly cluster: ClusterInput;
  readonly isNew: boolean;
  /** Takes over fields of other managers (ADMIN). */
  readonly force: boolean;
}

/** The cluster does not exist any more; nothing was stored. */
export class DeletedMeanwhile extends Error {}

/** Stores a cluster. The form shows errors. */
export function useSave() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ cluster, isNew, force }: Save) => {
      // A call that changes a missing cluster would add it.
      if (!isNew)
        await call(objectPath('/api/clusters', cluster.name), { method: 'GET' }).catch((error: unknown) => {
          throw isMissing(error) ? new DeletedMeanwhile() : error;
        });
      const path = `/webapp/${isNew ? 'saveBackend' : 'updateBackend'}${force ? '?force=true' : ''}`;
      return await callWhole(path, { body: cluster });
    },
    onSuccess: async (response, { cluster, isNew }) => {
      await client.invalidateQueries({ queryKey: CLUSTERS });
      notifyWritten(`${cluster.name} is ${isNew ? 'added' : 'changed'}.`, response);
    },
  });
}

export function useDelete(): (cluster: ClusterState) => Promise<void> {
  const client = useQueryClient();
  const { mutate } = useReported({
    write: (name: string) => callWhole('/webapp/deleteBackend', { body: { name } }),
    keys: [CLUSTERS],
    done: (name) => `${name} is deleted.`,
    failed: (name) => `${name} could not be deleted`,
  });
  return async ({ name, running, origin, resource }) => {
    // A failed request for the remaining queries does not prevent the deletion.
    const drain = await client.fetchQuery(drainQuery(name)).catch(() => null);
    const left = Math.max(running ?? 0, drain?.runningQueries ?? 0);
    const run = left === 1 ? '1 query runs' : `${left} queries run`;
    const queries = left === 0 ? '' : ` ${run} on it and can still be followed.`;
    const returns =
      resource !== null && origin === 'kubernetes'
        ? ' Where a GitOps controller declares it, that controller will create it again.'
        : '';
    const text = `${name} takes no queries any more and is gone for everybody.${queries}${returns}`;
    if (await confirm({ title: `Delete ${name}?`, text, action: 'Delete', dangerous: true })) mutate(name);
  };
}
