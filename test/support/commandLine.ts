import { execFile } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runCli } from '../../src/cli/program.ts';
import { programArguments } from './program.ts';

/** How a run of the program ended. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `engine-gateway` as users do: to its end, at most 50 seconds. */
export async function runProgram(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = '',
): Promise<Outcome> {
  const program = await programArguments();
  return await new Promise((resolve) => {
    const options = { env: { ...process.env, ...environment }, timeout: 50_000, maxBuffer: 64 * 1024 ** 2 };
    const child = execFile(process.execPath, [...program, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
    child.stdin?.end(input);
  });
}

/**
 * Runs a command of `engine-gateway` in this process, which takes a tenth of the time of a process.
 * @param program name of the program; that of the gateway by default
 */
export async function runCommand(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = '',
  program?: string,
): Promise<Outcome> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const texts = Promise.all([text(stdout), text(stderr)]);
  const stdin = Readable.from(input === '' ? [] : [input]);
  const io = { stdout, stderr, stdin, signals: new EventEmitter(), environment: { ...process.env, ...environment } };
  const code = await runCli(args, io, program);
  for (const output of [stdout, stderr]) output.end();
  const [written = '', errors = ''] = await texts;
  return { code, stdout: written, stderr: errors };
}
