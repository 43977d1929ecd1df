import { problemText } from '../../model/errors.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { ACTIVE_ANNOTATION } from '../../model/resource.ts';
import { resourceNames } from '../../model/resourceName.ts';
import { clusterSpecProblems } from '../engineCluster/validation.ts';
import { type KnownService, type ServicePort, serviceUrl } from '../serviceLookup.ts';
import { type EngineClusterDiscoverySpec, WEIGHT_ANNOTATION } from './spec.ts';

/** Longest message about one Service, in characters: labels and annotations are other people's. */
const MAX_MESSAGE = 300;

/** The cluster of a Service, or the reason that it is missing. */
export type DiscoveredCluster =
  | {
      readonly kind: 'cluster';
      /** metadata.name, which is the registry name as well. */
      readonly name: string;
      readonly spec: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string };

export interface DiscoveryContext {
  readonly spec: EngineClusterDiscoverySpec;
  readonly namespace: string;
  readonly groups: GroupBindings;
}

export function withServiceNames(text: string, { namespace, name }: Pick<KnownService, 'namespace' | 'name'>): string {
  return text.replaceAll('{namespace}', namespace).replaceAll('{service}', name);
}

/** The cluster of a Service by the template of a discovery. Pure; no content of a Service makes it throw. */
export function discoveredCluster(service: KnownService, context: DiscoveryContext): DiscoveredCluster {
  const { spec } = context;
  // The API server lets no others through; a URL is made of them.
  if (!isLabel(service.name) || !isLabel(service.namespace)) {
    return refusal('InvalidService', 'its name or namespace is no label of DNS');
  }
  if (service.type === 'ExternalName') {
    return refusal('ExternalName', 'it stands for a name outside of Kubernetes; declare such a cluster by its proxyTo');
  }
  const port = portOf(service.ports, spec.port);
  if (port === null) {
    const ports = service.ports.map(({ name, port: number }) => (name === '' ? number : `${name} ${number}`));
    const wanted = spec.port === undefined ? 'no TCP port' : `no TCP port ${spec.port}`;
    return refusal('ServicePortNotFound', `it has ${wanted} (it has ${ports.slice(0, 8).join(', ') || 'none'})`);
  }
  const group = groupOf(service, context);
  if ('refusal' in group) return group.refusal;
  const scheme = spec.scheme ?? (isHttps(port) ? 'https' : 'http');
  const { namespace, name } = service;
  const cluster = clusterSpec(service, spec, serviceUrl({ name, namespace, port: port.port, scheme }), group.group);
  if ('refusal' in cluster) return cluster.refusal;
  // Whatever a Service states of itself, nothing becomes a cluster that no one could declare.
  const problems = clusterSpecProblems(cluster.spec);
  if (problems.length > 0) return refusal('InvalidCluster', problemText(problems));
  const [clusterName] = resourceNames(withServiceNames(spec.template.name ?? '{namespace}-{service}', service));
  return { kind: 'cluster', name: clusterName as string, spec: cluster.spec };
}

type Refusal = Extract<DiscoveredCluster, { kind: 'refused' }>;

function refusal(reason: string, message: string): Refusal {
  const text = message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
  return { kind: 'refused', reason, message: text };
}

function isLabel(text: string): boolean {
  return /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(text);
}

/** The port that is meant, or null. */
function portOf(ports: readonly ServicePort[], wanted: string | number | undefined): ServicePort | null {
  const usable = ports.filter(({ port, protocol }) => protocol === 'TCP' && port >= 1 && port <= 65_535);
  const named = (name: string) => usable.find((port) => port.name === name) ?? null;
  if (typeof wanted === 'number') return usable.find(({ port }) => port === wanted) ?? null;
  if (typeof wanted === 'string') return named(wanted);
  return named('http') ?? named('https') ?? usable[0] ?? null;
}

function isHttps({ name, appProtocol }: ServicePort): boolean {
  return name === 'https' || name.startsWith('https-') || appProtocol.toLowerCase() === 'https';
}

/** The routing group, if both the namespace of the discovery and that of the Service may have clusters in it. */
function groupOf(
  service: KnownService,
  { spec: { template }, namespace, groups }: DiscoveryContext,
): { readonly group: string } | { readonly refusal: Refusal } {
  const { routingGroup, routingGroupFrom: { label, annotation } = {} } = template;
  const own =
    label === undefined
      ? annotation === undefined
        ? undefined
        : entryOf(service.annotations, annotation)
      : entryOf(service.labels, label);
  const group = own ?? routingGroup;
  if (group === undefined) {
    const source = label === undefined ? `annotation ${annotation}` : `label ${label}`;
    return { refusal: refusal('NoRoutingGroup', `it has no ${source}, and template.routingGroup is not set`) };
  }
  const message = groups.joinRefusal(namespace, group) ?? groups.joinRefusal(service.namespace, group);
  return message === null ? { group } : { refusal: refusal('GroupNotAllowed', message) };
}

function clusterSpec(
  service: KnownService,
  { template, gatewayClassName }: EngineClusterDiscoverySpec,
  proxyTo: string,
  routingGroup: string,
): { readonly spec: Readonly<Record<string, unknown>> } | { readonly refusal: Refusal } {
  const weightText = entryOf(service.annotations, WEIGHT_ANNOTATION);
  if (weightText !== undefined && !/^[0-9]{1,5}$/.test(weightText)) {
    return {
      refusal: refusal('InvalidAnnotation', `its annotation ${WEIGHT_ANNOTATION} is no weight from 0 to 10000`),
    };
  }
  const activeText = entryOf(service.annotations, ACTIVE_ANNOTATION);
  if (activeText !== undefined && activeText !== 'true' && activeText !== 'false') {
    return { refusal: refusal('InvalidAnnotation', `its annotation ${ACTIVE_ANNOTATION} is neither true nor false`) };
  }
  const { externalUrl, maxRunningQueries, healthCheck, tls } = template;
  const weight = weightText === undefined ? template.weight : Number(weightText);
  const active = activeText === undefined ? template.active : activeText === 'true';
  const isHttpsUrl = proxyTo.startsWith('https://');
  const spec = {
    proxyTo,
    routingGroup,
    externalUrl: externalUrl === undefined ? undefined : withServiceNames(externalUrl, service),
    active,
    weight,
    maxRunningQueries,
    healthCheck,
    tls: isHttpsUrl ? tls : undefined,
    gatewayClassName,
  };
  return { spec: Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined)) };
}

function entryOf(values: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}
