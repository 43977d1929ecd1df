import { Badge, type BadgeProps, Table } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck, IconHourglass } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import type { HealthStatus, OutcomeView } from '../client/types.ts';
import classes from './components.module.css';
import { formatBytes } from './elements.tsx';
import { Panel } from './frame.tsx';

interface PlainRow {
  readonly key: string;
  readonly cells: readonly ReactNode[];
  readonly className?: string | undefined;
}

interface PlainTableProps {
  readonly label: string;
  readonly className?: string | undefined;
  readonly head: readonly string[];
  readonly rows: readonly PlainRow[];
  readonly cellClass?: string | undefined;
  /** Index of the first column that is aligned at its end, as numbers are. Default: none. */
  readonly numbersFrom?: number;
  /** True if the first cell of a row names it. */
  readonly hasRowHeads?: boolean;
}

/** A table of few rows, without sorting. */
export function PlainTable({ label, className, head, rows, cellClass, numbersFrom, hasRowHeads }: PlainTableProps) {
  const align = (index: number) => (index >= (numbersFrom ?? head.length) ? { ta: 'right' as const } : {});
  return (
    <Table aria-label={label} verticalSpacing={4} className={className ?? ''}>
      <Table.Thead>
        <Table.Tr>
          {head.map((name, index) => (
            <Table.Th key={name} scope="col" {...align(index)}>
              {name}
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map(({ key, cells, className: ofRow }) => (
          <Table.Tr key={key} className={ofRow ?? ''}>
            {cells.map((cell, index) => {
              const Cell = hasRowHeads === true && index === 0 ? Table.Th : Table.Td;
              return (
                <Cell
                  key={head[index]}
                  className={cellClass ?? ''}
                  {...(Cell === Table.Th ? { scope: 'row' } : {})}
                  {...align(index)}
                >
                  {cell}
                </Cell>
              );
            })}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

const outcomeColors: Readonly<Record<OutcomeView['state'], string>> = {
  FINISHED: 'green',
  FAILED: 'red',
  CANCELLED: 'yellow',
  ABANDONED: 'yellow',
  REFUSED: 'red',
  DENIED: 'red',
  LOST: 'red',
  RETRIED: 'yellow',
};

export function OutcomeBadge({ state, size = 'sm' }: Pick<OutcomeView, 'state'> & Pick<BadgeProps, 'size'>) {
  return (
    <Badge color={outcomeColors[state]} variant="light" size={size} miw="max-content">
      {state.toLowerCase()}
    </Badge>
  );
}

const statusLooks = {
  HEALTHY: { color: 'green', Icon: IconCircleCheck },
  PENDING: { color: 'yellow', Icon: IconHourglass },
  UNHEALTHY: { color: 'red', Icon: IconAlertTriangle },
} as const;

export function StatusBadge({ status }: { readonly status: HealthStatus }) {
  const { color, Icon } = statusLooks[status];
  return (
    <Badge variant="light" color={color} leftSection={<Icon size={12} aria-hidden />}>
      {status}
    </Badge>
  );
}

/** A name with its value; undefined: not shown. */
export type Fact = readonly [name: string, value: ReactNode];

export function FactList({ facts }: { readonly facts: readonly Fact[] }) {
  const shown = facts.filter(([, value]) => value !== undefined);
  return (
    <dl className={classes.facts}>
      {shown.map(([name, value]) => (
        <div key={name} style={{ display: 'contents' }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface Input {
  readonly table: string;
  readonly rows: number | null;
  readonly bytes: number | null;
  readonly queries?: number;
}

/** Tables that queries read; nothing without any. */
export function Inputs({ inputs }: { readonly inputs: readonly Input[] }) {
  if (inputs.length === 0) return null;
  const count = (value: number | null) => value?.toLocaleString('en') ?? '–';
  const hasQueries = inputs[0]?.queries !== undefined;
  return (
    <Panel title="Tables read">
      <PlainTable
        label="Tables read"
        head={['Table', 'Rows', 'From storage', ...(hasQueries ? ['Queries'] : [])]}
        numbersFrom={1}
        rows={inputs.map(({ table, rows, bytes, queries }) => ({
          key: table,
          cells: [table, count(rows), bytes === null ? '–' : formatBytes(bytes), ...(hasQueries ? [queries] : [])],
        }))}
      />
    </Panel>
  );
}
