import { Alert, Button, Group, List, Paper, Stack, Text, TextInput } from '@mantine/core';
import { IconAlertTriangle, IconInfoCircle, IconPlus, IconSearch } from '@tabler/icons-react';
import { useCallback, useState } from 'react';
import { ApiError } from '../../client/apiError.ts';
import { useRuleHits, useRules } from '../../client/rules.ts';
import type { RuleInventory, RuleState } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { useLeaveGuard } from '../../components/leaveGuard.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { useRole } from '../../session/session.ts';
import { useDeleteRule } from './deleteRule.ts';
import { RuleDialog } from './RuleDialog.tsx';
import { RuleTable } from './RuleTable.tsx';
import { noDialog, useRuleDialog } from './ruleDialogState.ts';
import classes from './rules.module.css';
import { TryPanel } from './TryPanel.tsx';

/** Routing Rules: all rules in firing order, changes, and trials with a request. */
export default function RulesPage() {
  const rules = useRules();
  const hits = useRuleHits().data;
  const isAdmin = useRole('ADMIN');
  const mayList = !(rules.error instanceof ApiError && rules.error.status === 403);
  const mayWrite = isAdmin && rules.data !== undefined && rules.data.engine !== 'external';
  const [search, setSearch] = useAddressState('search');
  const [dialog, setDialog] = useRuleDialog();
  const remove = useDeleteRule();
  const rule = rules.data?.rules.find(({ name }) => name === dialog.rule) ?? null;
  const edit = useCallback((name: string) => setDialog({ rule: name, isNew: false }), [setDialog]);
  const add = (
    <Button
      size="sm"
      leftSection={<IconPlus size={16} aria-hidden />}
      onClick={() => setDialog({ rule: null, isNew: true })}
    >
      Add a rule
    </Button>
  );
  return (
    <PageFrame title="Routing Rules" actions={mayWrite ? add : undefined}>
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
                <Text size="sm" c="dimmed">
                  {inventory.rules.length === 1 ? '1 rule' : `${inventory.rules.length} rules`}
                </Text>
              </Group>
              {dialog.rule !== null && (rule === null || !mayWrite) && (
                <Alert
                  role="status"
                  color={rule === null ? 'yellow' : 'blue'}
                  icon={<IconInfoCircle aria-hidden />}
                  title={rule === null ? `There is no rule ${dialog.rule}` : `Only the rule ${dialog.rule} is shown`}
                >
                  <Stack gap="xs" align="flex-start">
                    {rule === null && (
                      <Text size="sm">
                        It was deleted or renamed since this address was made, or is of another gateway.
                      </Text>
                    )}
                    <Button size="xs" variant="default" onClick={() => setDialog(noDialog)}>
                      Show all rules
                    </Button>
                  </Stack>
                </Alert>
              )}
              <Paper withBorder p="xs">
                <RuleTable
                  rules={rule === null || mayWrite ? inventory.rules : [rule]}
                  hits={hits}
                  search={search}
                  mayWrite={mayWrite}
                  onEdit={edit}
                  onDelete={remove}
                />
              </Paper>
            </>
          )}
        </RequestState>
      )}
      <TryPanel />
      {mayWrite && (dialog.isNew || rule !== null) && (
        <GuardedDialog key={rule?.name ?? ''} rule={rule} onClose={() => setDialog(noDialog)} />
      )}
    </PageFrame>
  );
}

/** The dialog of a rule; asks before edits are lost, when the dialog or the page is left. */
function GuardedDialog({ rule, onClose }: { readonly rule: RuleState | null; readonly onClose: () => void }) {
  const [isDirty, setDirty] = useState(false);
  const allowLeaving = useLeaveGuard(isDirty);
  const close = () => {
    allowLeaving();
    onClose();
  };
  return <RuleDialog rule={rule} onDirty={setDirty} onLeave={onClose} onSaved={close} />;
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
        <Alert role="alert" color="red" icon={<IconAlertTriangle aria-hidden />} title={`${file.path} has mistakes`}>
          <Text size="sm">
            {file.state === 'keptLast'
              ? 'Its last version that loaded is in force.'
              : file.state === 'loaded'
                ? 'The rules named here are left out; all others are in force.'
                : 'Its rules are not in force until it is fixed.'}
          </Text>
          <List size="sm">
            {file.problems.map(({ line, column, rule, message }) => (
              <List.Item key={`${line}:${column} ${message}`}>
                line {line}, column {column}
                {rule === null ? '' : `, rule ${rule}`}: {message}
              </List.Item>
            ))}
          </List>
        </Alert>
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
    <Alert role="status" color="yellow" icon={<IconAlertTriangle aria-hidden />} title="Rules with warnings">
      {warned.length > 0 && (
        <Text size="sm">
          {warned.length === 1 ? 'One rule runs' : `${warned.length} rules run`}, but may not do what was meant, or what
          Trino Gateway does. The warnings stand beside the conditions.
        </Text>
      )}
      {others.length > 0 && (
        <List size="sm">
          {others.map(({ line, column, rule, message }) => (
            <List.Item key={`${line}:${column} ${message}`}>
              line {line}, column {column}
              {rule === null ? '' : `, rule ${rule}`}: {message}
            </List.Item>
          ))}
        </List>
      )}
    </Alert>
  );
}

/** True if a warning of the file concerns a rule in the table, which shows it without its field. */
function isShownAt(
  rules: readonly RuleState[],
  { rule, message }: NonNullable<RuleInventory['file']>['warnings'][number],
): boolean {
  return rules.some(
    ({ name, origin, warnings }) =>
      origin === 'file' && name === rule && warnings.some((warning) => message.endsWith(warning.message)),
  );
}
