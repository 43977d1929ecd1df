import { Anchor, Group, Text } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import type { Overview, QuerySeries, RateSeries } from '../../client/types.ts';
import { Faint, PlainTable, To } from '../../components/elements.tsx';
import { clusterHistoryAddress } from '../../components/links.ts';
import { EmptyState } from '../../components/states.tsx';
import { Ago } from '../../components/time.tsx';
import { useSees } from '../../session/session.ts';
import { colorOf } from './chart.ts';
import classes from './dashboard.module.css';
import { GATEWAY_ANCHOR } from './problemTexts.ts';

type ErrorCount = RateSeries['errors'][number];

/** Errors of the range, most frequent first, each with a link to its queries. */
export function Errors({ series, range }: { readonly series: RateSeries; readonly range: string }) {
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
export function Shares({ series: { clusters, total } }: { readonly series: QuerySeries }) {
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
export function GatewayState({ overview }: { readonly overview: Overview }) {
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
