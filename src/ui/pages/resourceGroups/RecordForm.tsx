import { Modal, NumberInput, Select, Stack, TextInput } from '@mantine/core';
import { type FormEvent, type ReactNode, useState } from 'react';
import { mistakesOf } from '../../client/mistakes.ts';
import { FormButtons } from '../../components/FormButtons.tsx';
import { isSame, useFormGuard } from '../../components/leaveGuard.ts';
import { useReturnFocus } from '../../components/returnFocus.ts';
import { WriteFailure } from '../../components/WriteFailure.tsx';
import classes from './resourceGroups.module.css';

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly description?: string;
  readonly required?: boolean;
  readonly kind: 'text' | 'number' | 'choice';
  readonly options?: readonly { readonly value: string; readonly label: string }[];
}

/** Values by field; null if empty. */
export type Values = Readonly<Record<string, string | number | null>>;

interface RecordFormProps {
  readonly title: string;
  readonly fields: readonly Field[];
  readonly values: Values;
  /** Shown before an edit, such as the owner of the record. */
  readonly note: ReactNode;
  /**
   * Stores the values; shows a rejection at its field if it names one.
   * @param force takes fields over from other managers
   */
  readonly onSave: (values: Values, force: boolean) => Promise<void>;
  readonly onClose: () => void;
}

/** A dialog with fields; the gateway checks them, and mistakes are shown at their fields. */
export function RecordForm({ title, fields, values: initial, note, onSave, onClose }: RecordFormProps) {
  useReturnFocus();
  const [values, setValues] = useState(initial);
  const [begin] = useState(initial);
  const { leave, close } = useFormGuard(!isSame(values, begin), onClose);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const mistakes = mistakesOf(failure, (name) => fields.some((field) => field.name === name));
  const store = async (force: boolean) => {
    setBusy(true);
    setFailure(null);
    try {
      await onSave(values, force);
      close();
    } catch (error) {
      setFailure(error);
      setBusy(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void store(false);
  };
  const set = (name: string, value: string | number | null) =>
    setValues((now) => ({ ...now, [name]: value === '' ? null : value }));
  return (
    <Modal opened onClose={leave} title={title} size="lg">
      <form onSubmit={submit} noValidate>
        <Stack gap="sm">
          {note}
          {failure !== null && Object.keys(mistakes).length === 0 && (
            <WriteFailure error={failure} busy={busy} onForce={() => void store(true)} />
          )}
          <div className={classes.fields}>
            {fields.map((field, index) => (
              <Input
                key={field.name}
                field={field}
                first={index === 0}
                value={values[field.name] ?? null}
                mistake={mistakes[field.name]}
                onChange={(value) => set(field.name, value)}
              />
            ))}
          </div>
          <FormButtons action="Save" busy={busy} onCancel={leave} />
        </Stack>
      </form>
    </Modal>
  );
}

interface InputProps {
  readonly field: Field;
  readonly first: boolean;
  readonly value: string | number | null;
  readonly mistake: string | undefined;
  readonly onChange: (value: string | number | null) => void;
}

function Input({ field, first, value, mistake, onChange }: InputProps) {
  const { label, description, required = false, kind, options = [] } = field;
  const common = {
    label,
    required,
    ...(description === undefined ? {} : { description }),
    ...(mistake === undefined ? {} : { error: mistake }),
    ...(first ? { 'data-autofocus': true } : {}),
  };
  switch (kind) {
    case 'number':
      return <NumberInput {...common} allowDecimal={false} value={value ?? ''} onChange={onChange} />;
    case 'choice':
      return <Select {...common} clearable data={[...options]} value={textOf(value)} onChange={onChange} />;
    default:
      return (
        <TextInput {...common} value={textOf(value) ?? ''} onChange={(event) => onChange(event.currentTarget.value)} />
      );
  }
}

const textOf = (value: string | number | null): string | null => (value === null ? null : String(value));
