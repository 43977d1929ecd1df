import { type ChildProcess, type ExecFileException, execFile, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

/** A database server of a test, on a directory and port of its own. */
export interface TestServer {
  readonly port: number;
  /** Of its first process; 0 while it does not run. */
  readonly pid: number;
  /** Starts it (again) on the same data and port; resolves when it answers. */
  start(): Promise<void>;
  /** Stops it; `immediate` as in a power cut. */
  stop(immediate?: boolean): Promise<void>;
  /** Stops it in the middle of what it does (SIGSTOP): connections stay open, nothing is answered. */
  suspend(): void;
  resume(): void;
  /** Creates an empty database and answers its JDBC settings. */
  createDatabase(): Promise<{ jdbcUrl: string; user: string; password: string }>;
  /** Stops it and deletes its data. */
  dispose(): Promise<void>;
}

/** What is chosen of a database server. */
export interface TestServerOptions {
  /** Waits at each commit until the disk has it (true); a server whose data end with the run need not. */
  readonly isDurable?: boolean;
}

/** The database server that runs as a process with its data in a directory. Starts it. */
export async function testServer(
  server: ServerProcess,
  directory: string,
  more: Pick<TestServer, 'port' | 'start' | 'stop' | 'createDatabase'>,
): Promise<TestServer> {
  await more.start();
  return {
    ...more,
    get pid() {
      return server.pid;
    },
    suspend: () => server.signal('SIGSTOP'),
    resume: () => server.signal('SIGCONT'),
    async dispose() {
      await more.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The first of the folders that holds all the programs; null when none does. */
export function folderOf(programs: readonly string[], folders: readonly string[]): string | null {
  const all = [...folders, ...(process.env.PATH ?? '').split(path.delimiter)];
  const has = (folder: string) =>
    programs.every((program) => {
      try {
        accessSync(path.join(folder, program), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
  return all.find((folder) => folder !== '' && has(folder)) ?? null;
}

/** Runs a program to its end. @throws with its output when it fails */
export async function runProgram(
  command: string,
  args: readonly string[],
  user?: { uid: number; gid: number },
): Promise<void> {
  await promisify(execFile)(command, args, { ...user, maxBuffer: 1 << 24 }).catch((error: ExecFileException) => {
    throw new Error(`${command} failed: ${error.stderr || error.stdout || error.message}`);
  });
}

/**
 * Makes an empty data directory in the way of a database server, as a copy of one that is made once for each version of its
 * program: that takes seconds of the processor.
 * @param make makes one at a path
 */
export async function emptyData(program: string, data: string, make: (path: string) => Promise<void>): Promise<void> {
  const { mtimeMs } = statSync(program);
  const folder = path.resolve('.cache/databases');
  const first = path.join(folder, `${path.basename(program)}-${Math.trunc(mtimeMs)}`);
  if (!existsSync(first)) {
    await make(data);
    mkdirSync(folder, { recursive: true });
    const copy = `${first}-${randomUUID()}`;
    await runProgram('cp', ['-a', data, copy]);
    try {
      renameSync(copy, first);
    } catch {
      // Another process has made it meanwhile.
      rmSync(copy, { recursive: true, force: true });
    }
  } else await runProgram('cp', ['-a', first, data]);
}

/** User and group ids of a system user; null when this process is not root or there is no such user. */
export function systemUser(name: string): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  const id = (flag: string) => Number(spawnSync('id', [flag, name], { encoding: 'utf8' }).stdout);
  const [uid, gid] = [id('-u'), id('-g')];
  return uid > 0 && gid > 0 ? { uid, gid } : null;
}

/** A child process that is started and stopped by its own pid. */
export class ServerProcess {
  private child: ChildProcess | null = null;
  private output = '';
  private readonly command: string;
  private readonly args: readonly string[];
  private readonly user: { uid: number; gid: number } | null;

  constructor(command: string, args: readonly string[], user: { uid: number; gid: number } | null) {
    this.command = command;
    this.args = args;
    this.user = user;
    // A test run that is cut short takes its servers along.
    process.once('exit', () => this.child?.kill('SIGKILL'));
  }

  /** Starts it and waits until `ready` resolves. */
  async start(ready: () => Promise<unknown>): Promise<void> {
    this.output = '';
    const child = spawn(this.command, this.args, { stdio: ['ignore', 'pipe', 'pipe'], ...this.user });
    this.child = child;
    const keep = (data: Buffer) => {
      this.output = (this.output + data.toString()).slice(-4000);
    };
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
    const deadline = performance.now() + 40_000;
    for (;;) {
      if (child.exitCode !== null) throw new Error(`${this.command} ended: ${this.output}`);
      try {
        return void (await ready());
      } catch (error) {
        if (performance.now() > deadline) throw new Error(`${this.command} is not ready: ${error}; ${this.output}`);
        await sleep(50);
      }
    }
  }

  /** Its process id while it runs. */
  get pid(): number {
    return this.child?.pid ?? 0;
  }

  /** Sends a signal that does not end it to the process and, as they share its work, its children. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    const { pid } = this;
    if (pid === 0) return;
    const children = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' }).stdout;
    for (const each of [String(pid), ...children.split('\n')]) {
      if (each.trim() !== '') process.kill(Number(each), signal);
    }
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    const child = this.child;
    this.child = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    await new Promise<void>((resolve) => {
      child.once('exit', () => resolve());
      child.kill(signal);
    });
  }
}
