import { problemText } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import { groupFindings } from '../groupFindings.ts';
import type { DiscoveryFinding, DiscoveryReport, ProgramSettings } from '../kindProgram.ts';
import {
  type Acceptance,
  accepted,
  conditionState,
  groupNotAllowed,
  liveOf,
  notAccepted,
  outcomeOf,
  type ResourceOutcome,
  type State,
} from '../outcome.ts';
import { conditionColumn, plainKind, type ResourceKind } from '../resourceKind.ts';
import { countField, ready, type StatusDraft, type StatusView, statusDraft } from '../status.ts';
import { ENGINE_CLUSTER_DISCOVERIES, ENGINE_CLUSTER_DISCOVERY, EngineClusterDiscoverySpec } from './spec.ts';
import { discoveryProblems } from './validation.ts';

export interface DiscoveryOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** Null: it is not accepted. Its clusters stay as they are then. */
  readonly spec: EngineClusterDiscoverySpec | null;
  /** Result of the last scan, or null. */
  readonly report: DiscoveryReport | null;
}

export function isDiscoveryOutcome(outcome: ResourceOutcome): outcome is DiscoveryOutcome {
  return outcome.key.kind === ENGINE_CLUSTER_DISCOVERY;
}

/** Clusters that join by themselves (docs/discovery.md). */
export const engineClusterDiscovery: ResourceKind<DiscoveryOutcome> = {
  ...plainKind,
  kind: ENGINE_CLUSTER_DISCOVERY,
  plural: ENGINE_CLUSTER_DISCOVERIES,
  singular: 'engineclusterdiscovery',
  shortName: 'ecd',
  description: 'EngineClusterDiscovery makes clusters of Services by their labels.',
  spec: EngineClusterDiscoverySpec,
  objectRules: [
    [
      'self.metadata.name.size() <= 63',
      'metadata.name must have at most 63 characters: its clusters have it as a label',
    ],
  ],
  statusProperties: {
    services: countField('Services that match.'),
    clusters: countField('Clusters that were made of them.'),
    conflicts: countField('Services whose cluster would have the name of another one.'),
  },
  columns: [
    { name: 'Services', type: 'integer', jsonPath: '.status.services', description: 'Services that match.' },
    { name: 'Clusters', type: 'integer', jsonPath: '.status.clusters', description: 'Clusters made of them.' },
    conditionColumn('Discovered', 'Every Service that matches is a cluster.'),
    conditionColumn('Ready', 'Accepted and stored.'),
    conditionColumn('ResolvedRefs', 'The Services of its namespaces can be read.', 1),
  ],
  selectableFields: ['.spec.gatewayClassName'],
  example: {
    selector: { matchLabels: { 'app.kubernetes.io/name': 'trino', 'app.kubernetes.io/component': 'coordinator' } },
    template: { routingGroup: 'adhoc' },
  },
  ownAccess: {
    verbs: ['get', 'list', 'watch'],
    why: 'Discoveries are followed; the clusters that they make are written as any other.',
  },
  gauge: { name: 'engine_cluster_discoveries', help: 'EngineClusterDiscovery resources.' },
  specProblems: discoveryProblems,
  findings: ({ spec: { template } }) =>
    groupFindings(isRecord(template) ? template.routingGroup : undefined, 'spec.template.routingGroup'),
  program: (settings) => ({
    // Its clusters are resources themselves.
    restore: () => undefined,
    refresh: (resources) =>
      new Map(liveOf(resources).map((resource) => [keyTextOf(resource), discoveryOutcome(resource, settings)])),
  }),
  status: discoveryStatus,
};

const accept = accepted('the discovery is valid');
const unsupported = notAccepted(
  'DiscoveryUnsupported',
  'a discovery needs resources.source: kubernetes; without it nothing is discovered: declare each cluster instead',
);

function discoveryOutcome(
  resource: Resource,
  settings: Pick<ProgramSettings, 'policy' | 'discoveries'>,
): DiscoveryOutcome {
  const acceptance = acceptanceOf(resource, settings);
  return {
    ...outcomeOf(resource),
    registryName: resource.metadata.name,
    acceptance,
    spec: acceptance.status === 'True' ? (resource.spec as EngineClusterDiscoverySpec) : null,
    report: settings.discoveries?.report(resource.metadata.uid) ?? null,
  };
}

function acceptanceOf(
  { metadata, spec }: Resource,
  { policy, discoveries }: Pick<ProgramSettings, 'policy' | 'discoveries'>,
): Acceptance {
  const problems = discoveryProblems(spec);
  if (problems.length > 0) return notAccepted('InvalidSpec', problemText(problems));
  if (discoveries === undefined) return unsupported;
  const { routingGroup } = (spec as EngineClusterDiscoverySpec).template;
  const message = routingGroup === undefined ? null : policy.groups.joinRefusal(metadata.namespace, routingGroup);
  return message === null ? accept : groupNotAllowed({ field: 'template.routingGroup', message });
}

const pending = conditionState('Unknown', 'Pending', 'the Services have not been read yet');

function discoveryStatus(outcome: DiscoveryOutcome, { stored }: Pick<StatusView, 'stored'>): StatusDraft {
  const { acceptance, report } = outcome;
  const isAccepted = acceptance.status === 'True';
  const { services = 0, clusters = 0, conflicts = [], references = pending } = report ?? {};
  const fields = report === null ? {} : { services, clusters, conflicts: conflicts.length };
  return statusDraft(outcome, acceptance, fields, {
    ResolvedRefs: isAccepted ? references : null,
    Discovered: !isAccepted ? null : report === null ? pending : discoveredState(report),
    Ready: ready(acceptance, stored),
  });
}

/** `a/x (…), b/y (…)`: the first five of them. */
function findingsText(findings: readonly DiscoveryFinding[]): string {
  const listed = findings.slice(0, 5).map(({ service, message }) => `${service}: ${message}`);
  const more = findings.length - listed.length;
  return `${listed.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

/** Condition `Discovered`, without its generation: whether every Service that matches is a cluster. */
function discoveredState(report: DiscoveryReport): State {
  const { services, clusters, held, failure } = report;
  // Scans that find the same have the same message.
  const order = (a: DiscoveryFinding, b: DiscoveryFinding) => (a.service < b.service ? -1 : 1);
  const [conflicts, refusals] = [report.conflicts.toSorted(order), report.refusals.toSorted(order)];
  const count = `${services} Service${services === 1 ? '' : 's'}, ${clusters} cluster${clusters === 1 ? '' : 's'}`;
  if (failure !== null) return conditionState('False', 'WriteFailed', `${count}; ${failure}`);
  if (held > 0) {
    const message = `${count}; ${held} Services are gone at once, and their clusters stay; confirm with POST /api/heldDeletions/confirm, or create the Services again`;
    return conditionState('False', 'DeletionsHeld', message);
  }
  if (conflicts.length > 0) {
    const message = `${count}; names that are not this discovery's: ${findingsText(conflicts)}`;
    return conditionState('False', 'NameConflict', message);
  }
  if (refusals[0] !== undefined) {
    const message = `${count}; Services that become no clusters: ${findingsText(refusals)}`;
    return conditionState('False', refusals[0].reason, message);
  }
  if (clusters !== services) return conditionState('Unknown', 'Pending', `${count}; clusters are being written`);
  return conditionState('True', 'Discovered', count);
}
