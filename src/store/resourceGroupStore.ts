import { LRUCache } from 'lru-cache';
import { GatewayError } from '../model/errors.ts';
import type { ExactMatchSelectorRow } from '../model/exactMatchSelector.ts';
import type { GlobalPropertyRow } from '../model/globalProperty.ts';
import type { ResourceGroupRow } from '../model/resourceGroup.ts';
import type { SelectorRow } from '../model/selector.ts';
import type { Database } from './database.ts';
import { declaredGroups } from './declaredGroups.ts';
import {
  globalProperties,
  inTransaction,
  type ResourceGroupTables,
  resourceGroups,
  selectors,
  type WriteOf,
} from './resourceGroupTables.ts';

/** A change of one row, or of equal rows. `row` null: deleted; both null: nothing was there. */
export type GroupWrite =
  | WriteOf<'ResourceGroup', ResourceGroupRow>
  | WriteOf<'Selector', SelectorRow>
  | WriteOf<'GlobalProperty', GlobalPropertyRow>;

/**
 * The tables that engines' database resource group manager reads, in one database. Each call is one transaction. Every
 * method rejects with EG_DATABASE_UNAVAILABLE when the database is unavailable, EG_NOT_FOUND when it or its tables do not exist.
 */
export interface ResourceGroupStore {
  readonly groups: ReturnType<typeof resourceGroups>;
  readonly selectors: ReturnType<typeof selectors>;
  readonly properties: ReturnType<typeof globalProperties>;
  readonly declared: ReturnType<typeof declaredGroups>;
  /** Runs work and rolls its changes back. Rejects as the work does. */
  preview<T>(work: (store: ResourceGroupStore) => Promise<T>): Promise<T>;
}

/**
 * The resource groups of a database.
 * @param name its name for messages; null for the gateway's own
 */
export function openResourceGroups(database: ResourceGroupTables['database'], name: string | null): ResourceGroupStore {
  const tables = { database, name };
  return {
    groups: resourceGroups(tables),
    selectors: selectors(tables),
    properties: globalProperties(tables),
    declared: declaredGroups(tables),
    preview: async (work) => {
      const end = new GatewayError('EG_CONFLICT', 'a preview is rolled back');
      const results: Awaited<ReturnType<typeof work>>[] = [];
      await inTransaction(tables, async (trx) => {
        const inside: typeof database = { dialect: database.dialect, transaction: (body) => body(trx) };
        results.push(await work(openResourceGroups(inside, name)));
        throw end;
      }).catch((error: unknown) => {
        if (error !== end) throw error;
      });
      return results[0] as Awaited<ReturnType<typeof work>>;
    },
  };
}

/** A store of another database on the same server, and how its connections are released. */
export interface OpenedStore {
  readonly store: ResourceGroupStore;
  close(): Promise<void>;
}

/** Rules of `useSchema` (docs/rest-api.md#resource-groups-selectors-global-properties). */
export interface SchemaRules {
  /** The only databases it may name; null allows all but system databases. */
  readonly allowed: readonly string[] | null;
  /** Databases with open connections; the one not used for the longest time goes first. */
  readonly maxOpen: number;
}

const systemDatabases = new Set([
  ...['mysql', 'information_schema', 'performance_schema', 'sys', 'ndbinfo'],
  ...['postgres', 'template0', 'template1'],
]);

interface Entry extends OpenedStore {
  users: number;
  evicted: boolean;
}

/**
 * The gateway's own resource groups, and those of other databases of its server by name.
 * @param own the gateway's own database
 * @param open opens another one with a small separate pool; null for SQLite
 */
export function schemaStores(
  own: ResourceGroupStore,
  open: ((database: string) => OpenedStore) | null,
  rules: SchemaRules,
) {
  const closing = new Set<Promise<void>>();
  const closeUnused = (entry: Entry) => {
    if (!entry.evicted || entry.users > 0) return;
    const closed = entry.close().finally(() => closing.delete(closed));
    closing.add(closed);
  };
  const entries = new LRUCache<string, Entry>({
    max: rules.maxOpen,
    dispose: (entry) => {
      entry.evicted = true;
      closeUnused(entry);
    },
  });
  return {
    /**
     * Runs `work` with the store of a database; null: the gateway's own.
     * @throws GatewayError EG_MALFORMED (no name, or SQLite), EG_IMPOSSIBLE (a system database, or one not allowed)
     */
    use: async <T>(database: string | null, work: (store: ResourceGroupStore) => Promise<T>): Promise<T> => {
      if (database === null) return work(own);
      requireAllowed(database, rules.allowed);
      if (open === null) throw noOtherDatabase();
      const entry: Entry = entries.get(database) ?? { ...open(database), users: 0, evicted: false };
      entries.set(database, entry);
      entry.users++;
      try {
        return await work(entry.store);
      } finally {
        entry.users--;
        closeUnused(entry);
      }
    },
    /** Closes the connections to other databases, each when its last call has ended. */
    close: async (): Promise<void> => {
      entries.clear();
      await Promise.all(closing);
    },
  };
}

export type SchemaStores = ReturnType<typeof schemaStores>;

/**
 * Checks that `useSchema` may name a database.
 * @param allowed the only databases it may name; null allows all but system databases
 * @throws GatewayError EG_MALFORMED (no name), EG_IMPOSSIBLE (a system database, or one not allowed)
 */
export function requireAllowed(database: string, allowed: readonly string[] | null): void {
  const refuse = (code: 'EG_MALFORMED' | 'EG_IMPOSSIBLE', message: string) =>
    new GatewayError(code, message, { field: 'useSchema' });
  if (!/^[A-Za-z0-9_$-]{1,64}$/.test(database)) {
    throw refuse('EG_MALFORMED', 'useSchema must be the name of a database: 1 to 64 letters, digits, _, $ or -.');
  }
  if (systemDatabases.has(database.toLowerCase())) {
    throw refuse('EG_IMPOSSIBLE', `${database} is a database of the server itself.`);
  }
  if (allowed !== null && !allowed.includes(database)) {
    throw refuse('EG_IMPOSSIBLE', `resourceGroups.allowedSchemas does not list ${database}.`);
  }
}

/** Error: other databases cannot be opened if the gateway's database is a file. */
export function noOtherDatabase(): GatewayError {
  const message = 'useSchema needs a database server; SQLite has one database only.';
  return new GatewayError('EG_MALFORMED', message, { field: 'useSchema' });
}

const TABLE = 'exact_match_source_selectors';

/** The stored time as text: drivers would turn it into the machine's time zone. */
const timeText = {
  sqlite: 'update_time',
  mysql: "date_format(update_time, '%Y-%m-%d %H:%i:%s')",
  postgresql: "to_char(update_time, 'YYYY-MM-DD HH24:MI:SS')",
} as const;

/** `exact_match_source_selectors` of the gateway's own database (docs/compatibility.md#tables). */
export function exactMatchSelectors(database: Database) {
  const tables = { database, name: null };
  return {
    /** All of them, by environment, source and query type. */
    all: () =>
      inTransaction(
        tables,
        (trx): Promise<readonly ExactMatchSelectorRow[]> =>
          trx(TABLE)
            .select({
              resourceGroupId: 'resource_group_id',
              updateTime: trx.raw(timeText[database.dialect.name]),
              source: 'source',
              environment: 'environment',
              queryType: 'query_type',
            })
            .orderBy(['environment', 'source', 'query_type']),
      ),
    /** Rejects with EG_CONFLICT where there is one of that environment, source and query type. */
    create: (selector: ExactMatchSelectorRow) =>
      inTransaction(tables, async (trx) => {
        await trx(TABLE).insert({
          resource_group_id: selector.resourceGroupId,
          update_time: selector.updateTime,
          source: selector.source,
          environment: selector.environment,
          query_type: selector.queryType,
        });
      }),
  };
}
