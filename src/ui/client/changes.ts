import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query';
import { useCallback } from 'react';
import { useLatest } from '../components/addressState.ts';
import { confirm, notifyFailed, notifyWritten, type Question } from '../components/notify.tsx';
import { type ApiResponse, callWhole } from './call.ts';
import { HELD, OVERVIEW, objectPath, QUARANTINE, QUEUE, RUNNING_KEY } from './resources.ts';
import type { QuarantineEntry, QueuedQuery, RunningQuery } from './types.ts';

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

/** A change that is made after a question. Returns a stable function. */
export function useAsked<V, T = unknown>(question: (subject: V) => Question | Promise<Question>, change: Change<V, T>) {
  const { mutate } = useReported(change);
  const latest = useLatest(question);
  return useCallback(
    async (subject: V): Promise<void> => {
      if (await confirm(await latest.current(subject))) mutate(subject);
    },
    [latest, mutate],
  );
}

const ownerText = (user: string | null): string => user ?? 'nobody who is known';
const queuePath = ({ id }: QueuedQuery) => objectPath('/api/queue', id);

/** Asks, then moves a queued query to the front. */
export const useMoveFirst = () =>
  useAsked<QueuedQuery>(
    ({ id, user, routingGroup }) => {
      const text = `The query of ${ownerText(user)} runs before all others that wait for ${routingGroup}. The limits hold for it as before.`;
      return { title: `Move ${id} first?`, text, action: 'Move first' };
    },
    {
      write: (query) => callWhole(`${queuePath(query)}/first`),
      keys: [QUEUE],
      done: ({ id }) => `${id} is the first of its group.`,
      failed: ({ id }) => `${id} could not be moved`,
    },
  );

/** Asks, then removes a queued query. */
export const useDrop = () =>
  useAsked<QueuedQuery>(
    ({ id, user }) => {
      const text = `The query of ${ownerText(user)} does not run; its client gets an error that says that an administrator took it out.`;
      return { title: `Drop ${id}?`, text, action: 'Drop', dangerous: true };
    },
    {
      write: (query) => callWhole(queuePath(query), { method: 'DELETE' }),
      keys: [QUEUE],
      done: ({ id }) => `${id} is taken out of the queue.`,
      failed: ({ id }) => `${id} could not be dropped`,
    },
  );

/** Asks, then releases a quarantined statement. */
export const useRelease = () =>
  useAsked<QuarantineEntry>(
    ({ digest, exactDigest, routingGroup }) => {
      const text = `Clusters of ${routingGroup} run it again. It was lost with several of them.`;
      return { title: `Release ${exactDigest ?? digest}?`, text, action: 'Release', dangerous: true };
    },
    {
      write: ({ digest, exactDigest, routingGroup }) =>
        callWhole(objectPath(objectPath('/api/quarantine', routingGroup), exactDigest ?? digest), { method: 'DELETE' }),
      keys: [QUARANTINE],
      done: ({ digest, exactDigest }) => `${exactDigest ?? digest} is accepted again.`,
      failed: ({ digest, exactDigest }) => `${exactDigest ?? digest} could not be released`,
    },
  );

/** Asks, then removes resources that the source lost from routing. @param subject number of resources */
export const useConfirmLosses = () =>
  useAsked<number>(
    (count) => {
      const text = `Queries no longer go to what ${count === 1 ? 'this resource declares' : `these ${count} resources declare`}, on all replicas.`;
      return { title: 'Remove what the source lost?', text, action: 'Remove', dangerous: true };
    },
    {
      write: () => callWhole('/api/heldDeletions/confirm'),
      keys: [HELD, OVERVIEW],
      done: () => 'The resources are removed.',
      failed: () => 'The resources could not be removed',
    },
  );

/** Asks, then ends a running query. */
export function useEnd() {
  const client = useQueryClient();
  return useAsked<RunningQuery>(
    ({ queryId, user, cluster }) => {
      const text = `The query of ${ownerText(user)} on ${cluster} ends; its client gets an error that says that it was canceled.`;
      return { title: `End ${queryId}?`, text, action: 'End', dangerous: true };
    },
    {
      write: ({ queryId }) => callWhole(objectPath('/api/queries/running', queryId), { method: 'DELETE' }),
      keys: [RUNNING_KEY],
      report: (response, { queryId }) => {
        void client.invalidateQueries({ queryKey: ['query', queryId], exact: true });
        notifyWritten(`${queryId} is ended.`, response);
      },
      failed: ({ queryId }) => `${queryId} could not be ended`,
    },
  );
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
