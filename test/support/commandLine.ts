import { execFile } from 'node:child_process';

/** How a run of the program ended. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `engine-gateway` as users do. */
export function runProgram(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { env: { ...process.env, ...environment }, timeout: 50_000, maxBuffer: 64 * 1024 ** 2 };
    execFile(process.execPath, ['src/main.ts', ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}
