import { Stack, Text } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { messageOf } from '../../client/apiError.ts';
import { explainAgain, storedHeaders } from '../../client/storedRequest.ts';
import type { Explanation, WholeQuery } from '../../client/types.ts';
import { Faint, Notice, SmallAction, Strong, To } from '../../components/elements.tsx';
import { Panel } from '../../components/frame.tsx';
import { clusterAddress } from '../../components/links.ts';
import { useRole } from '../../session/session.ts';
import { Decision } from './Decision.tsx';
import { DecisionDifference, isComparable } from './Difference.tsx';
import classes from './query.module.css';
import { noText, reachOf } from './reach.ts';

/** Routing of a query, with the values that conditions read, and the current decision. */
export function Reasons({ query }: { readonly query: WholeQuery }) {
  const { queryId, queryText } = query;
  const isOwn = !useRole('ADMIN');
  const reach = reachOf(query);
  const now = useQuery({
    queryKey: ['query', queryId, 'explanation', isOwn],
    queryFn: ({ signal }) => explainAgain(query, isOwn, signal),
    enabled: queryText !== '',
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const again = (
    <SmallAction
      label="Decide again now"
      icon={IconRefresh}
      loading={now.isFetching}
      disabled={queryText === ''}
      onClick={() => void now.refetch()}
    />
  );
  return (
    <>
      <Panel title={reach === 'taken' || reach === 'waiting' ? 'Why it went there' : 'Why it went nowhere'}>
        <Decision query={query} conditions={now.data?.conditions ?? []} />
      </Panel>
      <Panel title="As it would be decided now" actions={again}>
        <div aria-live="polite">
          {queryText === '' && <Text size="sm">{noText(query)}</Text>}
          {now.error !== null && (
            <Notice tone="error" title="Not decided">
              {messageOf(now.error)}
            </Notice>
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
      {isComparable(query) && <DecisionDifference query={query} explanation={explanation} />}
      {clusters.length > 0 && (
        <div>
          <Strong>Clusters considered</Strong>
          <ul className={classes.clusters} aria-label="Clusters considered">
            {clusters.map(({ cluster, taken, reason }) => (
              <li key={cluster}>
                <To address={clusterAddress(cluster)}>{cluster}</To>: {taken ? 'may take it, ' : 'not taken, '}
                {reason}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Faint>{basisText(query)}</Faint>
    </Stack>
  );
}

/** Describes the origin of the request for a new decision, and unknown parts. */
function basisText(query: WholeQuery): string {
  const facts = query.decision?.request;
  const start = 'Decided by what is stored of the request: user, source, ';
  if (facts === undefined) return `${start}and text. Its other headers and its address are not stored.`;
  const names = Object.keys(storedHeaders(query));
  const headers =
    names.length === 0 ? 'and text' : `text, and the header${names.length === 1 ? '' : 's'} ${names.join(', ')}`;
  const unkept = facts.unkept === undefined ? '' : ` It had more that is not stored: ${facts.unkept.join(', ')}.`;
  return `${start}${headers}.${unkept} Its address, and headers that no rule read, are not stored.`;
}
