import { type ChildProcess, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { freePort } from './freePort.ts';

/** A demo that runs, as `npm start` starts it. */
export interface Demo {
  readonly port: number;
  readonly url: string;
  readonly process: ChildProcess;
  /** The lines that it printed, up to the last one that names a page of the documentation. */
  readonly lines: readonly string[];
}

const demos: Demo[] = [];

/** Stops the demos of this process and removes their files. */
export async function stopDemos(): Promise<void> {
  for (const demo of demos.splice(0)) {
    await stopDemo(demo, 'SIGTERM');
    rmSync(`demo/data/${demo.port}`, { recursive: true, force: true });
  }
}

export async function startDemo(command: readonly string[] = ['node', 'scripts/start.ts']): Promise<Demo> {
  const port = await freePort();
  const [program = '', ...args] = command;
  const child = spawn(program, [...args, '--port', String(port)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    lines.push(line);
    if (line.includes('docs/demo.md')) break;
  }
  const demo = { port, url: `http://localhost:${port}`, process: child, lines };
  demos.push(demo);
  return demo;
}

export async function stopDemo({ process: child }: Demo, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await exit;
}
