import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { manifest } from '../support/manifest.ts';
import { hasMariadb, startMariadb } from '../support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { type Load, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

const OUTAGE_MS = 60_000;

/** What the tests of this file play on. */
interface Scene {
  readonly server: TestServer;
  readonly world: World;
  /** Queries that run all the time. */
  readonly load: Load;
}

/** Starts a database and a world on it before the tests; the answer starts the load. */
function prepare(startServer: () => Promise<TestServer>): () => Promise<Scene> {
  let server: TestServer;
  let world: World;
  let load: Load;
  beforeAll(async () => {
    server = await startServer();
    world = await startWorld({ database: await server.createDatabase(), clusters: { a: 'adhoc', b: 'adhoc' } });
  });
  afterAll(async () => {
    await world?.close();
    await server?.dispose();
  });
  afterEach(async () => {
    await load?.stop();
  });
  return async () => {
    load = startLoad({ bases: world.bases });
    return { server, world, load };
  };
}

describe.skipIf(!hasPostgresql())('the database stops for a minute in the middle of a load', () => {
  const scene = prepare(startPostgresql);

  test('no query fails, clusters come and restart, and afterwards the history holds every query', async () => {
    const { server, world, load } = await scene();
    // Queries that a limit counts are admitted, however long the database is unavailable.
    const match = { users: [{ value: 'load' }] };
    await world.apply(manifest('QueryLimit', 'load', { match, per: 'User', maxRunningQueries: 1_000 }));
    const limited = () => world.metric('engine_gateway_limit_slots', 'limit:default/load');
    await expect.poll(limited).toBeGreaterThan(0);
    await load.progress(100);
    const stoppedAt = performance.now();
    await server.stop(true);

    // A cluster that the database does not have, and a coordinator that cannot be stored in it.
    // One replica sends it queries before the other one has heard of it.
    const third = await world.addCluster('c');
    await world.declare('c', { proxyTo: third.url, routingGroup: 'adhoc' });
    await load.progress(200);
    await expect.poll(() => load.queries.some((query) => third.gave(query.id)), { timeout: 60_000 }).toBe(true);
    await pause(Math.max(0, stoppedAt + OUTAGE_MS - performance.now()));
    await server.start();
    await load.progress(200);

    const { failed, repeated, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(repeated).toBe(0);
    expect(queries.length).toBeGreaterThan(500);
    await world.raised('EngineGatewayDatabaseUnavailable');
    expect(await world.missingInHistory(queries)).toBe(0);
  });
});

describe.skipIf(!hasMariadb())('the database hangs in the middle of a load', () => {
  const scene = prepare(startMariadb);

  test('no query fails, and afterwards the history holds every query', async () => {
    const { server, world, load } = await scene();
    await load.progress(100);
    server.suspend();
    try {
      await load.progress(200);
      // Longer than statements and connections wait, so that both time limits are met.
      await pause(20_000);
      await world.raised('EngineGatewayDatabaseUnavailable');
    } finally {
      server.resume();
    }
    await load.progress(100);
    const { failed, repeated, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(repeated).toBe(0);
    expect(await world.missingInHistory(queries)).toBe(0);
  });
});
