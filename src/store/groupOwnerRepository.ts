import type { Database } from './database.ts';
import { fenceHolds } from './leaderRepository.ts';
import type { Fence } from './store.ts';

const TABLE = 'eg_group_owners';
/** Rows of one statement. */
const BATCH = 100;

/** `root` of the record of a resource that declares `cpu_quota_period`: no group has this name. */
export const PERIOD_ROOT = '';

/** One environment of a database in which a resource owns root groups. */
export interface GroupPlace {
  /** Of the resource. */
  readonly namespace: string;
  /** `metadata.name` */
  readonly name: string;
  /** Null: the gateway's own. */
  readonly database: string | null;
  readonly environment: string;
}

/** A root group that a resource owns, with all groups below it and their selectors. */
export interface GroupOwner extends GroupPlace {
  /** Name of the root group; `PERIOD_ROOT`: the period of CPU limits, which several resources may declare alike. */
  readonly root: string;
  readonly uid: string;
  /** Generation of the resource that was written last, or is being written. */
  readonly generation: number;
  /** False: a write of that generation began, and its end was not noted. */
  readonly isApplied: boolean;
}

/** What `GroupOwnerRepository.set` notes of a place. */
export interface OwnedRoots extends Pick<GroupOwner, 'uid' | 'generation' | 'isApplied'> {
  readonly roots: Iterable<string>;
}

/** `eg_group_owners`: which resource owns which root groups of the tables that engines read. */
export class GroupOwnerRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  all(): Promise<readonly GroupOwner[]> {
    return this.database.run(async (knex) => {
      const rows: GroupOwner[] = await knex(TABLE)
        .select('namespace', 'name', 'environment', 'uid', 'generation')
        .select({ database: 'database_name', root: 'root_group', isApplied: 'is_applied' })
        .orderBy(['namespace', 'name', 'database_name', 'environment', 'root_group']);
      // Drivers give big integers as text, and truth values as numbers.
      return rows.map((row) => ({
        ...row,
        ...{ database: row.database || null, generation: Number(row.generation), isApplied: Boolean(row.isApplied) },
      }));
    });
  }

  /**
   * Stores the roots that a resource owns in a place, whole. A root that another resource owned changes its owner.
   * @param fence null: the caller need not lead
   */
  set(
    { namespace, name, database, environment }: GroupPlace,
    { roots, uid, generation, isApplied }: OwnedRoots,
    fence: Fence | null,
  ): Promise<'stored' | 'fenced'> {
    return this.database.transaction(async (trx) => {
      // The row that this locks has replicas write one after the other.
      const isLeader = await fenceHolds(trx, this.database, fence ?? { holder: '', epoch: 0 });
      if (fence !== null && !isLeader) return 'fenced';
      const place = { database_name: database ?? '', environment };
      await trx(TABLE)
        .where({ namespace, name, ...place })
        .delete();
      const owned = { namespace, name, ...place, uid, generation, is_applied: isApplied ? 1 : 0 };
      const rows = [...roots].map((root) => ({ ...owned, root_group: root }));
      for (let start = 0; start < rows.length; start += BATCH) {
        const batch = rows.slice(start, start + BATCH);
        const groups = batch.map(({ root_group }) => root_group).filter((root) => root !== PERIOD_ROOT);
        await trx(TABLE).where(place).whereIn('root_group', groups).delete();
        await trx(TABLE).insert(batch);
      }
      return 'stored';
    });
  }
}
