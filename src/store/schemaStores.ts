import { LRUCache } from 'lru-cache';
import { GatewayError } from '../model/errors.ts';
import type { ResourceGroupStore } from './resourceGroupStore.ts';

/** A store of another database on the same server, and how its connections are released. */
export interface OpenedStore {
  readonly store: ResourceGroupStore;
  close(): Promise<void>;
}

/** Rules of `useSchema` (docs/rest-api.md#resource-groups-selectors-global-properties). */
export interface SchemaRules {
  /** The only databases it may name; null allows all but system databases. */
  readonly allowed: readonly string[] | null;
  /** Databases whose connections are kept at once; the one not used for the longest time goes first. */
  readonly maxOpen: number;
}

/** The gateway's own resource groups, and those of other databases of its server by name. */
export interface SchemaStores {
  /**
   * Runs `work` with the store of a database; null: the gateway's own.
   * @throws GatewayError EG_MALFORMED (no name, or SQLite), EG_IMPOSSIBLE (a system database, or one not allowed)
   */
  use<T>(database: string | null, work: (store: ResourceGroupStore) => Promise<T>): Promise<T>;
  /** Closes the connections to other databases, each when its last call has ended. */
  close(): Promise<void>;
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
 * @param own the gateway's own database
 * @param open opens another one with a small pool of its own; null if there are no others (SQLite)
 */
export function schemaStores(
  own: ResourceGroupStore,
  open: ((database: string) => OpenedStore) | null,
  rules: SchemaRules,
): SchemaStores {
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
    use: async (database, work) => {
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
    close: async () => {
      entries.clear();
      await Promise.all(closing);
    },
  };
}

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
