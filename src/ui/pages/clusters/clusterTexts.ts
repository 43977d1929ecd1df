import type { ENGINE_CLUSTER_DISCOVERY } from '../../../kinds/engineClusterDiscovery/spec.ts';
import type { API_FIELD_MANAGER } from '../../../model/resource.ts';
import type { ClusterDetails, ClusterState, NewQueries, RuleState } from '../../client/types.ts';
import { formatElapsed } from '../../components/amounts.ts';
import { managersText } from '../../components/managers.ts';

/** Short text for the source of a cluster: manager of its resource, file, REST, or an unmanaged row. */
export function sourceOf({
  origin,
  resource,
  discovery,
}: Pick<ClusterState, 'origin' | 'resource' | 'discovery'>): string {
  if (discovery !== null) return `discovered by ${discovery.name}`;
  if (origin === 'kubernetes') return managersText(resource?.managers ?? []) || 'Kubernetes';
  return { row: 'row without a resource', directory: 'file', database: 'REST' }[origin];
}

const discoveryKind: typeof ENGINE_CLUSTER_DISCOVERY = 'EngineClusterDiscovery';

/**
 * Explains why a discovered cluster cannot be edited or deleted, and what to change instead; null for other clusters.
 */
export function discoveredText({ discovery, resource }: Pick<ClusterState, 'discovery' | 'resource'>): string | null {
  if (discovery === null) return null;
  const name = `${resource === null ? '' : `${resource.namespace}/`}${discovery.name}`;
  const service = discovery.service === null ? '' : ` from the Service ${discovery.service}`;
  return `Discovered${service} by the ${discoveryKind} ${name}: change its template, or labels and annotations of the Service. Switching on and off works here.`;
}

/** Describes what happens to new queries of a group without active clusters. */
export function newQueriesText(newQueries: NewQueries): string {
  switch (newQueries.outcome) {
    case 'fallback':
    case 'default': {
      const { routingGroup, clusters, outcome } = newQueries;
      const which = outcome === 'default' ? 'the default group' : 'its fallback';
      return `New queries go to ${which} ${routingGroup} (${someNames(clusters)}).`;
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

function someNames(names: readonly string[]): string {
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

/** Describes the effect of deactivating the last active cluster of a group. @param queries null if unknown */
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
  const [only] = clusters;
  const which = clusters.length === 1 ? `the backend ${only}` : `${clusters.length} backends (${someNames(clusters)})`;
  const queries = counts.includes(null) ? null : counts.reduce((sum: number, count) => sum + (count ?? 0), 0);
  return `This switches off ${which}. ${goOnText(queries)} ${newQueriesText(withoutTakers)}`;
}

const ownManager: typeof API_FIELD_MANAGER = 'engine-gateway-api';

export function valueText(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Owners of a field; empty if unknown. */
export function ownersText(managers: readonly string[]): string {
  const named = managers.map((manager) => (manager === ownManager ? 'REST, which has taken it over' : manager));
  return named.length === 0 ? '' : `by ${named.join(' and ')}`;
}

/** Compares active and declared values, with the reason for differences. */
export function differencesText(cluster: Pick<ClusterDetails, 'fields' | 'resource' | 'routed' | 'override'>): string {
  const { fields, resource, routed, override } = cluster;
  const count = fields.filter(({ differs }) => differs).length;
  if (!routed) return 'Nothing of it is in force: it is not routed.';
  if (count === 0) return 'All that is declared is in force.';
  const acceptance = resource?.conditions.find(({ type }) => type === 'Accepted');
  const reasons = [
    ...(resource?.paused === true ? ['the resource is paused'] : []),
    ...(acceptance?.status === 'False' ? [`the resource is not accepted: ${acceptance.message}`] : []),
    ...(override === null ? [] : ['an override is in force']),
  ];
  const what = `${count === 1 ? '1 field is' : `${count} fields are`} in force as other than declared`;
  return `${what}${reasons.length === 0 ? '' : `: ${reasons.join('; ')}`}.`;
}

export interface RuleDestination {
  /** Null: any cluster of the group. */
  readonly cluster: string | null;
  readonly group: string | null;
}

/**
 * Rules that route to a cluster or its group, in firing order: by their target, or by an action that names the group as
 * a literal. Computed groups are unknown until a query arrives.
 */
export function leadsTo(
  rules: readonly RuleState[],
  { cluster, group }: RuleDestination,
): readonly { readonly rule: RuleState; readonly how: string }[] {
  return rules.flatMap((rule) => {
    const { routeTo, actions } = rule;
    if (cluster !== null && routeTo?.cluster === cluster) return [{ rule, how: 'to this backend alone' }];
    if (group === null) return [];
    if (routeTo?.routingGroup === group) return [{ rule, how: `to the group ${group}` }];
    const isNamed = actions.some((action) => action.includes(JSON.stringify(group)) || action.includes(`'${group}'`));
    return isNamed ? [{ rule, how: `an action names ${group}` }] : [];
  });
}
