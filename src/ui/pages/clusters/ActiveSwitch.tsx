import { Stack, Switch, Text } from '@mantine/core';
import type { ClusterState } from '../../client/types.ts';
import type { Column } from '../../components/DataTable.tsx';
import { Ago } from '../../components/time.tsx';
import classes from './clusters.module.css';
import { useSwitch } from './switching.ts';

export const activeColumn = (mayWrite: boolean): Column<ClusterState> => ({
  id: 'active',
  header: 'Active',
  accessorFn: ({ active }) => String(active),
  cell: ({ row: { original } }) => <ActiveSwitch cluster={original} mayWrite={mayWrite} />,
});

/** Switch for new queries of a cluster, for users with the right, with its last change. */
export function ActiveSwitch({ cluster, mayWrite }: { readonly cluster: ClusterState; readonly mayWrite: boolean }) {
  const { isPending, wanted, switchTo } = useSwitch(cluster.name);
  const { active, override, differs, origin, routed } = cluster;
  const at = override?.at == null ? Number.NaN : Date.parse(override.at);
  return (
    <Stack gap={2}>
      <Switch
        aria-label={`${cluster.name} takes new queries`}
        checked={isPending ? wanted === true : active}
        readOnly={!mayWrite}
        disabled={!mayWrite || !routed || isPending}
        onChange={(event) => void switchTo(event.currentTarget.checked)}
        classNames={{ track: classes.track ?? '' }}
      />
      {!mayWrite && <Text size="xs">{active ? 'takes new queries' : 'takes no new queries'}</Text>}
      {override !== null && (
        <Text size="xs" c="dimmed">
          {override.active ? 'on' : 'off'} by {override.by}
          {Number.isNaN(at) ? '' : ', '}
          {!Number.isNaN(at) && <Ago at={at} />}
        </Text>
      )}
      {differs && (
        <span className={classes.differs}>
          {origin === 'kubernetes' ? 'differs from Git' : 'differs from the resource'}
        </span>
      )}
    </Stack>
  );
}
