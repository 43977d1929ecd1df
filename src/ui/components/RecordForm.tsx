import { Autocomplete, Modal, NumberInput, Select, Stack, Switch, TextInput } from '@mantine/core';
import { type FormEvent, type ReactNode, useState } from 'react';
import { mistakesOf } from '../client/mistakes.ts';
import { FormButtons } from './FormButtons.tsx';
import { isSame, useFormGuard } from './leaveGuard.ts';
import { WriteFailure } from './ownership.tsx';
import classes from './RecordForm.module.css';
import { useReturnFocus } from './returnFocus.ts';

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
  readonly options?: readonly { readonly value: string; readonly label: string }[];
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
  const { leave, close } = useFormGuard(!isSame(values, begin), onClose);
  const [failure, setFailure] = useState<unknown>(null);
  const [missing, setMissing] = useState<Readonly<Record<string, string>>>({});
  const [busy, setBusy] = useState(false);
  const mistakes = mistakesOf(failure, (name) => fields.some((field) => field.name === name));
  const store = async (force: boolean) => {
    setBusy(true);
    setFailure(null);
    try {
      if ((await onSave(values, force)) !== false) return close();
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const empty = fields.filter(({ name }) => String(values[name] ?? '').trim() === '');
    const messages = empty.flatMap(({ name, missing: message }) => (message === undefined ? [] : [[name, message]]));
    setMissing(Object.fromEntries(messages));
    if (messages.length === 0) void store(false);
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
          {failure !== null && Object.keys(mistakes).length === 0 && (
            <WriteFailure error={failure} busy={busy} onForce={() => void store(true)} />
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
          <FormButtons action={action} busy={busy} onCancel={leave} />
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
