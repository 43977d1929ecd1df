import { pino } from 'pino';
import { openStore } from '../src/store/openStore.ts';
import { hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';

const HOUR = 3_600_000;
const DAYS = 30;
const QUERIES = 1_000_000;
const DIGESTS = 20_000;
const PART = 10_000;
const ROUNDS = 5;
/** Of rates in a response. */
const MAX_INTERVALS = 60;

/** Outcomes of queries at an even rate: digests are chosen at random, with groups and clusters that do not depend on them. */
const fill = (
  from: number,
  start: number,
  step: number,
) => `insert into eg_query_outcomes (query_id, created, last_seen,
    refused, cluster, routing_group, user_name, source, state, error_type, elapsed_ms, elapsed_bucket, queued_ms, queued_bucket,
    cpu_ms, processed_bytes, peak_memory_bytes, digest, exact_digest, certainty)
  select 'q' || i, ${start} + cast(i * ${step} as bigint), ${start} + cast(i * ${step} as bigint), 0, 'c' || i % 5, 'g' || i % 3,
    'u' || i % 200, 's' || i % 20, case when i % 50 = 0 then 'FAILED' else 'FINISHED' end, case when i % 50 = 0 then 'EXTERNAL' end,
    i % 5000, 40 + i % 60, 5, 10, i % 9000, i % 1000000, 1000000 + i % 999999,
    lpad(to_hex(cast(${DIGESTS} * power(random(), 3) as int)), 16, '0'), lpad(to_hex(i), 16, '0'), 3
  from generate_series(${from}::bigint, ${from + PART - 1}) i`;

/** `npm run bench -- digest-figures`: figures by digest of a million queries in PostgreSQL (docs/performance.md#digests). */
export async function run(): Promise<void> {
  if (!hasPostgresql()) return;
  const server = await startPostgresql();
  const store = await openStore({
    ...{ ...(await server.createDatabase()), runMigrations: true, logger: pino({ level: 'warn' }) },
  });
  const { knex } = store.database;
  const now = Math.floor(Date.now() / HOUR) * HOUR + HOUR / 6;
  const start = now - DAYS * 24 * HOUR;
  const written = async () =>
    Number((await knex.raw("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') n")).rows[0].n);
  try {
    for (let from = 0; from < QUERIES; from += PART) await knex.raw(fill(from, start, (now - start) / QUERIES));
    await knex.raw('vacuum analyze eg_query_outcomes');
    const [before, began] = [await written(), performance.now()];
    for (let summed = 1; summed > 0; ) ({ summed } = await store.hourlySums.sum(now));
    const seconds = ((performance.now() - began) / 1_000).toFixed(0);
    console.log(`sums of ${DAYS} days: ${seconds} s, ${((await written()) / 1e6 - before / 1e6).toFixed(0)} MB of WAL`);
    await knex.raw('vacuum analyze eg_digest_hours');
    const median = async (name: string, work: () => Promise<unknown>) => {
      const times: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        const at = performance.now();
        await work();
        times.push(performance.now() - at);
      }
      console.log(`${name}: ${times.sort((a, b) => a - b)[ROUNDS >> 1]?.toFixed(0)} ms`);
    };
    const borders = { measure: 'elapsed', mediumFrom: 1_000, largeFrom: 3_000 } as const;
    const cpu = process.cpuUsage();
    await median('estimates of sizes', () => store.sizeEstimates.read(now, borders));
    const { user, system } = process.cpuUsage(cpu);
    console.log(`  processor time: ${((user + system) / ROUNDS / 1_000).toFixed(0)} ms`);
    const { top, of } = store.digestStatistics;
    for (const days of [1, 7, DAYS]) {
      const range = { from: now - days * 24 * HOUR, to: now };
      const digest = (await top(range, 'cpu', 1))[0]?.digest ?? '';
      await median(`50 digests of ${days} days`, () => top(range, 'cpu', 50));
      await median(`one digest of ${days} days`, () => of(digest, range));
      await median(`statistics by user of ${days} days`, () =>
        store.queryStatistics.of({ by: 'user', ...range, limit: 100 }),
      );
      const length = Math.ceil((days * 24) / MAX_INTERVALS) * HOUR;
      await median(`rates and errors of ${days} days`, () =>
        Promise.all([
          store.queryRates.perInterval({ ...range, length }),
          store.queryRates.errors({ ...range, limit: 10 }),
        ]),
      );
    }
  } finally {
    await store.close();
    await server.dispose();
  }
}
