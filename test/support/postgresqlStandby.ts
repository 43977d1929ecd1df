import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePort } from './freePort.ts';
import { askPostgresql, postgresqlFolder } from './postgresql.ts';
import { runProgram, ServerProcess, systemUser } from './serverProcess.ts';

/** A PostgreSQL that follows another one. */
export interface Standby {
  readonly port: number;
  /** Makes it take writes. */
  promote(): Promise<void>;
  dispose(): Promise<void>;
}

/** Starts a copy of the server at a port that follows it. */
export async function startStandby(primaryPort: number): Promise<Standby> {
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-standby-'));
  const user = systemUser('postgres');
  if (user !== null) chownSync(directory, user.uid, user.gid);
  const data = path.join(directory, 'data');
  const bin = postgresqlFolder() ?? '';
  const from = ['-h', '127.0.0.1', '-p', String(primaryPort), '-U', 'postgres'];
  await runProgram(path.join(bin, 'pg_basebackup'), [...from, '-D', data, '-R', '-c', 'fast'], user ?? undefined);
  const port = await freePort();
  const process_ = new ServerProcess(
    path.join(bin, 'postgres'),
    [
      ...['-D', data, '-p', String(port), '-c', 'listen_addresses=127.0.0.1'],
      ...['-c', `unix_socket_directories=${directory}`, '-c', 'shared_buffers=64MB', '-c', 'max_connections=400'],
    ],
    user,
  );
  await process_.start(() => askPostgresql(port, 'select 1'));
  return {
    port,
    promote: () => askPostgresql(port, 'select pg_promote()'),
    async dispose() {
      await process_.stop('SIGINT');
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
