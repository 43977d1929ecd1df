import { Command } from 'commander';
import { createLogging, type Logging } from '../config/logger.ts';
import { logOutput } from '../config/logOutput.ts';
import { type ConfigWatch, watchConfig } from '../config/watchConfig.ts';
import { GatewayError } from '../model/errors.ts';
import { version } from '../model/version.ts';
import { configFlags, type LoadedConfig, oneMoreFile, readConfigFiles } from './configFile.ts';
import type { RunningGateway } from './gateway.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';

/** `serve`: runs the gateway until it receives a signal to stop. */
export const serveCommand: CommandFactory = (io, finish) =>
  new Command('serve')
    .description('run the gateway')
    .option(configFlags, 'configuration file; several are laid over each other; without it the defaults', oneMoreFile)
    .action(async (options: { readonly config?: readonly string[] }) => finish(await serve(options.config, io)));

/**
 * Runs the gateway until SIGTERM or SIGINT.
 * @param configPaths configuration files, each laid over those before it; undefined for the defaults
 * @returns exit code
 */
async function serve(configPaths: readonly string[] | undefined, io: CliIo): Promise<number> {
  const loaded = await readConfigFiles(configPaths, io);
  if (loaded === null) return exitCodes.failure;
  const logging = createLogging({ level: loaded.config.logging.level, destination: logOutput() });
  const { logger } = logging;
  logger.info({ version, node: process.version, config: configPaths }, 'starting');
  for (const { file = configPaths?.[0], line, field, message } of loaded.notes) {
    logger.warn({ file, line, key: field }, message);
  }
  // Only now, so that --help and --version need not load the whole program.
  const { startGateway } = await import('./gateway.ts');
  // Registered before the start, which may take long, so that a signal during it is not lost.
  const stopped = stopSignal();
  let gateway: RunningGateway;
  let watch: ConfigWatch | null = null;
  try {
    gateway = await startGateway({
      config: loaded.config,
      version,
      logger,
      environment: io.environment,
      ...(configPaths === undefined ? {} : { unappliedConfig: () => watch ?? { rejected: [], restartNeeded: [] } }),
    });
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    logger.fatal({ code: error.code, field: error.field }, error.message);
    io.stderr.write(`${error.message}\n`);
    return exitCodes.failure;
  }
  if (configPaths !== undefined) watch = followConfig(configPaths, loaded, gateway, logging, io);
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

/** Takes settings of changed files that may change while running. */
function followConfig(
  paths: readonly string[],
  loaded: LoadedConfig,
  gateway: RunningGateway,
  logging: Logging,
  io: CliIo,
): ConfigWatch {
  return watchConfig({
    paths,
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
