import { expect } from 'vitest';
import { durationBucket, durationPercentiles } from '../../src/store/durationBucket.ts';
import type { KnexStore } from '../../src/store/openStore.ts';
import { queryStates } from '../../src/store/queryOutcome.ts';
import type { QueryStatistics, StatisticsRequest } from '../../src/store/queryStatistics.ts';
import { dimensionColumns } from '../../src/store/statisticsDimension.ts';

const HOUR = 3_600_000;

/** Rows of the queries of a request that are over. */
async function rowsOf({ database }: KnexStore, { from, to, cluster, user }: StatisticsRequest) {
  const rows: Record<string, string | number | null>[] = await database.knex('eg_query_outcomes').select('*');
  return rows.filter(
    (row) =>
      Number(row.created) >= from &&
      Number(row.created) < to &&
      row.state !== 'RUNNING' &&
      (cluster === undefined || row.cluster === cluster) &&
      (user === undefined || row.user_name === user),
  );
}

type Row = Readonly<Record<string, string | number | null>>;

/** Each row with the value that it counts for; for each group of its user. */
async function valuesOf(store: KnexStore, asked: StatisticsRequest): Promise<(readonly [string | null, Row])[]> {
  const rows = await rowsOf(store, asked);
  const column = dimensionColumns[asked.by];
  if (asked.by !== 'userGroup') return rows.map((row) => [row[column] as string | null, row] as const);
  const members: { set_id: string; group_name: string }[] = await store.database.knex('eg_group_sets').select('*');
  const sets = Map.groupBy(members, (member) => member.set_id);
  return rows.flatMap((row) =>
    (sets.get(String(row.group_set)) ?? []).map((member) => [member.group_name, row] as const),
  );
}

/** The figures, counted here. */
async function expectedStatistics(store: KnexStore, asked: StatisticsRequest): Promise<QueryStatistics[]> {
  const byValue = Map.groupBy(await valuesOf(store, asked), ([each]) => each);
  return [...byValue].map(([each, some]) => {
    const rows = some.map(([, row]) => row);
    const sum = (name: string) => rows.reduce((total, row) => total + Number(row[name] ?? 0), 0);
    const percentiles = (name: string) => {
      const buckets = Map.groupBy(
        rows.filter((row) => row[name] !== null),
        (row) => Number(row[name]),
      );
      const within = durationPercentiles(new Map([...buckets].map(([bucket, some]) => [bucket, some.length])));
      return { p50: within(0.5), p95: within(0.95), p99: within(0.99) };
    };
    const states = queryStates.map((state) => [state, rows.filter((row) => row.state === state).length] as const);
    return {
      ...{ value: each, queries: rows.length, states: Object.fromEntries(states.filter(([, count]) => count > 0)) },
      userErrors: rows.filter((row) => row.state === 'FAILED' && row.error_type === 'USER_ERROR').length,
      ...{ elapsedMillis: percentiles('elapsed_bucket'), queuedMillis: percentiles('queued_bucket') },
      ...{ cpuMillis: sum('cpu_ms'), processedBytes: sum('processed_bytes'), resultBytes: sum('result_bytes') },
    };
  });
}

/** Figures by digest, counted here from the rows. */
async function expectedDigests(store: KnexStore, asked: StatisticsRequest) {
  const rows = (await rowsOf(store, asked)).filter((row) => Number(row.created) < asked.to);
  return [...Map.groupBy(rows, (row) => row.digest)].map(([digest, some]) => {
    const sum = (name: string) => some.reduce((total, row) => total + Number(row[name] ?? 0), 0);
    const p95 = (name: string) => {
      const buckets = some.flatMap((row) => (row[name] === null ? [] : [durationBucket(Number(row[name])) ?? 0]));
      const counts = Map.groupBy(buckets, (bucket) => bucket);
      return durationPercentiles(new Map([...counts].map(([bucket, each]) => [bucket, each.length])))(0.95);
    };
    const failed = some.filter(({ state }) => state === 'FAILED' || state === 'LOST');
    const byType = Map.groupBy(failed, (row) => String(row.error_type ?? 'OTHER'));
    const userErrors = failed.filter((row) => row.state === 'FAILED' && row.error_type === 'USER_ERROR').length;
    return {
      ...{ digest, errors: Object.fromEntries([...byType].map(([type, each]) => [type, each.length])) },
      totals: {
        ...{ queries: some.length, failures: failed.length - userErrors, user_errors: userErrors },
        ...{ elapsed_ms: sum('elapsed_ms'), cpu_ms: sum('cpu_ms'), processed_bytes: sum('processed_bytes') },
      },
      p95: ['elapsed_ms', 'cpu_ms', 'processed_bytes', 'peak_memory_bytes'].map(p95),
    };
  });
}

/** The same as the store returns it. */
async function digestsOf(store: KnexStore, { limit, ...asked }: StatisticsRequest) {
  const counted = await store.digestStatistics.top(asked, 'count', limit);
  return counted.map(({ digest, figures }) => ({
    ...{ digest, errors: figures.errors(), totals: figures.totals },
    p95: (['elapsed', 'cpu', 'bytes', 'memory'] as const).map((name) => figures.percentiles(name).p95),
  }));
}

/** Rates of all queries by so many hours, counted here. */
async function expectedRates(store: KnexStore, { from, to }: StatisticsRequest, hours: number) {
  const rows = await rowsOf(store, { from, to, by: 'user', limit: 1 });
  const { queries } = (await store.database
    .knex('eg_query_outcomes')
    .where('state', 'RUNNING')
    .whereBetween('created', [from, to - 1])
    .count({ queries: '*' })
    .first()) as { queries: number };
  const slots = Map.groupBy(rows, (row) => Math.floor(Number(row.created) / (hours * HOUR)) * hours * HOUR);
  const within = (all: readonly Row[], name: string) => {
    const known = all.filter((row) => row[name] !== null);
    const counts = Map.groupBy(known, (row) => Number(row[name]));
    const share = durationPercentiles(new Map([...counts].map(([bucket, each]) => [bucket, each.length])));
    return { p50: share(0.5), p95: share(0.95) };
  };
  const rates = [...slots]
    .sort(([a], [b]) => a - b)
    .map(([start, all]) => {
      const failed = all.filter(({ state }) => state === 'FAILED' || state === 'LOST');
      const userErrors = failed.filter((row) => row.state === 'FAILED' && row.error_type === 'USER_ERROR').length;
      return {
        ...{ start, ended: all.length, failures: failed.length - userErrors, userErrors },
        refused: all.filter(({ state }) => state === 'REFUSED').length,
        ...{ elapsedMillis: within(all, 'elapsed_bucket'), queuedMillis: within(all, 'queued_bucket') },
      };
    });
  return { running: Number(queries), rates };
}

/** The same as the store returns it, with the queries that run. */
async function ratesOf(store: KnexStore, { from, to }: StatisticsRequest, hours: number) {
  const rates = await store.queryRates.perInterval({ from, to, length: hours * HOUR });
  const running = rates.reduce((sum, { queries, ended }) => sum + queries - ended, 0);
  return { running, rates: rates.filter(({ ended }) => ended > 0).map(({ queries: _, ...rest }) => rest) };
}

const byDigest = (all: readonly { readonly digest: unknown }[]) =>
  all.toSorted((a, b) => (JSON.stringify(a.digest) < JSON.stringify(b.digest) ? -1 : 1));

const byName = (all: readonly QueryStatistics[]) =>
  all.toSorted((a, b) => (JSON.stringify(a.value) < JSON.stringify(b.value) ? -1 : 1));

/** Compares figures with those counted here from the rows. @param counted store of the rows */
export async function expectCountedFigures(store: KnexStore, asked: StatisticsRequest, counted = store): Promise<void> {
  expect(byName(await store.queryStatistics.of(asked))).toEqual(byName(await expectedStatistics(counted, asked)));
  expect(byDigest(await digestsOf(store, asked))).toEqual(byDigest(await expectedDigests(counted, asked)));
  for (const hours of [1 / 4, 1, 2]) {
    expect(await ratesOf(store, asked, hours)).toEqual(await expectedRates(counted, asked, hours));
  }
}
