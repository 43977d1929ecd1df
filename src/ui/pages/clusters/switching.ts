import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query';
import { messageOf } from '../../client/apiError.ts';
import { type ApiResponse, callWhole } from '../../client/call.ts';
import { CLUSTERS, clusterQuery, drainQuery } from '../../client/clusters.ts';
import { GROUPS_KEY } from '../../client/limits.ts';
import type { NewQueries, SwitchedCluster } from '../../client/types.ts';
import { confirm } from '../../components/confirm.tsx';
import { notifyFailed } from '../../components/notify.ts';
import { notifyUndoable } from '../../components/undo.tsx';
import { describeLastActive, drainText, isLastActive } from './consequences.ts';

/** @param version expected version of the cluster: rejected if another user has switched it since */
function put(name: string, active: boolean, version?: string): Promise<ApiResponse<SwitchedCluster>> {
  return callWhole(`/api/clusters/${encodeURIComponent(name)}/active`, { method: 'PUT', body: { active, version } });
}

/** Refetches clusters and groups, so that a change is shown immediately. */
async function refresh(client: QueryClient): Promise<void> {
  await Promise.all([CLUSTERS, GROUPS_KEY].map((queryKey) => client.invalidateQueries({ queryKey })));
}

function doneText(name: string, active: boolean): string {
  return `${name} ${active ? 'takes new queries' : 'takes no new queries; running ones go on'}.`;
}

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
  const failed = (error: unknown, active: boolean) =>
    notifyFailed(`${name} could not be ${active ? 'activated' : 'deactivated'}`, error);
  const { mutate, isPending, variables } = useMutation({
    mutationFn: (active: boolean) => put(name, active),
    onSuccess: async (answer, active) => {
      await refresh(client);
      const { version } = answer.data;
      const undo = version === null ? null : () => void takeBack(client, [{ name, version }], active);
      notifyUndoable(doneText(name, active), answer, undo);
    },
    onError: failed,
  });
  const switchTo = async (active: boolean) => {
    try {
      if (active || (await isMeant(client, name))) mutate(active);
    } catch (error) {
      failed(error, active);
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
      const answer = await put(name, !active, version);
      notifyUndoable(doneText(name, !active), answer, null);
    } catch (error) {
      notifyFailed(`${name} was not switched back`, error);
    }
  }
  await refresh(client);
}

/** Asks, then deactivates all active clusters of a group; can be reverted for some seconds. */
export function useDrainAll(group: string) {
  const client = useQueryClient();
  const failed = (error: unknown) => notifyFailed(`${group} could not be drained`, error);
  const { mutate, isPending } = useMutation({
    mutationFn: switchOffAll,
    onSuccess: async ({ switched, failures }) => {
      await refresh(client);
      if (failures.length > 0) notifyFailed(`Not all of ${group} is switched off`, new Error(failures.join('; ')));
      if (switched.length === 0) return;
      const what = switched.length === 1 ? '1 backend of' : `${switched.length} backends of`;
      const message = `${what} ${group} ${switched.length === 1 ? 'takes' : 'take'} no new queries; running ones go on.`;
      notifyUndoable(message, done, () => void takeBack(client, switched, false));
    },
    onError: failed,
  });
  const drain = async ({ clusters, withoutTakers }: GroupToDrain) => {
    const counts = await Promise.all(clusters.map((name) => queriesOn(client, name)));
    const text = drainText(clusters, counts, withoutTakers);
    if (await confirm({ title: `Drain all of ${group}?`, text, action: 'Drain all', dangerous: true }))
      mutate(clusters);
  };
  return { isPending, drain };
}

const done = { pending: null, warnings: [] };

/** Deactivates clusters sequentially, each by a separate write; reports failures by name. */
async function switchOffAll(
  clusters: readonly string[],
): Promise<{ readonly switched: readonly Switched[]; readonly failures: readonly string[] }> {
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
  return { switched, failures };
}

interface GroupToDrain {
  readonly clusters: readonly string[];
  readonly withoutTakers: NewQueries;
}
