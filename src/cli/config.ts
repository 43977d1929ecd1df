import { Command } from 'commander';
import { effectiveYaml } from '../config/effective.ts';
import { configFlags, configName, oneMoreFile, readConfigFiles } from './configFile.ts';
import { type CommandFactory, exitCodes } from './io.ts';

/** `config`: checks the configuration and its files and prints it; notes go to standard error. */
export const configCommand: CommandFactory = (io, finish) =>
  new Command('config')
    .description('print the effective configuration as YAML, defaults included and secrets masked')
    .option(configFlags, 'configuration file; several are laid over each other; without it the defaults', oneMoreFile)
    .action(async (options: { readonly config?: readonly string[] }) => {
      const loaded = await readConfigFiles(options.config, io);
      if (loaded === null) return finish(exitCodes.failure);
      for (const note of loaded.notes) io.stderr.write(`${note.text}\n`);
      // Loaded on demand, so that other commands need not load code that reads keys.
      const { namedFileProblems } = await import('./namedFiles.ts');
      const problems = await namedFileProblems(loaded.config, io.environment);
      for (const problem of problems) io.stderr.write(`${configName(options.config)}: ${problem}\n`);
      if (problems.length > 0) return finish(exitCodes.failure);
      const { resourceMistakes } = await import('./resourceMistakes.ts');
      const mistakes = await resourceMistakes(loaded.config);
      if (mistakes !== null) {
        io.stderr.write(mistakes);
        return finish(exitCodes.failure);
      }
      io.stdout.write(effectiveYaml(loaded.config));
    });
