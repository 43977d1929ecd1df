import { Command } from 'commander';
import { createLogging } from '../config/logger.ts';
import { GatewayError } from '../model/errors.ts';
import { openStore, plannedMigration } from '../store/openStore.ts';
import { configFlags, oneMoreFile, readConfigFiles } from './configFile.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';
import { databaseSettings } from './settings.ts';

interface MigrateOptions {
  readonly config?: readonly string[];
  readonly printSql?: boolean;
}

/** `migrate`: creates missing parts of the database, or prints the statements for administrators. */
export const migrateCommand: CommandFactory = (io, finish) =>
  new Command('migrate')
    .description('make the tables, columns and indexes that the database lacks, without starting the gateway')
    .option(configFlags, 'configuration file that names the database; may be repeated', oneMoreFile)
    .option('--print-sql', 'print the statements and change nothing')
    .action(async (options: MigrateOptions) => finish(await migrateDatabase(options, io)));

async function migrateDatabase({ config, printSql }: MigrateOptions, io: CliIo): Promise<number> {
  const loaded = await readConfigFiles(config, io);
  if (loaded === null) return exitCodes.failure;
  const { logger } = createLogging({ level: 'info', destination: { write: (line) => io.stderr.write(line) } });
  const database = { ...databaseSettings(loaded.config), logger };
  try {
    const steps = await plannedMigration(database);
    if (printSql === true) {
      for (const { adds, sql } of steps) io.stdout.write(`-- ${adds}\n${sql.replace(/\s*\n\s*/g, '\n  ')};\n`);
      return exitCodes.success;
    }
    await (await openStore({ ...database, runMigrations: true })).close();
    for (const { adds } of steps) io.stdout.write(`made: ${adds}\n`);
    io.stdout.write(steps.length === 0 ? 'nothing to do: the database is migrated\n' : 'the database is migrated\n');
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    io.stderr.write(`error: ${error.message}\n`);
    return exitCodes.failure;
  }
  return exitCodes.success;
}
