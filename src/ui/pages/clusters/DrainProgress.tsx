import { Badge, Text } from '@mantine/core';
import { type Beside, isCheckedSinceOff, useDrain } from '../../client/clusters.ts';
import type { ClusterState } from '../../client/types.ts';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';

/** Badges with whole sentences wrap in narrow columns. */
const wrapping = { root: { height: 'auto' }, label: { whiteSpace: 'normal' } } as const;

interface DrainProgressProps {
  readonly cluster: ClusterState;
  readonly beside: Beside;
}

/** Remaining queries of an inactive cluster: queries that clients follow here, or the cluster's own count. */
export function DrainProgress({ cluster, beside }: DrainProgressProps) {
  const { running, override } = cluster;
  const [isAdmin, isApi] = [useRole('ADMIN'), useRole('API')];
  const { data: drain, isFetchedAfterMount } = useDrain(cluster, isAdmin || isApi, beside);
  const left = Math.max(running ?? 0, drain?.runningQueries ?? 0);
  if (drain === undefined && left === 0) return null;
  if (left === 0 && drain !== undefined) {
    // A response or health check from before does not include the last queries.
    if (drain.drained && isFetchedAfterMount && isCheckedSinceOff(drain, override))
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
