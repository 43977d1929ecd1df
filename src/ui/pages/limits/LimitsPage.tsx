import { Button, Group, Paper, Text, Title } from '@mantine/core';
import { useGroups, useLimits } from '../../client/limits.ts';
import { useAddressState } from '../../components/addressState.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { GroupTable } from './GroupTable.tsx';
import { LimitTable } from './LimitTable.tsx';

/** Limits: routing groups with their queues, and limits of users and sources, each with its usage. */
export default function LimitsPage() {
  const groups = useGroups();
  const limits = useLimits();
  const [group, setGroup] = useAddressState('group');
  return (
    <PageFrame title="Limits">
      <Title order={2}>Routing groups</Title>
      <RequestState query={groups} label="Loading routing groups">
        {(rows) => (
          <>
            {group !== '' && (
              <Group gap="xs">
                <Text size="sm">Only the group {group} is shown.</Text>
                <Button size="compact-sm" variant="default" onClick={() => setGroup('', 'push')}>
                  Show all groups
                </Button>
              </Group>
            )}
            <Paper withBorder p="xs">
              <GroupTable groups={group === '' ? rows : rows.filter(({ name }) => name === group)} only={group} />
            </Paper>
          </>
        )}
      </RequestState>
      <Title order={2}>Users and sources</Title>
      <RequestState query={limits} label="Loading limits">
        {(rows) => (
          <Paper withBorder p="xs">
            <LimitTable limits={rows} />
          </Paper>
        )}
      </RequestState>
    </PageFrame>
  );
}
