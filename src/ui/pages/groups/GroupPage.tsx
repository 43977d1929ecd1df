import { Alert, Anchor, Badge, Button, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconPlayerPause } from '@tabler/icons-react';
import { useMemo } from 'react';
import { Link } from 'react-router';
import { ApiError } from '../../client/apiError.ts';
import { useClusters } from '../../client/clusters.ts';
import { useGroup, useGroups } from '../../client/limits.ts';
import type { ClusterState, GroupDetails } from '../../client/types.ts';
import { Columns } from '../../components/Columns.tsx';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { type Fact, FactList } from '../../components/FactList.tsx';
import { groupHistoryAddress } from '../../components/links.ts';
import { Names } from '../../components/Names.tsx';
import { ClusterName, GroupName, useNameInPath } from '../../components/namedObject.tsx';
import { PageFrame } from '../../components/PageFrame.tsx';
import { Panel } from '../../components/Panel.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { StatusBadge } from '../../components/StatusBadge.tsx';
import { EmptyState } from '../../components/states.tsx';
import { useRole, useSees } from '../../session/session.ts';
import { activeColumn } from '../clusters/ActiveSwitch.tsx';
import { newQueriesText } from '../clusters/consequences.ts';
import { DrainProgress } from '../clusters/DrainProgress.tsx';
import { Leads } from '../clusters/Leads.tsx';
import { QueryFigures } from '../clusters/QueryFigures.tsx';
import { useDrainAll } from '../clusters/switching.ts';
import { GroupDeclaration } from '../limits/GroupTable.tsx';
import { ofLimit } from '../limits/texts.ts';
import { RunningTable } from '../queue/RunningTable.tsx';
import { WaitingQueries } from '../queue/WaitingQueries.tsx';
import { groupFacts, specOf } from './groupFacts.ts';

/** All data of a routing group: clusters and their capacity, queue, fallback, and sources of queries. */
export default function GroupPage() {
  const name = useNameInPath();
  const group = useGroup(name);
  const mayWrite = useRole('ADMIN');
  const isMissing = group.error instanceof ApiError && group.error.status === 404;
  return (
    <PageFrame
      title={`Routing group ${name}`}
      actions={mayWrite && !isMissing && group.data !== undefined ? <DrainAll group={group.data} /> : undefined}
    >
      {isMissing ? (
        <EmptyState title={`There is no routing group ${name}: no backend belongs to it, and no resource declares it.`}>
          <Anchor component={Link} to="/limits" size="sm" underline="always">
            To all routing groups
          </Anchor>
          <Anchor component={Link} to={groupHistoryAddress(name)} size="sm" underline="always">
            To its queries in the history
          </Anchor>
        </EmptyState>
      ) : (
        <RequestState query={group} label="Loading the routing group">
          {(data) => <Whole key={name} group={data} mayWrite={mayWrite} />}
        </RequestState>
      )}
    </PageFrame>
  );
}

/** Deactivates all active clusters of the group, after a confirmation. */
function DrainAll({ group: { name, clusters, withoutTakers } }: { readonly group: GroupDetails }) {
  const { drain, isPending } = useDrainAll(name);
  const active = clusters.filter((cluster) => cluster.active).map((cluster) => cluster.name);
  return (
    <Button
      size="xs"
      variant="default"
      leftSection={<IconPlayerPause size={16} aria-hidden />}
      disabled={active.length === 0}
      loading={isPending}
      onClick={() => void drain({ clusters: active, withoutTakers })}
    >
      Drain all
    </Button>
  );
}

function Whole({ group, mayWrite }: { readonly group: GroupDetails; readonly mayWrite: boolean }) {
  const { name, isDefault, resource, clusters, withoutTakers } = group;
  const seesQueue = useSees('queue');
  return (
    <>
      {!clusters.some(({ takesNewQueries }) => takesNewQueries) && (
        <Alert
          role="status"
          color="yellow"
          icon={<IconAlertTriangle aria-hidden />}
          title="No backend of it takes new queries"
        >
          {newQueriesText(withoutTakers)}
        </Alert>
      )}
      <Panel title="Backends">
        <Backends group={name} mayWrite={mayWrite} />
      </Panel>
      <Columns>
        <Panel title="Capacity and limits">
          <Capacity group={group} />
        </Panel>
        <Panel title="Declared by">
          {resource === null ? (
            <Text size="sm">Nothing: as the configuration says.</Text>
          ) : (
            <GroupDeclaration group={group} resource={resource} />
          )}
        </Panel>
        <QueryFigures of={{ routingGroup: name }} history={groupHistoryAddress(name)} />
        <Leads cluster={null} group={name} isDefault={isDefault} />
      </Columns>
      {seesQueue && (
        <>
          <Panel title="Queries that wait">
            <WaitingQueries group={name} />
          </Panel>
          <Panel title="Running queries">
            <RunningTable of={{ routingGroup: name }} />
          </Panel>
        </>
      )}
    </>
  );
}

function Capacity({ group }: { readonly group: GroupDetails }) {
  const { fallbacks = [] } = specOf(group);
  const groups = useGroups();
  const servedHere = (groups.data ?? [])
    .filter((other) => specOf(other).fallbacks?.includes(group.name) === true)
    .map(({ name }) => name);
  const links: readonly Fact[] = [
    ...(fallbacks.length === 0
      ? [['Fallbacks', 'none'] as const]
      : [
          [
            'Fallbacks',
            <span key="fallbacks">
              <Names names={fallbacks} of={(name) => <GroupName name={name} />} />
            </span>,
          ] as const,
        ]),
    ...(servedHere.length === 0
      ? []
      : [
          [
            'Fallback of',
            <span key="served">
              <Names names={servedHere} of={(name) => <GroupName name={name} />} />
            </span>,
          ] as const,
        ]),
    ['Without backends', newQueriesText(group.withoutTakers)],
  ];
  return <FactList facts={[...groupFacts(group), ...links]} />;
}

function Backends({ group, mayWrite }: { readonly group: string; readonly mayWrite: boolean }) {
  const clusters = useClusters();
  const columns = useMemo(() => columnsOf(mayWrite), [mayWrite]);
  return (
    <RequestState query={clusters} label="Loading backends">
      {(all) => (
        <DataTable
          label="Backends"
          columns={columns}
          rows={all.filter(({ routingGroup }) => routingGroup === group)}
          rowId={rowId}
          empty={<EmptyState title="No backend belongs to it." />}
          sortedBy={{ id: 'name', desc: false }}
        />
      )}
    </RequestState>
  );
}

const rowId = ({ name, resource }: ClusterState): string => `${name} ${resource?.namespace ?? ''}`;

function columnsOf(mayWrite: boolean): readonly Column<ClusterState>[] {
  return [
    {
      id: 'name',
      header: 'Name',
      accessorFn: ({ name }) => name,
      cell: ({ row: { original } }) => <ClusterName name={original.name} />,
    },
    activeColumn(mayWrite),
    {
      id: 'status',
      header: 'Status',
      accessorFn: ({ status }) => status,
      cell: ({ row: { original } }) => (
        <Stack gap={2} align="flex-start">
          {original.routed ? <StatusBadge status={original.status} /> : <Badge color="red">Not routed</Badge>}
          {original.routed && !original.active && <DrainProgress cluster={original} beside="its group" />}
          {original.status !== 'HEALTHY' && <Text size="xs">{original.reason}</Text>}
        </Stack>
      ),
    },
    {
      id: 'running',
      header: 'Running',
      accessorFn: ({ running }) => running ?? -1,
      cell: ({ row: { original } }) => ofLimit(original.running, original.maxRunningQueries ?? undefined),
    },
    {
      id: 'queued',
      header: 'Queued there',
      accessorFn: ({ queued }) => queued ?? -1,
      cell: ({ row: { original } }) => original.queued ?? '–',
    },
  ];
}
