import { Alert, Anchor, Button, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconRefresh } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import { messageOf } from '../../client/apiError.ts';
import { explainAgain, type WholeQuery } from '../../client/queries.ts';
import type { Explanation } from '../../client/types.ts';
import { clusterAddress } from '../../components/links.ts';
import { Panel } from '../../components/Panel.tsx';
import { Decision } from './Decision.tsx';
import { Difference } from './Difference.tsx';
import classes from './query.module.css';

/** Why a query went where it went, with what conditions read; and what would be decided now. */
export function Reasons({ query }: { readonly query: WholeQuery }) {
  const { queryId, queryText, decision } = query;
  const now = useQuery({
    queryKey: ['query', queryId, 'explanation'],
    queryFn: ({ signal }) => explainAgain(query, signal),
    enabled: queryText !== '',
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const again = (
    <Button
      size="xs"
      variant="default"
      loading={now.isFetching}
      disabled={queryText === ''}
      leftSection={<IconRefresh size={16} aria-hidden />}
      onClick={() => void now.refetch()}
    >
      Decide again now
    </Button>
  );
  return (
    <>
      <Panel title="Why it went there">
        <Decision decision={decision} conditions={now.data?.conditions ?? []} />
      </Panel>
      <Panel title="As it would be decided now" actions={again}>
        <div aria-live="polite">
          {queryText === '' && <Text size="sm">Its text is not stored yet.</Text>}
          {now.error !== null && (
            <Alert role="alert" color="red" title="Not decided" icon={<IconAlertTriangle aria-hidden />}>
              {messageOf(now.error)}
            </Alert>
          )}
          {now.data !== undefined && <Now query={query} explanation={now.data} />}
        </div>
      </Panel>
    </>
  );
}

function Now({ query, explanation }: { readonly query: WholeQuery; readonly explanation: Explanation }) {
  const { message, clusters } = explanation;
  return (
    <Stack gap="sm">
      <Text size="sm">{message}</Text>
      {query.decision !== null && <Difference query={query} explanation={explanation} />}
      {clusters.length > 0 && (
        <div>
          <Text size="sm" fw={500}>
            Clusters considered
          </Text>
          <ul className={classes.clusters} aria-label="Clusters considered">
            {clusters.map(({ cluster, taken, reason }) => (
              <li key={cluster}>
                <Anchor component={Link} to={clusterAddress(cluster)} size="sm" underline="always">
                  {cluster}
                </Anchor>
                : {taken ? 'may take it, ' : 'not taken, '}
                {reason}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Text size="xs" c="dimmed">
        Decided by what is stored of the request: user, source and text. Its other headers and its address are not
        stored.
      </Text>
    </Stack>
  );
}
