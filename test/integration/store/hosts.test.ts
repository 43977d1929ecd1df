import pino from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Database, defaultLimits, openDatabase } from '../../../src/store/database.ts';
import { parseJdbcUrl } from '../../../src/store/jdbcUrl.ts';
import { freePort } from '../../support/freePort.ts';
import { hasMariadb, startMariadb } from '../../support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';
import type { TestServer } from '../../support/serverProcess.ts';

interface Family {
  readonly name: string;
  readonly available: () => boolean;
  readonly start: typeof startPostgresql;
  /** The URL of hosts. */
  readonly url: (hosts: string, parameters: string) => string;
  /** Asks a server for its port. */
  readonly portOf: string;
}

const families: readonly Family[] = [
  {
    name: 'PostgreSQL',
    available: hasPostgresql,
    start: startPostgresql,
    url: (hosts, parameters) => `jdbc:postgresql://${hosts}/DATABASE?${parameters}`,
    portOf: "select current_setting('port')::int as port",
  },
  {
    name: 'MariaDB',
    available: hasMariadb,
    start: startMariadb,
    url: (hosts, parameters) => `jdbc:mysql://${hosts}/DATABASE?${parameters}`,
    portOf: 'select @@port as port',
  },
];

for (const family of families) {
  describe.skipIf(!family.available())(`several hosts in the URL of ${family.name}`, () => severalHosts(family));
}

function severalHosts({ start, url, portOf }: Family): void {
  const ofMysql = portOf.includes('@@') ? test : null;
  const ofPostgresql = ofMysql === null ? test : null;
  let servers: readonly [TestServer, TestServer];
  let settings: { readonly user: string; readonly password: string };
  let name: string;
  let database: Database | null = null;
  const lines: { msg?: string; port?: number }[] = [];

  beforeAll(async () => {
    servers = [await start({ isDurable: false }), await start({ isDurable: false })];
    const [first, second] = [await servers[0].createDatabase(), await servers[1].createDatabase()];
    settings = first;
    const names = [first, second].map(({ jdbcUrl }) => jdbcUrl.split('/').at(-1) ?? '');
    name = names[0] ?? '';
    // Both servers need a database of one name: they count theirs for themselves.
    if (names[0] !== names[1]) throw new Error('the databases have different names');
  });
  afterEach(async () => {
    await database?.close();
    database = null;
    lines.length = 0;
  });
  afterAll(async () => {
    for (const server of servers ?? []) await server.dispose();
  });

  const open = (hosts: string, parameters = '', form = url): Database => {
    const jdbcUrl = form(hosts, parameters).replace('DATABASE', name);
    const parsed = parseJdbcUrl({ ...settings, jdbcUrl });
    if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
    expect(parsed.ignored).toEqual([]);
    const logger = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) });
    database = openDatabase(parsed.target, defaultLimits, logger);
    return database;
  };
  const at = ({ port }: TestServer): string => `127.0.0.1:${port}`;
  const portAsked = async (opened: Database): Promise<number> => {
    const result = await opened.run((knex) => knex.raw(portOf));
    const rows = (Array.isArray(result) ? result[0] : result.rows) as readonly { readonly port: number }[];
    return rows[0]?.port ?? 0;
  };

  test('the first that answers is used', async () => {
    const [first, second] = servers;
    expect(await portAsked(open(`${at(first)},${at(second)}`))).toBe(first.port);
    await database?.close();
    const nobody = await freePort();
    expect(await portAsked(open(`127.0.0.1:${nobody},${at(second)}`))).toBe(second.port);
    expect(lines).toEqual([expect.objectContaining({ port: nobody, msg: 'database host unavailable' })]);
  });

  test('another one serves when one stops', async () => {
    const [first, second] = servers;
    const opened = open(`${at(first)},${at(second)}`);
    expect(await portAsked(opened)).toBe(first.port);
    await first.stop(true);
    await expect.poll(() => portAsked(opened).catch(() => 0), { timeout: 20_000 }).toBe(second.port);
    await opened.close();
    await first.start();
    expect(await portAsked(open(`${at(first)},${at(second)}`))).toBe(first.port);
  });

  test('nobody answers: the database is unavailable', async () => {
    const nobody = await freePort();
    const opened = open(`127.0.0.1:${nobody},127.0.0.1:${nobody}`);
    await expect(portAsked(opened)).rejects.toMatchObject({ code: 'EG_DATABASE_UNAVAILABLE' });
  });

  ofPostgresql?.('targetServerType=primary: the one that takes writes, as it changes', async () => {
    const [first, second] = servers;
    const setReadOnly = async (server: TestServer, isReadOnly: boolean) => {
      const direct = open(at(server));
      await direct.run((knex) =>
        knex.raw(`alter system set default_transaction_read_only = ${isReadOnly ? 'on' : 'off'}`),
      );
      await direct.run((knex) => knex.raw('select pg_reload_conf()'));
      await expect
        .poll(async () => {
          const { rows } = await direct.run((knex) => knex.raw('show default_transaction_read_only'));
          return rows[0].default_transaction_read_only;
        })
        .toBe(isReadOnly ? 'on' : 'off');
      await direct.close();
    };
    // A server whose transactions only read, as those of one that follows another.
    await setReadOnly(first, true);
    const opened = open(`${at(first)},${at(second)}`, 'targetServerType=primary');
    expect(await portAsked(opened)).toBe(second.port);
    await opened.run((knex) => knex.raw('create table if not exists written (id int)'));
    await setReadOnly(first, false);
    await setReadOnly(second, true);
    // A connection learns of it when it writes; the next one leads to the server that takes writes.
    await expect(opened.run((knex) => knex.raw('insert into written values (1)'))).rejects.toMatchObject({
      code: 'EG_DATABASE_UNAVAILABLE',
    });
    await expect.poll(() => portAsked(opened).catch(() => 0), { timeout: 20_000 }).toBe(first.port);
    await opened.close();
    const neither = open(`${at(second)},127.0.0.1:${await freePort()}`, 'targetServerType=primary');
    await expect(portAsked(neither)).rejects.toMatchObject({ code: 'EG_DATABASE_UNAVAILABLE' });
    await neither.close();
    await setReadOnly(second, false);
  });
}
