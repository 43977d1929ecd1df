import { Command, CommanderError } from 'commander';
import manifest from '../../package.json' with { type: 'json' };
import { version } from '../model/version.ts';
import { analyzeCommand, configCommand, migrateCommand, serveCommand } from './commands.ts';
import { compareCommand } from './compare.ts';
import { evaluateCommand } from './evaluate.ts';
import { exportCommand } from './export.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';
import { pluginCommands } from './plugin.ts';
import { replayCommand } from './replay.ts';
import { validateCommand } from './validate.ts';

/** All commands; a new one is a separate file and a line here. */
const commands: readonly CommandFactory[] = [
  serveCommand,
  configCommand,
  analyzeCommand,
  evaluateCommand,
  compareCommand,
  exportCommand,
  replayCommand,
  migrateCommand,
  validateCommand,
];

/** Name under which the program is the plugin of kubectl: `kubectl engine-gateway`. */
const PLUGIN = 'kubectl-engine_gateway';

/**
 * Runs a command line.
 * @param args arguments after the program's name
 * @param name the program's name
 * @returns the exit code
 */
export async function runCli(args: readonly string[], io: CliIo, name = 'engine-gateway'): Promise<number> {
  let exitCode: number = exitCodes.success;
  const program = new Command(name === PLUGIN ? 'kubectl engine-gateway' : 'engine-gateway')
    .description(name === PLUGIN ? 'status, queries and clusters of an Engine Gateway' : manifest.description)
    .version(version)
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
    })
    .exitOverride();
  for (const make of name === PLUGIN ? pluginCommands : commands) {
    const command = make(io, (code) => {
      exitCode = code;
    });
    program.addCommand(command.copyInheritedSettings(program));
  }
  try {
    await program.parseAsync([...args], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? exitCodes.success : exitCodes.usage;
  }
  return exitCode;
}
