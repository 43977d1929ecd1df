import type { Knex } from 'knex';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { fitRecord } from './historyText.ts';
import type { Fence, HistoryFilter, QueryHistoryRepository, QueryRecord } from './store.ts';

interface Row {
  readonly query_id: string;
  readonly query_text: string | null;
  readonly created: number | null;
  readonly backend_url: string | null;
  readonly user_name: string | null;
  readonly source: string | null;
  readonly routing_group: string | null;
  readonly external_url: string | null;
  readonly cluster: string | null;
  readonly decision: string | null;
}

/** Up to here `total` is exact; beyond, it stays at this number: counting ten million rows would take seconds. */
export const TOTAL_BOUND = 1_000_000;

const fromRow = (row: Row): QueryRecord => ({
  queryId: row.query_id,
  queryText: row.query_text ?? '',
  user: row.user_name,
  source: row.source,
  backendUrl: row.backend_url ?? '',
  created: row.created ?? 0,
  routingGroup: row.routing_group,
  externalUrl: row.external_url,
  cluster: row.cluster ?? '',
  decision: row.decision,
});

const equalities: readonly [keyof HistoryFilter, string][] = [
  ['user', 'h.user_name'],
  ['backendUrl', 'h.backend_url'],
  ['externalUrl', 'h.external_url'],
  ['routingGroup', 'h.routing_group'],
  ['queryId', 'h.query_id'],
  ['source', 'h.source'],
];

function filtered(knex: Knex, filter: HistoryFilter): Knex.QueryBuilder {
  const query = knex('query_history as h');
  for (const [field, column] of equalities) {
    const value = filter[field];
    if (value !== undefined) query.where(column, value);
  }
  if (filter.from !== undefined) query.where('h.created', '>=', filter.from);
  if (filter.to !== undefined) query.where('h.created', '<', filter.to);
  if (filter.text !== undefined) {
    query.whereRaw("lower(h.query_text) like lower(?) escape '!'", [`%${filter.text.replace(/[!%_]/g, '!$&')}%`]);
  }
  if (filter.cluster !== undefined) {
    query.whereIn('h.query_id', knex('eg_query_decisions').where('cluster', filter.cluster).select('query_id'));
  }
  return query;
}

/** `query_history` and `eg_query_decisions`. */
export class KnexQueryHistoryRepository implements QueryHistoryRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  insert(records: readonly QueryRecord[]): Promise<void> {
    if (records.length === 0) return Promise.resolve();
    const fitted = records.map(fitRecord);
    return this.database.run((knex) => this.database.dialect.insertHistory(knex, fitted));
  }

  get(queryId: string): Promise<QueryRecord | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('query_history as h')
        .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
        .where('h.query_id', queryId)
        .first('h.*', 'd.cluster', 'd.decision');
      return row === undefined ? null : fromRow(row);
    });
  }

  find(
    filter: HistoryFilter,
    page: { offset: number; limit: number },
  ): Promise<{ total: number; records: readonly QueryRecord[] }> {
    return this.database.run(async (knex) => {
      const bounded = filtered(knex, filter).select(knex.raw('1 as one')).limit(TOTAL_BOUND).as('bounded');
      const counted = await knex.from(bounded).count({ total: '*' }).first();
      const total = Number(counted?.total ?? 0);
      if (page.limit <= 0 || page.offset >= total) return { total, records: [] };
      // The page's ids first, by the index on `created`; long texts are read for the page's rows only.
      const ids = filtered(knex, filter)
        .select('h.query_id')
        .orderBy([
          { column: 'h.created', order: 'desc' },
          { column: 'h.query_id', order: 'desc' },
        ])
        .limit(page.limit)
        .offset(page.offset)
        .as('p');
      const rows: Row[] = await knex
        .from(ids)
        .join('query_history as h', 'h.query_id', 'p.query_id')
        .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
        .select('h.*', 'd.cluster', 'd.decision')
        .orderBy([
          { column: 'h.created', order: 'desc' },
          { column: 'h.query_id', order: 'desc' },
        ]);
      return { total, records: rows.map(fromRow) };
    });
  }

  async deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    const deleted = await deleteInBatches(this.database, 'query_history', 'created', before, fence);
    await deleteInBatches(this.database, 'eg_query_decisions', 'created', before, fence);
    return deleted;
  }
}
