import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Target } from './measure.ts';

/** A gateway in a process of its own: data plane, health checks and history, with neither analysis nor rules. */
export interface PlainGateway extends Target {
  readonly stop: () => Promise<void>;
}

/**
 * Starts one.
 * @param cluster base URL
 * @param database JDBC settings
 * @param notesOutcomes whether it notes how queries end
 */
export async function startPlainGateway(
  cluster: string,
  database: object,
  spillDirectory: string,
  notesOutcomes = true,
): Promise<PlainGateway> {
  const program = path.join(import.meta.dirname, 'gatewayProcess.ts');
  const flags = process.env.BENCH_NODE_OPTIONS?.split(' ') ?? [];
  const child: ChildProcess = spawn(
    process.execPath,
    ['--expose-gc', ...flags, program, cluster, JSON.stringify(database), spillDirectory, String(notesOutcomes)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  if (child.stdout === null || child.pid === undefined) throw new Error('the gateway process did not start');
  const url = `http://127.0.0.1:${await listeningPort(child.stdout)}`;
  // Its log, which somebody has to read.
  child.stdout.resume();
  return {
    url,
    workerPid: child.pid,
    settle: () => historyWritten(url),
    stop: async () => {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function listeningPort(output: Readable): Promise<string> {
  for await (const line of createInterface({ input: output })) {
    const port = /^listening (\d+)$/.exec(line)?.[1];
    if (port !== undefined) return port;
  }
  throw new Error('the gateway process ended before it listened');
}

/** Waits until all history is in the database. */
async function historyWritten(url: string): Promise<void> {
  for (let turn = 0; turn < 600; turn++) {
    const depth = (await (await fetch(`${url}/depth`)).json()) as { memory: number; spilled: number };
    if (depth.memory === 0 && depth.spilled === 0) return;
    await sleep(100);
  }
  throw new Error('the history was not written within 60 s');
}
