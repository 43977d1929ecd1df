import { Command } from 'commander';
import { createLogging, type Logging } from '../config/logger.ts';
import { logOutput } from '../config/logOutput.ts';
import { type ConfigWatch, watchConfig } from '../config/watchConfig.ts';
import { GatewayError } from '../model/errors.ts';
import { version } from '../model/version.ts';
import { type LoadedConfig, readConfigFile } from './configFile.ts';
import type { RunningGateway } from './gateway.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';

/** `serve`: runs the gateway until it receives a signal to stop. */
export const serveCommand: CommandFactory = (io, finish) =>
  new Command('serve')
    .description('run the gateway')
    .option('-c, --config <file>', 'configuration file; without it the defaults')
    .action(async (options: { readonly config?: string }) => finish(await serve(options.config, io)));

/**
 * Runs the gateway until SIGTERM or SIGINT.
 * @param configPath configuration file; undefined for the defaults
 * @returns exit code
 */
async function serve(configPath: string | undefined, io: CliIo): Promise<number> {
  const loaded = await readConfigFile(configPath, io);
  if (loaded === null) return exitCodes.failure;
  const logging = createLogging({ level: loaded.config.logging.level, destination: logOutput() });
  const { logger } = logging;
  logger.info({ version, node: process.version, config: configPath }, 'starting');
  for (const note of loaded.notes) logger.warn({ file: configPath, line: note.line, key: note.field }, note.message);
  // Only now, so that --help and --version need not load the whole program.
  const { startGateway } = await import('./gateway.ts');
  // Registered before the start, which may take long, so that a signal during it is not lost.
  const stopped = stopSignal();
  let gateway: RunningGateway;
  try {
    gateway = await startGateway({
      config: loaded.config,
      version,
      logger,
      environment: io.environment,
    });
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    logger.fatal({ code: error.code, field: error.field }, error.message);
    io.stderr.write(`${error.message}\n`);
    return exitCodes.failure;
  }
  const watch = configPath === undefined ? null : followConfig(configPath, loaded, gateway, logging, io);
  const signal = await stopped;
  watch?.close();
  logger.info({ signal }, 'stopping');
  await gateway.stop();
  logger.info('stopped');
  return exitCodes.success;
}

function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    process.once('SIGTERM', resolve);
    process.once('SIGINT', resolve);
  });
}

/** Takes settings of a changed file that may change while running. */
function followConfig(
  path: string,
  loaded: LoadedConfig,
  gateway: RunningGateway,
  logging: Logging,
  io: CliIo,
): ConfigWatch {
  return watchConfig({
    path,
    environment: io.environment,
    running: loaded.config,
    logger: logging.logger,
    onChange: ({ config, live }) => {
      logging.setLevel(config.logging.level);
      gateway.configure(config);
      logging.logger.info({ keys: live }, 'changed settings are in force');
    },
  });
}
