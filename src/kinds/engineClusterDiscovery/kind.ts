import { isRecord } from '../../model/record.ts';
import { groupFindings } from '../groupFindings.ts';
import { isSameOutcome } from '../outcome.ts';
import { conditionColumn, type ResourceKind } from '../resourceKind.ts';
import { type DiscoveryOutcome, DiscoveryProgram } from './discoveryProgram.ts';
import { discoveryStatus } from './discoveryStatus.ts';
import { ENGINE_CLUSTER_DISCOVERIES, ENGINE_CLUSTER_DISCOVERY, EngineClusterDiscoverySpec } from './spec.ts';
import { discoveryProblems } from './validation.ts';

const count = (description: string) => ({ type: 'integer', format: 'int64', minimum: 0, description });

/** Clusters that join by themselves (docs/discovery.md). */
export const engineClusterDiscovery: ResourceKind<DiscoveryOutcome> = {
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
    services: count('Services that match.'),
    clusters: count('Clusters that were made of them.'),
    conflicts: count('Services whose cluster would have the name of another one.'),
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
  // A gateway that ran before has none.
  exported: () => [],
  program: (settings) => new DiscoveryProgram(settings),
  isSame: isSameOutcome,
  status: discoveryStatus,
  endedAnnotations: () => [],
  rows: null,
  isRequired: false,
  hasUniqueNames: false,
  hasCounts: false,
};
