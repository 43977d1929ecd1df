import { ACTIVE_ANNOTATION } from '../../model/resource.ts';
import { isSameOutcome } from '../outcome.ts';
import { conditionColumn, type ResourceKind } from '../resourceKind.ts';
import { exportedClusters } from './clusterExport.ts';
import { clusterFindings } from './clusterFindings.ts';
import { backendRow, type ClusterOutcome } from './clusterOutcome.ts';
import { ClusterProgram } from './clusterProgram.ts';
import { clusterStatusIn } from './clusterStatus.ts';
import { ENGINE_CLUSTER, ENGINE_CLUSTERS, EngineClusterSpec } from './spec.ts';
import { standaloneRow } from './standaloneRow.ts';
import { clusterProblems } from './validation.ts';

/** Clusters behind the gateway (docs/resources.md). */
export const engineCluster: ResourceKind<ClusterOutcome> = {
  kind: ENGINE_CLUSTER,
  plural: ENGINE_CLUSTERS,
  singular: 'enginecluster',
  shortName: 'ec',
  description: 'EngineCluster is a query engine cluster behind the gateway.',
  spec: EngineClusterSpec,
  objectRules: [],
  statusProperties: {
    active: {
      type: 'boolean',
      description: 'Effective value of spec.active: an override by annotation goes before it.',
    },
    proxyTo: { type: 'string', description: 'URL in use: spec.proxyTo, or what spec.serviceRef resolved to.' },
  },
  columns: [
    { name: 'Group', type: 'string', jsonPath: '.spec.routingGroup', description: 'Routing group.' },
    { name: 'Active', type: 'boolean', jsonPath: '.status.active', description: 'Takes new queries.' },
    conditionColumn('Healthy', 'The last health check was good.'),
    conditionColumn('Ready', 'Accepted, in the routing table and in the database.'),
    { name: 'URL', type: 'string', jsonPath: '.status.proxyTo', description: 'URL in use.', priority: 1 },
    {
      name: 'Override',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Active")].reason',
      description: 'Why it is active or not.',
      priority: 1,
    },
  ],
  selectableFields: ['.spec.routingGroup', '.spec.active', '.spec.gatewayClassName'],
  example: { proxyTo: 'http://engine-a:8080', routingGroup: 'adhoc' },
  ownAccess: {
    verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    why: 'The controller lists and watches the resources; REST writes create, apply (patch) and delete clusters.',
  },
  gauge: { name: 'engine_clusters', help: 'EngineCluster resources.' },
  specProblems: clusterProblems,
  findings: clusterFindings,
  exported: exportedClusters,
  program: (settings) => new ClusterProgram(settings),
  isSame: isSameOutcome,
  status: clusterStatusIn,
  endedAnnotations: ({ override }) => (override.kind === 'ended' ? [ACTIVE_ANNOTATION] : []),
  rows: {
    ofOutcome: ({ routable }) => (routable === null ? null : backendRow(routable)),
    ofResource: standaloneRow,
  },
  isRequired: true,
  hasUniqueNames: true,
  hasCounts: false,
};
