import { Badge, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { drainQuery } from '../../client/clusters.ts';
import type { ClusterState } from '../../client/types.ts';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';

/** What a cluster that takes no new queries still runs: those that clients follow here, or as many as it counts itself. */
export function DrainProgress({ cluster: { name, running } }: { readonly cluster: ClusterState }) {
  const [isAdmin, isApi] = [useRole('ADMIN'), useRole('API')];
  const { data: drain } = useQuery({ ...drainQuery(name), enabled: isAdmin || isApi });
  const left = Math.max(running ?? 0, drain?.runningQueries ?? 0);
  if (drain === undefined && left === 0) return null;
  if (left === 0 && drain?.drained) return <Badge variant="default">No query left</Badge>;
  return (
    <>
      <Badge variant="light" color="blue">
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
