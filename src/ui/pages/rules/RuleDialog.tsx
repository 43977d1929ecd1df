import {
  ActionIcon,
  Alert,
  Button,
  Group,
  Modal,
  NativeSelect,
  NumberInput,
  SegmentedControl,
  Stack,
  Switch,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useMemo, useRef, useState } from 'react';
import { ApiError } from '../../client/apiError.ts';
import { callWhole } from '../../client/call.ts';
import { changeOf } from '../../client/impact.ts';
import { mistakesOf, offsetOf } from '../../client/mistakes.ts';
import { RULES, type RuleInput } from '../../client/rules.ts';
import type { RuleState } from '../../client/types.ts';
import { AuditLink } from '../../components/AuditLink.tsx';
import { FormButtons } from '../../components/FormButtons.tsx';
import { notifyWritten } from '../../components/notify.ts';
import { useReturnFocus } from '../../components/returnFocus.ts';
import { WriteFailure } from '../../components/WriteFailure.tsx';
import { Differences, differences } from './Differences.tsx';
import { Impact } from './Impact.tsx';
import { Ownership } from './Ownership.tsx';
import { type Fields, newFields, toFields, toRule, type Way } from './ruleFields.ts';
import classes from './rules.module.css';
import { TryPanel } from './TryPanel.tsx';
import { notifyChanged } from './undoRule.ts';

const ways = [
  { value: 'actions', label: 'Actions' },
  { value: 'group', label: 'Group' },
  { value: 'cluster', label: 'Cluster' },
  { value: 'deny', label: 'Deny' },
] as const;

interface RuleDialogProps {
  /** Null: a new rule. */
  readonly rule: RuleState | null;
  /** Called when unsaved edits begin or end. */
  readonly onDirty: (isDirty: boolean) => void;
  /** The user leaves; edits are lost. */
  readonly onLeave: () => void;
  readonly onSaved: () => void;
}

/**
 * Dialog to add a rule, or to change it in its source. Shows the owner first and the impact before a save. Mistakes are
 * shown at their fields; the cursor moves to the first one.
 */
export function RuleDialog({ rule, onDirty, onLeave, onSaved }: RuleDialogProps) {
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
  useEffect(() => onDirty(isDirty), [isDirty, onDirty]);
  const save = useMutation({
    mutationFn: (force: boolean) => {
      const { name: _name, ...said } = draft();
      if (original === null) return callWhole<RuleState>('/api/rules', { method: 'POST', body: { name, ...said } });
      const path = `/api/rules/${encodeURIComponent(name)}${force ? '?force=true' : ''}`;
      return callWhole<RuleState>(path, { method: 'PUT', body: { ...said, version: original.version } });
    },
    onSuccess: async (answer) => {
      await client.invalidateQueries({ queryKey: RULES });
      if (original === null) notifyWritten(`The rule ${name} is added.`, answer);
      else notifyChanged(client, original, answer);
      onSaved();
    },
    onError: (error) => showPlace(form.current, error),
  });
  const mistakes = mistakesOf(save.error, isField);
  const set = <K extends keyof Fields>(field: K, value: Fields[K]) => setFields((now) => ({ ...now, [field]: value }));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate(false);
  };
  const changedMeanwhile = rule?.version !== original?.version;
  return (
    <Modal opened onClose={onLeave} title={rule === null ? 'Add a rule' : `Edit ${rule.name}`} size="min(84rem, 94vw)">
      <Stack gap="md" className={classes.halves}>
        <form ref={form} onSubmit={submit} noValidate>
          <Stack gap="sm">
            <Ownership rule={rule} />
            {rule !== null && <AuditLink kind="RoutingRule" name={rule.name} />}
            {changedMeanwhile && (
              <Alert role="status" color="yellow" title="Changed meanwhile">
                Somebody changed this rule since it was opened here. Close and open it again to see how it is now.
              </Alert>
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
            <TextInput
              label="Description"
              data-autofocus={rule !== null || undefined}
              value={fields.description}
              error={mistakes.description}
              onChange={(event) => set('description', event.currentTarget.value)}
            />
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
              value={fields.condition}
              error={mistakes.condition}
              onChange={(event) => set('condition', event.currentTarget.value)}
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
                value={fields.target}
                error={mistakes.routeTo ?? mistakes['routeTo.routingGroup'] ?? mistakes['routeTo.cluster']}
                onChange={(event) => set('target', event.currentTarget.value)}
              />
            )}
            {fields.way === 'deny' && (
              <TextInput
                label="Message to the client"
                required
                value={fields.message}
                error={mistakes['deny.message'] ?? mistakes.deny}
                onChange={(event) => set('message', event.currentTarget.value)}
              />
            )}
            {isFile ? (
              <Text size="sm" c="dimmed">
                Rules of a file cannot be suspended or stop others: only RoutingRule resources can.
              </Text>
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
                <Switch
                  label="Ask no later rule once this one fired"
                  checked={fields.stop}
                  onChange={(event) => set('stop', event.currentTarget.checked)}
                />
                <Switch
                  label="Suspended: kept, but never asked"
                  checked={fields.suspended}
                  onChange={(event) => set('suspended', event.currentTarget.checked)}
                />
              </>
            )}
            {original !== null && <Differences changes={changes} />}
            <FormButtons action={rule === null ? 'Add' : 'Save'} busy={save.isPending} onCancel={onLeave} />
          </Stack>
        </form>
        <TryPanel draft={draft} />
        <Impact changes={() => [changeOf(draft())]} />
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
          <ActionIcon
            mt={26}
            aria-label={`Remove action ${index + 1}`}
            disabled={actions.length === 1}
            onClick={() => onChange(actions.toSpliced(index, 1))}
          >
            <IconTrash size={18} aria-hidden />
          </ActionIcon>
        </Group>
      ))}
      <Group>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPlus size={14} aria-hidden />}
          onClick={() => onChange([...actions, ''])}
        >
          Add an action
        </Button>
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
