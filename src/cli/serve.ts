import { Command } from 'commander';
import { createLogging } from '../config/logger.ts';
import { readConfigFile } from './configFile.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';

/** `serve`: runs the gateway until it is told to stop. */
export const serveCommand: CommandFactory = (io, finish) =>
  new Command('serve')
    .description('run the gateway')
    .option('-c, --config <file>', 'configuration file; without it the defaults')
    .action(async (options: { readonly config?: string }) => finish(await serve(options.config, io)));

/**
 * Runs the gateway.
 * @param configPath configuration file; undefined for the defaults
 * @returns exit code
 */
async function serve(configPath: string | undefined, io: CliIo): Promise<number> {
  const loaded = await readConfigFile(configPath, io);
  if (loaded === null) return exitCodes.failure;
  const { config, notes } = loaded;
  const { logger } = createLogging({ level: config.logging.level });
  for (const note of notes) logger.warn({ file: configPath, line: note.line, key: note.field }, note.message);
  // The parts of the gateway are made and joined here: store, resource source, routing table, data plane, API.
  logger.info({ source: config.resources.source }, 'configuration loaded; the gateway itself is not wired yet');
  return exitCodes.success;
}
