import { Stack, Text } from '@mantine/core';
import { useEnd } from '../../client/changes.ts';
import { useRunningQuery } from '../../client/resources.ts';
import type { OutcomeView, WholeQuery } from '../../client/types.ts';
import { formatBytes, formatElapsed } from '../../components/amounts.ts';
import { OutcomeBadge } from '../../components/badges.tsx';
import { Notice } from '../../components/elements.tsx';
import { FactList } from '../../components/FactList.tsx';
import { Ago } from '../../components/time.tsx';
import { EndQuery } from '../queue/RunningTable.tsx';
import classes from './query.module.css';
import { reachOf } from './reach.ts';

function meaningOf(query: WholeQuery, state: OutcomeView['state']): string {
  const isDropped = reachOf(query) === 'dropped';
  switch (state) {
    case 'FINISHED':
      return 'It finished, and its client has got the last page.';
    case 'FAILED':
      return 'It failed.';
    case 'CANCELLED':
      return isDropped ? 'It was cancelled while it waited: no cluster has got it.' : 'It was cancelled.';
    case 'ABANDONED':
      return isDropped
        ? 'Its client stopped asking for it while it waited: no cluster has got it.'
        : 'Its client stopped asking for results before the last page.';
    case 'REFUSED':
      return query.cluster === ''
        ? 'The gateway refused it: no cluster has got it.'
        : `The gateway refused it, or the answer of ${query.cluster} to it.`;
    case 'DENIED':
      return 'A rule denied it: no cluster has got it.';
    case 'LOST':
      return isDropped ? 'It was lost while it waited.' : 'It was lost with its cluster.';
  }
}

export function Outcome({ query }: { readonly query: WholeQuery }) {
  const { outcome } = query;
  if (outcome === null) return <Unended query={query} />;
  const isTaken = reachOf(query) === 'taken';
  return (
    <Stack gap="xs" align="flex-start">
      <OutcomeBadge state={outcome.state} size="lg" />
      <Text size="sm">{meaningOf(query, outcome.state)}</Text>
      {(outcome.errorName !== null || outcome.errorMessage !== null) && (
        <Notice tone="error" role="note" title={errorTitle(outcome)}>
          <Text size="sm" className={classes.message}>
            {outcome.errorMessage ?? 'The cluster gave no message.'}
          </Text>
        </Notice>
      )}
      <FactList
        facts={figures.map(([name, field, textOf]) => {
          const amount = outcome[field];
          // Fewer if no cluster received it.
          return [name, amount !== null ? textOf(amount) : isTaken ? 'not known' : undefined];
        })}
      />
    </Stack>
  );
}

/** State of an unfinished query; a running one has a button that ends it. */
function Unended({ query }: { readonly query: WholeQuery }) {
  const isWaiting = reachOf(query) === 'waiting';
  const isSought = query.cluster !== '' && !isWaiting;
  const running = useRunningQuery(isSought ? query : null);
  const end = useEnd();
  if (isWaiting) return <Waiting query={query} />;
  if (running == null) {
    return (
      <Text size="sm">
        {running === undefined
          ? 'Not known: it still runs, or nobody has followed it to its end here.'
          : 'Not known: it began only seconds ago, or nobody has followed it to its end here.'}
      </Text>
    );
  }
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">
        It runs, since <Ago at={Date.parse(running.since)} />; its client asked for results{' '}
        <Ago at={Date.parse(running.lastRequest)} />.
      </Text>
      <EndQuery query={running} onEnd={end} />
    </Stack>
  );
}

function Waiting({ query: { queue } }: { readonly query: WholeQuery }) {
  if (queue === null) return <Text size="sm">It waits for a cluster.</Text>;
  const { position, groupWaiting, movedFirst, reason } = queue;
  const place =
    position === null
      ? 'being sent to a cluster'
      : `${position} of ${groupWaiting}${movedFirst ? ', moved first' : ''}`;
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">It waits for a cluster.</Text>
      <FactList
        facts={[
          ['Place', place],
          ['Why', reason],
        ]}
      />
    </Stack>
  );
}

const countText = (count: number): string => count.toLocaleString('en');

const figures = [
  ['Elapsed', 'elapsedMillis', formatElapsed],
  ['Queued at the gateway', 'gatewayQueuedMillis', formatElapsed],
  ['Queued at the engine', 'queuedMillis', formatElapsed],
  ['CPU', 'cpuMillis', formatElapsed],
  ['Rows processed', 'processedRows', countText],
  ['Data processed', 'processedBytes', formatBytes],
  ['Peak memory', 'peakMemoryBytes', formatBytes],
  ['Result', 'resultBytes', formatBytes],
  ['Pages of the result', 'pages', countText],
] as const;

function errorTitle({ errorName, errorType, errorCode }: OutcomeView): string {
  const kind = [errorType, errorCode].filter((part) => part != null).join(', ');
  return `${errorName ?? 'Error'}${kind === '' ? '' : ` (${kind})`}`;
}
