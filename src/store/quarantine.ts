import type { Knex } from 'knex';
import { cutToWidth } from './columns.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { Fence } from './store.ts';

const HOUR = 3_600_000;
const WIDTH = 256;
/** Clusters that a statement loses within an hour before it is quarantined. */
const MIN_CLUSTERS = 2;
/** Quarantined statements of one shape, and users of them, before the shape is. */
const MIN_STATEMENTS = 3;
const MIN_USERS = 2;
const MAX_ROWS = 1_000;
/** Longest duration of a query that counts as a success of the last hour. */
const MAX_QUERY_MS = 24 * HOUR;
const TABLE = 'eg_lost_queries';

/** A query that its cluster lost. */
interface LostQuery {
  readonly queryId: string;
  readonly cluster: string;
  readonly group: string;
  readonly user: string | null;
  /** Catalog and schema in which it runs. */
  readonly qualifier: string;
  readonly exactDigest: string;
  readonly digest: string;
}

interface LostRow {
  readonly group: string;
  /** Null: all statements of the shape. */
  readonly exactDigest: string | null;
  readonly digest: string;
  /** Null: of a shape. */
  readonly qualifier: string | null;
  readonly cluster: string;
  readonly user: string;
  /** Milliseconds since 1970 of the loss, of the end, and of the reading, by the database's clock. */
  readonly since: number;
  readonly until: number;
  readonly now: number;
  readonly ofShape: number | null;
}

/** A statement, or a shape of statements, that a routing group rejects. */
export interface QuarantinedStatement extends Omit<LostRow, 'cluster' | 'user' | 'ofShape'> {
  readonly clusters: readonly string[];
  readonly users: readonly string[];
}

export type Quarantine = ReturnType<typeof quarantine>;

const unique = <T, K extends keyof T>(rows: readonly T[], column: K): T[K][] =>
  [...new Set(rows.map((row) => row[column]))].sort();

/** `eg_lost_queries`: reads that lost their clusters, and statements that are rejected therefore (docs/survival.md#quarantine). */
export function quarantine(database: Database) {
  const { clockMs } = database.dialect;
  const isActive = `until_at > ${clockMs}`;
  const isRecent = `lost_at > ${clockMs} - ${HOUR}`;
  const hasSucceeded = async (knex: Knex, digests: object) => {
    const ended = knex('eg_query_outcomes').where({ ...digests, state: 'FINISHED' });
    void ended.whereRaw(`created > ${clockMs} - ${MAX_QUERY_MS}`);
    const row = await ended.whereRaw(`created + coalesce(elapsed_ms, 0) > ${clockMs} - ${HOUR}`).first('query_id');
    return row !== undefined;
  };

  return {
    /**
     * Notes the loss of a query. Each statement reads what others committed, so that of two replicas one sees both losses.
     * @returns `new` if its statement is quarantined from now on, `yes` if it is already
     */
    note: ({ queryId, cluster, group, user, ...lost }: LostQuery): Promise<'new' | 'yes' | 'no'> =>
      database.run(async (knex) => {
        const digests = { digest: lost.digest, exact_digest: lost.exactDigest };
        const shape = { routing_group: cutToWidth(group, WIDTH), digest: lost.digest };
        const exact = { ...shape, ...digests, qualifier: cutToWidth(lost.qualifier, WIDTH) };
        const names = { cluster: cutToWidth(cluster, WIDTH), user_name: cutToWidth(user ?? '', WIDTH) };
        const row = { ...exact, ...names, query_id: cutToWidth(queryId, WIDTH), lost_at: knex.raw(clockMs) };
        await knex(TABLE).insert(row).onConflict(['digest', 'query_id']).ignore();
        const recent = knex(TABLE).where(exact).whereRaw(isRecent);
        const own: { cluster: string; until_at: number | null }[] = await recent
          .clone()
          .distinct('cluster', 'until_at')
          .limit(MAX_ROWS);
        if (own.some(({ until_at }) => until_at !== null)) return 'yes';
        if (unique(own, 'cluster').length < MIN_CLUSTERS || (await hasSucceeded(knex, digests))) return 'no';
        const changed = await recent.whereNull('until_at').update({ until_at: knex.raw(`${clockMs} + ${HOUR}`) });
        const alike = knex(TABLE).where(shape).whereRaw(isActive);
        const others: { exact_digest: string; user_name: string }[] = await alike
          .clone()
          .distinct('exact_digest', 'user_name')
          .limit(MAX_ROWS);
        const isMany = unique(others, 'exact_digest').length >= MIN_STATEMENTS;
        const isOfMany = unique(others, 'user_name').length >= MIN_USERS;
        if (isMany && isOfMany && !(await hasSucceeded(knex, { digest: lost.digest })))
          await alike.update({ of_shape: 1 });
        return changed > 0 ? 'new' : 'yes';
      }),

    /** Statements and shapes that are quarantined now, shapes first. */
    active: (): Promise<readonly QuarantinedStatement[]> =>
      database.run(async (knex) => {
        const rows: LostRow[] = await knex(TABLE)
          .whereRaw(isActive)
          .orderBy('until_at', 'desc')
          .limit(MAX_ROWS)
          .select({
            ...{ group: 'routing_group', cluster: 'cluster', user: 'user_name', qualifier: 'qualifier' },
            ...{ exactDigest: 'exact_digest', digest: 'digest', since: 'lost_at', until: 'until_at' },
            ...{ ofShape: 'of_shape', now: knex.raw(clockMs) },
          });
        const shapes = rows
          .filter(({ ofShape }) => ofShape)
          .map((row) => ({ ...row, exactDigest: null, qualifier: null }));
        const keyOf = (row: LostRow) => JSON.stringify([row.group, row.digest, row.exactDigest, row.qualifier]);
        return [...Map.groupBy([...shapes, ...rows], keyOf).values()].map((own) => ({
          ...(own[0] as LostRow),
          ...{ clusters: unique(own, 'cluster'), users: unique(own, 'user') },
          ...{ since: Math.min(...unique(own, 'since')), until: Math.max(...unique(own, 'until')) },
        }));
      }),

    deleteBefore: (time: number, fence: Fence | null = null): Promise<number> =>
      deleteInBatches(database, TABLE, 'lost_at', time, fence),

    /** Releases a statement by its exact digest, or a shape with its statements. Their losses do not count any more. */
    release: (group: string, digest: string): Promise<number> =>
      database.run((knex) => {
        const own = knex(TABLE).where({ routing_group: cutToWidth(group, WIDTH) });
        return own.where((any) => any.where({ exact_digest: digest }).orWhere({ digest, of_shape: 1 })).delete();
      }),
  };
}
