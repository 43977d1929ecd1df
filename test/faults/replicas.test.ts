import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { postgresql, type ServerDatabase } from '../support/databases.ts';
import { type Load, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

/** What a killed process may lose of the history: one flush interval, with what a busy machine adds. */
const FLUSH_MS = 1_500;

describe.skipIf(!postgresql.available())('a replica ends in the middle of a load', () => {
  let server: ServerDatabase;
  let world: World;
  let load: Load;
  beforeAll(async () => {
    server = await postgresql.start();
  });
  afterAll(() => server?.dispose());
  beforeEach(async () => {
    world = await startWorld({
      database: await server.create(),
      clusters: { a: 'adhoc', b: 'adhoc' },
      config: { server: { drainDelay: '3s' } },
    });
  });
  afterEach(async () => {
    await load?.stop();
    await world?.close();
  });

  test('killed by signal 9: every query goes on through the other one', async () => {
    load = startLoad({ bases: world.bases, slowShare: 0.6, slowSeconds: 2 });
    await load.progress(60);
    const running = new Set(load.running.keys());
    expect(running.size).toBeGreaterThan(8);
    const killedAt = performance.now();
    await world.replicas[0].stop('SIGKILL');
    await load.progress(150);
    await world.raised('EngineGatewayReplicaDown');
    const { failed, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(queries.filter((query) => running.has(query.id)).length).toBe(running.size);
    // Written down: all but what the killed process had not written yet.
    const sure = queries.filter((query) => query.startedAt > killedAt || query.startedAt < killedAt - FLUSH_MS);
    expect(await world.missingInHistory(sure)).toBe(0);
  });

  test('stopped cleanly: no query fails, no connection breaks, nothing is lost', async () => {
    load = startLoad({ bases: world.bases, slowShare: 0.6, slowSeconds: 2, balanced: true });
    await load.progress(60);
    const stopped = world.replicas[0].stop('SIGTERM');
    await load.progress(150);
    expect(await stopped).toBe(0);
    const { failed, repeated, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(repeated).toBe(0);
    expect(await world.missingInHistory(queries)).toBe(0);
  });

  test('stopped by a signal for a while: queries go on through the other one', async () => {
    // Clients give up on an answer after 5 s, and ask again.
    load = startLoad({ bases: world.bases, slowSeconds: 1, responseTimeout: 5_000 });
    await load.progress(60);
    process.kill(world.replicas[0].pid, 'SIGSTOP');
    try {
      await load.progress(40);
    } finally {
      process.kill(world.replicas[0].pid, 'SIGCONT');
    }
    await load.progress(100);
    const { failed, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(await world.missingInHistory(queries)).toBe(0);
  });
});
