import { createHash } from 'node:crypto';
import type { Knex } from 'knex';

import { BulkInsert } from './bulkInsert.ts';
import { batches, cutToWidth } from './columns.ts';
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

const queryGroups = new BulkInsert(
  'eg_query_groups',
  { group_name: 'text', created: 'bigint', query_id: 'text' },
  'group_name, created, query_id',
  null,
);

/** Rows of sets that are not there, or were used last long ago. */
const groupSets = new BulkInsert(
  'eg_group_sets',
  { set_id: 'text', group_name: 'text', last_used: 'bigint' },
  'set_id, group_name',
  (fresh) => {
    const [present, last] = ['eg_group_sets.last_used', fresh('last_used')];
    return `last_used = case when ${last} > ${present} then ${last} else ${present} end`;
  },
);

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
  const present: readonly { readonly set_id: string; readonly last_used: number }[] = await knex('eg_group_sets')
    .whereIn('set_id', [...sets.keys()])
    .groupBy('set_id')
    .select('set_id')
    .min({ last_used: 'last_used' });
  for (const { set_id: id, last_used: lastUsed } of present) {
    if (lastUsed >= (sets.get(id)?.lastUsed ?? 0)) sets.delete(id);
  }
  // In the order of their keys, so that two batches never wait for each other.
  const rows = [...sets]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([id, { names, lastUsed }]) => names.map((name) => [id, name, lastUsed]));
  for (const some of batches(rows, ROWS)) await groupSets.run(knex, dialect, some);
}

export async function insertQueryGroups(knex: Knex, dialect: Dialect, queries: readonly GroupedQuery[]): Promise<void> {
  const rows = queries.flatMap(({ queryId, created, groups }) => {
    return namesOf(groups).map((name) => [name, created, cutToWidth(queryId, WIDTH)]);
  });
  for (const some of batches(rows, ROWS)) await queryGroups.run(knex, dialect, some);
}

/** Names of groups as the columns have them, each once, sorted. */
function namesOf(groups: readonly string[] = []): readonly string[] {
  return [...new Set(groups.slice(0, MAX_QUERY_GROUPS).map(groupColumn))].sort();
}

export function groupColumn(name: string): string {
  return cutToWidth(name, WIDTH);
}
