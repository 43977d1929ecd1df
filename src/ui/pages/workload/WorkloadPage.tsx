import { Text, Title } from '@mantine/core';
import { IconLockOpen } from '@tabler/icons-react';
import { useSearchParams } from 'react-router';
import { useRelease } from '../../client/changes.ts';
import { useCalibration, useDigests, useQuarantine } from '../../client/resources.ts';
import type { DigestFiguresResponse, DigestList, QuarantineEntry } from '../../client/types.ts';
import classes from '../../components/components.module.css';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, formatElapsed, SmallAction, To } from '../../components/elements.tsx';
import { PlainTable } from '../../components/facts.tsx';
import { type FilterField, FilterForm, filterParameters, filtersOf } from '../../components/forms.tsx';
import { Framed, PageFrame, Panel, RequestState } from '../../components/frame.tsx';
import { GroupName } from '../../components/names.tsx';
import { Time } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';

const orders = [
  { value: '', label: 'Processor time' },
  { value: 'time', label: 'Elapsed time' },
  { value: 'count', label: 'Queries' },
  { value: 'failures', label: 'Failures' },
  { value: 'growth', label: 'Growth of processor time' },
];

export const workloadFilters = [
  { name: 'since', label: 'Since', kind: 'time' },
  { name: 'until', label: 'Until', kind: 'time', above: ['since', 'Must be later than "Since".'] },
  { name: 'user', label: 'User' },
  { name: 'source', label: 'Source' },
  { name: 'routingGroup', label: 'Routing group' },
  { name: 'cluster', label: 'Backend' },
] as const satisfies readonly FilterField[];
const borderFilters = [
  { name: 'mediumFrom', label: 'Class M from (s)', kind: 'seconds' },
  {
    ...({ name: 'largeFrom', label: 'Class L from (s)', kind: 'seconds' } as const),
    above: ['mediumFrom', 'Must be more than "Class M from".'],
  },
] as const satisfies readonly FilterField[];
const listFilters = [{ name: 'top', label: 'Most', choices: orders }, ...workloadFilters] as const;
const allFilters = [...listFilters, ...borderFilters] as const;

/** Workload: the shapes of statements that ran, with their figures and those of the time before. */
export default function WorkloadPage() {
  const [parameters, setParameters] = useSearchParams();
  const filters = filtersOf<(typeof allFilters)[number]['name']>(allFilters, parameters);
  const digests = useDigests(filterParameters(filtersOf(listFilters, parameters)));
  const isAdmin = useRole('ADMIN');
  return (
    <PageFrame title="Workload">
      <FilterForm
        fields={isAdmin ? allFilters : listFilters}
        filters={filters}
        onChange={(next) => setParameters(filterParameters(next))}
      />
      <RequestState query={digests} label="Loading the workload">
        {({ since, until, digests: rows }) => (
          <>
            <Text size="sm">
              Queries submitted from <Time at={since} /> to <Time at={until} /> that have ended, by the shape of their
              statement. Changes compare with the time of equal length before.
            </Text>
            <Framed>
              <DataTable
                label="Statements"
                columns={columns}
                rows={rows}
                rowId={({ digest }) => digest ?? ''}
                empty="No query ended in this time."
              />
            </Framed>
          </>
        )}
      </RequestState>
      <Quarantine />
      {isAdmin && <SizeClasses filters={filters} />}
    </PageFrame>
  );
}

/** Quarantined statements; nothing without any. */
function Quarantine() {
  const quarantine = useQuarantine();
  const release = useRelease();
  const rows = quarantine.data?.quarantined ?? [];
  if (rows.length === 0) return null;
  const columns: readonly Column<QuarantineEntry>[] = [
    {
      id: 'digest',
      header: 'Digest',
      cell: (row) => <To address={`/workload/${row.digest}`}>{quarantinedName(row)}</To>,
    },
    { id: 'group', header: 'Group', cell: ({ routingGroup }) => <GroupName name={routingGroup} /> },
    { id: 'clusters', header: 'Lost', cell: ({ clusters }) => clusters.join(', ') },
    { id: 'users', header: 'Users', cell: ({ users }) => users.join(', ') },
    { id: 'until', header: 'Until', cell: ({ until }) => <Time at={Date.parse(until)} /> },
    {
      ...{ id: 'actions', header: 'Actions' },
      cell: (row) =>
        row.canRelease && (
          <SmallAction
            label="Release"
            name={`Release ${quarantinedName(row)}`}
            icon={IconLockOpen}
            size="compact-sm"
            onClick={() => void release(row)}
          />
        ),
    },
  ];
  return (
    <>
      <Title order={2}>Quarantined statements</Title>
      <Text size="sm">These statements lost several backends. Their routing groups reject them.</Text>
      <Framed>
        <DataTable
          label="Quarantined statements"
          columns={columns}
          rows={rows}
          rowId={({ routingGroup, digest, exactDigest }) => `${routingGroup} ${exactDigest ?? digest}`}
          empty={null}
          sortIn="quarantineSort"
        />
      </Framed>
    </>
  );
}

const quarantinedName = ({ digest, exactDigest }: QuarantineEntry) => exactDigest ?? `shape ${digest}`;

const classNames = { S: 'S', M: 'M', L: 'L', unknown: 'Not known' } as const;

/** Predicted and actual classes of queries, with the borders of the filters or of the configuration. */
function SizeClasses({ filters }: { readonly filters: Readonly<Record<string, string>> }) {
  const { since = '', until = '', mediumFrom = '', largeFrom = '' } = filters;
  const calibration = useCalibration(filterParameters({ since, until, mediumFrom, largeFrom }));
  return (
    <Panel title="Expected sizes">
      <RequestState query={calibration} label="Loading expected sizes">
        {({ since: from, until: to, measure, counts, ...borders }) => (
          <>
            <Text size="sm">
              Queries of all users from <Time at={from} /> to <Time at={to} />, at most 50,000, as the five days before
              predict them and as they were. By {measure === 'cpu' ? 'processor time' : 'duration'}: M from{' '}
              {formatElapsed(borders.mediumFrom)}, L from {formatElapsed(borders.largeFrom)}.
            </Text>
            <PlainTable
              label="Expected sizes"
              head={['Expected', 'Was S', 'Was M', 'Was L', 'As expected']}
              numbersFrom={1}
              hasRowHeads
              rows={Object.entries(classNames).map(([name, text]) => {
                const row = counts.filter(({ predicted }) => predicted === name);
                const all = row.reduce((sum, { queries }) => sum + queries, 0);
                const right = row.find(({ actual }) => actual === name)?.queries ?? 0;
                const share = all === 0 || name === 'unknown' ? '–' : `${Math.round((100 * right) / all)} %`;
                return { key: name, cells: [text, ...row.map(({ queries }) => queries.toLocaleString('en')), share] };
              })}
            />
          </>
        )}
      </RequestState>
    </Panel>
  );
}

type Row = DigestList['digests'][number];

const columns: readonly Column<Row>[] = [
  { id: 'shape', header: 'Statement', cell: (row) => <Shape row={row} /> },
  number(
    'Queries',
    ({ queries }) => queries,
    (value) => value.toLocaleString('en'),
  ),
  number('Processor time', ({ cpuMillis }) => cpuMillis, formatElapsed),
  number('Median', ({ elapsed }) => elapsed.p50, formatElapsed),
  number('95 %', ({ elapsed }) => elapsed.p95, formatElapsed),
  number(
    'Failures',
    ({ failures }) => failures,
    (value) => value.toLocaleString('en'),
  ),
];

/** A column of a figure, with its change since the time before. */
function number(
  header: string,
  of: (figures: DigestFiguresResponse) => number | null,
  text: (value: number) => string,
): Column<Row> {
  return {
    ...{ id: header, header },
    value: ({ figures }) => of(figures) ?? -1,
    cell: ({ figures, before }) => {
      const value = of(figures);
      if (value === null) return '–';
      return (
        <>
          {text(value)} <Faint>{changeText(value, of(before))}</Faint>
        </>
      );
    },
  };
}

/** Difference to a value before: `+20 %`, `new`; empty if equal. */
export function changeText(value: number, before: number | null): string {
  if (before === null || before === 0) return value === 0 ? '' : 'new';
  const percent = Math.round((100 * (value - before)) / before);
  return percent === 0 ? '' : `${percent > 0 ? '+' : '−'}${Math.abs(percent).toLocaleString('en')} %`;
}

function Shape({ row: { digest, shape } }: { readonly row: Row }) {
  const [parameters] = useSearchParams();
  if (digest === null) return <Faint size="sm">queries without a digest</Faint>;
  if (digest === 'other') return <Faint size="sm">other statements of hours with too many of them</Faint>;
  const range = new URLSearchParams(parameters);
  range.delete('top');
  range.delete('sort');
  return (
    <>
      <To address={`/workload/${digest}?${range}`}>{digest}</To>
      <Text size="xs" className={classes.shape ?? ''} lineClamp={3}>
        {shape ?? 'its text is not stored'}
      </Text>
    </>
  );
}
