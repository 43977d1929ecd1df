import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { cancel, follow, runQuery, submit } from '../../support/statementClient.ts';

describe('the simulated engine', () => {
  let engine: SimulatedEngine;
  beforeAll(async () => {
    engine = await startSimulatedEngine({ name: 'adhoc-1', pageRows: 100, record: true });
  });
  afterAll(() => engine.close());

  test.each<[string, readonly string[], readonly (readonly unknown[])[]]>([
    ["select 7 / 2 as n, 'it''s' || ' x' as t, null as u", ['n', 't', 'u'], [[3, "it's x", null]]],
    [
      'SELECT nation.name FROM tpch.tiny.nation JOIN tpch.tiny.region r USING (regionkey) ORDER BY 1 DESC LIMIT 2',
      ['name'],
      [['VIETNAM'], ['UNITED STATES']],
    ],
    [
      'TABLE region',
      ['regionkey', 'name'],
      ['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'].map((n, i) => [i, n]),
    ],
    ['SELECT max(n) AS m FROM (SELECT nationkey AS n FROM tpch.tiny.nation) t', ['m'], [[24]]],
    ["SHOW SCHEMAS FROM system LIKE '%time'", ['Schema'], [['runtime']]],
    ['show tables', ['Table'], [['nation'], ['region']]],
    ['SELECT node_id, coordinator FROM system.runtime.nodes', ['node_id', 'coordinator'], [['adhoc-1', true]]],
    ['-- who\nSELECT /* am */ current_user AS me', ['me'], [['test']]],
    ["EXECUTE IMMEDIATE 'SELECT name FROM nation WHERE nationkey = ?' USING 3", ['name'], [['CANADA']]],
    ['EXECUTE p USING 4', ['five'], [[5]]],
  ])('runs %s', async (sql, columns, rows) => {
    const headers = {
      'X-Engine-Catalog': 'tpch',
      'X-Engine-Schema': 'tiny',
      'X-Engine-Prepared-Statement': 'p=SELECT%20%3F%20%2B%201%20AS%20five',
    };
    const outcome = await runQuery(engine.url, sql, { headers });
    expect(outcome.error).toBeUndefined();
    expect([outcome.columns, outcome.rows]).toEqual([columns, rows]);
    expect([outcome.states.at(0), outcome.states.at(-1)]).toEqual(['QUEUED', 'FINISHED']);
  });

  test.each([
    ['SELEC 1', 'SYNTAX_ERROR', 1],
    ['SELECT * FROM nowhere.a.b', 'CATALOG_NOT_FOUND', 44],
    ['SELECT * FROM tpch.huge.nation', 'SCHEMA_NOT_FOUND', 45],
    ['SELECT * FROM tpch.tiny.nations', 'TABLE_NOT_FOUND', 46],
    ['SELECT nofunction(1)', 'NOT_SUPPORTED', 13],
    ['EXPLAIN SELECT 1', 'NOT_SUPPORTED', 13],
    ["CALL system.runtime.kill_query('20260101_000000_00000_aaaaa')", 'NOT_FOUND', 5],
  ])('fails %s with %s', async (sql, name, code) => {
    const outcome = await runQuery(engine.url, sql);
    expect(outcome.error).toMatchObject({ errorName: name, errorCode: code });
    if (name === 'NOT_SUPPORTED') expect(outcome.error?.message).toContain("The demo's simulated engine");
    expect(outcome.states.at(-1)).toBe('FAILED');
  });

  test('responds to others while a long statement runs', async () => {
    const long = runQuery(engine.url, 'SELECT count(*) AS n FROM TABLE(sequence(start => 1, stop => 1000000))');
    expect((await runQuery(engine.url, 'SELECT 1')).rows).toEqual([[1]]);
    expect((await long).rows).toEqual([[1_000_000]]);
  });

  test('gives a big result in pages and each page again', async () => {
    const outcome = await runQuery(engine.url, 'SELECT * FROM TABLE(sequence(start => 1, stop => 2500))');
    expect(outcome.rows).toHaveLength(2500);
    expect(new Set(outcome.rows.map(([n]) => n)).size).toBe(2500);
    expect(outcome.uris.length).toBeGreaterThan(25);

    let page = await submit(engine.url, 'SELECT * FROM TABLE(sequence(start => 1, stop => 2500))');
    while (page.data === undefined) page = await follow(page.nextUri ?? '');
    const uri = page.nextUri ?? '';
    const once = await follow(uri);
    expect((await follow(uri)).data).toEqual(once.data);
    const over = await fetch(uri.replace(/\d+$/, '0'));
    expect(over.status).toBe(410);
  });

  test('keeps tables that clients make', async () => {
    expect(await runQuery(engine.url, 'CREATE TABLE memory.default.t AS SELECT * FROM tpch.tiny.region')).toMatchObject(
      {
        updateType: 'CREATE TABLE',
        rows: [[5]],
      },
    );
    expect((await runQuery(engine.url, "INSERT INTO memory.default.t VALUES (9, 'X')")).updateType).toBe('INSERT');
    expect((await runQuery(engine.url, 'SELECT count(*) FROM memory.default.t')).rows).toEqual([[6]]);
    expect((await runQuery(engine.url, 'DROP TABLE memory.default.t')).updateType).toBe('DROP TABLE');
  });

  test('runs a slow query until it is cancelled or killed', async () => {
    const slow = 'SELECT * FROM TABLE(slow(seconds => 30))';
    let page = await submit(engine.url, slow);
    for (const _ of [1, 2]) page = await follow(page.nextUri ?? '');
    expect(page.stats.state).toBe('RUNNING');
    const waiting = follow(page.nextUri ?? '');
    expect(await cancel(page.nextUri ?? '')).toBe(204);
    expect((await waiting).error?.errorName).toBe('USER_CANCELED');

    page = await submit(engine.url, slow);
    for (const _ of [1, 2]) page = await follow(page.nextUri ?? '');
    const kill = `CALL system.runtime.kill_query(query_id => '${page.id}', message => 'too slow')`;
    expect((await runQuery(engine.url, kill)).error).toBeUndefined();
    expect((await follow(page.nextUri ?? '')).error?.message).toBe('Query killed. Message: too slow');
  });

  test('reports a changed session to clients', async () => {
    let page = await submit(engine.url, 'USE tpch.tiny');
    page = await follow(page.nextUri ?? '');
    const response = await fetch((await follow(page.nextUri ?? '')).nextUri ?? '');
    expect(response.headers.get('X-Engine-Set-Catalog')).toBe('tpch');
    expect(response.headers.get('X-Engine-Set-Schema')).toBe('tiny');
  });
});

test('does not count queries that no client has asked for in five minutes', async () => {
  const engine = await startSimulatedEngine({ name: 'a' });
  const metrics = async () =>
    (await (await fetch(`${engine.url}/metrics`, { headers: { 'X-Engine-User': 'me' } })).text()).match(
      /^engine_execution\S+ \d/gm,
    );
  const counts = (queued: number) => [
    `engine_execution_name_QueryManager_QueuedQueries ${queued}`,
    'engine_execution_name_QueryManager_RunningQueries 0',
  ];
  const { nextUri = '' } = await submit(engine.url, 'SELECT 1');
  expect(await metrics()).toEqual(counts(1));
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 300_000 });
  try {
    expect(await metrics()).toEqual(counts(0));
  } finally {
    vi.useRealTimers();
  }
  expect((await follow(nextUri)).error).toMatchObject({ errorName: 'ABANDONED_QUERY' });
  await engine.close();
});
