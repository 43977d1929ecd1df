import { Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { REST_MS, useClusters, useQueue, useRunning } from '../../client/resources.ts';
import type { ClusterState, QueuedQuery, RunningQuery } from '../../client/types.ts';
import { Faint, formatElapsed, To } from '../../components/elements.tsx';
import { PlainTable } from '../../components/facts.tsx';
import { Panel, RequestState } from '../../components/frame.tsx';
import { ClusterName, QueryId } from '../../components/names.tsx';
import { Ago } from '../../components/time.tsx';
import { useRole, useSees } from '../../session/session.ts';
import classes from './dashboard.module.css';

const MAX_ROWS = 5;

/** Queries that run and wait, by user and source, and clusters that take no new queries. Users without ADMIN see only their queries. */
export function Now() {
  return (
    <Panel title={useRole('ADMIN') ? 'Now' : 'Your queries now'}>
      <div className={classes.columns}>
        <Running />
        <Waiting />
        {useSees('cluster') && <OutOfRotation />}
      </div>
    </Panel>
  );
}

function Running() {
  const running = useRunning({}, REST_MS);
  return (
    <RequestState query={running} label="Loading the queries that run">
      {({ queries, complete }) => (
        <div>
          <Count count={queries.length} more={!complete} one="query runs" several="queries run">
            {queries[0] !== undefined && <Oldest id={queries[0].queryId} since={queries[0].since} what="longest" />}
          </Count>
          {queries.length > 0 && (
            <>
              <ByTime label="User" queries={queries} of={({ user }) => user} />
              <ByTime label="Source" queries={queries} of={({ source }) => source} />
            </>
          )}
        </div>
      )}
    </RequestState>
  );
}

function Waiting() {
  return (
    <RequestState query={useQueue()} label="Loading the queue">
      {({ queries, total }) => {
        const [oldest] = queries;
        return (
          <div>
            <Count count={total} one="query waits" several="queries wait">
              {oldest !== undefined && <Oldest id={oldest.id} since={oldest.since} what="oldest" />}
            </Count>
            {oldest !== undefined && <Reasons queries={queries} />}
          </div>
        );
      }}
    </RequestState>
  );
}

interface CountProps {
  readonly count: number;
  readonly more?: boolean;
  readonly one: string;
  readonly several: string;
  readonly children: ReactNode;
}

function Count({ count, more = false, one, several, children }: CountProps) {
  const text = `${count.toLocaleString('en')}${more ? ' or more' : ''} ${count === 1 && !more ? one : several}`;
  return (
    <Text fw={600} component="div">
      {useSees('queue') ? <To address="/queue">{text}</To> : text} {children}
    </Text>
  );
}

interface OldestProps {
  readonly id: string;
  readonly since: string;
  readonly what: string;
}

function Oldest({ id, since, what }: OldestProps) {
  return (
    <Faint size="sm">
      {what}: <QueryId id={id} />, <Ago at={Date.parse(since)} />
    </Faint>
  );
}

interface ByTimeProps {
  readonly label: string;
  readonly queries: readonly RunningQuery[];
  readonly of: (query: RunningQuery) => string | null;
}

/** Users or sources by the sum of the times that their queries have run. */
function ByTime({ label, queries, of }: ByTimeProps) {
  const isLinked = useSees('queue');
  const sums = [...Map.groupBy(queries, of)].map(([name, own]) => ({
    ...{ name, count: own.length },
    seconds: own.reduce((sum, { ageSeconds }) => sum + ageSeconds, 0),
  }));
  const rows = sums.sort((a, b) => b.seconds - a.seconds).slice(0, MAX_ROWS);
  return (
    <PlainTable
      label={`${label}s by running time`}
      head={[label, 'Queries', 'Running time']}
      numbersFrom={1}
      rows={rows.map(({ name, count, seconds }) => ({
        key: name ?? ' unknown',
        cells: [
          isLinked ? <Filtered key="name" name={name} /> : (name ?? '–'),
          count.toLocaleString('en'),
          formatElapsed(seconds * 1000),
        ],
      }))}
    />
  );
}

/** Link to the running queries of a user or source. */
function Filtered({ name }: { readonly name: string | null }) {
  return name === null ? '–' : <To address={`/queue?running=${encodeURIComponent(name)}`}>{name}</To>;
}

/** Reasons of waits with their numbers of queries. */
function Reasons({ queries }: { readonly queries: readonly QueuedQuery[] }) {
  const counts = [...Map.groupBy(queries, ({ reason }) => reason)].sort(([, a], [, b]) => b.length - a.length);
  return (
    <PlainTable
      label="Reasons of waiting"
      head={['Why', 'Queries']}
      numbersFrom={1}
      cellClass={classes.name}
      rows={counts.slice(0, MAX_ROWS).map(([reason, own]) => ({ key: reason, cells: [reason, own.length] }))}
    />
  );
}

function OutOfRotation() {
  return (
    <RequestState query={useClusters(REST_MS)} label="Loading the backends">
      {(clusters) => {
        const out = clusters.filter(({ takesNewQueries, rolloutOnly }) => !takesNewQueries && !rolloutOnly);
        return (
          <div>
            <Count count={out.length} one="backend takes no queries" several="backends take no queries">
              {null}
            </Count>
            {out.length > 0 && (
              <PlainTable
                label="Backends out of rotation"
                head={['Backend', 'Why']}
                cellClass={classes.name}
                rows={out.slice(0, MAX_ROWS).map((cluster) => ({
                  key: cluster.name,
                  cells: [<ClusterName key="name" name={cluster.name} />, <Why key="why" cluster={cluster} />],
                }))}
              />
            )}
          </div>
        );
      }}
    </RequestState>
  );
}

function Why({ cluster: { routed, active, override, reason } }: { readonly cluster: ClusterState }) {
  if (!routed) return 'its resource is not accepted';
  if (active) return reason;
  if (override === null) return 'switched off in its resource';
  return (
    <>
      switched off by {override.by}
      {override.at !== null && ', '}
      {override.at !== null && <Ago at={Date.parse(override.at)} />}
    </>
  );
}
