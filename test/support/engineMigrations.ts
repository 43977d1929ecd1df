import type { Dialect } from '../../src/store/store.ts';

/** Types in which the engine's statements for MySQL and PostgreSQL differ. */
const types = {
  mysql: { id: 'bigint not null auto_increment primary key', selectorId: 'bigint not null auto_increment primary key' },
  postgresql: { id: 'bigserial primary key', selectorId: 'bigserial primary key' },
} as const;

/**
 * What the database resource group manager of Trino 476 does to its tables (its migrations V1 to V8), as statements:
 * `create` does nothing to tables that are there, `alter` adds a key and three columns and makes one nullable.
 */
export function engineMigrations(dialect: Exclude<Dialect, 'sqlite'>): { create: string[]; alter: string[] } {
  const { id, selectorId } = types[dialect];
  return {
    create: [
      `create table if not exists resource_groups_global_properties (name varchar(128) not null primary key,
        value varchar(512), check (name in ('cpu_quota_period')))`,
      `create table if not exists resource_groups (resource_group_id ${id}, name varchar(250) not null,
        soft_memory_limit varchar(128) not null, max_queued int not null, soft_concurrency_limit int,
        hard_concurrency_limit int not null, scheduling_policy varchar(128), scheduling_weight int, jmx_export boolean,
        soft_cpu_limit varchar(128), hard_cpu_limit varchar(128), parent bigint, environment varchar(128),
        foreign key (parent) references resource_groups (resource_group_id) on delete cascade)`,
      `create table if not exists selectors (resource_group_id bigint not null, priority bigint not null,
        user_regex varchar(512), source_regex varchar(512), query_type varchar(512), client_tags varchar(512),
        selector_resource_estimate varchar(1024),
        foreign key (resource_group_id) references resource_groups (resource_group_id) on delete cascade)`,
    ],
    alter: [
      'alter table selectors add column user_group_regex varchar(2048)',
      `alter table selectors add column id ${selectorId}`,
      'alter table selectors add column original_user_regex varchar(512), add column authenticated_user_regex varchar(512)',
      dialect === 'mysql'
        ? 'alter table resource_groups modify soft_memory_limit varchar(128) null'
        : 'alter table resource_groups alter column soft_memory_limit drop not null',
    ],
  };
}
