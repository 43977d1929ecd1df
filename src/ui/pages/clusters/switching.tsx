import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, type ApiResponse, call, callWhole, isMissing, messageOf } from '../../client/call.ts';
import { useAsked, useReported } from '../../client/changes.ts';
import { CLUSTERS, clusterQuery, drainQuery, GROUPS_KEY, objectPath } from '../../client/resources.ts';
import type { ClusterDetails, ClusterInput, ClusterState, NewQueries, SwitchedCluster } from '../../client/types.ts';
import { Notice } from '../../components/elements.tsx';
import { type Field, RecordForm, type Values } from '../../components/forms.tsx';
import { confirm, notifyFailed, notifyUndoable, notifyWritten } from '../../components/notify.tsx';
import { NotOpened, onlyAdministrators } from '../../components/ownership.tsx';
import { discoveredText, newQueriesText, someNames } from './clusterParts.tsx';

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
class DeletedMeanwhile extends Error {}

/** Stores a cluster. The form shows errors. */
function useSave() {
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

export function useDelete() {
  const client = useQueryClient();
  return useAsked<ClusterState>(
    async ({ name, running, origin, resource }) => {
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
      return { title: `Delete ${name}?`, text, action: 'Delete', dangerous: true };
    },
    {
      write: ({ name }) => callWhole('/webapp/deleteBackend', { body: { name } }),
      keys: [CLUSTERS],
      done: ({ name }) => `${name} is deleted.`,
      failed: ({ name }) => `${name} could not be deleted`,
    },
  );
}

interface ClusterFormProps {
  /** Null: a new cluster. */
  readonly cluster: ClusterState | null;
  readonly isDeleted: boolean;
  readonly groups: readonly string[];
  readonly onClose: () => void;
}

/** Form to add or change a cluster. */
export function ClusterForm({ cluster, isDeleted: isGone, groups, onClose }: ClusterFormProps) {
  const isNew = cluster === null;
  const save = useSave();
  // A save asks before the page knows the current state.
  const [wasMissed, setMissed] = useState(false);
  const isDeleted = isGone || wasMissed;
  const values = {
    name: cluster?.name ?? null,
    routingGroup: cluster?.routingGroup ?? null,
    proxyTo: cluster?.proxyTo ?? null,
    // Empty if it only repeats the address.
    externalUrl: cluster?.externalUrl === cluster?.proxyTo ? null : (cluster?.externalUrl ?? null),
    active: cluster?.active ?? true,
  };
  const store = async (edited: Values, force: boolean) => {
    const text = (name: keyof typeof values) => String(edited[name] ?? '').trim();
    const written = {
      name: String(edited.name),
      routingGroup: String(edited.routingGroup),
      proxyTo: text('proxyTo'),
      externalUrl: text('externalUrl') || null,
      active: edited.active === true,
    };
    try {
      await save.mutateAsync({ cluster: written, isNew: isNew || isDeleted, force });
      return true;
    } catch (error) {
      // Another user added it meanwhile.
      if (error instanceof ApiError && error.code === 'EG_CONFLICT') setMissed(false);
      if (!(error instanceof DeletedMeanwhile)) throw error;
      setMissed(true);
      return false;
    }
  };
  const note = isDeleted && (
    <Notice tone="error" color="yellow" title={`${cluster?.name} was deleted meanwhile`}>
      Nothing was stored. Cancel, or add it again as it stands here.
    </Notice>
  );
  return (
    <RecordForm
      title={isNew ? 'Add a backend' : `Edit ${cluster.name}`}
      action={isNew ? 'Add' : isDeleted ? 'Add it again' : 'Save'}
      fields={fieldsOf(isNew, groups)}
      {...{ values, note, onClose }}
      onSave={store}
    />
  );
}

const fieldsOf = (isNew: boolean, groups: readonly string[]): readonly Field[] => [
  {
    ...{ name: 'name', label: 'Name', kind: 'text', required: true, readOnly: !isNew, missing: 'Enter a name.' },
    ...(isNew ? {} : { description: 'The name of a backend cannot be changed.' }),
  },
  {
    ...{ name: 'routingGroup', label: 'Routing group', kind: 'suggestion', required: true },
    options: groups.map((group) => ({ value: group, label: group })),
    missing: 'Enter a routing group.',
  },
  {
    ...{ name: 'proxyTo', label: 'URL', kind: 'text', required: true, description: 'Where requests are forwarded to' },
    placeholder: 'http://engine.example:8080',
    missing: 'Enter the URL that requests are forwarded to.',
  },
  {
    ...{ name: 'externalUrl', label: 'External URL', kind: 'text' },
    description: 'The link for people, where it is another one',
  },
  { name: 'active', label: 'Takes new queries', kind: 'flag' },
];

interface OpenedFormProps {
  readonly name: string;
  /** Undefined: no cluster has this name (any more). */
  readonly cluster: ClusterState | undefined;
  readonly groups: readonly string[];
  readonly onClose: () => void;
}

/** The form of the cluster in the page's address. Another name needs another component. */
export function OpenedForm({ name, cluster, groups, onClose }: OpenedFormProps) {
  // The state when the form was opened: the cluster may be deleted meanwhile.
  const [begun] = useState(cluster);
  const what = `Backend ${name}`;
  if (begun === undefined) return <NotOpened what={what} onClose={onClose} />;
  if (!begun.mayChange) return <NotOpened what={what} why={onlyAdministrators} onClose={onClose} />;
  const why = discoveredText(begun) ?? (begun.routed ? undefined : 'It is not routed: its resource is not accepted.');
  if (why !== undefined) return <NotOpened what={what} why={why} onClose={onClose} />;
  return <ClusterForm cluster={begun} isDeleted={cluster === undefined} groups={groups} onClose={onClose} />;
}

/** Describes the number of queries that continue. @param queries running queries; null if unknown */
function continueText(queries: number | null): string {
  if (queries === null) return 'Queries that run go on.';
  if (queries === 0) return 'No query is known to run.';
  return queries === 1 ? '1 query runs, and goes on to its end.' : `${queries} queries run, and go on to their end.`;
}

export function isLastActive({ takesNewQueries, group }: Pick<ClusterDetails, 'takesNewQueries' | 'group'>): boolean {
  return takesNewQueries && group !== null && group.others.length === 0;
}

/** Describes the effect of deactivating the last active cluster of a group. @param queries null if unknown */
export function describeLastActive({ name, group }: ClusterDetails, queries: number | null): string {
  const first = `${name} is the last backend of the routing group ${group?.name ?? ''} that takes new queries.`;
  const next = group === null ? '' : ` ${newQueriesText(group.withoutTakers)}`;
  return `${first} ${continueText(queries)}${next}`;
}

/**
 * Describes the effect of deactivating all active clusters of a group.
 * @param counts running queries per cluster; null if unknown
 */
export function drainText(
  clusters: readonly string[],
  counts: readonly (number | null)[],
  withoutTakers: NewQueries,
): string {
  const [only] = clusters;
  const which = clusters.length === 1 ? `the backend ${only}` : `${clusters.length} backends (${someNames(clusters)})`;
  const queries = counts.includes(null) ? null : counts.reduce((sum: number, count) => sum + (count ?? 0), 0);
  return `This switches off ${which}. ${continueText(queries)} ${newQueriesText(withoutTakers)}`;
}
