import { ActionIcon, Badge, Group, List, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconPencil, IconTrash } from '@tabler/icons-react';
import { useMemo } from 'react';
import { NO_PRIORITY } from '../../client/rules.ts';
import type { RuleHitList, RuleState } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { EmptyState } from '../../components/states.tsx';
import { ruleOwner } from './Ownership.tsx';
import classes from './rules.module.css';

interface RuleTableProps {
  readonly rules: readonly RuleState[];
  /** Queries per rule; undefined: not loaded yet. */
  readonly hits: RuleHitList | undefined;
  readonly search: string;
  readonly mayWrite: boolean;
  readonly onEdit: (name: string) => void;
  readonly onDelete: (rule: RuleState) => void;
}

/** The rules in firing order. */
export function RuleTable({ rules, hits, search, mayWrite, onEdit, onDelete }: RuleTableProps) {
  const columns = useMemo(() => columnsOf({ hits, mayWrite, onEdit, onDelete }), [hits, mayWrite, onEdit, onDelete]);
  const empty =
    rules.length > 0 ? (
      <EmptyState title="No rule matches the search." />
    ) : (
      <EmptyState title="There is no rule: the routing group header decides, then the default group. Rules are written in the rules file or as RoutingRule resources." />
    );
  return <DataTable label="Routing rules" columns={columns} rows={rules} rowId={rowId} filter={search} empty={empty} />;
}

const rowId = ({ origin, name, resource }: RuleState): string => `${origin} ${resource ?? ''} ${name}`;

function textsOf({ description, condition, actions, routeTo, deny, unresolved }: RuleState): string {
  return [description, condition, ...actions, routeTo?.routingGroup, routeTo?.cluster, deny?.message, unresolved].join(
    '\n',
  );
}

const looks: Readonly<Record<string, { readonly color: string; readonly label: string }>> = {
  Programmed: { color: 'green', label: 'in force' },
  PreviousVersion: { color: 'yellow', label: 'earlier version in force' },
  Suspended: { color: 'gray', label: 'suspended' },
  NotAccepted: { color: 'red', label: 'not accepted' },
  FileFailed: { color: 'red', label: 'file has mistakes' },
  RulesEngineDisabled: { color: 'gray', label: 'engine is off' },
  ExternalRules: { color: 'gray', label: 'external service' },
};

type ColumnOptions = Pick<RuleTableProps, 'hits' | 'mayWrite' | 'onEdit' | 'onDelete'>;

function columnsOf({ hits, mayWrite, onEdit, onDelete }: ColumnOptions): readonly Column<RuleState>[] {
  const byRule = new Map(hits?.hits.map((hit) => [hit.rule, hit]));
  const actions: Column<RuleState> = {
    id: 'actions',
    header: 'Actions',
    enableSorting: false,
    cell: ({ row: { original } }) => (
      <Group gap={2} wrap="nowrap">
        {/* The browser's own hints, as there are many. */}
        <ActionIcon aria-label={`Edit ${original.name}`} title="Edit" onClick={() => onEdit(original.name)}>
          <IconPencil size={18} aria-hidden />
        </ActionIcon>
        <ActionIcon aria-label={`Delete ${original.name}`} title="Delete" onClick={() => onDelete(original)}>
          <IconTrash size={18} aria-hidden />
        </ActionIcon>
      </Group>
    ),
  };
  return [
    {
      id: 'position',
      header: 'Order',
      // Rules that are not evaluated come last.
      accessorFn: ({ position }) => position ?? Number.MAX_SAFE_INTEGER,
      cell: ({ row: { original } }) => original.position ?? '–',
    },
    {
      id: 'name',
      header: 'Name',
      accessorFn: ({ name }) => name,
      cell: ({ row: { original } }) => (
        <Stack gap={0} className={classes.name}>
          <Text size="sm" fw={500}>
            {original.name}
          </Text>
          <Text size="xs" c="dimmed">
            {original.description}
          </Text>
        </Stack>
      ),
    },
    {
      id: 'priority',
      header: 'Priority',
      accessorFn: ({ priority }) => priority,
      cell: ({ row: { original } }) => (original.priority === NO_PRIORITY ? 'none' : original.priority),
    },
    {
      id: 'condition',
      header: 'Condition and what it does',
      accessorFn: textsOf,
      enableSorting: false,
      cell: ({ row: { original } }) => <What rule={original} />,
    },
    {
      id: 'hits',
      header: 'Decided, 1 h / 24 h',
      accessorFn: ({ name }) => byRule.get(name)?.lastDay ?? 0,
      cell: ({ row: { original } }) => <Hits hit={byRule.get(original.name)} isCounted={hits !== undefined} />,
    },
    {
      id: 'origin',
      header: 'Origin',
      accessorFn: (rule) => `${rule.resource ?? 'rules file'} ${ruleOwner(rule)}`,
      cell: ({ row: { original } }) => <Origin rule={original} />,
    },
    {
      id: 'status',
      header: 'Status',
      accessorFn: ({ status }) => status,
      cell: ({ row: { original } }) => <Status rule={original} />,
    },
    ...(mayWrite ? [actions] : []),
  ];
}

/** Queries that a rule decided in the last hour and day. */
function Hits({
  hit,
  isCounted,
}: {
  readonly hit: RuleHitList['hits'][number] | undefined;
  readonly isCounted: boolean;
}) {
  if (!isCounted) return '–';
  if (hit === undefined) return <Text c="dimmed">none</Text>;
  return `${hit.lastHour.toLocaleString('en')} / ${hit.lastDay.toLocaleString('en')}`;
}

function What({ rule }: { readonly rule: RuleState }) {
  const { condition, actions, routeTo, deny, stop, onUnavailable } = rule;
  return (
    <Stack gap={2} className={classes.what}>
      <code className={classes.code}>{condition}</code>
      {actions.map((action, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: actions have no identity but their place
        <code key={index} className={classes.code}>
          → {action}
        </code>
      ))}
      {routeTo !== null && (
        <Text size="sm">
          → {routeTo.cluster === undefined ? `group ${routeTo.routingGroup}` : `cluster ${routeTo.cluster}`}
          {onUnavailable === 'reject' ? ', refused where that is unavailable' : ''}
        </Text>
      )}
      {deny !== null && <Text size="sm">→ denied: {deny.message}</Text>}
      {stop && <Text size="sm">→ no later rule is asked</Text>}
      <Warnings rule={rule} />
    </Stack>
  );
}

function Warnings({ rule: { name, warnings } }: { readonly rule: RuleState }) {
  if (warnings.length === 0) return null;
  const icon = <IconAlertTriangle size={14} role="img" aria-label="Warning" className={classes.warning} />;
  return (
    <List size="xs" aria-label={`Warnings of ${name}`} icon={icon}>
      {warnings.map(({ field, line, column, message }) => (
        <List.Item key={`${field} ${line}:${column} ${message}`}>
          {line === undefined ? message : `${field}, line ${line}, column ${column}: ${message}`}
        </List.Item>
      ))}
    </List>
  );
}

function Origin({ rule }: { readonly rule: RuleState }) {
  const { resource, place, managers } = rule;
  return (
    <Stack gap={0} className={classes.place}>
      <Text size="sm">{resource === null ? 'rules file' : `RoutingRule ${resource}`}</Text>
      <Text size="xs" c="dimmed">
        {managers.length > 0 ? `by ${ruleOwner(rule)}` : place}
      </Text>
    </Stack>
  );
}

function Status({ rule: { status, message, problems, unresolved } }: { readonly rule: RuleState }) {
  const { color, label } = looks[status] ?? { color: 'gray', label: status };
  return (
    <Stack gap={2} align="flex-start" className={classes.status}>
      <Badge variant="light" color={color} className={classes.badge ?? ''}>
        {label}
      </Badge>
      {unresolved !== null && (
        <>
          <Badge variant="light" color="red" className={classes.badge ?? ''}>
            leads nowhere
          </Badge>
          <Text size="xs" c="red">
            {unresolved}
          </Text>
        </>
      )}
      {problems.length > 0 ? (
        <List size="xs">
          {problems.map(({ field, line, column, message: text }) => (
            <List.Item key={`${field} ${line}:${column}`}>
              {field}, line {line}, column {column}: {text}
            </List.Item>
          ))}
        </List>
      ) : (
        status !== 'Programmed' && <Text size="xs">{message}</Text>
      )}
    </Stack>
  );
}
