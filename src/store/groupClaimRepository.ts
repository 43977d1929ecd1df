import type { Knex } from 'knex';
import type { Database } from './database.ts';
import { fenceHolds } from './leaderRepository.ts';
import type { Fence, GroupClaim, GroupClaimKey, GroupClaimRepository, GroupDrift } from './store.ts';

const TABLE = 'eg_group_claims';

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly namespace: string;
  readonly name: string;
  /** Empty: the gateway's own. */
  readonly database_name: string;
  readonly environment: string;
  readonly uid: string;
  readonly generation: number | string;
  readonly digest: string;
  readonly paths: string;
  readonly period: string | null;
  readonly groups_count: number;
  readonly selectors_count: number;
  readonly is_applied: number;
  readonly drift: string | null;
}

/** `eg_group_claims`, a row for each environment of a database that a resource declares groups of. */
export class KnexGroupClaimRepository implements GroupClaimRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  all(): Promise<readonly GroupClaim[]> {
    return this.database.run(async (knex) => {
      const rows: Row[] = await knex(TABLE).select('*').orderBy(['namespace', 'name', 'database_name', 'environment']);
      return rows.map(fromRow);
    });
  }

  put(claims: readonly GroupClaim[], fence: Fence | null): Promise<'stored' | 'fenced'> {
    return this.fenced(fence, async (trx) => {
      for (const claim of claims) {
        const row = toRow(claim);
        await trx(TABLE)
          .insert(row)
          .onConflict(['namespace', 'name', 'database_name', 'environment'])
          .merge(Object.keys(row).filter((column) => !(column in keyColumns(claim))));
      }
    });
  }

  remove(key: GroupClaimKey, fence: Fence | null): Promise<'stored' | 'fenced'> {
    return this.fenced(fence, async (trx) => {
      await trx(TABLE).where(keyColumns(key)).delete();
    });
  }

  private fenced(fence: Fence | null, work: (trx: Knex.Transaction) => Promise<void>): Promise<'stored' | 'fenced'> {
    return this.database.transaction(async (trx) => {
      if (fence !== null && !(await fenceHolds(trx, this.database, fence))) return 'fenced';
      await work(trx);
      return 'stored';
    });
  }
}

function keyColumns({ namespace, name, database, environment }: GroupClaimKey) {
  return { namespace, name, database_name: database ?? '', environment };
}

function toRow(claim: GroupClaim): Row {
  return {
    ...keyColumns(claim),
    uid: claim.uid,
    generation: claim.generation,
    digest: claim.digest,
    paths: JSON.stringify(claim.paths),
    period: claim.period,
    groups_count: claim.groups,
    selectors_count: claim.selectors,
    is_applied: claim.isApplied ? 1 : 0,
    drift: claim.drift === null ? null : JSON.stringify(claim.drift),
  };
}

function fromRow(row: Row): GroupClaim {
  const { namespace, name, environment, uid, digest, period } = row;
  return {
    ...{ namespace, name, environment, uid, digest, period },
    database: row.database_name === '' ? null : row.database_name,
    generation: Number(row.generation),
    paths: JSON.parse(row.paths) as string[],
    groups: row.groups_count,
    selectors: row.selectors_count,
    isApplied: row.is_applied === 1,
    drift: row.drift === null ? null : (JSON.parse(row.drift) as GroupDrift),
  };
}
