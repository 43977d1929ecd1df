import { type Static, Type } from 'typebox';
import {
  cel,
  groupWithoutEdgeSpaces,
  httpUrl,
  immutableName,
  usableHost,
  usablePort,
  withoutControlCharacters,
} from '../../model/cel.ts';
import { durationField } from '../../model/durationField.ts';
import { GatewayClassName } from '../../model/gatewayClass.ts';
import { MAX_RUNNING_QUERIES } from '../../model/limitBounds.ts';
import { type MonitorType, monitorTypes } from '../../model/monitorType.ts';
import { clusterNameRules, routingGroupRules } from '../../model/registryCluster.ts';
import type { Resource } from '../../model/resource.ts';
import { DEFAULT_WEIGHT } from '../../model/strategies.ts';

export const ENGINE_CLUSTER = 'EngineCluster';
export const ENGINE_CLUSTERS = 'engineclusters';

/** Bounds of the durations of `spec.healthCheck`: shorter ones would be attacks, longer ones no checks. */
export const checkDurationBounds = {
  interval: { least: '1s', most: '1h' },
  timeout: { least: '10ms', most: '10m' },
} as const;

function durationText(field: keyof typeof checkDurationBounds, description: string) {
  return durationField(field, checkDurationBounds[field], description);
}

const HttpUrl = Type.String({ pattern: '^https?://[^\\s/?#@]+(/[^\\s?#]*)?$', minLength: 8, maxLength: 256 });

/** `spec.healthCheck`: what differs from the gateway's configuration for this cluster. */
export const HealthCheck = Type.Object(
  {
    type: Type.Optional(
      Type.Unsafe<MonitorType>(
        Type.Union(
          monitorTypes.map((type) => Type.Literal(type)),
          {
            description:
              'How the health of the cluster is found out; clusterStatsConfiguration.monitorType by default.',
          },
        ),
      ),
    ),
    path: Type.Optional(
      Type.String({ pattern: '^/', maxLength: 256, description: 'Path asked, where the type asks a path of its own.' }),
    ),
    interval: Type.Optional(durationText('interval', 'Time between checks, 1s to 1h; monitor.taskDelay by default.')),
    timeout: Type.Optional(
      durationText('timeout', 'Time after which a check counts as failed, 10ms to 10m; monitor.timeout by default.'),
    ),
    failureThreshold: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 100, description: 'Failed checks in a row that make a cluster UNHEALTHY.' }),
    ),
    successThreshold: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 100, description: 'Good checks in a row that make a cluster HEALTHY.' }),
    ),
    credentialsSecretRef: Type.Optional(
      Type.Object(
        { name: Type.String({ minLength: 1, maxLength: 253, description: 'Name of the Secret.' }) },
        {
          additionalProperties: false,
          description:
            'Secret with keys username and password for checks; same namespace, labelled enginegateway.dev/health-credentials=true, with the hosts it may be sent to in the annotation enginegateway.dev/health-credentials-hosts.',
        },
      ),
    ),
  },
  {
    additionalProperties: false,
    description: 'Health check of this cluster; what is left out comes from the configuration.',
  },
);
export type HealthCheck = Static<typeof HealthCheck>;

/** `spec.serviceRef`: a Kubernetes Service instead of a URL. */
export const ServiceRef = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 63, description: 'Name of the Service.' }),
    namespace: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 63,
        description:
          "The Service's namespace; the resource's own by default, others as resources.allowedServiceNamespaces allows.",
      }),
    ),
    port: Type.Integer({ minimum: 1, maximum: 65535, description: 'Port of the Service.' }),
    scheme: Type.Optional(
      Type.Union([Type.Literal('http'), Type.Literal('https')], { default: 'http', description: 'http or https.' }),
    ),
  },
  { additionalProperties: false, description: 'Service that requests are forwarded to, instead of proxyTo.' },
);
export type ServiceRef = Static<typeof ServiceRef>;

/** `spec.tls`: how the certificate of an https cluster is verified, where that differs from the configuration. */
export const ClusterTlsSpec = Type.Object(
  {
    serverName: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$',
        maxLength: 253,
        description: "Name that is sent as SNI and expected in the certificate, instead of the URL's host.",
      }),
    ),
    caBundle: Type.Optional(
      Type.String({
        pattern: '-----BEGIN CERTIFICATE-----',
        maxLength: 131_072,
        description: 'PEM of the certificate authorities trusted for this cluster, instead of the configured ones.',
      }),
    ),
    insecureSkipVerify: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Accepts any certificate. A server that answers in place of the cluster can read queries and passwords.',
      }),
    ),
  },
  { additionalProperties: false, description: 'Verification of the certificate of an https cluster.' },
);
export type ClusterTlsSpec = Static<typeof ClusterTlsSpec>;

/** Error for `spec.tls` of a cluster with an http URL. */
export const TLS_WITHOUT_HTTPS =
  'tls has no effect over http; begin proxyTo with https:// (serviceRef.scheme: https), or leave out tls';

/** `spec` of an EngineCluster (docs/resources.md): fields of the registry, and what only resources have. */
export const EngineClusterSpec = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        ...clusterNameRules,
        description: 'Name in the registry where it is no Kubernetes name; metadata.name by default. Immutable.',
      }),
    ),
    proxyTo: Type.Optional({
      ...HttpUrl,
      ...cel(httpUrl('proxyTo'), usableHost('proxyTo'), usablePort('proxyTo')),
      description: 'URL that requests are forwarded to: scheme, host, port.',
    }),
    serviceRef: Type.Optional(ServiceRef),
    externalUrl: Type.Optional({
      ...HttpUrl,
      ...cel(httpUrl('externalUrl'), usableHost('externalUrl'), usablePort('externalUrl')),
      description: 'URL of the link for people; proxyTo by default.',
    }),
    active: Type.Optional(Type.Boolean({ default: true, description: 'Whether the cluster takes new queries.' })),
    routingGroup: Type.String({
      ...routingGroupRules,
      ...cel(withoutControlCharacters('routingGroup'), groupWithoutEdgeSpaces('routingGroup')),
      description: 'Routing group the cluster belongs to.',
    }),
    weight: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 10000,
        default: DEFAULT_WEIGHT,
        description: 'Share of new queries in its group relative to the others, where the strategy looks at weights.',
      }),
    ),
    maxRunningQueries: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_RUNNING_QUERIES,
        description:
          'Queries that may run on the cluster at a time, over all replicas of the gateway; left out, the gateway sets no limit.',
      }),
    ),
    gatewayClassName: Type.Optional(GatewayClassName),
    healthCheck: Type.Optional(HealthCheck),
    tls: Type.Optional(ClusterTlsSpec),
  },
  {
    additionalProperties: false,
    description: 'A query engine cluster behind the gateway.',
    ...cel(
      ['has(self.proxyTo) != has(self.serviceRef)', 'exactly one of proxyTo and serviceRef must be set'],
      [
        "!has(self.tls) || (has(self.proxyTo) ? self.proxyTo.startsWith('https://') : (has(self.serviceRef) && has(self.serviceRef.scheme) && self.serviceRef.scheme == 'https'))",
        TLS_WITHOUT_HTTPS,
      ],
      immutableName(ENGINE_CLUSTER),
    ),
  },
);
export type EngineClusterSpec = Static<typeof EngineClusterSpec>;

export type EngineCluster = Resource<EngineClusterSpec>;
