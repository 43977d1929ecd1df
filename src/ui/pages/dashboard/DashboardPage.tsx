import { SegmentedControl, Text } from '@mantine/core';
import { useMemo } from 'react';
import { useOverview, useProblems, useQuerySeries, useRateSeries } from '../../client/resources.ts';
import { useAddressState } from '../../components/addressState.ts';
import { formatElapsed } from '../../components/amounts.ts';
import { Faint } from '../../components/elements.tsx';
import { PageFrame, Panel } from '../../components/frame.tsx';
import { EmptyState, RequestPanel, RequestState } from '../../components/states.tsx';
import { TimeChart } from '../../components/TimeChart.tsx';
import { clusterLines, durationLines, failureLines, MAX_LINES } from './chart.ts';
import classes from './dashboard.module.css';
import { Figures } from './Figures.tsx';
import { Problems, Verdict } from './Problems.tsx';
import { rangeName, ranges, retentionText } from './ranges.ts';
import { Errors, GatewayState, Shares } from './Tables.tsx';

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
