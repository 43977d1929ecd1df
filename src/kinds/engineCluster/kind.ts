import { ClusterAddresses } from '../../model/clusterAddresses.ts';
import { isRecord } from '../../model/record.ts';
import { ACTIVE_ANNOTATION, type Resource } from '../../model/resource.ts';
import type { BackendRow } from '../../store/store.ts';
import { groupFindings } from '../groupFindings.ts';
import { isSameOutcome } from '../outcome.ts';
import {
  type CheckedManifest,
  conditionColumn,
  type Exportable,
  type ExportedResource,
  type ManifestFinding,
  type ResourceKind,
} from '../resourceKind.ts';
import { noServices } from '../serviceLookup.ts';
import { type ClusterOutcome, clusterOutcomes, toBackendRow } from './clusterOutcome.ts';
import { openPolicy } from './clusterPolicy.ts';
import { ClusterProgram } from './clusterProgram.ts';
import { clusterStatusIn } from './clusterStatus.ts';
import { ENGINE_CLUSTER, ENGINE_CLUSTERS, EngineClusterSpec, TLS_WITHOUT_HTTPS } from './spec.ts';
import { clusterSpecProblems } from './validation.ts';

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
  specProblems: clusterSpecProblems,
  findings: clusterFindings,
  exported: exportedClusters,
  program: (settings) => new ClusterProgram(settings),
  isSame: isSameOutcome,
  status: clusterStatusIn,
  endedAnnotations: ({ override }) => (override.kind === 'ended' ? [ACTIVE_ANNOTATION] : []),
  rows: {
    ofOutcome: ({ routable }) => (routable === null ? null : toBackendRow(routable)),
    ofResource: standaloneRow,
  },
  isRequired: true,
  hasUniqueNames: true,
  hasCounts: false,
};

/** Rows of `gateway_backend` as EngineClusters. */
function* exportedClusters({ clusters }: Exportable): Generator<ExportedResource> {
  for (const { name, proxyTo, externalUrl, active, routingGroup } of clusters) {
    const external = externalUrl === proxyTo || externalUrl === '' ? {} : { externalUrl };
    yield { registryName: name, spec: { proxyTo, ...external, active, routingGroup } };
  }
}

/**
 * Row of `gateway_backend` that a cluster gives when it is looked at alone; null if it is paused or not accepted, as its last
 * good version may be routed, which is not known here.
 */
function standaloneRow(resource: Resource): BackendRow | null {
  const context = { services: noServices, allowedServiceNamespaces: [], policy: openPolicy, lastGood: new Map() };
  const [outcome] = clusterOutcomes([resource], context).values();
  return outcome?.routable == null ? null : toBackendRow(outcome.routable);
}

/** What a gateway allows whose configuration names no addresses; where it runs, and so loopback, is not known here. */
const defaultAddresses = new ClusterAddresses({ allowed: [], loopback: true });

/**
 * Findings about an EngineCluster in addition to the mistakes of its spec: addresses that only a configuration can allow, and
 * what the API server refuses while resources that are there already go on.
 */
function clusterFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const findings = groupFindings(spec.routingGroup, 'spec.routingGroup');
  const refusal = typeof spec.proxyTo === 'string' ? defaultAddresses.urlRefusal(spec.proxyTo) : null;
  if (refusal !== null) {
    findings.push({ severity: 'warning', message: `spec.proxyTo: ${refusal}`, at: 'spec.proxyTo' });
  }
  if (isRecord(spec.tls) && !isHttps(spec)) {
    findings.push({ severity: 'problem', message: `spec.tls: ${TLS_WITHOUT_HTTPS}`, at: 'spec.tls' });
  }
  return findings;
}

function isHttps({ proxyTo, serviceRef }: CheckedManifest['spec']): boolean {
  if (typeof proxyTo === 'string') return proxyTo.startsWith('https://');
  return isRecord(serviceRef) && serviceRef.scheme === 'https';
}
