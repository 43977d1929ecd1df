import { isDeepStrictEqual } from 'node:util';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { AdmissionPolicy } from '../../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { CompiledRules, RuleReport } from '../../rules/ruleCompiler.ts';
import { withholdsName } from '../../rules/tenancy.ts';
import { conditionState, groupsText, outcomeOf, type ResourceOutcome, type State, servedGroups } from '../outcome.ts';
import type { RoutingRule } from './spec.ts';

export interface RuleOutcome extends ResourceOutcome {
  /** Null when the compiler states nothing about it. */
  readonly report: RuleReport | null;
  /** Condition `ResolvedRefs` without its generation. */
  readonly references: State;
}

/** Groups and clusters that rules may refer to. */
export interface RuleTargets {
  readonly groups: ReadonlySet<string>;
  readonly clusters: ReadonlySet<string>;
}

/**
 * The outcome of a RoutingRule. Pure.
 * @param last the outcome before, which stays where it says the same: there are thousands
 * @param isRetargeted whether the targets are others than those before
 */
export function ruleOutcome(
  resource: Resource,
  compiled: CompiledRules,
  targets: RuleTargets,
  last: RuleOutcome | undefined,
  isRetargeted: boolean,
): RuleOutcome {
  const report = compiled.reports.get(keyTextOf(resource)) ?? null;
  const isSameReport = last?.resource === resource && last.report === report;
  // The groups that its actions name are the compiler's as well, which keeps the report of a rule that is as before.
  if (isSameReport && !isRetargeted) return last;
  const { routeTo } = resource.spec as Partial<RoutingRule['spec']>;
  const named = compiled.namedGroups.get(`resource/${registryNameOf(resource)}`) ?? [];
  const references = ruleReferences(routeTo ?? null, report?.accepted === true ? named : [], targets);
  if (isSameReport && isDeepStrictEqual(last.references, references)) return last;
  const outcome = { ...outcomeOf(resource), report, references };
  // Nothing may be known by the name that it asks for.
  const { namespace, name } = resource.metadata;
  return withholdsName(report?.acceptedReason) ? { ...outcome, registryName: `${namespace}/${name}` } : outcome;
}

/** In a few words, where a rule sends requests: a column of `kubectl get`. */
export function routesTo(resource: Resource): string {
  const { routeTo, deny } = resource.spec as Partial<RoutingRule['spec']>;
  if (routeTo?.routingGroup !== undefined) return `group ${routeTo.routingGroup}`;
  if (routeTo?.cluster !== undefined) return `cluster ${routeTo.cluster}`;
  return deny === undefined ? 'actions' : 'denied';
}

const noReferences = conditionState('True', 'NoReferences', 'the rule names no group or cluster declaratively');
const resolvedReferences = conditionState('True', 'ResolvedRefs', 'what the rule routes to exists');

/**
 * True if what a rule routes to is there.
 * @param named routing groups that its actions name; what they compute is known only when they run
 */
export function ruleReferences(
  routeTo: RoutingRule['spec']['routeTo'] | null,
  named: readonly string[],
  targets: RuleTargets,
): State {
  const group = routeTo?.routingGroup;
  const cluster = routeTo?.cluster;
  const groups = group === undefined ? named : [group];
  const absent = groups.filter((name) => !targets.groups.has(name));
  if (absent.length > 0) {
    return conditionState('False', 'GroupNotFound', `no cluster belongs to ${groupsText(absent)}`);
  }
  if (cluster !== undefined && !targets.clusters.has(cluster)) {
    return conditionState('False', 'ClusterNotFound', `there is no cluster ${cluster}`);
  }
  return groups.length === 0 && cluster === undefined ? noReferences : resolvedReferences;
}

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
