import { Anchor, Group, Paper, SegmentedControl, Text } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import { type ReactNode, useMemo } from 'react';
import { Link } from 'react-router';
import { useOverview, useProblems, useQuerySeries, useRateSeries } from '../../client/resources.ts';
import type { Overview, QuerySeries, RateSeries } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { Faint, formatElapsed, To } from '../../components/elements.tsx';
import { PlainTable, StatusBadge } from '../../components/facts.tsx';
import { EmptyState, PageFrame, Panel, RequestPanel, RequestState } from '../../components/frame.tsx';
import { clusterHistoryAddress } from '../../components/names.tsx';
import { Ago, useTimeZone } from '../../components/time.tsx';
import { clockText } from '../../components/zonedTime.ts';
import { useSees } from '../../session/session.ts';
import { clusterLines, colorOf, durationLines, failureLines, failuresText, MAX_LINES, rateTotals } from './chart.ts';
import classes from './dashboard.module.css';
import { Now } from './Now.tsx';
import { GATEWAY_ANCHOR, Problems, Verdict } from './Problems.tsx';
import { TimeChart } from './TimeChart.tsx';

const rateText = (value: number) => value.toLocaleString('en', { maximumFractionDigits: 2 });

/** Dashboard: current problems with start and effect; rates and durations over time, on all replicas. */
export default function DashboardPage() {
  const [range, setRange] = useAddressState('minutes', '60');
  const minutes = /^[1-9]\d{0,4}$/.test(range) ? range : '60';
  const overview = useOverview();
  const problems = useProblems();
  const queries = useQuerySeries(minutes, MAX_LINES);
  const rates = useRateSeries(minutes);
  const keptHours = (queries.data ?? rates.data)?.keptHours ?? null;
  const lines = useMemo(() => (queries.data === undefined ? [] : clusterLines(queries.data)), [queries.data]);
  const failures = useMemo(() => (rates.data === undefined ? [] : failureLines(rates.data)), [rates.data]);
  const durations = useMemo(() => (rates.data === undefined ? [] : durationLines(rates.data)), [rates.data]);
  return (
    <PageFrame title="Dashboard">
      <RequestState query={problems} label="Loading the problems">
        {(list) => (
          <>
            <Verdict list={list} clusters={overview.data?.clusters ?? null} />
            <Problems list={list} />
          </>
        )}
      </RequestState>
      <Now />
      <div className={classes.choice}>
        <SegmentedControl
          size="xs"
          aria-label="Range"
          data={ranges(keptHours)}
          value={minutes}
          onChange={(value) => setRange(value, 'push')}
          className={classes.range}
        />
        {keptHours !== null && <Faint size="sm">{retentionText(keptHours)}</Faint>}
      </div>
      <RequestState query={rates} label="Loading the rates">
        {(series) => <Figures series={series} range={rangeName(series)} overview={overview.data ?? null} />}
      </RequestState>
      <RequestPanel title="Queries by backend" query={queries} label="Loading the queries">
        {({ from, intervalMs, total }) =>
          total === 0 ? (
            <EmptyState title="No query in this time." />
          ) : (
            <>
              <Text size="sm" mb="xs">
                {total.toLocaleString('en')} queries; queries per minute{averaged(intervalMs)}
              </Text>
              {/* The table of the distribution has the numbers; the picture is decorative. */}
              <TimeChart
                label={`Queries per minute of ${lines.map(({ name }) => name).join(', ')} over time`}
                {...{ from, intervalMs, lines }}
                valueText={rateText}
                isStacked
              />
            </>
          )
        }
      </RequestPanel>
      <div className={classes.wide}>
        <RequestPanel title="Failures" query={rates} label="Loading the failures">
          {({ from, intervalMs }) => (
            <TimeChart
              label="Queries per minute that failed or were refused, over time"
              {...{ from, intervalMs }}
              lines={failures}
              valueText={rateText}
              isStacked
            />
          )}
        </RequestPanel>
        <RequestPanel title="Durations" query={rates} label="Loading the durations">
          {({ from, intervalMs }) => (
            <TimeChart
              label="Duration of queries and time in queues, median and 95th percentile, over time"
              {...{ from, intervalMs }}
              lines={durations}
              valueText={formatElapsed}
            />
          )}
        </RequestPanel>
      </div>
      <div className={classes.columns}>
        <RequestPanel title="Distribution" query={queries} label="Loading the distribution">
          {(series) => <Shares series={series} />}
        </RequestPanel>
        <RequestPanel title="Errors" query={rates} label="Loading the errors">
          {(series) => <Errors series={series} range={rangeName(series)} />}
        </RequestPanel>
        {overview.data !== undefined && (
          <Panel title="This gateway">
            <GatewayState overview={overview.data} />
          </Panel>
        )}
      </div>
    </PageFrame>
  );
}

function averaged(intervalMs: number): string {
  const minutes = intervalMs / 60_000;
  if (minutes <= 1) return '';
  const isHours = minutes > 60 && minutes % 60 === 0;
  return `, averaged over ${isHours ? `${minutes / 60} hours` : `${minutes} minutes`}`;
}

interface FiguresProps {
  readonly series: RateSeries;
  readonly range: string;
  /** Null: not loaded yet. */
  readonly overview: Overview | null;
}

/** Key figures: current clusters, queries of the range on all replicas. */
function Figures({ series, range, overview }: FiguresProps) {
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

type ErrorCount = RateSeries['errors'][number];

/** Errors of the range, most frequent first, each with a link to its queries. */
function Errors({ series, range }: { readonly series: RateSeries; readonly range: string }) {
  const isLinked = useSees('history');
  const { errors } = series;
  if (errors.length === 0) return <Text size="sm">No query ended with an error in {range}.</Text>;
  const named = (error: ErrorCount) => {
    const name = error.errorName ?? error.state;
    return isLinked ? <To address={errorAddress(error, series.from)}>{name}</To> : name;
  };
  return (
    <PlainTable
      label="Errors of the range"
      head={['Error', 'Queries']}
      numbersFrom={1}
      rows={errors.map((error) => ({
        key: `${error.state} ${error.errorName} ${error.errorType}`,
        cells: [
          <div key="error" className={classes.name}>
            {named(error)}
            <Faint>{error.errorType === null ? error.state : `${error.state}, ${error.errorType}`}</Faint>
          </div>,
          error.queries.toLocaleString('en'),
        ],
      }))}
    />
  );
}

/** Link to the queries with an error. @param from milliseconds since 1970 */
function errorAddress({ state, errorName, errorType }: ErrorCount, from: number): string {
  const parameters = new URLSearchParams({
    state,
    ...(errorName === null ? {} : { errorName }),
    ...(errorType === null ? {} : { errorType }),
    from: String(from),
  });
  return `/history?${parameters}`;
}

const MAX_NAMED = 10;

/** Distribution of the range's queries over backends. */
function Shares({ series: { clusters, total } }: { readonly series: QuerySeries }) {
  const named = clusters.slice(0, MAX_NAMED);
  const rest = total - named.reduce((sum, line) => sum + line.total, 0);
  if (total === 0) return <EmptyState title="No query in this time." />;
  const figures = (queries: number) => [
    queries.toLocaleString('en'),
    <span key="share" className={classes.share}>
      {((queries / total) * 100).toFixed(1)} %
    </span>,
  ];
  const rows = named.map(({ cluster, color, total: queries }) => ({
    key: cluster,
    cells: [
      <div key="cluster" className={classes.name}>
        <Anchor component={Link} to={clusterHistoryAddress(cluster)} size="sm">
          {cluster}
        </Anchor>
        <div
          className={classes.bar}
          style={{ width: `${(queries / total) * 100}%`, background: colorOf(color) }}
          aria-hidden
        />
      </div>,
      ...figures(queries),
    ],
  }));
  const others = { key: ' others', cells: [`${clusters.length - named.length} others`, ...figures(rest)] };
  return (
    <PlainTable
      label="Distribution of the queries"
      head={['Backend', 'Queries', 'Share']}
      numbersFrom={1}
      rows={named.length < clusters.length ? [...rows, others] : rows}
    />
  );
}

/** The replica that responds: its dependencies, leadership, and state of the history. */
function GatewayState({ overview }: { readonly overview: Overview }) {
  const { version, startedAt, notReadyBecause, components, history } = overview;
  return (
    <ul id={GATEWAY_ANCHOR} className={classes.components}>
      <Item ok={notReadyBecause === null} name="ready">
        {notReadyBecause ?? 'takes requests'}
      </Item>
      {components.map(({ name, ok, message }) => (
        <Item key={name} ok={ok} name={name}>
          {message}
        </Item>
      ))}
      <Item ok={history.lost === 0} name="history">
        {history.written.toLocaleString('en')} queries written since the start, {history.lost.toLocaleString('en')} lost
      </Item>
      <Item ok name="version">
        {version}, started <Ago at={Date.parse(startedAt)} />
      </Item>
    </ul>
  );
}

function Item({ ok, name, children }: { readonly ok: boolean; readonly name: string; readonly children: ReactNode }) {
  const Icon = ok ? IconCircleCheck : IconAlertTriangle;
  return (
    <li>
      <Group gap={6} wrap="nowrap" align="flex-start">
        <Icon size={18} className={ok ? classes.good : classes.poor} role="img" aria-label={ok ? 'fine' : 'not fine'} />
        <Text size="sm" className={classes.name}>
          <b>{name}</b>: {children}
        </Text>
      </Group>
    </li>
  );
}

const choices = [
  { minutes: 15, label: '15 min', name: 'the last 15 minutes' },
  { minutes: 60, label: '1 h', name: 'the last hour' },
  { minutes: 240, label: '4 h', name: 'the last 4 hours' },
  { minutes: 1440, label: '24 h', name: 'the last 24 hours' },
  { minutes: 10_080, label: '7 d', name: 'the last 7 days' },
  { minutes: 43_200, label: '30 d', name: 'the last 30 days' },
] as const;

/** Choices of the range picker; ranges longer than the retention are disabled. @param keptHours null if unknown */
function ranges(keptHours: number | null) {
  return choices.map(({ minutes, label }) => ({
    value: String(minutes),
    label,
    // One range is always available, even with a short retention.
    disabled: keptHours !== null && minutes > Math.max(1, keptHours) * 60,
  }));
}

function retentionText(keptHours: number): string {
  if (keptHours < 1) return 'Queries are deleted within two hours.';
  const [days, hours] = [Math.floor(keptHours / 24), keptHours % 24];
  const count = (number: number, unit: string) => (number === 0 ? [] : [`${number} ${unit}${number === 1 ? '' : 's'}`]);
  return `Queries are kept for ${[...count(days, 'day'), ...count(hours, 'hour')].join(' and ')}.`;
}

function rangeName({ from, to }: { readonly from: number; readonly to: number }): string {
  const minutes = Math.round((to - from) / 60_000);
  return choices.find((choice) => choice.minutes === minutes)?.name ?? `the last ${minutes} minutes`;
}
