/**
 * Tests of trino-client against the server at TRINO_URL, for `node --test`: what the package's users do with it. Tables
 * and sources have names of their own, so that runs do not meet.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import process from 'node:process';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BasicAuth, type ConnectionOptions, type Query, type QueryData, type QueryResult, Trino } from 'trino-client';

const server = process.env.TRINO_URL ?? '';
const LIMIT = { timeout: 60_000 };
/** Gives rows for as long as a test needs. */
const LONG = 'SELECT * FROM tpch.sf1000.lineitem';

const connect = (options: ConnectionOptions = {}) =>
  Trino.create({ server, catalog: 'tpch', schema: 'tiny', auth: new BasicAuth('javascript'), ...options });

interface Outcome {
  readonly rows: readonly QueryData[];
  readonly last: QueryResult;
}

async function run(trino: Trino, query: Query | string): Promise<Outcome> {
  const rows: QueryData[] = [];
  let last: QueryResult | null = null;
  for await (const page of await trino.query(query)) {
    rows.push(...(page.data ?? []));
    last = page;
  }
  assert.ok(last !== null);
  return { rows, last };
}

const rowsOf = async (query: Query | string, options: ConnectionOptions = {}) => {
  const { rows, last } = await run(connect(options), query);
  assert.equal(last.error, undefined);
  return rows;
};

/** The state in which the query ends, as the server's own page of the query has it. */
async function finalState(trino: Trino, id: string): Promise<string> {
  const deadline = performance.now() + LIMIT.timeout / 2;
  for (;;) {
    const { state } = await trino.queryInfo(id);
    if (['FAILED', 'FINISHED'].includes(state) || performance.now() > deadline) return state;
    await sleep(50);
  }
}

test('reads a result to its end', LIMIT, async () => {
  assert.deepEqual(await rowsOf('SELECT count(*) FROM customer'), [[1500]]);
});

test('reads a result of many pages in order', LIMIT, async () => {
  const rows = await rowsOf('SELECT * FROM TABLE(sequence(start => 1, stop => 60000)) ORDER BY 1');
  assert.equal(rows.length, 60000);
  assert.ok(rows.every(([value], index) => value === index + 1));
});

for (const [sql, expected] of [
  ["'é ✓ ☃'", 'é ✓ ☃'],
  ['true', true],
  ['CAST(NULL AS BIGINT)', null],
  ['1.50', '1.50'],
  ['1e300', 1e300],
  ['nan()', 'NaN'],
  ["DATE '2026-11-21'", '2026-11-21'],
  // The client does not say that it can take more than milliseconds.
  ["TIMESTAMP '2026-11-21 01:02:03.456789'", '2026-11-21 01:02:03.457'],
  ["TIMESTAMP '2026-11-21 01:02:03 Europe/Berlin'", '2026-11-21 01:02:03.000 Europe/Berlin'],
  ["X'65683F'", 'ZWg/'],
  ['ARRAY[1, 2, NULL]', [1, 2, null]],
  ["MAP(ARRAY['a', 'b'], ARRAY[1, 2])", { a: 1, b: 2 }],
  ["ROW(1, 'x')", [1, 'x']],
  ["INTERVAL '2' DAY", '2 00:00:00.000'],
  ["UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59'", '12151fd2-7586-11e9-8f9e-2a86e4085a59'],
  ['JSON \'{"a":[1]}\'', '{"a":[1]}'],
] as const) {
  test(`reads ${sql}`, LIMIT, async () => {
    assert.deepEqual(await rowsOf(`SELECT ${sql}`), [[expected]]);
  });
}

test('gives columns with their types', LIMIT, async () => {
  const { last } = await run(connect(), 'SELECT regionkey, name FROM region');
  assert.deepEqual(
    last.columns?.map(({ name, type }) => [name, type]),
    [
      ['regionkey', 'bigint'],
      ['name', 'varchar(25)'],
    ],
  );
});

test('gives the error of a query', LIMIT, async () => {
  const { last } = await run(connect(), 'SELECT * FROM foobar WHERE id = -1');
  assert.equal(last.error?.message, "line 1:15: Table 'tpch.tiny.foobar' does not exist");
  assert.equal(last.error?.errorName, 'TABLE_NOT_FOUND');
});

test('gives the error of a query that had rows', LIMIT, async () => {
  const { last } = await run(connect(), 'SELECT 100 / (nationkey - 7) FROM nation');
  assert.equal(last.error?.errorName, 'DIVISION_BY_ZERO');
});

test('gives the information of a query', LIMIT, async () => {
  const trino = connect();
  const sql = 'SELECT name FROM nation LIMIT 1';
  const { last } = await run(trino, sql);
  const info = await trino.queryInfo(last.id);
  assert.deepEqual([info.queryId, info.query, info.state], [last.id, sql, 'FINISHED']);
});

test('gives the failure of a query in its information', LIMIT, async () => {
  const trino = connect();
  const { last } = await run(trino, 'SELECT * FROM foobar');
  const info = await trino.queryInfo(last.id);
  assert.deepEqual(
    [info.state, info.failureInfo?.message],
    ['FAILED', "line 1:15: Table 'tpch.tiny.foobar' does not exist"],
  );
});

for (const pages of [1, 5]) {
  test(`cancels a query of which ${pages} pages were read`, LIMIT, async () => {
    const trino = connect();
    const query = await trino.query(LONG);
    let id = '';
    for (let page = 0; page < pages; page += 1) ({ id } = ((await query.next()) as { value: QueryResult }).value);
    assert.equal((await trino.queryInfo(id)).state, 'RUNNING');
    await trino.cancel(id);
    assert.equal(await finalState(trino, id), 'FAILED');
    const error = await query.next().then(
      ({ value }) => (value as QueryResult | undefined)?.error?.errorName,
      (reason: unknown) => String(reason),
    );
    assert.equal(error, 'USER_CANCELED');
  });
}

test('keeps catalog and schema that USE sets', LIMIT, async () => {
  const trino = connect({ catalog: 'memory', schema: 'default' });
  await run(trino, 'USE tpch.tiny');
  assert.deepEqual((await run(trino, 'SELECT count(*) FROM region')).rows, [[5]]);
});

test('takes catalog and schema of a query', LIMIT, async () => {
  const query = { query: 'SELECT current_catalog, current_schema', catalog: 'tpch', schema: 'sf1' };
  assert.deepEqual(await rowsOf(query, { catalog: 'memory', schema: 'default' }), [['tpch', 'sf1']]);
});

test('gets timestamps as they are where it says that it can take them', LIMIT, async () => {
  const extraHeaders = { 'X-Trino-Client-Capabilities': 'PARAMETRIC_DATETIME' };
  const rows = await rowsOf("SELECT TIMESTAMP '2026-11-21 01:02:03.456789'", { extraHeaders });
  assert.deepEqual(rows, [['2026-11-21 01:02:03.456789']]);
});

test('sends the user of a query, whom another user may not impersonate', LIMIT, async () => {
  assert.deepEqual(await rowsOf({ query: 'SELECT current_user', user: 'javascript' }), [['javascript']]);
  const { last } = await run(connect(), { query: 'SELECT current_user', user: 'ann' });
  assert.match(last.error?.message ?? '', /User javascript cannot impersonate user ann/);
});

test('sends session properties of the connection', LIMIT, async () => {
  const session = { query_max_run_time: '17m', 'memory.no_such': '1' };
  const { last } = await run(connect({ session }), 'SELECT 1');
  assert.match(last.error?.message ?? '', /no_such/);
  const rows = await rowsOf("SHOW SESSION LIKE 'query_max_run_time'", { session: { query_max_run_time: '17m' } });
  assert.deepEqual(rows[0]?.slice(0, 2), ['query_max_run_time', '17m']);
});

test('sends session properties of a query', LIMIT, async () => {
  const rows = await rowsOf({
    query: "SHOW SESSION LIKE 'query_max_run_time'",
    session: { query_max_run_time: '18m' },
  });
  assert.deepEqual(rows[0]?.slice(0, 2), ['query_max_run_time', '18m']);
});

test('sends the source and headers of its own', LIMIT, async () => {
  const source = `javascript-${randomBytes(6).toString('hex')}`;
  const trino = connect({ source, extraHeaders: { 'X-Trino-Client-Tags': 'one,two' } });
  const { last } = await run(trino, 'SELECT 1');
  const rows = await rowsOf(`SELECT source FROM system.runtime.queries WHERE query_id = '${last.id}'`);
  assert.deepEqual(rows, [[source]]);
  const info = (await trino.queryInfo(last.id)) as unknown as { readonly session: { readonly clientTags: string[] } };
  assert.deepEqual(info.session.clientTags.toSorted(), ['one', 'two']);
});

test('sends extra credentials', LIMIT, async () => {
  assert.deepEqual(await rowsOf('SELECT 1', { extraCredential: { name: 'value' } }), [[1]]);
});

test('takes a role by a header', LIMIT, async () => {
  const role = (name: string) => ({ extraHeaders: { 'X-Trino-Role': `hive=ROLE{${name}}` } });
  const roles = await rowsOf('SHOW ROLES FROM hive', role('admin'));
  assert.ok(roles.flat().includes('admin'));
  const { last } = await run(connect(), 'SHOW ROLES FROM hive');
  assert.equal(last.error?.errorName, 'PERMISSION_DENIED');
});

test('writes and reads a table', LIMIT, async () => {
  const table = `memory.default.js_${randomBytes(6).toString('hex')}`;
  assert.deepEqual(await rowsOf(`CREATE TABLE ${table} AS SELECT * FROM nation`), [[25]]);
  assert.deepEqual(await rowsOf(`INSERT INTO ${table} SELECT * FROM nation`), [[25]]);
  assert.deepEqual(await rowsOf(`SELECT count(*) FROM ${table}`), [[50]]);
  assert.deepEqual(await rowsOf(`DROP TABLE ${table}`), []);
});

test('prepared statements are the callers to keep', LIMIT, async () => {
  const statement = encodeURIComponent('SELECT name FROM region WHERE regionkey = ?');
  const extraHeaders = { 'X-Trino-Prepared-Statement': `one=${statement}` };
  assert.deepEqual(await rowsOf('EXECUTE one USING 2', { extraHeaders }), [['ASIA']]);
});

test('runs queries of one connection at the same time', LIMIT, async () => {
  const trino = connect();
  const numbers = Array.from({ length: 20 }, (_, index) => index);
  const outcomes = await Promise.all(numbers.map((number) => run(trino, `SELECT ${number}, count(*) FROM nation`)));
  assert.deepEqual(
    outcomes.map(({ rows }) => rows),
    numbers.map((number) => [[number, 25]]),
  );
});

test('folds and maps pages', LIMIT, async () => {
  const count = await (await connect().query('SELECT * FROM orders')).fold(
    0,
    (page, sum) => sum + (page.data?.length ?? 0),
  );
  assert.equal(count, 15000);
  const states: string[] = [];
  const mapped = (await connect().query('SELECT 1')).map((page) => page.stats?.state ?? '');
  for await (const state of mapped) states.push(state);
  assert.equal(states.at(-1), 'FINISHED');
});
