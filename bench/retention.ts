import { pino } from 'pino';
import { openStore } from '../src/store/openStore.ts';
import { askPostgresql, hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';

const QUERIES = 400_000;
const DAY_MS = 86_400_000;

/** Columns of a query by its number `i`: `created` is a time between now and two days ago. */
const created = `${Date.now()} - 2 * ${DAY_MS} + i * (2 * ${DAY_MS} / ${QUERIES})`;
const fill = [
  `insert into query_history (query_id, query_text, created, backend_url, user_name, source, routing_group, external_url)
   select '20261127_000000_' || i || '_bench', 'SELECT n.name, count(*) FROM tpch.tiny.nation n WHERE n.nationkey <> ' || i || ' GROUP BY 1',
     ${created}, 'http://trino-' || i % 5 || ':8080', 'user' || i % 500, 'source' || i % 50, 'adhoc', 'http://trino-' || i % 5 || ':8080'
   from generate_series(1, ${QUERIES}) as i`,
  `insert into eg_query_decisions (query_id, cluster, created, decision, rule_name)
   select '20261127_000000_' || i || '_bench', 'trino-' || i % 5, ${created}, '{"group":"adhoc","decidedBy":"rule","rule":"rule' || i % 20 || '","times":{"receivedAt":' || ${created}
       || '},"request":{"text":' || i % 900 || ',"headers":{"x-engine-user":"user' || i % 500 || '","x-engine-client-tags":"' || md5(i::text)
       || '"}},"candidates":[' || (select string_agg('{"cluster":"trino-' || c || '","running":' || i * c % 90 || '}', ',')
       from generate_series(1, 8) as c) || '],"rules":"' || md5(i || 'a') || md5(i || 'b') || md5(i || 'c') || '"}', 'rule' || i % 20
   from generate_series(1, ${QUERIES}) as i`,
  `insert into eg_query_outcomes (query_id, created, last_seen, refused, cluster, routing_group, user_name, source, rule_name,
     state, elapsed_ms, elapsed_bucket, queued_ms, queued_bucket, cpu_ms, processed_rows, processed_bytes, result_bytes, pages, certainty)
   select '20261127_000000_' || i || '_bench', ${created}, ${created}, 0, 'trino-' || i % 5, 'adhoc', 'user' || i % 500,
     'source' || i % 50, 'rule' || i % 20, 'FINISHED', i % 9000, 12, 5, 3, 700, 1000, 100000, 8000, 7, 3
   from generate_series(1, ${QUERIES}) as i`,
];

/**
 * `npm run bench -- retention`: WAL of PostgreSQL for the deletion of 200,000 queries of 400,000, with the vacuum that follows, without
 * and with `wal_compression`.
 */
export async function run(): Promise<void> {
  if (!hasPostgresql()) return;
  for (const compression of ['off', 'lz4']) await measure(compression);
}

async function measure(compression: string): Promise<void> {
  console.log(`wal_compression ${compression}:`);
  const server = await startPostgresql();
  await askPostgresql(server.port, `alter role postgres set wal_compression = '${compression}'`);
  const store = await openStore({
    ...(await server.createDatabase()),
    runMigrations: true,
    limits: { queryTimeoutMs: 600_000 },
    logger: pino({ level: 'silent' }),
  });
  const { knex } = store.database;
  const wal = async () => Number((await knex.raw("select pg_current_wal_lsn() - '0/0' as bytes")).rows[0].bytes);
  try {
    for (const sql of fill) await knex.raw(`${sql}`);
    await knex.raw('vacuum analyze');
    // Pages of old queries are not in the WAL of the last minutes.
    await knex.raw('checkpoint');
    const steps = [
      ['history', () => store.history.deleteBefore(Date.now() - DAY_MS)],
      ['outcomes', () => store.outcomes.deleteBefore(Date.now() - DAY_MS)],
      ['vacuum', () => knex.raw('vacuum')],
    ] as const;
    for (const [name, work] of steps) {
      const [before, began] = [await wal(), performance.now()];
      const result = await work();
      const megabytes = ((await wal()) - before) / 1e6;
      console.log(
        `${name}: ${typeof result === 'number' ? `${result} rows, ` : ''}${megabytes.toFixed(1)} MB of WAL, ${((performance.now() - began) / 1000).toFixed(1)} s`,
      );
    }
  } finally {
    await store.close();
    await server.dispose();
  }
}
