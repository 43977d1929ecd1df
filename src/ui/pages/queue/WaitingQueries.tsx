import { Anchor, Text } from '@mantine/core';
import { Link } from 'react-router';
import { useQueue, useQueueChanges } from '../../client/queue.ts';
import { RequestState } from '../../components/QueryState.tsx';
import { useRole } from '../../session/session.ts';
import { QueueTable } from './QueueTable.tsx';

const MAX_ROWS = 20;

export function WaitingQueries({ group }: { readonly group: string }) {
  const queue = useQueue();
  const changes = useQueueChanges();
  const isAdmin = useRole('ADMIN');
  return (
    <RequestState query={queue} label="Loading the queue">
      {({ queries }) => {
        const waiting = queries.filter(({ routingGroup }) => routingGroup === group);
        if (waiting.length === 0)
          return <Text size="sm">{isAdmin ? 'No query waits.' : 'None of your queries waits.'}</Text>;
        return (
          <>
            <QueueTable queries={waiting.slice(0, MAX_ROWS)} changes={isAdmin ? changes : null} />
            {waiting.length > MAX_ROWS && (
              <Anchor component={Link} to={`/queue?filter=${encodeURIComponent(group)}`} size="sm" underline="always">
                All {waiting.length.toLocaleString('en')}
              </Anchor>
            )}
          </>
        );
      }}
    </RequestState>
  );
}
