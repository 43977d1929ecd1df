import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SqlDialect } from '../dialect.ts';
import { databaseFailure } from '../failures.ts';
import { type ClientClass, type QueryObject, type RawConnection, requireModule } from '../knexClients.ts';

const historySql = `insert into query_history
  (query_id, query_text, created, backend_url, user_name, source, routing_group, external_url)
  select value->>'queryId', value->>'queryText', value->>'created', value->>'backendUrl', value->>'user', value->>'source',
    value->>'routingGroup', value->>'externalUrl' from json_each(?) where true on conflict do nothing`;
const decisionsSql = `insert into eg_query_decisions
  (query_id, cluster, created, decision, rule_name, group_set, gateway_queued_ms, digest, exact_digest, tool, model, dashboard,
    replay)
  select value->>'queryId', value->>'cluster', value->>'created', value->>'decision', value->>'rule', value->>'groupSet',
    value->>'gatewayQueuedMillis', value->>'digest', value->>'exactDigest', value->>'tool', value->>'model',
    value->>'dashboard', value->>'replay' from json_each(?) where true
  on conflict do nothing`;

/** SQLite as built into Node.js. */
export const sqliteDialect: SqlDialect = {
  name: 'sqlite',
  clockMs: "cast(unixepoch('now', 'subsec') * 1000 as integer)",
  forUpdate: '',
  snapshot: { readOnly: true },
  addingUp: null,
  joined: (text) => `group_concat(${text})`,
  types: {
    identity: 'integer',
    longText: 'text',
    timestamp: 'timestamp',
    exactQueryType: 'varchar(128)',
    tableOptions: '',
    exactKeys:
      'primary key (environment, source, query_type), unique (source, environment, query_type, resource_group_id)',
  },
  migrateAlone: (knex, work) => knex.transaction(work),
  async columns(knex, table) {
    const sql = `select name, type || iif("notnull", ' not null', '') as type from pragma_table_info(?)`;
    const rows: { name: string; type: string }[] = await knex.raw(sql, [table]);
    return rows.length === 0 ? null : new Map(rows.map((row) => [row.name, row.type.toLowerCase()]));
  },
  async hasIndex(knex, table, index) {
    const rows = await knex.raw('select 1 from pragma_index_list(?) where name = ?', [table, index]);
    return rows.length > 0;
  },
  widenQueryText: null,
  uniqueGroupNames: {
    index: 'sqlite_autoindex_resource_groups_1',
    // SQLite cannot drop a key of a table. Both tables have the order of columns that they had, and the transaction is one.
    remove: (create) => [
      'create table eg_kept_groups as select * from resource_groups',
      'create table eg_kept_selectors as select * from selectors',
      'delete from selectors',
      'drop table resource_groups',
      create,
      'insert into resource_groups select * from eg_kept_groups',
      'insert into selectors select * from eg_kept_selectors',
      'drop table eg_kept_groups',
      'drop table eg_kept_selectors',
    ],
  },
  insertHistory: (knex, records) =>
    knex.transaction(async (trx) => {
      const json = JSON.stringify(records);
      await trx.raw(historySql, [json]);
      await trx.raw(decisionsSql, [json]);
    }),
  async removeRunningQueries(knex, queryIds) {
    const sql = 'delete from eg_running_queries where query_id in (select value from json_each(?))';
    await knex.raw(sql, [JSON.stringify(queryIds)]);
  },
  async deleteBatch(knex, table, column, bound, limit) {
    const result = (await knex.raw('delete from ?? where rowid in (select rowid from ?? where ?? < ? limit ?)', [
      table,
      table,
      column,
      bound,
      limit,
    ])) as { changes: number };
    return Number(result.changes);
  },
};

const SqliteBase = requireModule('knex/lib/dialects/better-sqlite3/index.js') as ClientClass;
const SqliteTransaction = requireModule('knex/lib/dialects/sqlite3/execution/sqlite-transaction.js') as new (
  ...args: unknown[]
) => { readonly readOnly?: boolean; query(connection: unknown, sql: string): unknown };

/** A read-write transaction takes SQLite's lock at once: a later upgrade would fail without waiting. */
class ImmediateTransaction extends SqliteTransaction {
  begin(connection: unknown): unknown {
    return this.query(connection, this.readOnly ? 'BEGIN;' : 'BEGIN IMMEDIATE;');
  }
}

/** Milliseconds for which statements may follow one another while nothing else of the process gets a turn. */
const MAX_TURN = 5;
let turnBegan = 0;

const endTurn = () => {
  turnBegan = 0;
};

/**
 * SQL function of SQLite connections: 1 while a statement may continue. Conditions that are compared row by row without an
 * index call it.
 */
export const IN_TIME = 'eg_in_time';
/** Maximum time of such a statement in milliseconds: it blocks the event loop. */
const MAX_SEARCH_MS = 1000;
let searchEnds = 0;

function isInTime(): number {
  if (performance.now() <= searchEnds) return 1;
  throw Object.assign(new Error(`no answer within ${MAX_SEARCH_MS} ms`), { code: 'EG_QUERY_TIMEOUT' });
}

type Statement = ReturnType<DatabaseSync['prepare']>;

/** Prepared statements a connection keeps. */
const STATEMENT_CACHE = 200;
/** Outside of the client: knex makes the client of a transaction without running the constructor. */
const preparedStatements = new WeakMap<DatabaseSync, Map<string, Statement>>();

/** knex's SQLite client over the `node:sqlite` module of Node.js. */
export class SqliteClient extends SqliteBase {
  _driver(): unknown {
    return DatabaseSync;
  }

  transaction(...args: unknown[]): unknown {
    return new ImmediateTransaction(this, ...args);
  }

  override acquireRawConnection(): Promise<RawConnection> {
    return Promise.resolve().then(() => {
      // The wait is short, because it blocks the event loop; what is busy longer is repeated by `Database`.
      const database = new DatabaseSync(this.connectionSettings.filename, { timeout: 100 });
      database.function(IN_TIME, { deterministic: false }, isInTime);
      database.exec('pragma journal_mode = wal; pragma synchronous = normal; pragma foreign_keys = on');
      return database as unknown as RawConnection;
    });
  }

  override destroyRawConnection(connection: RawConnection): Promise<unknown> {
    (connection as unknown as DatabaseSync).close();
    return Promise.resolve();
  }

  override async _query(connection: RawConnection, query: QueryObject): Promise<QueryObject> {
    const database = connection as unknown as DatabaseSync;
    const now = performance.now();
    searchEnds = now + MAX_SEARCH_MS;
    // The time of statements counts until everything else gets a turn: a caller that awaits one after the other gives none.
    if (turnBegan === 0) {
      turnBegan = now;
      setImmediate(endTurn);
    }
    try {
      const statement = this.prepared(database, query.sql);
      const values = (query.bindings ?? []).map(sqliteValue);
      if (statement.columns().length > 0) {
        query.response = statement.all(...values);
      } else {
        const result = statement.run(...values);
        query.response = result;
        query.context = { lastID: result.lastInsertRowid, changes: result.changes };
      }
    } catch (error) {
      throw databaseFailure(error);
    }
    // Never within a transaction: a statement that waits for its lock blocks the event loop, and so the transaction.
    if (!database.isTransaction && performance.now() - turnBegan > MAX_TURN) await nextTurn();
    return query;
  }

  private prepared(database: DatabaseSync, sql: string): Statement {
    let statements = preparedStatements.get(database);
    if (statements === undefined) {
      statements = new Map();
      preparedStatements.set(database, statements);
    }
    let statement = statements.get(sql);
    if (statement === undefined) {
      if (statements.size >= STATEMENT_CACHE) statements.clear();
      statement = database.prepare(sql);
      // A statement that changes the schema is run once.
      if (/^\s*(select|insert|update|delete|with|begin|commit|rollback)/i.test(sql)) statements.set(sql, statement);
    }
    return statement;
  }
}

/** A value as SQLite takes it. */
function sqliteValue(value: unknown): SQLInputValue {
  if (value === undefined) return null;
  if (typeof value === 'boolean') return Number(value);
  if (value instanceof Date) return value.valueOf();
  return value as SQLInputValue;
}
