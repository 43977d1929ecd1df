import type { ConditionDraft } from '../../model/condition.ts';
import { keyOf, keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { CompiledRules, RuleReport } from '../../rules/ruleCompiler.ts';
import type { ResourceOutcome } from '../outcome.ts';
import { isPaused } from '../paused.ts';
import { ROUTING_RULE, type RoutingRule } from './spec.ts';

/** What a RoutingRule means. */
export interface RuleOutcome extends ResourceOutcome {
  /** Null when the compiler says nothing about it. */
  readonly report: RuleReport | null;
  /** Condition `ResolvedRefs` without its generation. */
  readonly references: Pick<ConditionDraft, 'status' | 'reason' | 'message'>;
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
      const condition = references(resource, targets);
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

const noReferences: RuleOutcome['references'] = {
  status: 'True',
  reason: 'NoReferences',
  message: 'the rule names no group or cluster declaratively',
};
const resolvedReferences: RuleOutcome['references'] = {
  status: 'True',
  reason: 'ResolvedRefs',
  message: 'what the rule routes to exists',
};

function sameReferences(a: RuleOutcome['references'], b: RuleOutcome['references']): boolean {
  return a === b || (a.status === b.status && a.reason === b.reason && a.message === b.message);
}

function references(resource: Resource, targets: RuleTargets): RuleOutcome['references'] {
  const { routeTo } = resource.spec as Partial<RoutingRule['spec']>;
  const group = routeTo?.routingGroup;
  const cluster = routeTo?.cluster;
  if (group !== undefined && !targets.groups.has(group)) {
    return { status: 'False', reason: 'GroupNotFound', message: `no cluster belongs to the routing group ${group}` };
  }
  if (cluster !== undefined && !targets.clusters.has(cluster)) {
    return { status: 'False', reason: 'ClusterNotFound', message: `there is no cluster ${cluster}` };
  }
  return group === undefined && cluster === undefined ? noReferences : resolvedReferences;
}
