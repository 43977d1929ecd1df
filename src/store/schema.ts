import type { SqlDialect } from './dialect.ts';
import { outcomeColumns } from './outcomeColumns.ts';

/** A table: the columns that must be there, and the statement that creates it. */
export interface TableDefinition {
  readonly name: string;
  readonly columns: (dialect: SqlDialect) => readonly string[];
  readonly create: (dialect: SqlDialect) => string;
}

export interface IndexDefinition {
  readonly table: string;
  readonly name: string;
  readonly columns: string;
  /** Leaves out rows without a value in the first column, if the database can. */
  readonly sparse?: true;
}

/**
 * A table, created if no table has its name.
 * @param body its columns and keys in SQL
 * @param required columns that must be there; all by default
 */
export function table(
  name: string,
  body: (dialect: SqlDialect) => string,
  required?: readonly string[],
): TableDefinition {
  return {
    name,
    columns: (dialect) => required ?? columnNames(body(dialect)),
    create: (dialect) => `create table if not exists ${name} (${body(dialect)})${dialect.types.tableOptions}`,
  };
}

/** First words of the parts of a table's body, but those of keys and checks. */
function columnNames(body: string): readonly string[] {
  const parts = body.split(/,(?![^(]*\))/).map((part) => /\w+/.exec(part)?.[0] ?? '');
  return parts.filter((name) => !['primary', 'foreign', 'unique', 'check'].includes(name));
}

/** Resource groups, as engines read them: below different parents they may have one name. */
export const resourceGroups = table(
  'resource_groups',
  (dialect) => `resource_group_id ${dialect.types.identity}, name varchar(250) not null, parent bigint null,
    jmx_export boolean null, scheduling_policy varchar(128) null, scheduling_weight int null,
    soft_memory_limit varchar(128) not null, max_queued int not null, hard_concurrency_limit int not null,
    soft_concurrency_limit int null, soft_cpu_limit varchar(128) null, hard_cpu_limit varchar(128) null,
    environment varchar(128) null, primary key (resource_group_id),
    foreign key (parent) references resource_groups (resource_group_id)`,
  ['resource_group_id', 'name', 'parent', 'soft_memory_limit', 'max_queued', 'hard_concurrency_limit'],
);

/** Which migrations the database has had, a row each (`schemaVersion.ts`). */
export const SCHEMA_TABLE = 'eg_schema';

/**
 * All tables: first those shared with the gateway that ran before and with the engines' resource group managers
 * (docs/compatibility.md#tables), then our own.
 */
export const tables: readonly TableDefinition[] = [
  table(
    'gateway_backend',
    () => `name varchar(256) primary key, routing_group varchar(256), backend_url varchar(256),
      external_url varchar(256), active boolean`,
  ),
  table(
    'query_history',
    (dialect) => `query_id varchar(256) primary key, query_text ${dialect.types.longText}, created bigint,
      backend_url varchar(256), user_name varchar(256), source varchar(256), routing_group varchar(255),
      external_url varchar(255)`,
  ),
  resourceGroups,
  table(
    'selectors',
    () => `resource_group_id bigint not null, priority bigint not null, user_regex varchar(512), source_regex varchar(512),
      query_type varchar(512), client_tags varchar(512), selector_resource_estimate varchar(1024),
      foreign key (resource_group_id) references resource_groups (resource_group_id)`,
    ['resource_group_id', 'priority', 'user_regex', 'source_regex', 'query_type'],
  ),
  table(
    'resource_groups_global_properties',
    () => `name varchar(128) not null primary key, value varchar(512) null, check (name in ('cpu_quota_period'))`,
  ),
  table(
    'exact_match_source_selectors',
    (dialect) => `resource_group_id varchar(256) not null, update_time ${dialect.types.timestamp} not null,
      source varchar(512) not null, environment varchar(128), query_type ${dialect.types.exactQueryType},
      ${dialect.types.exactKeys}`,
  ),
  table(
    'eg_resources',
    (dialect) => `kind varchar(32) not null, namespace varchar(253) not null, name varchar(253) not null,
      registry_name varchar(256) not null, uid varchar(128) not null, resource_version varchar(64) not null,
      generation bigint not null, creation_timestamp varchar(40) not null, spec ${dialect.types.longText} not null,
      labels ${dialect.types.longText} not null, annotations ${dialect.types.longText} not null,
      status ${dialect.types.longText}, source varchar(16) not null, backend_name varchar(256),
      backend_row ${dialect.types.longText}, deleted_at bigint,
      primary key (kind, namespace, name)`,
  ),
  table(
    'eg_coordinators',
    () => `suffix varchar(32) primary key, cluster varchar(256) not null, base_url varchar(2048) not null,
      cluster_uid varchar(128), last_seen bigint not null`,
  ),
  table(
    'eg_queries',
    () => `query_id varchar(256) primary key, cluster varchar(256) not null, base_url varchar(2048) not null,
      created bigint not null`,
  ),
  table(
    'eg_transactions',
    () => `transaction_id varchar(64) primary key, cluster varchar(256) not null, base_url varchar(2048) not null,
      created bigint not null`,
  ),
  table(
    'eg_running_queries',
    () => `query_id varchar(256) primary key, cluster varchar(256) not null, started bigint not null,
      last_seen bigint not null`,
  ),
  table(
    'eg_queued_queries',
    ({ types }) => `id varchar(64) primary key, created bigint not null, routing_group varchar(256) not null,
      user_name varchar(256), source varchar(256), reason varchar(1024) not null, request ${types.longText},
      replica varchar(64) not null, state varchar(16) not null, command varchar(16), moved_at bigint, engine_id varchar(256),
      answer ${types.longText}, polled_at bigint not null, changed bigint not null`,
  ),
  table('eg_queue_replicas', () => 'replica varchar(64) primary key, expires bigint not null'),
  table(
    'eg_query_decisions',
    (dialect) => `query_id varchar(256) primary key, cluster varchar(256) not null, created bigint not null,
      decision ${dialect.types.longText}`,
  ),
  table(
    'eg_leader',
    () => `name varchar(32) primary key, holder varchar(256), epoch bigint not null, expires bigint not null`,
  ),
  table('eg_ended_sessions', () => 'id varchar(128) primary key, until_ms bigint not null'),
  table('eg_marks', () => 'name varchar(32) primary key, value bigint not null'),
  table('eg_refusals', () => 'name varchar(256) primary key, refused bigint not null, counted bigint not null'),
  table('eg_query_outcomes', ({ types }) =>
    outcomeColumns.map(({ name, type }) => `${name} ${type === 'text' ? types.longText : type}`).join(', '),
  ),
  table(
    'eg_audit',
    ({ types: { longText } }) => `id varchar(64) primary key, at bigint not null, source varchar(16) not null,
      action varchar(16) not null, kind varchar(64) not null, namespace varchar(253) not null,
      name varchar(256) not null, resource varchar(253) not null, object varchar(512) not null,
      user_name varchar(256), manager varchar(256), recognised_by varchar(32), roles varchar(256) not null,
      address varchar(64), call_text varchar(512), request_id varchar(64), before_text ${longText},
      after_text ${longText}, digest varchar(64)`,
  ),
  table(
    'eg_audited',
    ({ types: { longText } }) => `kind varchar(64) not null, namespace varchar(253) not null,
      name varchar(253) not null, title varchar(256) not null, uid varchar(128) not null, digest varchar(64) not null,
      writers ${longText} not null, noted bigint not null, state ${longText} not null,
      primary key (kind, namespace, name)`,
  ),
  table('eg_query_hours', () => 'hour bigint primary key, changes bigint not null, sums int not null'),
  table(
    'eg_query_sums',
    ({ types: { longText } }) => `dimension varchar(32) not null, hour bigint not null, place int not null,
      value varchar(256), queries bigint not null, endings ${longText} not null, queued ${longText} not null,
      cpu_ms double precision not null, processed_bytes double precision not null,
      result_bytes double precision not null, primary key (dimension, hour, place)`,
  ),
  table(
    'eg_query_groups', // In the order of lists: of one group, by time.
    () => `group_name varchar(256) not null, created bigint not null, query_id varchar(256) not null,
      primary key (group_name, created, query_id)`,
  ),
  table(
    'eg_group_owners',
    () => `namespace varchar(63) not null, name varchar(253) not null, database_name varchar(64) not null,
      environment varchar(128) not null, root_group varchar(250) not null, uid varchar(128) not null,
      generation bigint not null, is_applied integer not null,
      primary key (namespace, name, database_name, environment, root_group)`,
  ),
  table(
    'eg_group_sets',
    () => `set_id varchar(256) not null, group_name varchar(256) not null, last_used bigint not null,
      primary key (set_id, group_name)`,
  ),
  table(
    SCHEMA_TABLE,
    () => `version int primary key, name varchar(256) not null, compatible_from int not null,
      program varchar(64) not null, applied bigint not null`,
  ),
];

/** Tables of limits (docs/architecture.md#limits). */
export const limitTables: readonly TableDefinition[] = [
  table(
    'eg_running',
    ({ types }) => `slot_id varchar(64) primary key, query_id varchar(256), transaction_id varchar(64),
      cluster varchar(256), limit_keys ${types.longText} not null, replica varchar(64) not null,
      acquired bigint not null, seen bigint not null`,
  ),
  table(
    'eg_limit_counters',
    () => `limit_key varchar(256) primary key, in_use bigint not null, tokens bigint, refilled bigint not null,
      expires bigint not null`,
  ),
];

/** Function of PostgreSQL with all changes of a replica to slots and counters; a change of it needs another name. */
export const CHANGE_FUNCTION = 'eg_decide_slots';

/**
 * One call in place of a transaction of several statements; each connection keeps its plans. Counters are locked in the order of
 * keys before rows change, and read again then.
 */
export const createChangeFunction = `create function ${CHANGE_FUNCTION}(
  ends json, released json, asks json, bindings json, of_replica text) returns json language plpgsql as $body$
declare
  at bigint := cast(extract(epoch from clock_timestamp()) * 1000 as bigint);
  gone text[]; idle text[]; known text[]; texts text[]; keys text[]; wanted text[]; bound text[]; removed int := 0;
  ask record; choice record; place int; chosen int[] := '{}';
begin
  if json_array_length(ends) + json_array_length(released) > 0 then
    select array_agg(h.slot_id) filter (where not stays), array_agg(h.slot_id) filter (where stays),
        array_agg(h.ended) filter (where h.ended is not null), array_agg(h.limit_keys) filter (where not stays)
      into gone, idle, known, texts from (
        select r.slot_id, r.limit_keys, e."queryId" as ended, r.transaction_id is not null and not e."endsTransaction" as stays
        from json_to_recordset(ends) as e("queryId" text, "slotId" text, "endsTransaction" boolean)
        join eg_running r on r.query_id = e."queryId" where e."slotId" is null
        union all select r.slot_id, r.limit_keys, e."queryId", r.transaction_id is not null and not e."endsTransaction"
        from json_to_recordset(ends) as e("queryId" text, "slotId" text, "endsTransaction" boolean)
        join eg_running r on r.slot_id = e."slotId"
        union all select r.slot_id, r.limit_keys, null, false
        from json_array_elements_text(released) as s join eg_running r on r.slot_id = s.value) as h;
  end if;
  wanted := array(select distinct p.key from json_to_recordset(asks) as a(options json), json_array_elements(a.options) as o,
    json_to_recordset(o.value) as p(key text) order by 1);
  keys := array(select split_part(part, '=', 1) from unnest(texts) as t, unnest(string_to_array(t, ' ')) as part
    union select unnest(wanted));
  for attempt in 1..5 loop
    insert into eg_limit_counters (limit_key, in_use, refilled, expires) select w, 0, 0, at + 60000 from unnest(wanted) as w
      where not exists (select 1 from eg_limit_counters c where c.limit_key = w) order by w on conflict do nothing;
    perform 1 from eg_limit_counters where limit_key = any(keys) order by limit_key for update;
    exit when (select count(*) from eg_limit_counters where limit_key = any(wanted)) = cardinality(wanted);
  end loop;
  if gone is not null then
    with r as (delete from eg_running where slot_id = any(gone) returning limit_keys)
      select array_agg(limit_keys), count(*) into texts, removed from r;
    update eg_limit_counters c set in_use = greatest(0, c.in_use - f.amount) from (
      select split_part(part, '=', 1) as key, sum(cast(coalesce(nullif(split_part(part, '=', 2), ''), '1') as bigint)) as amount
      from unnest(texts) as t, unnest(string_to_array(t, ' ')) as part group by 1) as f where c.limit_key = f.key;
  end if;
  for ask in select a.id, a.options from json_to_recordset(asks) as a(id text, options json) loop
    place := -1;
    for choice in select o.value as parts, o.ordinality - 1 as index from json_array_elements(ask.options) with ordinality as o loop
      continue when exists (select 1 from json_to_recordset(choice.parts) as p(key text, amount bigint, most bigint)
        left join eg_limit_counters c on c.limit_key = p.key where c.limit_key is null or c.in_use + p.amount > p.most);
      place := choice.index;
      update eg_limit_counters c set in_use = c.in_use + p.amount
        from json_to_recordset(choice.parts) as p(key text, amount bigint) where c.limit_key = p.key;
      insert into eg_running (slot_id, limit_keys, replica, acquired, seen)
        select ask.id, string_agg(p.key || case amount when 1 then '' else '=' || amount end, ' '), of_replica, at, at
        from json_to_recordset(choice.parts) as p(key text, amount bigint) having count(*) > 0;
      exit;
    end loop;
    chosen := chosen || place;
  end loop;
  if idle is not null then
    update eg_running set query_id = null, seen = at where slot_id = any(idle);
  end if;
  if json_array_length(bindings) > 0 then
    with r as (update eg_running e set query_id = b."queryId", cluster = b.cluster, seen = at
      from json_to_recordset(bindings) as b("slotId" text, "queryId" text, cluster text) where e.slot_id = b."slotId" returning e.slot_id)
      select array_agg(slot_id) into bound from r;
  end if;
  return json_build_object('chosen', to_json(chosen), 'removed', removed, 'bound', to_json(bound), 'found', to_json(known), 'counters',
    (select json_agg(c) from eg_limit_counters c where c.limit_key = any(keys)));
end $body$`;

export const limitIndexes: readonly IndexDefinition[] = [
  { table: 'eg_running', name: 'eg_running_query_idx', columns: 'query_id', sparse: true },
  { table: 'eg_running', name: 'eg_running_transaction_idx', columns: 'transaction_id', sparse: true },
];

/** Shapes of statements (docs/digests.md#stored-digests). */
export const digestTable = table(
  'eg_digests',
  ({ types }) => `digest varchar(16) primary key, shape ${types.longText} not null, first_used bigint not null,
    last_used bigint not null`,
);

/** Figures of queries by hour, digest, routing group and cluster: lines of the digests of a part (docs/database.md#hourly-sums). */
export const digestHoursTable = table(
  'eg_digest_hours',
  ({ types }) =>
    `hour bigint not null, part int not null, figures ${types.longText} not null, primary key (hour, part)`,
);

/** Reads that lost their clusters (docs/survival.md#quarantine). */
export const lostQueriesTable = table(
  'eg_lost_queries',
  () => `digest varchar(16) not null, query_id varchar(256) not null, cluster varchar(256) not null,
    routing_group varchar(256) not null, user_name varchar(256) not null, qualifier varchar(256) not null,
    exact_digest varchar(16) not null, lost_at bigint not null, until_at bigint, of_shape int,
    primary key (digest, query_id)`,
);

/** States of rollouts (docs/database.md#rollouts). */
export const rolloutTable = table(
  'eg_rollouts',
  ({ types }) => `id varchar(64) primary key, generation bigint not null, state ${types.longText} not null`,
);

/** Replays, and results of their queries (docs/database.md#replays). */
export const replayTables: readonly TableDefinition[] = [
  table('eg_replays', ({ types }) => `id varchar(64) primary key, progress ${types.longText} not null`),
  table(
    'eg_replay_results',
    ({ types }) => `replay_id varchar(64) not null, query_id varchar(256) not null, result ${types.longText} not null,
      primary key (replay_id, query_id)`,
  ),
];

export const digestIndexes: readonly IndexDefinition[] = [
  { table: 'eg_digests', name: 'eg_digests_used_idx', columns: 'last_used' },
  { table: 'eg_query_outcomes', name: 'eg_query_outcomes_digest_idx', columns: 'digest, created' },
];

/** All indexes; the first is the one that the shared table has always had. */
export const indexes: readonly IndexDefinition[] = [
  { table: 'query_history', name: 'query_history_created_idx', columns: 'created' },
  { table: 'query_history', name: 'eg_query_history_user_idx', columns: 'user_name, created' },
  // Without these a filter that few rows fit reads the whole history, and the counts by cluster do.
  { table: 'query_history', name: 'eg_query_history_backend_idx', columns: 'backend_url, created' },
  { table: 'query_history', name: 'eg_query_history_source_idx', columns: 'source, created' },
  { table: 'query_history', name: 'eg_query_history_group_idx', columns: 'routing_group, created' },
  { table: 'query_history', name: 'eg_query_history_external_idx', columns: 'external_url, created' },
  { table: 'eg_resources', name: 'eg_resources_backend_idx', columns: 'backend_name' },
  { table: 'eg_queries', name: 'eg_queries_created_idx', columns: 'created' },
  { table: 'eg_transactions', name: 'eg_transactions_created_idx', columns: 'created' },
  { table: 'eg_running_queries', name: 'eg_running_queries_cluster_idx', columns: 'cluster, last_seen' },
  { table: 'eg_queued_queries', name: 'eg_queued_queries_state_idx', columns: 'state, created' },
  { table: 'eg_queued_queries', name: 'eg_queued_queries_replica_idx', columns: 'replica, state' },
  { table: 'eg_queued_queries', name: 'eg_queued_queries_polled_idx', columns: 'polled_at' },
  { table: 'eg_query_decisions', name: 'eg_query_decisions_cluster_idx', columns: 'cluster, created' },
  { table: 'eg_query_decisions', name: 'eg_query_decisions_created_idx', columns: 'created' },
  { table: 'eg_refusals', name: 'eg_refusals_counted_idx', columns: 'counted' },
  { table: 'eg_query_outcomes', name: 'eg_query_outcomes_created_idx', columns: 'created' },
  { table: 'eg_query_outcomes', name: 'eg_query_outcomes_state_idx', columns: 'state, created' },
  { table: 'eg_query_outcomes', name: 'eg_query_outcomes_user_idx', columns: 'user_name, created' },
  { table: 'eg_query_outcomes', name: 'eg_query_outcomes_error_idx', columns: 'error_name, created', sparse: true },
  { table: 'eg_query_outcomes', name: 'eg_query_outcomes_refused_idx', columns: 'refused, created' },
  { table: 'eg_audit', name: 'eg_audit_at_idx', columns: 'at' },
  { table: 'eg_audit', name: 'eg_audit_name_idx', columns: 'kind, name, at' },
  { table: 'eg_audit', name: 'eg_audit_user_idx', columns: 'user_name, at' },
  { table: 'eg_audit', name: 'eg_audit_digest_idx', columns: 'digest' },
  { table: 'eg_query_sums', name: 'eg_query_sums_hour_idx', columns: 'hour' },
  { table: 'eg_query_groups', name: 'eg_query_groups_created_idx', columns: 'created' },
  { table: 'eg_group_sets', name: 'eg_group_sets_used_idx', columns: 'last_used' },
];
