import { clusterUrlProblem } from '../../model/clusterUrl.ts';
import { type Problem, problemText } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import { clusterSpecProblems } from '../engineCluster/validation.ts';
import { groupFindings } from '../groupFindings.ts';
import type { DiscoveryReport, ProgramSettings } from '../kindProgram.ts';
import {
  type Acceptance,
  accepted,
  conditionState,
  countField,
  groupNotAllowed,
  liveOf,
  notAccepted,
  outcomeOf,
  type ResourceOutcome,
  ready,
  statusDraft,
} from '../outcome.ts';
import { conditionColumn, plainKind, type ResourceKind, specCheck } from '../resourceKind.ts';
import { withServiceNames } from './discoveredCluster.ts';
import {
  EMPTY_SELECTOR,
  ENGINE_CLUSTER_DISCOVERIES,
  ENGINE_CLUSTER_DISCOVERY,
  EngineClusterDiscoverySpec,
  GROUP_MISSING,
  LABEL_OR_ANNOTATION,
  labelKey,
  NO_SERVICE_NAME,
  VALUES_MISMATCH,
} from './spec.ts';

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
  status: (outcome, { stored }) => {
    const { acceptance, report } = outcome;
    const { references = pending, discovered = pending, counts = {} } = report ?? {};
    const isAccepted = acceptance.status === 'True';
    return statusDraft(outcome, acceptance, counts, {
      ResolvedRefs: isAccepted ? references : null,
      Discovered: isAccepted ? discovered : null,
      Ready: ready(acceptance, stored),
    });
  },
};

function discoveryOutcome(resource: Resource, { policy, discoveries }: ProgramSettings): DiscoveryOutcome {
  const { metadata, spec } = resource;
  const acceptance = acceptanceOf();
  const isAccepted = acceptance.status === 'True';
  return {
    ...{ ...outcomeOf(resource), registryName: metadata.name, acceptance },
    spec: isAccepted ? (spec as EngineClusterDiscoverySpec) : null,
    report: discoveries?.report(metadata.uid) ?? null,
  };
  function acceptanceOf(): Acceptance {
    const problems = discoveryProblems(spec);
    if (problems.length > 0) return notAccepted('InvalidSpec', problemText(problems));
    if (discoveries === undefined) return notAccepted('DiscoveryUnsupported', UNSUPPORTED);
    const { routingGroup } = (spec as EngineClusterDiscoverySpec).template;
    const message = routingGroup === undefined ? null : policy.groups.joinRefusal(metadata.namespace, routingGroup);
    if (message !== null) return groupNotAllowed({ field: 'template.routingGroup', message });
    return accepted('the discovery is valid');
  }
}

const UNSUPPORTED =
  'a discovery needs resources.source: kubernetes; without it nothing is discovered: declare each cluster instead';
const pending = conditionState('Unknown', 'Pending', 'the Services have not been read yet');

/** Stands for any Service: names of Services are labels of DNS. */
const sampleService = { namespace: 'n', name: 's' };

const checkSpec = specCheck(EngineClusterDiscoverySpec, function* ({ selector, template }, value) {
  if (isRecord(selector)) yield* selectorProblems(selector);
  if (!isRecord(template)) return;
  const { routingGroup, routingGroupFrom: from, name, externalUrl, healthCheck, tls } = template;
  if (routingGroup === undefined && from === undefined) {
    yield { field: 'spec.template.routingGroup', message: `is missing: ${GROUP_MISSING}` };
  }
  if (isRecord(from) && (from.label === undefined) === (from.annotation === undefined)) {
    yield { field: 'spec.template.routingGroupFrom', message: LABEL_OR_ANNOTATION };
  }
  if (typeof name === 'string' && !name.includes('{service}')) {
    yield { field: 'spec.template.name', message: NO_SERVICE_NAME };
  }
  if (value === null) return;
  const problem =
    typeof externalUrl === 'string' ? clusterUrlProblem(withServiceNames(externalUrl, sampleService)) : null;
  if (problem !== null) yield { field: 'spec.template.externalUrl', message: problem };
  // Of a cluster that it would make: bounds of durations, certificates.
  const cluster = { proxyTo: 'https://s.n.svc', routingGroup: 'g', healthCheck, tls };
  const declared = Object.fromEntries(Object.entries(cluster).filter(([, field]) => field !== undefined));
  for (const { field, message } of clusterSpecProblems(declared)) {
    yield { field: field.replace(/^spec\./, 'spec.template.'), message };
  }
});

function discoveryProblems(spec: unknown): readonly Problem[] {
  // Of two forms of a field only one is named otherwise.
  const message = 'must be the name of a port, such as http, or a number from 1 to 65535';
  return checkSpec(spec).map((problem) => (problem.field === 'spec.port' ? { field: 'spec.port', message } : problem));
}

function* selectorProblems({ matchLabels, matchExpressions }: Record<string, unknown>): Iterable<Problem> {
  const labels = isRecord(matchLabels) ? Object.keys(matchLabels) : [];
  const expressions = Array.isArray(matchExpressions) ? matchExpressions : [];
  if (labels.length === 0 && expressions.length === 0) yield { field: 'spec.selector', message: EMPTY_SELECTOR };
  const keyForm = new RegExp(labelKey.pattern);
  for (const key of labels.filter((each) => !keyForm.test(each))) {
    const message = `has ${JSON.stringify(key)}, which is no key of a label`;
    yield { field: 'spec.selector.matchLabels', message };
  }
  for (const [index, each] of expressions.entries()) {
    if (!isRecord(each)) continue;
    const takesValues = each.operator === 'In' || each.operator === 'NotIn';
    const hasValues = Array.isArray(each.values) && each.values.length > 0;
    if (takesValues === hasValues) continue;
    yield { field: `spec.selector.matchExpressions[${index}]`, message: VALUES_MISMATCH };
  }
}
