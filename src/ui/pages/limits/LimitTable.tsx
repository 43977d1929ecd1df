import { Stack, Text } from '@mantine/core';
import type { LimitState } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { EmptyState } from '../../components/states.tsx';
import { DeclaringResource } from './Declaration.tsx';
import classes from './limits.module.css';
import { counted, ofLimit } from './texts.ts';

interface LimitSpec {
  readonly match?: Readonly<Record<string, readonly string[]>>;
  readonly per?: string;
  readonly maxRunning?: number;
  readonly maxQueued?: number;
  readonly rate?: { readonly queries: number; readonly period?: string; readonly burst?: number };
  readonly mode?: string;
  readonly message?: string;
}

export function LimitTable({ limits }: { readonly limits: readonly LimitState[] }) {
  const empty = (
    <EmptyState title="There is no limit of users or sources. Limits are written as QueryLimit resources." />
  );
  const rowId = ({ namespace, name }: LimitState) => `${namespace}/${name}`;
  return <DataTable label="Limits" columns={columns} rows={limits} rowId={rowId} empty={empty} />;
}

const specOf = ({ spec }: LimitState): LimitSpec => spec as LimitSpec;

const columns: readonly Column<LimitState>[] = [
  { id: 'name', header: 'Limit', accessorFn: ({ namespace, name }) => `${namespace}/${name}` },
  {
    id: 'what',
    header: 'Whom, and how much',
    enableSorting: false,
    cell: ({ row: { original } }) => <What spec={specOf(original)} />,
  },
  {
    id: 'running',
    header: 'Running',
    accessorFn: ({ running }) => running ?? -1,
    cell: ({ row: { original } }) => counted(original.running),
  },
  {
    id: 'waiting',
    header: 'Waiting',
    accessorFn: ({ waiting }) => waiting ?? -1,
    cell: ({ row: { original } }) => counted(original.waiting),
  },
  {
    id: 'refused',
    header: 'Refused',
    accessorFn: ({ refused }) => refused ?? -1,
    cell: ({ row: { original } }) => ofLimit(original.refused, undefined),
  },
  {
    id: 'state',
    header: 'Declared by',
    accessorFn: ({ inForce }) => (inForce ? 1 : 0),
    cell: ({ row: { original } }) => (
      <DeclaringResource
        kind="QueryLimit"
        listedAs={original.name}
        state={original}
        observes={specOf(original).mode === 'observe'}
      />
    ),
  },
];

const labels: Readonly<Record<string, string>> = {
  users: 'users',
  groups: 'groups of users',
  sources: 'sources',
  routingGroups: 'routing groups',
};

function What({ spec: { match = {}, per, maxRunning, maxQueued, rate, message } }: { readonly spec: LimitSpec }) {
  const whom = Object.entries(match).map(([field, values]) => `${labels[field] ?? field} ${values.join(', ')}`);
  const limits = [
    ...(maxRunning === undefined ? [] : [`${maxRunning} at a time`]),
    ...(maxQueued === undefined ? [] : [`${maxQueued} waiting`]),
    ...(rate === undefined ? [] : [`${rate.queries} in ${rate.period ?? '1m'}, ${rate.burst ?? rate.queries} at once`]),
  ];
  return (
    <Stack gap={0} className={classes.what}>
      <Text size="sm">{whom.length === 0 ? 'everybody' : whom.join('; ')}</Text>
      <Text size="sm">
        {per === 'all' ? 'together' : `each ${per}`}: {limits.join('; ')}
      </Text>
      {message !== undefined && (
        <Text size="xs" c="dimmed">
          {message}
        </Text>
      )}
    </Stack>
  );
}
