import { BulkInsert } from './bulkInsert.ts';
import { batches, cutToWidth } from './columns.ts';
import { type Database, fenceHolds } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { insertShapes } from './historyRepository.ts';
import { deleteSumsBefore, noteChanges, noteDeletion, noting } from './hourlySums.ts';
import {
  type OutcomeColumn,
  type OutcomeRow,
  outcomeColumns,
  outcomeOfRow,
  statementColumns,
} from './outcomeColumns.ts';
import { insertGroupSets, insertQueryGroups } from './queryGroups.ts';
import { certainty, type QueryOutcomeRecord, RUNNING, type UnendedQuery } from './queryOutcome.ts';
import type { Fence } from './store.ts';

const TABLE = 'eg_query_outcomes';
/** Characters of one statement's texts: on MySQL they are quoted, and a packet has a bound. */
const STATEMENT_CHARACTERS = 250_000;
const ROW_CHARACTERS = 500;
const ENDED_AT_ONCE = 1000;

const READ_BATCH = 1000;
const ID_WIDTH = 256;

/** New value of a column with an existing row. @param fresh the new value, as SQL */
function assigned({ name, keep }: OutcomeColumn, fresh: (column: string) => string): string {
  const present = `${TABLE}.${name}`;
  const isSurer = `${fresh('certainty')} > ${TABLE}.certainty`;
  const [known, other] = [`coalesce(${present}, ${fresh(name)})`, `coalesce(${fresh(name)}, ${present})`];
  if (keep === 'fact')
    return `${name} = case when ${TABLE}.certainty < 0 then ${other} when ${fresh('certainty')} < 0 then ${present} else ${known} end`;
  if (keep === 'figure') return `${name} = case when ${isSurer} then ${other} else ${known} end`;
  if (keep === 'earliest') {
    const isEarlier = `${present} is null or ${fresh(name)} < ${present}`;
    return `${name} = case when ${isEarlier} then ${fresh(name)} else ${present} end`;
  }
  if (keep === 'latest')
    return `${name} = case when ${fresh(name)} > ${present} then ${fresh(name)} else ${present} end`;
  return `${name} = case when ${isSurer} then ${fresh(name)} else ${present} end`;
}

const assignments = (fresh: (column: string) => string): string =>
  outcomeColumns
    .filter(({ keep }) => keep !== 'key')
    .map((column) => assigned(column, fresh))
    .join(', ');

/** True as SQL if a row that is there gets other values than its own. */
const changes = (fresh: (column: string) => string): string =>
  outcomeColumns
    .flatMap(({ name, keep }) => {
      const present = `${TABLE}.${name}`;
      if (name === 'certainty') return `${fresh(name)} > ${present}`;
      if (keep === 'earliest') return `${fresh(name)} < coalesce(${present}, 9007199254740991)`;
      const isMissing = `${present} is null and ${fresh(name)} is not null`;
      if (keep === 'figure') return `(${isMissing})`;
      return keep === 'fact' ? `(${isMissing} and ${fresh('certainty')} >= 0)` : [];
    })
    .join(' or ');

/**
 * Facts of the submission by columns, as the replica that took it has kept them: another one, and an event of the cluster, has only the
 * end.
 */
const submitted = {
  ...{ created: 'h.created', cluster: 'd.cluster', routing_group: 'h.routing_group', user_name: 'h.user_name' },
  ...{ source: 'h.source', rule_name: 'd.rule_name', group_set: 'd.group_set' },
  ...{ gateway_queued_ms: 'd.gateway_queued_ms', refused: 'case when h.query_id is not null then 0 end' },
  ...Object.fromEntries(statementColumns.map(({ name }) => [name, `d.${name}`])),
};
const submissions = `left join query_history as h on h.query_id = t.query_id and t.routing_group is null
   left join eg_query_decisions as d on d.query_id = h.query_id`;
/** The same on PostgreSQL, which otherwise reads whole tables for a few rows as long as the tables are small. */
const lookups = `left join lateral (
    select * from query_history as q where q.query_id = t.query_id and t.routing_group is null limit 1) as h on true
  left join lateral (select * from eg_query_decisions as q where q.query_id = h.query_id limit 1) as d on true`;
const factsSql = Object.entries(submitted).map(([name, stored]) => [name, `coalesce(${stored}, t.${name})`] as const);
/** The same on MySQL, of rows that are inserted. */
const mysqlFactsSql = `update ${TABLE} as t ${submissions} set ${factsSql
  .map(([name, value]) => `t.${name} = ${value}`)
  .join(', ')} where t.query_id in (?) and h.query_id is not null`;

const columnTypes = outcomeColumns.map(({ name, type }) => [name, type.replace(/ primary key| not null/g, '')]);
const upsert = new BulkInsert(TABLE, Object.fromEntries(columnTypes), 'query_id', assignments, changes, {
  joins: { sqlite: submissions, postgresql: lookups },
  values: Object.fromEntries(factsSql),
});

/** Of two records of a query what is stored: as the database does it, which takes each id once in a statement. */
function merged(present: QueryOutcomeRecord, fresh: QueryOutcomeRecord): QueryOutcomeRecord {
  const surer = fresh.certainty > present.certainty ? fresh : present;
  const facts: Record<string, unknown> = {};
  for (const { field, keep } of outcomeColumns) {
    if (field === undefined || keep === 'outcome') continue;
    const [one, other] = [present[field], fresh[field]] as [number | null, number | null];
    if (keep === 'latest') facts[field] = Math.max(Number(one), Number(other));
    else if (keep === 'earliest' && one != null && other != null) facts[field] = Math.min(one, other);
    else if (keep === 'figure') facts[field] = surer[field] ?? one ?? other;
    else facts[field] = keep === 'key' ? one : (one ?? other);
  }
  const groups = present.groups ?? fresh.groups;
  const statement = present.statement ?? fresh.statement;
  return { ...surer, ...facts, ...(groups && { groups }), ...(statement && { statement }) };
}

function unendedOf(record: QueryOutcomeRecord): UnendedQuery {
  const { created, cluster, routingGroup, user, source, rule, gatewayQueuedMillis } = record;
  return { created, cluster, routingGroup, user, source, rule, gatewayQueuedMillis };
}

/** `eg_query_outcomes`. */
export class QueryOutcomeRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  /**
   * Stores a batch. Of rows of one query the surer one's outcome stays, the first of two that are as sure; facts of the submission
   * that one of them lacks come from the other, and rows of events complete others.
   */
  async put(records: readonly QueryOutcomeRecord[]): Promise<void> {
    const { events = [], own = [] } = Object.groupBy(records, ({ bypassed }) => (bypassed ? 'events' : 'own'));
    if (own.length > 0) await this.#put(own);
    if (events.length > 0) await this.#put(events);
  }

  async #put(records: readonly QueryOutcomeRecord[]): Promise<void> {
    const byId = new Map<string, QueryOutcomeRecord>();
    const idOf = outcomeColumns[0] as OutcomeColumn;
    for (const record of records) {
      const id = String(idOf.of(record));
      const present = byId.get(id);
      byId.set(id, present === undefined ? record : merged(present, record));
    }
    const dialect = this.database.dialect.name;
    for (const some of batches([...byId.values()], STATEMENT_CHARACTERS, charactersOf)) {
      const rows = some.map((record) => outcomeColumns.map(({ of }) => of(record)));
      const ids = some.map((record) => String(idOf.of(record)));
      // Groups and shapes of queries that the gateway sent to clusters come with the history.
      const rejected = some.filter(({ refused, bypassed }) => refused || bypassed);
      if (dialect === 'postgresql' && rejected.length === 0 && some.every(({ groups = [] }) => groups.length === 0)) {
        await this.database.run((knex) => upsert.run(knex, dialect, rows, (insert) => noting(this.database, insert)));
        continue;
      }
      await this.database.transaction(async (trx) => {
        await upsert.run(trx, dialect, rows);
        const unknown = some.filter((record) => record.routingGroup === null);
        if (dialect === 'mysql' && unknown.length > 0)
          await trx.raw(mysqlFactsSql, [unknown.map((record) => String(idOf.of(record)))]);
        await insertGroupSets(trx, dialect, some);
        await insertQueryGroups(trx, dialect, rejected);
        await insertShapes(trx, dialect, rejected);
        await noteChanges(trx, this.database, ids);
      });
    }
  }

  get(queryId: string): Promise<QueryOutcomeRecord | null> {
    return this.database.run(async (knex) => {
      const row: OutcomeRow | undefined = await knex(TABLE).where('query_id', queryId).first();
      return row === undefined ? null : outcomeOfRow(row);
    });
  }

  /**
   * Ends queries that no replica follows any more, as ABANDONED: those of replicas that ended without saying so.
   * @param before only queries submitted before, milliseconds since 1970
   * @param seenSince those that a client asked for at or after this go on
   */
  async endForgotten(before: number, seenSince: number, fence: Fence | null = null): Promise<number> {
    let total = 0;
    for (;;) {
      const ended = await this.database.transaction(async (trx) => {
        if (fence !== null && !(await fenceHolds(trx, this.database, fence))) return 0;
        const rows: { readonly query_id: string }[] = await trx(TABLE)
          .leftJoin('eg_running_queries as r', (join) => {
            join.on('r.query_id', '=', `${TABLE}.query_id`).andOn('r.last_seen', '>=', trx.raw('?', [seenSince]));
          })
          .where(`${TABLE}.state`, RUNNING)
          .where(`${TABLE}.created`, '<', before)
          .whereNull('r.query_id')
          .limit(ENDED_AT_ONCE)
          .select(`${TABLE}.query_id`);
        const ids = rows.map((row) => row.query_id);
        if (ids.length === 0) return 0;
        const abandoned = await trx(TABLE)
          .whereIn('query_id', ids)
          .where('state', RUNNING)
          .update({ state: 'ABANDONED', certainty: certainty.guessed });
        await noteChanges(trx, this.database, ids);
        return abandoned;
      });
      total += ended;
      if (ended < ENDED_AT_ONCE) return total;
    }
  }

  /**
   * Those of some queries that are not known to be over, with what was submitted: rows in the state `RUNNING`, and queries of the history
   * without a row. @param queryIds 2,000 at most
   */
  unended(queryIds: readonly string[]): Promise<ReadonlyMap<string, UnendedQuery>> {
    if (queryIds.length === 0) return Promise.resolve(new Map());
    return this.database.run(async (knex) => {
      const rows: OutcomeRow[] = await knex(TABLE).whereIn('query_id', queryIds).where('state', RUNNING);
      const unended = new Map(rows.map((row) => [String(row.query_id), unendedOf(outcomeOfRow(row))]));
      const others: OutcomeRow[] = await knex('query_history as h')
        .leftJoin(`${TABLE} as o`, 'o.query_id', 'h.query_id')
        .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
        .whereIn('h.query_id', queryIds)
        .whereNull('o.query_id')
        .select('h.query_id', 'h.created', 'h.user_name', 'h.source', 'h.routing_group', 'd.cluster');
      for (const row of others) unended.set(String(row.query_id), unendedOf(outcomeOfRow(row)));
      return unended;
    });
  }

  /**
   * Returns those of some queries that are over. Only the others are read, which are few.
   * @param states of rows whose queries may continue
   */
  async ended(queryIds: readonly string[], states: readonly string[] = [RUNNING]): Promise<ReadonlySet<string>> {
    const ended = new Set<string>();
    for (const ids of batches(queryIds, READ_BATCH)) {
      const some = new Map(ids.map((id) => [cutToWidth(id, ID_WIDTH), id]));
      const present = [...some.keys()];
      const isMysql = this.database.dialect.name === 'mysql';
      const rows = await this.database.run(async (knex): Promise<readonly string[]> => {
        if (isMysql)
          return await knex(TABLE).whereIn('query_id', present).whereNotIn('state', states).pluck('query_id');
        const isSqlite = this.database.dialect.name === 'sqlite';
        const elements = isSqlite ? 'json_each(?)' : 'json_array_elements_text(cast(? as json))';
        // An expression of each id: of joined rows the planner does not know how few they are.
        const state = `coalesce((select o.state from ${TABLE} as o where o.query_id = t.value), '${RUNNING}')`;
        return await knex
          .from(knex.raw(`${elements} as t`, [JSON.stringify(present)]))
          .whereRaw(`${state} in (${states.map(() => '?').join(', ')})`, states)
          .pluck('t.value');
      });
      const read = new Set(rows);
      for (const [id, whole] of some) if (read.has(id) === isMysql) ended.add(whole);
    }
    return ended;
  }

  /** Deletes rows of queries submitted before a time; returns how many. */
  async deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    await noteDeletion(this.database, before);
    const deleted = await deleteInBatches(this.database, TABLE, 'created', before, fence);
    // Once more, as hours may have been summed meanwhile.
    await noteDeletion(this.database, before);
    await deleteSumsBefore(this.database, before, fence);
    await deleteInBatches(this.database, 'eg_group_sets', 'last_used', before, fence);
    await deleteInBatches(this.database, 'eg_digests', 'last_used', before, fence);
    return deleted;
  }
}

function charactersOf({ queryText, decision, errorMessage, inputs }: QueryOutcomeRecord): number {
  return (
    ROW_CHARACTERS + [queryText, decision, errorMessage, inputs].reduce((sum, text) => sum + (text?.length ?? 0), 0)
  );
}
