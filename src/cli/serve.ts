import { createLogging, type Logging, type LogLevel } from '../config/logger.ts';
import { logOutput } from '../config/logOutput.ts';
import { GatewayError } from '../model/errors.ts';
import { version } from '../model/version.ts';
import { readConfigFiles } from './configFile.ts';
import type { RunningGateway } from './gateway.ts';
import { type CliIo, command, configFlags, exitCodes, fail } from './io.ts';

interface ServeOptions {
  readonly config?: readonly string[];
}

/** `serve`: runs the gateway until it receives a signal to stop. */
export const serveCommand = command<ServeOptions>({
  name: 'serve',
  description: 'run the gateway',
  options: [[configFlags, 'configuration file; several are laid over each other; without it the defaults']],
  run: serve,
});

/** Runs the gateway until SIGTERM or SIGINT. */
async function serve({ config: configPaths }: ServeOptions, io: CliIo): Promise<number> {
  const loaded = await readConfigFiles(configPaths, io);
  const logging = createLogging({ level: loaded.config.logging.level, destination: logOutput() });
  const { logger } = logging;
  switchLevelBySignal(logging, loaded.config.logging.level);
  logger.info({ version, node: process.version, config: configPaths }, 'starting');
  for (const { file = configPaths?.[0], line, field, message } of loaded.notes) {
    logger.warn({ file, line, key: field }, message);
  }
  // Loaded on demand, so that --help and --version need not load the whole program.
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
    fail(io, error.message);
  }
  const signal = await stopped;
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

/** Switches between the configured level of the log and `debug` at each SIGUSR2. */
function switchLevelBySignal({ logger, setLevel }: Logging, configured: LogLevel): void {
  process.on('SIGUSR2', () => {
    const level = logger.level === configured ? 'debug' : configured;
    setLevel(level);
    logger.info({ newLevel: level }, 'log level changed by SIGUSR2');
  });
}
