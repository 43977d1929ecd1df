import { Alert, Anchor, Button, Group, Text } from '@mantine/core';
import { IconAlertTriangle, IconExternalLink, IconPencil } from '@tabler/icons-react';
import { Link } from 'react-router';
import { ApiError } from '../../client/apiError.ts';
import { useCluster } from '../../client/clusters.ts';
import { RARELY_MS } from '../../client/live.ts';
import type { ClusterDetails } from '../../client/types.ts';
import { useOpenInAddress } from '../../components/addressState.ts';
import { Columns } from '../../components/Columns.tsx';
import { FactList } from '../../components/FactList.tsx';
import { clusterHistoryAddress } from '../../components/links.ts';
import { Names } from '../../components/Names.tsx';
import { ClusterName, GroupName, useNameInPath } from '../../components/namedObject.tsx';
import { PageFrame } from '../../components/PageFrame.tsx';
import { Panel } from '../../components/Panel.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { StatusBadge } from '../../components/StatusBadge.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Ago, Time } from '../../components/time.tsx';
import { useRole, useSees } from '../../session/session.ts';
import { RunningTable } from '../queue/RunningTable.tsx';
import { WaitingQueries } from '../queue/WaitingQueries.tsx';
import { ActiveSwitch } from './ActiveSwitch.tsx';
import { Conditions } from './ClusterDetails.tsx';
import { newQueriesText } from './consequences.ts';
import { Declared } from './Declared.tsx';
import { DiscoveredNote } from './Discovered.tsx';
import { HealthTimeline } from './HealthTimeline.tsx';
import { Leads } from './Leads.tsx';
import { OpenedForm } from './OpenedForm.tsx';
import { QueryFigures } from './QueryFigures.tsx';
import { Remaining } from './Remaining.tsx';
import { sourceOf } from './source.ts';

/** Address parameters that open the form. */
const forms = ['edit'] as const;

/** All data of a backend: state, history, running queries, sources of queries, and declaration. */
export default function ClusterPage() {
  const name = useNameInPath();
  const cluster = useCluster(name);
  const mayWrite = useRole('ADMIN');
  const [opened, setOpened] = useOpenInAddress(forms);
  const isMissing = cluster.error instanceof ApiError && cluster.error.status === 404;
  const engine = cluster.data?.externalUrl ?? cluster.data?.proxyTo;
  const actions = isMissing ? undefined : (
    <>
      {engine != null && (
        <Button
          component="a"
          href={engine}
          target="_blank"
          rel="noreferrer"
          size="xs"
          variant="default"
          leftSection={<IconExternalLink size={16} aria-hidden />}
        >
          Engine's page
        </Button>
      )}
      {mayWrite && cluster.data?.routed === true && cluster.data.discovery === null && (
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPencil size={16} aria-hidden />}
          onClick={() => setOpened({ kind: 'edit', key: '' })}
        >
          Edit
        </Button>
      )}
    </>
  );
  return (
    <PageFrame title={`Backend ${name}`} actions={actions}>
      {isMissing ? (
        <EmptyState title={`There is no backend ${name}, or not any more.`}>
          <Anchor component={Link} to="/clusters" size="sm" underline="always">
            To all backends
          </Anchor>
          <Anchor component={Link} to={clusterHistoryAddress(name)} size="sm" underline="always">
            To its queries in the history
          </Anchor>
        </EmptyState>
      ) : (
        <RequestState query={cluster} label="Loading the backend">
          {(data) => <Whole key={name} cluster={data} mayWrite={mayWrite} />}
        </RequestState>
      )}
      {opened !== null && cluster.data?.name === name && (
        <OpenedForm
          key={name}
          name={name}
          cluster={isMissing ? undefined : cluster.data}
          groups={cluster.data.routingGroup === null ? [] : [cluster.data.routingGroup]}
          onClose={() => setOpened(null)}
        />
      )}
    </PageFrame>
  );
}

function Whole({ cluster, mayWrite }: { readonly cluster: ClusterDetails; readonly mayWrite: boolean }) {
  const { name, group, routed, active, resource } = cluster;
  const seesQueue = useSees('queue');
  // These are refetched after the remaining queries.
  const isDrained = [useRole('ADMIN'), useRole('API')].some(Boolean) && routed && !active;
  return (
    <>
      {group !== null && group.others.length === 0 && !cluster.takesNewQueries && (
        <Alert
          role="status"
          color="yellow"
          icon={<IconAlertTriangle aria-hidden />}
          title={`No backend of ${group.name} takes new queries`}
        >
          {newQueriesText(group.withoutTakers)}
        </Alert>
      )}
      <Columns>
        <Panel title="State">
          <State cluster={cluster} mayWrite={mayWrite} />
          <DiscoveredNote cluster={cluster} />
        </Panel>
        <Panel title="Health">
          <HealthTimeline cluster={cluster} />
        </Panel>
        {routed && !active && <Remaining cluster={cluster} />}
        <QueryFigures of={{ cluster: name }} history={clusterHistoryAddress(name)} />
        <Leads cluster={name} group={group?.name ?? null} isDefault={group?.isDefault ?? false} />
        <Panel title="Declared and in force">
          <Declared cluster={cluster} />
        </Panel>
        {resource !== null && (
          <Panel title="Conditions">
            <Conditions conditions={resource.conditions} />
          </Panel>
        )}
      </Columns>
      {seesQueue && routed && (
        <>
          <Panel title="Running queries">
            <RunningTable of={{ cluster: name }} interval={isDrained ? RARELY_MS : undefined} />
          </Panel>
          {group !== null && (
            <Panel title={`Queries that wait for ${group.name}`}>
              <WaitingQueries group={group.name} />
            </Panel>
          )}
        </>
      )}
    </>
  );
}

function State({ cluster, mayWrite }: { readonly cluster: ClusterDetails; readonly mayWrite: boolean }) {
  const { status, reason, checkedAt, routed, proxyTo, sharesUrlWith, queued, running, workers, group } = cluster;
  const { maxRunningQueries, ejection, flappingSince } = cluster;
  return (
    <FactList
      facts={[
        ['Status', routed ? <StatusBadge key="status" status={status} /> : 'not routed'],
        [
          'Last check',
          <Text key="check" size="sm">
            {reason}
            {checkedAt !== null && (
              <>
                , <Ago at={Date.parse(checkedAt)} />
              </>
            )}
          </Text>,
        ],
        ...(flappingSince === null
          ? []
          : [['Flapping since', <Time key="flapping" at={Date.parse(flappingSince)} />] as const]),
        ...(ejection === 'trial' ? [['On trial', 'takes a tenth of its share of new queries'] as const] : []),
        [
          'New queries',
          <Group key="active">
            <ActiveSwitch cluster={cluster} mayWrite={mayWrite} />
          </Group>,
        ],
        ['Running', countText(running, maxRunningQueries)],
        ['Queued there', queued ?? 'not counted by its health check'],
        ...(workers === null ? [] : [['Workers', workers] as const]),
        ['Routing group', group === null ? '–' : <GroupName key="group" name={group.name} />],
        [
          'Others of the group',
          group === null || group.others.length === 0 ? (
            'none that takes new queries'
          ) : (
            <span key="others">
              <Names names={group.others} of={(other) => <ClusterName name={other} />} />
            </span>
          ),
        ],
        ['URL', proxyTo ?? '–'],
        ...(sharesUrlWith.length === 0
          ? []
          : [
              [
                'Shares its URL',
                <span key="shares">
                  with <Names names={sharesUrlWith} of={(other) => <ClusterName name={other} />} />: health and counts
                  of the engine are those of all of them
                </span>,
              ] as const,
            ]),
        cluster.discovery === null
          ? ['Declared by', sourceOf(cluster)]
          : ['Discovered by', `${cluster.discovery.name}, of the Service ${cluster.discovery.service ?? 'it had'}`],
      ]}
    />
  );
}

function countText(running: number | null, limit: number | null): string {
  const count = running === null ? 'not counted by its health check' : String(running);
  return limit === null ? count : `${count}; at most ${limit} of this gateway`;
}
