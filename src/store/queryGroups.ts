import { createHash } from 'node:crypto';
import type { Knex } from 'knex';

import { cutToWidth } from './historyText.ts';
import type { Dialect } from './store.ts';

/** Groups of its user that are kept of a query to find it by: the first by name. A user may be in a thousand. */
export const MAX_QUERY_GROUPS = 32;

const WIDTH = 256;
const ROWS = 2_000;
const DAY_MS = 24 * 3_600_000;

export interface GroupedQuery {
  readonly queryId: string;
  /** Milliseconds since 1970. */
  readonly created: number;
  /** `MAX_QUERY_GROUPS` at most are kept; left out for none. */
  readonly groups?: readonly string[] | undefined;
}

/** `eg_query_groups`: statements with one binding for all rows; rows that are there stay. */
const insertSql: Readonly<Record<Dialect, string>> = {
  postgresql: `insert into eg_query_groups (group_name, created, query_id)
    select value->>0, cast(value->>1 as bigint), value->>2 from json_array_elements(cast(? as json)) on conflict do nothing`,
  sqlite: `insert into eg_query_groups (group_name, created, query_id)
    select value->>0, value->>1, value->>2 from json_each(?) where true on conflict do nothing`,
  // Unlike `insert ignore` this still rejects values that do not fit.
  mysql: `insert into eg_query_groups (group_name, created, query_id) values ?
    on duplicate key update query_id = values(query_id)`,
};

/** `eg_group_sets`: rows of sets that are not there, or were used last long ago. As above. */
const insertSetsSql: Readonly<Record<Dialect, string>> = {
  postgresql: `insert into eg_group_sets (set_id, group_name, last_used)
    select value->>0, value->>1, cast(value->>2 as bigint) from json_array_elements(cast(? as json))
    on conflict (set_id, group_name) do update set last_used = greatest(eg_group_sets.last_used, excluded.last_used)`,
  sqlite: `insert into eg_group_sets (set_id, group_name, last_used)
    select value->>0, value->>1, value->>2 from json_each(?) where true
    on conflict (set_id, group_name) do update set last_used = max(last_used, excluded.last_used)`,
  mysql: `insert into eg_group_sets (set_id, group_name, last_used) values ?
    on duplicate key update last_used = greatest(last_used, values(last_used))`,
};

/** The set of a query's groups, which `eg_query_outcomes` has as one value; null for none. */
export function groupSet(groups: readonly string[] = []): string | null {
  const names = namesOf(groups);
  return names.length === 0 ? null : createHash('sha256').update(JSON.stringify(names)).digest('base64url');
}

/**
 * Keeps which groups the sets of queries are, a row each. The time of their last use is that of the latest query, rounded up by one to
 * two days: another replica may have another time for the same query, and a set that many queries use is seldom written.
 */
export async function insertGroupSets(knex: Knex, dialect: Dialect, queries: readonly GroupedQuery[]): Promise<void> {
  const sets = new Map<string, { readonly names: readonly string[]; lastUsed: number }>();
  for (const { created, groups } of queries) {
    const id = groupSet(groups);
    if (id === null) continue;
    const lastUsed = (Math.ceil(created / DAY_MS) + 1) * DAY_MS;
    const set = sets.get(id);
    if (set === undefined) sets.set(id, { names: namesOf(groups), lastUsed });
    else set.lastUsed = Math.max(set.lastUsed, lastUsed);
  }
  if (sets.size === 0) return;
  const present: readonly { readonly set_id: string; readonly last_used: number | string }[] = await knex(
    'eg_group_sets',
  )
    .whereIn('set_id', [...sets.keys()])
    .groupBy('set_id')
    .select('set_id')
    .min({ last_used: 'last_used' });
  for (const { set_id: id, last_used: lastUsed } of present) {
    if (Number(lastUsed) >= (sets.get(id)?.lastUsed ?? 0)) sets.delete(id);
  }
  // In the order of their keys, so that two batches never wait for each other.
  const rows = [...sets]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([id, { names, lastUsed }]) => names.map((name) => [id, name, lastUsed]));
  await insertRows(knex, dialect, insertSetsSql, rows);
}

export async function insertQueryGroups(knex: Knex, dialect: Dialect, queries: readonly GroupedQuery[]): Promise<void> {
  const rows = queries.flatMap(({ queryId, created, groups }) => {
    return namesOf(groups).map((name) => [name, created, cutToWidth(queryId, WIDTH)]);
  });
  await insertRows(knex, dialect, insertSql, rows);
}

async function insertRows(
  knex: Knex,
  dialect: Dialect,
  sql: Readonly<Record<Dialect, string>>,
  rows: readonly (readonly (string | number)[])[],
): Promise<void> {
  for (let start = 0; start < rows.length; start += ROWS) {
    const some = rows.slice(start, start + ROWS);
    const binding =
      dialect === 'mysql' ? (some as unknown as Knex.RawBinding) : (JSON.stringify(some) as Knex.RawBinding);
    await knex.raw(sql[dialect], [binding]);
  }
}

/** Names of groups as the columns have them, each once, sorted. */
function namesOf(groups: readonly string[] = []): readonly string[] {
  return [...new Set(groups.slice(0, MAX_QUERY_GROUPS).map(groupColumn))].sort();
}

export function groupColumn(name: string): string {
  return cutToWidth(name, WIDTH);
}
