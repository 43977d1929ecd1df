import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { postgresql, type ServerDatabase } from '../support/databases.ts';
import { type Load, type LoadOptions, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

/** Milliseconds within which a client learns that its query was lost with its cluster. */
const TOLD_WITHIN_MS = 15_000;
/** What a busy machine may add to a time that is measured from outside. */
const SLACK_MS = 3_000;

describe.skipIf(!postgresql.available())('a cluster misbehaves in the middle of a load', () => {
  let server: ServerDatabase;
  let world: World;
  let load: Load;
  beforeAll(async () => {
    server = await postgresql.start();
    world = await startWorld({
      database: await server.create(),
      clusters: { a: 'adhoc', b: 'adhoc', c: 'adhoc' },
      config: { routing: { asyncTimeout: '6s' } },
    });
  });
  afterAll(async () => {
    await world?.close();
    await server?.dispose();
  });
  afterEach(async () => {
    await load?.stop();
  });
  const begin = async (options: Partial<LoadOptions> = {}): Promise<void> => {
    load = startLoad({ bases: world.bases, group: 'adhoc', ...options });
    await load.progress(100);
  };
  /** Waits until several queries run on a cluster at once. */
  const runningOn = async (cluster: { gave(id: string): boolean }) =>
    await expect
      .poll(() => [...load.running.keys()].filter((id) => cluster.gave(id)).length, { timeout: 30_000 })
      .toBeGreaterThan(3);
  const startAgain = async (name: string) => {
    await world.cluster(name).start();
    await world.seen(name, 'HEALTHY');
  };

  test('killed before it accepted anything: no query fails', async () => {
    await begin();
    const dead = await world.addCluster('d');
    // Seldom checked, so that queries find out.
    const spec = { proxyTo: dead.url, healthCheck: { interval: '60s' } };
    await world.declare('d', { ...spec, routingGroup: 'etl' });
    await world.seen('d', 'HEALTHY');
    await dead.kill();
    const retries = () => world.metric('engine_gateway_submission_retries_total', 'cluster="d"');
    await world.declare('d', { ...spec, routingGroup: 'adhoc' });
    await expect.poll(retries, { timeout: 60_000 }).toBeGreaterThan(0);
    await load.progress(200);
    const { failed, repeated, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(repeated).toBe(0);
    expect(await world.missingInHistory(queries)).toBe(0);
    await dead.start();
    await world.seen('d', 'HEALTHY');
  });

  test('killed with running queries: only those fail, with an error in the protocol within 15 s', async () => {
    await begin({ slowShare: 0.6, slowSeconds: 2 });
    const victim = world.cluster('a');
    await runningOn(victim);
    const killedAt = performance.now();
    await victim.kill();
    const lost = [...load.running.keys()].filter((id) => victim.gave(id));
    await load.progress(200);
    await expect
      .poll(() => lost.every((id) => !load.running.has(id)), { timeout: TOLD_WITHIN_MS + 4 * SLACK_MS })
      .toBe(true);
    const { failed, queries } = await load.stop();
    expect(failed.filter((query) => !victim.gave(query.id))).toEqual([]);
    expect(failed.filter((query) => !query.inProtocol)).toEqual([]);
    expect(failed.every((query) => query.startedAt < killedAt + SLACK_MS)).toBe(true);
    expect(failed.length).toBeGreaterThan(0);
    expect(reasonsOf(failed).join()).toMatch(/was lost with its cluster "a"/);
    expect(Math.max(...failed.map((query) => query.endedAt)) - killedAt).toBeLessThan(TOLD_WITHIN_MS + SLACK_MS);
    expect(await world.missingInHistory(queries)).toBe(0);
    await world.raised('EngineGatewayClusterDown');
    await startAgain('a');
  });

  test('killed and back at once: its queries are reported as lost, no other one fails', async () => {
    await begin({ slowShare: 0.6, slowSeconds: 2 });
    const victim = world.cluster('b');
    await runningOn(victim);
    const killedAt = performance.now();
    const before = victim.suffixes.at(-1) as string;
    await victim.kill();
    await victim.start();
    await load.progress(200);
    const { failed } = await load.stop();
    expect(failed.filter((query) => !query.id.endsWith(before))).toEqual([]);
    expect(failed.filter((query) => !query.inProtocol)).toEqual([]);
    expect(Math.max(killedAt, ...failed.map((query) => query.endedAt)) - killedAt).toBeLessThan(
      TOLD_WITHIN_MS + SLACK_MS,
    );
    await world.seen('b', 'HEALTHY');
  });

  test('hanging for good: only submissions it had taken wait, and not longer than routing.asyncTimeout', async () => {
    await begin({ slowShare: 0 });
    const hung = world.cluster('c');
    const hungAt = performance.now();
    await hung.setState({ hanging: true });
    await world.seen('c', 'UNHEALTHY');
    const seenAt = performance.now();
    await load.progress(200);
    // A submission that it may have taken is not sent to another cluster; its client asks again, and is served.
    const delayed = load.queries.filter((query) => query.repeated > 0);
    expect(delayed.filter((query) => query.startedAt > seenAt)).toEqual([]);
    expect(delayed.filter((query) => query.startedAt < hungAt - TOLD_WITHIN_MS)).toEqual([]);
    await hung.setState({ hanging: false });
    await world.seen('c', 'HEALTHY');
    const { failed, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(await world.missingInHistory(queries)).toBe(0);
  });

  test('stopped by a signal for a while: its queries go on afterwards, none fails', async () => {
    await begin({ slowSeconds: 1 });
    const stopped = world.cluster('a');
    stopped.suspend();
    try {
      await world.seen('a', 'UNHEALTHY');
      await load.progress(150);
    } finally {
      stopped.resume();
    }
    await world.seen('a', 'HEALTHY');
    const { failed, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(await world.missingInHistory(queries)).toBe(0);
  });

  test('answering 503: its running queries wait and go on, new ones go elsewhere', async () => {
    await begin({ slowSeconds: 1 });
    const ill = world.cluster('b');
    await ill.setState({ failing: 503 });
    await world.seen('b', 'UNHEALTHY');
    const seenAt = performance.now();
    await load.progress(150);
    await pause(1_000);
    await ill.setState({ failing: 0 });
    await world.seen('b', 'HEALTHY');
    const { failed, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    // Requests sent there before that got 503, upon which clients try again.
    const late = queries.filter((query) => query.startedAt > seenAt && query.repeated > 0);
    expect(late).toEqual([]);
    expect(await world.missingInHistory(queries)).toBe(0);
  });

  test('its address changes: running queries end at the old one, new ones begin at the new one', async () => {
    await begin({ slowSeconds: 2, slowShare: 0.5 });
    const old = world.cluster('c');
    const moved = await world.addCluster('moved');
    await world.declare('c', { proxyTo: moved.url, routingGroup: 'adhoc' });
    await expect
      .poll(() => load.queries.some((query) => moved.gave(query.id)), { timeout: 60_000, interval: 50 })
      .toBe(true);
    await load.progress(200);
    await world.declare('c', { proxyTo: old.url, routingGroup: 'adhoc' });
    await load.progress(100);
    const { failed, repeated, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(repeated).toBe(0);
    expect(await world.missingInHistory(queries)).toBe(0);
  });
});
