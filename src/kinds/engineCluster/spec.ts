import { type Static, Type } from 'typebox';
import {
  type CelRule,
  cel,
  groupWithoutEdgeSpaces,
  httpUrl,
  immutableName,
  usableHost,
  usablePort,
  withoutControlCharacters,
  withoutPath,
} from '../../model/cel.ts';
import { checkTimes, durationField, durationMs } from '../../model/durationField.ts';
import { monitorChoices } from '../../model/monitorType.ts';
import { clusterNameRules, routingGroupRules } from '../../model/registryCluster.ts';
import { GatewayClassName, type Resource } from '../../model/resource.ts';
import { DEFAULT_WEIGHT } from '../../model/strategies.ts';
import {
  closedObject,
  credentialsHostsField,
  MAX_RUNNING_QUERIES,
  optionalChoice,
  optionalFlag,
  optionalInteger,
  optionalText,
  portField,
  suspendField,
} from '../fields/spec.ts';

export const ENGINE_CLUSTER = 'EngineCluster';
export const ENGINE_CLUSTERS = 'engineclusters';

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const objectForm = `^${label}([.]${label})*$`;

/** Name of a Secret or ConfigMap of the resource's own namespace. @param field that refers to it, such as `tls.caRef` */
const objectName = (field: string, description: string) =>
  Type.String({
    ...{ pattern: objectForm, minLength: 1, maxLength: 253, description },
    ...cel([
      `self.matches('${objectForm}')`,
      `${field}.name must be a name of this namespace: lower-case letters, digits, - and ., without a namespace before it`,
    ]),
  });

/** Form of the names of Services and namespaces. @param field such as `serviceRef.name` */
const dnsLabel = (field: string) => ({
  ...{ pattern: `^${label}$`, minLength: 1, maxLength: 63 },
  ...cel([
    `self.matches('^${label}$')`,
    `${field} must hold only lower-case letters, digits and -; the namespace of a Service is in serviceRef.namespace`,
  ]),
});

/** A URL of a cluster. */
const urlField = (field: string, description: string, ...rules: readonly CelRule<string>[]) =>
  optionalText(
    description,
    { pattern: '^https?://[^\\s/?#@]+(/[^\\s?#]*)?$', minLength: 8, maxLength: 256 },
    ...[httpUrl(field), usableHost(field), usablePort(field), ...rules],
  );

/** `spec.healthCheck`: what differs from the gateway's configuration for this cluster. */
export const HealthCheck = closedObject(
  {
    type: optionalChoice(
      Object.keys(monitorChoices) as (keyof typeof monitorChoices)[],
      'How the health of the cluster is found out; clusterStatsConfiguration.monitorType by default.',
    ),
    path: optionalText('Path asked, where the type asks a path of its own.', { pattern: '^/', maxLength: 256 }),
    interval: Type.Optional(
      durationField(
        'interval',
        checkTimes.interval,
        'Time between checks, 100ms to 24h; monitor.taskDelay by default.',
      ),
    ),
    timeout: Type.Optional(
      durationField(
        'timeout',
        checkTimes.timeout,
        'Time after which a check counts as failed, 10ms to 10m; monitor.timeout by default.',
      ),
    ),
    failureThreshold: optionalInteger(1, 100, 'Failed checks in a row that make a cluster UNHEALTHY.'),
    successThreshold: optionalInteger(1, 100, 'Good checks in a row that make a cluster HEALTHY.'),
    credentialsSecretRef: Type.Optional(
      closedObject(
        { name: objectName('credentialsSecretRef', 'Name of the Secret.') },
        'Secret with keys username and password for checks; same namespace, labelled enginegateway.dev/health-credentials=true.',
      ),
    ),
    credentialsHosts: credentialsHostsField(
      'Hosts that the Secret may be sent to, such as trino.example:8443 or *.trino.svc; Services of its namespace by default.',
    ),
  },
  'Health check of this cluster; what is left out comes from the configuration.',
  [
    '!has(self.timeout) || !has(self.interval) || duration(self.timeout) <= duration(self.interval)',
    'healthCheck.timeout must not be above healthCheck.interval; lower it, or raise the interval',
    ({ timeout, interval }) => (timeout && interval && durationMs(timeout) > durationMs(interval) ? 'timeout' : null),
  ],
  [
    '!has(self.credentialsHosts) || has(self.credentialsSecretRef)',
    'healthCheck.credentialsHosts needs healthCheck.credentialsSecretRef; name the Secret, or remove the hosts',
    ({ credentialsHosts, credentialsSecretRef }) =>
      credentialsHosts !== undefined && credentialsSecretRef === undefined ? 'credentialsHosts' : null,
  ],
);
export type HealthCheck = Static<typeof HealthCheck>;

/** `spec.serviceRef`: a Kubernetes Service instead of a URL. */
export const ServiceRef = closedObject(
  {
    name: Type.String({ ...dnsLabel('serviceRef.name'), description: 'Name of the Service.' }),
    namespace: optionalText(
      "The Service's namespace; the resource's own by default, others as resources.allowedServiceNamespaces allows.",
      dnsLabel('serviceRef.namespace'),
    ),
    port: portField('Port of the Service, by name or number.'),
    scheme: optionalChoice(['HTTP', 'HTTPS'], 'HTTP or HTTPS.', { default: 'HTTP' }),
  },
  'Service that requests are forwarded to, instead of proxyTo.',
);
export type ServiceRef = Static<typeof ServiceRef>;

/** `spec.tls`: how the certificate of an https cluster is verified, where that differs from the configuration. */
export const ClusterTlsSpec = closedObject(
  {
    serverName: optionalText("Name that is sent as SNI and expected in the certificate, instead of the URL's host.", {
      pattern: '^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$',
      maxLength: 253,
    }),
    caBundle: optionalText(
      'PEM of the certificate authorities trusted for this cluster, instead of the configured ones.',
      { pattern: '-----BEGIN CERTIFICATE-----', maxLength: 131_072 },
    ),
    caRef: Type.Optional(
      closedObject(
        {
          kind: optionalChoice(['ConfigMap', 'Secret'], 'Kind of the object.', { default: 'ConfigMap' }),
          name: objectName('caRef', 'Name of the object.'),
          key: optionalText('Key of the PEM.', { pattern: '^[-._a-zA-Z0-9]+$', maxLength: 253, default: 'ca.crt' }),
        },
        'ConfigMap or Secret of the same namespace with the certificate authorities, in place of caBundle.',
      ),
    ),
    clientCertificateRef: Type.Optional(
      closedObject(
        { name: objectName('clientCertificateRef', 'Name of the Secret.') },
        'Secret of the type kubernetes.io/tls in the same namespace, labelled enginegateway.dev/cluster-tls=true: the certificate that the gateway presents to the cluster.',
      ),
    ),
    insecureSkipVerify: optionalFlag(
      'Accepts any certificate. A server that answers in place of the cluster can read queries and passwords.',
      { default: false },
    ),
  },
  'Certificates of connections to an https cluster.',
  [
    '!has(self.caBundle) || !has(self.caRef)',
    'tls.caBundle and tls.caRef exclude each other; remove one of them',
    ({ caBundle, caRef }) => (caBundle === undefined || caRef === undefined ? null : 'caRef'),
    'is set next to caBundle: ',
  ],
);
export type ClusterTlsSpec = Static<typeof ClusterTlsSpec>;

/** Error for `spec.tls` of a cluster with an http URL. */
export const TLS_WITHOUT_HTTPS =
  'tls has no effect over http; begin proxyTo with https:// (serviceRef.scheme: HTTPS), or leave out tls';

/** `spec` of an EngineCluster (docs/resources.md): fields of the registry, and what only resources have. */
export const EngineClusterSpec = closedObject(
  {
    name: optionalText(
      'Name in the registry where it is no Kubernetes name; metadata.name by default. Immutable.',
      clusterNameRules,
    ),
    proxyTo: urlField('proxyTo', 'URL that requests are forwarded to: scheme, host, port.', withoutPath('proxyTo')),
    serviceRef: Type.Optional(ServiceRef),
    externalUrl: urlField('externalUrl', 'URL of the link for people; proxyTo by default.'),
    active: optionalFlag('Whether the cluster takes new queries.', { default: true }),
    routingGroup: Type.String({
      ...routingGroupRules,
      ...cel(withoutControlCharacters('routingGroup'), groupWithoutEdgeSpaces('routingGroup')),
      description: 'Routing group the cluster belongs to.',
    }),
    weight: optionalInteger(
      0,
      10000,
      'Share of new queries in its group relative to the others, where the strategy looks at weights.',
      { default: DEFAULT_WEIGHT },
    ),
    maxRunningQueries: optionalInteger(
      1,
      MAX_RUNNING_QUERIES,
      'Queries that may run on the cluster at a time, over all replicas of the gateway; left out, the gateway sets no limit.',
    ),
    rolloutOnly: optionalFlag(
      'While true, the cluster is kept out of ordinary routing: it gets new queries only from rollouts, and from rules that name it.',
    ),
    suspend: suspendField('While true, changes are not taken over: the cluster stays as it was.'),
    gatewayClassName: Type.Optional(GatewayClassName),
    healthCheck: Type.Optional(HealthCheck),
    tls: Type.Optional(ClusterTlsSpec),
  },
  'A query engine cluster behind the gateway.',
  [
    'has(self.proxyTo) != has(self.serviceRef)',
    'proxyTo or serviceRef must be set, and not both; write proxyTo: http://HOST:PORT, or name a Service',
    ['proxyTo', 'serviceRef'],
    'is set next to proxyTo: ',
  ],
  [
    "!has(self.tls) || (has(self.proxyTo) ? self.proxyTo.startsWith('https://') : (has(self.serviceRef) && has(self.serviceRef.scheme) && self.serviceRef.scheme == 'HTTPS'))",
    TLS_WITHOUT_HTTPS,
  ],
  immutableName(ENGINE_CLUSTER),
);
export type EngineClusterSpec = Static<typeof EngineClusterSpec>;

export type EngineCluster = Resource<EngineClusterSpec>;
