import { Badge, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { CLUSTERS, drainQuery } from '../../client/clusters.ts';
import type { ClusterState } from '../../client/types.ts';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';

/** Badges of whole sentences break their lines where a column is narrow. */
const wrapping = { root: { height: 'auto' }, label: { whiteSpace: 'normal' } } as const;

/** What a cluster that takes no new queries still runs: those that clients follow here, or as many as it counts itself. */
export function DrainProgress({ cluster: { name, running, override } }: { readonly cluster: ClusterState }) {
  const [isAdmin, isApi] = [useRole('ADMIN'), useRole('API')];
  const drained = useQueryClient()
    .getQueryData<readonly ClusterState[]>(CLUSTERS)
    ?.filter(({ active }) => !active).length;
  const { data: drain, isFetchedAfterMount } = useQuery({ ...drainQuery(name, drained), enabled: isAdmin || isApi });
  const left = Math.max(running ?? 0, drain?.runningQueries ?? 0);
  if (drain === undefined && left === 0) return null;
  if (left === 0 && drain !== undefined) {
    // An answer of before, or a health check of before, does not know the queries that came last.
    const offSince = override?.at == null ? Number.NEGATIVE_INFINITY : Date.parse(override.at);
    const isChecked = drain.reported === null || Date.parse(drain.reported.checkedAt) > offSince;
    if (drain.drained && isFetchedAfterMount && isChecked)
      return (
        <Badge variant="default" styles={wrapping}>
          No query left
        </Badge>
      );
    if (drain.complete)
      return (
        <Badge variant="default" styles={wrapping}>
          Looking for queries
        </Badge>
      );
  }
  return (
    <>
      <Badge variant="light" color="blue" styles={wrapping}>
        Draining, {drain?.complete === false ? 'at least ' : ''}
        {left} left
      </Badge>
      {drain?.oldestSince != null && (
        <Text size="xs" c="dimmed">
          the oldest since <Ago at={Date.parse(drain.oldestSince)} />
        </Text>
      )}
    </>
  );
}
