import { chownSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import mysql from 'mysql2/promise';
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

const folders = ['/usr/sbin', '/usr/bin', '/usr/local/bin', '/opt/homebrew/bin'];
const server = folderOf(['mariadbd'], folders);
const installer = folderOf(['mariadb-install-db'], folders);

const innodb = ['flush-log-at-trx-commit=0', 'flush-method=nosync', 'doublewrite=0', 'file-per-table=0'];
/** Options with which nothing waits for the disk: tables are made in a third of the time. */
const notDurable = ['--debug-no-sync', ...innodb.map((option) => `--innodb-${option}`)];

/** Whether MariaDB is installed; throws with CI=true when it is not. */
export const hasMariadb = (): boolean =>
  requireComponent('MariaDB', server !== null && installer !== null, 'install the package mariadb-server');

/** Starts a MariaDB of its own on a temporary directory and a free port. */
export async function startMariadb({ isDurable = true }: TestServerOptions = {}): Promise<TestServer> {
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-mariadb-'));
  const user = systemUser('mysql');
  if (user !== null) chownSync(directory, user.uid, user.gid);
  const data = path.join(directory, 'data');
  const socket = path.join(directory, 's');
  // In a folder that is shared, each server removes the temporary tables of all others when it starts.
  const common = ['--no-defaults', `--datadir=${data}`, `--tmpdir=${directory}`];
  await emptyData(path.join(server ?? '', 'mariadbd'), data, () =>
    runProgram(
      path.join(installer ?? '', 'mariadb-install-db'),
      [...common, '--auth-root-authentication-method=normal', '--skip-test-db'],
      user ?? undefined,
    ),
  );
  const port = await freePort();
  const process_ = new ServerProcess(
    path.join(server ?? '', 'mariadbd'),
    [
      ...common,
      ...['--bind-address=127.0.0.1', `--port=${port}`, `--socket=${socket}`, '--skip-networking=0'],
      ...['--innodb-buffer-pool-size=64M', '--innodb-log-file-size=48M', '--max-connections=400'],
      ...(isDurable ? [] : notDurable),
    ],
    user,
  );
  const admin = () => mysql.createConnection({ socketPath: socket, user: 'root', connectTimeout: 2000 });
  const start = () =>
    process_.start(async () => {
      const connection = await admin();
      await connection.query("create user if not exists 'gateway'@'%' identified by 'pass word?&1'");
      await connection.query("create user if not exists 'gateway'@'localhost' identified by 'pass word?&1'");
      await connection.end();
    });
  let count = 0;
  return await testServer(process_, directory, {
    port,
    start,
    stop: (immediate = false) => process_.stop(immediate ? 'SIGKILL' : 'SIGTERM'),
    async createDatabase() {
      const name = `gateway_${process.pid}_${++count}`;
      const connection = await admin();
      await connection.query(`create database ${name} character set utf8mb4`);
      await connection.query(`grant all on ${name}.* to 'gateway'@'%'`);
      await connection.query(`grant all on ${name}.* to 'gateway'@'localhost'`);
      await connection.end();
      return { jdbcUrl: `jdbc:mysql://127.0.0.1:${port}/${name}`, user: 'gateway', password: 'pass word?&1' };
    },
  });
}
