import {
  Group,
  Modal,
  NativeSelect,
  NumberInput,
  SegmentedControl,
  Stack,
  Switch,
  Textarea,
  TextInput,
} from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ChangeEvent, type FormEvent, useMemo, useRef, useState } from 'react';
import { ApiError } from '../../client/apiError.ts';
import { callWhole } from '../../client/call.ts';
import { mistakesOf, offsetOf } from '../../client/mistakes.ts';
import { objectPath, RULES } from '../../client/resources.ts';
import type { RuleInput, RuleState } from '../../client/types.ts';
import { Faint, IconAction, Notice, SmallAction } from '../../components/elements.tsx';
import { FormButtons } from '../../components/FormButtons.tsx';
import { useFormGuard } from '../../components/leaveGuard.ts';
import { managersText } from '../../components/managers.ts';
import { notifyWritten } from '../../components/notify.tsx';
import { AuditLink, ManagedElsewhere, WriteFailure } from '../../components/ownership.tsx';
import { useReturnFocus } from '../../components/returnFocus.ts';
import { Differences, differences } from './Differences.tsx';
import { Impact } from './Impact.tsx';
import { type Fields, newFields, notifyChanged, toFields, toRule, type Way } from './ruleChanges.ts';
import classes from './rules.module.css';
import { TryPanel } from './TryPanel.tsx';

/** Short text for the manager of a rule: the rules file, REST, a manifest, or the managers of its resource. */
export function ruleOwner({ origin, place, managers }: Pick<RuleState, 'origin' | 'place' | 'managers'>): string {
  if (origin === 'file') return 'rules file';
  if (managers.length > 0) return managersText(managers);
  return place.startsWith('eg_resources:') ? 'REST' : 'manifest';
}

const ways = [
  { value: 'actions', label: 'Actions' },
  { value: 'group', label: 'Group' },
  { value: 'cluster', label: 'Cluster' },
  { value: 'deny', label: 'Deny' },
] as const;

interface RuleDialogProps {
  /** Null: a new rule. */
  readonly rule: RuleState | null;
  readonly onClose: () => void;
}

/**
 * Dialog to add a rule, or to change it in its source. Shows the owner first and the impact before a save. Mistakes are
 * shown at their fields; the cursor moves to the first one.
 */
export function RuleDialog({ rule, onClose }: RuleDialogProps) {
  useReturnFocus();
  const [fields, setFields] = useState(() => (rule === null ? newFields : toFields(rule)));
  const [newName, setNewName] = useState('');
  /** The state when the dialog was opened, so that changes by others are not overwritten unseen. */
  const [original] = useState(rule);
  const form = useRef<HTMLFormElement>(null);
  const client = useQueryClient();
  const isFile = rule?.origin === 'file';
  const name = rule?.name ?? newName.trim();
  const draft = (): RuleInput => toRule(name === '' ? NAMELESS : name, fields);
  const changes = useMemo(
    () => differences(original === null ? null : toRule(name, toFields(original)), toRule(name, fields)),
    [original, name, fields],
  );
  const isDirty = rule === null ? newName !== '' || fields !== newFields : changes.length > 0;
  const { leave, close } = useFormGuard(isDirty, onClose);
  const save = useMutation({
    mutationFn: (force: boolean) => {
      const { name: _name, ...said } = draft();
      if (original === null) return callWhole<RuleState>('/api/rules', { method: 'POST', body: { name, ...said } });
      const path = `${objectPath('/api/rules', name)}${force ? '?force=true' : ''}`;
      return callWhole<RuleState>(path, { method: 'PUT', body: { ...said, version: original.version } });
    },
    onSuccess: async (answer) => {
      await client.invalidateQueries({ queryKey: RULES });
      if (original === null) notifyWritten(`The rule ${name} is added.`, answer);
      else notifyChanged(client, original, answer);
      close();
    },
    onError: (error) => showPlace(form.current, error),
  });
  const mistakes = mistakesOf(save.error, isField);
  const set = <K extends keyof Fields>(field: K, value: Fields[K]) => setFields((now) => ({ ...now, [field]: value }));
  const text = (field: 'description' | 'condition' | 'target' | 'message', error = mistakes[field]) => ({
    ...{ value: fields[field], error },
    onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => set(field, event.currentTarget.value),
  });
  const flag = (field: 'stop' | 'suspended') => ({
    checked: fields[field],
    onChange: (event: ChangeEvent<HTMLInputElement>) => set(field, event.currentTarget.checked),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate(false);
  };
  const changedMeanwhile = rule?.version !== original?.version;
  return (
    <Modal opened onClose={leave} title={rule === null ? 'Add a rule' : `Edit ${rule.name}`} size="min(84rem, 94vw)">
      <Stack gap="md" className={classes.halves}>
        <form ref={form} onSubmit={submit} noValidate>
          <Stack gap="sm">
            {rule === null ? (
              <Faint size="sm">Written to a new resource</Faint>
            ) : (
              <>
                <Faint size="sm" className={classes.place ?? ''}>
                  Written to {rule.place}
                </Faint>
                <ManagedElsewhere managers={rule.managers} />
              </>
            )}
            {rule !== null && <AuditLink kind="RoutingRule" name={rule.name} />}
            {changedMeanwhile && (
              <Notice tone="warning" title="Changed meanwhile">
                Somebody changed this rule since it was opened here. Close and open it again to see how it is now.
              </Notice>
            )}
            {save.error !== null && Object.keys(mistakes).length === 0 && (
              <WriteFailure error={save.error} busy={save.isPending} onForce={() => save.mutate(true)} />
            )}
            {rule === null && (
              <TextInput
                label="Name"
                data-autofocus
                required
                value={newName}
                error={mistakes.name}
                onChange={(event) => setNewName(event.currentTarget.value)}
              />
            )}
            <TextInput label="Description" data-autofocus={rule !== null || undefined} {...text('description')} />
            <NumberInput
              label="Priority"
              description="Lower ones are asked earlier, later ones overrule them; empty: last"
              allowDecimal={false}
              value={fields.priority}
              error={mistakes.priority}
              onChange={(value) => set('priority', value)}
            />
            <Textarea
              label="Condition"
              name="condition"
              required
              className={classes.mono ?? ''}
              {...text('condition')}
            />
            {!isFile && (
              <SegmentedControl
                aria-label="What it does"
                data={[...ways]}
                fullWidth
                value={fields.way}
                onChange={(way) => set('way', way as Way)}
              />
            )}
            {fields.way === 'actions' && (
              <Actions actions={fields.actions} mistakes={mistakes} onChange={(actions) => set('actions', actions)} />
            )}
            {(fields.way === 'group' || fields.way === 'cluster') && (
              <TextInput
                label={fields.way === 'group' ? 'Routing group' : 'Cluster'}
                required
                {...text('target', mistakes.routeTo ?? mistakes['routeTo.routingGroup'] ?? mistakes['routeTo.cluster'])}
              />
            )}
            {fields.way === 'deny' && (
              <TextInput
                label="Message to the client"
                required
                {...text('message', mistakes['deny.message'] ?? mistakes.deny)}
              />
            )}
            {isFile ? (
              <Faint size="sm">
                Rules of a file cannot be suspended or stop others: only RoutingRule resources can.
              </Faint>
            ) : (
              <>
                <NativeSelect
                  label="Where no cluster can take the request"
                  data={[
                    { value: 'fallback', label: 'the default group takes it' },
                    { value: 'reject', label: 'it is refused' },
                  ]}
                  value={fields.onUnavailable}
                  onChange={({ currentTarget: { value } }) =>
                    set('onUnavailable', value === 'reject' ? 'reject' : 'fallback')
                  }
                />
                <Switch label="Ask no later rule once this one fired" {...flag('stop')} />
                <Switch label="Suspended: kept, but never asked" {...flag('suspended')} />
              </>
            )}
            {original !== null && <Differences changes={changes} />}
            <FormButtons action={rule === null ? 'Add' : 'Save'} busy={save.isPending} onCancel={leave} />
          </Stack>
        </form>
        <TryPanel draft={draft} />
        <Impact draft={draft} />
      </Stack>
    </Modal>
  );
}

interface ActionsProps {
  readonly actions: readonly string[];
  readonly mistakes: Readonly<Record<string, string>>;
  readonly onChange: (actions: readonly string[]) => void;
}

function Actions({ actions, mistakes, onChange }: ActionsProps) {
  return (
    <Stack gap="xs">
      {actions.map((action, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: actions have no identity but their place
        <Group key={index} gap="xs" wrap="nowrap" align="flex-start">
          <Textarea
            label={`Action ${index + 1}`}
            name={`actions[${index}]`}
            style={{ flex: 1, minWidth: 0 }}
            className={classes.mono ?? ''}
            value={action}
            error={mistakes[`actions[${index}]`] ?? (index === 0 ? mistakes.actions : undefined)}
            onChange={(event) => onChange(actions.with(index, event.currentTarget.value))}
          />
          <Group mt={26}>
            <IconAction
              label={`Remove action ${index + 1}`}
              icon={IconTrash}
              disabled={actions.length === 1}
              onClick={() => onChange(actions.toSpliced(index, 1))}
            />
          </Group>
        </Group>
      ))}
      <Group>
        <SmallAction label="Add an action" icon={IconPlus} onClick={() => onChange([...actions, ''])} />
      </Group>
    </Stack>
  );
}

const NAMELESS = 'new rule';

/** Fields that show their mistakes; owners of fields and version conflicts are shown above the form. */
const isField = (field: string): boolean =>
  /^(name|description|priority|condition|actions(\[\d+\])?|routeTo(\.\w+)?|deny(\.\w+)?)$/.test(field);

/** Moves the cursor to the first mistake. */
function showPlace(form: HTMLFormElement | null, error: unknown): void {
  const [first] = error instanceof ApiError ? error.problems : [];
  if (form === null || first === undefined) return;
  const element = form.elements.namedItem(first.field);
  if (!(element instanceof HTMLTextAreaElement)) return;
  element.focus();
  if (first.line === undefined || first.column === undefined) return;
  const offset = offsetOf(element.value, first.line, first.column);
  element.setSelectionRange(offset, offset + 1);
}
