/**
 * Figures of queries at a real Trino, as the gateway records them, against those of the server and of its HTTP event listener, which
 * reports to the gateway.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ListedQuery, QueryPage } from '../../src/api/responses/queries.ts';
import type { RoutedQuery } from '../../src/api/responses/routing.ts';
import { requireComponent } from '../support/components.ts';
import { postgresql } from '../support/databases.ts';
import { until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { declare, manifest } from '../support/queueing.ts';
import { cancel, follow, runQuery, submit } from '../support/statementClient.ts';
import { installDistribution, missingTools } from './distribution.ts';
import { createIdleTables, idleCatalog, slowQuery } from './queries.ts';
import { engineRecord, writtenBytes, writtenTime } from './trinoQueries.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

const missing = await missingTools();
const available = requireComponent('a tool of the engine suite', missing.length === 0, `install ${missing.join(', ')}`);

const SECRET = 'a secret of the only cluster of this gateway';
const QUERIES = 200;
const BYPASSED = 20;
const asTrino = { productName: 'Trino', user: 'suite' };

/** Statements of many kinds, each of them with another literal. */
const statements = [
  (index: number) => `SELECT count(*) FROM tpch.tiny.orders WHERE orderkey > ${index}`,
  (index: number) => `SELECT * FROM tpch.tiny.nation WHERE nationkey <> ${index}`,
  (index: number) =>
    `SELECT c.name, sum(o.totalprice) FROM tpch.tiny.customer c JOIN tpch.tiny.orders o ON c.custkey = o.custkey WHERE c.custkey < ${index + 10} GROUP BY c.name`,
  (index: number) => `SELECT max(l.extendedprice) FROM tpch.tiny.lineitem l WHERE l.partkey <> ${index}`,
  (index: number) => `SELECT ${index}`,
  (index: number) => `SELECT ${index} FROM nothing.at.all`,
  (index: number) => `SELECT 1 / (${index} - ${index})`,
  (index: number) => `CREATE TABLE memory.default.t${index} AS SELECT * FROM tpch.tiny.region`,
  () => 'SHOW CATALOGS',
  (index: number) => `SELECT name FROM tpch.tiny.customer ORDER BY acctbal + ${index} LIMIT 10`,
];
const statement = (index: number): string => statements[index % statements.length]?.(index) ?? '';

interface CompletedEvent {
  readonly metadata: { readonly queryId: string };
  readonly statistics: Readonly<Record<string, number>>;
  readonly createTime: string;
  readonly endTime: string;
}

describe.skipIf(!available || !postgresql.available())('events of Trino', () => {
  let folder: string;
  let gateway: GatewayProcess;
  let trino: TrinoServer;
  let tap: Server;
  const events = new Map<string, CompletedEvent>();

  beforeAll(async () => {
    const distribution = await installDistribution();
    folder = await mkdtemp(join(tmpdir(), 'engine-events-'));
    await mkdir(join(folder, 'resources'));
    gateway = await startGateway({
      protocol: { productName: 'Trino' },
      resources: { source: 'directory', directory: join(folder, 'resources') },
      monitor: { taskDelay: '1s', timeout: '10s' },
      queryEvents: { secrets: { trino: SECRET } },
      dataStore: await (await postgresql.start()).create(),
    });
    // What the server sends, on its way to the gateway.
    tap = createServer(async (request, response) => {
      const body = await buffer(request);
      const event = JSON.parse(body.toString()) as CompletedEvent;
      const { authorization = '', 'content-type': type = '' } = request.headers;
      const headers = { authorization, 'content-type': type };
      const passed = await fetch(`${gateway.url}${request.url}`, {
        method: 'POST',
        headers,
        body: new Uint8Array(body),
      });
      if (passed.status === 204) events.set(event.metadata.queryId, event);
      response.writeHead(passed.status).end();
    });
    await new Promise<void>((resolve) => tap.listen(0, '127.0.0.1', resolve));
    const { port } = tap.address() as AddressInfo;
    await declare(
      join(folder, 'resources'),
      manifest('EngineCluster', 'trino', { proxyTo: 'http://127.0.0.1:1', routingGroup: 'adhoc' }),
    );
    await until(async () => (await post({})) === 204, 'the gateway to know the cluster');
    const properties = [
      'event-listener.name=http',
      'http-event-listener.log-completed=true',
      `http-event-listener.connect-ingest-uri=http://127.0.0.1:${port}/api/queryEvents/trino`,
      `http-event-listener.connect-http-headers=Authorization: Bearer ${SECRET}`,
      'http-event-listener.connect-retry-count=3',
    ];
    trino = await startTrino(
      'events',
      distribution,
      { 'http-event-listener.properties': `${properties.join('\n')}\n` },
      { 'event-listener.config-files': 'etc/http-event-listener.properties' },
      idleCatalog,
    );
    await createIdleTables(trino.url);
    await declare(
      join(folder, 'resources'),
      manifest('EngineCluster', 'trino', { proxyTo: trino.url, routingGroup: 'adhoc' }),
    );
    const runs = async () => (await runQuery(gateway.url, 'SELECT 1', asTrino)).error === undefined;
    await until(() => runs().catch(() => false), 'the gateway to send queries to the server', 120_000);
  }, 540_000);
  afterAll(async () => {
    await trino?.kill();
    tap?.close();
    await gateway?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  const post = async (event: object) => {
    const headers = { authorization: `Bearer ${SECRET}`, 'content-type': 'application/json' };
    const body = JSON.stringify(event);
    return (await fetch(`${gateway.url}/api/queryEvents/trino`, { method: 'POST', headers, body })).status;
  };
  const listed = async (id: string): Promise<ListedQuery | undefined> => {
    const response = await fetch(`${gateway.url}/api/queries?queryId=${id}`);
    return ((await response.json()) as QueryPage).queries[0];
  };
  /** Runs statements, four at a time. @returns their ids */
  const runAll = async (url: string, from: number, count: number): Promise<readonly string[]> => {
    const ids: string[] = [];
    let next = from;
    const worker = async () => {
      while (next < from + count) ids.push((await runQuery(url, statement(next++), asTrino)).id);
    };
    await Promise.all([1, 2, 3, 4].map(worker));
    return ids;
  };
  /** Figures of an event as the gateway has them. */
  const figuresOf = ({ statistics: of, createTime, endTime }: CompletedEvent) => ({
    // The server reports no duration of a query that fails before it begins.
    elapsedMillis: millis(of.wallTime) || Date.parse(endTime) - Date.parse(createTime),
    ...{ queuedMillis: millis(of.queuedTime), cpuMillis: millis(of.cpuTime) },
    ...{ processedRows: of.totalRows, processedBytes: of.totalBytes, peakMemoryBytes: of.peakUserMemoryBytes },
    ...{ physicalInputBytes: of.physicalInputBytes, spilledBytes: of.spilledBytes },
  });
  const millis = (seconds = 0) => Math.round(seconds * 1000);

  test(`figures of ${QUERIES} queries equal those of the server and of its events`, async () => {
    const ids = await runAll(gateway.url, 1, QUERIES);
    await until(() => ids.every((id) => events.has(id)), 'events of all queries', 60_000);
    const differences: object[] = [];
    for (const id of ids) {
      await expect.poll(async () => (await listed(id))?.outcome, { timeout: 10_000 }).not.toBeNull();
      const query = await listed(id);
      expect(query).toMatchObject({ bypassed: false, user: 'suite', routingGroup: 'adhoc' });
      const outcome: Readonly<Record<string, unknown>> = { ...query?.outcome };
      const event = events.get(id) as CompletedEvent;
      const [of, reported] = [event.statistics, figuresOf(event)];
      const own = await ownFigures(id);
      for (const [name, value] of Object.entries(reported)) {
        const ofServer = own[name as keyof typeof own];
        // The server counts in parts of a millisecond.
        const isClose = ofServer === undefined || Math.abs(ofServer.value - Number(value)) <= ofServer.roundedBy + 1;
        // Times of the end and of the creation are cut to milliseconds.
        const isEqual = outcome[name] === value || (of.wallTime === 0 && name === 'elapsedMillis' && isClose);
        if (!isEqual || !isClose) differences.push({ id, name, stored: outcome[name], value, ofServer });
      }
    }
    expect(differences).toEqual([]);
  }, 300_000);

  test('a query has its input by table', async () => {
    const sql = 'SELECT count(*) FROM tpch.tiny.orders o JOIN tpch.tiny.lineitem l ON o.orderkey = l.orderkey';
    const { id } = await runQuery(gateway.url, sql, asTrino);
    const inputs = async () =>
      ((await (await fetch(`${gateway.url}/api/queries/${id}`)).json()) as RoutedQuery).inputs?.map(
        ({ table, rows }) => `${table}: ${rows}`,
      );
    const expected = ['tpch.tiny.lineitem: 60175', 'tpch.tiny.orders: 15000'];
    await expect.poll(inputs, { timeout: 30_000 }).toEqual(expected);
  }, 60_000);

  /** What the server itself has of a query, and how far each figure may be from what it was. */
  const ownFigures = async (id: string) => {
    const { queryStats } = await engineRecord(trino, id);
    const exact = (value: number) => ({ value, roundedBy: 0 });
    return {
      elapsedMillis: writtenTime(queryStats.elapsedTime),
      queuedMillis: writtenTime(queryStats.queuedTime),
      cpuMillis: writtenTime(queryStats.totalCpuTime),
      processedRows: exact(queryStats.processedInputPositions),
      processedBytes: exact(writtenBytes(queryStats.rawInputDataSize)),
      peakMemoryBytes: exact(writtenBytes(queryStats.peakUserMemoryReservation)),
    };
  };

  test('queries past the gateway are recorded and marked, with the figures of the server', async () => {
    const ids = await runAll(trino.url, 1000, BYPASSED);
    for (const id of ids) {
      await expect.poll(async () => (await listed(id))?.bypassed, { timeout: 30_000 }).toBe(true);
      const query = await listed(id);
      expect(query).toMatchObject({ user: 'suite', cluster: 'trino', routingGroup: null, rule: null });
      expect(query?.outcome).toMatchObject(figuresOf(events.get(id) as CompletedEvent));
      expect(query?.outcome?.digest).toMatch(/^[0-9a-f]{16}$/);
    }
    const failed = (await Promise.all(ids.map(listed))).filter((query) => query?.outcome?.state === 'FAILED');
    expect(failed.map((query) => query?.outcome?.errorType)).toEqual(Array(4).fill('USER_ERROR'));
  }, 120_000);

  test('a cancelled query has the figures that only the server knows', async () => {
    let page = await submit(gateway.url, slowQuery, asTrino);
    while (page.stats.state !== 'RUNNING') page = await follow(page.nextUri ?? '', asTrino);
    expect(await cancel(page.nextUri ?? '', asTrino)).toBe(204);
    await until(() => events.has(page.id), 'the event of the cancelled query', 30_000);
    const expected = figuresOf(events.get(page.id) as CompletedEvent);
    await expect
      .poll(async () => (await listed(page.id))?.outcome, { timeout: 10_000 })
      .toMatchObject({ state: 'CANCELLED', cpuMillis: expected.cpuMillis, peakMemoryBytes: expected.peakMemoryBytes });
    expect(await listed(page.id)).toMatchObject({ bypassed: false });
  }, 60_000);
});
