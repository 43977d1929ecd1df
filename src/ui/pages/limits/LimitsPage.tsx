import { Paper, Title } from '@mantine/core';
import { useGroups, useLimits } from '../../client/limits.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { QueryState } from '../../components/QueryState.tsx';
import { GroupTable } from './GroupTable.tsx';
import { LimitTable } from './LimitTable.tsx';

/** Limits: routing groups with their queues, and limits of users and sources, each with how much of it is used. */
export default function LimitsPage() {
  const groups = useGroups();
  const limits = useLimits();
  return (
    <PageFrame title="Limits">
      <Title order={2}>Routing groups</Title>
      <QueryState query={groups} label="Loading routing groups">
        {(rows) => (
          <Paper withBorder p="xs">
            <GroupTable groups={rows} />
          </Paper>
        )}
      </QueryState>
      <Title order={2}>Users and sources</Title>
      <QueryState query={limits} label="Loading limits">
        {(rows) => (
          <Paper withBorder p="xs">
            <LimitTable limits={rows} />
          </Paper>
        )}
      </QueryState>
    </PageFrame>
  );
}
