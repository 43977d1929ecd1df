import { pino } from 'pino';
import { LimitCounters } from '../../src/admission/limitCounters.ts';
import { systemClock } from '../../src/model/clock.ts';
import { type KnexStore, openStore } from '../../src/store/openStore.ts';
import { postgresql } from '../../test/support/databases.ts';
import { median, percentile } from '../statistics.ts';

const perSecond = 200;
const seconds = 10;
const runMs = 300;
const logger = pino({ level: 'silent' });

/**
 * Prints what the counters of limits cost a query at 200 queries a second, over 1, 2 and 8 replicas: statements and WAL of
 * PostgreSQL, and the time until a query has its slots. Each query ends at another replica than the one that admitted it.
 */
export async function measureCounters(): Promise<void> {
  if (!postgresql.available()) return;
  const server = await postgresql.start();
  for (const limit of [1_000, 50, 2]) {
    for (const replicas of [1, 2, 8])
      console.log(`limit ${limit}, ${replicas} replicas: ${await measure(server, replicas, limit)}`);
  }
  await server.dispose();
}

async function measure(
  server: Awaited<ReturnType<typeof postgresql.start>>,
  replicas: number,
  limit: number,
): Promise<string> {
  const settings = await server.create();
  const stores: KnexStore[] = [];
  let statements = 0;
  for (let count = 0; count < replicas; count++) {
    const store = await openStore({ ...settings, runMigrations: count === 0, logger });
    store.database.knex.on('query', () => statements++);
    stores.push(store);
  }
  const all = stores.map(
    (store, index) => new LimitCounters(store.limitCounters, `r${index}`, true, systemClock, logger),
  );
  for (const counters of all) counters.enable(true);
  const wal = async () => {
    const { rows } = await (stores[0] as KnexStore).database.knex.raw("select pg_current_wal_lsn() - '0/0' as bytes");
    return Number(rows[0].bytes);
  };
  const pick = () => all[Math.floor(Math.random() * all.length)] as LimitCounters;
  const times: number[] = [];
  let admitted = 0;
  let count = 0;
  const query = async () => {
    const id = `20261127_000000_${count++}_bench`;
    const demands = [
      { key: 'group:etl', limit },
      { key: `limit:default/users:user${count % 50}`, limit: 1_000 },
    ];
    const began = performance.now();
    const acquired = await pick().acquire({ demands, clusters: [], observed: [], place: null, mode: 'normal' });
    times.push(performance.now() - began);
    if (acquired.kind !== 'acquired') return;
    admitted += 1;
    acquired.slot?.bind(id, 'etl-1');
    setTimeout(() => pick().ended(id), runMs * (0.5 + Math.random()));
  };
  const before = await wal();
  statements = 0;
  const maintaining = setInterval(
    () => all.forEach((one, index) => void one.maintain(index === 0, () => false)),
    1_000,
  );
  for (let begun = 0; begun < perSecond * seconds; begun++) {
    void query();
    await new Promise((resolve) => setTimeout(resolve, 1_000 / perSecond));
  }
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  clearInterval(maintaining);
  const bytes = (await wal()) - before;
  for (const one of all) await one.stop();
  for (const store of stores) await store.close();
  const each = (total: number) => (total / count).toFixed(2);
  return `${count} queries, ${admitted} admitted; ${each(statements)} statements and ${each(bytes / 1000)} kB of WAL a query; slots after ${median(times).toFixed(1)} ms (p50), ${percentile(times, 0.99).toFixed(1)} ms (p99)`;
}
