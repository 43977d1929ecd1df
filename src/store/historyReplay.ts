import { newestFirst, type QueryPlace, storable, whereWithin } from './columns.ts';
import type { Database } from './database.ts';
import { RUNNING } from './queryOutcome.ts';
import type { Dialect } from './store.ts';

export interface ReplayRange {
  /** Milliseconds since 1970, this one included. */
  readonly from: number;
  /** Milliseconds since 1970, this one left out. */
  readonly to: number;
  readonly user?: string;
  readonly source?: string;
  /** True: rows have `statement`, and queries without a cluster are left out. */
  readonly withStatements?: boolean;
  /** Only queries that ended since, in milliseconds since 1970, and before `to`; with `withStatements`. */
  readonly endedFrom?: number;
}

/** Inputs of a replay of a recorded query on a cluster, and its end. */
interface RecordedStatement {
  readonly digest: string | null;
  /** Session and completeness, as JSON (docs/digests.md#replay). */
  readonly replay: string | null;
  readonly state: string | null;
  readonly errorType: string | null;
  readonly errorName: string | null;
  readonly errorMessage: string | null;
  readonly cpuMillis: number | null;
}

export interface ReplayedRow {
  readonly queryId: string;
  /** The text, or the start of one that is longer than `MAX_TEXT_LENGTH`. */
  readonly queryText: string;
  readonly isCut: boolean;
  readonly user: string | null;
  readonly source: string | null;
  readonly created: number;
  readonly routingGroup: string | null;
  /** `StoredDecision` as JSON; null if another gateway wrote the row. */
  readonly decision: string | null;
  /** Only with `withStatements`. */
  readonly statement?: RecordedStatement;
}

/** Characters that are read of a text: analysing a longer one takes too long for a long history. */
export const MAX_TEXT_LENGTH = 65_536;
/** Characters that are read of a decision: longer ones have the traces of very many rules. */
const MAX_DECISION_LENGTH = 262_144;
const ROWS = 500;

type Row = ReplayedRow & RecordedStatement & { readonly length: number };

/** Counts characters: MySQL's `length` counts bytes. */
const lengthOf: Readonly<Record<Dialect, string>> = {
  mysql: 'char_length(h.query_text)',
  postgresql: 'length(h.query_text)',
  sqlite: 'length(h.query_text)',
};

/** Location of queries: with a cluster, or denied and rejected ones. */
type Place = 'history' | 'refused';

/**
 * Reads a range of the history, newest first, with submissions that were denied or rejected, in pages that memory holds
 * easily; the next page is read while the last one is worked with. The tables of another gateway, or of an earlier
 * version, lack some.
 * @throws GatewayError EG_DATABASE_UNAVAILABLE
 */
export async function* replayedRows(database: Database, range: ReplayRange): AsyncGenerator<readonly ReplayedRow[]> {
  const has = async (table: string) => (await database.run((knex) => database.dialect.columns(knex, table))) !== null;
  const hasDecisions = await has('eg_query_decisions');
  const hasRejected = range.withStatements !== true && (await has('eg_query_outcomes'));
  const places: readonly Place[] = hasRejected ? ['history', 'refused'] : ['history'];
  const readers = places.map((place) => rowsOf((after) => page(database, range, hasDecisions, place, after)));
  const heads: (ReplayedRow | undefined)[] = [];
  for (const reader of readers) heads.push((await reader.next()).value);
  for (let rows: ReplayedRow[] = []; ; rows = []) {
    while (rows.length < ROWS) {
      const [first, second] = heads;
      const next = first === undefined || (second !== undefined && second.created > first.created) ? 1 : 0;
      const row = heads[next];
      if (row === undefined) break;
      rows.push(row);
      heads[next] = (await readers[next]?.next())?.value;
    }
    if (rows.length > 0) yield rows;
    if (rows.length < ROWS) return;
  }
}

/** Reads page after page, one ahead. */
async function* rowsOf(
  read: (after: ReplayedRow | null) => Promise<readonly ReplayedRow[]>,
): AsyncGenerator<ReplayedRow, undefined> {
  for (let next: Promise<readonly ReplayedRow[]> | null = read(null); next !== null; ) {
    const rows: readonly ReplayedRow[] = await next;
    next = rows.length < ROWS ? null : read(rows.at(-1) ?? null);
    // Its error is thrown where it is awaited, even if the caller does so much later.
    next?.catch(() => undefined);
    yield* rows;
  }
}

async function page(
  database: Database,
  range: ReplayRange,
  hasDecisions: boolean,
  place: Place,
  after: QueryPlace | null,
): Promise<readonly ReplayedRow[]> {
  const rows: readonly Row[] = await database.run((knex) => {
    const isRejected = place === 'refused';
    const query = knex(isRejected ? 'eg_query_outcomes as h' : 'query_history as h')
      .limit(ROWS)
      .select({
        ...{ queryId: 'h.query_id', user: 'h.user_name', source: 'h.source', routingGroup: 'h.routing_group' },
        created: 'h.created',
        queryText: knex.raw('substr(h.query_text, 1, ?)', [MAX_TEXT_LENGTH]),
        length: knex.raw(lengthOf[database.dialect.name]),
      });
    if (isRejected) query.where('h.refused', 1);
    if (isRejected) query.select(knex.raw('substr(h.decision, 1, ?) as decision', [MAX_DECISION_LENGTH]));
    else if (hasDecisions) {
      query.leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id');
      query.select(knex.raw('substr(d.decision, 1, ?) as decision', [MAX_DECISION_LENGTH]));
      if (range.withStatements === true) {
        query.leftJoin('eg_query_outcomes as o', 'o.query_id', 'h.query_id').select({
          ...{ digest: 'd.digest', replay: 'd.replay', state: 'o.state', errorType: 'o.error_type' },
          ...{ errorName: 'o.error_name', errorMessage: 'o.error_message' },
          cpuMillis: 'o.cpu_ms',
        });
      }
    }
    if (range.endedFrom !== undefined)
      query.whereNot('o.state', RUNNING).whereBetween('o.last_seen', [range.endedFrom, range.to - 1]);
    if (range.user !== undefined) query.where('h.user_name', storable(range.user));
    if (range.source !== undefined) query.where('h.source', storable(range.source));
    whereWithin(query, 'h.created', range);
    newestFirst(query, 'h', after);
    return query;
  });
  return rows.map(({ length, digest, replay, state, errorType, errorName, errorMessage, cpuMillis, ...row }) => ({
    ...row,
    ...(range.withStatements === true && {
      statement: {
        ...{ digest, replay, state, errorType, errorName, errorMessage },
        cpuMillis: cpuMillis === null ? null : Number(cpuMillis),
      },
    }),
    queryText: row.queryText ?? '',
    isCut: (length ?? 0) > MAX_TEXT_LENGTH,
    created: row.created ?? 0,
    decision: row.decision ?? null,
  }));
}
