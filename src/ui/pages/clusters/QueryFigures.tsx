import { Anchor, SegmentedControl, Table, Text } from '@mantine/core';
import { Link } from 'react-router';
import { figureRanges, type Range, useFigures } from '../../client/figures.ts';
import type { RunningFilter } from '../../client/running.ts';
import type { QueryPage, Statistics } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { formatElapsed } from '../../components/amounts.ts';
import { type Fact, FactList } from '../../components/FactList.tsx';
import { queryAddress } from '../../components/links.ts';
import { Panel } from '../../components/Panel.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { Time } from '../../components/time.tsx';
import { useSees } from '../../session/session.ts';
import { failuresText } from '../dashboard/chart.ts';
import classes from './clusterPage.module.css';

interface QueryFiguresProps {
  readonly of: RunningFilter;
  readonly history: string;
}

const labels: Readonly<Record<Range, string>> = { hour: 'Last hour', day: 'Last day', week: 'Last week' };
const choices = Object.entries(labels).map(([value, label]) => ({ value, label }));

/** Counts, durations and last errors of the queries that ended in the range of the address. */
export function QueryFigures({ of, history }: QueryFiguresProps) {
  return useSees('history') ? <Shown of={of} history={history} /> : null;
}

function Shown({ of, history }: QueryFiguresProps) {
  const [chosen, setChosen] = useAddressState('range', 'hour');
  const range = chosen in figureRanges ? (chosen as Range) : 'hour';
  const figures = useFigures(of, range);
  const choice = (
    <SegmentedControl
      size="xs"
      aria-label="Range"
      data={choices}
      value={range}
      onChange={(value) => setChosen(value, 'push')}
    />
  );
  return (
    <Panel title="Rates and errors" actions={choice}>
      <RequestState query={figures} label="Loading figures">
        {({ figures: values, failures, keptHours }) => (
          <>
            {values === null ? (
              <Text size="sm">No query has ended in this time.</Text>
            ) : (
              <FactList facts={factsOf(values, figureRanges[range])} />
            )}
            {failures.length > 0 && <Failures failures={failures} />}
            <Text size="xs" c="dimmed" mt="xs">
              {figureRanges[range] > keptHours * 3_600_000 && `Queries are kept for ${keptHours} hours. `}
              <Anchor component={Link} to={history} size="xs" underline="always">
                All in the history
              </Anchor>
            </Text>
          </>
        )}
      </RequestState>
    </Panel>
  );
}

type Values = Statistics['values'][number];

function factsOf(values: Values, rangeMs: number): readonly Fact[] {
  const { queries, failures: failed, refused, userErrors, states, elapsedMillis, queuedMillis } = values;
  const perMinute = queries / (rangeMs / 60_000);
  const byState = Object.entries(states)
    .map(([state, count]) => [state, state === 'FAILED' ? count - userErrors : count] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count.toLocaleString('en')} ${state.toLowerCase()}`);
  const endings = userErrors === 0 ? byState : [...byState, `${userErrors.toLocaleString('en')} users’ errors`];
  const share = (failed + refused) / queries;
  return [
    [
      'Queries',
      `${queries.toLocaleString('en')} (${perMinute >= 10 ? Math.round(perMinute) : perMinute.toFixed(1)} a minute)`,
    ],
    ['How they ended', endings.join(', ')],
    ['Failed or refused', `${(share * 100).toFixed(1)} %: ${failuresText({ failed, refused, userErrors })}`],
    ['Duration', percentilesText(elapsedMillis)],
    ['Queued', percentilesText(queuedMillis)],
  ];
}

function percentilesText({ p50, p95, p99 }: Values['elapsedMillis']): string {
  if (p50 === null || p95 === null || p99 === null) return 'not known';
  return `half within ${formatElapsed(p50)}, 95 % within ${formatElapsed(p95)}, 99 % within ${formatElapsed(p99)}`;
}

function Failures({ failures }: { readonly failures: QueryPage['queries'] }) {
  return (
    <Table aria-label="Last errors" verticalSpacing={4} mt="sm" className={classes.failures ?? ''}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th scope="col">Last errors</Table.Th>
          <Table.Th scope="col">Error</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {failures.map(({ queryId, created, user, outcome }) => (
          <Table.Tr key={queryId}>
            <Table.Td className={classes.id}>
              <Anchor component={Link} to={queryAddress(queryId)} size="xs" underline="always">
                {queryId}
              </Anchor>
              <Text size="xs" c="dimmed">
                <Time at={Date.parse(created)} /> {user ?? ''}
              </Text>
            </Table.Td>
            <Table.Td>
              <Text size="xs">{outcome?.errorName ?? outcome?.state.toLowerCase()}</Text>
              <Text size="xs" c="dimmed" lineClamp={2} className={classes.breaking}>
                {outcome?.errorMessage}
              </Text>
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
