import type { EventEmitter } from 'node:events';
import { createInterface } from 'node:readline';
import { Command } from 'commander';
import type { DestinationStream, Logger } from 'pino';
import { createLogger } from '../config/logger.ts';
import { GatewayError } from '../model/errors.ts';

export interface CliIo {
  readonly stdout: NodeJS.WritableStream;
  /** For errors, notes and help after a mistake. */
  readonly stderr: NodeJS.WritableStream;
  readonly stdin: NodeJS.ReadableStream;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Emits the signals that the program gets. */
  readonly signals: EventEmitter;
  /** Output of the gateway's log; by default standard output, in portions. */
  readonly log?: DestinationStream;
}

export const exitCodes = {
  success: 0,
  /** The command failed; standard error has the reason. */
  failure: 1,
  /** The command line is wrong. */
  usage: 2,
} as const;

/** A command cannot continue; standard error has the reason. */
class CommandFailure extends Error {
  /** Null: the code that the command has for failures. */
  readonly exitCode: number | null;

  constructor(exitCode: number | null) {
    super('the command failed');
    this.exitCode = exitCode;
  }
}

/** Ends a command with lines on standard error, and with its code for failures if no other one is given. */
export function fail(
  io: Pick<CliIo, 'stderr'>,
  lines: string | readonly string[],
  exitCode: number | null = null,
): never {
  for (const line of [lines].flat()) io.stderr.write(`${line}\n`);
  throw new CommandFailure(exitCode);
}

/** Creates a command of the program. Its action calls `finish` with the exit code; an exception is a defect. */
export type CommandFactory = (io: CliIo, finish: (exitCode: number) => void) => Command;

/** Values of the options of all commands. */
export interface CommandLine {
  readonly config?: readonly string[];
  readonly rules?: string;
  readonly requests?: string;
  readonly history?: string;
  readonly json?: boolean;
  readonly edits?: string;
  readonly delete?: readonly string[];
  readonly since?: string;
  readonly catalog?: string;
  readonly schema?: string;
  readonly cases?: boolean;
  readonly product?: string;
  readonly analysis?: boolean;
  readonly resourceGroups?: string;
  readonly groups?: string;
  readonly request?: string;
  readonly userMapping?: string;
  readonly defaultGroup?: string;
  readonly defaultPriority?: string;
  readonly namespace?: string;
  readonly all?: boolean;
  readonly manifest?: boolean;
  readonly printSql?: boolean;
  readonly strict?: boolean;
  readonly class?: string;
  readonly differences?: boolean;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly service?: string;
  readonly server?: string;
  readonly tokenFile?: string;
  readonly output?: string;
  readonly user?: string;
  readonly source?: string;
  readonly header?: readonly string[];
  readonly running?: boolean;
  readonly queued?: boolean;
  readonly timeout?: string;
  readonly undo?: boolean;
  readonly wait?: boolean;
  readonly file?: string;
  readonly plan?: boolean;
  readonly junit?: string;
  readonly markdown?: string;
}

interface CommandTable<Argument> {
  readonly name: string;
  readonly description: string;
  readonly argument?: readonly [name: string, description: string];
  /** Flags, description and default of each option. `-c` may be repeated, as may options in `repeated`. */
  readonly options: readonly (readonly [flags: string, description: string, initial?: string])[];
  readonly repeated?: readonly string[];
  readonly required?: string;
  /** Exit code of failures. */
  readonly failed?: number;
  /** @returns the exit code */
  readonly run: (options: CommandLine, io: CliIo, argument: Argument) => Promise<number>;
}

/** Flags of the configuration file. */
export const configFlags = '-c, --config <file>';

/** Makes a command of its table. A `GatewayError` is printed. */
export function command<Argument = undefined>(table: CommandTable<Argument>): CommandFactory {
  const { name, description, argument, options, repeated = [], required, failed = exitCodes.failure, run } = table;
  return (io, finish) => {
    const subcommand = new Command(name).description(description);
    if (argument !== undefined) subcommand.argument(...argument);
    for (const [flags, about, initial] of options) {
      const option = subcommand.createOption(flags, about).default(initial);
      if (flags === configFlags || repeated.includes(flags)) option.argParser(oneMore);
      subcommand.addOption(option.makeOptionMandatory(flags === required));
    }
    return subcommand.action(async (...args: unknown[]) => {
      const [value, values] = argument === undefined ? [undefined, args[0]] : args;
      try {
        finish(await run(values as CommandLine, io, value as Argument));
      } catch (error) {
        if (error instanceof GatewayError) io.stderr.write(`error: ${error.message}\n`);
        else if (!(error instanceof CommandFailure)) throw error;
        finish(error instanceof CommandFailure ? (error.exitCode ?? failed) : failed);
      }
    });
  };
}

function oneMore(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** A log on standard error: standard output has results only. */
export function stderrLogger(io: Pick<CliIo, 'stderr'>, level: 'info' | 'warn' = 'warn'): Logger {
  return createLogger({ level, destination: { write: (line) => io.stderr.write(line) } });
}

/** Writes a line of JSON for each line of JSON on standard input, in order. */
export async function convertLines<Case>(io: CliIo, convert: (line: Case) => object): Promise<number> {
  let number = 0;
  for await (const text of createInterface({ input: io.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1;
    if (text.trim() === '') continue;
    let line: Case;
    try {
      line = JSON.parse(text) as Case;
    } catch (error) {
      fail(io, `error: line ${number} is not JSON: ${(error as Error).message}`);
    }
    io.stdout.write(`${JSON.stringify(convert(line))}\n`);
  }
  return exitCodes.success;
}
