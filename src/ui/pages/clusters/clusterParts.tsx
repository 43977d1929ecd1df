import { Badge, Group, SegmentedControl, Stack, Switch, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { SLOW_MS } from '../../client/queryClient.ts';
import {
  CLUSTERS,
  drainQuery,
  type FigureRange,
  figureRanges,
  type RunningFilter,
  useFigures,
  useRules,
} from '../../client/resources.ts';
import type { ClusterState, Drain, ResourceCondition, Statistics } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { formatElapsed } from '../../components/amounts.ts';
import type { Column } from '../../components/DataTable.tsx';
import { Faint, LightBadge, PlainTable, Strong, To } from '../../components/elements.tsx';
import { type Fact, FactList } from '../../components/FactList.tsx';
import { Panel } from '../../components/frame.tsx';
import { queryAddress, ruleAddress } from '../../components/links.ts';
import { MessageText } from '../../components/MessageText.tsx';
import { AuditLink } from '../../components/ownership.tsx';
import { RequestPanel, RequestState } from '../../components/states.tsx';
import { Ago, Time } from '../../components/time.tsx';
import { useRole, useSees } from '../../session/session.ts';
import { failuresText } from '../dashboard/chart.ts';
import detailClasses from './clusterPage.module.css';
import classes from './clusters.module.css';
import { discoveredText, leadsTo, type RuleDestination } from './clusterTexts.ts';
import { useSwitch } from './switching.ts';

interface ClusterProps {
  readonly cluster: ClusterState;
}

export const activeColumn = (mayWrite: boolean): Column<ClusterState> => ({
  ...{ id: 'active', header: 'Active', value: ({ active }) => String(active) },
  cell: (cluster) => <ActiveSwitch cluster={cluster} mayWrite={mayWrite} />,
});

/** Switch for new queries of a cluster, for users with the right, with its last change. */
export function ActiveSwitch({ cluster, mayWrite }: ClusterProps & { readonly mayWrite: boolean }) {
  const { isPending, wanted, switchTo } = useSwitch(cluster.name);
  const { active, override, differs, origin, routed } = cluster;
  const at = override?.at == null ? Number.NaN : Date.parse(override.at);
  return (
    <Stack gap={2}>
      <Switch
        aria-label={`${cluster.name} takes new queries`}
        checked={isPending ? wanted === true : active}
        readOnly={!mayWrite}
        disabled={!mayWrite || !routed || isPending}
        onChange={(event) => void switchTo(event.currentTarget.checked)}
        classNames={{ track: classes.track ?? '' }}
      />
      {!mayWrite && <Text size="xs">{active ? 'takes new queries' : 'takes no new queries'}</Text>}
      {override !== null && (
        <Faint>
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
type Beside = 'none' | 'its group' | 'all';

export function useMayDrain(): boolean {
  return [useRole('ADMIN'), useRole('API')].some(Boolean);
}

/** Remaining queries of an inactive cluster, kept up to date. The total rate of calls is that of one cluster. */
export function useDrain({ name, routingGroup, override }: ClusterState, beside: Beside) {
  const client = useQueryClient();
  const isDone = (each: string) => client.getQueryData(drainQuery(each).queryKey)?.drained === true;
  const offBeside = (): readonly string[] => {
    if (beside === 'none') return [name];
    const all = client.getQueryData<readonly ClusterState[]>(CLUSTERS) ?? [];
    const shown = beside === 'all' ? all : all.filter((each) => each.routingGroup === routingGroup);
    return shown.filter(({ active }) => !active).map((each) => each.name);
  };
  return useQuery({
    ...drainQuery(name),
    enabled: useMayDrain(),
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
export function DrainProgress({ cluster, beside }: ClusterProps & { readonly beside: Beside }) {
  const { running, override } = cluster;
  const { data: drain, isFetchedAfterMount } = useDrain(cluster, beside);
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

const MAX_RULES = 50;

interface LeadsProps extends RuleDestination {
  /** True if queries without another decision go there. */
  readonly isDefault: boolean;
}

/** Rules that route to a cluster or a routing group, for users who can see rules. */
export function Leads({ cluster, group, isDefault }: LeadsProps) {
  const isShown = [useSees('routing-rules'), useRole('ADMIN')].every(Boolean);
  const rules = useRules(isShown);
  const leads = useMemo(() => leadsTo(rules.data?.rules ?? [], { cluster, group }), [rules.data, cluster, group]);
  if (!isShown) return null;
  return (
    <RequestPanel title="Rules that lead here" query={rules} label="Loading rules">
      {({ engine }) => (
        <>
          {leads.length > 0 && (
            <ul className={detailClasses.list}>
              {leads.slice(0, MAX_RULES).map(({ rule: { name, description, status, message }, how }) => (
                <li key={name}>
                  <To address={ruleAddress(name)}>{name}</To>{' '}
                  <Text span size="sm">
                    {how}
                    {status === 'Programmed' ? '' : `; ${message}`}
                  </Text>
                  {description !== '' && <Faint>{description}</Faint>}
                </li>
              ))}
            </ul>
          )}
          <Text size="sm" c={leads.length === 0 ? '' : 'dimmed'}>
            {leadsNote(leads.length, isDefault, engine)}
          </Text>
        </>
      )}
    </RequestPanel>
  );
}

function leadsNote(count: number, isDefault: boolean, engine: 'on' | 'off' | 'external'): string {
  if (engine === 'external') return 'An external service decides where queries go.';
  const hidden = count > MAX_RULES ? `${count - MAX_RULES} more lead here. ` : '';
  const none = count === 0 ? 'No rule names it. ' : hidden;
  const byDefault = isDefault ? ' Queries that nothing else decides on go here: it is the default group.' : '';
  return `${none}Clients may name a group in a header, and actions may compute one.${byDefault}`;
}

interface QueryFiguresProps {
  readonly of: RunningFilter;
  readonly history: string;
}

const rangeChoices = [
  { value: 'hour', label: 'Last hour' },
  { value: 'day', label: 'Last day' },
  { value: 'week', label: 'Last week' },
];

/** Counts, durations and last errors of the queries that ended in the range of the address. */
export function QueryFigures(props: QueryFiguresProps) {
  return useSees('history') ? <ShownFigures {...props} /> : null;
}

function ShownFigures({ of, history }: QueryFiguresProps) {
  const [chosen, setChosen] = useAddressState('range', 'hour');
  const range = chosen in figureRanges ? (chosen as FigureRange) : 'hour';
  const figures = useFigures(of, range);
  const choose = (value: string) => setChosen(value, 'push');
  return (
    <Panel
      title="Rates and errors"
      actions={<SegmentedControl size="xs" aria-label="Range" data={rangeChoices} value={range} onChange={choose} />}
    >
      <RequestState query={figures} label="Loading figures">
        {({ figures: values, failures, keptHours }) => (
          <>
            {values === null ? (
              <Text size="sm">No query has ended in this time.</Text>
            ) : (
              <FactList facts={figureFacts(values, figureRanges[range])} />
            )}
            {failures.length > 0 && (
              <PlainTable
                label="Last errors"
                className={detailClasses.failures}
                head={['Last errors', 'Error']}
                rows={failures.map(({ queryId, created, user, outcome }) => ({
                  key: queryId,
                  cells: [
                    <div key="query" className={detailClasses.id}>
                      <To address={queryAddress(queryId)} size="xs">
                        {queryId}
                      </To>
                      <Faint>
                        <Time at={Date.parse(created)} /> {user ?? ''}
                      </Faint>
                    </div>,
                    <div key="error">
                      <Text size="xs">{outcome?.errorName ?? outcome?.state.toLowerCase()}</Text>
                      <Faint lineClamp={2} className={detailClasses.breaking}>
                        {outcome?.errorMessage}
                      </Faint>
                    </div>,
                  ],
                }))}
              />
            )}
            <Faint mt="xs">
              {figureRanges[range] > keptHours * 3_600_000 && `Queries are kept for ${keptHours} hours. `}
              <To address={history} size="xs">
                All in the history
              </To>
            </Faint>
          </>
        )}
      </RequestState>
    </Panel>
  );
}

type Values = Statistics['values'][number];

function figureFacts(values: Values, rangeMs: number): readonly Fact[] {
  const { queries, failures: failed, refused, userErrors, states, elapsedMillis, queuedMillis } = values;
  const perMinute = queries / (rangeMs / 60_000);
  const rate = perMinute >= 10 ? Math.round(perMinute) : perMinute.toFixed(1);
  const byState = Object.entries(states)
    .map(([state, count]) => [state, state === 'FAILED' ? count - userErrors : count] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count.toLocaleString('en')} ${state.toLowerCase()}`);
  const endings = userErrors === 0 ? byState : [...byState, `${userErrors.toLocaleString('en')} users’ errors`];
  const share = (failed + refused) / queries;
  return [
    ['Queries', `${queries.toLocaleString('en')} (${rate} a minute)`],
    ['How they ended', endings.join(', ')],
    ['Failed or refused', `${(share * 100).toFixed(1)} %: ${failuresText({ failed, refused, userErrors })}`],
    ['Duration', percentilesText(elapsedMillis)],
    ['Queued', percentilesText(queuedMillis)],
  ];
}

function percentilesText({ p50, p95, p99 }: Values['elapsedMillis']): string {
  if (p50 === null || p95 === null || p99 === null) return 'not known';
  return `half within ${formatElapsed(p50)}, 95 % within ${formatElapsed(p95)}, 99 % within ${formatElapsed(p99)}`;
}
