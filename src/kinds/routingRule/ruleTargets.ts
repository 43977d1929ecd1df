import type { AdmissionPolicy } from '../../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import { servedGroups } from '../groupReferences.ts';
import type { RuleTargets } from './ruleOutcome.ts';

/** What rules may route to. @param defaultGroup the group of queries for which no rule chooses */
export function ruleTargets(
  clusters: readonly RoutableCluster[],
  { groups }: Pick<AdmissionPolicy, 'groups'>,
  defaultGroup: string,
): RuleTargets {
  return {
    groups: new Set([defaultGroup, ...servedGroups(clusters, groups)]),
    clusters: new Set(clusters.map(({ name }) => name)),
  };
}
