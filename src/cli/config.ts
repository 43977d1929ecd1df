import { Command } from 'commander';
import { effectiveYaml } from '../config/effective.ts';
import { readConfigFile } from './configFile.ts';
import { type CommandFactory, exitCodes } from './io.ts';

/** `config`: prints the effective configuration; notes go to standard error. */
export const configCommand: CommandFactory = (io, finish) =>
  new Command('config')
    .description('print the effective configuration as YAML, defaults included and secrets masked')
    .option('-c, --config <file>', 'configuration file; without it the defaults')
    .action(async (options: { readonly config?: string }) => {
      const loaded = await readConfigFile(options.config, io);
      if (loaded === null) return finish(exitCodes.failure);
      for (const note of loaded.notes) io.stderr.write(`${note.text}\n`);
      io.stdout.write(effectiveYaml(loaded.config));
    });
