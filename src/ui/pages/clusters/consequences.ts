import type { ClusterDetails, NewQueries } from '../../client/types.ts';
import { formatElapsed } from '../../components/amounts.ts';

/** Describes what happens to new queries of a group without active clusters. */
export function newQueriesText(newQueries: NewQueries): string {
  switch (newQueries.outcome) {
    case 'fallback':
    case 'default': {
      const { routingGroup, clusters, outcome } = newQueries;
      const which = outcome === 'default' ? 'the default group' : 'its fallback';
      return `New queries go to ${which} ${routingGroup} (${listed(clusters)}).`;
    }
    case 'wait': {
      const { maxQueued, maxWaitMillis } = newQueries;
      return `New queries wait for a backend, at most ${maxQueued.toLocaleString('en')} at a time and each at most ${formatElapsed(maxWaitMillis)}; beyond that they are refused.`;
    }
    case 'refused':
      return 'New queries are refused: clients get the error NO_NODES_AVAILABLE.';
  }
}

const MAX_NAMES = 5;

function listed(names: readonly string[]): string {
  const others = names.length - MAX_NAMES;
  return others > 0 ? `${names.slice(0, MAX_NAMES).join(', ')} and ${others} more` : names.join(', ');
}

/** Describes the number of queries that continue. @param queries running queries; null if unknown */
export function goOnText(queries: number | null): string {
  if (queries === null) return 'Queries that run go on.';
  if (queries === 0) return 'No query is known to run.';
  return queries === 1 ? '1 query runs, and goes on to its end.' : `${queries} queries run, and go on to their end.`;
}

export function isLastActive({ takesNewQueries, group }: Pick<ClusterDetails, 'takesNewQueries' | 'group'>): boolean {
  return takesNewQueries && group !== null && group.others.length === 0;
}

/**
 * Describes the effect of deactivating the last active cluster of a group. @param queries running queries; null if
 * unknown
 */
export function describeLastActive({ name, group }: ClusterDetails, queries: number | null): string {
  const first = `${name} is the last backend of the routing group ${group?.name ?? ''} that takes new queries.`;
  const next = group === null ? '' : ` ${newQueriesText(group.withoutTakers)}`;
  return `${first} ${goOnText(queries)}${next}`;
}

/**
 * Describes the effect of deactivating all active clusters of a group.
 * @param counts running queries per cluster; null if unknown
 */
export function drainText(
  clusters: readonly string[],
  counts: readonly (number | null)[],
  withoutTakers: NewQueries,
): string {
  const which =
    clusters.length === 1 ? `the backend ${clusters[0]}` : `${clusters.length} backends (${listed(clusters)})`;
  const queries = counts.includes(null) ? null : counts.reduce((sum: number, count) => sum + (count ?? 0), 0);
  return `This switches off ${which}. ${goOnText(queries)} ${newQueriesText(withoutTakers)}`;
}
