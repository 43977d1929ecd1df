import { Badge, Stack, Text } from '@mantine/core';
import { IconPlayerPause } from '@tabler/icons-react';
import { useMemo } from 'react';
import { isMissing, useClusters, useGroup, useGroups } from '../../client/resources.ts';
import type { ClusterState, GroupDetails } from '../../client/types.ts';
import { StatusBadge } from '../../components/badges.tsx';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Notice, SmallAction, To } from '../../components/elements.tsx';
import { FactList } from '../../components/FactList.tsx';
import { Columns, PageFrame, Panel } from '../../components/frame.tsx';
import { groupHistoryAddress } from '../../components/links.ts';
import { ClusterName, GroupNames, useNameInPath } from '../../components/namedObject.tsx';
import { EmptyState, RequestState } from '../../components/states.tsx';
import { useRole, useSees } from '../../session/session.ts';
import { activeColumn, DrainProgress, Leads, QueryFigures } from '../clusters/clusterParts.tsx';
import { newQueriesText } from '../clusters/clusterTexts.ts';
import { useDrainAll } from '../clusters/switching.ts';
import { GroupDeclaration } from '../limits/Declaration.tsx';
import { WaitingQueries } from '../queue/QueueTable.tsx';
import { RunningTable } from '../queue/RunningTable.tsx';
import { groupFacts, ofLimit, specOf } from './groupFacts.ts';

/** All data of a routing group: clusters and their capacity, queue, fallback, and sources of queries. */
export default function GroupPage() {
  const name = useNameInPath();
  const group = useGroup(name);
  const mayWrite = useRole('ADMIN');
  const isGone = isMissing(group.error);
  const actions = mayWrite && !isGone && group.data !== undefined ? <DrainAll group={group.data} /> : undefined;
  return (
    <PageFrame title={`Routing group ${name}`} actions={actions}>
      {isGone ? (
        <EmptyState title={`There is no routing group ${name}: no backend belongs to it, and no resource declares it.`}>
          <To address="/limits">To all routing groups</To>
          <To address={groupHistoryAddress(name)}>To its queries in the history</To>
        </EmptyState>
      ) : (
        <RequestState query={group} label="Loading the routing group">
          {(data) => <Whole key={name} group={data} mayWrite={mayWrite} />}
        </RequestState>
      )}
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

function Whole({ group, mayWrite }: GroupProps & { readonly mayWrite: boolean }) {
  const { name, isDefault, resource, clusters, withoutTakers } = group;
  const seesQueue = useSees('queue');
  return (
    <>
      {!clusters.some(({ takesNewQueries }) => takesNewQueries) && (
        <Notice tone="warning" title="No backend of it takes new queries">
          {newQueriesText(withoutTakers)}
        </Notice>
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
          rowId={({ name, resource }) => `${name} ${resource?.namespace ?? ''}`}
          empty={<EmptyState title="No backend belongs to it." />}
          sortedBy={{ id: 'name', desc: false }}
        />
      )}
    </RequestState>
  );
}

function columnsOf(mayWrite: boolean): readonly Column<ClusterState>[] {
  return [
    { id: 'name', header: 'Name', value: ({ name }) => name, cell: ({ name }) => <ClusterName name={name} /> },
    activeColumn(mayWrite),
    {
      ...{ id: 'status', header: 'Status', value: ({ status }) => status },
      cell: (cluster) => (
        <Stack gap={2} align="flex-start">
          {cluster.routed ? <StatusBadge status={cluster.status} /> : <Badge color="red">Not routed</Badge>}
          {cluster.routed && !cluster.active && <DrainProgress cluster={cluster} beside="its group" />}
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
}
