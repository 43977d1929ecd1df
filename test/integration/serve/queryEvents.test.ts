import { beforeAll, describe, expect, test } from 'vitest';
import type { DigestDetails, DigestList, ListedQuery, QueryPage } from '../../../src/api/responses/queries.ts';
import type { RoutedQuery } from '../../../src/api/responses/routing.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { runQuery } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const SECRET = 'a secret of the first cluster, and of no other';
const SHARED = 'a secret of all other clusters of the gateway';

/** A `QueryCompletedEvent` as Trino 476 sends it, with what the gateway reads. */
const completed = (queryId: string, extra: object = {}) => ({
  metadata: { queryId, query: "SELECT 'past the gateway', 7", queryState: 'FINISHED', plan: 'x'.repeat(50_000) },
  statistics: {
    ...{ cpuTime: 1.5, wallTime: 2.25, queuedTime: 0.25, analysisTime: 0.01, planningTime: 0.02 },
    ...{ peakUserMemoryBytes: 4096, physicalInputBytes: 10, totalBytes: 20, totalRows: 30, spilledBytes: 0 },
  },
  context: { user: 'ann', source: 'cli' },
  ioMetadata: {
    inputs: [
      {
        catalogName: 'hive',
        schema: 'web',
        table: 'small',
        columns: ['a'],
        physicalInputBytes: 10,
        physicalInputRows: 1,
      },
      { catalogName: 'hive', schema: 'web', table: 'large', columns: [], physicalInputBytes: 100 },
      { catalogName: 'hive', schema: 'web', table: 'large', columns: [], physicalInputBytes: 50, physicalInputRows: 7 },
    ],
  },
  createTime: new Date(Date.now() - 2250).toISOString(),
  endTime: new Date().toISOString(),
  ...extra,
});
const failureInfo = {
  errorCode: { code: 1, name: 'SYNTAX_ERROR', type: 'USER_ERROR' },
  failureMessage: 'line 1: mismatched',
};

describe('events of clusters', () => {
  const world = worldOf('suite');
  let gateway: GatewayProcess;
  let ids = 0;
  const nextId = () => {
    ids += 1;
    return `20261101_010101_${String(ids).padStart(5, '0')}_zzzzz`;
  };

  const post = async (cluster: string, event: unknown, secret: string | null = SECRET) => {
    const headers = { 'content-type': 'application/json', ...(secret && { authorization: `Bearer ${secret}` }) };
    const body = typeof event === 'string' ? event : JSON.stringify(event);
    const response = await fetch(`${gateway.url}/api/queryEvents/${cluster}`, { method: 'POST', headers, body });
    return { status: response.status, text: await response.text() };
  };
  const read = async <T>(path: string) => (await (await fetch(`${gateway.url}${path}`)).json()) as T;
  const listed = async (queryId: string): Promise<ListedQuery | undefined> =>
    (await read<QueryPage>(`/api/queries?queryId=${queryId}`)).queries[0];

  beforeAll(async () => {
    const engine = await world.engine({ name: 'engine' });
    const other = await world.engine({ name: 'other' });
    await world.declare(
      manifest('EngineCluster', 'first', { proxyTo: engine.url, routingGroup: 'adhoc' }),
      manifest('EngineCluster', 'second', { proxyTo: other.url, routingGroup: 'etl' }),
    );
    gateway = await world.startReady({ queryEvents: { secrets: { first: SECRET, '*': SHARED } } });
  });

  test('record queries that were not sent through the gateway, and mark them', async () => {
    const [finished, failed, cancelled] = [nextId(), nextId(), nextId()];
    expect(await post('first', completed(finished))).toEqual({ status: 204, text: '' });
    expect((await post('first', completed(failed, { failureInfo }))).status).toBe(204);
    const killed = { ...failureInfo, errorCode: { code: 2, name: 'USER_CANCELED', type: 'USER_ERROR' } };
    expect((await post('first', completed(cancelled, { failureInfo: killed }))).status).toBe(204);
    await expect.poll(() => listed(cancelled)).toMatchObject({ outcome: { state: 'CANCELLED' } });
    expect(await listed(finished)).toMatchObject({
      ...{ bypassed: true, user: 'ann', source: 'cli', cluster: 'first', routingGroup: null },
      queryText: "SELECT 'past the gateway', 7",
      outcome: {
        ...{ state: 'FINISHED', elapsedMillis: 2250, queuedMillis: 250, cpuMillis: 1500, processedRows: 30 },
        ...{
          processedBytes: 20,
          physicalInputBytes: 10,
          peakMemoryBytes: 4096,
          planningMillis: 20,
          analysisMillis: 10,
        },
      },
    });
    expect(await listed(failed)).toMatchObject({
      outcome: {
        state: 'FAILED',
        errorName: 'SYNTAX_ERROR',
        errorType: 'USER_ERROR',
        errorMessage: 'line 1: mismatched',
      },
    });
    const whole = await read<RoutedQuery>(`/api/queries/${finished}`);
    expect(whole).toMatchObject({ bypassed: true, user: 'ann', decision: null, outcome: { cpuMillis: 1500 } });
    const { digests } = await read<DigestList>('/api/digests?cluster=first&top=count');
    expect(digests).toMatchObject([{ shape: 'SELECT ?, ?', figures: { queries: 3, userErrors: 1, cpuMillis: 4500 } }]);
    const tables = [
      { table: 'hive.web.large', rows: 7, bytes: 150 },
      { table: 'hive.web.small', rows: 1, bytes: 10 },
    ];
    expect(whole.inputs).toEqual(tables);
    const { inputs } = await read<DigestDetails>(`/api/digests/${digests[0]?.digest}`);
    expect(inputs).toEqual(
      tables.map(({ table, rows, bytes }) => ({ table, rows: 3 * rows, bytes: 3 * bytes, queries: 3 })),
    );
    const csv = await (await fetch(`${gateway.url}/api/queries/export?queryId=${finished}`)).text();
    expect(
      csv
        .trimEnd()
        .split('\r\n')
        .map((line) => line.split(',').at(-1)),
    ).toEqual(['bypassed', 'true']);
  });

  test('complete queries that were sent through the gateway, and overwrite nothing', async () => {
    const { id } = await runQuery(gateway.url, 'SELECT 1', { user: 'bob' });
    await expect.poll(() => listed(id)).toMatchObject({ outcome: { state: 'FINISHED' } });
    const before = await listed(id);
    const owner = before?.cluster ?? '';
    const secret = owner === 'first' ? SECRET : SHARED;
    expect((await post(owner, completed(id, { failureInfo }), secret)).status).toBe(204);
    const marker = nextId();
    expect((await post('first', completed(marker))).status).toBe(204);
    await expect.poll(() => listed(marker)).toBeDefined();
    const after = await listed(id);
    expect(after).toMatchObject({ bypassed: false, user: 'bob', queryText: 'SELECT 1' });
    expect((await read<RoutedQuery>(`/api/queries/${id}`)).inputs).toHaveLength(2);
    expect(after?.outcome).toEqual(
      Object.fromEntries(
        Object.entries(before?.outcome ?? {}).map(([name, value]) => [
          name,
          value ?? after?.outcome?.[name as 'pages'],
        ]),
      ),
    );
  });

  test('of another cluster, with another secret, or that are malformed are not accepted', async () => {
    const { id } = await runQuery(gateway.url, 'SELECT 1', { headers: { 'X-Engine-Routing-Group': 'adhoc' } });
    const foreign = await post('second', completed(id), SHARED);
    expect(foreign).toMatchObject({ status: 400, text: expect.stringContaining('another cluster than second') });
    const event = completed(nextId());
    for (const [cluster, secret] of [
      ['first', null],
      ['first', SHARED],
      ['first', `${SECRET} `.repeat(2)],
      ['second', SECRET],
      ['constructor', 'undefined'],
    ] as const)
      expect(await post(cluster, event, secret)).toMatchObject({ status: 401 });
    expect(await post('third', event, SHARED)).toMatchObject({ status: 404 });
    for (const [wrong, problem] of [
      ['{', 'not JSON'],
      [completed('20261101_010101_00001_queue'), 'metadata.queryId'],
      [completed("x' or 1"), 'metadata.queryId'],
      [completed(nextId(), { createTime: '2030-01-01T00:00:00Z' }), 'createTime'],
      [completed(nextId(), { createTime: '2020-01-01T00:00:00Z' }), 'createTime'],
      [completed(nextId(), { endTime: 7 }), 'endTime'],
    ] as const)
      expect(await post('first', wrong)).toMatchObject({ status: 400, text: expect.stringContaining(problem) });
    // Other events are ignored.
    for (const ignored of [{}, [], 'null', { splitCompleted: 1 }, { metadata: {}, createTime: 'x' }])
      expect(await post('first', ignored)).toMatchObject({ status: 204 });
  });

  test('are bounded in size and rate', async () => {
    const large = completed(nextId(), { metadata: { queryId: nextId(), query: 'x'.repeat(5 * 1024 * 1024) } });
    expect(await post('first', large)).toMatchObject({ status: 413 });
    const statuses = new Set<number>();
    for (let round = 0; round < 40 && !statuses.has(503); round += 1) {
      const burst = Array.from({ length: 4 }, () => post('second', `${' '.repeat(3_900_000)}{}`, SHARED));
      for (const { status } of await Promise.all(burst)) statuses.add(status);
    }
    expect(statuses).toEqual(new Set([204, 503]));
    // Others are not affected.
    expect(await post('first', {})).toMatchObject({ status: 204 });
  });

  test('are not accepted without secrets', async () => {
    const closed = await world.startReady();
    const response = await fetch(`${closed.url}/api/queryEvents/first`, { method: 'POST', body: '{}' });
    expect(response.status).toBe(404);
  });
});
