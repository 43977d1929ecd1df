import { keyOf, keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { CompiledRules, RuleReport } from '../../rules/ruleCompiler.ts';
import { groupsText, type References } from '../groupReferences.ts';
import type { ResourceOutcome } from '../outcome.ts';
import { isPaused } from '../paused.ts';
import { ROUTING_RULE, type RoutingRule } from './spec.ts';

/** What a RoutingRule means. */
export interface RuleOutcome extends ResourceOutcome {
  /** Null when the compiler says nothing about it. */
  readonly report: RuleReport | null;
  /** Condition `ResolvedRefs` without its generation. */
  readonly references: References;
}

/** Whether an outcome is of a RoutingRule. */
export function isRuleOutcome(outcome: ResourceOutcome): outcome is RuleOutcome {
  return outcome.key.kind === ROUTING_RULE;
}

/** Groups and clusters that rules may refer to. */
export interface RuleTargets {
  readonly groups: ReadonlySet<string>;
  readonly clusters: ReadonlySet<string>;
}

/**
 * The outcome of every RoutingRule there is, by `keyText`. Pure.
 * @param before the outcomes before, whose objects stay where they say the same: there are thousands
 */
export function ruleOutcomes(
  resources: readonly Resource[],
  compiled: CompiledRules,
  targets: RuleTargets,
  before: ReadonlyMap<string, RuleOutcome>,
): ReadonlyMap<string, RuleOutcome> {
  return new Map(
    resources.map((resource) => {
      const text = keyTextOf(resource);
      const report = compiled.reports.get(text) ?? null;
      const { routeTo } = resource.spec as Partial<RoutingRule['spec']>;
      const named = compiled.namedGroups.get(`resource/${registryNameOf(resource)}`) ?? [];
      const condition = ruleReferences(routeTo ?? null, report?.accepted === true ? named : [], targets);
      const last = before.get(text);
      const isSame =
        last?.resource === resource && last.report === report && sameReferences(last.references, condition);
      if (isSame) return [text, last];
      const registryName = registryNameOf(resource);
      return [
        text,
        { key: keyOf(resource), resource, registryName, report, references: condition, paused: isPaused(resource) },
      ];
    }),
  );
}

/** In a few words, where a rule sends requests: a column of `kubectl get`. */
export function routesTo(resource: Resource): string {
  const { routeTo, deny } = resource.spec as Partial<RoutingRule['spec']>;
  if (routeTo?.routingGroup !== undefined) return `group ${routeTo.routingGroup}`;
  if (routeTo?.cluster !== undefined) return `cluster ${routeTo.cluster}`;
  return deny === undefined ? 'actions' : 'denied';
}

const noReferences: References = {
  status: 'True',
  reason: 'NoReferences',
  message: 'the rule names no group or cluster declaratively',
};
const resolvedReferences: References = {
  status: 'True',
  reason: 'ResolvedRefs',
  message: 'what the rule routes to exists',
};

function sameReferences(a: References, b: References): boolean {
  return a === b || (a.status === b.status && a.reason === b.reason && a.message === b.message);
}

/**
 * Whether what a rule routes to is there.
 * @param named routing groups that its actions name; what they compute is known only when they run
 */
export function ruleReferences(
  routeTo: RoutingRule['spec']['routeTo'] | null,
  named: readonly string[],
  targets: RuleTargets,
): References {
  const group = routeTo?.routingGroup;
  const cluster = routeTo?.cluster;
  const groups = group === undefined ? named : [group];
  const absent = groups.filter((name) => !targets.groups.has(name));
  if (absent.length > 0) {
    return { status: 'False', reason: 'GroupNotFound', message: `no cluster belongs to ${groupsText(absent)}` };
  }
  if (cluster !== undefined && !targets.clusters.has(cluster)) {
    return { status: 'False', reason: 'ClusterNotFound', message: `there is no cluster ${cluster}` };
  }
  return groups.length === 0 && cluster === undefined ? noReferences : resolvedReferences;
}
