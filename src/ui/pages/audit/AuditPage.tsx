import { Alert, Button, Modal, Stack, Text } from '@mantine/core';
import { type ReactNode, useMemo } from 'react';
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
  const column = (header: string, cell: (change: AuditedChange) => ReactNode) => ({ id: header, header, cell });
  return [
    column('When', ({ at }) => <Time at={Date.parse(at)} />),
    column('Who', (change) => (
      <Lines below={`${sources[change.source]}${change.address === null ? '' : ` from ${change.address}`}`}>
        <Text size="sm">{whoOf(change)}</Text>
      </Lines>
    )),
    column('Did', ({ action }) => <LightBadge color={looks[action].color} text={looks[action].word} />),
    column('What', ({ kind, namespace, name, action }) => {
      const address = action === 'delete' && kind !== 'RunningQuery' ? undefined : addresses[kind]?.(name);
      return (
        <Lines below={`${kind}${namespace === null ? '' : ` in ${namespace}`}`}>
          {address === undefined ? <Text size="sm">{name}</Text> : <To address={address}>{name}</To>}
        </Lines>
      );
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

function Lines({ below, children }: { readonly below: string; readonly children: ReactNode }) {
  return (
    <Stack gap={0} className={classes.name}>
      {children}
      <Faint>{below}</Faint>
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

function ChangeDialog({ change, onClose }: { readonly change: AuditedChange; readonly onClose: () => void }) {
  useReturnFocus();
  const { kind, name, action, at, source, call, roles, recognisedBy, address, requestId } = change;
  const facts = [
    whoOf(change),
    sources[source],
    address !== null && `from ${address}`,
    recognisedBy !== null && `recognised by ${recognisedBy}`,
    roles.length > 0 && `roles ${roles.join(', ')}`,
    call,
    requestId !== null && `request ${requestId}`,
  ];
  const rows = fieldDifferences(change);
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
