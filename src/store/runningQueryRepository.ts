import type { Knex } from 'knex';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { cutToWidth } from './historyText.ts';
import { guessedStates, RUNNING } from './queryOutcome.ts';
import type { Fence, ListedRunningQuery, RunningQueryFilter, RunningQueryRow } from './store.ts';

/** Rows that one statement takes at most: about 100 KB; with the longest names 2 MB, which any server takes. */
const BATCH = 1000;
const WIDTH = 256;

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly query_id: string;
  readonly cluster: string;
  readonly started: number | string;
  readonly last_seen: number | string;
}

interface ListedRow extends Row {
  readonly user_name: string | null;
  readonly source: string | null;
  readonly routing_group: string | null;
  readonly query_text: string | null;
}

/** `eg_running_queries`: queries that clients are following. */
export class RunningQueryRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

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
      for (const some of batches([...fitted.values()])) await dialect.putRunningQueries(knex, some);
    });
  }

  remove(queryIds: readonly string[]): Promise<void> {
    const { dialect } = this.database;
    const fitted = queryIds.map((queryId) => cutToWidth(queryId, WIDTH));
    return this.database.run(async (knex) => {
      for (const some of batches(fitted)) await dialect.removeRunningQueries(knex, some);
    });
  }

  /** Queries of a cluster with a request at or after a time, oldest first. */
  ofCluster(cluster: string, seenSince: number): Promise<readonly RunningQueryRow[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_running_queries as r')
        .where('r.cluster', cutToWidth(cluster, WIDTH))
        .where('r.last_seen', '>=', seenSince)
        .whereNotExists(outcomeOfEnd(knex))
        .orderBy(['r.started', 'r.query_id'])) as Row[];
      return rows.map((row) => ({
        queryId: row.query_id,
        cluster: row.cluster,
        started: Number(row.started),
        lastSeen: Number(row.last_seen),
      }));
    });
  }

  /** Running queries of all clusters, oldest first. */
  list(filter: RunningQueryFilter, limit: number): Promise<readonly ListedRunningQuery[]> {
    const { cluster, routingGroup, user, seenSince } = filter;
    return this.database.run(async (knex) => {
      const query = knex('eg_running_queries as r')
        .leftJoin('query_history as h', 'h.query_id', 'r.query_id')
        .where('r.last_seen', '>=', seenSince)
        .whereNotExists(outcomeOfEnd(knex));
      if (cluster !== undefined) query.where('r.cluster', cutToWidth(cluster, WIDTH));
      if (routingGroup !== undefined) query.where('h.routing_group', cutToWidth(routingGroup, WIDTH));
      if (user !== undefined) query.where('h.user_name', cutToWidth(user, WIDTH));
      const rows: ListedRow[] = await query
        .select('r.*', 'h.user_name', 'h.source', 'h.routing_group')
        .select(knex.raw('substr(h.query_text, 1, 1000) as query_text'))
        .orderBy(['r.started', 'r.query_id'])
        .limit(limit);
      return rows.map((row) => ({
        queryId: row.query_id,
        cluster: row.cluster,
        started: Number(row.started),
        lastSeen: Number(row.last_seen),
        user: row.user_name,
        source: row.source,
        routingGroup: row.routing_group,
        queryText: row.query_text,
      }));
    });
  }

  /** When clients asked last for queries, of those that have a row: milliseconds since 1970, by id. */
  lastSeen(queryIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return this.database.run(async (knex) => {
      const times = new Map<string, number>();
      for (const some of batches(queryIds)) {
        const rows = (await knex('eg_running_queries')
          .whereIn('query_id', some)
          .select('query_id', 'last_seen')) as Row[];
        for (const row of rows) times.set(row.query_id, Number(row.last_seen));
      }
      return times;
    });
  }

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_running_queries', 'last_seen', before, fence);
  }
}

/** The outcome of an ended query in row `r`: a replica may write the row after another one saw the end. */
function outcomeOfEnd(knex: Knex): Knex.QueryBuilder {
  return knex('eg_query_outcomes as o')
    .whereRaw('o.query_id = r.query_id')
    .whereNotIn('o.state', [RUNNING, ...guessedStates])
    .select(knex.raw('1'));
}

function* batches<T>(all: readonly T[]): Iterable<T[]> {
  for (let start = 0; start < all.length; start += BATCH) yield all.slice(start, start + BATCH);
}
