import type { Command } from 'commander';

export interface CliIo {
  readonly stdout: NodeJS.WritableStream;
  /** For errors, notes and help after a mistake. */
  readonly stderr: NodeJS.WritableStream;
  readonly stdin: NodeJS.ReadableStream;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export const exitCodes = {
  success: 0,
  /** The command failed; standard error has the reason. */
  failure: 1,
  /** The command line is wrong. */
  usage: 2,
} as const;

/**
 * Creates a command of the program. Its action calls `finish` with the exit code at the end; an exception is a defect.
 */
export type CommandFactory = (io: CliIo, finish: (exitCode: number) => void) => Command;
