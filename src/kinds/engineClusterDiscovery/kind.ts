import { type Problem, problemText } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import {
  ACTIVE_ANNOTATION,
  keyTextOf,
  type ObjectMeta,
  type Resource,
  type ResourceKey,
} from '../../model/resource.ts';
import { resourceNames } from '../../model/resourceName.ts';
import type { Tenancy } from '../../rules/tenancy.ts';
import { clusterSpecProblems } from '../engineCluster/clusterOutcome.ts';
import { portProblem } from '../fields/spec.ts';
import {
  type Acceptance,
  accepted,
  conditionState,
  countField,
  liveOf,
  notAccepted,
  notGranted,
  outcomeOf,
  type ResourceOutcome,
  ready,
  statusDraft,
} from '../outcome.ts';
import {
  column,
  conditionColumn,
  type DiscoveryReport,
  groupFindings,
  type ProgramSettings,
  plainKind,
  type ResourceKind,
  specCheck,
} from '../resourceKind.ts';
import { type Service, serviceUrl } from '../serviceLookup.ts';
import {
  ENGINE_CLUSTER_DISCOVERIES,
  ENGINE_CLUSTER_DISCOVERY,
  EngineClusterDiscoverySpec,
  WEIGHT_ANNOTATION,
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
    column('Services', 'integer', 'status.services', 'Services that match.'),
    column('Clusters', 'integer', 'status.clusters', 'Clusters made of them.'),
    conditionColumn('Discovered', 'Every Service that matches is a cluster.'),
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
    refresh: (resources, { tenancy }) =>
      new Map(liveOf(resources).map((each) => [keyTextOf(each), discoveryOutcome(each, settings, tenancy)])),
  }),
  status: (outcome, { stored }) => {
    const { acceptance, report } = outcome;
    const { references = pending, discovered = pending, counts = {} } = report ?? {};
    const isAccepted = acceptance.status === 'True';
    return statusDraft(outcome, acceptance, counts, {
      ResolvedRefs: isAccepted ? references : null,
      Discovered: isAccepted ? discovered : null,
      Ready: ready(acceptance, stored, ...(outcome.suspended ? [] : [references])),
    });
  },
};

function discoveryOutcome(resource: Resource, { discoveries }: ProgramSettings, tenancy: Tenancy): DiscoveryOutcome {
  const { uid, name: registryName, namespace } = resource.metadata;
  const outcome = (acceptance: Acceptance, spec: EngineClusterDiscoverySpec | null = null) => ({
    ...outcomeOf(resource),
    ...{ registryName, acceptance, spec, report: discoveries?.report(uid) ?? null },
  });
  const problems = discoveryProblems(resource.spec);
  if (problems.length > 0) return outcome(notAccepted('InvalidSpec', problemText(problems)));
  if (discoveries === undefined) return outcome(notAccepted('DiscoveryUnsupported', UNSUPPORTED));
  const spec = resource.spec as EngineClusterDiscoverySpec;
  const { routingGroup } = spec.template;
  const refusal =
    routingGroup === undefined
      ? tenancy.namespaceRejection(namespace)
      : tenancy.groupRejection(namespace, 'template.routingGroup', routingGroup);
  return refusal === null ? outcome(accepted('the discovery is valid'), spec) : outcome(notGranted(refusal));
}

const UNSUPPORTED =
  'a discovery needs resources.source: kubernetes; without it nothing is discovered: declare each cluster instead';
const pending = conditionState('Unknown', 'Pending', 'the Services have not been read yet');

const checkSpec = specCheck(EngineClusterDiscoverySpec, function* ({ template: { externalUrl, tls } }) {
  // Of a cluster that it would make: its URL, certificates. Names of Services are labels of DNS.
  const url = externalUrl && withServiceNames(externalUrl, { namespace: 'n', name: 's' });
  const cluster = { proxyTo: 'https://s.n.svc', routingGroup: 'g', externalUrl: url, tls };
  for (const { field, message } of clusterSpecProblems(withoutUndefined(cluster)))
    yield { field: field.replace(/^spec\./, 'spec.template.'), message };
});

function discoveryProblems(spec: unknown): readonly Problem[] {
  return checkSpec(spec).map((problem) => portProblem(problem, 'spec.port'));
}

function withoutUndefined(fields: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Longest message about one Service, in characters: labels and annotations are other people's. */
const MAX_MESSAGE = 300;

/** Thrown for a Service that becomes no cluster. */
export class ServiceNotUsable extends Error {
  /** CamelCase word for programs. */
  readonly reason: string;

  constructor(reason: string, message: string) {
    super(message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message);
    this.reason = reason;
  }
}

function withServiceNames(text: string, { namespace, name }: Pick<ResourceKey, 'namespace' | 'name'>): string {
  return text.replaceAll('{namespace}', namespace).replaceAll('{service}', name);
}

/**
 * The cluster of a Service by the template of a discovery. Its name is `metadata.name`, and the registry name as well.
 * @param own namespace of the discovery
 * @throws ServiceNotUsable
 */
export function discoveredCluster(
  { metadata, spec: { type, ports = [] } }: Service,
  { template, port: wanted, scheme, gatewayClassName }: EngineClusterDiscoverySpec,
  own: string,
  tenancy: Tenancy,
): { readonly name: string; readonly spec: Resource['spec'] } {
  const { namespace, name } = metadata;
  if (type === 'ExternalName') {
    const message = 'it stands for a name outside of Kubernetes; declare such a cluster by its proxyTo';
    throw new ServiceNotUsable('ExternalName', message);
  }
  const usable = ports.filter((each) => each.protocol === 'TCP' && each.port >= 1 && each.port <= 65_535);
  const find = (is: string | number) => usable.find((each) => each.name === is || each.port === is);
  const port = wanted === undefined ? (find('http') ?? find('https') ?? usable[0]) : find(wanted);
  if (port === undefined) {
    const present = ports.map((each) => (each.name === '' ? each.port : `${each.name} ${each.port}`));
    const missing = wanted === undefined ? 'no TCP port' : `no TCP port ${wanted}`;
    const message = `it has ${missing} (it has ${present.slice(0, 8).join(', ') || 'none'})`;
    throw new ServiceNotUsable('ServicePortNotFound', message);
  }
  const { name: clusterForm = '{namespace}-{service}', routingGroupFrom = {}, ...declared } = template;
  const { label, annotation } = routingGroupFrom;
  const routingGroup =
    entryOf(metadata.labels, label) ?? entryOf(metadata.annotations, annotation) ?? declared.routingGroup;
  if (routingGroup === undefined) {
    const source = label === undefined ? `annotation ${annotation}` : `label ${label}`;
    throw new ServiceNotUsable('NoRoutingGroup', `it has no ${source}, and template.routingGroup is not set`);
  }
  const [clusterName = ''] = resourceNames(withServiceNames(clusterForm, metadata));
  const refusal = tenancy.serviceRejection(own, namespace, clusterName, routingGroup);
  if (refusal !== null) throw new ServiceNotUsable(refusal.reason, refusal.message);
  const isNamedHttps = /^https(-|$)/.test(port.name) || port.appProtocol.toLowerCase() === 'https';
  const isHttps = scheme === undefined ? isNamedHttps : scheme === 'HTTPS';
  const weight = annotationOf(metadata, WEIGHT_ANNOTATION, /^[0-9]{1,5}$/, 'no weight from 0 to 10000');
  const active = annotationOf(metadata, ACTIVE_ANNOTATION, /^(true|false)$/, 'neither true nor false');
  const spec = withoutUndefined({
    ...{ ...declared, routingGroup, gatewayClassName },
    proxyTo: serviceUrl({ name, namespace, scheme: isHttps ? 'HTTPS' : 'HTTP' }, port.port),
    externalUrl: declared.externalUrl && withServiceNames(declared.externalUrl, metadata),
    active: active === undefined ? declared.active : active === 'true',
    weight: weight === undefined ? declared.weight : Number(weight),
    tls: isHttps ? declared.tls : undefined,
  });
  // Whatever a Service states of itself, nothing becomes a cluster that no one could declare.
  const problems = clusterSpecProblems(spec);
  if (problems.length > 0) throw new ServiceNotUsable('InvalidCluster', problemText(problems));
  return { name: clusterName, spec };
}

/** The annotation of a Service; undefined without it. @throws ServiceNotUsable if it is not of the form */
function annotationOf({ annotations }: ObjectMeta, key: string, form: RegExp, mistake: string): string | undefined {
  const text = entryOf(annotations, key);
  if (text === undefined || form.test(text)) return text;
  throw new ServiceNotUsable('InvalidAnnotation', `its annotation ${key} is ${mistake}`);
}

function entryOf(values: ObjectMeta['labels'] = {}, key = ''): string | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}
