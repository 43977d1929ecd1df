import { beforeAll, describe, expect, test } from 'vitest';
import type { Drain } from '../../../src/api/clusters.ts';
import type { GroupState } from '../../../src/api/limits.ts';
import type { ProblemList, QuerySeries, RateSeries } from '../../../src/api/responses/overview.ts';
import type { QueryPage, RunningQueryList, Statistics } from '../../../src/api/responses/queries.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import {
  MIXED,
  MIXED_CLUSTER,
  mixedLoad,
  type OutcomeRow,
  runMixedLoad,
  startMixedCluster,
} from '../../support/mixedLoad.ts';
import { worldOf } from '../../support/world.ts';

const isFailed = ({ state, error_type }: OutcomeRow) =>
  state === 'LOST' || (state === 'FAILED' && error_type !== 'USER_ERROR');
const isUserError = ({ state, error_type }: OutcomeRow) => state === 'FAILED' && error_type === 'USER_ERROR';
const isRefused = ({ state }: OutcomeRow) => state === 'REFUSED';
const isEnded = ({ state }: OutcomeRow) => state !== 'RUNNING';
const isTaken = (row: OutcomeRow) => row.cluster !== null;

describe('figures after a mixed load', () => {
  const world = worldOf('suite');
  let store: KnexStore;
  let gateway: GatewayProcess;
  let rows: readonly OutcomeRow[] = [];

  const read = async <T>(path: string): Promise<T> => {
    const response = await fetch(`${gateway.url}${path}`);
    expect(response.status).toBe(200);
    return (await response.json()) as T;
  };
  const count = (is: (row: OutcomeRow) => boolean, of = rows): number => of.filter(is).length;
  const byState = (of: readonly OutcomeRow[]) =>
    Object.fromEntries([...Map.groupBy(of, ({ state }) => String(state))].map(([state, some]) => [state, some.length]));

  beforeAll(async () => {
    const cluster = world.closing(await startMixedCluster());
    gateway = await world.startReady({ resources: { source: 'directory', directory: world.subfolder('manifests') } });
    store = await world.store();
    const manifests = world.path('manifests', 'mixed.yaml');
    rows = await runMixedLoad({ url: gateway.url, store, cluster: cluster.url, manifests });
  }, 120_000);

  test('the rows are those of the load', () => {
    expect({
      finished: count(({ state }) => state === 'FINISHED'),
      userErrors: count(isUserError),
      failed: count(({ state }) => state === 'FAILED') - count(isUserError),
      lost: count(({ state }) => state === 'LOST'),
      cancelled: count(({ state }) => state === 'CANCELLED'),
      refused: count(isRefused),
      running: count(({ state }) => state === 'RUNNING'),
    }).toEqual(mixedLoad);
  });

  test.each([
    ['cluster', 'cluster'],
    ['routingGroup', 'routing_group'],
    ['user', 'user_name'],
    ['source', 'source'],
    ['rule', 'rule_name'],
  ])('statistics by %s are those of the rows', async (by, column) => {
    const { values } = await read<Statistics>(`/api/statistics?by=${by}`);
    const groups = Map.groupBy(rows.filter(isEnded), (row) => row[column] ?? null);
    expect(values).toHaveLength(groups.size);
    for (const { value, queries, states, failures, userErrors, refused, elapsedMillis } of values) {
      const own = groups.get(value) ?? [];
      expect({ queries, states, failures, userErrors, refused }).toEqual({
        ...{ queries: own.length, states: byState(own) },
        ...{ failures: count(isFailed, own), userErrors: count(isUserError, own), refused: count(isRefused, own) },
      });
      const times = own.flatMap(({ elapsed_ms }) => (elapsed_ms === null ? [] : [Number(elapsed_ms)]));
      for (const [share, figure] of [[0.5, elapsedMillis.p50] as const, [0.95, elapsedMillis.p95] as const]) {
        const exact = times.toSorted((a, b) => a - b)[Math.ceil(share * times.length) - 1];
        if (exact === undefined) expect(figure).toBeNull();
        else expect(Math.abs((figure ?? 0) - exact)).toBeLessThanOrEqual(0.045 * exact + 1);
      }
    }
  });

  test('rates and errors of the dashboard are those of the rows', async () => {
    const { intervals, errors } = await read<RateSeries>('/api/overview/rates?minutes=60');
    const sum = (name: 'queries' | 'ended' | 'failures' | 'userErrors' | 'refused') =>
      intervals.reduce((total, interval) => total + interval[name], 0);
    expect(['queries', 'ended', 'failures', 'userErrors', 'refused'].map((name) => sum(name as 'queries'))).toEqual([
      rows.length,
      ...[isEnded, isFailed, isUserError, isRefused].map((is) => count(is)),
    ]);
    const bad = rows.filter((row) => isFailed(row) || isUserError(row) || isRefused(row));
    const counts = Map.groupBy(bad, ({ state, error_name, error_type }) =>
      JSON.stringify([state, error_name, error_type]),
    );
    expect(
      errors.map(({ queries, ...each }) => [JSON.stringify([each.state, each.errorName, each.errorType]), queries]),
    ).toEqual(expect.arrayContaining([...counts].map(([key, some]) => [key, some.length])));
    expect(errors).toHaveLength(counts.size);
  });

  test('queries by cluster are those of the history', async () => {
    const { total, clusters } = await read<QuerySeries>('/api/overview/queries?minutes=60');
    const history = await store.database.knex('query_history').where('routing_group', MIXED);
    expect(history).toHaveLength(count(isTaken));
    expect([total, clusters.map((line) => [line.cluster, line.total])]).toEqual([
      history.length,
      [[MIXED_CLUSTER, history.length]],
    ]);
  });

  test('shares of problems are of all queries of the cluster and of the group', async () => {
    const reasons = async () => {
      const { problems } = await read<ProblemList>('/api/overview/problems');
      return problems
        .filter(({ kind }) => kind === 'ErrorRate')
        .map(({ object, reason }) => `${object.name}: ${reason}`)
        .sort();
    };
    const ofCluster = rows.filter((row) => isEnded(row) && isTaken(row));
    const faults = count(isFailed, ofCluster);
    const share = (part: number, all: number) => `${((part / all) * 100).toFixed(1)} %`;
    await expect
      .poll(reasons, { timeout: 30_000 })
      .toEqual([
        `${MIXED_CLUSTER}: ${faults} of ${ofCluster.length} queries failed or were refused in the last 5 minutes (${share(faults, ofCluster.length)}), most often with GENERIC_INTERNAL_ERROR`,
        `${MIXED}: ${count(isRefused)} of ${count(isEnded)} queries were refused in the last 5 minutes (${share(count(isRefused), count(isEnded))}), most often with NO_NODES_AVAILABLE`,
      ]);
  });

  test('lists of the history have as many queries as there are rows', async () => {
    const listed = async (query: string) => {
      const { queries } = await read<QueryPage>(`/api/queries?limit=1000&routingGroup=${MIXED}${query}`);
      return queries.length;
    };
    expect(await listed('')).toBe(rows.length);
    for (const [state, queries] of Object.entries(byState(rows.filter(isEnded)))) {
      expect([state, await listed(`&state=${state}`)]).toEqual([state, queries]);
    }
    expect(await listed('&state=FAILED&errorType=USER_ERROR')).toBe(count(isUserError));
  });

  test('running queries are those of the rows, in lists, drains, groups and scaling', async () => {
    const running = count(({ state }) => state === 'RUNNING');
    const shared = await store.database.knex('eg_running_queries').where('cluster', MIXED_CLUSTER);
    expect(shared).toHaveLength(running);
    expect((await read<RunningQueryList>('/api/queries/running')).total).toBe(running);
    expect((await read<Drain>(`/api/clusters/${MIXED_CLUSTER}/drain`)).runningQueries).toBe(running);
    // Replicas add up what they use every few seconds.
    await expect
      .poll(async () => await read<GroupState>(`/api/groups/${MIXED}`), { timeout: 30_000 })
      .toMatchObject({ running, waiting: 0 });
    expect(await read<object>(`/api/scaling/${MIXED}`)).toMatchObject({ running });
  });

  test('metrics count as the pages do', async () => {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    const metric = (name: string) =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name} `))
          ?.split(' ')[1] ?? 0,
      );
    const ended = (state: string) => metric(`engine_gateway_queries_ended_total{state="${state}"}`);
    expect({
      failed: ended('failed') + ended('lost'),
      userErrors: ended('user_error'),
      refused: ended('refused'),
      finished: ended('finished'),
      cancelled: ended('cancelled'),
    }).toEqual({
      failed: count(isFailed),
      userErrors: count(isUserError),
      refused: count(isRefused),
      finished: mixedLoad.finished,
      cancelled: mixedLoad.cancelled,
    });
    const types = Map.groupBy(
      rows.filter((row) => isFailed(row) || isUserError(row) || isRefused(row)),
      ({ error_type }) => String(error_type ?? 'other').toLowerCase(),
    );
    for (const [type, some] of types) {
      expect([type, metric(`engine_gateway_query_failures_total{type="${type}"}`)]).toEqual([type, some.length]);
    }
    expect(metric('engine_gateway_statement_submissions_total')).toBe(rows.length);
  });
});
