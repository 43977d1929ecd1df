import type { SqlDialect } from '../dialect.ts';

const historySql = `insert into query_history
  (query_id, query_text, created, backend_url, user_name, source, routing_group, external_url)
  select value->>'queryId', value->>'queryText', value->>'created', value->>'backendUrl', value->>'user', value->>'source',
    value->>'routingGroup', value->>'externalUrl' from json_each(?) where true on conflict do nothing`;
const decisionsSql = `insert into eg_query_decisions (query_id, cluster, created, decision)
  select value->>'queryId', value->>'cluster', value->>'created', value->>'decision' from json_each(?) where true
  on conflict do nothing`;

const removeRunningSql = 'delete from eg_running_queries where query_id in (select value from json_each(?))';

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
    const rows = (await knex.raw('select name, type from pragma_table_info(?)', [table])) as {
      name: string;
      type: string;
    }[];
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
    await knex.raw(removeRunningSql, [JSON.stringify(queryIds)]);
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
