import { Group, Text } from '@mantine/core';
import { IconBan } from '@tabler/icons-react';
import { useState } from 'react';
import { useSearchParams } from 'react-router';
import { useDigest } from '../../client/resources.ts';
import type { DigestDetails, DigestFiguresResponse } from '../../client/types.ts';
import classes from '../../components/components.module.css';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { formatBytes, formatElapsed, SmallAction, To } from '../../components/elements.tsx';
import { FactList, Inputs, OutcomeBadge, PlainTable } from '../../components/facts.tsx';
import { FilterForm, filterParameters, filtersOf } from '../../components/forms.tsx';
import { Columns, EmptyState, PageFrame, Panel, RequestState } from '../../components/frame.tsx';
import { ClusterName, GroupName, QueryId, useNameInPath } from '../../components/names.tsx';
import { Time } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';
import { TimeChart } from '../dashboard/TimeChart.tsx';
import { RuleDialog } from '../rules/RuleDialog.tsx';
import { workloadFilters } from './WorkloadPage.tsx';

const HOUR_MS = 3_600_000;

/** The queries of one digest: figures, trend, users, sources, clusters and examples. */
export default function DigestPage() {
  const digest = useNameInPath();
  const [parameters, setParameters] = useSearchParams();
  const filters = filtersOf<(typeof workloadFilters)[number]['name']>(workloadFilters, parameters);
  const details = useDigest(digest, filterParameters(filters));
  const [isRejecting, setRejecting] = useState(false);
  const isAdmin = useRole('ADMIN');
  const reject = isAdmin && <SmallAction label="Reject this query" icon={IconBan} onClick={() => setRejecting(true)} />;
  return (
    <PageFrame title={`Statement ${digest}`} actions={reject}>
      <FilterForm
        fields={workloadFilters}
        filters={filters}
        onChange={(next) => setParameters(filterParameters(next))}
      />
      <RequestState
        query={details}
        label="Loading the statement"
        missing={
          <EmptyState title={`No query with digest ${digest} ended in this time.`}>
            <To address="/workload">Show the workload</To>
          </EmptyState>
        }
      >
        {(shown) => <Digest details={shown} />}
      </RequestState>
      {isRejecting && <RuleDialog rule={null} draft={rejectionOf(digest)} onClose={() => setRejecting(false)} />}
    </PageFrame>
  );
}

const rejectionOf = (digest: string) => ({
  name: `reject-${digest}`,
  ...{
    description: 'Rejects a statement by its shape. It is no means of security: any rewording passes.',
    way: 'deny' as const,
  },
  condition: `engineQueryProperties.queryDigest == "${digest}"`,
  message: 'This query is rejected by the administrators of the gateway.',
});

function Digest({ details }: { readonly details: DigestDetails }) {
  const { shape, figures, since, until, hours, values, inputs, examples } = details;
  return (
    <>
      <Panel title="Shape">
        <Text size="sm" className={classes.shape ?? ''}>
          {shape ?? 'Its text is not stored.'}
        </Text>
      </Panel>
      <Panel title="Figures">
        <FactList facts={factsOf(figures)} />
      </Panel>
      <Columns>
        <Trend {...{ since, until, hours }} />
        <Panel title="Who runs it">
          <Group align="flex-start" gap="lg">
            {dimensions.map(([name, head]) => (
              <PlainTable
                key={name}
                label={head}
                head={[head, 'Queries']}
                numbersFrom={1}
                rows={values[name].map(({ value, queries }) => ({
                  key: value ?? '',
                  cells: [named(name, value), queries.toLocaleString('en')],
                }))}
              />
            ))}
          </Group>
        </Panel>
      </Columns>
      <Inputs inputs={inputs} />
      <Panel title="Latest queries">
        <DataTable
          label="Latest queries"
          columns={exampleColumns}
          rows={examples}
          rowId={({ queryId }) => queryId}
          empty="The history has none of them."
        />
      </Panel>
    </>
  );
}

const exampleColumns: readonly Column<DigestDetails['examples'][number]>[] = [
  { id: 'query', header: 'Query', cell: ({ queryId }) => <QueryId id={queryId} /> },
  { id: 'user', header: 'User', cell: ({ user }) => user ?? '–' },
  { id: 'submitted', header: 'Submitted', cell: ({ created }) => <Time at={Date.parse(created)} /> },
  {
    ...{ id: 'outcome', header: 'Outcome' },
    cell: ({ outcome }) => (outcome === null ? '–' : <OutcomeBadge state={outcome.state} />),
  },
  {
    ...{ id: 'elapsed', header: 'Elapsed' },
    cell: ({ outcome }) => (outcome?.elapsedMillis == null ? '–' : formatElapsed(outcome.elapsedMillis)),
  },
];

const dimensions = [
  ['user', 'User'],
  ['source', 'Source'],
  ['routingGroup', 'Routing group'],
  ['cluster', 'Backend'],
] as const;

function named(dimension: (typeof dimensions)[number][0], value: string | null) {
  if (value === null) return '–';
  if (dimension === 'cluster') return <ClusterName name={value} />;
  return dimension === 'routingGroup' ? <GroupName name={value} /> : value;
}

function factsOf(figures: DigestFiguresResponse) {
  const { queries, failures, userErrors, errors, cpuMillis, processedBytes, elapsed, queued, cpu, memory } = figures;
  const types = Object.entries(errors).map(([type, count]) => `${type} ${Number(count).toLocaleString('en')}`);
  const both = ({ p50, p95 }: typeof elapsed, text: (value: number) => string) =>
    p50 === null || p95 === null ? 'not known' : `${text(p50)} (median), ${text(p95)} (95 %)`;
  return [
    ['Queries', queries.toLocaleString('en')],
    ['Failures', `${failures.toLocaleString('en')}, and ${userErrors.toLocaleString('en')} by mistakes of users`],
    ['Errors', types.length === 0 ? undefined : types.join(', ')],
    ['Elapsed', both(elapsed, formatElapsed)],
    ['Waited', both(queued, formatElapsed)],
    ['Processor time', `${formatElapsed(cpuMillis)} in total; ${both(cpu, formatElapsed)}`],
    ['Peak memory', both(memory, formatBytes)],
    ['Read', formatBytes(processedBytes)],
  ] as const;
}

function Trend({ since, until, hours }: Pick<DigestDetails, 'since' | 'until' | 'hours'>) {
  const from = Math.floor(since / HOUR_MS) * HOUR_MS;
  const length = Math.max(1, Math.ceil((until - from) / HOUR_MS));
  const byHour = new Map(hours.map(({ start, figures }) => [start, figures]));
  const line = (name: string, color: string, of: (figures: DigestFiguresResponse | undefined) => number | null) => ({
    ...{ name, color, isDashed: false },
    values: Array.from({ length }, (_, hour) => of(byHour.get(from + hour * HOUR_MS))),
  });
  return (
    <Panel title="Trend">
      <TimeChart
        label="Queries and failures by hour"
        {...{ from, intervalMs: HOUR_MS }}
        lines={[
          line('queries', '#1c7ed6', (figures) => figures?.queries ?? 0),
          line('failures', '#e03131', (figures) => figures?.failures ?? 0),
        ]}
        valueText={(value) => value.toLocaleString('en')}
      />
      <TimeChart
        label="Duration by hour, median and 95th percentile"
        {...{ from, intervalMs: HOUR_MS }}
        lines={[
          line('median', '#1c7ed6', (figures) => figures?.elapsed.p50 ?? null),
          line('95 %', '#e8590c', (figures) => figures?.elapsed.p95 ?? null),
        ]}
        valueText={formatElapsed}
      />
    </Panel>
  );
}
