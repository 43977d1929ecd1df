import { Text } from '@mantine/core';
import { useSearchParams } from 'react-router';
import { useDigests } from '../../client/resources.ts';
import type { DigestFiguresResponse, DigestList } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, To } from '../../components/elements.tsx';
import { type FilterField, FilterForm, filterParameters, filtersOf } from '../../components/forms.tsx';
import { Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { formatElapsed } from '../../components/texts.ts';
import { Time } from '../../components/time.tsx';
import classes from './workload.module.css';

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
const listFilters = [{ name: 'top', label: 'Most', choices: orders }, ...workloadFilters] as const;

/** Workload: the shapes of statements that ran, with their figures and those of the time before. */
export default function WorkloadPage() {
  const [parameters, setParameters] = useSearchParams();
  const filters = filtersOf<(typeof listFilters)[number]['name']>(listFilters, parameters);
  const digests = useDigests(filterParameters(filters));
  return (
    <PageFrame title="Workload">
      <FilterForm fields={listFilters} filters={filters} onChange={(next) => setParameters(filterParameters(next))} />
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
    </PageFrame>
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
