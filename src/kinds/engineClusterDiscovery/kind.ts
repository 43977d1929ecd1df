import { type Problem, problemText } from '../../model/errors.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { isRecord } from '../../model/record.ts';
import {
  ACTIVE_ANNOTATION,
  keyTextOf,
  type ObjectMeta,
  type Resource,
  type ResourceKey,
} from '../../model/resource.ts';
import { resourceNames } from '../../model/resourceName.ts';
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
import { type Service, type ServicePort, serviceUrl } from '../serviceLookup.ts';
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

function discoveryOutcome(resource: Resource, settings: ProgramSettings): DiscoveryOutcome {
  const { uid, name: registryName } = resource.metadata;
  const acceptance = acceptanceOf(resource, settings);
  const spec = acceptance.status === 'True' ? (resource.spec as EngineClusterDiscoverySpec) : null;
  return { ...outcomeOf(resource), registryName, acceptance, spec, report: settings.discoveries?.report(uid) ?? null };
}

function acceptanceOf({ metadata, spec }: Resource, { policy, discoveries }: ProgramSettings): Acceptance {
  const problems = discoveryProblems(spec);
  if (problems.length > 0) return notAccepted('InvalidSpec', problemText(problems));
  if (discoveries === undefined) return notAccepted('DiscoveryUnsupported', UNSUPPORTED);
  const { routingGroup } = (spec as EngineClusterDiscoverySpec).template;
  const message = routingGroup === undefined ? null : policy.groups.joinRefusal(metadata.namespace, routingGroup);
  return message === null
    ? accepted('the discovery is valid')
    : groupNotAllowed({ field: 'template.routingGroup', message });
}

const UNSUPPORTED =
  'a discovery needs resources.source: kubernetes; without it nothing is discovered: declare each cluster instead';
const pending = conditionState('Unknown', 'Pending', 'the Services have not been read yet');

const checkSpec = specCheck(EngineClusterDiscoverySpec, function* (_, value) {
  if (value === null) return;
  const { matchLabels = {}, matchExpressions = [] } = value.selector;
  const { routingGroup, routingGroupFrom: from, name = '{service}', externalUrl, healthCheck, tls } = value.template;
  const labels = Object.keys(matchLabels);
  if (labels.length + matchExpressions.length === 0) yield { field: 'spec.selector', message: EMPTY_SELECTOR };
  const keyForm = new RegExp(labelKey.pattern);
  for (const key of labels.filter((each) => !keyForm.test(each))) {
    const message = `has ${JSON.stringify(key)}, which is no key of a label`;
    yield { field: 'spec.selector.matchLabels', message };
  }
  for (const [index, { operator, values = [] }] of matchExpressions.entries()) {
    if ((operator === 'In' || operator === 'NotIn') !== (values.length === 0)) continue;
    yield { field: `spec.selector.matchExpressions[${index}]`, message: VALUES_MISMATCH };
  }
  if (routingGroup === undefined && from === undefined)
    yield { field: 'spec.template.routingGroup', message: `is missing: ${GROUP_MISSING}` };
  if (from !== undefined && (from.label === undefined) === (from.annotation === undefined))
    yield { field: 'spec.template.routingGroupFrom', message: LABEL_OR_ANNOTATION };
  if (!name.includes('{service}')) yield { field: 'spec.template.name', message: NO_SERVICE_NAME };
  // Of a cluster that it would make: its URL, bounds of durations, certificates. Names of Services are labels of DNS.
  const url = externalUrl && withServiceNames(externalUrl, { namespace: 'n', name: 's' });
  const cluster = { proxyTo: 'https://s.n.svc', routingGroup: 'g', externalUrl: url, healthCheck, tls };
  for (const { field, message } of clusterSpecProblems(withoutUndefined(cluster)))
    yield { field: field.replace(/^spec\./, 'spec.template.'), message };
});

function discoveryProblems(spec: unknown): readonly Problem[] {
  // Of two forms of a field only one is named otherwise.
  const message = 'must be the name of a port, such as http, or a number from 1 to 65535';
  return checkSpec(spec).map((problem) => (problem.field === 'spec.port' ? { field: 'spec.port', message } : problem));
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
  groups: GroupBindings,
): { readonly name: string; readonly spec: Resource['spec'] } {
  const { namespace, name } = metadata;
  if (type === 'ExternalName') {
    const message = 'it stands for a name outside of Kubernetes; declare such a cluster by its proxyTo';
    throw new ServiceNotUsable('ExternalName', message);
  }
  const port = portOf(ports, wanted);
  if (port === undefined) {
    const present = ports.map((each) => (each.name === '' ? each.port : `${each.name} ${each.port}`));
    const missing = wanted === undefined ? 'no TCP port' : `no TCP port ${wanted}`;
    const message = `it has ${missing} (it has ${present.slice(0, 8).join(', ') || 'none'})`;
    throw new ServiceNotUsable('ServicePortNotFound', message);
  }
  const routingGroup = groupOf(metadata, template, own, groups);
  const isHttps = scheme === undefined ? isHttpsPort(port) : scheme === 'https';
  const proxyTo = serviceUrl({ name, namespace, port: port.port, scheme: isHttps ? 'https' : 'http' });
  const weight = annotationOf(metadata, WEIGHT_ANNOTATION, /^[0-9]{1,5}$/, 'no weight from 0 to 10000');
  const active = annotationOf(metadata, ACTIVE_ANNOTATION, /^(true|false)$/, 'neither true nor false');
  const { externalUrl, maxRunningQueries, healthCheck, tls } = template;
  const fields = {
    proxyTo,
    routingGroup,
    externalUrl: externalUrl === undefined ? undefined : withServiceNames(externalUrl, metadata),
    active: active === undefined ? template.active : active === 'true',
    weight: weight === undefined ? template.weight : Number(weight),
    maxRunningQueries,
    healthCheck,
    tls: isHttps ? tls : undefined,
    gatewayClassName,
  };
  const spec = withoutUndefined(fields);
  // Whatever a Service states of itself, nothing becomes a cluster that no one could declare.
  const problems = clusterSpecProblems(spec);
  if (problems.length > 0) throw new ServiceNotUsable('InvalidCluster', problemText(problems));
  const [clusterName] = resourceNames(withServiceNames(template.name ?? '{namespace}-{service}', metadata));
  return { name: clusterName as string, spec };
}

/** The port that is meant. */
function portOf(ports: readonly ServicePort[], wanted: string | number | undefined): ServicePort | undefined {
  const usable = ports.filter(({ port, protocol }) => protocol === 'TCP' && port >= 1 && port <= 65_535);
  const find = (is: string | number) => usable.find(({ name, port }) => name === is || port === is);
  return wanted === undefined ? (find('http') ?? find('https') ?? usable[0]) : find(wanted);
}

function isHttpsPort({ name, appProtocol }: ServicePort): boolean {
  return name === 'https' || name.startsWith('https-') || appProtocol.toLowerCase() === 'https';
}

/** The routing group, if both the namespace of the discovery and that of the Service may have clusters in it. */
function groupOf(
  { namespace, labels, annotations }: ObjectMeta,
  { routingGroup, routingGroupFrom: { label, annotation } = {} }: EngineClusterDiscoverySpec['template'],
  own: string,
  groups: GroupBindings,
): string {
  const group = entryOf(labels, label) ?? entryOf(annotations, annotation) ?? routingGroup;
  if (group === undefined) {
    const source = label === undefined ? `annotation ${annotation}` : `label ${label}`;
    throw new ServiceNotUsable('NoRoutingGroup', `it has no ${source}, and template.routingGroup is not set`);
  }
  const message = groups.joinRefusal(own, group) ?? groups.joinRefusal(namespace, group);
  if (message !== null) throw new ServiceNotUsable('GroupNotAllowed', message);
  return group;
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
