import { Alert, List, Paper, Text } from '@mantine/core';
import { IconAlertTriangle, IconInfoCircle } from '@tabler/icons-react';
import { useState } from 'react';
import { useRules } from '../../client/rules.ts';
import type { RuleInventory, RuleState } from '../../client/types.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { QueryState } from '../../components/QueryState.tsx';
import { useRole } from '../../session/session.ts';
import { RuleDialog } from './RuleDialog.tsx';
import { RuleTable } from './RuleTable.tsx';
import { TryPanel } from './TryPanel.tsx';

/** Routing Rules: all of them in firing order, changing one, and trying what becomes of a request. */
export default function RulesPage() {
  const rules = useRules();
  const isAdmin = useRole('ADMIN');
  const [edited, setEdited] = useState<string | null>(null);
  const rule = rules.data?.rules.find(({ name }) => name === edited);
  return (
    <PageFrame title="Routing Rules">
      <QueryState query={rules} label="Loading rules">
        {(inventory) => (
          <>
            <Notices inventory={inventory} />
            <WarningNotice inventory={inventory} />
            <Paper withBorder p="xs">
              <RuleTable
                rules={inventory.rules}
                mayWrite={isAdmin && inventory.engine !== 'external'}
                onEdit={setEdited}
              />
            </Paper>
          </>
        )}
      </QueryState>
      {isAdmin && <TryPanel />}
      {rule !== undefined && <RuleDialog key={rule.name} rule={rule} onClose={() => setEdited(null)} />}
    </PageFrame>
  );
}

/** What holds for all rules: the engine is off, a service decides, the file has mistakes. */
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

/** How many rules may not be meant as they run; those of the file that no row of the table shows, by their place. */
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

/** Whether a warning of the file is one of a rule that the table has; there it stands without its field. */
function isShownAt(
  rules: readonly RuleState[],
  { rule, message }: NonNullable<RuleInventory['file']>['warnings'][number],
): boolean {
  return rules.some(
    ({ name, origin, warnings }) =>
      origin === 'file' && name === rule && warnings.some((warning) => message.endsWith(warning.message)),
  );
}
