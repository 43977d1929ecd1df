import { Alert, Button, Modal, Stack, Text } from '@mantine/core';
import { useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { useAuditedChange, useEarlier } from '../../client/resources.ts';
import type { AuditedChange, AuditPage as Page } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, LightBadge, To } from '../../components/elements.tsx';
import { PlainTable } from '../../components/facts.tsx';
import { useReturnFocus } from '../../components/focus.ts';
import { type FilterField, FilterForm, filterParameters, filtersOf } from '../../components/forms.tsx';
import { EarlierPages, Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { clusterAddress, groupAddress, queryAddress, ruleAddress } from '../../components/names.tsx';
import { Time } from '../../components/time.tsx';
import classes from './audit.module.css';

const sources = [
  { value: '', label: 'any' },
  { value: 'rest', label: 'REST and pages' },
  { value: 'kubernetes', label: 'Kubernetes' },
  { value: 'file', label: 'file' },
  { value: 'database', label: 'another program' },
  { value: 'gateway', label: 'the gateway' },
];

const auditFilters = [
  { name: 'kind', label: 'Kind' },
  { name: 'name', label: 'Name' },
  { name: 'namespace', label: 'Namespace' },
  { name: 'user', label: 'User' },
  { name: 'manager', label: 'Field manager' },
  { name: 'source', label: 'Source', choices: sources },
  { name: 'from', label: 'From', kind: 'time' },
  { name: 'to', label: 'To', kind: 'time', above: ['from', 'Must be later than "From".'] },
] as const satisfies readonly FilterField[];

/** Audit: who changed what, when, from where, before and after. The page's address contains the filter. */
export default function AuditPage() {
  const [parameters, setParameters] = useSearchParams();
  const filters = filtersOf<(typeof auditFilters)[number]['name']>(auditFilters, parameters);
  const request = filterParameters(filters);
  request.set('match', 'prefix');
  request.set('limit', '50');
  const audit = useEarlier<Page>(['audit', filters], '/api/audit', request);
  return (
    <PageFrame title="Audit">
      <FilterForm
        className={classes.filters}
        fields={auditFilters}
        filters={filters}
        onChange={(next) => setParameters(filterParameters(next))}
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

/** Changes, newest first; one of them can be opened with the state before it. */
function AuditTable({ changes }: { readonly changes: readonly AuditedChange[] }) {
  const [openedId, setOpened] = useAddressState('change');
  const columns = useMemo(() => columnsOf(({ id }) => setOpened(id, 'push')), [setOpened]);
  const shown = changes.find(({ id }) => id === openedId);
  const other = useAuditedChange(openedId, shown !== undefined);
  const opened = openedId === '' ? undefined : (shown ?? other.data);
  return (
    <>
      <DataTable label="Changes" columns={columns} rows={changes} rowId={({ id }) => id} empty="No change matches." />
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

/** A field that differs between two states; undefined if missing. */
interface FieldDifference {
  readonly field: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

const MAX_FIELDS = 200;

/** Lists differences between two states by field, in the order of the fields. */
function fieldDifferences(before: unknown, after: unknown): readonly FieldDifference[] {
  const old = fieldsOf(before);
  const now = fieldsOf(after);
  const fields = [...new Set([...old.keys(), ...now.keys()])];
  return fields
    .filter((field) => old.get(field) !== now.get(field))
    .slice(0, MAX_FIELDS)
    .map((field) => ({ field, before: old.get(field), after: now.get(field) }));
}

/** Leaves of a state by path: texts unchanged, other values as JSON. */
function fieldsOf(state: unknown): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  const add = (path: string, value: unknown): void => {
    if (typeof value === 'object' && value !== null && Object.keys(value).length > 0) {
      for (const [name, inner] of Object.entries(value)) {
        add(Array.isArray(value) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`, inner);
      }
    } else fields.set(path, typeof value === 'string' ? value : JSON.stringify(value));
  };
  if (state !== null && state !== undefined) add('', state);
  return fields;
}
