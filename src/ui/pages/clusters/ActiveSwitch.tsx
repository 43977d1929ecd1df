import { Stack, Switch, Text } from '@mantine/core';
import type { ClusterState } from '../../client/types.ts';
import { Ago } from '../../components/time.tsx';
import { useActivation } from './changes.ts';
import classes from './clusters.module.css';

/** Whether a cluster takes new queries: a switch for those who may, with who moved it and when. */
export function ActiveSwitch({ cluster, mayWrite }: { readonly cluster: ClusterState; readonly mayWrite: boolean }) {
  const { isPending, variables, mutate } = useActivation(cluster.name);
  const { active, override, differs, origin, routed } = cluster;
  const at = override?.at == null ? Number.NaN : Date.parse(override.at);
  return (
    <Stack gap={2}>
      <Switch
        aria-label={`${cluster.name} takes new queries`}
        checked={isPending ? variables : active}
        readOnly={!mayWrite}
        disabled={!mayWrite || !routed || isPending}
        onChange={(event) => mutate(event.currentTarget.checked)}
        classNames={{ track: classes.track ?? '' }}
      />
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
