import type { Knex } from 'knex';
import { newestFirst, prefixed, type QueryPlace, whereGiven, whereWithin } from './columns.ts';
import type { Database } from './database.ts';
import { filteredHistory, textMatches } from './historyRepository.ts';
import { BYPASSED, type OutcomeRow, outcomeColumns, outcomeOfRow } from './outcomeColumns.ts';
import { groupColumn } from './queryGroups.ts';
import { type QueryOutcomeRecord, type QueryState, RUNNING } from './queryOutcome.ts';
import type { HistoryFilter } from './store.ts';

/** Which queries are listed; absent means any. Times in milliseconds, `from` inclusive, `to` exclusive. */
export interface QueryListFilter
  extends Pick<
    HistoryFilter,
    'visibleTo' | 'user' | 'source' | 'cluster' | 'routingGroup' | 'queryId' | 'text' | 'from' | 'to' | 'match'
  > {
  /** A group of the user, exactly; of the first `MAX_QUERY_GROUPS`. */
  readonly userGroup?: string;
  readonly states?: readonly QueryState[];
  readonly errorName?: string;
  readonly errorType?: string;
  /** Digest of the shape of the statement. */
  readonly digest?: string;
  /** Inclusive bounds of the time from begin to end. */
  readonly minElapsedMillis?: number;
  readonly maxElapsedMillis?: number;
}

export interface ListedOutcome {
  readonly queryId: string;
  readonly queryText: string;
  readonly user: string | null;
  readonly source: string | null;
  readonly routingGroup: string | null;
  /** Registry name; null if no cluster took it. */
  readonly cluster: string | null;
  /** Rule that decided its group or rejected it; null for none, and while it has no row of an outcome. */
  readonly rule: string | null;
  /** Milliseconds since 1970. */
  readonly created: number;
  /** True if it was not sent through the gateway. */
  readonly bypassed: boolean;
  /** Null: it continues, or no one saw its end. */
  readonly outcome: QueryOutcomeRecord | null;
}

/** Short form of a query's outcome. */
export interface QueryEnd {
  readonly state: QueryState;
  readonly errorName: string | null;
  readonly elapsedMillis: number | null;
  readonly digest: string | null;
}

export type QueryList = ReturnType<typeof queryList>;

const LONG = ['query_text', 'decision', 'inputs'];
/** Columns of outcomes under names of their own, but for long texts. */
const outcomeSelection = outcomeColumns
  .filter(({ name }) => !LONG.includes(name))
  .map(({ name }) => `o.${name} as o_${name}`);

type Row = Readonly<Record<string, string | number | null>>;

/** Page of the list: the number of queries after a mark, and the characters of each statement. */
interface Page {
  readonly limit: number;
  readonly after: QueryPlace | null;
  readonly textLength: number;
}

/** The list over `query_history`, `eg_query_decisions`, `eg_query_outcomes` and `eg_query_groups`. */
export function queryList(database: Database) {
  const dialect = database.dialect.name;
  const start = (knex: Knex, column: string, length: number, name = 'query_text') =>
    knex.raw(`substr(${column}, 1, ?) as ${name}`, [length]);
  const paged = (query: Knex.QueryBuilder, table: 'h' | 'o' | 'g', { limit, after }: Page) => {
    newestFirst(query, table, after);
    return query.limit(limit);
  };

  /**
   * Narrows to the queries of a group.
   * @param isNarrow whether few rows are left without it: then these are read in their order, and each is looked up; else the rows of the
   * group are, whose index has them in the order of the list
   * @returns the table whose times order the list
   */
  const ofGroup = (query: Knex.QueryBuilder, table: 'h' | 'o', filter: QueryListFilter, isNarrow: boolean) => {
    const { userGroup } = filter;
    if (userGroup === undefined) return table;
    const name = groupColumn(userGroup);
    if (isNarrow) {
      // Its rows are of the same time as those of the table: the whole key is known.
      const row = `select 1 from eg_query_groups g where g.group_name = ? and g.created = ${table}.created`;
      query.whereRaw(`exists (${row} and g.query_id = ${table}.query_id)`, [name]);
      return table;
    }
    query.join('eg_query_groups as g', 'g.query_id', `${table}.query_id`).where('g.group_name', name);
    whereWithin(query, 'g.created', filter);
    return 'g';
  };

  /** Queries that clusters took, as the history has them. */
  const taken = async (knex: Knex, filter: QueryListFilter, page: Page) => {
    const filtered = filteredHistory(knex, dialect, filter).select('h.query_id');
    const isNarrow = filter.user !== undefined || filter.queryId !== undefined;
    const ids = paged(filtered, ofGroup(filtered, 'h', filter, isNarrow), page).as('p');
    const rows: Row[] = await knex
      .from(ids)
      .join('query_history as h', 'h.query_id', 'p.query_id')
      .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
      .leftJoin('eg_query_outcomes as o', 'o.query_id', 'h.query_id')
      .select('h.query_id', 'h.created', 'h.user_name', 'h.source', 'h.routing_group', 'd.cluster')
      .select(start(knex, 'h.query_text', page.textLength), ...outcomeSelection);
    return rows.map(listed);
  };

  /** Those whose outcomes fit. @param only a class of queries that the history does not have: 1 or `BYPASSED`; null: all */
  const ended = async (knex: Knex, filter: QueryListFilter, page: Page, only: number | null) => {
    const areRejected = only !== null;
    const query = knex('eg_query_outcomes as o')
      .leftJoin('query_history as h', 'h.query_id', 'o.query_id')
      .select({
        query_id: 'o.query_id',
        created: filter.userGroup === undefined || areRejected ? 'o.created' : 'g.created',
      })
      .select({ user_name: 'o.user_name', source: 'o.source' })
      .select({ routing_group: 'o.routing_group', cluster: 'o.cluster' })
      // Not coalesced: the tables may be of different character sets.
      .select(
        start(knex, 'h.query_text', page.textLength),
        start(knex, 'o.query_text', page.textLength, 'refused_text'),
        ...outcomeSelection,
      );
    if (areRejected) query.where('o.refused', only);
    if (filter.visibleTo !== undefined) {
      const { user: own, clusters, groups } = filter.visibleTo;
      query.where((visible) => {
        visible.where('o.user_name', own).orWhereIn('o.cluster', clusters);
        visible.orWhere((untaken) => untaken.whereNull('o.cluster').whereIn('o.routing_group', groups));
      });
    }
    const { user, source, cluster, routingGroup, queryId } = filter;
    const equal = { user_name: user, source, cluster, routing_group: routingGroup, query_id: queryId };
    whereGiven(query, prefixed('o', equal), filter.match === 'prefix');
    whereWithin(query, 'o.created', filter);
    const { states, errorName, errorType, digest, minElapsedMillis, maxElapsedMillis, text } = filter;
    if (states !== undefined) query.whereIn('o.state', [...states]);
    else query.whereNot('o.state', RUNNING);
    if (errorName !== undefined) query.where('o.error_name', errorName);
    if (errorType !== undefined) query.where('o.error_type', errorType);
    if (digest !== undefined) query.where('o.digest', digest);
    if (minElapsedMillis !== undefined) query.where('o.elapsed_ms', '>=', minElapsedMillis);
    if (maxElapsedMillis !== undefined) query.where('o.elapsed_ms', '<=', maxElapsedMillis);
    if (text !== undefined) {
      query.where((either) => {
        textMatches(either, dialect, 'h.query_text', text);
        either.orWhere((refused) => textMatches(refused, dialect, 'o.query_text', text));
      });
    }
    const rows = (await paged(query, ofGroup(query, 'o', filter, areRejected), page)) as Row[];
    return rows.map(listed);
  };

  return {
    /** Newest first. @param textLength characters of each statement */
    find: (
      filter: QueryListFilter,
      limit: number,
      after: QueryPlace | null,
      textLength: number,
    ): Promise<readonly ListedOutcome[]> =>
      database.run(async (knex) => {
        if (limit <= 0) return [];
        const page = { limit, after, textLength };
        if (asksForOutcomes(filter)) return await ended(knex, filter, page, null);
        const others = [...(await ended(knex, filter, page, 1)), ...(await ended(knex, filter, page, BYPASSED))];
        // For a moment a query may be in both.
        const byId = new Map([...others, ...(await taken(knex, filter, page))].map((each) => [each.queryId, each]));
        return [...byId.values()].sort(byTime).slice(0, limit);
      }),
    /** Outcomes of queries by id, without running ones. @param ids of a page: 2,000 at most */
    ends: (ids: readonly string[]): Promise<ReadonlyMap<string, QueryEnd>> =>
      database.run(async (knex) => {
        if (ids.length === 0) return new Map();
        const rows: (QueryEnd & { readonly queryId: string })[] = await knex('eg_query_outcomes')
          .whereIn('query_id', [...ids])
          .whereNot('state', RUNNING)
          .select({
            queryId: 'query_id',
            state: 'state',
            errorName: 'error_name',
            elapsedMillis: 'elapsed_ms',
            digest: 'digest',
          });
        return new Map(rows.map(({ queryId, ...end }) => [queryId, end]));
      }),
  };
}

function asksForOutcomes(filter: QueryListFilter): boolean {
  const { states, errorName, errorType, digest, minElapsedMillis, maxElapsedMillis } = filter;
  return [states, errorName, errorType, digest, minElapsedMillis, maxElapsedMillis].some(
    (value) => value !== undefined,
  );
}

function byTime(a: ListedOutcome, b: ListedOutcome): number {
  return b.created - a.created || (a.queryId < b.queryId ? 1 : -1);
}

function listed(row: Row): ListedOutcome {
  const text = (name: string) => (row[name] === null || row[name] === undefined ? null : String(row[name]));
  const columns = outcomeColumns.map(({ name }) => [name, row[`o_${name}`] ?? null] as const);
  const outcome = row.o_query_id === null ? null : outcomeOfRow(Object.fromEntries(columns) as OutcomeRow);
  const cluster = text('cluster');
  return {
    queryId: text('query_id') ?? '',
    queryText: text('query_text') ?? text('refused_text') ?? '',
    user: text('user_name'),
    source: text('source'),
    routingGroup: text('routing_group'),
    cluster: cluster === '' ? null : cluster,
    rule: outcome?.rule ?? null,
    created: Number(row.created ?? 0),
    bypassed: outcome?.bypassed ?? false,
    outcome: outcome === null || outcome.state === RUNNING ? null : outcome,
  };
}
