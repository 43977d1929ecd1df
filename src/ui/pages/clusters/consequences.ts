import type { ClusterDetails, NewQueries } from '../../client/types.ts';
import { durationText } from '../../components/amounts.ts';

/** What new queries of a group get when none of its clusters takes any, as a sentence. */
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
      return `New queries wait for a backend, at most ${maxQueued.toLocaleString('en')} at a time and each at most ${durationText(maxWaitMillis)}; beyond that they are refused.`;
    }
    case 'refused':
      return 'New queries are refused: clients get the error NO_NODES_AVAILABLE.';
  }
}

/** Names that are written out; of more, how many they are. */
const MAX_NAMES = 5;

function listed(names: readonly string[]): string {
  const others = names.length - MAX_NAMES;
  return others > 0 ? `${names.slice(0, MAX_NAMES).join(', ')} and ${others} more` : names.join(', ');
}

/** How many queries go on, as a sentence. @param queries that run; null: not known */
export function goOnText(queries: number | null): string {
  if (queries === null) return 'Queries that run go on.';
  if (queries === 0) return 'No query is known to run.';
  return queries === 1 ? '1 query runs, and goes on to its end.' : `${queries} queries run, and go on to their end.`;
}

/** True if this cluster takes new queries, and no other one of its group does. */
export function isLastTaker({ takesNewQueries, group }: Pick<ClusterDetails, 'takesNewQueries' | 'group'>): boolean {
  return takesNewQueries && group !== null && group.others.length === 0;
}

/** What happens when the last cluster of a group that takes queries is switched off. @param queries that run on it; null: not known */
export function lastTakerText({ name, group }: ClusterDetails, queries: number | null): string {
  const first = `${name} is the last backend of the routing group ${group?.name ?? ''} that takes new queries.`;
  const next = group === null ? '' : ` ${newQueriesText(group.withoutTakers)}`;
  return `${first} ${goOnText(queries)}${next}`;
}

/**
 * What happens when all clusters of a group are switched off that take new queries.
 * @param counts queries that run on each; null: not known
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
