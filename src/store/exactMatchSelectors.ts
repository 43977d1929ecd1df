import type { ExactMatchSelectorRow } from '../model/exactMatchSelector.ts';
import type { Database } from './database.ts';
import { inTransaction } from './resourceGroupTables.ts';

const TABLE = 'exact_match_source_selectors';

/** `exact_match_source_selectors` of the gateway's own database (docs/compatibility.md#tables). */
export interface ExactMatchSelectorRepository {
  /** All of them, by environment, source and query type. */
  all(): Promise<readonly ExactMatchSelectorRow[]>;
  /** Rejects with EG_CONFLICT where there is one of that environment, source and query type. */
  create(selector: ExactMatchSelectorRow): Promise<void>;
}

/** The stored time as text: drivers would turn it into the machine's time zone. */
const timeText = {
  sqlite: 'update_time',
  mysql: "date_format(update_time, '%Y-%m-%d %H:%i:%s')",
  postgresql: "to_char(update_time, 'YYYY-MM-DD HH24:MI:SS')",
} as const;

/** Reads and writes `exact_match_source_selectors`. */
export function exactMatchSelectors(database: Database): ExactMatchSelectorRepository {
  const tables = { database, name: null };
  return {
    all: () =>
      inTransaction(tables, (trx) =>
        trx(TABLE)
          .select({
            resourceGroupId: 'resource_group_id',
            updateTime: trx.raw(timeText[database.dialect.name]),
            source: 'source',
            environment: 'environment',
            queryType: 'query_type',
          })
          .orderBy(['environment', 'source', 'query_type']),
      ),
    create: (selector) =>
      inTransaction(tables, async (trx) => {
        await trx(TABLE).insert({
          resource_group_id: selector.resourceGroupId,
          update_time: selector.updateTime,
          source: selector.source,
          environment: selector.environment,
          query_type: selector.queryType,
        });
      }),
  };
}
