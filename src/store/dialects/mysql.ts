import type { Knex } from 'knex';
import { cutToBytes, type FittedRecord } from '../columns.ts';
import type { SqlDialect } from '../dialect.ts';

/** Time that a replica waits for another's migration: in turns of a few seconds, below the statement's time-out. */
const LOCK_TURNS = 30;
const LOCK_TURN_SECONDS = 4;

const historyHead =
  'insert into query_history (query_id, query_text, created, backend_url, user_name, source, routing_group, external_url) values ';
const decisionsHead =
  'insert into eg_query_decisions (query_id, cluster, created, decision, rule_name, group_set, gateway_queued_ms, digest, exact_digest, tool, model, dashboard, replay) values ';
/** Unlike `insert ignore` this ignores existing ids only and still rejects values that do not fit. */
const keep = ' on duplicate key update query_id = values(query_id)';

/** Bytes of a packet that a batch may fill, by pool: values grow when they are quoted. */
const packetBytes = new WeakMap<object, Promise<number>>();

function packetCapacity(knex: Knex): Promise<number> {
  let capacity = packetBytes.get(knex.client);
  if (capacity === undefined) {
    capacity = Promise.resolve(knex.raw('select @@max_allowed_packet as bytes')).then(
      ([rows]) => Math.floor(Number(rows[0].bytes) * 0.45) - 4096,
    );
    packetBytes.set(knex.client, capacity);
    capacity.catch(() => packetBytes.delete(knex.client));
  }
  return capacity;
}

/** Splits a batch so that each part fits into a packet; a text that alone is too long is cut. */
function splitByBytes(records: readonly FittedRecord[], capacity: number): FittedRecord[][] {
  const parts: FittedRecord[][] = [];
  let used = Number.POSITIVE_INFINITY;
  for (const record of records) {
    const decision = record.decision !== null && Buffer.byteLength(record.decision) > capacity ? null : record.decision;
    const fitting = { ...record, queryText: cutToBytes(record.queryText, capacity), decision };
    const bytes =
      Buffer.byteLength(fitting.queryText) +
      Buffer.byteLength(decision ?? '') +
      Buffer.byteLength(record.replay ?? '') +
      6000;
    if (used + bytes > capacity) {
      parts.push([]);
      used = 0;
    }
    parts.at(-1)?.push(fitting);
    used += bytes;
  }
  return parts;
}

const values = (row: string, count: number): string => Array.from({ length: count }, () => row).join(',');

/** MySQL 5.7 or newer and MariaDB 10.5 or newer. */
export const mysqlDialect: SqlDialect = {
  name: 'mysql',
  clockMs: 'cast(unix_timestamp(sysdate(3)) * 1000 as signed)',
  forUpdate: ' for update',
  // knex writes it together with READ ONLY in a form that MySQL rejects.
  snapshot: { isolationLevel: 'repeatable read' },
  // Sums of an hour put pairs together; the default of MySQL would cut them off.
  addingUp: 'set session group_concat_max_len = 1048576',
  joined: (text) => `group_concat(${text})`,
  types: {
    identity: 'bigint not null auto_increment',
    longText: 'longtext',
    timestamp: 'datetime',
    exactQueryType: 'varchar(512)',
    tableOptions: ' engine=InnoDB row_format=dynamic default character set utf8mb4 collate utf8mb4_bin',
    exactKeys:
      'primary key (environment, source(128), query_type), unique (source(128), environment, query_type(128), resource_group_id)',
  },
  // DDL commits by itself here, so the lock belongs to a pinned session and every step can be repeated.
  migrateAlone: (knex, work) =>
    knex.transaction(async (pinned) => {
      for (let turn = 0; ; turn++) {
        const [rows] = await pinned.raw(
          "select get_lock(concat('eg_migrate_', left(sha1(database()), 40)), ?) as locked",
          [LOCK_TURN_SECONDS],
        );
        if (rows[0].locked === 1) break;
        if (turn >= LOCK_TURNS) throw new Error('another process has been migrating for two minutes');
      }
      try {
        return await work(pinned);
      } finally {
        await pinned.raw("select release_lock(concat('eg_migrate_', left(sha1(database()), 40)))");
      }
    }),
  async columns(knex, table) {
    const [rows] = await knex.raw(
      `select column_name as name, concat(column_type, if(is_nullable = 'NO', ' not null', '')) as type
       from information_schema.columns where table_schema = database() and table_name = ?`,
      [table],
    );
    const columns: { name: string; type: string }[] = rows;
    const entries = columns.map(({ name, type }) => [name.toLowerCase(), String(type).toLowerCase()] as const);
    return entries.length === 0 ? null : new Map(entries);
  },
  async hasIndex(knex, table, index) {
    const [rows] = await knex.raw(
      'select 1 from information_schema.statistics where table_schema = database() and table_name = ? and index_name = ? limit 1',
      [table, index],
    );
    return rows.length > 0;
  },
  widenQueryText: 'alter table query_history modify query_text longtext',
  uniqueGroupNames: { index: 'name', remove: () => ['alter table resource_groups drop index name'] },
  async insertHistory(knex, records) {
    for (const part of splitByBytes(records, await packetCapacity(knex))) await insertPart(knex, part);
  },
  async removeRunningQueries(knex, queryIds) {
    await knex.raw('delete from eg_running_queries where query_id in (?)', [queryIds] as unknown as Knex.RawBinding[]);
  },
  async deleteBatch(knex, table, column, bound, limit) {
    const [result] = await knex.raw('delete from ?? where ?? < ? order by ?? limit ?', [
      table,
      column,
      bound,
      column,
      limit,
    ]);
    return result.affectedRows as number;
  },
};

async function insertPart(knex: Knex, records: readonly FittedRecord[]): Promise<void> {
  const history: Knex.RawBinding[] = [];
  const decisions: Knex.RawBinding[] = [];
  for (const record of records) {
    history.push(record.queryId, record.queryText, record.created, record.backendUrl, record.user);
    history.push(record.source, record.routingGroup, record.externalUrl);
    decisions.push(record.queryId, record.cluster, record.created, record.decision);
    decisions.push(record.rule, record.groupSet, record.gatewayQueuedMillis, record.digest, record.exactDigest);
    decisions.push(record.tool, record.model, record.dashboard, record.replay);
  }
  await knex.raw(historyHead + values('(?,?,?,?,?,?,?,?)', records.length) + keep, history);
  await knex.raw(decisionsHead + values('(?,?,?,?,?,?,?,?,?,?,?,?,?)', records.length) + keep, decisions);
}
