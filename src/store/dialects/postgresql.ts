import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { FittedRecord } from '../columns.ts';
import type { SqlDialect } from '../dialect.ts';
import { prepared } from '../knexClients.ts';

/** Key of the advisory lock: "EGmigrat" in ASCII, halved. */
const LOCK = [0x45476d69, 0x67726174] as const;
/** Time that a replica waits for another's migration. */
const LOCK_PATIENCE_MS = 120_000;

const insertSql = `with r as materialized (
  select * from json_to_recordset(cast(? as json)) as t("queryId" text, "queryText" text, "user" text, "source" text,
    "backendUrl" text, "created" bigint, "routingGroup" text, "externalUrl" text, "cluster" text, "decision" bigint,
    "rule" text, "groupSet" text, "gatewayQueuedMillis" bigint, "digest" text, "exactDigest" text, "tool" text, "model" text,
    "dashboard" text, "replay" text)
), d as (
  select * from json_array_elements_text(cast(? as json)) with ordinality as t("text", "number")
), h as (
  insert into query_history (query_id, query_text, created, backend_url, user_name, source, routing_group, external_url)
  select "queryId", "queryText", "created", "backendUrl", "user", "source", "routingGroup", "externalUrl" from r
  on conflict do nothing
)
insert into eg_query_decisions (query_id, cluster, created, decision, rule_name, group_set, gateway_queued_ms, digest,
  exact_digest, tool, model, dashboard, replay)
select "queryId", "cluster", "created", "text", "rule", "groupSet", "gatewayQueuedMillis", "digest", "exactDigest", "tool",
  "model", "dashboard", "replay" from r left join d on "number" = "decision" on conflict do nothing`;

/** The records and the texts of their decisions, which are long and mostly alike: each once, and its number from 1 on. */
function historyParameters(records: readonly FittedRecord[]): readonly [records: string, decisions: string] {
  const numbers = new Map<string, number>();
  const rows = records.map((record) => {
    const { decision } = record;
    if (decision === null) return record;
    const number = numbers.get(decision) ?? numbers.size + 1;
    numbers.set(decision, number);
    return { ...record, decision: number };
  });
  return [JSON.stringify(rows), JSON.stringify([...numbers.keys()])];
}

// An array, so that the ids are looked up in the index; of joined rows the planner does not know how few they are.
const removeRunningSql =
  'delete from eg_running_queries where query_id = any(array(select json_array_elements_text(cast(? as json))))';

/** PostgreSQL 12 or newer. */
export const postgresqlDialect: SqlDialect = {
  name: 'postgresql',
  clockMs: 'cast(extract(epoch from clock_timestamp()) * 1000 as bigint)',
  forUpdate: ' for update',
  snapshot: { isolationLevel: 'repeatable read', readOnly: true },
  // Groups are fewer than the planner takes them for: without these it sorts all rows on disk, and on one processor.
  addingUp: "select set_config('work_mem', '32MB', true), set_config('parallel_tuple_cost', '0.01', true)",
  joined: (text) => `string_agg(${text}, ',')`,
  types: {
    identity: 'serial',
    longText: 'text',
    timestamp: 'timestamp',
    exactQueryType: 'varchar(128)',
    tableOptions: '',
    exactKeys:
      'primary key (environment, source, query_type), unique (source, environment, query_type, resource_group_id)',
  },
  migrateAlone: (knex, work) =>
    knex.transaction(async (trx) => {
      const deadline = performance.now() + LOCK_PATIENCE_MS;
      // Asked repeatedly, so that the statement's time-out can stay short.
      for (;;) {
        const response = await trx.raw('select pg_try_advisory_xact_lock(?, ?) as locked', [...LOCK]);
        if (response.rows[0].locked === true) return work(trx);
        if (performance.now() > deadline) throw new Error('another process has been migrating for two minutes');
        await sleep(100);
      }
    }),
  async columns(knex, table) {
    const response = await knex.raw(
      `select attname as name, format_type(atttypid, atttypmod) || repeat(' not null', attnotnull::int) as type
       from pg_attribute where attrelid = to_regclass(?) and attnum > 0 and not attisdropped`,
      [table],
    );
    const { rows }: { rows: { name: string; type: string }[] } = response;
    return rows.length === 0 ? null : new Map(rows.map((row) => [row.name, row.type.toLowerCase()]));
  },
  async hasIndex(knex, table, index) {
    const response = await knex.raw(
      `select 1 from pg_index i join pg_class c on c.oid = i.indexrelid
       where i.indrelid = to_regclass(?) and c.relname = ?`,
      [table, index],
    );
    return response.rows.length > 0;
  },
  widenQueryText: 'alter table query_history alter column query_text type text',
  uniqueGroupNames: {
    index: 'resource_groups_name_key',
    remove: () => ['alter table resource_groups drop constraint if exists resource_groups_name_key'],
  },
  async insertHistory(knex, records) {
    await knex.raw(insertSql, [...historyParameters(records)]).options(prepared);
  },
  async removeRunningQueries(knex, queryIds) {
    await knex.raw(removeRunningSql, [JSON.stringify(queryIds)]).options(prepared);
  },
  async deleteBatch(knex, table, column, bound, limit) {
    const response = await knex.raw(
      `delete from ?? where ctid = any(array(select ctid from ?? where ?? < ? limit ?))`,
      [table, table, column, bound, limit] as Knex.RawBinding[],
    );
    return response.rowCount ?? 0;
  },
};
