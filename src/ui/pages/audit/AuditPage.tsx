import { Alert, Button, Modal, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { useAuditedChange, useEarlier } from '../../client/resources.ts';
import type { AuditedChange, AuditPage as Page } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, LightBadge, PlainTable, To } from '../../components/elements.tsx';
import { FilterForm, useWallTimes, wrongEnd } from '../../components/FilterForm.tsx';
import { Framed, PageFrame } from '../../components/frame.tsx';
import { clusterAddress, groupAddress, queryAddress, ruleAddress } from '../../components/links.ts';
import { useReturnFocus } from '../../components/returnFocus.ts';
import { EarlierPages, EmptyState, RequestState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import classes from './audit.module.css';
import { fieldDifferences } from './difference.ts';

/** Filters as parameters of the page's address. */
const filterNames = ['kind', 'namespace', 'name', 'user', 'manager', 'source', 'from', 'to'] as const;
type Filters = Readonly<Record<(typeof filterNames)[number], string>>;

const filtersOf = (read: (name: string) => string): Filters =>
  Object.fromEntries(filterNames.map((name) => [name, read(name)])) as Filters;

const toParameters = (filters: Filters) =>
  new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== ''));

/** Audit: who changed what, when, from where, before and after. The page's address contains the filter. */
export default function AuditPage() {
  const [parameters, setParameters] = useSearchParams();
  const filters = filtersOf((name) => parameters.get(name) ?? '');
  const request = toParameters(filters);
  request.set('match', 'prefix');
  request.set('limit', '50');
  const audit = useEarlier<Page>(['audit', filters], '/api/audit', request);
  return (
    <PageFrame title="Audit">
      <FilterBar
        key={`${useWallTimes().timeZone} ${toParameters(filters)}`}
        filters={filters}
        onChange={(next) => setParameters(toParameters(next))}
      />
      <RequestState query={audit} label="Loading the audit">
        {({ pages }) => (
          <>
            <Framed>
              <AuditTable changes={pages.flatMap(({ changes }) => changes)} />
            </Framed>
            <EarlierPages query={audit} what="changes" />
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

interface FilterBarProps {
  readonly filters: Filters;
  readonly onChange: (filters: Filters) => void;
}

function FilterBar({ filters, onChange }: FilterBarProps) {
  const { timeZone, toWall, toTime } = useWallTimes();
  const form = useForm({
    mode: 'uncontrolled',
    initialValues: { ...filters, from: toWall(filters.from), to: toWall(filters.to) },
    validate: { to: wrongEnd },
  });
  const submit = form.onSubmit((values) => {
    const texts = filtersOf((name) => values[name as keyof Filters].trim());
    onChange({ ...texts, from: toTime(values.from), to: toTime(values.to) });
  });
  const input = (name: keyof Filters) => ({ key: form.key(name), ...form.getInputProps(name), size: 'xs' as const });
  const clear = () => {
    const none = filtersOf(() => '');
    form.setValues(none);
    onChange(none);
  };
  return (
    <FilterForm className={classes.filters} onSubmit={submit} onClear={clear}>
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

/** Changes, newest first; one of them can be opened with the state before it. */
function AuditTable({ changes }: { readonly changes: readonly AuditedChange[] }) {
  const [openedId, setOpened] = useAddressState('change');
  const columns = useMemo(() => columnsOf(({ id }) => setOpened(id, 'push')), [setOpened]);
  const shown = changes.find(({ id }) => id === openedId);
  const other = useAuditedChange(openedId, shown !== undefined);
  const opened = openedId === '' ? undefined : (shown ?? other.data);
  const empty = <EmptyState title="No change matches." />;
  return (
    <>
      <DataTable label="Changes" columns={columns} rows={changes} rowId={({ id }) => id} empty={empty} />
      {opened === null && (
        <Alert role="status" color="yellow" title="No such change" withCloseButton onClose={() => setOpened('')}>
          The audit has no change {openedId}: it keeps changes for a time.
        </Alert>
      )}
      {opened != null && <ChangeDialog change={opened} onClose={() => setOpened('')} />}
    </>
  );
}

const looks = {
  create: { color: 'green', word: 'created' },
  change: { color: 'blue', word: 'changed' },
  delete: { color: 'red', word: 'deleted' },
} as const;

/** Sorting a single page would mislead. */
function columnsOf(onOpen: (change: AuditedChange) => void): readonly Column<AuditedChange>[] {
  return [
    { id: 'at', header: 'When', cell: ({ at }) => <Time at={Date.parse(at)} /> },
    { id: 'who', header: 'Who', cell: (change) => <Who change={change} /> },
    {
      ...{ id: 'action', header: 'Did' },
      cell: ({ action }) => <LightBadge color={looks[action].color} text={looks[action].word} />,
    },
    { id: 'object', header: 'What', cell: (change) => <What change={change} /> },
    {
      ...{ id: 'fields', header: 'Fields' },
      cell: (change) => {
        const { before, after, action, kind, name } = change;
        const fields = fieldDifferences(before, after).map(({ field }) => field);
        const shown = `${fields.slice(0, 4).join(', ')}${fields.length > 4 ? ', …' : ''}`;
        const text = action === 'change' && shown !== '' && shown.length < 60 ? shown : 'Difference';
        return (
          <Button
            size="compact-sm"
            variant="subtle"
            aria-label={`${text}: difference of ${kind} ${name}`}
            onClick={() => onOpen(change)}
          >
            {text}
          </Button>
        );
      },
    },
  ];
}

const sourceWords: Readonly<Record<AuditedChange['source'], string>> = {
  rest: 'REST',
  kubernetes: 'Kubernetes',
  file: 'file',
  database: 'database',
  gateway: 'the gateway itself',
};

interface ChangeProps {
  readonly change: AuditedChange;
}

function Who({ change: { user, manager, source, address } }: ChangeProps) {
  return (
    <Stack gap={0} className={classes.name}>
      <Text size="sm">{user ?? manager ?? 'not known'}</Text>
      <Faint>
        {sourceWords[source]}
        {address !== null && ` from ${address}`}
      </Faint>
    </Stack>
  );
}

const addresses: Readonly<Record<string, (name: string) => string>> = {
  EngineCluster: clusterAddress,
  RoutingRule: ruleAddress,
  RoutingGroup: groupAddress,
  QueryLimit: () => '/limits',
  RunningQuery: queryAddress,
};

function What({ change: { kind, namespace, name, action } }: ChangeProps) {
  const address = action === 'delete' && kind !== 'RunningQuery' ? undefined : addresses[kind]?.(name);
  return (
    <Stack gap={0} className={classes.name}>
      {address === undefined ? <Text size="sm">{name}</Text> : <To address={address}>{name}</To>}
      <Faint>
        {kind}
        {namespace !== null && ` in ${namespace}`}
      </Faint>
    </Stack>
  );
}

function ChangeDialog({ change, onClose }: ChangeProps & { readonly onClose: () => void }) {
  useReturnFocus();
  const { kind, name, action, at, user, manager, source, call, roles, recognisedBy, address, requestId } = change;
  const facts = [
    user ?? manager ?? 'not known',
    sourceWords[source],
    address === null ? '' : `from ${address}`,
    recognisedBy === null ? '' : `recognised by ${recognisedBy}`,
    roles.length === 0 ? '' : `roles ${roles.join(', ')}`,
    call ?? '',
    requestId === null ? '' : `request ${requestId}`,
  ];
  const rows = fieldDifferences(change.before, change.after).map(({ field, before, after }) => ({
    key: field,
    cells: [field, before ?? '–', after ?? '–'],
  }));
  return (
    <Modal opened onClose={onClose} title={`${kind} ${name}: ${looks[action].word}`} size="xl">
      <Stack gap="sm">
        <Text size="sm" className={classes.name}>
          <Time at={Date.parse(at)} /> · {facts.filter(Boolean).join(' · ')}
        </Text>
        {rows.length === 0 ? (
          <Text size="sm">No field that is shown differs.</Text>
        ) : (
          <PlainTable
            label="Difference"
            className={classes.difference}
            cellClass={classes.value}
            head={['Field', 'Before', 'After']}
            hasRowHeads
            rows={rows}
          />
        )}
      </Stack>
    </Modal>
  );
}
