import { Anchor, Paper, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import type { Overview, RateSeries } from '../../client/types.ts';
import { formatElapsed } from '../../components/amounts.ts';
import { StatusBadge } from '../../components/badges.tsx';
import { useTimeZone } from '../../components/time.tsx';
import { clockText } from '../../components/zonedTime.ts';
import { failuresText, rateTotals } from './chart.ts';
import classes from './dashboard.module.css';

interface FiguresProps {
  readonly series: RateSeries;
  readonly range: string;
  /** Null: not loaded yet. */
  readonly overview: Overview | null;
}

/** Key figures: current clusters, queries of the range on all replicas. */
export function Figures({ series, range, overview }: FiguresProps) {
  const totals = rateTotals(series);
  const { queries, perMinute, faultyShare } = totals;
  const hasTimes = ({ elapsedMillis }: RateSeries['intervals'][number]) => elapsedMillis.p95 !== null;
  // The last interval is incomplete.
  const last = series.intervals.slice(0, -1).findLast(hasTimes) ?? series.intervals.findLast(hasTimes);
  const [minutes, start] = [series.intervalMs / 60_000, last?.start];
  const when = start === undefined ? 'no query ended' : <IntervalName start={start} minutes={minutes} />;
  return (
    <dl className={classes.figures}>
      {overview !== null && <Clusters clusters={overview.clusters} />}
      <Figure name="Queries" value={queries}>
        in {range}, {perMinute.toLocaleString('en', { maximumFractionDigits: 1 })} a minute
      </Figure>
      <Figure name="Failed or refused" value={faultyShare === null ? '–' : `${(faultyShare * 100).toFixed(1)} %`}>
        {failuresText(totals)}
      </Figure>
      <Figure name="Duration, p95" value={text(last?.elapsedMillis.p95)}>
        p50 {text(last?.elapsedMillis.p50)}, {when}
      </Figure>
      <Figure name="Queued, p95" value={text(last?.queuedMillis.p95)}>
        p50 {text(last?.queuedMillis.p50)}, {when}
      </Figure>
    </dl>
  );
}

function IntervalName({ start, minutes }: { readonly start: number; readonly minutes: number }) {
  const { timeZone } = useTimeZone();
  return `in ${minutes === 1 ? 'the minute' : `${minutes} minutes`} from ${clockText(start, timeZone)}`;
}

function text(milliseconds: number | null | undefined): string {
  return milliseconds == null ? '–' : formatElapsed(milliseconds);
}

function Clusters({ clusters }: { readonly clusters: Overview['clusters'] }) {
  const { byStatus, total, active, inactive, running, queued } = clusters;
  return (
    <Figure name="Backends" value={`${byStatus.HEALTHY ?? 0} of ${total} healthy`}>
      <Anchor component={Link} to="/clusters" size="sm">
        {active} active, {inactive} inactive
      </Anchor>
      {(['UNHEALTHY', 'PENDING'] as const).map((status) =>
        byStatus[status] === undefined ? null : (
          <span key={status} className={classes.state}>
            {byStatus[status]} <StatusBadge status={status} />
          </span>
        ),
      )}
      {running + queued > 0 && (
        <span className={classes.state}>
          {running.toLocaleString('en')} queries run, {queued.toLocaleString('en')} are queued there
        </span>
      )}
    </Figure>
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
        <Text component="span" size="sm" c="dimmed" className={classes.beside}>
          {children}
        </Text>
      </dd>
    </Paper>
  );
}
