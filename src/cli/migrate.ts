import { openStore, plannedMigration } from '../store/openStore.ts';
import { readConfigFiles } from './configFile.ts';
import { type CliIo, command, configFlags, exitCodes, stderrLogger } from './io.ts';
import { databaseSettings } from './settings.ts';

interface MigrateOptions {
  readonly config?: readonly string[];
  readonly printSql?: boolean;
}

/** `migrate`: creates missing parts of the database, or prints the statements for administrators. */
export const migrateCommand = command<MigrateOptions>({
  name: 'migrate',
  description: 'make the tables, columns and indexes that the database lacks, without starting the gateway',
  options: [
    [configFlags, 'configuration file that names the database; may be repeated'],
    ['--print-sql', 'print the statements and change nothing'],
  ],
  run: migrateDatabase,
});

async function migrateDatabase({ config: paths, printSql }: MigrateOptions, io: CliIo): Promise<number> {
  const { config } = await readConfigFiles(paths, io);
  const database = { ...databaseSettings(config), logger: stderrLogger(io, 'info') };
  const steps = await plannedMigration(database);
  if (printSql === true) {
    for (const { adds, sql } of steps) io.stdout.write(`-- ${adds}\n${sql.replace(/\s*\n\s*/g, '\n  ')};\n`);
    return exitCodes.success;
  }
  await (await openStore({ ...database, runMigrations: true })).close();
  for (const { adds } of steps) io.stdout.write(`made: ${adds}\n`);
  io.stdout.write(steps.length === 0 ? 'nothing to do: the database is migrated\n' : 'the database is migrated\n');
  return exitCodes.success;
}
