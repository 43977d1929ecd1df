import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { EngineState } from '../../demo/simulatedEngine.ts';

/** Time for a program to start, or to answer, on a busy machine. */
const RESPONSE_TIMEOUT_MS = 90_000;

interface Life {
  readonly child: ChildProcess;
  readonly suffix: string;
}

/** A simulated engine in a process of its own, which can be killed, stopped by signal and started again on its port. */
export class ClusterProcess {
  readonly name: string;
  readonly #suffixes: string[] = [];
  #port = 0;
  #life: Life | null = null;

  private constructor(name: string) {
    this.name = name;
  }

  /** Starts an engine on a free loopback port. */
  static async start(name: string): Promise<ClusterProcess> {
    const cluster = new ClusterProcess(name);
    await cluster.start();
    return cluster;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Last five characters of its query ids, of all its lives. */
  get suffixes(): readonly string[] {
    return this.#suffixes;
  }

  /** Starts it (again): on the same port, as a new coordinator. */
  async start(port = this.#port): Promise<void> {
    const options = { name: this.name, port };
    const child = spawn(process.execPath, ['test/support/clusterProgram.ts', JSON.stringify(options)], {
      env: { NODE_COMPILE_CACHE: resolve('.cache/compile'), ...process.env },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const started = (await message(child)) as { port: number; suffix: string };
    this.#port = started.port;
    this.#suffixes.push(started.suffix);
    this.#life = { child, suffix: started.suffix };
  }

  /** Changes how it behaves; resolves when it does. */
  async setState(change: Partial<EngineState>): Promise<void> {
    const { child } = this.#alive();
    const done = message(child);
    child.send(change);
    await done;
  }

  /** Ends it at once, as a power cut does to a process: its connections are reset or closed. */
  async kill(): Promise<void> {
    if (this.#life === null) return;
    const { child } = this.#life;
    this.#life = null;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** Stops it in the middle of what it does (SIGSTOP): connections are taken by the kernel, nothing is answered. */
  suspend(): void {
    this.#alive().child.kill('SIGSTOP');
  }

  resume(): void {
    this.#alive().child.kill('SIGCONT');
  }

  /** Whether an id was given by this engine. */
  gave(queryId: string): boolean {
    return this.#suffixes.some((suffix) => queryId.endsWith(`_${suffix}`));
  }

  #alive(): Life {
    if (this.#life === null) throw new Error(`cluster ${this.name} does not run`);
    return this.#life;
  }
}

/** The next message of a child; rejects when it ends instead. */
function message(child: ChildProcess): Promise<unknown> {
  return new Promise((done, reject) => {
    const settle = (act: () => void) => {
      clearTimeout(timer);
      child.off('message', onMessage).off('exit', onExit);
      act();
    };
    const onMessage = (value: unknown) => settle(() => done(value));
    const onExit = () => settle(() => reject(new Error('the simulated engine ended')));
    const timer = setTimeout(
      () => settle(() => reject(new Error('the simulated engine does not answer'))),
      RESPONSE_TIMEOUT_MS,
    );
    child.once('message', onMessage).once('exit', onExit);
  });
}
