/**
 * Pages and figures of a long query history, on a real MariaDB and PostgreSQL: what the API asks of the store, after a
 * migration of a history that another gateway wrote.
 *
 *   npm run bench -- history-pages [--rows 10000000] [--database mariadb|postgresql]
 */
import { parseArgs } from 'node:util';
import knexFactory from 'knex';
import { pino } from 'pino';
import { parseJdbcUrl } from '../src/store/jdbcUrl.ts';
import { type KnexStore, openStore } from '../src/store/openStore.ts';
import { databases } from '../test/support/databases.ts';

const YEAR = 365 * 24 * 3_600_000;
const HOUR = 3_600_000;
const ROUNDS = 5;

/** The table as the gateway that ran before has it, with its one index. */
const table = (longText: string) => `create table query_history (query_id varchar(256) primary key,
  query_text ${longText}, created bigint, backend_url varchar(256), user_name varchar(256), source varchar(256),
  routing_group varchar(255), external_url varchar(255))`;

/** A year of queries at an even rate: 7 clusters, 3 groups, 500 users, 8 sources. */
function fill(dialect: string, rows: number, start: number): string {
  const step = Math.floor(YEAR / rows);
  if (dialect === 'mysql') {
    return `insert into query_history select concat('20261121_015745_', lpad(seq, 9, '0'), '_kvhrm'),
      concat('select a, b, c from t where x = ', seq), ${start} + seq * ${step},
      concat('http://engine-', seq % 7, '.example:8080'), concat('user', seq * 7919 % 500),
      case when seq % 9 = 0 then null else concat('source-', seq % 9) end, concat('group-', seq % 3),
      concat('http://engine-', seq % 7, '.example:8080') from seq_1_to_${rows}`;
  }
  return `insert into query_history select '20261121_015745_' || lpad(i::text, 9, '0') || '_kvhrm',
    'select a, b, c from t where x = ' || i, ${start} + i * ${step}, 'http://engine-' || i % 7 || '.example:8080',
    'user' || i * 7919 % 500, case when i % 9 = 0 then null else 'source-' || i % 9 end, 'group-' || i % 3,
    'http://engine-' || i % 7 || '.example:8080' from generate_series(1::bigint, ${rows}) i`;
}

/** Runs the benchmark and prints its figures. */
export async function run(): Promise<void> {
  const { values } = parseArgs({
    args: process.argv.slice(3),
    options: { rows: { type: 'string', default: '10000000' }, database: { type: 'string' } },
  });
  const rows = Number(values.rows);
  if (!Number.isSafeInteger(rows) || rows < 1) throw new Error('--rows must be a whole number from 1');
  const servers = databases.filter(({ name }) => name !== 'sqlite');
  // The suites name the dialect, people the server.
  const familyName = values.database === 'mariadb' ? 'mysql' : values.database;
  const chosen = servers.filter(({ name }) => name === (familyName ?? name));
  if (chosen.length === 0) throw new Error('--database must be mariadb or postgresql');
  for (const family of chosen) {
    if (family.available()) await measure(family, rows);
    else console.log(`${family.name}: not installed`);
  }
}

async function measure(family: (typeof databases)[number], rows: number): Promise<void> {
  const server = await family.start();
  const settings = await server.create();
  const now = Date.now();
  const logger = pino({ level: 'warn' });
  try {
    console.log(`${family.name}, ${rows} queries of a year:`);
    const parsed = parseJdbcUrl(settings);
    if ('problems' in parsed || parsed.target.dialect === 'sqlite') throw new Error('no server');
    const { hosts, user, password, database } = parsed.target;
    const knex = knexFactory({
      client: family.name === 'mysql' ? 'mysql2' : 'pg',
      connection: { ...hosts[0], user: user ?? '', password: typeof password === 'string' ? password : '', database },
    });
    await knex.raw(table(family.name === 'mysql' ? 'longtext' : 'text'));
    await timed('filling', () => knex.raw(fill(family.name, rows, now - YEAR)));
    await timed('its first index', () => knex.raw('create index query_history_created_idx on query_history (created)'));
    const store = await timed('migration', () => openStore({ ...settings, runMigrations: true, logger }));
    await knex.raw(family.name === 'mysql' ? 'analyze table query_history' : 'vacuum analyze query_history');
    await knex.destroy();
    await questions(store, now, rows);
    await plan(store, 'first page', () => store.history.find({}, { offset: 0, limit: 25 }));
    await plan(store, 'first page of a user', () => store.history.find({ user: 'user7' }, { offset: 0, limit: 25 }));
    await store.close();
  } finally {
    await server.dispose();
  }
}

async function questions(store: KnexStore, now: number, rows: number): Promise<void> {
  const page = { offset: 0, limit: 10 };
  const deep = { created: now - YEAR / 2, queryId: '20261121_015745_000000000_kvhrm' };
  const finds: readonly [string, () => Promise<unknown>][] = [
    ['first page', () => store.history.find({}, page)],
    ['first page of 2000', () => store.history.find({}, { ...page, limit: 2000 })],
    ['first page of a user', () => store.history.find({ user: 'user7' }, page)],
    ['first page of a source', () => store.history.find({ source: 'source-3' }, page)],
    ['first page of a source that does not exist', () => store.history.find({ source: 'nothing' }, page)],
    ['first page of a routing group', () => store.history.find({ routingGroup: 'group-1' }, page)],
    ['first page of a group that does not exist', () => store.history.find({ routingGroup: 'nothing' }, page)],
    ['first page of a URL', () => store.history.find({ externalUrl: 'http://engine-3.example:8080' }, page)],
    ['first page of a URL that does not exist', () => store.history.find({ externalUrl: 'nothing' }, page)],
    ['first page of user and source', () => store.history.find({ user: 'user7', source: 'source-3' }, page)],
    ['a day, first page', () => store.history.find({ from: now - 9 * 24 * HOUR, to: now - 8 * 24 * HOUR }, page)],
    ['page 1,000', () => store.history.find({}, { ...page, offset: 9_990 })],
    ['page 9,999', () => store.history.find({}, { ...page, offset: 99_980 })],
    [`after row ${rows / 2}`, () => store.history.find({}, { ...page, after: deep })],
    ['after the middle, of a source', () => store.history.find({ source: 'source-3' }, { ...page, after: deep })],
  ];
  const counts = (hours: number, minutes: number) => () =>
    store.queryCounts.perInterval({ from: now - hours * HOUR, to: now + HOUR, length: minutes * 60_000 });
  const figures: readonly [string, () => Promise<unknown>][] = [
    ['distribution of an hour', counts(1, 1)],
    ['distribution of 48 hours', counts(48, 1)],
    ['distribution of a week', counts(7 * 24, 4)],
    ['distribution of the year', counts(365 * 24, 183)],
  ];
  for (const [name, ask] of [...finds, ...figures]) {
    try {
      const times: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const started = performance.now();
        await ask();
        times.push(performance.now() - started);
      }
      const sorted = times.toSorted((a, b) => a - b);
      console.log(`  ${name}: ${(sorted[2] ?? 0).toFixed(1)} ms (first ${(times[0] ?? 0).toFixed(1)} ms)`);
    } catch (error) {
      console.log(`  ${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

/** Prints how the database answers what is asked of the history: by which index, and over how many rows. */
async function plan(store: KnexStore, what: string, ask: () => Promise<unknown>): Promise<void> {
  const { knex } = store.database;
  const executed: { readonly sql: string; readonly bindings: readonly string[] }[] = [];
  const note = (query: (typeof executed)[number]) => void executed.push(query);
  knex.on('query', note);
  await ask();
  knex.off('query', note);
  for (const { sql, bindings } of executed.filter((query) => query.sql.startsWith('select'))) {
    const response = await knex.raw(`explain ${sql.replaceAll(/\$\d+/g, '?')}`, bindings);
    const rows: readonly object[] = store.dialect === 'mysql' ? response[0] : response.rows;
    console.log(`  plan of the ${what}:`);
    for (const row of rows) console.log(`    ${Object.values(row).join(' ')}`);
  }
}

async function timed<T>(what: string, work: () => PromiseLike<T>): Promise<T> {
  const started = performance.now();
  const done = await work();
  console.log(`  ${what}: ${((performance.now() - started) / 1000).toFixed(1)} s`);
  return done;
}
