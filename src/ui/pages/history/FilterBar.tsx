import { Autocomplete, NativeSelect, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useEffect, useRef } from 'react';
import { FilterForm, useWallTimes, wrongEnd } from '../../components/FilterForm.tsx';
import { isSame } from '../../components/leaveGuard.ts';
import { type Filters, isCount, noFilters } from './filters.ts';
import classes from './history.module.css';

interface FilterBarProps {
  readonly filters: Filters;
  readonly clusters: readonly string[];
  /** The only user with visible queries; null: all users. */
  readonly onlyUser: string | null;
  readonly onChange: (filters: Filters) => void;
}

const outcomes = [
  { value: '', label: 'any' },
  { value: 'FAILED', label: 'failed' },
  { value: 'CANCELLED', label: 'cancelled' },
  { value: 'ABANDONED', label: 'abandoned' },
  { value: 'REFUSED', label: 'refused by the gateway' },
  { value: 'DENIED', label: 'denied by a rule' },
  { value: 'LOST', label: 'lost with its cluster' },
  { value: 'REFUSED,DENIED', label: 'refused or denied' },
  { value: 'FAILED,LOST,REFUSED,DENIED', label: 'any but well' },
  { value: 'FINISHED', label: 'finished' },
];

/** Adds a choice that only the address contains. */
function withChosen(choices: typeof outcomes, chosen: string) {
  if (choices.some(({ value }) => value === chosen)) return choices;
  return [...choices, { value: chosen, label: chosen.toLowerCase().replaceAll(',', ', ') }];
}

const errorTypes = [
  { value: '', label: 'any' },
  { value: 'USER_ERROR', label: "the user's" },
  { value: 'INTERNAL_ERROR', label: 'internal' },
  { value: 'INSUFFICIENT_RESOURCES', label: 'insufficient resources' },
  { value: 'EXTERNAL', label: 'external' },
];

/** Lower or upper bound of the duration in seconds, as text of the form. */
const secondsText = (millis: string): string => (isCount(millis) ? String(Number(millis) / 1000) : '');
const millisText = (seconds: string): string => (seconds === '' ? '' : String(Math.round(Number(seconds) * 1000)));
const isSeconds = (text: string): boolean => /^\d{1,9}(\.\d{1,3})?$/.test(text.trim());
const wrongSeconds = (text: string): string | null =>
  text.trim() === '' || isSeconds(text) ? null : 'Must be seconds, e.g. 90 or 0.5.';

const trimmed = (values: Filters): Filters =>
  Object.fromEntries(Object.entries(values).map(([name, text]) => [name, text.trim()])) as Filters;

export function FilterBar({ filters, clusters, onlyUser, onChange }: FilterBarProps) {
  const { timeZone, toWall, toTime } = useWallTimes();
  const applied = {
    ...filters,
    from: toWall(filters.from),
    to: toWall(filters.to),
    minElapsedMillis: secondsText(filters.minElapsedMillis),
    maxElapsedMillis: secondsText(filters.maxElapsedMillis),
  };
  const form = useForm({
    mode: 'uncontrolled',
    initialValues: applied,
    validate: {
      to: wrongEnd,
      minElapsedMillis: wrongSeconds,
      maxElapsedMillis: (most, { minElapsedMillis: least }) =>
        wrongSeconds(most) ??
        (isSeconds(most) && isSeconds(least) && Number(most) < Number(least)
          ? 'Must not be below "Ran at least".'
          : null),
    },
  });
  const submit = form.onSubmit((values) => {
    const texts = trimmed(values);
    onChange({
      ...texts,
      errorName: texts.errorName.toUpperCase(),
      minElapsedMillis: millisText(texts.minElapsedMillis),
      maxElapsedMillis: millisText(texts.maxElapsedMillis),
      from: toTime(values.from),
      to: toTime(values.to),
    });
  });
  // Filters that changed through the address, as by Back; submitted ones are already in the form.
  const latest = useRef(form);
  useEffect(() => {
    latest.current = form;
  });
  const key = JSON.stringify(applied);
  useEffect(() => {
    const wanted = JSON.parse(key) as Filters;
    if (!isSame(trimmed(latest.current.getValues()), wanted)) latest.current.setValues(wanted);
  }, [key]);
  const input = (name: keyof Filters) => ({ key: form.key(name), ...form.getInputProps(name), size: 'xs' as const });
  const clear = () => {
    form.setValues(noFilters);
    onChange(noFilters);
  };
  return (
    <FilterForm className={classes.filters} onSubmit={submit} onClear={clear}>
      <Autocomplete label="Backend" data={[...clusters]} {...input('cluster')} />
      {onlyUser === null ? (
        <TextInput label="User" {...input('user')} />
      ) : (
        <TextInput label="User" size="xs" value={onlyUser} readOnly />
      )}
      <TextInput label="Member of" {...input('userGroup')} />
      <TextInput label="Source" {...input('source')} />
      <TextInput label="Routing group" {...input('routingGroup')} />
      <TextInput label="Query id" {...input('queryId')} />
      <TextInput label="Text of the query" {...input('text')} />
      <NativeSelect label="Outcome" data={withChosen(outcomes, filters.state)} {...input('state')} />
      <TextInput label="Error name, whole" placeholder="SYNTAX_ERROR" {...input('errorName')} />
      <NativeSelect label="Error type" data={withChosen(errorTypes, filters.errorType)} {...input('errorType')} />
      <TextInput label="Ran at least (s)" inputMode="decimal" {...input('minElapsedMillis')} />
      <TextInput label="Ran at most (s)" inputMode="decimal" {...input('maxElapsedMillis')} />
      <TextInput label={`From (${timeZone})`} type="datetime-local" {...input('from')} />
      <TextInput label={`To (${timeZone})`} type="datetime-local" {...input('to')} />
    </FilterForm>
  );
}
