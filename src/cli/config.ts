import { effectiveYaml } from '../config/effective.ts';
import { configName, readConfigFiles } from './configFile.ts';
import { type CliIo, command, configFlags, exitCodes, fail } from './io.ts';

interface ConfigOptions {
  readonly config?: readonly string[];
}

/** `config`: checks the configuration and its files and prints it; notes go to standard error. */
export const configCommand = command<ConfigOptions>({
  name: 'config',
  description: 'print the effective configuration as YAML, defaults included and secrets masked',
  options: [[configFlags, 'configuration file; several are laid over each other; without it the defaults']],
  run: printConfig,
});

async function printConfig(options: ConfigOptions, io: CliIo): Promise<number> {
  const { config, notes } = await readConfigFiles(options.config, io);
  for (const note of notes) io.stderr.write(`${note.text}\n`);
  // Loaded on demand, so that other commands need not load code that reads keys.
  const { namedFileProblems } = await import('./namedFiles.ts');
  const problems = await namedFileProblems(config, io.environment);
  if (problems.length > 0)
    fail(
      io,
      problems.map((problem) => `${configName(options.config)}: ${problem}`),
    );
  const { resourceMistakes } = await import('./validate.ts');
  const mistakes = await resourceMistakes(config);
  if (mistakes !== null) fail(io, mistakes.replace(/\n$/, ''));
  io.stdout.write(effectiveYaml(config));
  return exitCodes.success;
}
