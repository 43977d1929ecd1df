import type { Knex } from 'knex';
import { LRUCache } from 'lru-cache';
import { GatewayError } from '../model/errors.ts';
import { BulkInsert } from './bulkInsert.ts';
import {
  batches,
  fitRecord,
  literalPattern,
  newestFirst,
  prefixed,
  storable,
  whereGiven,
  whereWithin,
} from './columns.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { IN_TIME } from './dialects/sqlite.ts';
import { groupSet, insertGroupSets, insertQueryGroups } from './queryGroups.ts';
import type { StatementFacts } from './queryOutcome.ts';
import type { Dialect, Fence, HistoryFilter, HistoryPage, QueryListRow, QueryRecord } from './store.ts';

/** Characters of shapes of one statement, of at most 500 rows. */
const CHARACTERS = 250_000;
const DAY_MS = 24 * 3_600_000;

const shapes = new BulkInsert(
  'eg_digests',
  { digest: 'text', shape: 'text', first_used: 'bigint', last_used: 'bigint' },
  'digest',
  (fresh) => {
    const [present, last] = ['eg_digests.last_used', fresh('last_used')];
    return `last_used = case when ${last} > ${present} then ${last} else ${present} end`;
  },
  (fresh) => `${fresh('last_used')} > eg_digests.last_used`,
);

/**
 * Keeps shapes of statements, those with a text: the others were written lately. The time of their last use is rounded up by one
 * to two days, so that a shape that many queries have is seldom written.
 */
export async function insertShapes(
  knex: Knex,
  dialect: Dialect,
  queries: readonly { readonly created: number; readonly statement?: StatementFacts }[],
): Promise<void> {
  const rows = new Map<string, readonly [string, string, number, number]>();
  for (const { created, statement } of queries) {
    const { digest, shapeText } = statement?.columns ?? {};
    if (digest === undefined || shapeText == null) continue;
    rows.set(digest, [digest, storable(shapeText), created, (Math.ceil(created / DAY_MS) + 1) * DAY_MS]);
  }
  // In the order of their keys, so that two batches never wait for each other.
  const sorted = [...rows.values()].sort(([a], [b]) => (a < b ? -1 : 1));
  const sizeOf = ([, shape]: (typeof sorted)[number]) => shape.length + CHARACTERS / 500;
  for (const some of batches(sorted, CHARACTERS, sizeOf)) await shapes.run(knex, dialect, some);
}

/**
 * Up to here `total` is exact, and pages can be requested by number; beyond, it stays at this number. Counting and
 * passing over so many rows of an index takes hundredths of a second, over ten million seconds.
 */
const TOTAL_BOUND = 100_000;
/** Time that it is believed that there are more, in milliseconds: only the retention makes them fewer. */
const BEYOND_MS = 60_000;

/** Bytes of all texts of a page. Where they are more, each is cut to its share in characters: a text may be a megabyte. */
const PAGE_TEXT = 4_000_000;
const listedColumns = {
  ...{ queryId: 'h.query_id', created: 'h.created', user: 'h.user_name', source: 'h.source', cluster: 'd.cluster' },
  ...{ backendUrl: 'h.backend_url', routingGroup: 'h.routing_group', externalUrl: 'h.external_url' },
} as const;

type Stored<R> = { readonly [K in keyof R]: R[K] | null };

function recordOf<R extends QueryListRow>(row: Stored<R>): R {
  const { queryText, backendUrl, created, cluster } = row;
  const present = { queryText: queryText ?? '', backendUrl: backendUrl ?? '', created: created ?? 0 };
  return { ...row, ...present, cluster: cluster ?? '' } as unknown as R;
}

/**
 * Case-insensitive substring condition on a column. No index helps: each row that matches the other filters is read.
 */
export function textMatches(query: Knex.QueryBuilder, dialect: Dialect, column: string, text: string): void {
  const contains = `lower(${column}) like lower(?) escape '!'`;
  const sql = dialect === 'sqlite' ? `case when ${IN_TIME}() then ${contains} end` : contains;
  query.whereRaw(sql, [`%${literalPattern(text)}%`]);
}

/** Queries of `query_history as h` that fit a filter. */
export function filteredHistory(knex: Knex, dialect: Dialect, filter: HistoryFilter): Knex.QueryBuilder {
  const query = knex('query_history as h');
  const isPrefix = filter.match === 'prefix';
  if (filter.visibleTo !== undefined) {
    const { user: own, clusters } = filter.visibleTo;
    const taken = knex('eg_query_decisions as v').whereRaw('v.query_id = h.query_id').whereIn('v.cluster', clusters);
    query.where((visible) => {
      visible.where('h.user_name', own);
      if (clusters.length > 0) visible.orWhereExists(taken.select(knex.raw('1')));
    });
  }
  const { user, routingGroup, queryId, source, backendUrl, externalUrl } = filter;
  const beginnings = { user_name: user, routing_group: routingGroup, query_id: queryId, source };
  whereGiven(query, prefixed('h', beginnings), isPrefix);
  // Addresses are whole.
  whereGiven(query, prefixed('h', { backend_url: backendUrl, external_url: externalUrl }), false);
  whereWithin(query, 'h.created', filter);
  if (filter.text !== undefined) textMatches(query, dialect, 'h.query_text', filter.text);
  if (filter.cluster !== undefined) {
    const decisions = knex('eg_query_decisions').select('query_id');
    whereGiven(decisions, { cluster: filter.cluster }, isPrefix);
    query.whereIn('h.query_id', decisions);
  }
  return query;
}

/** `query_history`, `eg_query_decisions` and `eg_query_groups`. */
export class QueryHistoryRepository {
  private readonly database: Database;
  /** Filters that more rows fit than are counted: counting them again would give the same bound. */
  private readonly beyond = new LRUCache<string, true>({ max: 1000, ttl: BEYOND_MS });

  constructor(database: Database) {
    this.database = database;
  }

  /** Inserts a batch; rows whose id exists are left as they are. */
  insert(records: readonly QueryRecord[]): Promise<void> {
    if (records.length === 0) return Promise.resolve();
    const fitted = records.map((record) =>
      fitRecord(record, record.groups === undefined ? null : groupSet(record.groups)),
    );
    const { dialect } = this.database;
    return this.database.run(async (knex) => {
      await dialect.insertHistory(knex, fitted);
      const shapes = records.filter(({ statement }) => statement?.columns.shapeText != null);
      if (shapes.length > 0) await insertShapes(knex, dialect.name, shapes);
      if (!records.some(({ groups }) => groups !== undefined)) return;
      await insertQueryGroups(knex, dialect.name, records);
      await insertGroupSets(knex, dialect.name, records);
    });
  }

  get(queryId: string): Promise<QueryRecord | null> {
    return this.database.run(async (knex) => {
      const row: Stored<QueryRecord> | undefined = await knex('query_history as h')
        .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
        .where('h.query_id', queryId)
        .first({ ...listedColumns, queryText: 'h.query_text', decision: 'd.decision' });
      return row === undefined ? null : recordOf<QueryRecord>(row);
    });
  }

  /**
   * Newest first.
   * @returns `total`: rows that fit the filter, wherever the page is; exact up to a bound, at which it stays
   * @throws GatewayError EG_MALFORMED for an offset beyond that bound that there may be rows at
   */
  find(filter: HistoryFilter, place: HistoryPage): Promise<{ total: number; records: readonly QueryListRow[] }> {
    const { offset, limit, after } = place;
    const dialect = this.database.dialect.name;
    return this.database.run(async (knex) => {
      if (limit <= 0) return { total: await this.total(knex, filter), records: [] };
      if (offset >= TOTAL_BOUND) {
        const counted = await this.total(knex, filter);
        if (counted < TOTAL_BOUND) return { total: counted, records: [] };
        const message = `page reaches beyond row ${TOTAL_BOUND}: narrow the search by from and to, or go on with after.`;
        throw new GatewayError('EG_MALFORMED', message, { field: 'page' });
      }
      // Ids first, by an index in their order, then sizes, then texts: one statement for both would copy all texts.
      const ids = filteredHistory(knex, dialect, filter).select('h.query_id').limit(limit).offset(offset).as('p');
      newestFirst(ids, 'h', after);
      const page = () => knex.from(ids.clone()).join('query_history as h', 'h.query_id', 'p.query_id');
      const texts = await page()
        .select({ size: knex.raw('sum(octet_length(h.query_text))') })
        .first();
      const isLong = Number(texts?.size ?? 0) > PAGE_TEXT;
      const cut = knex.raw('substr(h.query_text, 1, ?)', [Math.ceil(PAGE_TEXT / limit)]);
      const listed = page()
        .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
        .select({ ...listedColumns, queryText: isLong ? cut : 'h.query_text' });
      newestFirst(listed, 'h');
      const rows: Stored<QueryListRow>[] = await listed;
      const isLast = after === undefined && rows.length < limit && (rows.length > 0 || offset === 0);
      return {
        total: isLast ? offset + rows.length : await this.total(knex, filter),
        records: rows.map(recordOf<QueryListRow>),
      };
    });
  }

  /** Rows that fit, counted up to the bound. */
  private async total(knex: Knex, filter: HistoryFilter): Promise<number> {
    const key = JSON.stringify(filter);
    if (this.beyond.has(key)) return TOTAL_BOUND;
    const bounded = filteredHistory(knex, this.database.dialect.name, filter)
      .select(knex.raw('1 as one'))
      .limit(TOTAL_BOUND)
      .as('bounded');
    const counted = await knex.from(bounded).count({ total: '*' }).first();
    const total = Number(counted?.total ?? 0);
    if (total === TOTAL_BOUND) this.beyond.set(key, true);
    return total;
  }

  /** Deletes rows older than `before` in batches, as long as the fence holds (null: no fence); returns how many. */
  async deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    const deleted = await deleteInBatches(this.database, 'query_history', 'created', before, fence);
    await deleteInBatches(this.database, 'eg_query_decisions', 'created', before, fence);
    await deleteInBatches(this.database, 'eg_query_groups', 'created', before, fence);
    return deleted;
  }
}
