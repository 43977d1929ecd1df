import type { Knex } from 'knex';
import { BulkInsert } from './bulkInsert.ts';
import { batches, cutToWidth } from './columns.ts';
import { agedTable } from './deletion.ts';
import { guessedStates, RUNNING } from './queryOutcome.ts';
import type { ListedRunningQuery, RunningQueryFilter, RunningQueryRow } from './store.ts';

/** Rows that one statement takes at most: about 100 KB; with the longest names 2 MB, which any server takes. */
const BATCH = 1000;
const WIDTH = 256;

const columns = { queryId: 'r.query_id', cluster: 'r.cluster', started: 'r.started', lastSeen: 'r.last_seen' } as const;

const upsert = new BulkInsert(
  'eg_running_queries',
  { query_id: 'text', cluster: 'text', started: 'bigint', last_seen: 'bigint' },
  'query_id',
  (fresh) => `last_seen = ${fresh('last_seen')}`,
);

/** `eg_running_queries`: queries that clients are following. */
export class RunningQueryRepository extends agedTable('eg_running_queries', 'last_seen') {
  /** Adds rows; of those that are there the time of the last request is renewed. */
  put(rows: readonly RunningQueryRow[]): Promise<void> {
    const { dialect } = this.database;
    // By id: two may be the same once they are fitted, and a statement takes each once.
    const fitted = new Map<string, RunningQueryRow>();
    for (const row of rows) {
      const queryId = cutToWidth(row.queryId, WIDTH);
      fitted.set(queryId, { ...row, queryId, cluster: cutToWidth(row.cluster, WIDTH) });
    }
    return this.database.run(async (knex) => {
      const values = [...fitted.values()].map((row) => [row.queryId, row.cluster, row.started, row.lastSeen]);
      for (const some of batches(values, BATCH)) await upsert.run(knex, dialect.name, some);
    });
  }

  remove(queryIds: readonly string[]): Promise<void> {
    const { dialect } = this.database;
    const fitted = queryIds.map((queryId) => cutToWidth(queryId, WIDTH));
    return this.database.run(async (knex) => {
      for (const some of batches(fitted, BATCH)) await dialect.removeRunningQueries(knex, some);
    });
  }

  /** Queries of a cluster with a request at or after a time, oldest first. */
  ofCluster(cluster: string, seenSince: number): Promise<readonly RunningQueryRow[]> {
    return this.database.run(
      async (knex) =>
        await knex('eg_running_queries as r')
          .where('r.cluster', cutToWidth(cluster, WIDTH))
          .where('r.last_seen', '>=', seenSince)
          .whereNotExists(outcomeOfEnd(knex))
          .orderBy(['r.started', 'r.query_id'])
          .select(columns),
    );
  }

  /** Running queries of all clusters, oldest first. */
  list(filter: RunningQueryFilter, limit: number): Promise<readonly ListedRunningQuery[]> {
    const { cluster, routingGroup, user, seenSince, visibleTo } = filter;
    return this.database.run(async (knex) => {
      const query = knex('eg_running_queries as r')
        .leftJoin('query_history as h', 'h.query_id', 'r.query_id')
        .where('r.last_seen', '>=', seenSince)
        .whereNotExists(outcomeOfEnd(knex));
      if (cluster !== undefined) query.where('r.cluster', cutToWidth(cluster, WIDTH));
      if (routingGroup !== undefined) query.where('h.routing_group', cutToWidth(routingGroup, WIDTH));
      if (user !== undefined) query.where('h.user_name', cutToWidth(user, WIDTH));
      if (visibleTo !== undefined)
        query.where((visible) => {
          visible.where('h.user_name', cutToWidth(visibleTo.user, WIDTH)).orWhereIn('r.cluster', visibleTo.clusters);
        });
      return (await query
        .select({ ...columns, user: 'h.user_name', source: 'h.source', routingGroup: 'h.routing_group' })
        .select({ queryText: knex.raw('substr(h.query_text, 1, 1000)') })
        .orderBy(['r.started', 'r.query_id'])
        .limit(limit)) as ListedRunningQuery[];
    });
  }

  /** When clients asked last for queries, of those that have a row: milliseconds since 1970, by id. */
  lastSeen(queryIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return this.database.run(async (knex) => {
      const times = new Map<string, number>();
      for (const some of batches(queryIds, BATCH)) {
        const rows: RunningQueryRow[] = await knex('eg_running_queries as r')
          .whereIn('r.query_id', some)
          .select(columns);
        for (const { queryId, lastSeen } of rows) times.set(queryId, lastSeen);
      }
      return times;
    });
  }
}

/** The outcome of an ended query in row `r`: a replica may write the row after another one saw the end. */
function outcomeOfEnd(knex: Knex): Knex.QueryBuilder {
  return knex('eg_query_outcomes as o')
    .whereRaw('o.query_id = r.query_id')
    .whereNotIn('o.state', [RUNNING, ...guessedStates])
    .select(knex.raw('1'));
}
