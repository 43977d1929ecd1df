import type { Database } from './database.ts';
import { storable } from './historyText.ts';
import type { Dialect } from './store.ts';

export interface ReplayRange {
  /** Milliseconds since 1970, this one included. */
  readonly from: number;
  /** Milliseconds since 1970, this one left out. */
  readonly to: number;
  readonly user?: string;
  readonly source?: string;
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
}

/** Characters that are read of a text: analysing a longer one takes too long for a long history. */
export const MAX_TEXT_LENGTH = 65_536;
/** Characters that are read of a decision: longer ones have the traces of very many rules. */
const MAX_DECISION_LENGTH = 262_144;
const ROWS = 500;

type Row = ReplayedRow & { readonly length: number };

/** Counts characters: MySQL's `length` counts bytes. */
const lengthOf: Readonly<Record<Dialect, string>> = {
  mysql: 'char_length(h.query_text)',
  postgresql: 'length(h.query_text)',
  sqlite: 'length(h.query_text)',
};

/** Location of queries: with a cluster, or denied and rejected ones. */
type Place = 'history' | 'refused';

/** Tables and columns that a database has; one of another gateway, or of an earlier version, lacks some. */
interface Tables {
  readonly hasDecisions: boolean;
  readonly hasRejected: boolean;
}

/**
 * Reads a range of the history, newest first, with submissions that were denied or rejected, in pages that memory holds
 * easily; the next page is read while the last one is worked with.
 * @throws GatewayError EG_DATABASE_UNAVAILABLE
 */
export async function* replayedRows(database: Database, range: ReplayRange): AsyncGenerator<readonly ReplayedRow[]> {
  const has = async (table: string) => (await database.run((knex) => database.dialect.columns(knex, table))) !== null;
  const tables = { hasDecisions: await has('eg_query_decisions'), hasRejected: await has('eg_query_outcomes') };
  const history = new RowReader(database, range, tables, 'history');
  const refused = tables.hasRejected ? new RowReader(database, range, tables, 'refused') : null;
  for (let rows: ReplayedRow[] = []; ; rows = []) {
    while (rows.length < ROWS) {
      const [taken, denied] = [await history.first(), refused === null ? null : await refused.first()];
      if (taken === null && denied === null) break;
      const reader = denied === null || (taken !== null && taken.created >= denied.created) ? history : refused;
      rows.push(reader?.take() as ReplayedRow);
    }
    if (rows.length > 0) yield rows;
    if (rows.length < ROWS) return;
  }
}

class RowReader {
  readonly #page: (after: ReplayedRow | null) => Promise<readonly ReplayedRow[]>;
  #rows: readonly ReplayedRow[] = [];
  #position = 0;
  /** Null: there are no more. */
  #next: Promise<readonly ReplayedRow[]> | null;

  constructor(database: Database, range: ReplayRange, tables: Tables, place: Place) {
    this.#page = (after) => page(database, range, tables, place, after);
    this.#next = this.#page(null);
  }

  /** The row that comes next; null if it is missing. */
  async first(): Promise<ReplayedRow | null> {
    if (this.#position === this.#rows.length && this.#next !== null) {
      this.#rows = await this.#next;
      this.#position = 0;
      const last = this.#rows.at(-1);
      this.#next = last === undefined || this.#rows.length < ROWS ? null : this.#page(last);
      // Its error is thrown where it is awaited, even if the caller does so much later.
      this.#next?.catch(() => undefined);
    }
    return this.#rows[this.#position] ?? null;
  }

  take(): ReplayedRow | null {
    this.#position += 1;
    return this.#rows[this.#position - 1] ?? null;
  }
}

async function page(
  database: Database,
  { from, to, user, source }: ReplayRange,
  { hasDecisions }: Tables,
  place: Place,
  after: Pick<ReplayedRow, 'created' | 'queryId'> | null,
): Promise<readonly ReplayedRow[]> {
  const rows: readonly Row[] = await database.run((knex) => {
    const isRefused = place === 'refused';
    const query = knex(isRefused ? 'eg_query_outcomes as h' : 'query_history as h')
      .where('h.created', '>=', from)
      .where('h.created', '<', to)
      .orderBy([
        { column: 'h.created', order: 'desc' },
        { column: 'h.query_id', order: 'desc' },
      ])
      .limit(ROWS)
      .select({
        ...{ queryId: 'h.query_id', user: 'h.user_name', source: 'h.source', routingGroup: 'h.routing_group' },
        created: 'h.created',
        queryText: knex.raw('substr(h.query_text, 1, ?)', [MAX_TEXT_LENGTH]),
        length: knex.raw(lengthOf[database.dialect.name]),
      });
    if (isRefused) query.where('h.refused', 1);
    if (isRefused) query.select(knex.raw('substr(h.decision, 1, ?) as decision', [MAX_DECISION_LENGTH]));
    else if (hasDecisions) {
      query.leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id');
      query.select(knex.raw('substr(d.decision, 1, ?) as decision', [MAX_DECISION_LENGTH]));
    }
    if (user !== undefined) query.where('h.user_name', storable(user));
    if (source !== undefined) query.where('h.source', storable(source));
    if (after !== null) {
      query.where('h.created', '<=', after.created);
      query.where((older) => older.where('h.created', '<', after.created).orWhere('h.query_id', '<', after.queryId));
    }
    return query;
  });
  return rows.map(({ length, ...row }) => ({
    ...row,
    queryText: row.queryText ?? '',
    isCut: (length ?? 0) > MAX_TEXT_LENGTH,
    created: row.created ?? 0,
    decision: row.decision ?? null,
  }));
}
