import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough, Readable } from 'node:stream';
import { stringify } from 'yaml';
import { type GatewayProgram, programArguments } from './program.ts';

/** A line of the gateway's log. */
export type LogLine = Readonly<Record<string, unknown>>;

/** A running gateway: a process as users run it, or in suites with `ENGINE_GATEWAY_RUNS=inside` the command `serve` in this process. */
export interface GatewayProcess {
  /** Address of API and proxy. */
  readonly url: string;
  /** Its process; NaN inside this one. */
  readonly pid: number;
  /** The line of the log with all addresses: `url`, `httpsUrl`, `adminUrl`. */
  readonly listening: LogLine;
  /** Lines of the log so far; under load the last ones. */
  readonly log: readonly LogLine[];
  /** Resolves with the first line, past or future, that fulfils the condition. */
  logged(condition: (line: LogLine) => boolean, timeoutMs?: number): Promise<LogLine>;
  /** Sends SIGTERM (or another signal) and waits until the process ended; answers its exit code (null: by signal). */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Time for a gateway to start listening on a busy machine. */
const START_TIMEOUT_MS = 90_000;
const STOP_TIMEOUT_MS = 45_000;
/** Lines of the log that an error shows. */
const SHOWN_LINES = 20;

/** Thrown when the gateway ended instead of starting. */
export class GatewayExit extends Error {
  readonly exitCode: number | null;
  readonly stderr: string;
  constructor(exitCode: number | null, output: string) {
    super(`the gateway ended with ${exitCode}: ${output}`);
    this.exitCode = exitCode;
    this.stderr = output;
  }
}

/** How a gateway runs: with any of these in a process. */
export interface GatewayRun {
  /** The program: what the suite asks for. */
  readonly program?: GatewayProgram;
  /** Keeps only the last lines of the log, which has one for each query, and passes the error output on: false. */
  readonly isUnderLoad?: boolean;
  /** Command and arguments that run the program, which follows them; none: it is run as it is. */
  readonly command?: readonly string[];
}

/** Of gateways that are killed or timed: not inside the tests' process, which does more at the same time. */
export const asProcess: GatewayRun = { program: 'shipped' };

/**
 * Starts `engine-gateway serve` with a configuration on a free loopback port.
 * @param config keys of the configuration file; port and address are added unless given, and with resources on an API
 *   server leave to have clusters on this machine
 */
export async function startGateway(
  config: Readonly<Record<string, unknown>>,
  environment: Readonly<Record<string, string>> = {},
  how: GatewayRun = {},
): Promise<GatewayProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-'));
  const file = join(folder, 'gateway.yaml');
  const resources = config.resources as Readonly<Record<string, unknown>> | undefined;
  const isOnKubernetes = resources?.source === 'kubernetes';
  await writeFile(
    file,
    stringify({
      ...config,
      ...(isOnKubernetes ? { resources: { allowedAddresses: ['127.0.0.0/8', '::1'], ...resources } } : {}),
      server: {
        address: '127.0.0.1',
        ...(isInside(how) ? { drainTimeout: '1s' } : {}),
        ...(config.server as object | undefined),
      },
      serverConfig: { 'http-server.http.port': 0, ...(config.serverConfig as object | undefined) },
    }),
  );
  return await run(file, environment, how, () => rm(folder, { recursive: true, force: true }));
}

/** Starts `engine-gateway serve` with a file that the test keeps and changes; it must name address and port itself. */
export function startGatewayWithFile(
  file: string,
  environment: Readonly<Record<string, string>> = {},
  how: GatewayRun = {},
): Promise<GatewayProcess> {
  return run(file, environment, how, () => Promise.resolve());
}

async function run(
  file: string,
  environment: Readonly<Record<string, string>>,
  how: GatewayRun,
  cleanUp: () => Promise<void>,
): Promise<GatewayProcess> {
  const begun = await (isInside(how) ? beginInside(file, environment) : beginProcess(file, environment, how));
  return await follow(begun, how.isUnderLoad === true ? SHOWN_LINES : Number.POSITIVE_INFINITY, cleanUp);
}

const isInside = (how: GatewayRun): boolean =>
  process.env.ENGINE_GATEWAY_RUNS === 'inside' && Object.keys(how).length === 0;

/** A gateway that begins to run. */
type BegunGateway = Awaited<ReturnType<typeof beginProcess>>;

async function beginProcess(
  file: string,
  environment: Readonly<Record<string, string>>,
  { program, isUnderLoad = false, command = [] }: GatewayRun,
) {
  const args = await programArguments(program);
  const [first = '', ...rest] = [...command, process.execPath, ...args, 'serve', '--config', file];
  const child = spawn(first, rest, {
    env: { NODE_COMPILE_CACHE: resolve('.cache/compile'), ...process.env, ...environment },
    stdio: ['ignore', 'pipe', isUnderLoad ? 'inherit' : 'pipe'],
  });
  const { pid = Number.NaN, stdout, stderr } = child;
  if (stdout === null) throw new Error('the output of the gateway is not piped');
  const ended = new Promise<number | null>((done) => child.once('close', done));
  return { pid, stdout, stderr, ended, signal: (name: NodeJS.Signals) => child.kill(name) };
}

/** Begins the command in this process, which takes a fifth of the processor time of a process. It always ends cleanly. */
async function beginInside(file: string, environment: Readonly<Record<string, string>>): Promise<BegunGateway> {
  const { runCli } = await import('../../src/cli/program.ts');
  const [stdout, stderr, signals] = [new PassThrough(), new PassThrough(), new EventEmitter()];
  const ended = runCli(['serve', '--config', file], {
    ...{ stdout, stderr, stdin: Readable.from([]), signals, log: stdout },
    environment: { ...process.env, ...environment },
  })
    .catch((error: Error) => {
      stderr.write(`${error.stack}\n`);
      return 1;
    })
    .finally(() => stdout.end());
  const signal = (name: NodeJS.Signals) => signals.emit(name === 'SIGKILL' ? 'SIGTERM' : name, name);
  return { pid: Number.NaN, stdout, stderr, ended, signal };
}

/** @param keptLines how many lines of the log are kept */
async function follow(begun: BegunGateway, keptLines: number, cleanUp: () => Promise<void>): Promise<GatewayProcess> {
  const log: LogLine[] = [];
  const watchers = new Set<(line: LogLine) => void>();
  let stderr = '';
  begun.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const lines = createInterface({ input: begun.stdout }).on('line', (text) => {
    const line = asLogLine(text);
    log.push(line);
    if (log.length > keptLines) log.shift();
    for (const watcher of watchers) watcher(line);
  });
  let isOver = false;
  const ended = Promise.all([begun.ended, once(lines, 'close')]).then(([code]) => {
    isOver = true;
    return code;
  });

  const logged = (condition: (line: LogLine) => boolean, timeoutMs = 30_000): Promise<LogLine> => {
    const past = log.find(condition);
    if (past !== undefined) return Promise.resolve(past);
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer);
        watchers.delete(watcher);
        act();
      };
      const watcher = (line: LogLine) => {
        if (condition(line)) settle(() => resolve(line));
      };
      const timer = setTimeout(
        () => settle(() => reject(new Error(`not logged in ${timeoutMs} ms; the last lines: ${tail(log)} ${stderr}`))),
        timeoutMs,
      );
      watchers.add(watcher);
    });
  };
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> => {
    if (!isOver) begun.signal(signal);
    const timer = setTimeout(() => begun.signal('SIGKILL'), STOP_TIMEOUT_MS);
    const code = await ended;
    clearTimeout(timer);
    await cleanUp();
    return code;
  };

  const listening = await Promise.race([
    logged((line) => typeof line.url === 'string' && line.msg === 'listening', START_TIMEOUT_MS),
    ended.then(async (code) => {
      await cleanUp();
      throw new GatewayExit(code, `${stderr}${tail(log)}`);
    }),
  ]).catch(async (error: unknown) => {
    begun.signal('SIGKILL');
    throw error;
  });
  return { url: listening.url as string, pid: begun.pid, listening, log, logged, stop };
}

function asLogLine(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine;
  } catch {
    return { text };
  }
}

function tail(log: readonly LogLine[]): string {
  return log
    .slice(-SHOWN_LINES)
    .map((line) => JSON.stringify(line))
    .join('\n');
}
