import { type Database, type LeaderRow, lockedLeader } from './database.ts';
import type { Fence, LeaderState } from './store.ts';

/** `eg_leader`: one row; its epoch grows with each change of the holder (docs/decisions/0005-guarded-projection.md). */
export class LeaderRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  /**
   * Takes or renews the row; returns the fence held, or null when another holder's row has not expired.
   * @param ttlMs after this time without renewal others may take it (by the database's clock)
   */
  acquire(holder: string, ttlMs: number): Promise<Fence | null> {
    return this.database.transaction(async (trx) => {
      const row = await lockedLeader(trx, this.database);
      if (row === undefined) return null;
      const { now } = row;
      if (row.holder !== holder && row.holder !== null && row.expires > now) return null;
      const epoch = row.holder === holder ? row.epoch : row.epoch + 1;
      await trx('eg_leader')
        .where('name', 'leader')
        .update({ holder, epoch, expires: now + ttlMs });
      return { holder, epoch };
    });
  }

  release(fence: Fence): Promise<void> {
    return this.database.run(async (knex) => {
      await knex('eg_leader')
        .where({ name: 'leader', holder: fence.holder, epoch: fence.epoch })
        .update({ holder: null, expires: 0 });
    });
  }

  /** Whether any replica leads, by the database's clock. */
  state(): Promise<LeaderState> {
    return this.database.run(async (knex) => {
      const { clockMs } = this.database.dialect;
      const row = (await knex('eg_leader')
        .where('name', 'leader')
        .first('holder', 'expires', knex.raw(`${clockMs} as now`))) as LeaderRow | undefined;
      if (row === undefined || row.holder === null) return { isHeld: false, expiredForMs: null };
      const remaining = row.expires - row.now;
      return remaining > 0 ? { isHeld: true, expiredForMs: null } : { isHeld: false, expiredForMs: -remaining };
    });
  }
}
