import { existsSync } from 'node:fs';
import type { Logger } from 'pino';
import { GatewayError } from '../model/errors.ts';
import type { GroupRows } from '../model/groupsFile/storedGroups.ts';
import type { Kind } from '../model/resource.ts';
import { settlesWithin } from '../model/timeLimit.ts';
import { AuditRepository } from './auditRepository.ts';
import { BackendRepository } from './backendRepository.ts';
import { newestFirst } from './columns.ts';
import { type Database, type DatabaseLimits, defaultLimits, openDatabase } from './database.ts';
import { digestStatistics } from './digestStatistics.ts';
import { EndedSessionRepository } from './endedSessionRepository.ts';
import { storeError } from './failures.ts';
import { type ReplayedRow, type ReplayRange, replayedRows } from './historyReplay.ts';
import { QueryHistoryRepository } from './historyRepository.ts';
import { hourlySums } from './hourlySums.ts';
import { type DatabaseTarget, type JdbcSettings, parseJdbcUrl } from './jdbcUrl.ts';
import { LeaderRepository } from './leaderRepository.ts';
import { LimitCounterRepository } from './limitCounterRepository.ts';
import { LimitCountRepository } from './limitCountRepository.ts';
import { checkSchema, type MigrationStep, migrate, migrationSteps } from './migrations.ts';
import { QueryOutcomeRepository } from './outcomeRepository.ts';
import { CoordinatorRepository, QueryOwnerRepository, TransactionRepository } from './owners.ts';
import { quarantine } from './quarantine.ts';
import { queryCounts } from './queryCounts.ts';
import { queryList } from './queryList.ts';
import { queryRates } from './queryRates.ts';
import { queryStatistics } from './queryStatistics.ts';
import { QueuedQueryRepository } from './queuedQueryRepository.ts';
import { ReplayRepository } from './replayRepository.ts';
import {
  exactMatchSelectors,
  groupOwners,
  noOtherDatabase,
  requireAllowed,
  type SchemaRules,
  type SchemaStores,
  schemaStores,
} from './resourceGroupStore.ts';
import { openResourceGroups } from './resourceGroupTables.ts';
import { ResourceRepository } from './resourceRepository.ts';
import { RolloutRepository } from './rolloutRepository.ts';
import { ruleHits } from './ruleHits.ts';
import { RunningQueryRepository } from './runningQueryRepository.ts';
import { sizeEstimates } from './sizeEstimates.ts';
import type { QueryRecord, StoredResource } from './store.ts';

/** `useSchema` is for a person's or a script's calls now and then. */
const CONNECTIONS_TO_ANOTHER_DATABASE = 2;

/** Longest statement of a migration: an index of a hundred million rows. */
const MIGRATION_STATEMENT_MS = 2 * 3_600_000;

export interface StoreOptions extends JdbcSettings {
  /** `dataStore.runMigrationsEnabled`: false only checks that the tables are there. */
  readonly runMigrations: boolean;
  readonly logger: Logger;
  readonly limits?: Partial<DatabaseLimits>;
}

/** The gateway's database. Every method rejects with a GatewayError EG_DATABASE_UNAVAILABLE when it is unavailable. */
export type KnexStore = ReturnType<typeof storeOf>;

/** @param openOther opens another database of the same server; null if there are no others (SQLite) */
function storeOf(database: Database, openOther: ((name: string) => Database) | null) {
  const openGroups = (name: string) => {
    const other = (openOther as (name: string) => Database)(name);
    return { store: openResourceGroups(other, name), close: () => other.close() };
  };
  return {
    /** Its connections; for measurements, which ask the database how it responds. */
    database,
    dialect: database.dialect.name,
    backends: new BackendRepository(database),
    resources: new ResourceRepository(database),
    history: new QueryHistoryRepository(database),
    outcomes: new QueryOutcomeRepository(database),
    coordinators: new CoordinatorRepository(database),
    queries: new QueryOwnerRepository(database),
    transactions: new TransactionRepository(database),
    runningQueries: new RunningQueryRepository(database),
    limitCounters: new LimitCounterRepository(database),
    limitCounts: new LimitCountRepository(database),
    queuedQueries: new QueuedQueryRepository(database),
    endedSessions: new EndedSessionRepository(database),
    leader: new LeaderRepository(database),
    groupOwners: groupOwners(database),
    audit: new AuditRepository(database),
    queryCounts: queryCounts(database),
    queryRates: queryRates(database),
    ruleHits: ruleHits(database),
    queryList: queryList(database),
    queryStatistics: queryStatistics(database),
    hourlySums: hourlySums(database),
    digestStatistics: digestStatistics(database),
    sizeEstimates: sizeEstimates(database),
    quarantine: quarantine(database),
    replays: new ReplayRepository(database),
    rollouts: new RolloutRepository(database),
    exactMatchSelectors: exactMatchSelectors(database),

    /** The resource groups of this database and, by name, of others on its server; to be closed by the caller. */
    resourceGroups: (rules: SchemaRules): SchemaStores =>
      schemaStores(openResourceGroups(database, null), openOther === null ? null : openGroups, rules),

    /** Resolves when the database responds within the time. */
    ping: async (timeoutMs: number): Promise<void> => {
      const query = Promise.resolve(database.knex.raw('select 1')).catch((error: unknown) => {
        throw storeError(error);
      });
      if (await settlesWithin(query, timeoutMs)) return;
      throw new GatewayError('EG_DATABASE_UNAVAILABLE', `The database did not answer within ${timeoutMs} ms.`);
    },

    close: (): Promise<void> => database.close(),
  };
}

/**
 * Opens the gateway's database and migrates it (or, with `runMigrations: false`, checks it).
 * @throws GatewayError EG_MALFORMED for a mistake in the settings, EG_DATABASE_UNAVAILABLE when it is unavailable, EG_IMPOSSIBLE
 *   when tables are missing and migrations are off
 */
export async function openStore(options: StoreOptions): Promise<KnexStore> {
  const { target, ignored } = targetOf(options);
  if (ignored.length > 0) options.logger.info({ parameters: ignored }, 'parameters of dataStore.jdbcUrl ignored');
  const limits = { ...defaultLimits, ...options.limits };
  const database = openDatabase(target, limits, options.logger);
  const others = { ...limits, maxConnections: CONNECTIONS_TO_ANOTHER_DATABASE };
  const openOther =
    target.dialect === 'sqlite'
      ? null
      : (name: string) => openDatabase({ ...target, database: name }, others, options.logger);
  try {
    if (options.runMigrations) await migrateWith(database, target, limits, options.logger);
    else await checkSchema(database);
    return storeOf(database, openOther);
  } catch (error) {
    await database.close();
    throw storeError(error);
  }
}

/**
 * The statements that migrating the database would run; reads only, and makes no SQLite file that is not there.
 * @throws GatewayError as `openStore`
 */
export function plannedMigration(options: ReadOptions): Promise<readonly MigrationStep[]> {
  return readAsItIs(options, migrationSteps);
}

/**
 * The clusters of a database as it is: reads only, whatever tables are there.
 * @throws GatewayError as `openStore`
 */
export function readBackends(options: ReadOptions): ReturnType<BackendRepository['all']> {
  return readAsItIs(options, async (database) => {
    const lacks = (table: string) =>
      database.run((knex) => database.dialect.columns(knex, table)).then((columns) => columns === null);
    if (await lacks('gateway_backend')) return [];
    const backends = new BackendRepository(database);
    return (await lacks('eg_resources')) ? await backends.unmanaged() : await backends.all();
  });
}

/**
 * Resources of these kinds that a database holds, as it is: reads only, whatever tables are there.
 * @throws GatewayError as `openStore`
 */
export function readResources(options: ReadOptions, kinds: readonly Kind[]): Promise<readonly StoredResource[]> {
  return readAsItIs(options, async (database) => {
    const columns = await database.run((knex) => database.dialect.columns(knex, 'eg_resources'));
    return columns === null ? [] : await new ResourceRepository(database).all(kinds);
  });
}

/**
 * The resource groups, selectors and global properties of a database as it is: reads only.
 * @param name another database of the server, as `useSchema` names it; null: that of the settings
 * @param allowed the only databases that `name` may be; null allows all but system databases
 * @throws GatewayError as `openStore`, as `SchemaStores.use`, and EG_NOT_FOUND where it does not have the tables
 */
export function readResourceGroups(
  options: ReadOptions,
  name: string | null,
  allowed: readonly string[] | null,
): Promise<GroupRows> {
  if (name !== null) requireAllowed(name, allowed);
  return readAsItIs(options, (database) => openResourceGroups(database, name).read(), name);
}

/** A query of the history, as far as every release has kept it. */
export type PastQuery = Pick<QueryRecord, 'queryId' | 'queryText' | 'user' | 'source'>;

/**
 * The last queries of the history of a database as it is, oldest first: reads only.
 * @throws GatewayError as `openStore`
 */
export function readLastQueries(options: ReadOptions, count: number): Promise<readonly PastQuery[]> {
  return readAsItIs(options, async (database) => {
    const rows: Record<'query_id' | 'query_text' | 'user_name' | 'source', string | null>[] = await database.run(
      (knex) => {
        const last = knex('query_history as h').limit(count);
        newestFirst(last, 'h');
        return last.select('query_id', 'query_text', 'user_name', 'source');
      },
    );
    return rows.toReversed().map((row) => ({
      queryId: row.query_id ?? '',
      queryText: row.query_text ?? '',
      user: row.user_name,
      source: row.source,
    }));
  });
}

/**
 * Reads a range of the history of a database as it is, newest first; the connections are closed when the reader ends.
 * @throws GatewayError as `openStore`
 */
export function readHistory<T>(
  options: ReadOptions,
  range: ReplayRange,
  read: (pages: AsyncIterable<readonly ReplayedRow[]>) => Promise<T>,
): Promise<T> {
  return readAsItIs(options, (database) => read(replayedRows(database, range)));
}

/** The database, and where its driver's messages go. */
export type ReadOptions = JdbcSettings & { readonly logger: Logger };

/** @param name another database of the server; null: that of the settings */
async function readAsItIs<T>(
  options: ReadOptions,
  work: (database: Database) => Promise<T>,
  name: string | null = null,
  limits: DatabaseLimits = defaultLimits,
): Promise<T> {
  const { target: own } = targetOf(options);
  if (name !== null && own.dialect === 'sqlite') throw noOtherDatabase();
  const target = own.dialect === 'sqlite' || name === null ? own : { ...own, database: name };
  const isNewFile = target.dialect === 'sqlite' && !existsSync(target.file);
  const database = openDatabase(isNewFile ? { ...target, file: ':memory:' } : target, limits, options.logger);
  try {
    return await work(database);
  } catch (error) {
    throw storeError(error);
  } finally {
    await database.close();
  }
}

function targetOf(settings: JdbcSettings): { readonly target: DatabaseTarget; readonly ignored: readonly string[] } {
  const parsed = parseJdbcUrl(settings);
  if (!('problems' in parsed)) return parsed;
  const message = parsed.problems.map((problem) => `${problem.field} ${problem.message}`).join('; ');
  throw new GatewayError('EG_MALFORMED', message, { field: parsed.problems[0]?.field ?? '' });
}

/** Making an index of a long history takes longer than any other statement may. */
async function migrateWith(
  database: Database,
  target: DatabaseTarget,
  limits: DatabaseLimits,
  logger: Logger,
): Promise<void> {
  if (target.dialect === 'sqlite') return migrate(database, logger);
  const patient = openDatabase({ ...target, queryTimeoutMs: MIGRATION_STATEMENT_MS }, limits, logger);
  try {
    await migrate(patient, logger);
  } finally {
    await patient.close();
  }
}

/** One question, asked before anything is served. */
const LIMITS = { ...defaultLimits, maxConnections: 1, connectTimeoutMs: 3000, acquireTimeoutMs: 3500 };

/**
 * True if a database holds the migration history of Trino Gateway: its table of clusters in addition to a Flyway
 * history. Only reads. Null if the database cannot be asked. SQLite files are never the reference's.
 */
export async function hasReferenceMigrations(settings: JdbcSettings, logger: Logger): Promise<boolean | null> {
  const parsed = parseJdbcUrl(settings);
  if ('problems' in parsed || parsed.target.dialect === 'sqlite') return false;
  const work = (database: Database) =>
    database.run(async (knex) => {
      const { dialect } = database;
      const history = await dialect.columns(knex, 'flyway_schema_history');
      return history !== null && (await dialect.columns(knex, 'gateway_backend')) !== null;
    });
  return await readAsItIs({ ...settings, logger }, work, null, LIMITS).catch(() => null);
}
