import { Paper, Text, TextInput, Title } from '@mantine/core';
import { useQueue, useQueueChanges } from '../../client/queue.ts';
import { useAddressState } from '../../components/addressState.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { EmptyState } from '../../components/states.tsx';
import { useSession } from '../../session/session.ts';
import { QueuedGroupTable } from './GroupTable.tsx';
import { QueueTable } from './QueueTable.tsx';
import { Running } from './RunningTable.tsx';

/** Maximum number of rows: a browser takes seconds for thousands. */
const MAX_ROWS = 200;

/**
 * Queue: queued queries with start and reason, which administrators can move to the front or drop; and running queries,
 * which they can end.
 */
export default function QueuePage() {
  const queue = useQueue();
  const changes = useQueueChanges();
  const { user } = useSession();
  const isAdmin = user.roles.includes('ADMIN');
  const [filter, setFilter] = useAddressState('filter');
  return (
    <PageFrame title="Queue">
      <RequestState query={queue} label="Loading the queue">
        {({ queries }) => {
          if (queries.length === 0) {
            return (
              <Paper withBorder p="xs">
                <EmptyState title={isAdmin ? 'No query waits.' : 'None of your queries waits.'} />
              </Paper>
            );
          }
          const wanted = filter.trim().toLowerCase();
          const matching = queries.filter(({ id, routingGroup, user: sender, source, reason }) =>
            [id, routingGroup, sender ?? '', source ?? '', reason].some((text) => text.toLowerCase().includes(wanted)),
          );
          const shown = matching.slice(0, MAX_ROWS);
          return (
            <>
              <Title order={2}>By group and user</Title>
              <Paper withBorder p="xs">
                <QueuedGroupTable queries={queries} />
              </Paper>
              <Title order={2}>Queries</Title>
              <TextInput
                label="Id, group, user, source or reason"
                size="xs"
                value={filter}
                onChange={(event) => setFilter(event.currentTarget.value)}
              />
              <Paper withBorder p="xs">
                <QueueTable queries={shown} changes={isAdmin ? changes : null} />
              </Paper>
              <Text size="sm" role="status">
                {countText(queries.length, matching.length, shown.length)}
              </Text>
            </>
          );
        }}
      </RequestState>
      <Running />
    </PageFrame>
  );
}

function countText(all: number, matching: number, shown: number): string {
  const total = all === 1 ? '1 query waits' : `${all.toLocaleString('en')} queries wait`;
  if (shown < matching) return `${total}; the oldest ${shown} of ${matching.toLocaleString('en')} are shown.`;
  return matching === all ? `${total}.` : `${total}; ${matching.toLocaleString('en')} match.`;
}
