import { createInterface } from 'node:readline';
import { Command } from 'commander';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';
import { evaluateCase, type RuleCase } from './ruleCases.ts';

interface EvaluateOptions {
  readonly cases?: boolean;
}

/** `evaluate`: what rules say about a request. */
export const evaluateCommand: CommandFactory = (io, finish) =>
  new Command('evaluate')
    .description('show what rules decide for a request, without sending anything')
    .option('--cases', 'read expressions and rules files as JSON lines from standard input, write one result a line')
    .action(async (options: EvaluateOptions) => {
      if (options.cases === true) return finish(await answerCases(io));
      io.stderr.write('error: missing --cases\n');
      finish(exitCodes.usage);
    });

/** Answers each line of standard input by a line with the case's id and its result, in the same order. */
async function answerCases(io: CliIo): Promise<number> {
  let number = 0;
  for await (const text of createInterface({ input: io.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1;
    if (text.trim() === '') continue;
    let line: RuleCase;
    try {
      line = JSON.parse(text) as RuleCase;
    } catch (error) {
      io.stderr.write(`error: line ${number} is no JSON: ${(error as Error).message}\n`);
      return exitCodes.failure;
    }
    io.stdout.write(`${JSON.stringify(evaluateCase(line))}\n`);
  }
  return exitCodes.success;
}
