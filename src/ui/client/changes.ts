import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query';
import { confirm } from '../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../components/notify.tsx';
import { type ApiResponse, callWhole } from './call.ts';
import { objectPath, QUEUE, RUNNING_KEY } from './resources.ts';
import type { QueuedQuery, RunningQuery } from './types.ts';

interface Change<V, T> {
  readonly write: (subject: V) => Promise<ApiResponse<T>>;
  /** Queries that are fetched again before the change is reported. */
  readonly keys: readonly QueryKey[];
  /** Reports the change. Default: a notification with `done`. */
  readonly report?: (response: ApiResponse<T>, subject: V) => void;
  readonly done?: (subject: V) => string;
  /** Title of a failure. */
  readonly failed: (subject: V) => string;
}

/** A change that is reported, with fresh data. */
export function useReported<V, T = unknown>({ write, keys, report, done, failed }: Change<V, T>) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: write,
    onSuccess: async (response, subject) => {
      await Promise.all(keys.map((queryKey) => client.invalidateQueries({ queryKey })));
      if (report !== undefined) report(response, subject);
      else notifyWritten(done?.(subject) ?? '', response);
    },
    onError: (error, subject) => notifyFailed(failed(subject), error),
  });
}

const ownerText = (user: string | null): string => user ?? 'nobody who is known';

/** Actions of administrators on a queued query, each after a confirmation. */
export interface QueueChanges {
  readonly moveFirst: (query: QueuedQuery) => Promise<void>;
  readonly drop: (query: QueuedQuery) => Promise<void>;
}

/** Asks, then moves a queued query to the front or removes it. */
export function useQueueChanges(): QueueChanges {
  const path = ({ id }: QueuedQuery) => objectPath('/api/queue', id);
  const moving = useReported({
    write: (query: QueuedQuery) => callWhole(`${path(query)}/first`),
    keys: [QUEUE],
    done: ({ id }) => `${id} is the first of its group.`,
    failed: ({ id }) => `${id} could not be moved`,
  });
  const dropping = useReported({
    write: (query: QueuedQuery) => callWhole(path(query), { method: 'DELETE' }),
    keys: [QUEUE],
    done: ({ id }) => `${id} is taken out of the queue.`,
    failed: ({ id }) => `${id} could not be dropped`,
  });
  return {
    async moveFirst(query) {
      const { id, user, routingGroup } = query;
      const text = `The query of ${ownerText(user)} runs before all others that wait for ${routingGroup}. The limits hold for it as before.`;
      if (await confirm({ title: `Move ${id} first?`, text, action: 'Move first' })) moving.mutate(query);
    },
    async drop(query) {
      const { id, user } = query;
      const text = `The query of ${ownerText(user)} does not run; its client gets an error that says that an administrator took it out.`;
      if (await confirm({ title: `Drop ${id}?`, text, action: 'Drop', dangerous: true })) dropping.mutate(query);
    },
  };
}

export function useEnd(): (query: RunningQuery) => Promise<void> {
  const client = useQueryClient();
  const { mutate } = useReported({
    write: ({ queryId }: RunningQuery) => callWhole(objectPath('/api/queries/running', queryId), { method: 'DELETE' }),
    keys: [RUNNING_KEY],
    report: (response, { queryId }) => {
      void client.invalidateQueries({ queryKey: ['query', queryId], exact: true });
      notifyWritten(`${queryId} is ended.`, response);
    },
    failed: ({ queryId }) => `${queryId} could not be ended`,
  });
  return async (query) => {
    const { queryId, user, cluster } = query;
    const text = `The query of ${ownerText(user)} on ${cluster} ends; its client gets an error that says that it was canceled.`;
    if (await confirm({ title: `End ${queryId}?`, text, action: 'End', dangerous: true })) mutate(query);
  };
}

/** A call of the web application, with its arguments in addition to the database. */
export interface GroupsChange {
  readonly path: string;
  readonly data: object;
  readonly oldData?: object;
  /** True takes over fields of other managers, if a resource declares the row (ADMIN). */
  readonly force?: boolean;
}

export function useChange(useSchema: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ path, force = false, ...change }: GroupsChange) =>
      callWhole(`/webapp/${path}${force ? '?force=true' : ''}`, { body: { useSchema, ...change } }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['resourceGroups', useSchema] }),
  });
}
