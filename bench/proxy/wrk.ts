import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

/** What wrk measured. */
export interface WrkResult {
  readonly requests: number;
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Answers that were not 2xx or 3xx, and connections that failed. */
  readonly failed: number;
}

/** Load for wrk: 32 connections unless stated otherwise, one thread. */
export async function wrk(
  url: string,
  seconds: number,
  script: string | null,
  connections: number = 32,
): Promise<WrkResult> {
  const args = [
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    // Requests that are held for a second are late on a busy machine, and have not failed then.
    '--timeout=10s',
    '--latency',
    ...(script === null ? [] : ['-s', script]),
    url,
  ];
  const child = spawn('wrk', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const output = await text(child.stdout);
  if ((await closed) !== 0) throw new Error(`wrk failed: ${output}`);
  const number = (expression: RegExp) => Number(expression.exec(output)?.[1] ?? 0);
  const errors = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(output)?.slice(1) ?? [];
  return {
    requests: number(/(\d+) requests in/),
    perSecond: number(/Requests\/sec:\s+([\d.]+)/),
    p50: milliseconds(/50%\s+([\d.]+)(us|ms|s)/.exec(output)),
    p99: milliseconds(/99%\s+([\d.]+)(us|ms|s)/.exec(output)),
    failed: number(/Non-2xx or 3xx responses: (\d+)/) + errors.reduce((sum, count) => sum + Number(count), 0),
  };
}

function milliseconds(match: RegExpExecArray | null): number {
  const value = Number(match?.[1] ?? Number.NaN);
  return match?.[2] === 'us' ? value / 1000 : match?.[2] === 's' ? value * 1000 : value;
}
