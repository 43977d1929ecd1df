import { readFile, rename, writeFile } from 'node:fs/promises';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { runProgram } from '../../support/commandLine.ts';
import { startCountingCluster } from '../../support/countingCluster.ts';
import { closeAll } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { hasMariadb, startMariadb } from '../../support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';
import type { TestServer } from '../../support/serverProcess.ts';
import { worldOf } from '../../support/world.ts';

interface Account {
  readonly jdbcUrl: string;
  readonly user: string;
  readonly password: string;
  /** Changes the password in the database and ends all connections of the account. */
  rotate(password: string): Promise<void>;
}

/** An account of PostgreSQL with a password, which the server otherwise does not ask for. */
async function postgresqlAccount(server: TestServer): Promise<Account> {
  const { jdbcUrl } = await server.createDatabase();
  const database = jdbcUrl.split('/').at(-1) ?? '';
  const admin = async (sql: string): Promise<pg.QueryResult> => {
    const client = new pg.Client({ host: '127.0.0.1', port: server.port, user: 'postgres', database });
    await client.connect();
    return await client.query(sql).finally(() => client.end());
  };
  await admin("create role rotating login password 'first'");
  await admin(`alter database ${database} owner to rotating`);
  const file = (await admin('show hba_file')).rows[0].hba_file as string;
  await writeFile(file, `host all rotating 127.0.0.1/32 scram-sha-256\n${await readFile(file, 'utf8')}`);
  await admin('select pg_reload_conf()');
  return {
    ...{ jdbcUrl, user: 'rotating', password: 'first' },
    async rotate(password) {
      await admin(`alter role rotating password '${password}'`);
      await admin("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'rotating'");
    },
  };
}

async function mariadbAccount(server: TestServer): Promise<Account> {
  const account = await server.createDatabase();
  const { user } = account;
  let { password } = account;
  return {
    ...account,
    async rotate(next) {
      const connection = await mysql.createConnection({ host: '127.0.0.1', port: server.port, user, password });
      await connection.query(`set password = password('${next}')`);
      password = next;
      const [rows] = await connection.query(
        'select id from information_schema.processlist where id <> connection_id()',
      );
      for (const { id } of rows as { readonly id: number }[])
        await connection.query(`kill ${id}`).catch(() => undefined);
      await connection.end();
    },
  };
}

const families = [
  ['PostgreSQL', hasPostgresql, startPostgresql, postgresqlAccount],
  ['MariaDB', hasMariadb, startMariadb, mariadbAccount],
] as const;

describe.each(families)('the password of %s in a file', (_, isAvailable, startServer, accountOf) => {
  const world = worldOf('suite');
  let server: TestServer;
  let gateway: GatewayProcess;
  beforeAll(async () => {
    if (isAvailable()) server = await startServer({ isDurable: false });
  }, 120_000);
  afterAll(async () => {
    await server?.dispose();
    await closeAll();
  });

  /** Replaces a file as a kubelet does. */
  const replace = async (name: string, text: string): Promise<void> => {
    await writeFile(world.path(`${name}.next`), text);
    await rename(world.path(`${name}.next`), world.path(name));
  };
  const databaseLine = async (): Promise<string> => {
    const text = await (await fetch(`${gateway.url}/readyz?verbose`)).text();
    return text.split('\n').find((line) => line.includes('] database:')) ?? text;
  };
  const submit = async (): Promise<number> => {
    const response = await fetch(`${gateway.url}/v1/statement`, {
      method: 'POST',
      headers: { 'X-Engine-User': 'ann' },
      body: 'select 1',
    });
    await response.text();
    return response.status;
  };

  test.skipIf(!isAvailable())(
    'is followed: queries run on after a rotation, and the database is back in seconds',
    async () => {
      const { url } = await startCountingCluster(() => 0);
      const account = await accountOf(server);
      await replace('password', `${account.password}\n`);
      await world.declare(manifest('EngineCluster', 'one', { proxyTo: url, routingGroup: 'adhoc' }));
      gateway = await world.start({
        authentication: 'none',
        dataStore: {
          ...{ jdbcUrl: account.jdbcUrl, user: account.user },
          password: `\${FILE:${world.path('password')}}`,
        },
      });
      await expect.poll(databaseLine).toContain('[+] database');
      await expect.poll(submit).toBe(200);

      await account.rotate('second');
      await expect
        .poll(databaseLine, { timeout: 20_000 })
        .toContain('it rejects the user or the password; check dataStore.user and dataStore.password');
      for (let query = 0; query < 20; query += 1) expect(await submit()).toBe(200);
      const file = world.path('gateway.conf');
      await writeFile(file, stringify({ dataStore: { ...account, rotate: undefined } }));
      const rejected = 'error: The database is unavailable: it rejects the user or the password; check';
      for (const command of ['migrate', 'export']) {
        const { code, stderr } = await runProgram([command, '--config', file]);
        expect([code, stderr]).toEqual([1, expect.stringContaining(rejected)]);
      }

      await replace('password', 'second');
      await expect.poll(databaseLine, { timeout: 5_000 }).toContain('[+] database');
      // The queries of the meantime are in the history.
      const total = async (): Promise<number> =>
        ((await (await fetch(`${gateway.url}/api/queries?limit=50`)).json()) as { queries: unknown[] }).queries.length;
      await expect.poll(total, { timeout: 20_000 }).toBeGreaterThanOrEqual(21);
      expect(gateway.log.filter(({ msg }) => msg === 'listening')).toHaveLength(1);
      expect(JSON.stringify(gateway.log)).not.toContain('second');
    },
    120_000,
  );
});
