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
    ['SELECT 1', ['_col0'], [[1]]],
    [
      "select 1 + 2 * 3 as n, -7 / 2, 7 % 3, 'it''s' || ' x', true, null",
      ['n', '_col1', '_col2', '_col3', '_col4', '_col5'],
      [[7, -3, 1, "it's x", true, null]],
    ],
    ['SELECT 1.5 + 2.25, 1e0 / 4, 2147483648', ['_col0', '_col1', '_col2'], [['3.75', 0.25, 2147483648]]],
    ['SELECT count(*) FROM tpch.tiny.nation', ['_col0'], [[25]]],
    [
      "SELECT name FROM tpch.tiny.nation WHERE name LIKE 'UNITED%' ORDER BY name DESC",
      ['name'],
      [['UNITED STATES'], ['UNITED KINGDOM']],
    ],
    [
      'SELECT regionkey, count(*) AS n FROM tpch.tiny.nation GROUP BY 1 ORDER BY n DESC, 1 LIMIT 2',
      ['regionkey', 'n'],
      [
        [0, 5],
        [1, 5],
      ],
    ],
    [
      "SELECT * FROM tpch.tiny.region WHERE regionkey IN (1, 3) AND NOT name = 'ASIA'",
      ['regionkey', 'name'],
      [
        [1, 'AMERICA'],
        [3, 'EUROPE'],
      ],
    ],
    [
      "VALUES (1, 'a'), (2, 'b')",
      ['_col0', '_col1'],
      [
        [1, 'a'],
        [2, 'b'],
      ],
    ],
    ['SELECT max(n) FROM (SELECT nationkey AS n FROM tpch.tiny.nation) t', ['_col0'], [[24]]],
    ['SHOW CATALOGS', ['Catalog'], [['memory'], ['system'], ['tpch']]],
    ['show tables from tpch.tiny', ['Table'], [['nation'], ['region']]],
    ['SELECT node_id, coordinator FROM system.runtime.nodes', ['node_id', 'coordinator'], [['adhoc-1', true]]],
    ['-- who\nSELECT /* am */ current_user', ['_col0'], [['test']]],
  ])('answers %s', async (sql, columns, rows) => {
    const outcome = await runQuery(engine.url, sql);
    expect(outcome.error).toBeUndefined();
    expect(outcome.rows).toEqual(rows);
    if (!sql.includes('current_user')) expect(outcome.columns).toEqual(columns);
    expect(outcome.states.at(0)).toBe('QUEUED');
    expect(outcome.states.at(-1)).toBe('FINISHED');
  });

  test.each([
    ['SELEC 1', 'SYNTAX_ERROR', 1],
    ['SELECT 1;', 'SYNTAX_ERROR', 1],
    ['SELECT 1 / 0', 'DIVISION_BY_ZERO', 8],
    ['SELECT * FROM nowhere.a.b', 'CATALOG_NOT_FOUND', 44],
    ['SELECT * FROM tpch.huge.nation', 'SCHEMA_NOT_FOUND', 45],
    ['SELECT * FROM tpch.tiny.nations', 'TABLE_NOT_FOUND', 46],
    ['SELECT colour FROM tpch.tiny.nation', 'COLUMN_NOT_FOUND', 47],
    ["SELECT 1 + 'a'", 'TYPE_MISMATCH', 58],
    ['SELECT nofunction(1)', 'FUNCTION_NOT_FOUND', 6],
    ["CALL system.runtime.kill_query('20260101_000000_00000_aaaaa')", 'NOT_FOUND', 5],
  ])('fails %s with %s', async (sql, name, code) => {
    const outcome = await runQuery(engine.url, sql);
    expect(outcome.error).toMatchObject({ errorName: name, errorCode: code });
    expect(outcome.states.at(-1)).toBe('FAILED');
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

  test('makes URIs as the client sees the engine, and ids with its suffix', async () => {
    const headers = {
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-Host': 'sql.example.org',
      'X-Forwarded-Port': '8443',
      'X-Forwarded-Prefix': '/a/',
    };
    const page = await submit(engine.url, 'SELECT 1', { headers });
    expect(page.id).toMatch(new RegExp(`^\\d{8}_\\d{6}_\\d{5}_${engine.suffix}$`));
    expect(page.nextUri).toMatch(`https://sql.example.org:8443/a/v1/statement/queued/${page.id}/`);
    expect(page.infoUri).toBe(`https://sql.example.org:8443/a/ui/query.html?${page.id}`);
    expect(engine.requests.at(-1)).toMatchObject({ method: 'POST', url: '/v1/statement', body: 'SELECT 1' });
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

  test('reports a query once it was dispatched, to users only', async () => {
    const page = await submit(engine.url, 'SELECT 1');
    const uri = `${engine.url}/v1/query/${page.id}`;
    const status = async (headers: Record<string, string>) => (await fetch(uri, { method: 'HEAD', headers })).status;
    expect(await status({})).toBe(401);
    expect(await status({ 'X-Engine-User': 'a' })).toBe(410);
    for (const next of [page.nextUri, (await follow(page.nextUri ?? '')).nextUri]) await follow(next ?? '');
    expect(await status({ 'X-Engine-User': 'a' })).toBe(200);
  });

  test('refuses unknown queries, wrong slugs and submissions without a user or text', async () => {
    const { id, nextUri = '' } = await submit(engine.url, 'SELECT 1');
    const asked = [nextUri.replace(id, '20260101_000000_00000_aaaaa'), nextUri.replace('/x', '/y')];
    for (const uri of asked) expect((await fetch(uri)).status).toBe(404);
    expect((await fetch(`${engine.url}/v1/statement`, { method: 'POST', body: 'SELECT 1' })).status).toBe(401);
    await expect(submit(engine.url, ' ')).rejects.toThrow('HTTP 400');
  });

  test('reports a changed session to clients', async () => {
    let page = await submit(engine.url, 'USE tpch.tiny');
    page = await follow(page.nextUri ?? '');
    const response = await fetch((await follow(page.nextUri ?? '')).nextUri ?? '');
    expect(response.headers.get('X-Engine-Set-Catalog')).toBe('tpch');
    expect(response.headers.get('X-Engine-Set-Schema')).toBe('tiny');
  });
});

describe('states of the simulated engine', () => {
  test('starting, failing, resetting, hanging, restarted, closed', async () => {
    const engine = await startSimulatedEngine({ name: 'etl-1', productName: 'Trino', state: { starting: true } });
    const options = { productName: 'Trino' };
    const info = async () => (await (await fetch(`${engine.url}/v1/info`)).json()) as { starting: boolean };
    expect(await info()).toMatchObject({
      starting: true,
      coordinator: true,
      nodeVersion: { version: '476-simulated' },
    });
    expect((await runQuery(engine.url, 'SELECT 1', options)).error?.errorName).toBe('SERVER_STARTING_UP');

    engine.setState({ starting: false, failing: 503 });
    await expect(submit(engine.url, 'SELECT 1', options)).rejects.toThrow('HTTP 503');
    engine.setState({ failing: 0, resetting: true });
    await expect(submit(engine.url, 'SELECT 1', options)).rejects.toThrow('fetch failed');
    engine.setState({ resetting: false, hanging: true });
    const signal = AbortSignal.timeout(100);
    await expect(submit(engine.url, 'SELECT 1', { ...options, signal })).rejects.toThrow('timeout');
    engine.setState({ hanging: false });

    const { suffix, url } = engine;
    const page = await submit(url, 'SELECT 1', options);
    await engine.restart();
    expect(engine.suffix).not.toBe(suffix);
    expect(engine.url).toBe(url);
    const next = () => follow(page.nextUri ?? '', options).then(JSON.stringify, String);
    await expect.poll(next).toContain('HTTP 404');
    expect((await runQuery(url, 'SELECT 1', options)).rows).toEqual([[1]]);
    await engine.close();
    await expect(submit(url, 'SELECT 1', options)).rejects.toThrow('fetch failed');
  });

  test('refuses forwarded headers when it is not set to process them', async () => {
    const engine = await startSimulatedEngine({ name: 'a', processForwarded: false, suffix: 'abcde' });
    expect(engine.suffix).toBe('abcde');
    await expect(submit(engine.url, 'SELECT 1', { headers: { 'X-Forwarded-For': '10.0.0.1' } })).rejects.toThrow(
      'HTTP 406: Server configuration does not allow processing of the x-forwarded-for header',
    );
    await engine.close();
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

  test('says when its port is taken', async () => {
    const engine = await startSimulatedEngine({ name: 'a' });
    await expect(startSimulatedEngine({ name: 'b', port: engine.port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await engine.close();
  });
});
