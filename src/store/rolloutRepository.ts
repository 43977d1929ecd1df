import { type Database, fenceHolds } from './database.ts';
import type { Fence } from './store.ts';

/** Queries of a step that are judged; the newest of more. */
const MAX_JUDGED = 50_000;

/** A row of `eg_rollouts`. */
export interface RolloutRow {
  /** Uid of the resource. */
  readonly id: string;
  /** Grows by one with each change. */
  readonly generation: number;
  /** JSON. */
  readonly state: string;
}

/** A query that was started on a cluster of a rollout; the state is null without an outcome. */
export interface RolloutQueryRow {
  readonly query_id: string;
  readonly created: number;
  readonly cluster: string;
  readonly user_name: string | null;
  readonly digest: string | null;
  readonly state: string | null;
  readonly error_type: string | null;
  readonly error_name: string | null;
  readonly cpu_ms: number | null;
  readonly elapsed_ms: number | null;
}

/** States of rollouts, and the queries that are judged (docs/database.md#rollouts). */
export class RolloutRepository {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async all(): Promise<readonly RolloutRow[]> {
    const rows: RolloutRow[] = await this.#database.run((knex) =>
      knex('eg_rollouts').select('id', 'generation', 'state'),
    );
    return rows.map((row) => ({ ...row, generation: Number(row.generation) }));
  }

  /**
   * Stores a state if the row still has a generation.
   * @param generation 0: there is no row yet
   * @param state null: the row is deleted
   * @param fence of the leader; null for an action of a user
   * @returns false if another write came first, or the leader has changed
   */
  async replace(id: string, generation: number, state: string | null, fence: Fence | null): Promise<boolean> {
    return await this.#database.transaction(async (trx) => {
      if (fence !== null && !(await fenceHolds(trx, this.#database, fence))) return false;
      const present = await trx('eg_rollouts').where({ id }).forUpdate().first('generation');
      if (Number(present?.generation ?? 0) !== generation) return false;
      if (state === null) await trx('eg_rollouts').where({ id }).delete();
      else if (generation === 0) await trx('eg_rollouts').insert({ id, generation: 1, state });
      else
        await trx('eg_rollouts')
          .where({ id })
          .update({ generation: generation + 1, state });
      return true;
    });
  }

  /** Queries that started on some clusters at or after a time, in order of start. */
  async queries(clusters: readonly string[], since: number): Promise<readonly RolloutQueryRow[]> {
    const rows: RolloutQueryRow[] = await this.#database.run((knex) =>
      knex('eg_query_decisions as d')
        .join('query_history as h', 'h.query_id', 'd.query_id')
        .leftJoin('eg_query_outcomes as o', 'o.query_id', 'd.query_id')
        .whereIn('d.cluster', clusters)
        .where('d.created', '>=', since)
        .orderBy('d.created', 'desc')
        .limit(MAX_JUDGED)
        .select('d.query_id', 'd.created', 'd.cluster', 'h.user_name', 'd.digest')
        .select('o.state', 'o.error_type', 'o.error_name', 'o.cpu_ms', 'o.elapsed_ms'),
    );
    return rows.reverse();
  }
}
