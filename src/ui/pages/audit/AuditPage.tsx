import { Alert, Button, Modal, Stack, Text } from '@mantine/core';
import { type ReactNode, useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { useAuditedChange, useEarlier } from '../../client/resources.ts';
import type { AuditedChange, AuditPage as Page } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import classes from '../../components/components.module.css';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, LightBadge, To } from '../../components/elements.tsx';
import { PlainTable } from '../../components/facts.tsx';
import { useReturnFocus } from '../../components/focus.ts';
import { type FilterField, FilterForm, filterParameters, filtersOf } from '../../components/forms.tsx';
import { EarlierPages, Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { clusterAddress, groupAddress, queryAddress, ruleAddress } from '../../components/names.tsx';
import { Time } from '../../components/time.tsx';

const sources: Readonly<Record<AuditedChange['source'], string>> = {
  rest: 'REST',
  kubernetes: 'Kubernetes',
  file: 'file',
  database: 'another program',
  gateway: 'the gateway',
};
const choices = Object.entries({ '': 'any', ...sources }).map(([value, label]) => ({ value, label }));

const auditFilters = [
  { name: 'kind', label: 'Kind' },
  { name: 'name', label: 'Name' },
  { name: 'namespace', label: 'Namespace' },
  { name: 'user', label: 'User' },
  { name: 'manager', label: 'Field manager' },
  { name: 'source', label: 'Source', choices },
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
  const show = (next: typeof filters) => setParameters(filterParameters(next));
  return (
    <PageFrame title="Audit">
      <FilterForm fields={auditFilters} filters={filters} onChange={show} />
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
  const onClose = () => setOpened('');
  return (
    <>
      <DataTable label="Changes" columns={columns} rows={changes} rowId={({ id }) => id} empty="No change matches." />
      {opened === null && (
        <Alert role="status" color="yellow" title="No such change" withCloseButton onClose={onClose}>
          The audit has no change {openedId}: it keeps changes for a time.
        </Alert>
      )}
      {opened != null && <ChangeDialog change={opened} onClose={onClose} />}
    </>
  );
}

const looks = {
  create: { color: 'green', text: 'created' },
  change: { color: 'blue', text: 'changed' },
  delete: { color: 'red', text: 'deleted' },
} as const;

/** Sorting a single page would mislead. */
function columnsOf(onOpen: (change: AuditedChange) => void): readonly Column<AuditedChange>[] {
  const column = (header: string, cell: (change: AuditedChange) => ReactNode) => ({ id: header, header, cell });
  return [
    column('When', ({ at }) => <Time at={Date.parse(at)} />),
    column('Who', (change) => {
      const place = `${sources[change.source]}${change.address === null ? '' : ` from ${change.address}`}`;
      return <Lines above={whoOf(change)} below={place} />;
    }),
    column('Did', ({ action }) => <LightBadge {...looks[action]} />),
    column('What', ({ kind, namespace, name, action }) => {
      const address = action === 'delete' && kind !== 'RunningQuery' ? undefined : addresses[kind]?.(name);
      const link = address === undefined ? name : <To address={address}>{name}</To>;
      return <Lines above={link} below={`${kind}${namespace === null ? '' : ` in ${namespace}`}`} />;
    }),
    column('Fields', (change) => {
      const fields = fieldDifferences(change).map(({ key }) => key);
      const shown = `${fields.slice(0, 4).join(', ')}${fields.length > 4 ? ', …' : ''}`;
      const text = change.action === 'change' && shown !== '' && shown.length < 60 ? shown : 'Difference';
      const label = `${text}: difference of ${change.kind} ${change.name}`;
      return (
        <Button size="compact-sm" variant="subtle" aria-label={label} onClick={() => onOpen(change)}>
          {text}
        </Button>
      );
    }),
  ];
}

const whoOf = ({ user, manager }: AuditedChange): string => user ?? manager ?? 'not known';

function Lines({ above, below }: { readonly above: ReactNode; readonly below: string }) {
  return (
    <Text size="sm" component="div" style={{ overflowWrap: 'anywhere' }}>
      {above}
      <Faint>{below}</Faint>
    </Text>
  );
}

const addresses: Readonly<Record<string, (name: string) => string>> = {
  EngineCluster: clusterAddress,
  RoutingRule: ruleAddress,
  RoutingGroup: groupAddress,
  QueryLimit: () => '/limits',
  RunningQuery: queryAddress,
};

function ChangeDialog({ change, onClose }: { readonly change: AuditedChange; readonly onClose: () => void }) {
  useReturnFocus();
  const { kind, name, action, at, source, call, roles, recognisedBy, address, requestId } = change;
  const named = { from: address, 'recognised by': recognisedBy, roles: roles.join(', '), request: requestId };
  const facts = Object.entries(named).flatMap(([word, value]) => (value ? [`${word} ${value}`] : []));
  const text = [whoOf(change), sources[source], ...facts, call].filter(Boolean).join(' · ');
  const rows = fieldDifferences(change);
  return (
    <Modal opened onClose={onClose} title={`${kind} ${name}: ${looks[action].text}`} size="xl">
      <Stack gap="sm">
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          <Time at={Date.parse(at)} /> · {text}
        </Text>
        {rows.length === 0 ? (
          <Text size="sm">No field that is shown differs.</Text>
        ) : (
          <PlainTable
            label="Difference"
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

const MAX_FIELDS = 200;

/** Fields that differ between the states before and after a change, as rows of a table, in the order of the fields. */
function fieldDifferences({ before, after }: AuditedChange) {
  const [old, now] = [new Map(leaves(before)), new Map(leaves(after))];
  const fields = [...new Set([...old.keys(), ...now.keys()])].filter((field) => old.get(field) !== now.get(field));
  return fields.slice(0, MAX_FIELDS).map((key) => ({ key, cells: [key, old.get(key) ?? '–', now.get(key) ?? '–'] }));
}

/** Leaves of a state by path: texts unchanged, other values as JSON. */
function leaves(value: unknown, path = ''): readonly (readonly [path: string, text: string])[] {
  if (value === null && path === '') return [];
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0)
    return [[path, typeof value === 'string' ? value : JSON.stringify(value)]];
  return Object.entries(value).flatMap(([name, inner]) =>
    leaves(inner, Array.isArray(value) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`),
  );
}
