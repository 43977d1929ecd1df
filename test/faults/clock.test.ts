import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { postgresql, type ServerDatabase } from '../support/databases.ts';
import { faketimeEnvironment, hasFaketime } from '../support/faketime.ts';
import { type Load, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

const available = postgresql.available() && hasFaketime();

describe.skipIf(!available)("the gateways' clock is set back by an hour in the middle of a load", () => {
  let folder: string;
  let offset: string;
  let server: ServerDatabase;
  let world: World;
  let load: Load;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'clock-'));
    offset = join(folder, 'offset');
    await writeFile(offset, '+0');
    server = await postgresql.start();
    world = await startWorld({
      database: await server.create(),
      clusters: { a: 'adhoc', b: 'adhoc' },
      environment: faketimeEnvironment(offset),
    });
  });
  afterAll(async () => {
    await load?.stop();
    await world?.close();
    await server?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  const gatewayTime = () => Math.max(...world.replicas.map((replica) => Date.parse(String(replica.log.at(-1)?.time))));

  test('no query fails, health checks and resources go on, nothing is lost; and likewise when it is set right', async () => {
    load = startLoad({ bases: world.bases });
    await load.progress(100);

    await writeFile(offset, '-3600');
    await expect.poll(() => gatewayTime(), { timeout: 30_000 }).toBeLessThan(Date.now() - 3_500_000);
    await load.progress(200);
    await world.cluster('b').setState({ failing: 503 });
    await world.seen('b', 'UNHEALTHY');
    await world.cluster('b').setState({ failing: 0 });
    await world.seen('b', 'HEALTHY');
    const third = await world.addCluster('c');
    await world.declare('c', { proxyTo: third.url, routingGroup: 'adhoc' });
    await world.seen('c', 'HEALTHY');

    await writeFile(offset, '+0');
    await expect.poll(() => gatewayTime(), { timeout: 30_000 }).toBeGreaterThan(Date.now() - 100_000);
    await load.progress(200);
    const { failed, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(await world.missingInHistory(queries)).toBe(0);
  });
});
