import { Alert, Badge, Button, Group, List, Stack, Text, TextInput } from '@mantine/core';
import { IconAlertTriangle, IconInfoCircle, IconPencil, IconPlus, IconSearch, IconTrash } from '@tabler/icons-react';
import { useCallback, useMemo } from 'react';
import { ApiError } from '../../client/call.ts';
import { NO_PRIORITY, useRuleHits, useRules } from '../../client/resources.ts';
import type { RuleHitList, RuleInventory, RuleState } from '../../client/types.ts';
import { useAddressState, useOpenInAddress } from '../../components/addressState.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, IconAction, MainAction, Notice, Strong } from '../../components/elements.tsx';
import { Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { useRole } from '../../session/session.ts';
import { RuleDialog, ruleOwner, useDeleteRule } from './RuleDialog.tsx';
import classes from './rules.module.css';
import { TryPanel } from './TryPanel.tsx';

/** Address parameters: the open rule, which can be shared, and a new one. */
const dialogs = ['rule', 'new'] as const;

/** Routing Rules: all rules in firing order, changes, and trials with a request. */
export default function RulesPage() {
  const rules = useRules();
  const hits = useRuleHits().data;
  const mayAdd = useRole('ADMIN');
  const mayList = !(rules.error instanceof ApiError && rules.error.status === 403);
  const areAsked = rules.data !== undefined && rules.data.engine !== 'external';
  const [search, setSearch] = useAddressState('search');
  const [dialog, setDialog] = useOpenInAddress(dialogs);
  const remove = useDeleteRule();
  const shownName = dialog?.kind === 'rule' ? dialog.key : null;
  const rule = rules.data?.rules.find(({ name }) => name === shownName) ?? null;
  const mayWrite = areAsked && rule?.mayChange === true;
  const edit = useCallback((name: string) => setDialog({ kind: 'rule', key: name }), [setDialog]);
  const close = () => setDialog(null);
  const add = <MainAction label="Add a rule" icon={IconPlus} onClick={() => setDialog({ kind: 'new', key: '' })} />;
  return (
    <PageFrame title="Routing Rules" actions={mayAdd && areAsked ? add : undefined}>
      {!mayList && (
        <Text size="sm">
          Rules are listed for administrators. Where your own queries would go, and which rules would decide that, you
          can try here.
        </Text>
      )}
      {mayList && (
        <RequestState query={rules} label="Loading rules">
          {(inventory) => (
            <>
              <Notices inventory={inventory} />
              <WarningNotice inventory={inventory} />
              <Group gap="sm">
                <TextInput
                  className={classes.search ?? ''}
                  aria-label="Search rules"
                  placeholder="Name, condition, group, owner"
                  leftSection={<IconSearch size={16} aria-hidden />}
                  value={search}
                  onChange={(event) => setSearch(event.currentTarget.value)}
                />
                <Faint size="sm">{inventory.rules.length === 1 ? '1 rule' : `${inventory.rules.length} rules`}</Faint>
              </Group>
              {shownName !== null && !mayWrite && (
                <Notice
                  tone="info"
                  color={rule === null ? 'yellow' : 'blue'}
                  title={rule === null ? `There is no rule ${shownName}` : `Only the rule ${shownName} is shown`}
                >
                  <Stack gap="xs" align="flex-start">
                    {rule === null && (
                      <Text size="sm">
                        It was deleted or renamed since this address was made, or is of another gateway.
                      </Text>
                    )}
                    <Button size="xs" variant="default" onClick={close}>
                      Show all rules
                    </Button>
                  </Stack>
                </Notice>
              )}
              <Framed>
                <RuleTable
                  rules={rule === null || mayWrite ? inventory.rules : [rule]}
                  hits={hits}
                  search={search}
                  mayWrite={areAsked && inventory.rules.some(({ mayChange }) => mayChange)}
                  onEdit={edit}
                  onDelete={remove}
                />
              </Framed>
            </>
          )}
        </RequestState>
      )}
      <TryPanel />
      {(mayWrite || (mayAdd && areAsked && dialog?.kind === 'new')) && (
        <RuleDialog key={rule?.name ?? ''} rule={rule} onClose={close} />
      )}
    </PageFrame>
  );
}

/** Notices about all rules: the engine is off, a service decides, the file has mistakes. */
function Notices({ inventory: { engine, file } }: { readonly inventory: RuleInventory }) {
  const isBroken = file !== null && file.problems.length > 0;
  return (
    <>
      {engine === 'off' && (
        <Alert color="yellow" icon={<IconInfoCircle aria-hidden />} title="No rule is asked">
          routingRules.rulesEngineEnabled is false: the routing group header decides.
        </Alert>
      )}
      {engine === 'external' && (
        <Alert color="blue" icon={<IconInfoCircle aria-hidden />} title="An external service decides">
          Of the rules below only those that deny are asked, before the service.
        </Alert>
      )}
      {isBroken && (
        <Notice tone="error" title={`${file.path} has mistakes`}>
          <Text size="sm">
            {file.state === 'keptLast'
              ? 'Its last version that loaded is in force.'
              : file.state === 'loaded'
                ? 'The rules named here are left out; all others are in force.'
                : 'Its rules are not in force until it is fixed.'}
          </Text>
          <Places of={file.problems} />
        </Notice>
      )}
    </>
  );
}

/** Number of rules with warnings; warnings of the file without a row in the table, by their position. */
function WarningNotice({ inventory: { file, rules } }: { readonly inventory: RuleInventory }) {
  const warned = rules.filter(({ warnings }) => warnings.length > 0);
  const others = (file?.warnings ?? []).filter((warning) => !isShownAt(warned, warning));
  if (warned.length + others.length === 0) return null;
  return (
    <Notice tone="warning" title="Rules with warnings">
      {warned.length > 0 && (
        <Text size="sm">
          {warned.length === 1 ? 'One rule runs' : `${warned.length} rules run`}, but may not do what was meant, or what
          Trino Gateway does. The warnings stand beside the conditions.
        </Text>
      )}
      {others.length > 0 && <Places of={others} />}
    </Notice>
  );
}

type FileWarning = NonNullable<RuleInventory['file']>['warnings'][number];

/** Messages with their positions in the file. */
function Places({ of }: { readonly of: readonly FileWarning[] }) {
  return (
    <List size="sm">
      {of.map(({ line, column, rule, message }) => (
        <List.Item key={`${line}:${column} ${message}`}>
          line {line}, column {column}
          {rule === null ? '' : `, rule ${rule}`}: {message}
        </List.Item>
      ))}
    </List>
  );
}

/** True if a warning of the file concerns a rule in the table, which shows it without its field. */
function isShownAt(rules: readonly RuleState[], { rule, message }: FileWarning): boolean {
  return rules.some(
    ({ name, origin, warnings }) =>
      origin === 'file' && name === rule && warnings.some((warning) => message.endsWith(warning.message)),
  );
}

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
function RuleTable({ rules, hits, search, mayWrite, onEdit, onDelete }: RuleTableProps) {
  const columns = useMemo(() => columnsOf({ hits, mayWrite, onEdit, onDelete }), [hits, mayWrite, onEdit, onDelete]);
  const none =
    'There is no rule: the routing group header decides, then the default group. Rules are written in the rules file or as RoutingRule resources.';
  const empty = rules.length > 0 ? 'No rule matches the search.' : none;
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
    cell: (rule) =>
      rule.mayChange && (
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
  const { condition, actions, routeTo, deny, stop, whenUnavailable } = rule;
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
          {whenUnavailable === 'Reject' ? ', rejected where that is unavailable' : ''}
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
