import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { confirm } from '../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../components/notify.ts';
import { call, callWhole } from './call.ts';
import { useLive } from './live.ts';
import type { QueuedQuery, QueueList } from './types.ts';

const QUEUE = ['queue'];

/** Queued queries, kept up to date: all for administrators, their own for others. */
export function useQueue() {
  return useQuery({
    queryKey: QUEUE,
    queryFn: ({ signal }) => call<QueueList>('/api/queue', { method: 'GET', signal }),
    refetchInterval: useLive('queue', QUEUE),
  });
}

/** Actions of administrators on a queued query, each after a confirmation. */
export interface QueueChanges {
  readonly moveFirst: (query: QueuedQuery) => Promise<void>;
  readonly drop: (query: QueuedQuery) => Promise<void>;
}

/** Asks, then moves a queued query to the front or removes it. */
export function useQueueChanges(): QueueChanges {
  const client = useQueryClient();
  const path = ({ id }: QueuedQuery) => `/api/queue/${encodeURIComponent(id)}`;
  const refresh = () => client.invalidateQueries({ queryKey: QUEUE });
  const moving = useMutation({
    mutationFn: (query: QueuedQuery) => callWhole(`${path(query)}/first`),
    onSuccess: async (answer, { id }) => {
      await refresh();
      notifyWritten(`${id} is the first of its group.`, answer);
    },
    onError: (error, { id }) => notifyFailed(`${id} could not be moved`, error),
  });
  const dropping = useMutation({
    mutationFn: (query: QueuedQuery) => callWhole(path(query), { method: 'DELETE' }),
    onSuccess: async (answer, { id }) => {
      await refresh();
      notifyWritten(`${id} is taken out of the queue.`, answer);
    },
    onError: (error, { id }) => notifyFailed(`${id} could not be dropped`, error),
  });
  return {
    async moveFirst(query) {
      const { id, user, routingGroup } = query;
      const text = `The query of ${user ?? 'nobody who is known'} runs before all others that wait for ${routingGroup}. The limits hold for it as before.`;
      if (await confirm({ title: `Move ${id} first?`, text, action: 'Move first' })) moving.mutate(query);
    },
    async drop(query) {
      const { id, user } = query;
      const text = `The query of ${user ?? 'nobody who is known'} does not run; its client gets an error that says that an administrator took it out.`;
      if (await confirm({ title: `Drop ${id}?`, text, action: 'Drop', dangerous: true })) dropping.mutate(query);
    },
  };
}
