import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import {
  type EstimateTable,
  estimateIn,
  noEstimate,
  type SizeBorders,
  type SizeEstimate,
  type SizeEstimates,
  sizeClassOf,
} from '../model/sizeEstimates.ts';
import { settlesWithin } from '../model/timeLimit.ts';
import { Turns } from '../model/turns.ts';
import { newestFirst } from './columns.ts';
import type { Database } from './database.ts';
import { digestIn, digestSums, OTHER_DIGEST, readHistogram, type TimeRange } from './digestFigures.ts';
import { addCount, bucketDuration, durationBucket, durationPercentiles } from './durationBucket.ts';
import { HOUR_MS, sourcesOf } from './hourlySums.ts';
import { startJob } from './job.ts';
import { RUNNING } from './queryOutcome.ts';

const WINDOW_MS = 5 * 24 * HOUR_MS;
/** Queries of which rows are read, the newest first: by exact digest, and of hours without sums by shape. */
const MAX_RUNS = 50_000;
const ROWS = { postgresql: 5_000, mysql: 5_000, sqlite: 500 } as const;
/** Exact digests and shapes with an estimate, those with most runs. */
const MAX_ESTIMATES = 10_000;
/** An exact digest with fewer runs has the estimate of its shape. */
const MIN_EXACT_RUNS = 3;
const SHARE = 0.9;
/** Columns of a run, with their histograms in `eg_digest_hours`. */
const kinds = ['elapsed', 'cpu', 'memory'] as const;
const columns = ['elapsed_ms', 'cpu_ms', 'peak_memory_bytes'] as const;
/** Buckets of all kinds are counted in one map: by the place of the kind times this. */
const PER_KIND = 1_000;

type Run = Readonly<Record<'digest' | 'exact_digest', string> & Record<(typeof columns)[number], number | null>> & {
  readonly created: number;
  readonly query_id: string;
};

/** Runs by digest: counts of buckets. */
class RunCounts {
  readonly #byDigest = new Map<string, Map<number, number>>();

  of(digest: string): Map<number, number> | undefined {
    if (this.#byDigest.size >= MAX_RUNS) return this.#byDigest.get(digest);
    return this.#byDigest.getOrInsertComputed(digest, () => new Map());
  }

  addRun(digest: string, run: Run): void {
    const counts = this.of(digest);
    if (counts === undefined) return;
    for (const [kind, column] of columns.entries()) {
      const bucket = durationBucket(run[column]);
      if (bucket !== null) addCount(counts, kind * PER_KIND + bucket, 1);
    }
  }

  estimates(source: 'exact' | 'shape', borders: SizeBorders): Map<string, SizeEstimate> {
    const least = source === 'exact' ? MIN_EXACT_RUNS : 1;
    const all = [...this.#byDigest].map(([digest, counts]) => [digest, estimateOf(counts, source, borders)] as const);
    const frequent = all.filter(([, { runs }]) => runs >= least);
    return new Map(frequent.sort(([a, x], [b, y]) => y.runs - x.runs || (a < b ? -1 : 1)).slice(0, MAX_ESTIMATES));
  }
}

function estimateOf(all: ReadonlyMap<number, number>, source: 'exact' | 'shape', borders: SizeBorders): SizeEstimate {
  const counts = kinds.map(() => new Map<number, number>());
  for (const [key, count] of all) counts[Math.floor(key / PER_KIND)]?.set(key % PER_KIND, count);
  const [elapsed = null, cpu = null, memory = null] = counts.map((each) => durationPercentiles(each)(SHARE));
  const expected = borders.measure === 'cpu' ? cpu : elapsed;
  if (expected === null) return noEstimate;
  const sizeClass = sizeClassOf(borders, expected);
  let [runs, alike] = [0, 0];
  for (const [bucket, count] of counts[borders.measure === 'cpu' ? 1 : 0] ?? []) {
    runs += count;
    if (sizeClassOf(borders, bucketDuration(bucket)) === sizeClass) alike += count;
  }
  const seconds = (milliseconds: number | null) => (milliseconds === null ? null : milliseconds / 1_000);
  return {
    ...{ sizeClass, seconds: seconds(elapsed), cpuSeconds: seconds(cpu), peakMemoryBytes: memory },
    ...{ confidence: Math.round((100 * alike) / (runs + 2)) / 100, source, runs },
  };
}

/** Queries of a range that ran, the newest first, in pages. */
async function* newestRuns(database: Database, { from, to }: TimeRange): AsyncGenerator<readonly Run[]> {
  const limit = ROWS[database.dialect.name];
  for (let [left, after] = [MAX_RUNS, null as Run | null]; left > 0; left -= limit) {
    const last = after && { created: after.created, queryId: after.query_id };
    const rows: Run[] = await database.run((knex) => {
      const query = knex('eg_query_outcomes as o').where('created', '>=', from).where('created', '<', to);
      query.whereNot('state', RUNNING).whereNotNull('digest').whereNotNull('elapsed_ms').limit(limit);
      newestFirst(query, 'o', last);
      return query.select('created', 'query_id', 'digest', 'exact_digest', ...columns);
    });
    yield rows;
    if (rows.length < limit) return;
    after = rows.at(-1) ?? null;
  }
}

/** Queries with equal figures: predicted (null: no estimate) and actual, milliseconds. */
export interface CalibrationCount {
  readonly predicted: number | null;
  readonly actual: number;
  queries: number;
  cpuMillis: number;
}

/** Estimates of sizes by the runs of five days (docs/size-classes.md). */
export function sizeEstimates(database: Database) {
  /** Estimates from the runs of the five days up to a time: equal data give equal estimates. */
  const read = async (until: number, borders: SizeBorders): Promise<EstimateTable> => {
    const range = { from: Math.floor((until - WINDOW_MS) / HOUR_MS) * HOUR_MS, to: until };
    const { summed } = await database.run((knex) => sourcesOf(knex, range, true));
    const [exact, shapes] = [new RunCounts(), new RunCounts()];
    const turns = new Turns();
    const isSummed = ({ created }: Run) => summed.some(({ from, to }) => created >= from && created < to);
    for await (const runs of newestRuns(database, range)) {
      for (const run of runs) {
        if (run.exact_digest !== run.digest) exact.addRun(run.exact_digest, run);
        if (!isSummed(run)) shapes.addRun(run.digest, run);
      }
      await turns.next();
    }
    const hours = summed.map(({ from, to }) => ({ from: from / HOUR_MS, to: to / HOUR_MS }));
    for await (const { sums } of digestSums(database, hours)) {
      for (const fields of sums) {
        const digest = digestIn(fields);
        const counts = digest === null || digest === OTHER_DIGEST ? undefined : shapes.of(digest);
        if (counts !== undefined)
          for (const [kind, name] of kinds.entries())
            readHistogram(fields, name, (bucket, count) => addCount(counts, kind * PER_KIND + bucket, count));
      }
    }
    return { until, exact: exact.estimates('exact', borders), shapes: shapes.estimates('shape', borders) };
  };
  return {
    read,

    /** Compares queries of a range with what the five days before it predict. */
    calibrate: async ({ from, to }: TimeRange, borders: SizeBorders): Promise<readonly CalibrationCount[]> => {
      const table = await read(from, borders);
      const counts = new Map<string, CalibrationCount>();
      for await (const runs of newestRuns(database, { from, to })) {
        for (const { digest, exact_digest: exact, elapsed_ms: elapsed, cpu_ms: cpu } of runs) {
          const { seconds, cpuSeconds } = estimateIn(table, { exact, shape: digest });
          const [expected, taken] = borders.measure === 'cpu' ? [cpuSeconds, cpu] : [seconds, elapsed];
          if (taken === null) continue;
          const actual = bucketDuration(durationBucket(taken) ?? 0);
          const predicted = expected === null ? null : expected * 1_000;
          const none = { predicted, actual, queries: 0, cpuMillis: 0 };
          const count = counts.getOrInsert(`${predicted} ${actual}`, none);
          count.queries += 1;
          count.cpuMillis += cpu ?? 0;
        }
      }
      return [...counts.values()];
    },
  };
}

/** Time for which a start waits for the first estimates, and delay after a failure, milliseconds. */
const START_MS = 2_000;
const RETRY_MS = 30_000;
/** Delay of a look whether a rule or a limit reads estimates: without one they are read at the start only. */
const UNREAD_MS = 1_000;

/**
 * Refreshes the estimates of a replica at each multiple of the interval, so that all replicas count the same runs.
 * Resolves when it has the first ones, or after two seconds, with the function that stops it.
 */
export async function startSizeEstimates(
  { read }: ReturnType<typeof sizeEstimates>,
  estimates: SizeEstimates,
  { refreshInterval: interval, ...borders }: SizeBorders & { readonly refreshInterval: number },
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<() => Promise<unknown>> {
  const round = async () => {
    const now = clock.now();
    try {
      estimates.table = await read(now - (now % interval), borders);
      return interval - (clock.now() % interval);
    } catch (error) {
      logger.warn({ reason: error instanceof Error ? error.message : String(error) }, 'size estimates delayed');
      return Math.min(interval, RETRY_MS);
    }
  };
  const first = round();
  let next: Promise<number> | null = first;
  const stop = startJob(0, () => {
    const current = next ?? (estimates.isRead ? round() : Promise.resolve(UNREAD_MS));
    next = null;
    return current;
  });
  await settlesWithin(first, START_MS);
  return stop;
}
