import { Anchor, Paper, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import { useClusters } from '../../client/clusters.ts';
import type { Overview } from '../../client/types.ts';
import { StatusBadge } from '../../components/StatusBadge.tsx';
import classes from './dashboard.module.css';

/** The numbers that are looked at first. */
export function Figures({ overview: { clusters, traffic } }: { readonly overview: Overview }) {
  const listed = useClusters().data ?? [];
  const counted = listed.length === 0 || listed.some(({ running }) => running !== null);
  const { byStatus } = clusters;
  const refused = traffic.refusals.reduce((sum, { count }) => sum + count, 0);
  const errors = traffic.clusterErrors.reduce((sum, { count }) => sum + count, 0);
  return (
    <dl className={classes.figures}>
      <Figure name="Backends" value={clusters.total}>
        <Anchor component={Link} to="/clusters" size="sm">
          {clusters.active} active, {clusters.inactive} inactive
        </Anchor>
      </Figure>
      <Figure name="Health" value={`${byStatus.HEALTHY ?? 0} of ${clusters.total} healthy`}>
        {(['UNHEALTHY', 'PENDING'] as const).map((status) =>
          byStatus[status] === undefined ? null : (
            <span key={status} className={classes.state}>
              {byStatus[status]} <StatusBadge status={status} />
            </span>
          ),
        )}
      </Figure>
      <Figure name="Running queries" value={counted ? clusters.running : '–'}>
        {counted ? `${clusters.queued} queued, as the health checks count them` : 'The health checks count none.'}
      </Figure>
      <Figure name="Submitted" value={traffic.submissions}>
        queries since the start; {clusters.inFlight} requests under way
      </Figure>
      <Figure name="Refused" value={refused}>
        requests since the start
      </Figure>
      <Figure name="Backend errors" value={errors}>
        since the start
      </Figure>
    </dl>
  );
}

interface FigureProps {
  readonly name: string;
  readonly value: number | string;
  readonly children: ReactNode;
}

function Figure({ name, value, children }: FigureProps) {
  return (
    <Paper withBorder p="sm" className={classes.figure}>
      <Text component="dt" size="sm" c="dimmed">
        {name}
      </Text>
      <dd className={classes.value}>
        <Text component="span" size="xl" fw={600}>
          {typeof value === 'number' ? value.toLocaleString('en') : value}
        </Text>
        <Text component="span" size="sm" c="dimmed">
          {children}
        </Text>
      </dd>
    </Paper>
  );
}
