import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { KubeRig } from './kubeRig.ts';

/** What the process says of itself. */
export interface OperatorProcessState {
  readonly leader: boolean;
  readonly epoch: number | null;
  readonly clusters: readonly string[];
  /** Routing group of each cluster. */
  readonly groups: readonly string[];
  /** Rules that are asked. */
  readonly rules: number;
  readonly memory: number;
}

/** What can be asked of the process. */
export type OperatorMethod = 'add' | 'update' | 'delete' | 'state' | 'ready' | 'pauseBefore' | 'lateWrite';

/** An operator in a process of its own. */
export interface OperatorProcess {
  readonly child: ChildProcess;
  /** Its log so far. */
  log(): string;
  call<T>(method: OperatorMethod, argument?: unknown): Promise<T>;
  state(): Promise<OperatorProcessState>;
  kill(signal: NodeJS.Signals): void;
  /** Ends it in any case and waits for that. */
  end(): Promise<void>;
}

/** Starts an operator process; resolves when it answers. */
export async function startOperatorProcess(rig: KubeRig, instance: string): Promise<OperatorProcess> {
  const script = fileURLToPath(new URL('operatorProcess.ts', import.meta.url));
  const settings = JSON.stringify({ jdbcUrl: rig.jdbcUrl, kubeconfig: rig.kubeconfig, instance });
  const child = spawn(process.execPath, [script, settings], { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  const port = await new Promise<number>((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (text.includes('\n')) resolve((JSON.parse(text) as { port: number }).port);
    });
    child.once('exit', (code) => reject(new Error(`operator process ended with ${code}: ${log}`)));
  });
  const call = async <T>(method: string, argument?: unknown): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}/${method}`, {
      method: 'POST',
      body: argument === undefined ? '' : JSON.stringify(argument),
      signal: AbortSignal.timeout(15_000),
    });
    const { result, error } = (await response.json()) as { result?: T; error?: object };
    if (error !== undefined) throw Object.assign(new Error(JSON.stringify(error)), error);
    return result as T;
  };
  return {
    child,
    log: () => log,
    call,
    state: () => call<OperatorProcessState>('state'),
    kill: (signal) => child.kill(signal),
    end: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}
