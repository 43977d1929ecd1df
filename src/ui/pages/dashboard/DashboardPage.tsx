import { SegmentedControl } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../client/call.ts';
import { LIVE_MS, SLOW_MS } from '../../client/queryClient.ts';
import type { Overview, QuerySeries } from '../../client/types.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { QueryState } from '../../components/QueryState.tsx';
import classes from './dashboard.module.css';
import { Figures } from './Figures.tsx';
import { GatewayState } from './GatewayState.tsx';
import { Panel } from './Panel.tsx';
import { QueryChart } from './QueryChart.tsx';
import { Shares } from './Shares.tsx';
import { Troubles } from './Troubles.tsx';

const ranges = [
  { value: '15', label: '15 min' },
  { value: '60', label: '1 h' },
  { value: '240', label: '4 h' },
  { value: '1440', label: '24 h' },
  { value: '10080', label: '7 d' },
];

/** Dashboard: how the gateway and its clusters are, and what they have to do. */
export default function DashboardPage() {
  const [minutes, setMinutes] = useState('60');
  const overview = useQuery({
    queryKey: ['overview'],
    queryFn: ({ signal }) => call<Overview>('/api/overview', { method: 'GET', signal }),
    refetchInterval: LIVE_MS,
  });
  const queries = useQuery({
    queryKey: ['overview', 'queries', minutes],
    queryFn: ({ signal }) => call<QuerySeries>(`/api/overview/queries?minutes=${minutes}`, { method: 'GET', signal }),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  });
  const range = (
    <SegmentedControl
      size="xs"
      aria-label="Range"
      data={ranges}
      value={minutes}
      onChange={setMinutes}
      className={classes.range}
    />
  );
  return (
    <PageFrame title="Dashboard">
      <QueryState query={overview} label="Loading the overview">
        {(data) => <Figures overview={data} />}
      </QueryState>
      <Panel title="Queries by backend" actions={range}>
        <QueryState query={queries} label="Loading the queries">
          {(series) => <QueryChart series={series} />}
        </QueryState>
      </Panel>
      <div className={classes.columns}>
        <Panel title="Distribution">
          <QueryState query={queries} label="Loading the distribution">
            {(series) => <Shares series={series} />}
          </QueryState>
        </Panel>
        {overview.data !== undefined && (
          <>
            <Panel title="Refusals and errors">
              <Troubles overview={overview.data} />
            </Panel>
            <Panel title="This gateway">
              <GatewayState overview={overview.data} />
            </Panel>
          </>
        )}
      </div>
    </PageFrame>
  );
}
