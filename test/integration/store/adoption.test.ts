import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { openStore } from '../../../src/store/openStore.ts';
import { describeReferenceDatabases } from '../../support/referenceDatabases.ts';

const logger = pino({ level: 'silent' });
const columnsOf = (table: string, schema: string) =>
  `select lower(column_name) as name, lower(data_type) as type, character_maximum_length as width from information_schema.columns
   where table_name = '${table}' and table_schema = ${schema} order by 1`;

describeReferenceDatabases(({ fixture, schema, create }) => {
  it('is taken over with its rows, columns and migration history unchanged', async () => {
    const { settings, run } = await create();
    await run(fixture);
    const questions = [
      'gateway_backend',
      'query_history',
      'resource_groups',
      'selectors',
      'flyway_schema_history',
    ].flatMap((table) => [columnsOf(table, schema), `select * from ${table}`]);
    const before = await run(questions);
    const store = await openStore({ ...settings, runMigrations: true, logger });
    expect(await store.backends.all()).toEqual([
      {
        ...{ name: 'Prod_1', routingGroup: 'etl', proxyTo: 'http://prod-1:8080' },
        ...{ externalUrl: 'https://prod-1.example', active: true, managed: false },
      },
    ]);
    expect(await store.history.get('20261121_015745_00000_kvhrm')).toMatchObject({ user: 'alice', cluster: '' });
    await store.close();
    expect(await run(questions)).toEqual(before);
  });

  it('of a version before keeps its coordinators, which get the column they lack', async () => {
    const { settings, run } = await create();
    await run([
      `create table eg_coordinators (suffix varchar(32) primary key, cluster varchar(256) not null,
          base_url varchar(2048) not null, last_seen bigint not null)`,
      "insert into eg_coordinators values ('kvhrm', 'a', 'http://a', 5)",
    ]);
    const opening = openStore({ ...settings, runMigrations: false, logger });
    await expect(opening).rejects.toThrow('column eg_coordinators.cluster_uid');
    const store = await openStore({ ...settings, runMigrations: true, logger });
    const row = { suffix: 'kvhrm', cluster: 'a', proxyTo: 'http://a', lastSeen: 5 };
    expect(await store.coordinators.get('kvhrm')).toEqual(row);
    const other = { ...row, suffix: 'other', uid: 'u' };
    expect(await store.coordinators.learn(other)).toEqual(other);
    await store.close();
  });

  it('of an early release gets the columns it lacks', async () => {
    const { settings, run } = await create();
    await run(fixture.filter((statement) => /^create/i.test(statement) && !statement.includes('flyway')));
    const store = await openStore({ ...settings, runMigrations: true, logger });
    const queryText = 'x'.repeat(5000);
    await store.history.insert([
      {
        ...{ queryId: 'q', queryText, user: null, source: null, backendUrl: 'b', created: 1, routingGroup: 'g' },
        ...{ externalUrl: 'e', cluster: 'c', decision: null },
      },
    ]);
    expect(await store.history.get('q')).toMatchObject({ queryText, routingGroup: 'g', externalUrl: 'e' });
    await store.close();
  });
});

describe('one SQLite file', () => {
  it('serves several processes at once', async () => {
    const directory = mkdtempSync(path.join(tmpdir(), 'eg-shared-'));
    const jdbcUrl = `jdbc:sqlite:${path.join(directory, 'gateway.db')}`;
    const script = path.join(import.meta.dirname, 'writingProcess.ts');
    const codes = await Promise.all(
      [1, 2, 3].map(
        (worker) =>
          new Promise<number | null>((resolve) => {
            const child = spawn(process.execPath, [script, jdbcUrl, String(worker)], { stdio: 'inherit' });
            child.once('exit', resolve);
          }),
      ),
    );
    expect(codes).toEqual([0, 0, 0]);
    const store = await openStore({ jdbcUrl, runMigrations: false, logger });
    // Every process changed the same resource 60 times and wrote 60 rows of history.
    expect((await store.resources.all())[0]?.generation).toBe(180);
    expect((await store.history.find({}, { offset: 0, limit: 0 })).total).toBe(180);
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
});
