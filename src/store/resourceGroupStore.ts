import { LRUCache } from 'lru-cache';
import { GatewayError } from '../model/errors.ts';
import { ExactMatchSelector, type ExactMatchSelectorRow } from '../model/exactMatchSelector.ts';
import type { ResourceKey } from '../model/resource.ts';
import { batches, toColumns } from './columns.ts';
import { type Database, fenceHolds } from './database.ts';
import { columnsOf, inTransaction, type ResourceGroupStore } from './resourceGroupTables.ts';
import type { Fence } from './store.ts';

/** A store of another database on the same server, and how its connections are released. */
type OpenedStore = { readonly store: ResourceGroupStore; readonly close: () => Promise<void> };

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

/**
 * The gateway's own resource groups, and those of other databases of its server by name.
 * @param own the gateway's own database
 * @param open opens another one with a small separate pool; null for SQLite
 */
export function schemaStores(
  own: ResourceGroupStore,
  open: ((name: string) => OpenedStore) | null,
  rules: SchemaRules,
) {
  let closing = Promise.resolve();
  const entries = new LRUCache<string, OpenedStore & { readonly calls: Set<Promise<unknown>> }>({
    max: rules.maxOpen,
    dispose: ({ calls, close }) => {
      closing = Promise.all([closing, Promise.allSettled(calls).then(close)]).then(() => undefined);
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
      const entry = entries.get(database) ?? { ...open(database), calls: new Set() };
      entries.set(database, entry);
      const call = work(entry.store);
      entry.calls.add(call);
      return await call.finally(() => entry.calls.delete(call));
    },
    /** Closes the connections to other databases, each when its last call has ended. */
    close: async (): Promise<void> => {
      entries.clear();
      await closing;
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
  const form = 'useSchema must be the name of a database: 1 to 64 letters, digits, _, $ or -.';
  if (!/^[A-Za-z0-9_$-]{1,64}$/.test(database)) throw schemaError('EG_MALFORMED', form);
  const isSystem = systemDatabases.has(database.toLowerCase());
  if (isSystem) throw schemaError('EG_IMPOSSIBLE', `${database} is a database of the server itself.`);
  if (allowed === null || allowed.includes(database)) return;
  throw schemaError('EG_IMPOSSIBLE', `resourceGroups.allowedSchemas does not list ${database}.`);
}

const schemaError = (code: 'EG_MALFORMED' | 'EG_IMPOSSIBLE', message: string) =>
  new GatewayError(code, message, { field: 'useSchema' });

/** Error: other databases cannot be opened if the gateway's database is a file. */
export function noOtherDatabase(): GatewayError {
  return schemaError('EG_MALFORMED', 'useSchema needs a database server; SQLite has one database only.');
}

const EXACT = 'exact_match_source_selectors';
const columns = columnsOf<ExactMatchSelectorRow>(Object.keys(ExactMatchSelector.properties));

/** The stored time as text: drivers would turn it into the machine's time zone. */
const timeText = {
  sqlite: 'update_time',
  mysql: "date_format(update_time, '%Y-%m-%d %H:%i:%s')",
  postgresql: "to_char(update_time, 'YYYY-MM-DD HH24:MI:SS')",
} as const;

/** `exact_match_source_selectors` of the gateway's own database (docs/compatibility.md#tables). */
export function exactMatchSelectors(database: Database) {
  return {
    /** All of them, by environment, source and query type. */
    all: () =>
      inTransaction(database, null, async (trx): Promise<readonly ExactMatchSelectorRow[]> => {
        const updateTime = trx.raw(timeText[database.dialect.name]);
        return await trx(EXACT)
          .select({ ...columns, updateTime })
          .orderBy(['environment', 'source', 'query_type']);
      }),
    /** Rejects with EG_CONFLICT where there is one of that environment, source and query type. */
    create: (selector: ExactMatchSelectorRow) =>
      inTransaction(database, null, async (trx) => {
        await trx(EXACT).insert(toColumns(selector, columns));
      }),
  };
}

const OWNERS = 'eg_group_owners';
/** Rows of one statement. */
const BATCH = 100;

/** `root` of the record of a resource that declares `cpu_quota_period`: no group has this name. */
export const PERIOD_ROOT = '';

/** One environment of a database in which a resource owns root groups. */
export interface GroupPlace extends Pick<ResourceKey, 'namespace' | 'name'> {
  /** Null: the gateway's own. */
  readonly database: string | null;
  readonly environment: string;
}

/** A root group that a resource owns, with all groups below it and their selectors. */
export interface GroupOwner extends GroupPlace {
  /** Name of the root group; `PERIOD_ROOT`: the period of CPU limits, which several resources may declare alike. */
  readonly root: string;
  readonly uid: string;
  /** Generation of the resource that was written last, or is being written. */
  readonly generation: number;
  /** False: a write of that generation began, and its end was not noted. */
  readonly isApplied: boolean;
}

export type GroupOwnerRepository = ReturnType<typeof groupOwners>;

/** `eg_group_owners`: which resource owns which root groups of the tables that engines read. */
export function groupOwners(database: Database) {
  return {
    all: () =>
      database.run(async (knex): Promise<readonly GroupOwner[]> => {
        const rows: GroupOwner[] = await knex(OWNERS)
          .select('namespace', 'name', 'environment', 'uid', 'generation')
          .select({ database: 'database_name', root: 'root_group', isApplied: 'is_applied' })
          .orderBy(['namespace', 'name', 'database_name', 'environment', 'root_group']);
        // Drivers give truth values as numbers.
        return rows.map((row) => ({ ...row, database: row.database || null, isApplied: Boolean(row.isApplied) }));
      }),
    /**
     * Stores the roots that a resource owns in a place, whole. A root that another resource owned changes its owner. Returns false if the
     * caller does not lead. @param fence null: it need not
     */
    set: (
      { namespace, name, database: databaseName, environment }: GroupPlace,
      { roots, uid, generation, isApplied }: Omit<GroupOwner, 'root' | keyof GroupPlace> & { roots: Iterable<string> },
      fence: Fence | null,
    ): Promise<boolean> =>
      database.transaction(async (trx) => {
        // The row that this locks has replicas write one after the other.
        const isLeader = await fenceHolds(trx, database, fence ?? { holder: '', epoch: 0 });
        if (fence !== null && !isLeader) return false;
        const place = { database_name: databaseName ?? '', environment };
        const own = { namespace, name, ...place };
        await trx(OWNERS).where(own).delete();
        const owned = { ...own, uid, generation, is_applied: isApplied ? 1 : 0 };
        const rows = [...roots].map((root) => ({ ...owned, root_group: root }));
        for (const batch of batches(rows, BATCH)) {
          const groups = batch.map(({ root_group }) => root_group).filter((root) => root !== PERIOD_ROOT);
          await trx(OWNERS).where(place).whereIn('root_group', groups).delete();
          await trx(OWNERS).insert(batch);
        }
        return true;
      }),
  };
}
