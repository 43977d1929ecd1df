import { Text } from '@mantine/core';
import { Area, AreaChart, CartesianGrid, Legend, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts';
import type { QuerySeries } from '../../client/types.ts';
import { EmptyState } from '../../components/states.tsx';
import { useTimeZone } from '../../components/time.tsx';
import { clockText, dateTimeText } from '../../components/zonedTime.ts';
import { chartPoints, colorOf } from './chart.ts';
import classes from './dashboard.module.css';

const DAY_MS = 86_400_000;

/** Queries per minute by backend over time, stacked. */
export function QueryChart({ series }: { readonly series: QuerySeries }) {
  const { timeZone } = useTimeZone();
  if (series.total === 0) return <EmptyState title="No query in this time." />;
  const { names, points } = chartPoints(series);
  const long = series.to - series.from > DAY_MS;
  const label = (at: number) => (long ? dateTimeText(at, timeZone).slice(5, 16) : clockText(at, timeZone));
  return (
    <>
      <Text size="sm" mb="xs">
        {series.total.toLocaleString('en')} queries; queries per minute
        {series.intervalMs > 60_000 && `, averaged over ${series.intervalMs / 60_000} minutes`}
      </Text>
      {/* The numbers are in the table of the distribution; the picture is for the eye. */}
      <div className={classes.chart} role="img" aria-label={`Queries per minute of ${names.join(', ')} over time`}>
        <ResponsiveContainer width="100%" height="100%">
          <AreaChart data={[...points]} accessibilityLayer={false} margin={{ top: 4, right: 8, bottom: 0, left: 0 }}>
            <CartesianGrid vertical={false} stroke="var(--mantine-color-default-border)" />
            <XAxis
              dataKey="at"
              type="number"
              domain={[series.from, series.to - series.intervalMs]}
              tickFormatter={label}
              minTickGap={40}
              stroke="var(--mantine-color-dimmed)"
              fontSize={12}
            />
            <YAxis width={44} allowDecimals={false} stroke="var(--mantine-color-dimmed)" fontSize={12} />
            <Tooltip
              isAnimationActive={false}
              labelFormatter={(at) => dateTimeText(Number(at), timeZone)}
              contentStyle={{
                background: 'var(--mantine-color-body)',
                border: '1px solid var(--mantine-color-default-border)',
              }}
              itemStyle={{ color: 'var(--mantine-color-text)' }}
            />
            <Legend
              iconType="square"
              formatter={(name) => <span className={classes.legend}>{name}</span>}
              wrapperStyle={{ fontSize: 13 }}
            />
            {names.map((name, index) => (
              <Area
                key={name}
                name={name}
                dataKey={(point: { counts: readonly number[] }) => point.counts[index]}
                stackId="queries"
                type="linear"
                stroke={colorOf(index)}
                fill={colorOf(index)}
                fillOpacity={0.35}
                isAnimationActive={false}
              />
            ))}
          </AreaChart>
        </ResponsiveContainer>
      </div>
    </>
  );
}
