import { Badge, Group, List, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconPencil, IconTrash } from '@tabler/icons-react';
import { useMemo } from 'react';
import { NO_PRIORITY } from '../../client/resources.ts';
import type { RuleHitList, RuleState } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, IconAction, Strong } from '../../components/elements.tsx';
import { EmptyState } from '../../components/states.tsx';
import { ruleOwner } from './RuleDialog.tsx';
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
  const none =
    'There is no rule: the routing group header decides, then the default group. Rules are written in the rules file or as RoutingRule resources.';
  const empty = <EmptyState title={rules.length > 0 ? 'No rule matches the search.' : none} />;
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
  const hitsText = (hit: RuleHitList['hits'][number]) =>
    `${hit.lastHour.toLocaleString('en')} / ${hit.lastDay.toLocaleString('en')}`;
  const actions: Column<RuleState> = {
    ...{ id: 'actions', header: 'Actions' },
    cell: (rule) => (
      <Group gap={2} wrap="nowrap">
        <IconAction label={`Edit ${rule.name}`} hint="Edit" icon={IconPencil} onClick={() => onEdit(rule.name)} />
        <IconAction label={`Delete ${rule.name}`} hint="Delete" icon={IconTrash} onClick={() => onDelete(rule)} />
      </Group>
    ),
  };
  return [
    {
      ...{ id: 'position', header: 'Order' },
      // Rules that are not evaluated come last.
      value: ({ position }) => position ?? Number.MAX_SAFE_INTEGER,
      cell: ({ position }) => position ?? '–',
    },
    {
      ...{ id: 'name', header: 'Name', value: ({ name }) => name },
      cell: ({ name, description }) => (
        <Stack gap={0} className={classes.name}>
          <Strong>{name}</Strong>
          <Faint>{description}</Faint>
        </Stack>
      ),
    },
    {
      ...{ id: 'priority', header: 'Priority', value: ({ priority }) => priority },
      cell: ({ priority }) => (priority === NO_PRIORITY ? 'none' : priority),
    },
    {
      ...{ id: 'condition', header: 'Condition and what it does', value: textsOf, isSortable: false },
      cell: (rule) => <What rule={rule} />,
    },
    {
      ...{ id: 'hits', header: 'Decided, 1 h / 24 h', value: ({ name }) => byRule.get(name)?.lastDay ?? 0 },
      cell: ({ name }) => {
        const hit = byRule.get(name);
        if (hits === undefined) return '–';
        return hit === undefined ? <Text c="dimmed">none</Text> : hitsText(hit);
      },
    },
    {
      ...{ id: 'origin', header: 'Origin', value: (rule) => `${rule.resource ?? 'rules file'} ${ruleOwner(rule)}` },
      cell: (rule) => (
        <Stack gap={0} className={classes.place}>
          <Text size="sm">{rule.resource === null ? 'rules file' : `RoutingRule ${rule.resource}`}</Text>
          <Faint>{rule.managers.length > 0 ? `by ${ruleOwner(rule)}` : rule.place}</Faint>
        </Stack>
      ),
    },
    { id: 'status', header: 'Status', value: ({ status }) => status, cell: (rule) => <Status rule={rule} /> },
    ...(mayWrite ? [actions] : []),
  ];
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
