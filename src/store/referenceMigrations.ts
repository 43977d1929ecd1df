import type { Logger } from 'pino';
import { defaultLimits, openDatabase } from './database.ts';
import { type JdbcSettings, parseJdbcUrl } from './jdbcUrl.ts';

/** One question, asked before anything is served. */
const LIMITS = { ...defaultLimits, maxConnections: 1, connectTimeoutMs: 3000, acquireTimeoutMs: 3500 };

/**
 * True if a database holds the migration history of Trino Gateway: its table of clusters in addition to a Flyway
 * history. Only reads. Null if the database cannot be asked. SQLite files are never the reference's.
 */
export async function hasReferenceMigrations(settings: JdbcSettings, logger: Logger): Promise<boolean | null> {
  const parsed = parseJdbcUrl(settings);
  if ('problems' in parsed || parsed.target.dialect === 'sqlite') return false;
  const database = openDatabase(parsed.target, LIMITS, logger);
  try {
    return await database.run(async (knex) => {
      const { dialect } = database;
      const history = await dialect.columns(knex, 'flyway_schema_history');
      return history !== null && (await dialect.columns(knex, 'gateway_backend')) !== null;
    });
  } catch {
    return null;
  } finally {
    await database.close();
  }
}
