import {
  Autocomplete,
  Button,
  Group,
  Modal,
  NativeSelect,
  NumberInput,
  Paper,
  Select,
  Stack,
  Switch,
  TextInput,
} from '@mantine/core';
import { useWindowEvent } from '@mantine/hooks';
import { IconPlayerPlay, type IconProps } from '@tabler/icons-react';
import { type UseMutationResult, useMutation } from '@tanstack/react-query';
import {
  type ChangeEvent,
  type ComponentType,
  type FormEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from 'react';
import { useBlocker } from 'react-router';
import { messageOf, mistakesOf } from '../client/call.ts';
import { useLatest } from './addressState.ts';
import classes from './components.module.css';
import { Notice } from './elements.tsx';
import { useReturnFocus } from './focus.ts';
import { Panel } from './frame.tsx';
import { confirm } from './notify.tsx';
import { WriteFailure } from './ownership.tsx';
import { useTimeZone } from './time.tsx';
import { timeOfWall, wallOfTime } from './zonedTime.ts';

export interface Choice {
  readonly value: string;
  readonly label: string;
}

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly description?: string;
  readonly placeholder?: string;
  readonly required?: boolean;
  readonly readOnly?: boolean;
  /** Message for an empty field; without it, only the gateway checks the field. */
  readonly missing?: string;
  /** A `suggestion` is a text with options. */
  readonly kind: 'text' | 'number' | 'choice' | 'suggestion' | 'flag';
  readonly options?: readonly Choice[];
}

type FieldValue = string | number | boolean | null;

/** Values by field; null if empty. */
export type Values = Readonly<Record<string, FieldValue>>;

interface RecordFormProps {
  readonly title: string;
  readonly action?: string;
  readonly fields: readonly Field[];
  readonly values: Values;
  /** Shown before an edit, such as the owner of the record. */
  readonly note: ReactNode;
  /**
   * Stores the values; the form shows a rejection at its field if it names one. False keeps the form open.
   * @param force takes fields over from other managers
   */
  readonly onSave: (values: Values, force: boolean) => Promise<unknown>;
  readonly onClose: () => void;
}

/** A dialog with fields; the gateway checks them, and mistakes are shown at their fields. */
export function RecordForm(props: RecordFormProps) {
  const { title, action = 'Save', fields, values: initial, note, onSave, onClose } = props;
  useReturnFocus();
  const [values, setValues] = useState(initial);
  // The state when the form was opened: changes by others are not edits.
  const [begin] = useState(initial);
  const names = Object.keys({ ...begin, ...values });
  const isDirty = names.some((name) => (values[name] ?? null) !== (begin[name] ?? null));
  const { leave, close } = useFormGuard(isDirty, onClose);
  const [missing, setMissing] = useState<Readonly<Record<string, string>>>({});
  const saving = useMutation({
    mutationFn: (force: boolean) => onSave(values, force),
    onSuccess: (isStored) => {
      if (isStored !== false) close();
    },
  });
  const { error, isPending } = saving;
  const mistakes = mistakesOf(error, (name) => fields.some((field) => field.name === name));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const empty = fields.filter(({ name }) => String(values[name] ?? '').trim() === '');
    const messages = empty.flatMap(({ name, missing: message }) => (message === undefined ? [] : [[name, message]]));
    setMissing(Object.fromEntries(messages));
    if (messages.length === 0) saving.mutate(false);
  };
  const set = (name: string, value: FieldValue) => {
    setMissing({});
    setValues((now) => ({ ...now, [name]: value === '' ? null : value }));
  };
  const first = fields.find(({ readOnly }) => readOnly !== true);
  return (
    <Modal opened onClose={leave} title={title} size="lg">
      <form onSubmit={submit} noValidate>
        <Stack gap="sm">
          {note}
          {error !== null && Object.keys(mistakes).length === 0 && (
            <WriteFailure error={error} busy={isPending} onForce={() => saving.mutate(true)} />
          )}
          <div className={classes.fields}>
            {fields.map((field) => (
              <Input
                key={field.name}
                field={field}
                first={field === first}
                value={values[field.name] ?? null}
                mistake={missing[field.name] ?? mistakes[field.name]}
                onChange={(value) => set(field.name, value)}
              />
            ))}
          </div>
          <FormButtons action={action} busy={isPending} onCancel={leave} />
        </Stack>
      </form>
    </Modal>
  );
}

interface InputProps {
  readonly field: Field;
  readonly first: boolean;
  readonly value: FieldValue;
  readonly mistake: string | undefined;
  readonly onChange: (value: FieldValue) => void;
}

function Input({ field, first, value, mistake: error, onChange }: InputProps) {
  const { kind, options = [], label, description, placeholder, required = false, readOnly = false } = field;
  const common = { label, description, placeholder, required, readOnly, error, 'data-autofocus': first || undefined };
  const text = value === null ? null : String(value);
  switch (kind) {
    case 'number': {
      const change = (next: string | number | bigint) => onChange(next === '' ? null : Number(next));
      return <NumberInput {...common} allowDecimal={false} value={text ?? ''} onChange={change} />;
    }
    case 'choice':
      return <Select {...common} clearable data={options} value={text} onChange={onChange} />;
    case 'suggestion':
      // The field has the focus when the form opens: the options would cover the fields below.
      return <Autocomplete {...common} data={options} openOnFocus={false} value={text ?? ''} onChange={onChange} />;
    case 'flag':
      return (
        <Switch label={label} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />
      );
    default:
      return <TextInput {...common} value={text ?? ''} onChange={(event) => onChange(event.currentTarget.value)} />;
  }
}

interface FormButtonsProps {
  readonly action: string;
  readonly busy: boolean;
  readonly onCancel: () => void;
}

export function FormButtons({ action, busy, onCancel }: FormButtonsProps) {
  return (
    <Group justify="flex-end">
      <Button variant="default" onClick={onCancel}>
        Cancel
      </Button>
      <Button type="submit" loading={busy}>
        {action}
      </Button>
    </Group>
  );
}

const question = {
  title: 'Discard the edits?',
  text: 'What was changed here is not saved.',
  action: 'Discard',
  dangerous: true,
};

/** Asks whether edits are meant to be lost, unless the question is open. */
function askOnce(isAsking: RefObject<boolean>, then: (isMeant: boolean) => void): void {
  if (isAsking.current) return;
  isAsking.current = true;
  void confirm(question).then((isMeant) => {
    isAsking.current = false;
    then(isMeant);
  });
}

/**
 * Asks before edits of a form are lost that the address does not contain: when it is closed, when the address changes (a
 * link, Back, the search), and by the browser when the page is left.
 * @param isDirty true if there are edits
 * @returns `leave` for a user who wants to leave, `close` for saved edits
 */
export function useFormGuard(isDirty: boolean, onClose: () => void) {
  const mayLeave = useRef(false);
  const isAsking = useRef(false);
  const blocker = useBlocker(() => isDirty && !mayLeave.current);
  const latest = useLatest(blocker);
  useEffect(() => {
    if (blocker.state !== 'blocked') return;
    askOnce(isAsking, (isMeant) => {
      const { state, proceed, reset } = latest.current;
      if (state === 'blocked') (isMeant ? proceed : reset)();
    });
  }, [blocker, latest]);
  useWindowEvent('beforeunload', (event) => {
    if (isDirty) event.preventDefault();
  });
  const close = () => {
    mayLeave.current = true;
    onClose();
  };
  const leave = () => {
    if (!isDirty) return close();
    askOnce(isAsking, (isMeant) => {
      if (isMeant) close();
    });
  };
  return { leave, close };
}

/** A filter in the page's address. */
export interface FilterField<Name extends string = string> {
  readonly name: Name;
  readonly label: string;
  /** A `time` is in milliseconds since 1970 in the address, `seconds` are in milliseconds. */
  readonly kind?: 'time' | 'seconds';
  readonly placeholder?: string;
  readonly choices?: readonly Choice[];
  readonly suggestions?: readonly string[];
  /** Value that cannot be changed. */
  readonly fixed?: string;
  /** Hidden until all filters are asked for, or it has a value. */
  readonly isFolded?: true;
  /** The field with the lower bound, and the message for a value below it. */
  readonly above?: readonly [name: Name, message: string];
}

type Filters<Name extends string> = Readonly<Record<Name, string>>;

/** True if a text is a valid number of milliseconds. */
export function isCount(text: string): boolean {
  return /^\d{1,15}$/.test(text);
}

/** Filters of a list, in parameters of the page's address; empty: no filter. */
export function filtersOf<Name extends string>(fields: readonly FilterField<Name>[], parameters: URLSearchParams) {
  return Object.fromEntries(fields.map(({ name }) => [name, parameters.get(name) ?? ''])) as Filters<Name>;
}

/** Address parameters of filters. */
export function filterParameters(filters: Filters<string>): URLSearchParams {
  return new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== ''));
}

interface FilterFormProps<Name extends string> {
  readonly fields: readonly FilterField<Name>[];
  readonly filters: Filters<Name>;
  readonly onChange: (filters: Filters<Name>) => void;
}

export function FilterForm<Name extends string>({ fields, filters, onChange }: FilterFormProps<Name>) {
  const { timeZone } = useTimeZone();
  const textOf = ({ name, kind }: FilterField<Name>): string => {
    if (kind === undefined) return filters[name];
    if (!isCount(filters[name])) return '';
    return kind === 'time' ? wallOfTime(Number(filters[name]), timeZone) : String(Number(filters[name]) / 1000);
  };
  const applied = Object.fromEntries(fields.map((field) => [field.name, textOf(field)])) as Filters<Name>;
  const [texts, setTexts] = useState(applied);
  const [errors, setErrors] = useState<Partial<Filters<Name>>>({});
  const [isUnfolded, setUnfolded] = useState(false);
  const folded = fields.filter(({ isFolded }) => isFolded);
  const isOpen = isUnfolded || folded.some(({ name }) => texts[name] !== '');
  if (isOpen !== isUnfolded) setUnfolded(isOpen);
  // Filters may change through the address, as by Back.
  const key = JSON.stringify(applied);
  const [shown, setShown] = useState(key);
  if (key !== shown) {
    setShown(key);
    setTexts(applied);
  }
  const enteredIn = (name: Name): string => {
    const text = texts[name].trim();
    const kind = fields.find((field) => field.name === name)?.kind;
    if (kind === 'time') return String(timeOfWall(text, timeZone) ?? '');
    return kind === 'seconds' && text !== '' ? String(Math.round(Number(text) * 1000)) : text;
  };
  const mistakeIn = ({ name, kind, above }: FilterField<Name>): string | null => {
    const isNumber = /^\d{1,9}(\.\d{1,3})?$/.test(texts[name].trim());
    if (kind === 'seconds' && texts[name].trim() !== '' && !isNumber) return 'Must be seconds, e.g. 90 or 0.5.';
    const [low, high] = [above === undefined ? '' : enteredIn(above[0]), enteredIn(name)];
    if (above === undefined || !isCount(low) || !isCount(high)) return null;
    return Number(high) < Number(low) || (kind === 'time' && high === low) ? above[1] : null;
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wrong = fields
      .map((field) => [field.name, mistakeIn(field)] as const)
      .filter(([, message]) => message !== null);
    setErrors(Object.fromEntries(wrong) as Partial<Filters<Name>>);
    if (wrong.length === 0) onChange(mapped(enteredIn));
  };
  const mapped = (value: (name: Name) => string) =>
    Object.fromEntries(fields.map(({ name }) => [name, value(name)])) as Filters<Name>;
  const clear = () => {
    const none = mapped(() => '');
    setErrors({});
    setTexts(none);
    onChange(none);
  };
  return (
    <Paper withBorder p="sm" component="search">
      <form onSubmit={submit} aria-label="Filters">
        <div className={classes.filters} data-folded={folded.length > 0 && !isOpen}>
          {(isOpen ? fields : fields.filter(({ isFolded }) => !isFolded)).map(
            ({ name, label, kind, placeholder, choices, suggestions, fixed }) => {
              const set = (text: string) => setTexts((now) => ({ ...now, [name]: text }));
              const onInput = (event: ChangeEvent<HTMLInputElement | HTMLSelectElement>) =>
                set(event.currentTarget.value);
              const common = { label, placeholder, size: 'xs', value: texts[name], error: errors[name] } as const;
              if (fixed !== undefined) return <TextInput key={name} {...common} value={fixed} readOnly />;
              if (suggestions !== undefined)
                return <Autocomplete key={name} {...common} data={[...suggestions]} onChange={set} />;
              if (choices !== undefined)
                return (
                  <NativeSelect key={name} {...common} data={withChosen(choices, texts[name])} onChange={onInput} />
                );
              if (kind === 'seconds')
                return <TextInput key={name} {...common} inputMode="decimal" onChange={onInput} />;
              if (kind === undefined) return <TextInput key={name} {...common} onChange={onInput} />;
              const zoned = { label: `${label} (${timeZone})`, type: 'datetime-local' };
              return <TextInput key={name} {...common} {...zoned} onChange={onInput} />;
            },
          )}
        </div>
        <Group justify="flex-end" mt="sm" gap="xs">
          {folded.length > 0 && !isOpen && (
            <Button size="xs" variant="subtle" onClick={() => setUnfolded(true)}>
              All filters
            </Button>
          )}
          <Button size="xs" variant="default" onClick={clear}>
            Clear
          </Button>
          <Button size="xs" type="submit">
            Filter
          </Button>
        </Group>
      </form>
    </Paper>
  );
}

/** Adds a choice that only the address contains. */
function withChosen(choices: readonly Choice[], chosen: string): Choice[] {
  if (choices.some(({ value }) => value === chosen)) return [...choices];
  return [...choices, { value: chosen, label: chosen.toLowerCase().replaceAll(',', ', ') }];
}

interface QuestionFormProps<Result> {
  readonly title: string;
  readonly question: string;
  /** Title of a failure. */
  readonly failure: string;
  readonly icon?: ComponentType<IconProps>;
  readonly explain: Pick<UseMutationResult<Result>, 'isPending' | 'isSuccess' | 'isError' | 'error' | 'data'>;
  readonly onSubmit: (event: FormEvent<HTMLFormElement>) => void;
  /** Next to the button. */
  readonly actions?: ReactNode;
  readonly children: ReactNode;
  readonly result: (result: Result) => ReactNode;
}

/** A form that asks for an explanation, and below it the response, which is scrolled into view. */
export function QuestionForm<Result>(props: QuestionFormProps<Result>) {
  const { title, question: text, failure, icon: Icon = IconPlayerPlay, explain, onSubmit, actions } = props;
  const { isPending, isSuccess, isError, error, data } = explain;
  const shown = useRef<HTMLDivElement>(null);
  // In a dialog it is below the visible part.
  useEffect(() => {
    if (isSuccess || isError) shown.current?.scrollIntoView({ block: 'nearest' });
  }, [isSuccess, isError]);
  return (
    <Panel title={title}>
      <form onSubmit={onSubmit}>
        <Stack gap="sm">
          {props.children}
          <Group>
            <Button type="submit" variant="default" loading={isPending} leftSection={<Icon size={16} aria-hidden />}>
              {text}
            </Button>
            {actions}
          </Group>
          <div aria-live="polite" ref={shown}>
            {error !== null && (
              <Notice tone="error" title={failure}>
                {messageOf(error)}
              </Notice>
            )}
            {error === null && data !== undefined && props.result(data)}
          </div>
        </Stack>
      </form>
    </Panel>
  );
}
