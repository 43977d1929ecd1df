import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { stringify } from 'yaml';
import { buildShippedProgram, shippedProgram } from '../support/shippedProgram.ts';

const project = resolve(import.meta.dirname, '../..');
const inject = join(import.meta.dirname, 'inject.ts');
/** What one process compiled, others load. */
const compileCache = join(project, '.cache/compile');
const START_TIMEOUT_MS = 120_000;

/** The commit whose behaviour is recorded. */
export const BASELINE = '79e75e5d2177e6d8ffd6572899b3a0952db25e3b';

/** A version of the program. */
export interface Program {
  /** Folder of its sources, CRDs and pages. */
  readonly root: string;
  /** Arguments of Node that start it. */
  readonly main: readonly string[];
  /** True for the recorded version, whose resources are `enginegateway.dev/v1`. */
  readonly isBaseline: boolean;
}

/** The program of this working tree, as it ships. */
export async function currentProgram(): Promise<Program> {
  await buildShippedProgram();
  return { root: project, main: await shippedProgram(), isBaseline: false };
}

/** The program of the baseline, taken from the history into `.cache/baseline`. Throws if the clone lacks the commit. */
export function baselineProgram(): Program {
  const root = join(project, '.cache/baseline', BASELINE);
  if (!existsSync(root)) {
    mkdirSync(join(project, '.cache/baseline'), { recursive: true });
    const fresh = mkdtempSync(`${root}-`);
    const archive = execFileSync('git', ['archive', BASELINE], { cwd: project, maxBuffer: 1 << 29 });
    execFileSync('tar', ['-x', '-C', fresh], { input: archive });
    symlinkSync(join(project, 'node_modules'), join(fresh, 'node_modules'));
    renameSync(fresh, root);
  }
  return { root, main: [join(root, 'src/main.ts')], isBaseline: true };
}

/** A running gateway. */
export interface Gateway {
  readonly url: string;
  /** Lines of its log so far. */
  readonly log: readonly Readonly<Record<string, unknown>>[];
  stop(): Promise<void>;
}

/** Starts `engine-gateway serve` on a free port of the loopback address. */
export async function startProgram(
  { root, main }: Program,
  config: Readonly<Record<string, unknown>>,
  environment: Readonly<Record<string, string>> = {},
): Promise<Gateway> {
  const folder = mkdtempSync(join(tmpdir(), 'baseline-'));
  const file = join(folder, 'gateway.yaml');
  const { server, serverConfig, ...others } = config as Record<string, object | undefined>;
  writeFileSync(
    file,
    stringify({
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      ...others,
      server: { address: '127.0.0.1', ...server },
      serverConfig: { 'http-server.http.port': 0, ...serverConfig },
    }),
  );
  const child = spawn(process.execPath, ['--import', inject, ...main, 'serve', '--config', file], {
    cwd: root,
    env: { NODE_COMPILE_CACHE: compileCache, ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((done) => child.once('close', () => done()));
  const log: Record<string, unknown>[] = [];
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  const url = await new Promise<string>((done, fail) => {
    const timer = setTimeout(
      () => fail(new Error(`not listening: ${JSON.stringify(log.slice(-5))}`)),
      START_TIMEOUT_MS,
    );
    child.once('close', () => fail(new Error(`ended: ${JSON.stringify(log.slice(-5))}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const entry = logEntry(line);
      log.push(entry);
      if (entry.msg !== 'listening' || typeof entry.url !== 'string') return;
      clearTimeout(timer);
      done(entry.url);
    });
  }).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  for (let attempt = 0; attempt < 600; attempt++) {
    if ((await fetch(`${url}/readyz`)).ok) return { url, log, stop };
    await new Promise((done) => setTimeout(done, 100));
  }
  await stop();
  throw new Error('the gateway is not ready');
}

function logEntry(line: string): Record<string, unknown> {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return { text: line };
  }
}

/** Result of a command. */
export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `engine-gateway ARGS` in a folder, in this process, which takes a tenth of the time of a process. */
export async function runCommand({ root }: Program, folder: string, args: readonly string[]): Promise<CommandResult> {
  const { runCli } = (await import(join(root, 'src/cli/program.ts'))) as typeof import('../../src/cli/program.ts');
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const texts = Promise.all([text(stdout), text(stderr)]);
  const environment = { ...process.env, NO_COLOR: '1', KUBECONFIG: join(folder, 'no-kubeconfig') };
  const io = { stdout, stderr, stdin: Readable.from([]), signals: new EventEmitter(), log: stdout, environment };
  const before = process.cwd();
  process.chdir(folder);
  try {
    const exitCode = await runCli(args, io);
    for (const output of [stdout, stderr]) output.end();
    const [written, errors] = await texts;
    return { exitCode, stdout: written, stderr: errors };
  } finally {
    process.chdir(before);
  }
}
