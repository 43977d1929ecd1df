import { Badge, Text } from '@mantine/core';
import { type Beside, isCheckedSinceOff, useDrain } from '../../client/clusters.ts';
import type { ClusterState } from '../../client/types.ts';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';

/** Badges of whole sentences break their lines where a column is narrow. */
const wrapping = { root: { height: 'auto' }, label: { whiteSpace: 'normal' } } as const;

interface DrainProgressProps {
  readonly cluster: ClusterState;
  /** Which others the page shows. */
  readonly beside: Beside;
}

/** What a cluster that takes no new queries still runs: those that clients follow here, or as many as it counts itself. */
export function DrainProgress({ cluster, beside }: DrainProgressProps) {
  const { running, override } = cluster;
  const [isAdmin, isApi] = [useRole('ADMIN'), useRole('API')];
  const { data: drain, isFetchedAfterMount } = useDrain(cluster, isAdmin || isApi, beside);
  const left = Math.max(running ?? 0, drain?.runningQueries ?? 0);
  if (drain === undefined && left === 0) return null;
  if (left === 0 && drain !== undefined) {
    // An answer of before, or a health check of before, does not know the queries that came last.
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
