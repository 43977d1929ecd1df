import type { Knex } from 'knex';

/**
 * Column that has the value, by what queries are counted by: of `eg_query_outcomes`, of which each has one value of each, null too; but
 * of `eg_group_sets` for groups of users, of which a query counts for each, and last, as a query may have none.
 */
export const dimensionColumns = {
  cluster: 'cluster',
  routingGroup: 'routing_group',
  user: 'user_name',
  source: 'source',
  rule: 'rule_name',
  userGroup: 'group_name',
} as const;

export type StatisticsDimension = keyof typeof dimensionColumns;
export const statisticsDimensions = Object.keys(dimensionColumns) as readonly StatisticsDimension[];

/** Queries with what they are counted by: as often as they have values of it. */
export function countedQueries(knex: Knex, dimension: StatisticsDimension): Knex.QueryBuilder {
  const queries = knex('eg_query_outcomes');
  return dimension === 'userGroup' ? queries.join('eg_group_sets', 'set_id', 'group_set') : queries;
}
