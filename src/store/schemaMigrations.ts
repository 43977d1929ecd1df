import { inputColumns, statementColumns } from './outcomeColumns.ts';
import {
  CHANGE_FUNCTION,
  createChangeFunction,
  digestHoursTable,
  digestIndexes,
  digestTable,
  indexes,
  limitIndexes,
  limitTables,
  lostQueriesTable,
  replayTables,
  resourceGroups,
  rolloutTable,
  tables,
} from './schema.ts';
import { addColumn, addIndex, addRow, addTable, type SchemaPart } from './schemaPart.ts';

/** A numbered change of the schema (docs/extending.md#a-table-or-a-column). */
export interface Migration {
  /** Higher than that of the migration before. */
  readonly version: number;
  readonly name: string;
  /**
   * Lowest schema version whose programs work with the database afterwards; programs of lower ones reject to start on
   * it. What only adds leaves it at 1. Replicas of two neighbouring minor versions must be able to run at once
   * (docs/upgrades.md#skew).
   */
  readonly compatibleFrom: number;
  /** In order. */
  readonly parts: readonly SchemaPart[];
}

/** `query_history.query_text` as long as a statement may be, where an early release of the reference made it narrow. */
const wideQueryText: SchemaPart = async (schema) => {
  const { widenQueryText } = schema.dialect;
  const type = (await schema.columns('query_history'))?.get('query_text') ?? '';
  if (widenQueryText === null || !type.includes('char')) return [];
  return [{ adds: 'column query_history.query_text widened', sql: widenQueryText, optional: true }];
};

/** Number of the first migration; the versions below were those of programs before the first release. */
const FIRST = 12;

/**
 * Groups below different parents may have one name, such as `${USER}`, as in the tables that engines make. The gateway that ran
 * before made `resource_groups` with a unique key.
 */
const repeatedGroupNames: SchemaPart = async (schema) => {
  const { index, remove } = schema.dialect.uniqueGroupNames;
  if (schema.version >= FIRST || !(await schema.hasIndex(resourceGroups.name, index))) return [];
  return remove(resourceGroups.create(schema.dialect)).map((sql) => ({
    adds: 'names of resource groups once below each parent',
    sql,
    optional: true,
  }));
};

/** The function that PostgreSQL has for limits. */
const changeFunction: SchemaPart = async ({ dialect, connection }) => {
  if (dialect.name !== 'postgresql') return [];
  const { rows } = await connection.raw('select to_regproc(?) as present', [CHANGE_FUNCTION]);
  return rows[0].present === null ? [{ adds: `function ${CHANGE_FUNCTION}`, sql: createChangeFunction }] : [];
};

/**
 * All migrations. Those that a release has stay as they are: what they add is looked for at every start, and made again where it
 * is gone. A part that a later one undoes is wrapped in `untilVersion`.
 */
export const migrations: readonly Migration[] = [
  {
    version: FIRST,
    name: 'tables of the first release, and those of the gateway that ran before',
    compatibleFrom: 1,
    parts: [
      ...tables.map(addTable),
      // A database of an early release of the reference: its later migrations, V2 to V4.
      addColumn('query_history', 'routing_group', () => 'varchar(255)'),
      addColumn('query_history', 'external_url', () => 'varchar(255)'),
      wideQueryText,
      repeatedGroupNames,
      // A database of a program before the first release.
      addColumn('eg_coordinators', 'cluster_uid', () => 'varchar(128)'),
      addColumn('eg_resources', 'backend_row', (dialect) => dialect.types.longText),
      addColumn('eg_query_outcomes', 'group_set', () => 'varchar(256)'),
      addColumn('eg_query_outcomes', 'first_row_ms', () => 'bigint'),
      ...indexes.map(addIndex),
      addRow('eg_marks', 'resources', "insert into eg_marks (name, value) values ('resources', 0)"),
      addRow(
        'eg_leader',
        'leader',
        "insert into eg_leader (name, holder, epoch, expires) values ('leader', null, 0, 0)",
      ),
    ],
  },
  {
    version: 13,
    name: 'counters of limits',
    compatibleFrom: 1,
    parts: [...limitTables.map(addTable), ...limitIndexes.map(addIndex)],
  },
  {
    version: 14,
    name: 'facts of submissions for replicas that see only the end, and the mark of changes in each resource',
    compatibleFrom: 1,
    parts: [
      addColumn('eg_query_decisions', 'rule_name', () => 'varchar(256)'),
      addColumn('eg_query_decisions', 'group_set', () => 'varchar(256)'),
      addColumn('eg_query_decisions', 'gateway_queued_ms', () => 'bigint'),
      addColumn('eg_resources', 'changed', () => 'bigint'),
    ],
  },
  {
    version: 15,
    name: 'digests and labels of statements, and further figures of their ends',
    compatibleFrom: 1,
    parts: [
      addTable(digestTable),
      addTable(digestHoursTable),
      addColumn('eg_query_outcomes', 'inputs', ({ types }) => types.longText),
      ...inputColumns.map(({ name, type }) => addColumn('eg_query_outcomes', name, () => type)),
      ...['eg_query_outcomes', 'eg_query_decisions'].flatMap((of) =>
        statementColumns.map(({ name, type }) => addColumn(of, name, () => type)),
      ),
      addColumn('eg_query_decisions', 'replay', ({ types }) => types.longText),
      ...digestIndexes.map(addIndex),
    ],
  },
  {
    version: 16,
    name: 'retries of queries that their clusters lost',
    compatibleFrom: 1,
    parts: [
      addColumn('eg_queued_queries', 'retried_at', () => 'bigint'),
      addColumn('eg_queued_queries', 'retried_for', () => 'varchar(256)'),
      addIndex({
        table: 'eg_queued_queries',
        name: 'eg_queued_queries_retried_idx',
        columns: 'retried_at, retried_for',
      }),
    ],
  },
  { version: 17, name: 'decisions on limits in one call', compatibleFrom: 1, parts: [changeFunction] },
  { version: 18, name: 'statements that lost clusters', compatibleFrom: 1, parts: [addTable(lostQueriesTable)] },
  {
    version: 19,
    name: 'replays of recorded queries',
    compatibleFrom: 1,
    parts: replayTables.map(addTable),
  },
  { version: 20, name: 'rollouts', compatibleFrom: 1, parts: [addTable(rolloutTable)] },
];
