import { Anchor, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { Link } from 'react-router';
import { useDrain } from '../../client/clusters.ts';
import { RUNNING_KEY } from '../../client/running.ts';
import type { ClusterDetails } from '../../client/types.ts';
import { queryAddress } from '../../components/links.ts';
import { Panel } from '../../components/Panel.tsx';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';
import classes from './clusterPage.module.css';
import { DrainProgress } from './DrainProgress.tsx';

const MAX_QUERIES = 20;

export function Remaining({ cluster }: { readonly cluster: ClusterDetails }) {
  const mayAsk = [useRole('ADMIN'), useRole('API')].some(Boolean);
  const { data: drain } = useDrain(cluster, mayAsk, 'none');
  useRunningAfter(drain?.queries.map(({ queryId }) => queryId).join());
  const { running } = cluster;
  return (
    <Panel title="Drain">
      <div className={classes.drain}>
        <DrainProgress cluster={cluster} beside="none" />
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
              <Anchor component={Link} to={queryAddress(queryId)} size="xs" underline="always">
                {queryId}
              </Anchor>{' '}
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
