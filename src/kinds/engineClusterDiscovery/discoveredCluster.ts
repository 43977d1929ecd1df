import { problemText } from '../../model/errors.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { ACTIVE_ANNOTATION, type ObjectMeta, type Resource, type ResourceKey } from '../../model/resource.ts';
import { resourceNames } from '../../model/resourceName.ts';
import { clusterSpecProblems } from '../engineCluster/validation.ts';
import { type Service, type ServicePort, serviceUrl } from '../serviceLookup.ts';
import { type EngineClusterDiscoverySpec, WEIGHT_ANNOTATION } from './spec.ts';

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

export function withServiceNames(text: string, { namespace, name }: Pick<ResourceKey, 'namespace' | 'name'>): string {
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
  const spec = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
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
