import { durationMs, durationProblem } from '../../model/durationField.ts';
import { type Problem, problemText } from '../../model/errors.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { isRecord } from '../../model/record.ts';
import type { Resource } from '../../model/resource.ts';
import { compileCheck } from '../../model/validation.ts';
import { DEFAULT_QUEUE, type GroupPolicy } from '../../routing/admissionPolicy.ts';
import { requestKeyOf } from '../../routing/requestKey.ts';
import { groupFindings, groupNameProblem } from '../groupFindings.ts';
import type { RoutingDraft } from '../kindProgram.ts';
import {
  accepted,
  clustersByGroup,
  conditionState,
  type GroupRefusal,
  groupNotAllowed,
  groupsText,
  notAccepted,
  type ResourceOutcome,
  type State,
} from '../outcome.ts';
import { type Judged, type PolicyOutcome, PolicyProgram } from '../policyProgram.ts';
import {
  type CheckedManifest,
  conditionColumn,
  type ManifestFinding,
  plainKind,
  type ResourceKind,
} from '../resourceKind.ts';
import { countField, countProperties, ready, statusDraft, usageFields } from '../status.ts';
import {
  FALLBACK_TO_ITSELF,
  FALLBACK_TWICE,
  HOLD_BEYOND_WAIT,
  objectRules,
  queueDurationBounds,
  ROUTING_GROUP,
  ROUTING_GROUPS,
  RoutingGroupSpec,
  WAIT_WITHOUT_QUEUE,
} from './spec.ts';

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
    ...countProperties,
  },
  columns: [
    { name: 'Clusters', type: 'integer', jsonPath: '.status.clusters', description: 'Clusters of the group.' },
    { name: 'Limit', type: 'integer', jsonPath: '.spec.maxRunningQueries', description: 'Queries at a time.' },
    { name: 'Running', type: 'integer', jsonPath: '.status.running', description: 'Queries that run.' },
    { name: 'Waiting', type: 'integer', jsonPath: '.status.waiting', description: 'Queries that wait.' },
    conditionColumn('Ready', 'Accepted, in the routing table and in the database.'),
    conditionColumn('ResolvedRefs', 'The group and its fallbacks have clusters.'),
    { name: 'Refused', type: 'integer', jsonPath: '.status.refused', description: 'Queries refused.', priority: 1 },
    { name: 'Fallbacks', type: 'string', jsonPath: '.spec.fallbacks', description: 'In their order.', priority: 1 },
  ],
  selectableFields: ['.spec.name', '.spec.gatewayClassName'],
  example: { maxRunningQueries: 200, queue: { maxQueued: 1000, maxWait: '10m' } },
  ownAccess: {
    verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    why: 'Limits of routing groups are followed; REST writes create, apply (patch) and delete them.',
  },
  gauge: { name: 'routing_groups', help: 'RoutingGroup resources.' },
  specProblems: (spec) => groupProblems(spec),
  findings: routingGroupFindings,
  program: (settings) => new GroupProgram(settings.policy.groups),
  status: (outcome, { stored, counts }) => {
    const { policy, registryName, clusters, acceptance, references } = outcome;
    const fields = { clusters, ...usageFields(policy === null ? null : counts.group(registryName)) };
    return statusDraft(outcome, acceptance, fields, { ResolvedRefs: references, Ready: ready(acceptance, stored) });
  },
  hasUniqueNames: true,
  hasCounts: true,
};

const accept = accepted('the routing group is valid');

class GroupProgram extends PolicyProgram<GroupPolicy, GroupOutcome> {
  protected readonly hasUniqueNames = true;
  readonly #bindings: GroupBindings;

  constructor(bindings: GroupBindings) {
    super();
    this.#bindings = bindings;
  }

  protected judge({ metadata, spec }: Resource, name: string): Judged<GroupPolicy> {
    const problems = groupProblems(spec, name);
    if (problems.length > 0) return { acceptance: notAccepted('InvalidSpec', problemText(problems)) };
    const policy = groupPolicy(name, spec as RoutingGroupSpec);
    const refusal = groupRefusal(this.#bindings, metadata.namespace, policy);
    return refusal === null ? { policy, acceptance: accept } : { acceptance: groupNotAllowed(refusal) };
  }

  protected completer({ clusters }: RoutingDraft) {
    const counts = clustersByGroup(clusters);
    return (outcome: PolicyOutcome<GroupPolicy>, declared: GroupPolicy | null): GroupOutcome => {
      const { registryName: name } = outcome;
      const references = groupReferences(declared ?? { name, fallbacks: [] }, counts);
      return { ...outcome, references, clusters: counts.get(name) ?? 0 };
    };
  }

  protected publish(policies: readonly GroupPolicy[], draft: RoutingDraft): void {
    const inOrder = policies.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    draft.admission = { ...draft.admission, groups: new Map(inOrder.map((policy) => [policy.name, policy])) };
  }
}

function groupPolicy(name: string, spec: RoutingGroupSpec): GroupPolicy {
  const { maxQueued, maxWait, fairBy, hold, whenUnavailable } = spec.queue ?? {};
  const maxWaitMs = maxWait === undefined ? DEFAULT_QUEUE.maxWaitMs : durationMs(maxWait);
  return {
    name,
    strategy: spec.strategy ?? null,
    affinity: requestKeyOf(spec.affinity?.by ?? 'user'),
    fallbacks: spec.fallbacks ?? [],
    fallbackWhen: spec.fallbackWhen ?? 'unavailable',
    bestEffort: spec.bestEffort ?? false,
    maxRunning: spec.maxRunningQueries ?? null,
    queue: {
      maxQueued: maxQueued ?? DEFAULT_QUEUE.maxQueued,
      maxWaitMs,
      fairBy: fairBy ?? DEFAULT_QUEUE.fairBy,
      // The default is not beyond a short `maxWait`.
      holdMs: hold === undefined ? Math.min(DEFAULT_QUEUE.holdMs, maxWaitMs) : durationMs(hold),
      whenUnavailable: whenUnavailable ?? DEFAULT_QUEUE.whenUnavailable,
    },
  };
}

/**
 * Returns the reason that a namespace may not declare a group's policy (docs/resources.md#several-teams); null if it
 * may.
 */
export function groupRefusal(
  bindings: GroupBindings,
  namespace: string,
  { name, fallbacks }: Pick<GroupPolicy, 'name' | 'fallbacks'>,
): GroupRefusal | null {
  const join = bindings.joinRefusal(namespace, name);
  if (join !== null) return { field: 'name', message: join };
  for (const [index, fallback] of fallbacks.entries()) {
    const route = bindings.routeRefusal(namespace, fallback);
    if (route !== null) return { field: `fallbacks[${index}]`, message: route };
  }
  return null;
}

/** The condition `ResolvedRefs`. @param counts clusters by routing group */
function groupReferences(
  { name, fallbacks }: Pick<GroupPolicy, 'name' | 'fallbacks'>,
  counts: ReadonlyMap<string, number>,
): State {
  const empty = fallbacks.filter((fallback) => !counts.has(fallback));
  if (empty.length > 0) {
    const message = `no cluster belongs to ${groupsText(empty)} among the fallbacks; correct the name, or declare a cluster of it`;
    return conditionState('False', 'GroupNotFound', message);
  }
  if (!counts.has(name) && fallbacks.length === 0) {
    const message = `no cluster belongs to the routing group ${name}; declare one with spec.routingGroup: ${name}`;
    return conditionState('False', 'NoClusters', message);
  }
  return conditionState('True', 'ResolvedRefs', 'the group or its fallbacks have clusters');
}

const checkSpec = compileCheck(RoutingGroupSpec, 'spec');

/**
 * Mistakes in the spec of a RoutingGroup.
 * @param name of the group, where it is known: `spec.name` or metadata.name
 */
export function groupProblems(spec: unknown, name?: string): readonly Problem[] {
  const checked = checkSpec(spec);
  const problems = checked.ok ? [] : [...checked.problems];
  if (!isRecord(spec)) return problems;
  const names: readonly (readonly [field: string, text: unknown])[] = [
    ['spec.name', spec.name],
    ...(Array.isArray(spec.fallbacks) ? spec.fallbacks : []).map(
      (text, index) => [`spec.fallbacks[${index}]`, text] as const,
    ),
  ];
  for (const [field, text] of names) {
    const message = groupNameProblem(text);
    if (message !== null) problems.push({ field, message });
  }
  if (Array.isArray(spec.fallbacks)) {
    const own = name ?? spec.name;
    if (new Set(spec.fallbacks).size < spec.fallbacks.length) {
      problems.push({ field: 'spec.fallbacks', message: withoutField(FALLBACK_TWICE) });
    }
    if (own !== undefined && spec.fallbacks.includes(own)) {
      problems.push({ field: 'spec.fallbacks', message: withoutField(FALLBACK_TO_ITSELF) });
    }
  }
  return isRecord(spec.queue) ? [...problems, ...queueProblems(spec.queue)] : problems;
}

function queueProblems(queue: Readonly<Record<string, unknown>>): readonly Problem[] {
  const problems: Problem[] = [];
  for (const field of ['maxWait', 'hold'] as const) {
    const message = durationProblem(field, queue[field], queueDurationBounds[field]);
    if (message !== null) problems.push({ field: `spec.queue.${field}`, message: withoutField(message) });
  }
  if (queue.whenUnavailable === 'wait' && queue.maxQueued === 0) {
    problems.push({ field: 'spec.queue.maxQueued', message: `is 0: ${WAIT_WITHOUT_QUEUE}` });
  }
  const { hold, maxWait } = queue;
  if (typeof hold === 'string' && typeof maxWait === 'string' && durationMs(hold) > durationMs(maxWait)) {
    problems.push({ field: 'spec.queue.hold', message: withoutField(HOLD_BEYOND_WAIT) });
  }
  return problems;
}

/** A sentence of the API server, whose subject is the field, as what is stated of a field. */
function withoutField(message: string): string {
  return message.slice(message.indexOf(' ') + 1);
}

/** Findings about a RoutingGroup in addition to the mistakes of its spec. */
function routingGroupFindings({ name, spec }: CheckedManifest): readonly ManifestFinding[] {
  const own = typeof spec.name === 'string' ? spec.name : name;
  const fallbacks = Array.isArray(spec.fallbacks) ? spec.fallbacks : [];
  const findings: ManifestFinding[] = [
    // What needs the name of the resource is no mistake of the spec alone.
    ...beyond(groupProblems(spec, own), groupProblems(spec)),
    ...groupFindings(own, 'spec.name').filter(({ severity }) => severity === 'warning'),
    ...fallbacks
      .flatMap((fallback, index) => groupFindings(fallback, `spec.fallbacks[${index}]`))
      .filter(({ severity }) => severity === 'warning'),
  ];
  if (spec.fallbackWhen === 'full' && fallbacks.length === 0) {
    const message = 'spec.fallbackWhen: has no effect without fallbacks; name the groups that serve instead';
    findings.push({ severity: 'warning', message, at: 'spec.fallbackWhen' });
  }
  return findings;
}

function beyond(all: ReturnType<typeof groupProblems>, present: ReturnType<typeof groupProblems>): ManifestFinding[] {
  const texts = new Set(present.map(({ field, message }) => `${field} ${message}`));
  return all
    .filter(({ field, message }) => !texts.has(`${field} ${message}`))
    .map(({ field, message }) => ({ severity: 'problem', message: `${field} ${message}`, at: field }));
}
