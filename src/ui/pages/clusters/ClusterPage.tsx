import { Badge, Button, Group, Text } from '@mantine/core';
import { IconExternalLink, IconPencil } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { API_FIELD_MANAGER } from '../../../model/resource.ts';
import { isMissing } from '../../client/call.ts';
import { RARELY_MS } from '../../client/live.ts';
import { RUNNING_KEY, useCluster } from '../../client/resources.ts';
import type { ClusterDetails } from '../../client/types.ts';
import { useOpenInAddress } from '../../components/addressState.ts';
import { Faint, formatElapsed, Notice, SmallAction, To } from '../../components/elements.tsx';
import { FactList, PlainTable, StatusBadge } from '../../components/facts.tsx';
import { Columns, EmptyState, PageFrame, Panel, RequestState } from '../../components/frame.tsx';
import {
  ClusterNames,
  clusterHistoryAddress,
  GroupName,
  queryAddress,
  useNameInPath,
} from '../../components/names.tsx';
import { Ago, Time } from '../../components/time.tsx';
import { useSees } from '../../session/session.ts';
import { Leads, QueryFigures } from '../groups/objectParts.tsx';
import { RunningTable, WaitingQueries } from '../queue/tables.tsx';
import {
  ActiveSwitch,
  ClusterAudit,
  Conditions,
  DiscoveredNote,
  DrainProgress,
  newQueriesText,
  resourceFacts,
  sourceOf,
  useDrain,
  useMayDrain,
} from './clusterParts.tsx';
import classes from './clusters.module.css';
import { OpenedForm } from './switching.tsx';

/** Address parameters that open the form. */
const forms = ['edit'] as const;

/** All data of a backend: state, history, running queries, sources of queries, and declaration. */
export default function ClusterPage() {
  const name = useNameInPath();
  const cluster = useCluster(name);
  const [opened, setOpened] = useOpenInAddress(forms);
  const isGone = isMissing(cluster.error);
  const engine = cluster.data?.externalUrl ?? cluster.data?.proxyTo;
  const isEditable = cluster.data?.mayChange === true && cluster.data.routed && cluster.data.discovery === null;
  const actions = isGone ? undefined : (
    <>
      {engine != null && (
        <Button
          {...{ component: 'a', href: engine, target: '_blank', rel: 'noreferrer', size: 'xs', variant: 'default' }}
          leftSection={<IconExternalLink size={16} aria-hidden />}
        >
          Engine's page
        </Button>
      )}
      {isEditable && (
        <SmallAction label="Edit" icon={IconPencil} onClick={() => setOpened({ kind: 'edit', key: '' })} />
      )}
    </>
  );
  const missing = (
    <EmptyState title={`There is no backend ${name}, or not any more.`}>
      <To address="/clusters">To all backends</To>
      <To address={clusterHistoryAddress(name)}>To its queries in the history</To>
    </EmptyState>
  );
  return (
    <PageFrame title={`Backend ${name}`} actions={actions}>
      <RequestState query={cluster} label="Loading the backend" missing={missing}>
        {(data) => <Whole key={name} cluster={data} />}
      </RequestState>
      {opened !== null && cluster.data?.name === name && (
        <OpenedForm
          key={name}
          name={name}
          cluster={isGone ? undefined : cluster.data}
          groups={cluster.data.routingGroup === null ? [] : [cluster.data.routingGroup]}
          onClose={() => setOpened(null)}
        />
      )}
    </PageFrame>
  );
}

interface DetailsProps {
  readonly cluster: ClusterDetails;
}

function Whole({ cluster }: DetailsProps) {
  const { name, group, routed, active, resource } = cluster;
  const seesQueue = useSees('queue');
  // These are refetched after the remaining queries.
  const isDrained = useMayDrain(cluster) && routed && !active;
  return (
    <>
      {group !== null && group.others.length === 0 && !cluster.takesNewQueries && (
        <Notice tone="warning" title={`No backend of ${group.name} takes new queries`}>
          {newQueriesText(group.withoutTakers)}
        </Notice>
      )}
      <Columns>
        <Panel title="State">
          <State cluster={cluster} />
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

function State({ cluster }: DetailsProps) {
  const { status, reason, checkedAt, routed, proxyTo, sharesUrlWith, queued, running, workers, group } = cluster;
  const { maxRunningQueries, rolloutOnly, ejection, flappingSince, discovery } = cluster;
  const check = (
    <Text key="check" size="sm">
      {reason}
      {checkedAt !== null && (
        <>
          , <Ago at={Date.parse(checkedAt)} />
        </>
      )}
    </Text>
  );
  const shares = (
    <span key="shares">
      with <ClusterNames names={sharesUrlWith} />: health and counts of the engine are those of all of them
    </span>
  );
  const others = (
    <span key="others">
      <ClusterNames names={group?.others ?? []} />
    </span>
  );
  const hasOthers = group !== null && group.others.length > 0;
  return (
    <FactList
      facts={[
        ['Status', routed ? <StatusBadge key="status" status={status} /> : 'not routed'],
        ['Last check', check],
        ['Flapping since', flappingSince === null ? undefined : <Time key="flap" at={Date.parse(flappingSince)} />],
        ['On trial', ejection === 'trial' ? 'takes a tenth of its share of new queries' : undefined],
        [
          'New queries',
          <Group key="active">
            <ActiveSwitch cluster={cluster} />
          </Group>,
        ],
        ['Running', countText(running, maxRunningQueries)],
        ['Rollouts', rolloutOnly ? 'takes queries of rollouts, and of rules that name it, only' : undefined],
        ['Queued there', queued ?? 'not counted by its health check'],
        ['Workers', workers ?? undefined],
        ['Routing group', group === null ? '–' : <GroupName key="group" name={group.name} />],
        ['Others of the group', hasOthers ? others : 'none that takes new queries'],
        ['URL', proxyTo ?? '–'],
        ['Shares its URL', sharesUrlWith.length === 0 ? undefined : shares],
        discovery === null
          ? ['Declared by', sourceOf(cluster)]
          : ['Discovered by', `${discovery.name}, of the Service ${discovery.service ?? 'it had'}`],
      ]}
    />
  );
}

function countText(running: number | null, limit: number | null): string {
  const count = running === null ? 'not counted by its health check' : String(running);
  return limit === null ? count : `${count}; at most ${limit} of this gateway`;
}

/** The last states of a cluster, newest first, each with its reason and duration. */
function HealthTimeline({ cluster: { changes, replica } }: DetailsProps) {
  if (changes.length === 0) return <Text size="sm">Nothing is checked while it is not routed.</Text>;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1) */}
      <section className={classes.scrolling} tabIndex={0} aria-label="Health timeline">
        <ol className={classes.timeline}>
          {changes.map(({ since, status, reason, active }, index) => {
            const begun = Date.parse(since);
            const before = changes[index + 1];
            const next = changes[index - 1];
            return (
              <li key={`${since} ${status} ${active}`}>
                <Group gap="xs">
                  <StatusBadge status={status} />
                  {!active && <Badge variant="default">{before?.active === true ? 'switched off' : 'off'}</Badge>}
                  {active && before?.active === false && <Badge variant="default">switched on</Badge>}
                  <Faint>
                    {next === undefined ? 'since ' : ''}
                    <Time at={begun} />
                    {next === undefined ? ', ' : `, for ${formatElapsed(Math.max(0, Date.parse(next.since) - begun))}`}
                    {next === undefined && <Ago at={begun} />}
                  </Faint>
                </Group>
                <Text size="sm" className={classes.breaking}>
                  {reason}
                </Text>
              </li>
            );
          })}
        </ol>
      </section>
      <Faint mt="xs" className={classes.breaking}>
        As the replica {replica} saw it, since it was started: at most 50 states. Each replica checks for itself.
      </Faint>
    </>
  );
}

const MAX_QUERIES = 20;

function Remaining({ cluster }: DetailsProps) {
  const mayAsk = useMayDrain(cluster);
  const { data: drain } = useDrain(cluster, 'none');
  useRunningAfter(drain?.queries.map(({ queryId }) => queryId).join());
  const { running } = cluster;
  return (
    <Panel title="Drain">
      <div className={classes.drain}>
        <DrainProgress cluster={cluster} others="none" />
      </div>
      {!mayAsk && running === null && <Text size="sm">It takes no new queries; what it runs is not counted.</Text>}
      {drain?.complete === false && (
        <Text size="sm">The database is unavailable: only queries of the replica that answers are counted.</Text>
      )}
      {drain?.settled === false && drain.complete && (
        <Text size="sm">
          It was switched off only seconds ago: other replicas may know of queries that are not counted yet.
        </Text>
      )}
      {drain?.reported != null && (
        <Text size="sm">
          The engine itself counts {drain.reported.running ?? 'no'} running and {drain.reported.queued ?? 'no'} queued,{' '}
          <Ago at={Date.parse(drain.reported.checkedAt)} />.
        </Text>
      )}
      {drain !== undefined && drain.queries.length > 0 && (
        <ul className={classes.list} aria-label="Queries that are left">
          {drain.queries.slice(0, MAX_QUERIES).map(({ queryId, since }) => (
            <li key={queryId} className={classes.id}>
              <To address={queryAddress(queryId)} size="xs">
                {queryId}
              </To>{' '}
              <Text span size="xs">
                since <Ago at={Date.parse(since)} />
              </Text>
            </li>
          ))}
        </ul>
      )}
      {drain !== undefined && drain.runningQueries > MAX_QUERIES && (
        <Text size="xs">These are the oldest {MAX_QUERIES}.</Text>
      )}
    </Panel>
  );
}

/** Refetches the running queries when the remaining count changes, as they are not polled meanwhile. */
function useRunningAfter(left: string | undefined): void {
  const client = useQueryClient();
  const before = useRef(left);
  useEffect(() => {
    if (before.current !== undefined && before.current !== left) void client.refetchQueries({ queryKey: RUNNING_KEY });
    before.current = left;
  }, [client, left]);
}

/** Declared fields of a cluster's resource with their managers, compared with the active values. */
function Declared({ cluster }: DetailsProps) {
  const { fields, resource, override, specActive } = cluster;
  if (resource === null) {
    return (
      <Text size="sm">
        A row of a gateway that ran before; it has no resource. The first change by REST or on a page makes one.
      </Text>
    );
  }
  return (
    <>
      <Text size="sm" mb="xs">
        {differencesText(cluster)}
      </Text>
      {override !== null && (
        <Text size="sm" mb="xs">
          Overridden: {override.active ? 'on' : 'off'} by {override.by}
          {override.at !== null && (
            <>
              {' '}
              at <Time at={Date.parse(override.at)} />
            </>
          )}
          ; the resource says {specActive ? 'on' : 'off'}. Switching it {specActive ? 'on' : 'off'} ends the override.
        </Text>
      )}
      <PlainTable
        label="Declared and in force"
        className={classes.declared}
        cellClass={classes.field}
        hasRowHeads
        head={['Field', 'Declared', 'In force']}
        rows={fields.map(({ field, declared, inForce, differs, managers }) => ({
          key: field,
          className: differs ? classes.differing : undefined,
          cells: [
            <span key="field">
              {field}
              {differs && (
                <Badge variant="light" color="orange" size="sm" ml={6}>
                  differs
                </Badge>
              )}
            </span>,
            <div key="declared">
              {valueText(declared)}
              <Faint>{ownersText(managers)}</Faint>
            </div>,
            valueText(inForce),
          ],
        }))}
      />
      <div className={classes.place}>
        <FactList facts={resourceFacts(resource)} />
      </div>
      <ClusterAudit name={cluster.name} />
    </>
  );
}

const ownManager: typeof API_FIELD_MANAGER = 'engine-gateway-api';

export function valueText(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Owners of a field; empty if unknown. */
export function ownersText(managers: readonly string[]): string {
  const named = managers.map((manager) => (manager === ownManager ? 'REST, which has taken it over' : manager));
  return named.length === 0 ? '' : `by ${named.join(' and ')}`;
}

/** Compares active and declared values, with the reason for differences. */
export function differencesText(cluster: Pick<ClusterDetails, 'fields' | 'resource' | 'routed' | 'override'>): string {
  const { fields, resource, routed, override } = cluster;
  const count = fields.filter(({ differs }) => differs).length;
  if (!routed) return 'Nothing of it is in force: it is not routed.';
  if (count === 0) return 'All that is declared is in force.';
  const acceptance = resource?.conditions.find(({ type }) => type === 'Accepted');
  const reasons = [
    ...(resource?.suspended === true ? ['the resource is suspended'] : []),
    ...(acceptance?.status === 'False' ? [`the resource is not accepted: ${acceptance.message}`] : []),
    ...(override === null ? [] : ['an override is in force']),
  ];
  const what = `${count === 1 ? '1 field is' : `${count} fields are`} in force as other than declared`;
  return `${what}${reasons.length === 0 ? '' : `: ${reasons.join('; ')}`}.`;
}
