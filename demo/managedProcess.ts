import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

const endWithParent = import.meta.resolve('./endWithParent.ts');
/** Time that a child gets to stop cleanly, in milliseconds. */
const STOP_MILLIS = 10_000;

export interface ManagedProcessOptions {
  /** File that gets the child's output, from its beginning; undefined: this process's own output. */
  readonly logFile: string | undefined;
  readonly environment?: Readonly<Record<string, string>>;
}

/** A Node program run as a child, in a separate process group so that only its owner stops it. It ends with its owner. */
export class ManagedProcess {
  readonly name: string;
  readonly logFile: string | undefined;
  readonly #child: ChildProcess;
  readonly #ended = new AbortController();
  /** Resolves when the child has ended, however it did. */
  readonly done: Promise<void>;
  #stopping = false;

  constructor(name: string, args: readonly string[], { logFile, environment }: ManagedProcessOptions) {
    this.name = name;
    this.logFile = logFile;
    if (logFile !== undefined) mkdirSync(dirname(logFile), { recursive: true });
    const output = logFile === undefined ? ('inherit' as const) : openSync(logFile, 'w');
    this.#child = spawn(process.execPath, ['--import', endWithParent, ...args], {
      stdio: ['ignore', output, output, 'ipc'],
      // Compiled sources are kept: every start but the first is faster.
      env: { NODE_COMPILE_CACHE: resolve('.cache/compile'), ...process.env, ...environment },
      detached: true,
    });
    if (typeof output === 'number') closeSync(output);
    this.done = new Promise((done) => {
      const end = () => {
        this.#ended.abort();
        done();
      };
      this.#child.once('exit', end);
      this.#child.once('error', end);
    });
  }

  /** Aborted when the child has ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  /** How it ended, for a message. */
  get outcome(): string {
    const { exitCode, signalCode } = this.#child;
    return signalCode === null ? `exit code ${exitCode}` : signalCode;
  }

  /** Asks the child to stop and waits; ends it the hard way after 10 s. */
  async stop(): Promise<void> {
    if (this.ended.aborted) return;
    if (!this.#stopping) {
      this.#stopping = true;
      this.#child.kill('SIGTERM');
    }
    const timer = setTimeout(() => this.kill(), STOP_MILLIS);
    await this.done;
    clearTimeout(timer);
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

/** A child ended by itself; the message shows the end of its log. */
export class ChildProcessFailed extends Error {
  constructor({ name, logFile, outcome }: ManagedProcess) {
    const lines = logFile === undefined ? [] : readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-15);
    super(
      [`The ${name} ended (${outcome})${lines.length > 0 ? `; the end of ${logFile}:` : '.'}`, ...lines].join('\n'),
    );
  }
}
