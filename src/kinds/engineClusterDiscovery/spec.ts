import { type Static, Type } from 'typebox';
import { ACTIVE_ANNOTATION, API_GROUP, API_GROUP_VERSION, type Resource } from '../../model/resource.ts';
import { EngineClusterSpec } from '../engineCluster/spec.ts';
import {
  closedObject,
  labelKey,
  labelSelector,
  namespacesField,
  optionalChoice,
  optionalFlag,
  optionalInteger,
  optionalText,
  portField,
  suspendField,
} from '../fields/spec.ts';

export const ENGINE_CLUSTER_DISCOVERY = 'EngineClusterDiscovery';
export const ENGINE_CLUSTER_DISCOVERIES = 'engineclusterdiscoveries';

/** Label of a cluster that was discovered: the name of its discovery. */
export const DISCOVERY_LABEL = `${API_GROUP}/discovery`;
/** Annotation of such a cluster: its Service, as `namespace/name`. */
export const SERVICE_ANNOTATION = `${API_GROUP}/service`;
/** Annotation of a Service: `weight` of its cluster in place of the template's. */
export const WEIGHT_ANNOTATION = `${API_GROUP}/weight`;
export const MAX_CLUSTERS = 500;

const nameForm = '^([a-z0-9.-]|[{]service[}]|[{]namespace[}])+$';

/** `spec.selector`: which Services are clusters. */
const ServiceSelector = labelSelector('Labels of the Services that are clusters.', [
  '(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)',
  'selector must have matchLabels or matchExpressions: an empty one would select every Service',
  ({ matchLabels = {}, matchExpressions = [] }) =>
    Object.keys(matchLabels).length + matchExpressions.length === 0 ? '' : null,
]);

/** `spec.template.routingGroupFrom`: a routing group that the Service names. */
const GroupSource = closedObject(
  {
    label: optionalText('Label of the Service.', labelKey),
    annotation: optionalText('Annotation of the Service.', labelKey),
  },
  'Label or annotation of the Service that names the routing group; routingGroup where it has none.',
  [
    'has(self.label) != has(self.annotation)',
    'routingGroupFrom must have either label or annotation',
    ({ label, annotation }) => ((label === undefined) === (annotation === undefined) ? '' : null),
  ],
);

/** Fields of clusters that a template has as they are. */
const { routingGroup, maxRunningQueries, healthCheck, tls, gatewayClassName } = EngineClusterSpec.properties;

/** `spec.template`: what the clusters are. */
const ClusterTemplate = closedObject(
  {
    name: optionalText(
      'Name of the clusters, with {service} and {namespace} for those of the Service. One of more than 63 characters is cut and gets a hash.',
      { pattern: nameForm, maxLength: 128, default: '{namespace}-{service}' },
      [
        "self.contains('{service}')",
        'template.name must hold {service}, such as {namespace}-{service}',
        (name) => (name.includes('{service}') ? null : ''),
      ],
      [
        `self.matches('${nameForm}')`,
        'template.name may hold lower-case letters, digits, - and ., beside {service} and {namespace}',
      ],
    ),
    routingGroup: Type.Optional(routingGroup),
    routingGroupFrom: Type.Optional(GroupSource),
    weight: optionalInteger(0, 10000, `Share of new queries; annotation ${WEIGHT_ANNOTATION} of a Service goes first.`),
    maxRunningQueries,
    active: optionalFlag(`True by default: take new queries; annotation ${ACTIVE_ANNOTATION} of a Service goes first.`),
    externalUrl: optionalText(
      'URL of the link for people, with {service} and {namespace} for those of the Service, such as https://{service}.example.com; the address of the Service by default.',
      { pattern: '^https?://[^\\s?#@]+$', minLength: 8, maxLength: 256 },
    ),
    healthCheck,
    tls,
  },
  'What the clusters are.',
  [
    'has(self.routingGroup) || has(self.routingGroupFrom)',
    'template must have routingGroup or routingGroupFrom',
    ({ routingGroup, routingGroupFrom }) => ((routingGroup ?? routingGroupFrom) === undefined ? 'routingGroup' : null),
    'is missing: ',
  ],
);

/** `spec` of an EngineClusterDiscovery (docs/discovery.md). */
export const EngineClusterDiscoverySpec = closedObject(
  {
    selector: ServiceSelector,
    namespaces: Type.Optional(
      namespacesField(
        "Namespaces of the Services, of those that resources.discovery.namespaces allows; the resource's own by default.",
      ),
    ),
    port: Type.Optional(
      portField('Port of the Services, by name or number; by default the one named http or https, or the first.'),
    ),
    scheme: optionalChoice(
      ['HTTP', 'HTTPS'],
      'HTTP or HTTPS; by default HTTPS for a port that is named https, or has it as appProtocol.',
    ),
    template: ClusterTemplate,
    suspend: suspendField('While true, clusters are neither made nor changed nor deleted.'),
    gatewayClassName,
  },
  'Services that become clusters behind the gateway by themselves.',
);
export type EngineClusterDiscoverySpec = Static<typeof EngineClusterDiscoverySpec>;

/** Field manager of what discoveries write (Kubernetes: server-side apply). */
export const DISCOVERY_FIELD_MANAGER = 'engine-gateway-discovery';

/**
 * The discovery that has made a cluster, by its owner references, with the Service as `namespace/name`, or null if a user took the
 * annotation away; null: a user declared the cluster.
 */
export function discoveryOwner({ metadata }: Pick<Resource, 'metadata'>) {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (owner?.apiVersion !== API_GROUP_VERSION || owner.kind !== ENGINE_CLUSTER_DISCOVERY) return null;
  return { name: owner.name, uid: owner.uid, service: metadata.annotations?.[SERVICE_ANNOTATION] ?? null };
}
