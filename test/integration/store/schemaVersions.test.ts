import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { version as program } from '../../../src/model/version.ts';
import { type Database, defaultLimits, openDatabase } from '../../../src/store/database.ts';
import { parseJdbcUrl } from '../../../src/store/jdbcUrl.ts';
import { checkSchema, migrate, migrationSteps } from '../../../src/store/migrations.ts';
import { resourceGroups, table, tables } from '../../../src/store/schema.ts';
import { type Migration, migrations } from '../../../src/store/schemaMigrations.ts';
import {
  addColumn,
  addIndex,
  addRow,
  addTable,
  changeOnce,
  type SchemaPart,
  untilVersion,
} from '../../../src/store/schemaPart.ts';
import { runProgram } from '../../support/commandLine.ts';
import { databases, oneDatabase, type TestDatabase } from '../../support/databases.ts';

const logger = pino({ level: 'silent' });
const ownVersion = migrations.at(-1)?.version ?? 0;

/** Migrations after those of the program, each with its parts. */
const later = (...changes: readonly (readonly [compatibleFrom: number, ...parts: SchemaPart[]])[]) => [
  ...migrations,
  ...changes.map(
    ([compatibleFrom, ...parts], index): Migration => ({
      ...{ version: ownVersion + 1 + index, name: "the table of 'later'", compatibleFrom, parts },
    }),
  ),
];

const laterTable = addTable(table('eg_later', () => 'name varchar(64) primary key, size int not null'));
const additions = [
  laterTable,
  addRow('eg_later', 'first', "insert into eg_later (name, size) values ('first', 1)"),
] as const;
/** Alters a table that has rows: a new column with a value for each, an index, and rows that change once. */
const alterations = [
  addColumn('eg_later', 'weight', () => 'int default 7 not null'),
  addIndex({ table: 'eg_later', name: 'eg_later_weight_idx', columns: 'weight' }),
  changeOnce(ownVersion + 2, 'sizes of eg_later doubled', () => ['update eg_later set size = size * 2']),
] as const;

for (const family of databases) {
  /** Declares a test of what does not depend on the dialect. */
  const once = (name: string, run: () => Promise<void>): void => void (family === oneDatabase && it(name, run));

  describe.skipIf(!family.available())(`schema versions on ${family.name}`, () => {
    let server: TestDatabase;
    let settings: Awaited<ReturnType<TestDatabase['create']>>;
    const connections: Database[] = [];
    beforeAll(async () => {
      server = await family.start();
    });
    beforeEach(async () => {
      settings = await server.create();
    });
    afterEach(async () => {
      for (const database of connections.splice(0)) await database.close();
    });
    afterAll(() => server?.dispose());

    /** A replica's connections to the database of the test. */
    const open = (): Database => {
      const parsed = parseJdbcUrl(settings);
      if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
      const database = openDatabase(parsed.target, defaultLimits, logger);
      connections.push(database);
      return database;
    };
    const versions = async ({ knex }: Database) =>
      (await knex('eg_schema').orderBy('version').select('version', 'compatible_from', 'program')).map(
        (row: Record<string, unknown>) => `${row.version} from ${row.compatible_from} by ${row.program}`,
      );

    it('are kept of a fresh database, and of one from before there were versions', async () => {
      const database = open();
      await migrate(database, logger);
      const all = migrations.map(({ version, compatibleFrom }) => `${version} from ${compatibleFrom} by ${program}`);
      expect(await versions(database)).toEqual(all);
      await database
        .knex('eg_coordinators')
        .insert({ suffix: 'kvhrm', cluster: 'a', base_url: 'http://a', last_seen: 5 });
      await database.knex.schema.dropTable('eg_schema');
      await expect(checkSchema(database)).rejects.toThrow(
        `the database lacks table eg_schema, ${migrations.map(({ version }) => `schema version ${version}`).join(', ')}; run`,
      );
      await migrate(database, logger);
      expect(await versions(database)).toEqual(all);
      expect(await database.knex('eg_coordinators').select('suffix')).toHaveLength(1);
      expect(await migrationSteps(database)).toEqual([]);
      await checkSchema(database);
    });

    it('log one line for a fresh database, and one for each index of a table that may have rows', async () => {
      const lines: Record<string, unknown>[] = [];
      const recording = pino({ base: null, timestamp: false }, { write: (line) => lines.push(JSON.parse(line)) });
      const database = open();
      await migrate(database, recording);
      const steps = expect.arrayContaining(['table query_history', 'index eg_query_history_user_idx']);
      expect(lines).toEqual([{ level: 30, steps, msg: 'database migrated' }]);
      lines.length = 0;
      await migrate(database, recording, later([ownVersion, laterTable], [ownVersion, ...alterations]).slice(0, -1));
      expect(lines.map(({ msg }) => msg)).toEqual(['database migrated']);
      await migrate(database, recording, later([ownVersion, laterTable], [ownVersion, ...alterations]));
      expect(lines.slice(1).map(({ msg, step }) => [msg, step])).toEqual([
        ['creating an index: on millions of rows this takes minutes', 'index eg_later_weight_idx'],
        ['database migrated', undefined],
      ]);
    });

    it('let groups below different parents have one name in tables that had it once; rows and references stay', async () => {
      const database = open();
      const { knex, dialect } = database;
      const unique = resourceGroups.create(dialect).replace('name varchar(250) not null', '$& unique');
      await knex.raw(unique);
      await knex.raw(tables.find(({ name }) => name === 'selectors')?.create(dialect) ?? '');
      const limits = { soft_memory_limit: '80%', max_queued: 5, hard_concurrency_limit: 3, environment: 'test' };
      const group = (name: string, parent: number | null) => ({ ...limits, name, parent });
      const idOf = async (name: string): Promise<number> =>
        Number(
          (await knex('resource_groups').where({ name, parent: null }).first('resource_group_id')).resource_group_id,
        );
      await knex('resource_groups').insert(['a', 'b'].map((name) => group(name, null)));
      const [a, b] = [await idOf('a'), await idOf('b')];
      await knex('resource_groups').insert(group('user', a));
      await knex('selectors').insert({ resource_group_id: a, priority: 2, user_regex: 'x' });
      await expect(knex('resource_groups').insert(group('user', b))).rejects.toThrow();
      const rows = async () => ({
        groups: await knex('resource_groups').orderBy('resource_group_id'),
        selectors: await knex('selectors'),
      });
      const before = await rows();
      expect(before.groups).toHaveLength(3);
      await migrate(database, logger);
      expect(await rows()).toEqual(before);
      expect(await migrationSteps(database)).toEqual([]);
      await knex('resource_groups').insert(group('user', b));
      await expect(knex('resource_groups').where('resource_group_id', a).delete()).rejects.toThrow();
      await expect(knex('selectors').insert({ resource_group_id: 99, priority: 1 })).rejects.toThrow();
      expect((await rows()).groups.map(({ name, parent }) => [name, parent])).toEqual([
        ...[
          ['a', null],
          ['b', null],
        ],
        ...[
          ['user', a],
          ['user', b],
        ],
      ]);
    });

    it('grow by migrations that alter tables, whose statements run once, by whichever replica is first', async () => {
      const [one, two] = [open(), open()];
      const first = later([1, ...additions]);
      await Promise.all([migrate(one, logger, first), migrate(two, logger, first)]);
      await one.knex('eg_later').insert({ name: 'second', size: 20 });
      const second = later([1, ...additions], [1, ...alterations]);
      await expect(checkSchema(one, second)).rejects.toThrow(
        `lacks column eg_later.weight, sizes of eg_later doubled, schema version ${ownVersion + 2};`,
      );
      await Promise.all([migrate(one, logger, second), migrate(two, logger, second)]);
      await migrate(one, logger, second);
      expect(await one.knex('eg_later').orderBy('name')).toEqual([
        { name: 'first', size: 2, weight: 7 },
        { name: 'second', size: 40, weight: 7 },
      ]);
      expect((await versions(one)).slice(migrations.length)).toEqual([
        `${ownVersion + 1} from 1 by ${program}`,
        `${ownVersion + 2} from 1 by ${program}`,
      ]);
      await checkSchema(two, second);
      // The program before runs on what only adds.
      await checkSchema(two);
      await migrate(two, logger);
    });

    it('are the same whether the database is made by one migration after the other, by all at once, or by printed statements', async () => {
      const both = later([1, ...additions], [1, ...alterations]);
      const shape = async (database: Database) => ({
        columns: [...((await database.dialect.columns(database.knex, 'eg_later')) ?? [])],
        index: await database.dialect.hasIndex(database.knex, 'eg_later', 'eg_later_weight_idx'),
        rows: await database.knex('eg_later'),
        versions: await versions(database),
      });
      const stepwise = open();
      await migrate(stepwise, logger);
      await migrate(stepwise, logger, later([1, ...additions]));
      await migrate(stepwise, logger, both);
      settings = await server.create();
      const atOnce = open();
      await migrate(atOnce, logger, both);
      settings = await server.create();
      const byStatements = open();
      for (const { sql } of await migrationSteps(byStatements, both)) await byStatements.knex.raw(sql);
      await checkSchema(byStatements, both);
      expect(await shape(atOnce)).toEqual(await shape(stepwise));
      expect(await shape(byStatements)).toEqual(await shape(stepwise));
    });

    once('that fail are tried again from their start', async () => {
      const database = open();
      const failing = changeOnce(ownVersion + 1, 'broken', () => ['update eg_nothing set x = 1']);
      await expect(migrate(database, logger, later([1, ...additions, failing]))).rejects.toThrow();
      await migrate(database, logger, later([1, ...additions]));
      expect(await database.knex('eg_later')).toEqual([{ name: 'first', size: 1 }]);
      expect(await versions(database)).toHaveLength(migrations.length + 1);
    });

    once('leave out what a later one undoes', async () => {
      const database = open();
      const renaming = later(
        [1, untilVersion(ownVersion + 2, laterTable)],
        [ownVersion + 2, changeOnce(ownVersion + 2, 'renamed', () => ['alter table eg_later rename to eg_latest'])],
      );
      await migrate(database, logger, renaming);
      await migrate(database, logger, renaming);
      expect(await database.dialect.columns(database.knex, 'eg_later')).toBeNull();
      expect(await database.dialect.columns(database.knex, 'eg_latest')).not.toBeNull();
    });

    once('beyond what a program can use make it refuse to start, and say what to do', async () => {
      const database = open();
      await migrate(database, logger, later([1], [ownVersion + 2]));
      await database.knex('eg_schema').where('version', '>', ownVersion).update({ program: '9.8.7' });
      const message =
        `the database has schema version ${ownVersion + 2}, made by engine-gateway 9.8.7, which programs below schema version ` +
        `${ownVersion + 2} cannot use; this one, engine-gateway ${program}, has ${ownVersion}. Start engine-gateway 9.8.7 or newer, or ` +
        'restore the backup of the database from before the upgrade';
      await expect(migrate(database, logger)).rejects.toMatchObject({ code: 'EG_IMPOSSIBLE', message });

      const folder = mkdtempSync(join(tmpdir(), 'schema-version-'));
      const config = (name: string, runMigrationsEnabled: boolean): string => {
        const file = join(folder, name);
        const dataStore = { ...settings, runMigrationsEnabled };
        writeFileSync(file, stringify({ dataStore, queryHistory: { spillDirectory: join(folder, 'spill') } }));
        return file;
      };
      try {
        for (const args of [
          ['serve', '--config', config('migrating.yaml', true)],
          ['serve', '--config', config('checking.yaml', false)],
          ['migrate', '--config', config('migrating.yaml', true)],
          ['migrate', '--print-sql', '--config', config('migrating.yaml', true)],
        ]) {
          const { code, stdout, stderr } = await runProgram(args);
          expect({ args, failed: code !== 0, sql: stdout.includes('insert'), stderr }).toEqual({
            ...{ args, failed: true, sql: false },
            stderr: expect.stringContaining(message),
          });
        }
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });
}

it('migrations are in the order of their versions, and keep room for the program before', () => {
  const versions = migrations.map(({ version }) => version);
  expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b));
  for (const { version, compatibleFrom } of migrations) expect(compatibleFrom).toBeLessThanOrEqual(version);
});
