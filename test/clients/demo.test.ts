/** Six clients connect to the demonstration, list what it has, and select. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installDistribution, missingTools } from '../engine/distribution.ts';
import { installMorePrograms, type WaitingClient, waitingClients } from '../engine/waitingClients.ts';
import { requireComponent } from '../support/components.ts';
import { type Demo, startDemo, stopDemos } from '../support/demo.ts';
import { hasGo } from './installation.ts';

/** Statements with their numbers of rows; the JDBC driver's are those of `getCatalogs`, `getTables` and `getColumns`. */
const statements: readonly (readonly [sql: string, rows: number])[] = [
  ['SHOW CATALOGS', 3],
  ['SHOW SCHEMAS FROM tpch', 2],
  ['SHOW TABLES FROM tpch.tiny', 2],
  ["SELECT table_name FROM tpch.information_schema.tables WHERE table_schema = 'tiny'", 2],
  ['SELECT TABLE_CAT FROM system.jdbc.catalogs ORDER BY TABLE_CAT', 3],
  ["SELECT TABLE_CAT, TABLE_SCHEM, TABLE_NAME FROM system.jdbc.tables WHERE TABLE_SCHEM LIKE 'tiny' ESCAPE '\\'", 2],
  ["SELECT COLUMN_NAME, TYPE_NAME FROM system.jdbc.columns WHERE TABLE_CAT = 'tpch' AND TABLE_NAME = 'nation'", 3],
  ['SELECT node_id, coordinator FROM system.runtime.nodes', 1],
  ['SELECT n.name, r.name FROM tpch.tiny.nation n JOIN tpch.tiny.region r ON n.regionkey = r.regionkey', 25],
  ['SELECT * FROM TABLE(sequence(start => 1, stop => 150000))', 150_000],
];
const NAMES = ['command line', 'JDBC driver', 'Python client', 'Go client', 'JavaScript client', 'dbt'];

const missing = await missingTools();
const hasTools = requireComponent('a tool of the clients suite', missing.length === 0, `install ${missing.join(', ')}`);
const canBuildGo = requireComponent('Go', await hasGo(), 'install go 1.25 or newer');

describe.skipIf(!hasTools || !canBuildGo)('clients of the demonstration', () => {
  let demo: Demo;
  let folder: string;
  let clients: readonly WaitingClient[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'demo-clients-'));
    await writeFile(join(folder, 'queries.txt'), statements.map(([sql]) => `run ${sql}\n`).join(''));
    clients = waitingClients(await installDistribution(), await installMorePrograms());
    demo = await startDemo();
    // Tables in memory are on one cluster.
    await fetch(`${demo.url}/gateway/backend/deactivate/adhoc-2`, { method: 'POST' });
  }, 540_000);
  afterAll(async () => {
    await stopDemos();
    await rm(folder, { recursive: true, force: true });
  });

  test.each(NAMES)('the %s lists and selects', async (name) => {
    const client = clients.find((each) => each.name === name);
    const own = await mkdtemp(join(folder, 'client-'));
    const end = await client?.run(demo.url.replace('localhost', '127.0.0.1'), join(folder, 'queries.txt'), own);
    // dbt warns of its defaults.
    expect(end).toMatchObject(name === 'dbt' ? { code: 0 } : { code: 0, errors: '' });
    if (name === 'dbt') {
      expect(end?.output).toBe(
        'model.suite.nations success CREATE TABLE (25 rows)\nmodel.suite.regions success CREATE TABLE (5 rows)',
      );
    } else if (name === 'command line') {
      expect(end?.output).toContain(`${statements.reduce((sum, [, rows]) => sum + rows, 0)} rows`);
    } else {
      const lines = end?.output.split('\n').map((line) => JSON.parse(line) as { rows: number; error: string | null });
      expect(lines?.map(({ rows, error }) => error ?? rows)).toEqual(statements.map(([, rows]) => rows));
    }
  });
});
