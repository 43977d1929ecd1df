import { Badge, Stack, Text } from '@mantine/core';
import { IconPlayerPause } from '@tabler/icons-react';
import { isMissing } from '../../client/call.ts';
import { REST_MS, useClusters, useGroup, useGroups } from '../../client/resources.ts';
import type { ClusterState, GroupDetails } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Notice, SmallAction, To } from '../../components/elements.tsx';
import { FactList, StatusBadge } from '../../components/facts.tsx';
import { Columns, EmptyState, PageFrame, Panel, RequestState } from '../../components/frame.tsx';
import { ClusterName, GroupNames, groupHistoryAddress, useNameInPath } from '../../components/names.tsx';
import { useSees } from '../../session/session.ts';
import { activeColumn, DrainProgress, newQueriesText } from '../clusters/clusterParts.tsx';
import { useDrainAll } from '../clusters/switching.tsx';
import { RunningTable, WaitingQueries } from '../queue/tables.tsx';
import { GroupDeclaration, groupFacts, ofLimit, specOf } from './groupParts.tsx';
import { Leads, QueryFigures } from './objectParts.tsx';

/** All data of a routing group: clusters and their capacity, queue, fallback, and sources of queries. */
export default function GroupPage() {
  const name = useNameInPath();
  const group = useGroup(name);
  const changeable = new Set(useClusters(REST_MS).data?.flatMap((each) => (each.mayChange ? [each.name] : [])));
  const isThere = group.data !== undefined && !isMissing(group.error);
  const mayDrain = isThere && group.data.clusters.every((cluster) => changeable.has(cluster.name));
  const actions = mayDrain ? <DrainAll group={group.data} /> : undefined;
  const missing = (
    <EmptyState title={`There is no routing group ${name}: no backend belongs to it, and no resource declares it.`}>
      <To address="/limits">To all routing groups</To>
      <To address={groupHistoryAddress(name)}>To its queries in the history</To>
    </EmptyState>
  );
  return (
    <PageFrame title={`Routing group ${name}`} actions={actions}>
      <RequestState query={group} label="Loading the routing group" missing={missing}>
        {(data) => <Whole key={name} group={data} />}
      </RequestState>
    </PageFrame>
  );
}

interface GroupProps {
  readonly group: GroupDetails;
}

/** Deactivates all active clusters of the group, after a confirmation. */
function DrainAll({ group: { name, clusters, withoutTakers } }: GroupProps) {
  const { drain, isPending } = useDrainAll(name);
  const active = clusters.filter((cluster) => cluster.active).map((cluster) => cluster.name);
  return (
    <SmallAction
      label="Drain all"
      icon={IconPlayerPause}
      disabled={active.length === 0}
      loading={isPending}
      onClick={() => void drain({ clusters: active, withoutTakers })}
    />
  );
}

function Whole({ group }: GroupProps) {
  const { name, isDefault, clusters, withoutTakers } = group;
  const seesQueue = useSees('queue');
  return (
    <>
      {!clusters.some(({ takesNewQueries }) => takesNewQueries) && (
        <Notice tone="warning" title="No backend of it takes new queries">
          {newQueriesText(withoutTakers)}
        </Notice>
      )}
      <Panel title="Backends">
        <Backends group={name} />
      </Panel>
      <Columns>
        <Panel title="Capacity and limits">
          <Capacity group={group} />
        </Panel>
        <Panel title="Declared by">
          <GroupDeclaration group={group} none="Nothing: as the configuration says." />
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

function Capacity({ group }: GroupProps) {
  const { fallbacks = [] } = specOf(group);
  const served = (useGroups().data ?? [])
    .filter((other) => specOf(other).fallbacks?.includes(group.name) === true)
    .map(({ name }) => name);
  const linked = (names: readonly string[]) => (
    <span>
      <GroupNames names={names} />
    </span>
  );
  return (
    <FactList
      facts={[
        ...groupFacts(group),
        ['Fallbacks', fallbacks.length === 0 ? 'none' : linked(fallbacks)],
        ['Fallback of', served.length === 0 ? undefined : linked(served)],
        ['Without backends', newQueriesText(group.withoutTakers)],
      ]}
    />
  );
}

function Backends({ group }: { readonly group: string }) {
  const clusters = useClusters(REST_MS);
  return (
    <RequestState query={clusters} label="Loading backends">
      {(all) => (
        <DataTable
          label="Backends"
          columns={columns}
          rows={all.filter(({ routingGroup }) => routingGroup === group)}
          rowId={({ name, resource }) => `${name} ${resource?.namespace ?? ''}`}
          empty="No backend belongs to it."
          sortedBy="name"
        />
      )}
    </RequestState>
  );
}

const columns: readonly Column<ClusterState>[] = [
  { id: 'name', header: 'Name', value: ({ name }) => name, cell: ({ name }) => <ClusterName name={name} /> },
  activeColumn,
  {
    ...{ id: 'status', header: 'Status', value: ({ status }) => status },
    cell: (cluster) => (
      <Stack gap={2} align="flex-start">
        {cluster.routed ? <StatusBadge status={cluster.status} /> : <Badge color="red">Not routed</Badge>}
        {cluster.routed && !cluster.active && <DrainProgress cluster={cluster} others="its group" />}
        {cluster.status !== 'HEALTHY' && <Text size="xs">{cluster.reason}</Text>}
      </Stack>
    ),
  },
  {
    ...{ id: 'running', header: 'Running', value: ({ running }) => running ?? -1 },
    cell: ({ running, maxRunningQueries }) => ofLimit(running, maxRunningQueries ?? undefined),
  },
  {
    ...{ id: 'queued', header: 'Queued there', value: ({ queued }) => queued ?? -1 },
    cell: ({ queued }) => queued ?? '–',
  },
];
