import { countProperties, declarationStatus, usageFields } from '../declarationStatus.ts';
import { groupFindings } from '../groupFindings.ts';
import { isSameOutcome } from '../outcome.ts';
import { type CheckedManifest, conditionColumn, type ManifestFinding, type ResourceKind } from '../resourceKind.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import type { GroupOutcome } from './groupOutcome.ts';
import { GroupProgram } from './groupProgram.ts';
import { objectRules, ROUTING_GROUP, ROUTING_GROUPS, RoutingGroupSpec } from './spec.ts';
import { groupProblems } from './validation.ts';

/** Limits, queues and fallbacks of routing groups (docs/resources.md#routing-groups-and-their-queues). */
export const routingGroup: ResourceKind<GroupOutcome> = {
  kind: ROUTING_GROUP,
  plural: ROUTING_GROUPS,
  singular: 'routinggroup',
  shortName: 'rtg',
  description: 'RoutingGroup declares limits, queue and fallbacks of a routing group.',
  spec: RoutingGroupSpec,
  objectRules,
  statusProperties: {
    clusters: { type: 'integer', format: 'int64', minimum: 0, description: 'Clusters that belong to the group.' },
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
  // A gateway that ran before has no limits.
  exported: () => [],
  program: (settings) => new GroupProgram(settings),
  isSame: isSameOutcome,
  status: groupStatus,
  endedAnnotations: () => [],
  rows: null,
  isRequired: false,
  hasUniqueNames: true,
  hasCounts: true,
};

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

/** The status of a routing group. Pure. */
function groupStatus(outcome: GroupOutcome, { stored, counts }: Pick<StatusView, 'stored' | 'counts'>): StatusDraft {
  const { policy, registryName, clusters } = outcome;
  const usage = usageFields(policy === null ? null : counts.group(registryName));
  return declarationStatus(outcome, stored, { clusters, ...usage });
}
