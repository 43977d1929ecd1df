import { Alert, Button, Group, List, Stack, Text, TextInput } from '@mantine/core';
import { IconInfoCircle, IconPlus, IconSearch } from '@tabler/icons-react';
import { useCallback } from 'react';
import { ApiError } from '../../client/apiError.ts';
import { useRuleHits, useRules } from '../../client/resources.ts';
import type { RuleInventory, RuleState } from '../../client/types.ts';
import { useAddressState, useOpenInAddress } from '../../components/addressState.ts';
import { Faint, MainAction, Notice } from '../../components/elements.tsx';
import { Framed, PageFrame } from '../../components/frame.tsx';
import { RequestState } from '../../components/states.tsx';
import { useRole } from '../../session/session.ts';
import { RuleDialog } from './RuleDialog.tsx';
import { RuleTable } from './RuleTable.tsx';
import { useDeleteRule } from './ruleChanges.ts';
import classes from './rules.module.css';
import { TryPanel } from './TryPanel.tsx';

/** Address parameters: the open rule, which can be shared, and a new one. */
const dialogs = ['rule', 'new'] as const;

/** Routing Rules: all rules in firing order, changes, and trials with a request. */
export default function RulesPage() {
  const rules = useRules();
  const hits = useRuleHits().data;
  const isAdmin = useRole('ADMIN');
  const mayList = !(rules.error instanceof ApiError && rules.error.status === 403);
  const mayWrite = isAdmin && rules.data !== undefined && rules.data.engine !== 'external';
  const [search, setSearch] = useAddressState('search');
  const [dialog, setDialog] = useOpenInAddress(dialogs);
  const remove = useDeleteRule();
  const shownName = dialog?.kind === 'rule' ? dialog.key : null;
  const rule = rules.data?.rules.find(({ name }) => name === shownName) ?? null;
  const edit = useCallback((name: string) => setDialog({ kind: 'rule', key: name }), [setDialog]);
  const close = () => setDialog(null);
  const add = <MainAction label="Add a rule" icon={IconPlus} onClick={() => setDialog({ kind: 'new', key: '' })} />;
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
                <Faint size="sm">{inventory.rules.length === 1 ? '1 rule' : `${inventory.rules.length} rules`}</Faint>
              </Group>
              {shownName !== null && (rule === null || !mayWrite) && (
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
                  mayWrite={mayWrite}
                  onEdit={edit}
                  onDelete={remove}
                />
              </Framed>
            </>
          )}
        </RequestState>
      )}
      <TryPanel />
      {mayWrite && (dialog?.kind === 'new' || rule !== null) && (
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
