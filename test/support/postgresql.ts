import { chownSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { requireComponent } from './components.ts';
import { freePort } from './freePort.ts';
import {
  emptyData,
  folderOf,
  runProgram,
  ServerProcess,
  systemUser,
  type TestServer,
  type TestServerOptions,
  testServer,
} from './serverProcess.ts';

function installations(): string[] {
  try {
    return readdirSync('/usr/lib/postgresql').map((version) => `/usr/lib/postgresql/${version}/bin`);
  } catch {
    return [];
  }
}

const folder = folderOf(['initdb', 'postgres'], installations());

/** Folder of the programs of PostgreSQL; null where they are not installed. */
export const postgresqlFolder = (): string | null => folder;

/** Whether PostgreSQL is installed; throws with CI=true when it is not. */
export const hasPostgresql = (): boolean =>
  requireComponent('PostgreSQL', folder !== null, 'install the package postgresql');

/** Starts a PostgreSQL of its own on a temporary directory and a free port; as user postgres, because it refuses root. */
export async function startPostgresql({ isDurable = true }: TestServerOptions = {}): Promise<TestServer> {
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-postgresql-'));
  const user = systemUser('postgres');
  if (user !== null) chownSync(directory, user.uid, user.gid);
  const data = path.join(directory, 'data');
  const bin = folder ?? '';
  await emptyData(path.join(bin, 'postgres'), data, () =>
    runProgram(
      path.join(bin, 'initdb'),
      ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N'],
      user ?? undefined,
    ),
  );
  const port = await freePort();
  const process_ = new ServerProcess(
    path.join(bin, 'postgres'),
    [
      ...[
        '-D',
        data,
        '-p',
        String(port),
        '-c',
        'listen_addresses=127.0.0.1',
        '-c',
        `unix_socket_directories=${directory}`,
      ],
      ...['-c', 'shared_buffers=64MB', '-c', 'max_connections=400'],
      ...(isDurable ? [] : ['-c', 'fsync=off', '-c', 'full_page_writes=off']),
    ],
    user,
  );
  const start = () => process_.start(() => askPostgresql(port, 'select 1'));
  let count = 0;
  return await testServer(process_, directory, {
    port,
    start,
    stop: (immediate = false) => process_.stop(immediate ? 'SIGQUIT' : 'SIGINT'),
    async createDatabase() {
      const name = `gateway_${process.pid}_${++count}`;
      await askPostgresql(port, `create database ${name}`);
      return { jdbcUrl: `jdbc:postgresql://127.0.0.1:${port}/${name}`, user: 'postgres', password: 'unused' };
    },
  });
}

/** Runs a statement as the administrator of a server. */
export async function askPostgresql(port: number, sql: string): Promise<void> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
