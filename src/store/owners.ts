import type { Knex } from 'knex';
import { type ColumnNames, toColumns } from './columns.ts';
import { agedTable } from './deletion.ts';
import type { CoordinatorRow, QueryOwnerRow, TransactionRow } from './store.ts';

/** Rows of one cluster: far more than a coordinator that restarts again and again needs in the 7 days that rows are kept. */
const MAX_ROWS_PER_CLUSTER = 256;

/** Base of the tables of owners: each id has one, the first. */
function ownerTable<R extends { readonly proxyTo: string }>(
  table: string,
  age: string,
  key: keyof R & string,
  columns: ColumnNames<R>,
) {
  return class extends agedTable(table, age) {
    get(id: string): Promise<R | null> {
      return this.database.run((knex) => this.read(knex, id));
    }

    /** Stores the owner of an id that has none. @returns the row that is there afterwards: another one when that was first */
    learn(row: R): Promise<R> {
      return this.database.run((knex) => this.stored(knex, row));
    }

    /** Gives an id to another owner where the stored row has the base URL `from`. @returns the row that is there afterwards */
    replace(row: R, from: string): Promise<R> {
      return this.database.run(async (knex) => {
        await this.update(knex, row, from);
        return (await this.read(knex, String(row[key]))) ?? row;
      });
    }

    protected async stored(knex: Knex, row: R): Promise<R> {
      await knex(table).insert(toColumns(row, columns)).onConflict(columns[key]).ignore();
      return (await this.read(knex, String(row[key]))) ?? row;
    }

    protected async update(knex: Knex, row: R, from: string): Promise<void> {
      await knex(table)
        .where({ [columns[key]]: row[key], base_url: from })
        .update(toColumns(row, columns));
    }

    protected async read(knex: Knex, id: string): Promise<R | null> {
      return ((await knex(table).where(columns[key], id).first(columns)) ?? null) as R | null;
    }
  };
}

/** `eg_queries`: owners of queries whose ids end in no suffix. */
export class QueryOwnerRepository extends ownerTable<QueryOwnerRow>('eg_queries', 'created', 'queryId', {
  queryId: 'query_id',
  cluster: 'cluster',
  proxyTo: 'base_url',
  created: 'created',
}) {}

/** `eg_transactions`: the clusters of transactions that clients have begun (docs/routing.md#transactions). */
export class TransactionRepository extends ownerTable<TransactionRow>('eg_transactions', 'created', 'transactionId', {
  transactionId: 'transaction_id',
  cluster: 'cluster',
  proxyTo: 'base_url',
  created: 'created',
}) {
  /** Stores a new transaction; returns the row that is there afterwards: the first one stays. */
  begin(row: TransactionRow): Promise<TransactionRow> {
    return this.learn(row);
  }

  /** Deletes a transaction, if it belongs to the cluster at the base URL. */
  end(transactionId: string, proxyTo: string): Promise<void> {
    return this.database.run(async (knex) => {
      await knex('eg_transactions').where({ transaction_id: transactionId, base_url: proxyTo }).delete();
    });
  }
}

const coordinatorColumns = {
  suffix: 'suffix',
  cluster: 'cluster',
  proxyTo: 'base_url',
  uid: 'cluster_uid',
  lastSeen: 'last_seen',
} as const;

/** `eg_coordinators`: who owns the query ids that end in a suffix. */
export class CoordinatorRepository extends ownerTable<CoordinatorRow>(
  'eg_coordinators',
  'last_seen',
  'suffix',
  coordinatorColumns,
) {
  all(): Promise<readonly CoordinatorRow[]> {
    return this.database.run(async (knex) =>
      (await knex('eg_coordinators').orderBy('suffix').select(coordinatorColumns)).map(withoutNull),
    );
  }

  /** As of other owners; of many rows of one cluster the oldest are deleted. */
  override learn(row: CoordinatorRow): Promise<CoordinatorRow> {
    return this.database.run(async (knex) => {
      const stored = await this.stored(knex, row);
      if (stored.cluster === row.cluster) await this.#deleteOldest(knex, row);
      return stored;
    });
  }

  /**
   * Gives a suffix to another owner.
   * @param row the new row
   * @param from base URL that the stored row must have
   * @param unseenSince milliseconds since 1970: no row of that base URL may have been seen at or after it; null: whenever
   * @returns the row that is there afterwards
   */
  override replace(row: CoordinatorRow, from: string, unseenSince: number | null = null): Promise<CoordinatorRow> {
    return this.database.run(async (knex) => {
      // Each statement by itself: the update compares the owner again, and what is read afterwards is what others see.
      await this.stored(knex, row);
      if (unseenSince === null || !(await wasSeen(knex, from, unseenSince))) await this.update(knex, row, from);
      return (await this.read(knex, row.suffix)) ?? row;
    });
  }

  touch(suffixes: readonly string[], lastSeen: number): Promise<void> {
    return this.database.run(async (knex) => {
      if (suffixes.length === 0) return;
      await knex('eg_coordinators')
        .whereIn('suffix', [...suffixes].sort())
        .where('last_seen', '<', lastSeen)
        .update({ last_seen: lastSeen });
    });
  }

  protected override async read(knex: Knex, suffix: string): Promise<CoordinatorRow | null> {
    const row = await super.read(knex, suffix);
    return row === null ? null : withoutNull(row);
  }

  /** A cluster that claims one suffix after the other displaces its own rows only. */
  async #deleteOldest(knex: Knex, { suffix, cluster }: CoordinatorRow): Promise<void> {
    const old: string[] = await knex('eg_coordinators')
      .where('cluster', cluster)
      .whereNot('suffix', suffix)
      .orderBy([{ column: 'last_seen', order: 'desc' }, { column: 'suffix' }])
      .offset(MAX_ROWS_PER_CLUSTER - 1)
      .limit(MAX_ROWS_PER_CLUSTER)
      .pluck('suffix');
    if (old.length > 0) await knex('eg_coordinators').where({ cluster }).whereIn('suffix', old).delete();
  }
}

/** A resource that is not known is left out. */
function withoutNull({ uid, ...row }: CoordinatorRow): CoordinatorRow {
  return uid == null ? row : { ...row, uid };
}

async function wasSeen(knex: Knex, proxyTo: string, since: number): Promise<boolean> {
  const row = await knex('eg_coordinators').where('base_url', proxyTo).where('last_seen', '>=', since).first('suffix');
  return row !== undefined;
}
