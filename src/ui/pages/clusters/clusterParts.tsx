import { Badge, Group, Stack, Switch, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { ENGINE_CLUSTER_DISCOVERY } from '../../../kinds/engineClusterDiscovery/spec.ts';
import { SLOW_MS } from '../../client/call.ts';
import { CLUSTERS, drainQuery } from '../../client/resources.ts';
import type { ClusterState, Drain, NewQueries, ResourceCondition } from '../../client/types.ts';
import type { Column } from '../../components/DataTable.tsx';
import { Faint, formatElapsed, LightBadge, Strong } from '../../components/elements.tsx';
import type { Fact } from '../../components/facts.tsx';
import { AuditLink, managersText } from '../../components/ownership.tsx';
import { Ago, MessageText, Time } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';
import classes from './clusters.module.css';
import { useSwitch } from './switching.tsx';

interface ClusterProps {
  readonly cluster: ClusterState;
}

export const activeColumn: Column<ClusterState> = {
  ...{ id: 'active', header: 'Active', value: ({ active }) => String(active) },
  cell: (cluster) => <ActiveSwitch cluster={cluster} />,
};

/** Switch for new queries of a cluster, for users with the right, with its last change. */
export function ActiveSwitch({ cluster }: ClusterProps) {
  const { isPending, wanted, switchTo } = useSwitch(cluster.name);
  const { active, override, differs, origin, routed, mayChange } = cluster;
  const at = override?.at == null ? Number.NaN : Date.parse(override.at);
  return (
    <Stack gap={2}>
      <Switch
        aria-label={`${cluster.name} takes new queries`}
        checked={isPending ? wanted === true : active}
        readOnly={!mayChange}
        disabled={!mayChange || !routed || isPending}
        onChange={(event) => void switchTo(event.currentTarget.checked)}
        classNames={{ track: classes.track ?? '' }}
      />
      {!mayChange && <Text size="xs">{active ? 'takes new queries' : 'takes no new queries'}</Text>}
      {override !== null && (
        <Faint className={classes.breaking}>
          {override.active ? 'on' : 'off'} by {override.by}
          {Number.isNaN(at) ? '' : ', '}
          {!Number.isNaN(at) && <Ago at={at} />}
        </Faint>
      )}
      {differs && (
        <span className={classes.differs}>
          {origin === 'kubernetes' ? 'differs from Git' : 'differs from the resource'}
        </span>
      )}
    </Stack>
  );
}

/** Polling interval of a recently deactivated cluster, until all replicas know. */
const SETTLING_MS = 5_000;

/** Polling interval of a drained cluster: no new queries arrive while it is inactive. */
const DRAINED_MS = 60_000;

/** Above this number of clusters, the progress of others is polled less often. */
const MAX_BESIDE = 50;

/** Other clusters on the same page. */
type OtherClusters = 'none' | 'its group' | 'all';

export function useMayDrain({ mayChange }: ClusterState): boolean {
  return useRole('API') || mayChange;
}

/** Remaining queries of an inactive cluster, kept up to date. The total rate of calls is that of one cluster. */
export function useDrain(cluster: ClusterState, others: OtherClusters) {
  const { name, routingGroup, override } = cluster;
  const client = useQueryClient();
  const isDone = (each: string) => client.getQueryData(drainQuery(each).queryKey)?.drained === true;
  const offBeside = (): readonly string[] => {
    if (others === 'none') return [name];
    const all = client.getQueryData<readonly ClusterState[]>(CLUSTERS) ?? [];
    const shown = others === 'all' ? all : all.filter((each) => each.routingGroup === routingGroup);
    return shown.filter(({ active }) => !active).map((each) => each.name);
  };
  return useQuery({
    ...drainQuery(name),
    enabled: useMayDrain(cluster),
    refetchInterval: ({ state: { data } }) => {
      const off = offBeside();
      const done = off.slice(0, MAX_BESIDE).filter(isDone).length;
      if (data?.drained === true && isCheckedSinceOff(data, override)) return DRAINED_MS * Math.max(1, done);
      return (data?.settled === false ? SETTLING_MS : SLOW_MS) * Math.max(1, off.length - done);
    },
  });
}

/** True if the health check counts queries and ran after the cluster was deactivated. */
function isCheckedSinceOff({ reported }: Drain, override: ClusterState['override']): boolean {
  const offSince = override?.at == null ? Number.NEGATIVE_INFINITY : Date.parse(override.at);
  return reported === null || Date.parse(reported.checkedAt) > offSince;
}

/** Badges with whole sentences wrap in narrow columns. */
const wrapping = { root: { height: 'auto' }, label: { whiteSpace: 'normal' } } as const;

/** Remaining queries of an inactive cluster: queries that clients follow here, or the cluster's own count. */
export function DrainProgress({ cluster, others }: ClusterProps & { readonly others: OtherClusters }) {
  const { running, override } = cluster;
  const { data: drain, isFetchedAfterMount } = useDrain(cluster, others);
  const left = Math.max(running ?? 0, drain?.runningQueries ?? 0);
  if (drain === undefined && left === 0) return null;
  // A response or health check from before does not include the last queries.
  const isOver = drain?.drained === true && isFetchedAfterMount && isCheckedSinceOff(drain, override);
  if (left === 0 && (isOver || drain?.complete === true))
    return (
      <Badge variant="default" styles={wrapping}>
        {isOver ? 'No query left' : 'Looking for queries'}
      </Badge>
    );
  return (
    <>
      <Badge variant="light" color="blue" styles={wrapping}>
        Draining, {drain?.complete === false ? 'at least ' : ''}
        {left} left
      </Badge>
      {drain?.oldestSince != null && (
        <Faint>
          the oldest since <Ago at={Date.parse(drain.oldestSince)} />
        </Faint>
      )}
    </>
  );
}

/** Note about the discovery of a cluster, for its page and details; nothing for others. */
export function DiscoveredNote({ cluster }: ClusterProps) {
  const why = discoveredText(cluster);
  return why === null ? null : (
    <Text size="sm" role="note">
      {why}
    </Text>
  );
}

export function ClusterAudit({ name }: { readonly name: string }) {
  return <AuditLink kind="EngineCluster" name={name} />;
}

/** Facts about the resource of a cluster. */
export const resourceFacts = (resource: NonNullable<ClusterState['resource']>): readonly Fact[] => [
  ['Resource', `${resource.namespace}/${resource.name}`],
  ['Place', resource.place === '' ? '–' : resource.place],
  ['Generation', resource.generation],
];

export function Conditions({ conditions }: { readonly conditions: readonly ResourceCondition[] }) {
  if (conditions.length === 0) return <Text size="sm">None yet.</Text>;
  return (
    <ul className={classes.conditions}>
      {conditions.map(({ type, status, reason, message, lastTransitionTime }) => {
        const isGood = (status === 'True') !== (type === 'Stalled');
        return (
          <li key={type}>
            <Group gap="xs">
              <Strong>{type}</Strong>
              <LightBadge color={status === 'Unknown' ? 'yellow' : isGood ? 'green' : 'red'} text={status} />
              <Text size="sm">{reason}</Text>
            </Group>
            <Text size="sm">
              <MessageText text={message} />
            </Text>
            <Faint>
              since <Time at={Date.parse(lastTransitionTime)} />
            </Faint>
          </li>
        );
      })}
    </ul>
  );
}

/** Short text for the source of a cluster: manager of its resource, file, REST, or an unmanaged row. */
export function sourceOf({
  origin,
  resource,
  discovery,
}: Pick<ClusterState, 'origin' | 'resource' | 'discovery'>): string {
  if (discovery !== null) return `discovered by ${discovery.name}`;
  if (origin === 'kubernetes') return managersText(resource?.managers ?? []) || 'Kubernetes';
  return { row: 'row without a resource', directory: 'file', database: 'REST' }[origin];
}

const discoveryKind: typeof ENGINE_CLUSTER_DISCOVERY = 'EngineClusterDiscovery';

/**
 * Explains why a discovered cluster cannot be edited or deleted, and what to change instead; null for other clusters.
 */
export function discoveredText({ discovery, resource }: Pick<ClusterState, 'discovery' | 'resource'>): string | null {
  if (discovery === null) return null;
  const name = `${resource === null ? '' : `${resource.namespace}/`}${discovery.name}`;
  const service = discovery.service === null ? '' : ` from the Service ${discovery.service}`;
  return `Discovered${service} by the ${discoveryKind} ${name}: change its template, or labels and annotations of the Service. Switching on and off works here.`;
}

/** Describes what happens to new queries of a group without active clusters. */
export function newQueriesText(newQueries: NewQueries): string {
  switch (newQueries.outcome) {
    case 'fallback':
    case 'default': {
      const { routingGroup, clusters, outcome } = newQueries;
      const which = outcome === 'default' ? 'the default group' : 'its fallback';
      return `New queries go to ${which} ${routingGroup} (${someNames(clusters)}).`;
    }
    case 'wait': {
      const { maxQueued, maxWaitMillis } = newQueries;
      return `New queries wait for a backend, at most ${maxQueued.toLocaleString('en')} at a time and each at most ${formatElapsed(maxWaitMillis)}; beyond that they are refused.`;
    }
    case 'refused':
      return 'New queries are refused: clients get the error NO_NODES_AVAILABLE.';
  }
}

const MAX_NAMES = 5;

export function someNames(names: readonly string[]): string {
  const others = names.length - MAX_NAMES;
  return others > 0 ? `${names.slice(0, MAX_NAMES).join(', ')} and ${others} more` : names.join(', ');
}
