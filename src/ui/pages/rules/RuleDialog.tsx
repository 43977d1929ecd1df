import {
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
  Title,
} from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query';
import { type ChangeEvent, type FormEvent, useId, useMemo, useRef, useState } from 'react';
import { ApiError, type ApiResponse, callWhole, mistakesOf, offsetOf } from '../../client/call.ts';
import { useAsked } from '../../client/changes.ts';
import { NO_PRIORITY, objectPath, RULES } from '../../client/resources.ts';
import type { RuleInput, RuleState } from '../../client/types.ts';
import { Faint, IconAction, Notice, SmallAction } from '../../components/elements.tsx';
import { useReturnFocus } from '../../components/focus.ts';
import { FormButtons, useFormGuard } from '../../components/forms.tsx';
import { notifyFailed, notifyUndoable, notifyWritten } from '../../components/notify.tsx';
import { AuditLink, ManagedElsewhere, managersText, WriteFailure } from '../../components/ownership.tsx';
import classes from './rules.module.css';
import { Impact, TryPanel } from './TryPanel.tsx';

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
  /** Name and fields of a new rule; its impact is shown first. */
  readonly draft?: Partial<Fields> & { readonly name: string };
  readonly onClose: () => void;
}

/**
 * Dialog to add a rule, or to change it in its source. Shows the owner first and the impact before a save. Mistakes are
 * shown at their fields; the cursor moves to the first one.
 */
export function RuleDialog({
  rule,
  draft: { name: draftName = '', ...proposed } = { name: '' },
  onClose,
}: RuleDialogProps) {
  useReturnFocus();
  const [fields, setFields] = useState(() => (rule === null ? { ...newFields, ...proposed } : toFields(rule)));
  const [newName, setNewName] = useState(draftName);
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
  const [begin] = useState(fields);
  const isDirty = rule === null ? newName !== draftName || fields !== begin : changes.length > 0;
  const { leave, close } = useFormGuard(isDirty, onClose);
  const save = useMutation({
    mutationFn: (force: boolean) => {
      const { name: _name, ...fields } = draft();
      if (original === null) return callWhole<RuleState>('/api/rules', { method: 'POST', body: { name, ...fields } });
      const path = `${objectPath('/api/rules', name)}${force ? '?force=true' : ''}`;
      return callWhole<RuleState>(path, { method: 'PUT', body: { ...fields, version: original.version } });
    },
    onSuccess: async (response) => {
      await client.invalidateQueries({ queryKey: RULES });
      if (original === null) notifyWritten(`The rule ${name} is added.`, response);
      else notifyChanged(client, original, response);
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
  const flag = (field: 'stop' | 'suspend') => ({
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
                    { value: 'Fallback', label: 'the default group takes it' },
                    { value: 'Reject', label: 'it is rejected' },
                  ]}
                  value={fields.whenUnavailable}
                  onChange={({ currentTarget: { value } }) =>
                    set('whenUnavailable', value === 'Reject' ? 'Reject' : 'Fallback')
                  }
                />
                <Switch label="Ask no later rule once this one fired" {...flag('stop')} />
                <Switch label="Suspended: kept, but never asked" {...flag('suspend')} />
              </>
            )}
            {original !== null && <Differences changes={changes} />}
            <FormButtons action={rule === null ? 'Add' : 'Save'} busy={save.isPending} onCancel={leave} />
          </Stack>
        </form>
        <TryPanel draft={draft} />
        <Impact draft={draft} isFirst={draftName !== ''} />
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

interface Difference {
  readonly field: string;
  readonly before: string;
  readonly after: string;
}

const labels = {
  description: 'Description',
  priority: 'Priority',
  condition: 'Condition',
  actions: 'Actions',
  routeTo: 'To',
  deny: 'Denied with',
  whenUnavailable: 'Where no cluster can take it',
  stop: 'No later rule is asked',
  suspend: 'Suspended',
} as const;

/** Changed fields of a rule; empty for a new one. */
function differences(before: RuleInput | null, after: RuleInput): readonly Difference[] {
  if (before === null) return [];
  return (Object.keys(labels) as (keyof typeof labels)[])
    .map((field) => ({ field: labels[field], before: textOf(before[field]), after: textOf(after[field]) }))
    .filter((change) => change.before !== change.after);
}

function textOf(value: RuleInput[keyof typeof labels]): string {
  if (value === null || value === '') return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join('\n');
  if ('message' in value) return value.message;
  const { cluster, routingGroup } = value as NonNullable<RuleInput['routeTo']>;
  return cluster === undefined ? `group ${routingGroup}` : `cluster ${cluster}`;
}

function Differences({ changes }: { readonly changes: readonly Difference[] }) {
  const heading = useId();
  return (
    <section aria-labelledby={heading} className={classes.changes}>
      <Title order={2} size="h5" id={heading}>
        What changes
      </Title>
      {changes.length === 0 ? (
        <Text size="sm" c="dimmed">
          Nothing yet.
        </Text>
      ) : (
        <dl>
          {changes.map(({ field, before, after }) => (
            <div key={field}>
              <dt>{field}</dt>
              <dd>
                <del className={classes.code}>{before}</del>
              </dd>
              <dd>
                <ins className={classes.code}>{after}</ins>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}

type Way = 'actions' | 'group' | 'cluster' | 'deny';

/** Values of the form, for all kinds of effects, so that switching between them loses nothing. */
interface Fields extends Pick<RuleState, 'description' | 'condition' | 'actions' | 'stop' | 'suspend'> {
  readonly priority: number | string;
  readonly way: Way;
  readonly target: string;
  readonly message: string;
  readonly denyWhenError: 'Reject' | 'Skip' | undefined;
  readonly whenUnavailable: 'Fallback' | 'Reject';
}

const newFields: Fields = {
  ...{ description: '', priority: '', condition: '', way: 'group', actions: [''], target: '', message: '' },
  ...{ denyWhenError: undefined, whenUnavailable: 'Fallback', stop: false, suspend: false },
};

function toFields(rule: RuleState): Fields {
  const { description, priority, condition, actions, routeTo, deny, whenUnavailable, stop, suspend } = rule;
  const target = routeTo?.cluster === undefined ? 'group' : 'cluster';
  return {
    ...{ description, condition, whenUnavailable, stop, suspend },
    priority: priority === NO_PRIORITY ? '' : priority,
    way: deny !== null ? 'deny' : routeTo === null ? 'actions' : target,
    actions: actions.length === 0 ? [''] : actions,
    target: routeTo?.cluster ?? routeTo?.routingGroup ?? '',
    message: deny?.message ?? '',
    denyWhenError: deny?.whenError,
  };
}

function toRule(name: string, fields: Fields): RuleInput {
  const { description, priority, condition, way, actions, target, message, denyWhenError } = fields;
  const { whenUnavailable, stop, suspend } = fields;
  const routes = way === 'group' ? { routingGroup: target.trim() } : { cluster: target.trim() };
  return {
    ...{ name, description, condition, whenUnavailable, stop, suspend },
    priority: typeof priority === 'number' ? priority : null,
    actions: way === 'actions' ? actions : [],
    routeTo: way === 'group' || way === 'cluster' ? routes : null,
    deny: way === 'deny' ? { message, ...(denyWhenError === undefined ? {} : { whenError: denyWhenError }) } : null,
  };
}

/**
 * Reports a changed rule, with an undo for some seconds unless another user changes it meanwhile.
 * @param before state before the change; an invalid rule cannot be written again
 */
function notifyChanged(client: QueryClient, before: RuleState, response: ApiResponse<RuleState>): void {
  const { suspend, version } = response.data;
  const isSwitched = before.suspend !== suspend;
  const what = isSwitched ? (suspend ? 'suspended' : 'no longer suspended') : 'changed';
  const { name, ...body } = toRule(before.name, toFields(before));
  const undo = undoing(client, before, `The rule ${name} was not changed back`, async () => {
    const path = objectPath('/api/rules', name);
    const changed = await callWhole(path, { method: 'PUT', body: { ...body, version } });
    notifyWritten(`The rule ${name} is as it was before.`, changed);
  });
  notifyUndoable(`The rule ${name} is ${what}.`, response, undo);
}

/** Writes a rule again; null if it was invalid. */
function undoing(client: QueryClient, rule: RuleState, failed: string, write: () => Promise<void>) {
  if (rule.problems.length > 0) return null;
  return () =>
    void write()
      .catch((error: unknown) => notifyFailed(failed, error))
      .then(() => client.invalidateQueries({ queryKey: RULES }));
}

/** Asks, then deletes a rule; it can be added again for some seconds, unless another rule has its name. */
export function useDeleteRule() {
  const client = useQueryClient();
  return useAsked<RuleState>(
    ({ name, position, place, managers }) => {
      const effect = position === null ? 'It is not asked at present.' : 'Requests are decided without it at once.';
      const returns =
        managers.length === 0 ? '' : ' Where a GitOps controller declares it, that controller will create it again.';
      const text = `It is taken out of ${place}. ${effect}${returns}`;
      return { title: `Delete ${name}?`, text, action: 'Delete', dangerous: true };
    },
    {
      write: ({ name, version }) =>
        callWhole(`${objectPath('/api/rules', name)}?version=${encodeURIComponent(version)}`, { method: 'DELETE' }),
      keys: [RULES],
      report: (response, rule) => {
        const { name, resource } = rule;
        const undo = undoing(client, rule, `The rule ${name} was not added again`, async () => {
          const body = toRule(name, toFields(rule));
          const added = await callWhole<RuleState>('/api/rules', { method: 'POST', body });
          const now = added.data.resource;
          const place = now === resource ? '' : `, as RoutingRule ${now}, not in the place where it was`;
          notifyWritten(`The rule ${name} is there again${place}.`, added);
        });
        notifyUndoable(`The rule ${name} is deleted.`, response, undo);
      },
      failed: ({ name }) => `The rule ${name} could not be deleted`,
    },
  );
}
