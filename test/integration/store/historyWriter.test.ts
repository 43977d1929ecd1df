import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../../src/model/clock.ts';
import { GatewayError } from '../../../src/model/errors.ts';
import { DatabaseFailure } from '../../../src/store/failures.ts';
import { openStore } from '../../../src/store/openStore.ts';
import type { QueryOutcomeRecord } from '../../../src/store/queryOutcome.ts';
import { type HistorySettings, RecordWriter } from '../../../src/store/recordWriter.ts';
import type { QueryRecord } from '../../../src/store/store.ts';
import { defaultHistorySettings } from '../../support/defaults.ts';
import { hasMariadb, startMariadb } from '../../support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';
import { queryOutcome as outcome, queryRecord as record } from '../../support/queryRecords.ts';
import type { TestServer } from '../../support/serverProcess.ts';

const logger = pino({ level: 'silent' });
let directory: string;
const create = (
  insert: (records: readonly QueryRecord[]) => Promise<void>,
  settings: Partial<HistorySettings> = {},
) => {
  const registry = new Registry();
  const writer = new RecordWriter('history', insert, {
    ...{ spillDirectory: directory, logger, registry, clock: systemClock },
    settings: { ...defaultHistorySettings, flushIntervalMs: 10, ...settings },
  });
  const lost = async () => {
    const metric = await registry.getSingleMetric('engine_gateway_history_lost_total')?.get();
    return (metric?.values ?? []).reduce((sum, value) => sum + value.value, 0);
  };
  return { writer, lost };
};
const away = () => new GatewayError('EG_DATABASE_UNAVAILABLE', 'away');

beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'eg-spill-'));
  return () => rmSync(directory, { recursive: true, force: true });
});

describe('the history writer', () => {
  it('writes in batches, cut and redacted', async () => {
    const written: QueryRecord[] = [];
    const { writer } = create(
      async (records) => {
        written.push(...records);
      },
      { redact: ["password '[^']*'"], maxTextSize: 40 },
    );
    writer.add(record('q1', { queryText: "create user x password 'hunter2' and then some more text" }));
    expect(writer.findBuffered('q1')?.queryId).toBe('q1');
    await writer.flush(1000);
    expect(written[0]?.queryText).toBe('create user x *** and then some more tex');
    expect(writer.findBuffered('q1')).toBeNull();
    await writer.close(1000);
  });

  it('keeps nothing when it is switched off', async () => {
    const insert = vi.fn(async () => {});
    const { writer } = create(insert, { enabled: false });
    writer.add(record('q1'));
    await writer.close(1000);
    expect(insert).not.toHaveBeenCalled();
  });

  it('finds a refused record and writes the others', async () => {
    const written: string[] = [];
    const { writer, lost } = create(async (records) => {
      if (records.some((r) => r.queryId === 'poison')) throw new DatabaseFailure('data', '22P05', 'no');
      written.push(...records.map((r) => r.queryId));
    });
    for (const id of ['a', 'b', 'poison', 'c']) writer.add(record(id));
    await writer.flush(1000);
    expect(written.sort()).toEqual(['a', 'b', 'c']);
    expect(await lost()).toBe(1);
    await writer.close(1000);
  });

  it('leaves on disk what cannot be written, for the next start', async () => {
    const first = create(async () => {
      throw away();
    });
    for (let index = 0; index < 1000; index++) first.writer.add(record(`q${index}`));
    await first.writer.close(300);
    expect(first.writer.depth()).toEqual({ memory: 0, spilled: expect.any(Number) });
    const written = new Set<string>();
    const second = create(async (records) => {
      for (const r of records) written.add(r.queryId);
    });
    await vi.waitFor(() => expect(written.size).toBe(1000), 30_000);
    await second.writer.close(10_000);
    expect(readdirSync(directory)).toEqual([]);
  });

  it('leaves outcomes on disk beside the queries, redacted, for the next start', async () => {
    const settings = { ...defaultHistorySettings, flushIntervalMs: 10, redact: ["password '[^']*'"] };
    const writerOf = (put: (records: readonly QueryOutcomeRecord[]) => Promise<void>) =>
      new RecordWriter('outcomes', put, {
        ...{ settings, spillDirectory: directory, logger, registry: new Registry(), clock: systemClock },
      });
    const first = writerOf(() => Promise.reject(away()));
    first.add({ ...outcome('q1'), errorMessage: "no user with password 'hunter2'" });
    await first.close(300);
    const { writer } = create(async (records) => expect(records).toEqual([]));
    await writer.close(1000);
    const written: QueryOutcomeRecord[] = [];
    const second = writerOf(async (records) => void written.push(...records));
    await vi.waitFor(() => expect(written).toEqual([{ ...outcome('q1'), errorMessage: 'no user with ***' }]), 30_000);
    await second.close(1000);
  });

  it('does not touch the files of a live process', async () => {
    const first = create(async () => {
      throw away();
    });
    first.writer.add(record('mine'));
    await vi.waitFor(() => expect(first.writer.depth().spilled).toBe(1), 30_000);
    const insert = vi.fn(async () => {});
    const second = create(insert);
    await second.writer.flush(500);
    expect(insert).not.toHaveBeenCalled();
    await second.writer.close(500);
    await first.writer.close(500);
  });

  it('takes over the files of a process that was killed while writing them', async () => {
    const child = spawn(process.execPath, [path.join(import.meta.dirname, 'spillingProcess.ts'), directory]);
    await vi.waitFor(
      () => {
        const found = readdirSync(directory).flatMap((entry) => readdirSync(path.join(directory, entry)));
        expect(found.filter((name) => name.endsWith('.jsonl')).length).toBeGreaterThan(1);
      },
      { timeout: 30_000 },
    );
    await new Promise((resolve) => {
      child.once('exit', resolve);
      child.kill('SIGKILL');
    });
    const whole = new Set<string>();
    for (const entry of readdirSync(directory)) {
      for (const name of readdirSync(path.join(directory, entry)).filter((found) => found.endsWith('.jsonl'))) {
        for (const line of readFileSync(path.join(directory, entry, name), 'utf8').split('\n')) {
          if (line.endsWith('}')) whole.add(JSON.parse(line).queryId);
        }
      }
    }
    const written = new Set<string>();
    const { writer } = create(async (records) => {
      for (const r of records) written.add(r.queryId);
    });
    await vi.waitFor(() => expect(written).toEqual(whole), 30_000);
    await writer.close(1000);
  });
});

const servers = [
  { name: 'MariaDB', available: hasMariadb, start: startMariadb },
  { name: 'PostgreSQL', available: hasPostgresql, start: startPostgresql },
];
for (const { name, available, start } of servers) {
  describe.skipIf(!available())(`the history while ${name} goes away`, () => {
    let server: TestServer;
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server?.dispose());

    it('takes a statement larger than a packet', async () => {
      const store = await openStore({ ...(await server.createDatabase()), runMigrations: true, logger });
      const huge = `select '${'x'.repeat(20_000_000)}'`;
      await store.history.insert([record('small'), record('huge', { queryText: huge }), record('last')]);
      expect((await store.history.find({}, { offset: 0, limit: 0 })).total).toBe(3);
      const kept = (await store.history.get('huge'))?.queryText ?? '';
      expect(huge.startsWith(kept)).toBe(true);
      expect(kept.length).toBeGreaterThan(1_000_000);
      await store.close();
    });
  });
}
