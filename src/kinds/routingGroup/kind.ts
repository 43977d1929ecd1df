import { durationMs } from '../../model/durationField.ts';
import type { Problem } from '../../model/errors.ts';
import { DEFAULT_QUEUE, type GroupPolicy, type RequestKey } from '../../routing/admissionPolicy.ts';
import { type ClusterEntry, takesNewQueries } from '../../routing/routingTable.ts';
import type { GrantRejection, Tenancy } from '../../rules/tenancy.ts';
import { uncapitalized } from '../fields/spec.ts';
import {
  accepted,
  clustersByGroup,
  conditionState,
  countField,
  countProperties,
  groupsText,
  type ResourceOutcome,
  ready,
  type State,
  statusDraft,
  usageFields,
} from '../outcome.ts';
import { type PolicyOutcome, PolicyProgram } from '../policyProgram.ts';
import {
  type CheckedManifest,
  column,
  conditionColumn,
  countColumns,
  groupFindings,
  type ManifestFinding,
  plainKind,
  type ResourceKind,
  specCheck,
  writeAccess,
} from '../resourceKind.ts';
import { NOT_ITSELF, objectRules, ROUTING_GROUP, ROUTING_GROUPS, RoutingGroupSpec } from './spec.ts';

export interface GroupOutcome extends PolicyOutcome<GroupPolicy> {
  readonly references: State;
  readonly clusters: number;
}

export function isGroupOutcome(outcome: ResourceOutcome): outcome is GroupOutcome {
  return outcome.key.kind === ROUTING_GROUP;
}

/** Limits, queues and fallbacks of routing groups (docs/resources.md#routing-groups-and-their-queues). */
export const routingGroup: ResourceKind<GroupOutcome> = {
  ...plainKind,
  kind: ROUTING_GROUP,
  plural: ROUTING_GROUPS,
  singular: 'routinggroup',
  shortName: 'rtg',
  description: 'RoutingGroup declares limits, queue and fallbacks of a routing group.',
  spec: RoutingGroupSpec,
  objectRules,
  statusProperties: {
    clusters: countField('Clusters that belong to the group.'),
    eligibleClusters: countField('Clusters of the group that take new queries: active and healthy.'),
    ...countProperties,
  },
  columns: [
    column('Clusters', 'integer', 'status.clusters', 'Clusters of the group.'),
    column('Eligible', 'integer', 'status.eligibleClusters', 'Clusters of the group that take new queries.'),
    column('Limit', 'integer', 'spec.maxRunningQueries', 'Queries at a time.', 1),
    ...countColumns,
    conditionColumn('ResolvedRefs', 'The group and its fallbacks have clusters.', 1),
    column('Fallbacks', 'string', 'spec.fallbacks', 'In their order.', 1),
  ],
  selectableFields: ['.spec.name', '.spec.gatewayClassName'],
  example: { maxRunningQueries: 200, queue: { maxQueuedQueries: 1000, maxWait: '10m' } },
  ownAccess: writeAccess('Limits of routing groups are followed; REST writes create, apply (patch) and delete them.'),
  gauge: { name: 'routing_groups', help: 'RoutingGroup resources.' },
  specProblems: (spec) => groupProblems(spec),
  findings: (manifest) => [...routingGroupFindings(manifest)],
  program: () =>
    new PolicyProgram<GroupPolicy, GroupOutcome>({
      hasUniqueNames: true,
      isFrozenBySuspension: true,
      acceptance: accepted('the routing group is valid'),
      problems: groupProblems,
      policy: ({ spec }, name) => groupPolicy(name, spec as RoutingGroupSpec),
      rejection: ({ metadata }, policy, tenancy) =>
        groupRejection(tenancy, metadata.namespace, policy, policy.survival?.to),
      completer: ({ clusters }) => {
        const counts = clustersByGroup(clusters);
        return (outcome, declared) => {
          const { registryName: name } = outcome;
          const references = groupReferences(declared ?? { name, fallbacks: [], survival: null }, counts);
          return { ...outcome, references, clusters: counts.get(name) ?? 0 };
        };
      },
      publish: (policies, draft) => {
        const inOrder = policies.toSorted((a, b) => (a.name < b.name ? -1 : 1));
        draft.admission = { ...draft.admission, groups: new Map(inOrder.map((policy) => [policy.name, policy])) };
      },
    }),
  status: (outcome, { stored, counts, table }) => {
    const { policy, registryName, clusters, acceptance, references } = outcome;
    const members = table.groups.get(registryName) ?? [];
    const eligibleClusters = members.filter(takesNewQueries).length;
    const usage = usageFields(policy === null ? null : counts.group(registryName));
    const fallbacks = (policy?.fallbacks ?? []).flatMap((fallback) => table.groups.get(fallback) ?? []);
    const others = outcome.suspended ? [] : [references, eligibility(registryName, [...members, ...fallbacks])];
    return statusDraft(
      outcome,
      acceptance,
      { clusters, eligibleClusters, ...usage },
      {
        ResolvedRefs: references,
        Ready: ready(acceptance, stored, ...others),
      },
    );
  },
  hasUniqueNames: true,
  hasCounts: true,
};

function groupPolicy(name: string, spec: RoutingGroupSpec): GroupPolicy {
  const { strategy, whenFull, whenUnavailable, queue = {}, survival } = spec;
  const { maxQueuedQueries, maxWait, fairBy = 'User', hold } = queue;
  const maxWaitMs = maxWait === undefined ? DEFAULT_QUEUE.maxWaitMs : durationMs(maxWait);
  return {
    name,
    strategy: strategy === undefined ? null : uncapitalized(strategy.type),
    affinity: affinityKey(strategy?.affinity),
    fallbacks: spec.fallbacks ?? [],
    fallbackWhen: whenFull === 'Fallback' ? 'full' : 'unavailable',
    bestEffort: spec.bestEffort ?? false,
    maxRunning: spec.maxRunningQueries ?? null,
    queue: {
      maxQueued: maxQueuedQueries ?? DEFAULT_QUEUE.maxQueued,
      maxWaitMs,
      fairBy: uncapitalized(fairBy),
      // The default is not beyond a short `maxWait`.
      holdMs: hold === undefined ? Math.min(DEFAULT_QUEUE.holdMs, maxWaitMs) : durationMs(hold),
      whenUnavailable: whenUnavailable === 'Wait' ? 'wait' : 'refuse',
    },
    survival:
      survival === undefined
        ? null
        : {
            maxAttempts: survival.maxAttempts ?? 2,
            reasons: survival.reasons,
            to: survival.to ?? [],
            exceptRules: survival.exceptRules ?? [],
            retriesPerMinute: survival.retryBudget ?? 60,
          },
  };
}

type Affinity = NonNullable<RoutingGroupSpec['strategy']>['affinity'];

function affinityKey({ type = 'User', name = '' }: Partial<NonNullable<Affinity>> = {}): RequestKey {
  return type === 'Header' ? { by: 'header', header: name.toLowerCase() } : { by: uncapitalized(type) };
}

/** Returns the reason that a namespace may not declare a group's policy, or null. */
export function groupRejection(
  tenancy: Tenancy,
  namespace: string,
  { name, fallbacks }: Pick<GroupPolicy, 'name' | 'fallbacks'>,
  to: readonly string[] = [],
): GrantRejection | null {
  const own = tenancy.nameRejection(namespace, name) ?? tenancy.groupRejection(namespace, 'name', name);
  const refusals = [
    ...fallbacks.map((each, index) => tenancy.groupRejection(namespace, `fallbacks[${index}]`, each)),
    ...to.map((each, index) => tenancy.groupRejection(namespace, `survival.to[${index}]`, each)),
  ];
  return own ?? refusals.find((each) => each !== null) ?? null;
}

/** The condition `ResolvedRefs`. @param counts clusters by routing group */
function groupReferences(
  { name, fallbacks, survival }: Pick<GroupPolicy, 'name' | 'fallbacks' | 'survival'>,
  counts: ReadonlyMap<string, number>,
): State {
  for (const [groups, where] of [
    [fallbacks, 'the fallbacks'],
    [survival?.to ?? [], 'survival.to'],
  ] as const) {
    const empty = groups.filter((group) => !counts.has(group));
    if (empty.length === 0) continue;
    const message = `no cluster belongs to ${groupsText(empty)} among ${where}; correct the name, or declare a cluster of it`;
    return conditionState('False', 'GroupNotFound', message);
  }
  if (!counts.has(name) && fallbacks.length === 0) {
    const message = `no cluster belongs to the routing group ${name}; declare one with spec.routingGroup: ${name}`;
    return conditionState('False', 'NoClusters', message);
  }
  return conditionState('True', 'ResolvedRefs', 'the group or its fallbacks have clusters');
}

/** True if one of the clusters that may serve a group takes new queries. */
function eligibility(group: string, clusters: readonly ClusterEntry[]): State {
  if (clusters.some(takesNewQueries))
    return conditionState('True', 'Eligible', 'a cluster of the group, or of its fallbacks, takes new queries');
  if (clusters.some(({ active, health }) => active && health.status === 'PENDING'))
    return conditionState('Unknown', 'Pending', 'no cluster of the group, nor of its fallbacks, is checked yet');
  const message = `no cluster of the routing group ${group}, nor of its fallbacks, is active and healthy; activate one, or see the condition Healthy of its clusters`;
  return conditionState('False', 'NoEligibleClusters', message);
}

/**
 * Mistakes in the spec of a RoutingGroup.
 * @param name of the group, where it is known: `spec.name` or metadata.name
 */
export const groupProblems = specCheck(RoutingGroupSpec, (spec, name = spec.name) =>
  name !== undefined && spec.fallbacks?.includes(name) ? [toItself] : [],
);

const toItself: Problem = { field: 'spec.fallbacks', message: NOT_ITSELF };

function survivalGroups(survival: unknown): readonly unknown[] {
  const { to } = (survival ?? {}) as { readonly to?: unknown };
  return Array.isArray(to) ? to : [];
}

/** Findings about a RoutingGroup in addition to the mistakes of its spec. */
function* routingGroupFindings({ name, spec }: CheckedManifest): Generator<ManifestFinding> {
  const own = typeof spec.name === 'string' ? spec.name : name;
  const fallbacks: readonly unknown[] = Array.isArray(spec.fallbacks) ? spec.fallbacks : [];
  // What needs the name of the resource is no mistake of the spec alone.
  if (spec.name === undefined && fallbacks.includes(name)) {
    const { field, message } = toItself;
    yield { severity: 'problem', message: `${field} ${message}`, at: field };
  }
  const names = [
    [own, 'spec.name'] as const,
    ...fallbacks.map((each, index) => [each, `spec.fallbacks[${index}]`] as const),
    ...survivalGroups(spec.survival).map((each, index) => [each, `spec.survival.to[${index}]`] as const),
  ];
  for (const [group, field] of names) {
    yield* groupFindings(group, field).filter(({ severity }) => severity === 'warning');
  }
  if (spec.whenFull === 'Fallback' && fallbacks.length === 0) {
    const message = 'spec.whenFull: Fallback has no effect without fallbacks; name the groups that serve instead';
    yield { severity: 'warning', message, at: 'spec.whenFull' };
  }
}
