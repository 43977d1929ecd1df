import { outcomeColumns } from './outcomeColumns.ts';
import { indexes, ownTables, resourceGroups, sharedTables, table } from './schema.ts';
import { addColumn, addIndex, addRow, addTable, changeOnce, type SchemaPart } from './schemaPart.ts';

/** A numbered change of the schema (docs/extending.md#a-table-or-a-column). */
export interface Migration {
  /** 1, 2, 3, … without gaps. */
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

/** Groups of queries of version 8 and 9 as sets: one for each query, under its id. A database below has none. */
const presentGroupSets: SchemaPart = async (schema) => {
  if (schema.version < 8) return [];
  const part = changeOnce(10, 'groups of the users of present queries, as sets', () => [
    `insert into eg_group_sets (set_id, group_name, last_used)
      select g.query_id, g.group_name, max(g.created) + 172800000 from eg_query_groups g
      where not exists (select 1 from eg_group_sets s where s.set_id = g.query_id and s.group_name = g.group_name)
      group by g.query_id, g.group_name`,
    `update eg_query_outcomes set group_set = query_id
      where group_set is null and query_id in (select query_id from eg_query_groups)`,
  ]);
  return await part(schema);
};

/**
 * Groups below different parents may have one name, such as `${USER}`, as in the tables that engines make. The gateway that ran
 * before, and versions of this one below 11, made `resource_groups` with a unique key.
 */
const repeatedGroupNames: SchemaPart = async (schema) => {
  const { index, remove } = schema.dialect.uniqueGroupNames;
  if (schema.version >= 11 || !(await schema.hasIndex(resourceGroups.name, index))) return [];
  return remove(resourceGroups.create(schema.dialect)).map((sql) => ({
    adds: 'names of resource groups once below each parent',
    sql,
    optional: true,
  }));
};

/** Columns of `eg_query_outcomes` as it was first. */
const firstOutcomeColumns = outcomeColumns.filter(({ name }) => name !== 'group_set' && name !== 'first_row_ms');

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
        table('eg_refusals', () => 'name varchar(256) primary key, refused bigint not null, counted bigint not null'),
      ),
      addIndex({ table: 'eg_refusals', name: 'eg_refusals_counted_idx', columns: 'counted' }),
    ],
  },
  {
    version: 5,
    name: 'how queries ended',
    compatibleFrom: 1,
    parts: [
      addTable(
        table('eg_query_outcomes', ({ types }) =>
          firstOutcomeColumns.map(({ name, type }) => `${name} ${type(types)}`).join(', '),
        ),
      ),
      ...['created', 'state', 'user_name', 'error_name', 'refused'].map((column) =>
        addIndex({
          table: 'eg_query_outcomes',
          name: `eg_query_outcomes_${column.replace('_name', '')}_idx`,
          columns: column === 'created' ? column : `${column}, created`,
        }),
      ),
    ],
  },
  {
    version: 6,
    name: 'who changed what: the audit, and what it knows of resources',
    compatibleFrom: 1,
    parts: [
      addTable(
        table(
          'eg_audit',
          ({ types: { longText } }) => `id varchar(64) primary key, at bigint not null, source varchar(16) not null,
            action varchar(16) not null, kind varchar(64) not null, namespace varchar(253) not null,
            name varchar(256) not null, resource varchar(253) not null, object varchar(512) not null,
            user_name varchar(256), manager varchar(256), recognised_by varchar(32), roles varchar(256) not null,
            address varchar(64), call_text varchar(512), request_id varchar(64), before_text ${longText},
            after_text ${longText}, digest varchar(64)`,
        ),
      ),
      addIndex({ table: 'eg_audit', name: 'eg_audit_at_idx', columns: 'at' }),
      addIndex({ table: 'eg_audit', name: 'eg_audit_name_idx', columns: 'kind, name, at' }),
      addIndex({ table: 'eg_audit', name: 'eg_audit_user_idx', columns: 'user_name, at' }),
      addIndex({ table: 'eg_audit', name: 'eg_audit_digest_idx', columns: 'digest' }),
      addTable(
        table(
          'eg_audited',
          ({ types: { longText } }) => `kind varchar(64) not null, namespace varchar(253) not null,
            name varchar(253) not null, title varchar(256) not null, uid varchar(128) not null, digest varchar(64) not null,
            writers ${longText} not null, noted bigint not null, state ${longText} not null,
            primary key (kind, namespace, name)`,
        ),
      ),
    ],
  },
  {
    version: 7,
    name: 'figures of queries by hour',
    compatibleFrom: 1,
    parts: [
      addTable(table('eg_query_hours', () => 'hour bigint primary key, changes bigint not null, sums int not null')),
      addTable(
        table(
          'eg_query_sums',
          ({ types: { longText } }) => `dimension varchar(32) not null, hour bigint not null, place int not null,
            value varchar(256), queries bigint not null, endings ${longText} not null, queued ${longText} not null,
            cpu_ms double precision not null, processed_bytes double precision not null,
            result_bytes double precision not null, primary key (dimension, hour, place)`,
        ),
      ),
      addIndex({ table: 'eg_query_sums', name: 'eg_query_sums_hour_idx', columns: 'hour' }),
    ],
  },
  {
    version: 8,
    name: 'groups of the users of queries',
    compatibleFrom: 1,
    parts: [
      addTable(
        table(
          'eg_query_groups', // In the order of lists: of one group, by time.
          () => `group_name varchar(256) not null, created bigint not null, query_id varchar(256) not null,
            primary key (group_name, created, query_id)`,
        ),
      ),
      addIndex({ table: 'eg_query_groups', name: 'eg_query_groups_created_idx', columns: 'created' }),
    ],
  },
  {
    version: 9,
    name: 'resource groups that resources declare',
    compatibleFrom: 1,
    parts: [
      addTable(
        table(
          'eg_group_owners',
          () => `namespace varchar(63) not null, name varchar(253) not null, database_name varchar(64) not null,
            environment varchar(128) not null, root_group varchar(250) not null, uid varchar(128) not null,
            generation bigint not null, is_applied integer not null,
            primary key (namespace, name, database_name, environment, root_group)`,
        ),
      ),
    ],
  },
  {
    version: 10,
    name: 'groups of users as sets, to sum queries by',
    compatibleFrom: 1,
    parts: [
      addTable(
        table(
          'eg_group_sets',
          () => `set_id varchar(256) not null, group_name varchar(256) not null, last_used bigint not null,
            primary key (set_id, group_name)`,
        ),
      ),
      addIndex({ table: 'eg_group_sets', name: 'eg_group_sets_used_idx', columns: 'last_used' }),
      addColumn('eg_query_outcomes', 'group_set', () => 'varchar(256)'),
      presentGroupSets,
    ],
  },
  {
    version: 11,
    name: 'resource groups of one name below different parents',
    compatibleFrom: 1,
    parts: [repeatedGroupNames],
  },
  {
    version: 12,
    name: 'when the first rows of queries came',
    compatibleFrom: 1,
    parts: [addColumn('eg_query_outcomes', 'first_row_ms', () => 'bigint')],
  },
];
