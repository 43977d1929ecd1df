import { Alert, Stack, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import type { WholeQuery } from '../../client/queries.ts';
import type { QueryOutcome } from '../../client/types.ts';
import { bytesText, durationText } from '../../components/amounts.ts';
import { FactList } from '../../components/FactList.tsx';
import { OutcomeBadge } from '../../components/OutcomeBadge.tsx';
import classes from './query.module.css';

/** What a state means. */
const meanings: Readonly<Record<QueryOutcome['state'], string>> = {
  FINISHED: 'It finished, and its client has got the last page.',
  FAILED: 'It failed.',
  CANCELLED: 'It was cancelled.',
  ABANDONED: 'Its client stopped asking for results before the last page.',
  REFUSED: 'The gateway refused it: no cluster has got it.',
  DENIED: 'A rule denied it: no cluster has got it.',
  LOST: 'It was lost with its cluster.',
};

/** How a query ended, and what it took. */
export function Outcome({ query }: { readonly query: WholeQuery }) {
  const { outcome, queryText, queuedAs, queryId } = query;
  if (outcome == null) {
    const waits = queuedAs === queryId && queryText === '';
    return (
      <Text size="sm">
        {waits ? 'It waits for a cluster.' : 'Not known: it still runs, or nobody has followed it to its end here.'}
      </Text>
    );
  }
  return (
    <Stack gap="xs" align="flex-start">
      <OutcomeBadge state={outcome.state} size="lg" />
      <Text size="sm">{meanings[outcome.state]}</Text>
      {(outcome.errorName != null || outcome.errorMessage != null) && (
        <Alert role="note" color="red" icon={<IconAlertTriangle aria-hidden />} title={errorTitle(outcome)}>
          <Text size="sm" className={classes.message}>
            {outcome.errorMessage ?? 'The cluster gave no message.'}
          </Text>
        </Alert>
      )}
      <FactList facts={figures.map(([name, of]) => [name, of(outcome) ?? 'not known'])} />
    </Stack>
  );
}

const shown =
  (of: (outcome: QueryOutcome) => number | null | undefined, text: (amount: number) => string) =>
  (outcome: QueryOutcome): string | null => {
    const amount = of(outcome);
    return amount == null ? null : text(amount);
  };

const figures: readonly (readonly [name: string, of: (outcome: QueryOutcome) => string | null])[] = [
  ['Elapsed', shown(({ elapsedMillis }) => elapsedMillis, durationText)],
  ['Queued at the gateway', shown(({ gatewayQueuedMillis }) => gatewayQueuedMillis, durationText)],
  ['Queued at the engine', shown(({ queuedMillis }) => queuedMillis, durationText)],
  ['CPU', shown(({ cpuMillis }) => cpuMillis, durationText)],
  [
    'Rows processed',
    shown(
      ({ processedRows }) => processedRows,
      (rows) => rows.toLocaleString('en'),
    ),
  ],
  ['Data processed', shown(({ processedBytes }) => processedBytes, bytesText)],
  ['Peak memory', shown(({ peakMemoryBytes }) => peakMemoryBytes, bytesText)],
  ['Result', shown(({ resultBytes }) => resultBytes, bytesText)],
];

function errorTitle({ errorName, errorType, errorCode }: QueryOutcome): string {
  const kind = [errorType, errorCode].filter((part) => part != null).join(', ');
  return `${errorName ?? 'Error'}${kind === '' ? '' : ` (${kind})`}`;
}
