import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { kubeconfigText } from '../support/kubeconfig.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import { runQuery } from '../support/statementClient.ts';

const until = (check: () => Promise<void>): Promise<void> => vi.waitFor(check, { timeout: 60_000, interval: 100 });

/** A port of this machine that refuses connections. */
async function closedPort(): Promise<number> {
  return await new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

describe.skipIf(!hasPostgresql())('a gateway that has read neither source nor database', { timeout: 180_000 }, () => {
  let folder: string;
  let engine: SimulatedEngine;
  let postgresql: Awaited<ReturnType<typeof startPostgresql>>;
  let gateway: GatewayProcess | undefined;
  beforeAll(async () => {
    postgresql = await startPostgresql();
  });
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'starting-'));
    engine = await startSimulatedEngine({ name: 'a', port: 0 });
  });
  afterEach(async () => {
    await gateway?.stop();
    gateway = undefined;
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  });
  afterAll(() => postgresql?.dispose());

  const responseOf = async (path: string, method = 'GET') => {
    const body = method === 'POST' ? { body: 'SELECT 1', headers: { 'X-Engine-User': 'u' } } : {};
    const response = await fetch(`${gateway?.url}${path}`, { method, ...body, signal: AbortSignal.timeout(20_000) });
    return { status: response.status, retry: response.headers.get('Retry-After'), text: await response.text() };
  };
  const refusesToRoute = async (): Promise<void> => {
    expect(await responseOf('/readyz')).toMatchObject({ status: 503 });
    expect((await responseOf('/readyz?verbose')).text).toContain('neither the resource source nor the database');
    const refusal = { status: 503, retry: '1', text: expect.stringContaining('does not know its clusters yet') };
    expect(await responseOf('/v1/statement', 'POST')).toEqual(refusal);
    expect(await responseOf('/v1/statement/executing/20260101_000000_00001_abcde/x/1')).toEqual(refusal);
    expect(await responseOf('/v1/query/20260101_000000_00001_abcde')).toEqual(refusal);
    expect(await responseOf('/livez')).toMatchObject({ status: 200 });
  };
  const routes = async (): Promise<void> => {
    await until(async () => expect(await responseOf('/readyz')).toMatchObject({ status: 200 }));
    const { rows, error } = await runQuery(gateway?.url ?? '', 'SELECT * FROM tpch.tiny.region');
    expect({ rows: rows.length, error }).toEqual({ rows: 5, error: undefined });
  };
  /** A database as a gateway before left it, with one cluster. */
  const usedDatabase = async (): Promise<{ dataStore: { jdbcUrl: string }; connect: () => Promise<pg.Client> }> => {
    const dataStore = await postgresql.createDatabase();
    const { jdbcUrl, user, password } = dataStore;
    const connect = async (): Promise<pg.Client> => {
      const url = new URL(jdbcUrl.replace('jdbc:', ''));
      const client = new pg.Client({
        host: url.hostname,
        port: Number(url.port),
        database: url.pathname.slice(1),
        user,
        password,
      });
      await client.connect();
      return client;
    };
    const client = await connect();
    await client.query(`create table gateway_backend (name varchar(256) primary key, routing_group varchar(256),
      backend_url varchar(256), external_url varchar(256), active boolean)`);
    await client.query('insert into gateway_backend values ($1, $2, $3, $3, true)', ['a', 'adhoc', engine.url]);
    await client.query(`create table query_history (query_id varchar(256) primary key, query_text text, created bigint,
      backend_url varchar(256), user_name varchar(256), source varchar(256))`);
    await client.end();
    return { dataStore, connect };
  };

  test('as both are unavailable: not ready, 503 to everything, until one is there', async () => {
    const { dataStore } = await usedDatabase();
    await postgresql.stop(true);
    const kubeconfig = join(folder, 'kubeconfig');
    const server = `https://127.0.0.1:${await closedPort()}`;
    await writeFile(kubeconfig, kubeconfigText({ server }, { token: 't' }, 'default'));
    gateway = await startGateway({ dataStore, resources: { source: 'kubernetes', kubeconfig } });
    await refusesToRoute();
    await postgresql.start();
    await routes();
  });

  test.each(['database', 'directory'] as const)(
    'while migrations run at a takeover (source %s): not ready, 503 to everything, then the rows are routed',
    async (source) => {
      const { dataStore, connect } = await usedDatabase();
      const holder = await connect();
      await holder.query('begin');
      await holder.query('lock table query_history in access exclusive mode');
      try {
        gateway = await startGateway({ dataStore, resources: { source, directory: folder } });
        await refusesToRoute();
        await holder.query('commit');
      } finally {
        await holder.end();
      }
      await routes();
    },
  );
});
