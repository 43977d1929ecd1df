import { Alert, Anchor, Badge, Button, Modal, Stack, Table, Text } from '@mantine/core';
import { useMemo } from 'react';
import { Link } from 'react-router';
import { useAuditedChange } from '../../client/audit.ts';
import type { AuditedChange } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { clusterAddress, groupAddress, queryAddress, ruleAddress } from '../../components/links.ts';
import { useReturnFocus } from '../../components/returnFocus.ts';
import { EmptyState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import classes from './audit.module.css';
import { fieldDifferences } from './difference.ts';

/** Changes, newest first; one of them can be opened with the state before it. */
export function AuditTable({ changes }: { readonly changes: readonly AuditedChange[] }) {
  const [openedId, setOpened] = useAddressState('change');
  const columns = useMemo(() => columnsOf(({ id }) => setOpened(id, 'push')), [setOpened]);
  const shown = changes.find(({ id }) => id === openedId);
  const other = useAuditedChange(openedId, shown !== undefined);
  const opened = openedId === '' ? undefined : (shown ?? other.data);
  const empty = <EmptyState title="No change matches." />;
  return (
    <>
      <DataTable label="Changes" columns={columns} rows={changes} rowId={idOf} empty={empty} />
      {opened === null && (
        <Alert role="status" color="yellow" title="No such change" withCloseButton onClose={() => setOpened('')}>
          The audit has no change {openedId}: it keeps changes for a time.
        </Alert>
      )}
      {opened != null && <ChangeDialog change={opened} onClose={() => setOpened('')} />}
    </>
  );
}

const idOf = ({ id }: AuditedChange): string => id;

const colors = { create: 'green', change: 'blue', delete: 'red' } as const;
const words = { create: 'created', change: 'changed', delete: 'deleted' } as const;

/** Sorting a single page would mislead. */
function columnsOf(onOpen: (change: AuditedChange) => void): readonly Column<AuditedChange>[] {
  return [
    {
      id: 'at',
      header: 'When',
      enableSorting: false,
      cell: ({ row: { original } }) => <Time at={Date.parse(original.at)} />,
    },
    {
      id: 'who',
      header: 'Who',
      enableSorting: false,
      cell: ({ row: { original } }) => <Who change={original} />,
    },
    {
      id: 'action',
      header: 'Did',
      enableSorting: false,
      cell: ({ row: { original } }) => (
        <Badge variant="light" color={colors[original.action]}>
          {words[original.action]}
        </Badge>
      ),
    },
    {
      id: 'object',
      header: 'What',
      enableSorting: false,
      cell: ({ row: { original } }) => <What change={original} />,
    },
    {
      id: 'fields',
      header: 'Fields',
      enableSorting: false,
      cell: ({ row: { original } }) => {
        const fields = fieldDifferences(original.before, original.after).map(({ field }) => field);
        const shown = `${fields.slice(0, 4).join(', ')}${fields.length > 4 ? ', …' : ''}`;
        const text = original.action === 'change' && shown !== '' && shown.length < 60 ? shown : 'Difference';
        return (
          <Button
            size="compact-sm"
            variant="subtle"
            aria-label={`${text}: difference of ${original.kind} ${original.name}`}
            onClick={() => onOpen(original)}
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

function Who({ change: { user, manager, source, address } }: { readonly change: AuditedChange }) {
  return (
    <Stack gap={0} className={classes.name}>
      <Text size="sm">{user ?? manager ?? 'not known'}</Text>
      <Text size="xs" c="dimmed">
        {sourceWords[source]}
        {address !== null && ` from ${address}`}
      </Text>
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

function What({ change: { kind, namespace, name, action } }: { readonly change: AuditedChange }) {
  const address = action === 'delete' && kind !== 'RunningQuery' ? undefined : addresses[kind]?.(name);
  return (
    <Stack gap={0} className={classes.name}>
      {address === undefined ? (
        <Text size="sm">{name}</Text>
      ) : (
        <Anchor component={Link} to={address} size="sm" underline="always">
          {name}
        </Anchor>
      )}
      <Text size="xs" c="dimmed">
        {kind}
        {namespace !== null && ` in ${namespace}`}
      </Text>
    </Stack>
  );
}

function ChangeDialog({ change, onClose }: { readonly change: AuditedChange; readonly onClose: () => void }) {
  useReturnFocus();
  const { kind, name, action, at, user, manager, source, call, roles, recognisedBy, address, requestId } = change;
  const who = user ?? manager ?? 'not known';
  const facts = [
    sourceWords[source],
    ...(address === null ? [] : [`from ${address}`]),
    ...(recognisedBy === null ? [] : [`recognised by ${recognisedBy}`]),
    ...(roles.length === 0 ? [] : [`roles ${roles.join(', ')}`]),
    ...(call === null ? [] : [call]),
    ...(requestId === null ? [] : [`request ${requestId}`]),
  ];
  return (
    <Modal opened onClose={onClose} title={`${kind} ${name}: ${words[action]}`} size="xl">
      <Stack gap="sm">
        <Text size="sm" className={classes.name}>
          <Time at={Date.parse(at)} /> · {who} · {facts.join(' · ')}
        </Text>
        <Difference change={change} />
      </Stack>
    </Modal>
  );
}

function Difference({ change: { before, after } }: { readonly change: AuditedChange }) {
  const rows = fieldDifferences(before, after);
  if (rows.length === 0) return <Text size="sm">No field that is shown differs.</Text>;
  return (
    <Table className={classes.difference} aria-label="Difference" withTableBorder>
      <Table.Thead>
        <Table.Tr>
          <Table.Th scope="col">Field</Table.Th>
          <Table.Th scope="col">Before</Table.Th>
          <Table.Th scope="col">After</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map(({ field, before: old, after: now }) => (
          <Table.Tr key={field}>
            <Table.Th scope="row" className={classes.value}>
              {field}
            </Table.Th>
            <Table.Td className={classes.value}>{old ?? '–'}</Table.Td>
            <Table.Td className={classes.value}>{now ?? '–'}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
