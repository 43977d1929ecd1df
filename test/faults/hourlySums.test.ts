import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStore } from '../../src/store/openStore.ts';
import { statisticsDimensions } from '../../src/store/statisticsDimension.ts';
import { expectCountedFigures } from '../support/countedFigures.ts';
import { postgresql, type ServerDatabase } from '../support/databases.ts';
import { faketimeEnvironment, hasFaketime } from '../support/faketime.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { type Load, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

const HOUR = 3_600_000;
const HOURS = 4;

describe.skipIf(!postgresql.available() || !hasFaketime())('hours are summed in the middle of a load', () => {
  let folder: string;
  let server: ServerDatabase;
  let world: World;
  let load: Load;
  let survivor: GatewayProcess;
  let store: Awaited<ReturnType<typeof openStore>>;

  /** Sets the time of day of the replicas, which begin hours ago, so that all hours of the load are over. */
  const setHoursAgo = async (hours: number) => {
    await writeFile(join(folder, 'next'), `-${hours * 3_600}`);
    await rename(join(folder, 'next'), join(folder, 'offset'));
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sums-'));
    await setHoursAgo(HOURS);
    server = await postgresql.start();
    const database = await server.create();
    const environment = faketimeEnvironment(join(folder, 'offset'));
    world = await startWorld({ database, clusters: { a: 'adhoc', b: 'adhoc' }, environment });
    const resources = { source: 'directory', directory: join(world.folder, 'clusters') };
    const queryHistory = { spillDirectory: join(folder, 'spill') };
    survivor = await startGateway({ resources, dataStore: database, queryHistory }, environment);
    store = await openStore({ ...database, runMigrations: false, logger: pino({ level: 'silent' }) });
  });
  afterAll(async () => {
    await load?.stop();
    await store?.close();
    await survivor?.stop();
    await world?.close();
    await server?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  test('sums equal the counts of the rows, although replicas are killed and queries end in hours that were summed', async () => {
    const from = (Math.floor(Date.now() / HOUR) - HOURS - 1) * HOUR;
    const now = Date.now();
    const rounds: number[] = [];
    let isLoaded = true;
    const summing = [1, 2].map(async () => {
      while (isLoaded) {
        const { summed, failure } = await store.hourlySums.sum(now);
        expect(failure).toBeNull();
        if (summed > 0) rounds.push(summed);
        await sleep(20);
      }
    });
    load = startLoad({ bases: [...world.bases, survivor.url], slowShare: 0.4 });
    await load.progress(60);
    await setHoursAgo(HOURS - 1);
    await load.progress(60);
    await world.replicas[0].stop('SIGKILL');
    await load.progress(60);
    await setHoursAgo(HOURS - 2);
    await load.progress(60);
    await world.replicas[1].stop('SIGKILL');
    await load.progress(60);
    await load.stop();
    await survivor.stop('SIGKILL');
    isLoaded = false;
    await Promise.all(summing);
    // Hours were summed again after queries of them were written.
    expect(rounds.length).toBeGreaterThan(2);

    for (let left = 1; left > 0; ) ({ left } = await store.hourlySums.sum(now));
    const hours = await store.database
      .knex('eg_query_hours')
      .where('hour', '>=', from / HOUR)
      .select('sums');
    expect(new Set(hours.map(({ sums }) => sums))).toEqual(new Set([5]));
    for (const by of statisticsDimensions) {
      await expectCountedFigures(store, { by, from, to: from + (HOURS + 1) * HOUR, limit: 100 });
    }
    const { queries = 0 } = (await store.queryStatistics.of({ by: 'cluster', from, to: now, limit: 1 }))[0] ?? {};
    expect(queries).toBeGreaterThan(60);
  });
});
