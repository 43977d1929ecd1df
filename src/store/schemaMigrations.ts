import { indexes, ownTables, sharedTables, table } from './schema.ts';
import { addColumn, addIndex, addRow, addTable, type SchemaPart } from './schemaPart.ts';

/** A numbered change of the schema (docs/extending.md#a-table-or-a-column). */
export interface Migration {
  /** 1, 2, 3, … without gaps. */
  readonly version: number;
  /** What it is for, as the database keeps it for people. */
  readonly name: string;
  /**
   * Lowest schema version whose programs work with the database afterwards; programs of lower ones refuse to start on it. What
   * only adds leaves it at 1. Replicas of two neighbouring minor versions must be able to run at once (docs/upgrades.md#skew).
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

/**
 * All migrations. Those that a release has stay as they are: what they add is looked for at every start, and made again where it
 * is gone. A part that a later one undoes is wrapped in `untilVersion`.
 */
export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'tables of the first release, and those of the gateway that ran before',
    compatibleFrom: 1,
    parts: [
      ...[...sharedTables, ...ownTables].map(addTable),
      // A database of an early release of the reference: its later migrations, V2 to V4.
      addColumn('query_history', 'routing_group', () => 'varchar(255)'),
      addColumn('query_history', 'external_url', () => 'varchar(255)'),
      // A database of a version that did not keep which resource registered the owner of a suffix.
      addColumn('eg_coordinators', 'cluster_uid', () => 'varchar(128)'),
      // A database of a version that did not keep which row it projected last.
      addColumn('eg_resources', 'backend_row', (dialect) => dialect.types.longText),
      wideQueryText,
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
    version: 2,
    name: 'what each replica observed of resources',
    compatibleFrom: 1,
    parts: [
      addTable(
        table(
          'eg_observations',
          [
            'kind',
            'namespace',
            'name',
            'type',
            'replica',
            'uid',
            'generation',
            'ok',
            'message',
            'observed',
            'expires',
            'written',
          ],
          () => `kind varchar(32) not null, namespace varchar(253) not null, name varchar(253) not null,
            type varchar(32) not null, replica varchar(64) not null, uid varchar(128) not null, generation bigint not null,
            ok int not null, message varchar(1024) not null, observed bigint not null, expires bigint not null,
            written bigint not null, primary key (kind, namespace, name, type, replica)`,
        ),
      ),
      addIndex({ table: 'eg_observations', name: 'eg_observations_written_idx', columns: 'written' }),
      addIndex({ table: 'eg_observations', name: 'eg_observations_expires_idx', columns: 'expires' }),
    ],
  },
  {
    version: 3,
    name: 'which queries use slots, for the replica that goes on when theirs ends',
    compatibleFrom: 1,
    parts: [
      addTable(
        table(
          'eg_slot_queries',
          ['query_id', 'cluster', 'replica', 'limit_keys', 'noted'],
          ({
            types,
          }) => `query_id varchar(256) primary key, cluster varchar(256) not null, replica varchar(64) not null,
            limit_keys ${types.longText} not null, noted bigint not null`,
        ),
      ),
      addIndex({ table: 'eg_slot_queries', name: 'eg_slot_queries_replica_idx', columns: 'replica' }),
      addIndex({ table: 'eg_slot_queries', name: 'eg_slot_queries_noted_idx', columns: 'noted' }),
    ],
  },
  {
    version: 4,
    name: 'how many submissions limits refused',
    compatibleFrom: 1,
    parts: [
      addTable(
        table(
          'eg_refusals',
          ['name', 'refused', 'counted'],
          () => 'name varchar(256) primary key, refused bigint not null, counted bigint not null',
        ),
      ),
      addIndex({ table: 'eg_refusals', name: 'eg_refusals_counted_idx', columns: 'counted' }),
    ],
  },
];
