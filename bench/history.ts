/** CPU of this process a record of history, through the writer into a real PostgreSQL. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { systemClock } from '../src/model/clock.ts';
import { openStore } from '../src/store/openStore.ts';
import { RecordWriter } from '../src/store/recordWriter.ts';
import { defaultHistorySettings } from '../test/support/defaults.ts';
import { hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';

const RECORDS_A_TURN = 20;
const TURN_MS = 10;
const MEASURED = 40_000;

/** Runs the benchmark and prints its figures. */
export async function run(): Promise<void> {
  if (!hasPostgresql()) return;
  const server = await startPostgresql();
  const spillDirectory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const logger = pino({ level: 'warn' });
  const store = await openStore({ ...(await server.createDatabase()), runMigrations: true, logger });
  const writer = new RecordWriter('history', store.history.insert.bind(store.history), {
    ...{ spillDirectory, logger, registry: new Registry(), clock: systemClock },
    settings: defaultHistorySettings,
  });
  const statement = `select ${Array.from({ length: 60 }, (_, index) => `column_${index}`).join(', ')} from t where x = 1`;
  let count = 0;
  /** Adds at an even rate, as requests arrive; `write: false` measures the loop alone. */
  const load = async (records: number, write: boolean): Promise<number> => {
    const before = process.cpuUsage();
    for (let added = 0; added < records; ) {
      for (let index = 0; index < RECORDS_A_TURN; index++, added++) {
        const record = {
          ...{
            queryId: `20261121_015745_${String(++count).padStart(8, '0')}_kvhrm`,
            queryText: statement,
            user: 'alice',
          },
          ...{ source: 'cli', backendUrl: 'http://a:8080', created: Date.now(), routingGroup: 'adhoc', cluster: 'a' },
          ...{ externalUrl: 'http://a.example', decision: '{"group":"adhoc","rule":null}' },
        };
        if (write) writer.add(record);
      }
      await sleep(TURN_MS);
    }
    if (write) await writer.flush(10_000);
    const used = process.cpuUsage(before);
    return (used.user + used.system) / records;
  };
  await load(10_000, true);
  const idle = await load(MEASURED, false);
  const busy = await load(MEASURED, true);
  const { total } = await store.history.find({}, { offset: 0, limit: 0 });
  console.log(
    `history into PostgreSQL: ${(busy - idle).toFixed(1)} µs CPU a record (${statement.length} characters each)`,
  );
  console.log(`rate ${(RECORDS_A_TURN * 1000) / TURN_MS}/s, stored ${total} of ${10_000 + MEASURED}`);
  await writer.close(5000);
  await store.close();
  await server.dispose();
  rmSync(spillDirectory, { recursive: true, force: true });
}
