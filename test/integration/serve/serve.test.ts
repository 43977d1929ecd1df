import { readFile, writeFile } from 'node:fs/promises';
import { pino } from 'pino';
import { beforeEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { openStore } from '../../../src/store/openStore.ts';
import { asProcess, GatewayExit, type GatewayProcess, startGatewayWithFile } from '../../support/gatewayProcess.ts';
import { manifest as declared } from '../../support/manifest.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';
import { sendBytes } from '../../support/rawHttp.ts';
import { follow, type QueryResults, submit } from '../../support/statementClient.ts';
import { addCluster, call, worldOf } from '../../support/world.ts';

const manifest = (name: string, url: string, routingGroup = 'adhoc') =>
  stringify(declared('EngineCluster', name, { proxyTo: url, routingGroup }));

/** Follows a query through several gateways in turns. */
async function followAlternating(first: QueryResults, gateways: readonly GatewayProcess[]): Promise<unknown[]> {
  const rows: unknown[] = [];
  let response = first;
  for (let turn = 0; response.nextUri !== undefined; turn++) {
    const next = new URL(response.nextUri);
    const gateway = gateways[turn % gateways.length] as GatewayProcess;
    response = await follow(new URL(next.pathname, gateway.url).href);
    expect(response.error).toBeUndefined();
    rows.push(...(response.data ?? []));
  }
  return rows;
}

const clusters = async (gateway: GatewayProcess) =>
  ((await call(gateway, 'GET', '/gateway/backend/all')).json as { name: string; active: boolean }[])
    .map(({ name, active }) => `${name} ${active}`)
    .sort();

/** A server that is disposed of at the end of the block. */
async function disposablePostgresql() {
  const server = await startPostgresql();
  return { ...server, [Symbol.asyncDispose]: () => server.dispose() };
}

describe('the gateway', () => {
  const world = worldOf('test');
  let engines: SimulatedEngine[];

  beforeEach(async () => {
    engines = await Promise.all(['a', 'b'].map((name) => world.engine({ name })));
    await writeFile(world.path('clusters.yaml'), engines.map(({ name, url }) => manifest(name, url)).join('---\n'));
  });

  const config = (more: Readonly<Record<string, unknown>> = {}) => ({ monitor: { taskDelay: '500ms' }, ...more });
  const start = (more: Readonly<Record<string, unknown>> = {}) => world.startReady(config(more));
  const startProcess = () => world.startReady(config(), {}, asProcess);

  test('calls with a content type and without a body are answered (RFC 9112 §6.3)', async () => {
    const gateway = await start();
    const { hostname, port } = new URL(gateway.url);
    const statusOf = async (path: string, type: string): Promise<string> => {
      const head = `POST ${path} HTTP/1.1\r\nHost: ${hostname}\r\nContent-Type: ${type}\r\nConnection: close\r\n\r\n`;
      return `${path} ${(await sendBytes(Number(port), head)).slice(9, 12)}`;
    };
    for (const [path, type, status] of [
      ['/gateway/backend/deactivate/a', 'application/json', 200],
      ['/gateway/backend/deactivate/a', 'text/plain', 200],
      ['/webapp/getAllBackends', 'application/x-www-form-urlencoded', 200],
      ['/gateway/backend/modify/add', 'application/json', 400],
      ['/gateway/backend/modify/add', 'text/plain', 415],
      ['/login', 'application/json', 400],
    ] as const) {
      expect(await statusOf(path, type)).toBe(`${path} ${status}`);
    }
    expect(await clusters(gateway)).toEqual(['a false', 'b true']);
  });

  test('two replicas on one database serve alternate requests of each query, also after a restart', async () => {
    const first = await startProcess();
    const second = await start();
    const queries = await Promise.all(
      Array.from({ length: 8 }, () => submit(first.url, 'SELECT * FROM tpch.tiny.nation')),
    );
    const rows = await Promise.all(queries.slice(0, 6).map((query) => followAlternating(query, [second, first])));
    expect(rows.map((all) => all.length)).toEqual(Array(6).fill(25));

    const running = queries.slice(6);
    await first.stop('SIGKILL');
    await second.stop();
    const third = await start();
    const rest = await Promise.all(running.map((query) => followAlternating(query, [third])));
    expect(rest.map((all) => all.length)).toEqual([25, 25]);
  });

  test('a query is in the history of a gateway that stopped right after it', async () => {
    const first = await startProcess();
    const { id } = await submit(first.url, 'SELECT 1', { user: 'ada', headers: { 'X-Engine-Source': 'test' } });
    expect(await first.stop()).toBe(0);
    const store = await world.store();
    expect(await store.history.get(id)).toMatchObject({
      queryId: id,
      queryText: 'SELECT 1',
      user: 'ada',
      source: 'test',
      routingGroup: 'adhoc',
    });
  });

  test('REST, files and routing show one state', async () => {
    const gateway = await start();
    expect(await clusters(gateway)).toEqual(['a true', 'b true']);

    await addCluster(gateway, 'Third One', engines[0]?.url ?? '', 'etl');
    expect(await clusters(gateway)).toEqual(['Third One true', 'a true', 'b true']);

    await fetch(`${gateway.url}/gateway/backend/deactivate/a`, { method: 'POST' });
    expect(await readFile(world.path('clusters.yaml'), 'utf8')).toContain('enginegateway.dev/active');
    for (let count = 0; count < 8; count++) await submit(gateway.url, 'SELECT 1');
    expect(engines.map((engine) => engine.queries.length)).toEqual([0, 8]);

    await writeFile(world.path('clusters.yaml'), manifest('b', engines[1]?.url ?? ''));
    await expect.poll(() => clusters(gateway)).toEqual(['Third One true', 'b true']);
  });

  test('a refusal names the group and why each cluster was not taken', async () => {
    const gateway = await start();
    for (const engine of engines) engine.setState({ failing: 500 });
    await expect
      .poll(async () => (await submit(gateway.url, 'SELECT 1')).error?.message)
      .toMatch(/adhoc.*a.*500.*b.*500/s);
  });

  test('rules of resources choose the group', async () => {
    await writeFile(
      world.path('rules.yaml'),
      stringify(
        declared('RoutingRule', 'airflow', {
          condition: 'request.getHeader("X-Engine-Source") == "airflow"',
          routeTo: { routingGroup: 'etl' },
        }),
      ),
    );
    await writeFile(world.path('etl.yaml'), manifest('etl', engines[1]?.url ?? '', 'etl'));
    await writeFile(world.path('clusters.yaml'), manifest('a', engines[0]?.url ?? ''));
    const gateway = await start();
    const sources = ['airflow', 'airflow', 'person'];
    for (const source of sources) await submit(gateway.url, 'SELECT 1', { headers: { 'X-Engine-Source': source } });
    expect(engines.map((engine) => engine.queries.length)).toEqual([1, 2]);
  });

  test('SIGUSR2 switches the level of the log to debug and back; a changed configuration waits for the next start', async () => {
    const file = world.path('own.yaml');
    const write = (group: string) =>
      writeFile(
        file,
        stringify({
          ...world.config(config()),
          server: { address: '127.0.0.1' },
          serverConfig: { 'http-server.http.port': 0 },
          routing: { defaultRoutingGroup: group },
        }),
      );
    await write('adhoc');
    const gateway = await startGatewayWithFile(file, {}, asProcess);
    world.gateways.push(gateway);
    await write('nowhere');
    for (const level of ['debug', 'info']) {
      process.kill(gateway.pid, 'SIGUSR2');
      await gateway.logged((line) => line.msg === 'log level changed by SIGUSR2' && line.newLevel === level);
    }
    expect((await submit(gateway.url, 'SELECT 1')).error).toBeUndefined();
    await gateway.stop();
    const next = await startGatewayWithFile(file, {}, asProcess);
    world.gateways.push(next);
    expect((await submit(next.url, 'SELECT 1')).error?.message).toContain('nowhere');
  });

  test.each([
    [
      'a port that is taken',
      () => ({ 'http-server.http.port': engines[0]?.port }),
      /Cannot listen on 127\.0\.0\.1:\d+/,
    ],
    ['a value that cannot be', () => ({ 'http-server.http.port': 'many' }), /http-server\.http\.port/],
  ])('%s ends the start with a clear message', async (_name, serverConfig, message) => {
    const failed = await world.start({ serverConfig: serverConfig() }, {}, asProcess).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(GatewayExit);
    expect(failed).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(message) });
  });

  describe.skipIf(!hasPostgresql())('with PostgreSQL', () => {
    test('the gateway starts, routes and keeps its history while the database is unavailable', async () => {
      await using server = await disposablePostgresql();
      const database = await server.createDatabase();
      await server.stop();
      const gateway = await start({ dataStore: database });
      const { id } = await submit(gateway.url, 'SELECT 42');
      expect(await (await fetch(`${gateway.url}/readyz?verbose`)).text()).toMatch(/\[-\] database/);

      await server.start();
      await gateway.logged((line) => line.msg === 'database available', 30_000);
      const store = await openStore({ ...database, runMigrations: true, logger: pino({ level: 'silent' }) });
      await expect.poll(async () => (await store.history.get(id))?.queryText).toBe('SELECT 42');
      await expect.poll(async () => (await store.backends.all()).length).toBe(2);
      await store.close();
    });
  });
});
