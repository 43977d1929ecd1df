import { Button, Group, NativeSelect, Paper, Text, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useSearchParams } from 'react-router';
import { type AuditFilters, auditFilters, useAudit } from '../../client/audit.ts';
import { FilterForm, wrongEnd } from '../../components/FilterForm.tsx';
import { PageFrame } from '../../components/PageFrame.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { useTimeZone } from '../../components/time.tsx';
import { timeOfWall, wallOfTime } from '../../components/zonedTime.ts';
import { AuditTable } from './AuditTable.tsx';
import classes from './audit.module.css';

/** Audit: who changed what, when, from where, before and after. The page's address contains the filter. */
export default function AuditPage() {
  const [parameters, setParameters] = useSearchParams();
  const filters = Object.fromEntries(auditFilters.map((name) => [name, parameters.get(name) ?? ''])) as AuditFilters;
  const { timeZone } = useTimeZone();
  const audit = useAudit(filters);
  const show = (next: AuditFilters) =>
    setParameters(new URLSearchParams(Object.entries(next).filter(([, value]) => value !== '')));
  return (
    <PageFrame title="Audit">
      <Filters key={`${timeZone} ${new URLSearchParams(filters)}`} filters={filters} onChange={show} />
      <RequestState query={audit} label="Loading the audit">
        {({ pages }) => (
          <>
            <Paper withBorder p="xs">
              <AuditTable changes={pages.flatMap(({ changes }) => changes)} />
            </Paper>
            {audit.hasNextPage ? (
              <Group>
                <Button variant="default" loading={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
                  Earlier changes
                </Button>
              </Group>
            ) : (
              <Text size="sm" c="dimmed">
                There are no earlier changes.
              </Text>
            )}
          </>
        )}
      </RequestState>
    </PageFrame>
  );
}

const sources = [
  { value: '', label: 'any' },
  { value: 'rest', label: 'REST and pages' },
  { value: 'kubernetes', label: 'Kubernetes' },
  { value: 'file', label: 'file' },
  { value: 'database', label: 'another program' },
  { value: 'gateway', label: 'the gateway' },
];

interface FiltersProps {
  readonly filters: AuditFilters;
  readonly onChange: (filters: AuditFilters) => void;
}

function Filters({ filters, onChange }: FiltersProps) {
  const { timeZone } = useTimeZone();
  const wall = (time: string) => (/^\d{1,15}$/.test(time) ? wallOfTime(Number(time), timeZone) : '');
  const form = useForm({
    mode: 'uncontrolled',
    initialValues: { ...filters, from: wall(filters.from), to: wall(filters.to) },
    validate: { to: wrongEnd },
  });
  const submit = form.onSubmit((values) => {
    const time = (text: string) => String(timeOfWall(text, timeZone) ?? '');
    const texts = Object.fromEntries(Object.entries(values).map(([name, text]) => [name, text.trim()])) as AuditFilters;
    onChange({ ...texts, from: time(values.from), to: time(values.to) });
  });
  const input = (name: keyof AuditFilters) => ({
    key: form.key(name),
    ...form.getInputProps(name),
    size: 'xs' as const,
  });
  const none = Object.fromEntries(auditFilters.map((name) => [name, ''])) as AuditFilters;
  return (
    <FilterForm
      className={classes.filters}
      onSubmit={submit}
      onClear={() => {
        form.setValues(none);
        onChange(none);
      }}
    >
      <TextInput label="Kind" {...input('kind')} />
      <TextInput label="Name" {...input('name')} />
      <TextInput label="Namespace" {...input('namespace')} />
      <TextInput label="User" {...input('user')} />
      <TextInput label="Field manager" {...input('manager')} />
      <NativeSelect label="Source" data={sources} {...input('source')} />
      <TextInput label={`From (${timeZone})`} type="datetime-local" {...input('from')} />
      <TextInput label={`To (${timeZone})`} type="datetime-local" {...input('to')} />
    </FilterForm>
  );
}
