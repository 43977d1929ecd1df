import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { ENGINE_CLUSTER_DISCOVERY } from '../../kinds/engineClusterDiscovery/spec.ts';
import { ROUTING_RULE } from '../../kinds/routingRule/spec.ts';
import { checkTimes, durationRange } from '../../model/durationField.ts';
import { DEFAULT_MONITOR_TYPE, monitorTypes, numberedMonitorTypes } from '../../model/monitorType.ts';
import { clusterHeaderChoices } from '../../model/names.ts';
import {
  choice,
  decimal,
  duration,
  each,
  flag,
  integer,
  listOf,
  mapOf,
  optionalSection,
  section,
  size,
  text,
} from '../fields.ts';

/** `protocol`: the product's name in headers, paths and cookies (docs/protocol.md#product-names). */
export const protocol = section('Names on the wire.', {
  productName: text(
    'Product name in headers, paths, cookies and rule objects: `Engine` gives X-Engine-User, `Trino` X-Trino-User. Where it is left out, rules and database of Trino Gateway make it `Trino`.',
    { default: 'Engine', format: 'productName' },
  ),
  clusterHeaders: choice(
    'Names of the headers of the engine protocol in requests to clusters: `Engine` is X-Engine-User, `Trino` X-Trino-User, `Both` each header under both names. Unset, `Trino` with the product name `Trino`, else `Both`. Clients may use either name.',
    clusterHeaderChoices,
  ),
});

/** `resources`: where clusters and rules are declared (docs/resources.md). */
export const resources = section(`Where ${ENGINE_CLUSTER} and ${ROUTING_RULE} resources come from.`, {
  source: choice(
    'Where resources live: the Kubernetes API server, a directory of manifests, or the database alone.',
    ['kubernetes', 'directory', 'database'],
    { default: 'database' },
  ),
  directory: text('Directory of manifests, where source is directory.', { format: 'path' }),
  namespace: text("Namespace that is watched; unset, the pod's own (`default` outside a cluster); `*` for all."),
  namespaces: listOf(
    'Namespaces whose resources are read, in place of `namespace`; empty, that one. The first is that of resources that name none.',
    each('name'),
  ),
  class: text(
    'Class of the gateway: it has the resources whose `spec.gatewayClassName` is this one, and no others; unset, those that name none.',
    { format: 'gatewayClass' },
  ),
  labelSelector: text(
    'Labels of the resources that the gateway has, as `kubectl get --selector` takes them, such as `team=etl,!legacy`; unset, any.',
    { format: 'labelSelector' },
  ),
  leaseName: text(
    'Lease by which the replicas of this gateway elect their leader, where source is kubernetes; unset, `engine-gateway`, with a class `engine-gateway-CLASS`. Two gateways in one namespace need one each.',
    { format: 'leaseName' },
  ),
  kubeconfig: text('Kubeconfig file; unset, the service account of the pod, else the usual kubeconfig.', {
    format: 'path',
  }),
  unmanagedRows: choice(
    'Whether clusters that are only rows of the database, left by a gateway before, take requests.',
    ['serve', 'ignore'],
    { default: 'serve' },
  ),
  apiWrites: choice('What REST and user interface may change.', ['enabled', 'activation-only', 'off'], {
    default: 'enabled',
  }),
  writeNamespace: text('Namespace of clusters that are created by REST while all namespaces are watched.'),
  allowedServiceNamespaces: listOf("Namespaces beside the resource's own that serviceRef may point to.", each('name')),
  discovery: section('Clusters that are made of Services (docs/discovery.md).', {
    namespaces: listOf(
      `Namespaces, beside its own, in which an ${ENGINE_CLUSTER_DISCOVERY} may look for Services; \`*\` for all. The gateway's account must be allowed to list and watch Services there.`,
      each('name'),
    ),
  }),
  webhook: section(
    'Admission webhook, which rejects resources that would not be accepted (docs/resources.md, The admission webhook). It needs source kubernetes.',
    {
      enabled: flag('Whether it is served.', { default: false }),
      port: integer('Its port, with TLS.', { default: 9443, range: [0, 65535] }),
      name: text(
        'Name of the ValidatingWebhookConfiguration, and of the Secret with tls.crt and tls.key in the namespace of the pod. The leader makes and renews the certificate, unless the configuration has the annotation cert-manager.io/inject-ca-from.',
        { default: 'engine-gateway-webhook', format: 'leaseName' },
      ),
    },
  ),
  allowedAddresses: listOf(
    'Addresses and networks (CIDR) that clusters may have although they are refused otherwise: link-local ones, metadata services of clouds and, where source is kubernetes, loopback.',
    each('cidr'),
  ),
  massDeletion: section(
    'A source that loses most of its resources at once (docs/reliability.md, A source that loses most of its resources).',
    {
      enabled: flag(
        'Whether resources of a kind stay routed where the source loses more than half of them within a minute, until that is confirmed.',
        { default: true },
      ),
      minimum: integer('Losses of fewer resources of a kind are believed.', { default: 4, range: [1, 1_000_000] }),
      confirmAfter: duration('Time after which such a loss is believed; `0s`: never without a confirmation.', {
        default: 3_600_000,
        range: [0, 30 * 86_400_000],
      }),
    },
  ),
});

/** `server`: listeners and limits (docs/serving.md). */
export const server = section('Listeners and their limits; the port is serverConfig `http-server.http.port`.', {
  address: text(
    'Address that is listened on; `localhost` stands for 127.0.0.1 and ::1, and is the default where authentication is not configured.',
    { default: '0.0.0.0', format: 'host' },
  ),
  allowedHosts: listOf(
    'Names in `Host` that are answered while no login is required, beside addresses, localhost and `server.address`; other names are answered 421. `*`: any name, which lets pages of other sites call by DNS rebinding.',
    each('hostNamePattern'),
  ),
  adminPort: integer(
    'Port of a listener of its own for API and user interface, where no query is taken; unset, they share the one of the proxy.',
    { range: [0, 65535] },
  ),
  adminHosts: listOf(
    'Host names, with a port or without, at which API and user interface are served; no query is taken there, and all other host names serve queries alone. Empty, they share every host name.',
    each('authority'),
  ),
  enginePages: choice(
    "How engines' web pages (`/ui`) are served: `proxy` serves them, `redirect` leads browsers to the cluster's externalUrl, `off` refuses them. Unset, `proxy`; `redirect` where resources.source is kubernetes and server.adminHosts is empty.",
    ['proxy', 'redirect', 'off'],
  ),
  trustedProxies: listOf(
    'Addresses and networks (CIDR) of proxies whose X-Forwarded-* and Forwarded are believed.',
    each('cidr'),
  ),
  clientCertificates: choice(
    'Whether connections over TLS are asked for a client certificate, or cannot be made without a verified one. Unset, `request` where certificates name users (requestAnalyzerConfig), else `require` where `http-server.https.truststore.path` is set, else neither.',
    ['request', 'require'],
  ),
  clientCertificateHeader: text(
    'Header in which server.trustedProxies pass the certificate of a client on that they have verified, e.g. `X-Forwarded-Client-Cert`. They must overwrite what clients send under this name. Unset, no header is believed.',
    { format: 'headerName' },
  ),
  drainDelay: duration(
    'Time at a clean stop between not ready and the end of listening, in which all is served and answers end their connections, so that load balancers and clients take note.',
    { default: 0, range: [0, 600_000] },
  ),
  drainTimeout: duration('Time that running answers get to finish at a clean stop.', {
    default: 30_000,
    range: [0, 3_600_000],
  }),
  maxBodySize: size('Largest body of a proxied request; more is answered 413.', {
    default: 100 * 1024 ** 2,
    range: [1024],
  }),
  maxApiBodySize: size('Largest body of a REST call; more is answered 413.', {
    default: 1024 ** 2,
    range: [1024, 1024 ** 3],
  }),
  requestMemory: size(
    'Bytes of request bodies that are buffered, all together; a body beyond it is answered 503. Unset, an eighth of the memory limit of the process, 16MB to 512MB.',
    { range: [8 * 1024 ** 2] },
  ),
  maxHeaderLines: integer('Most header lines of a request; more are answered 431.', {
    default: 10_000,
    range: [100, 50_000],
  }),
  http2: flag(
    'Whether clients over TLS may speak HTTP/2. `false`: HTTP/1.1 alone, over which one header line may have more than 64 kB.',
    { default: true },
  ),
  maxHttp2Connections: integer(
    'Client connections over HTTP/2 open at once, on all listeners together; further clients over TLS are offered HTTP/1.1 alone. Unset, one for each MB of the request memory, at least 32.',
    { range: [1, 1_000_000] },
  ),
  maxConnections: integer('Client connections open at once on one listener; further ones are closed.', {
    default: 20_000,
    range: [1, 1_000_000],
  }),
  headersTimeout: duration("Time for a client to send a request's head.", { default: 60_000, range: [100, 3_600_000] }),
  requestTimeout: duration('Time for a client to send a whole request.', {
    default: 300_000,
    range: [100, 86_400_000],
  }),
});

/** `{product}` stands for the product's name in lower case (`derived.ts`). */
const ofProduct = (name: string) => `{product}_${name}`;

/** `monitor`: health checks (docs/health.md). */
export const monitor = section('Health checks of clusters; a cluster may differ by its healthCheck.', {
  taskDelay: duration('Time between two checks of a cluster.', {
    default: 60_000,
    range: durationRange(checkTimes.interval),
  }),
  timeout: duration('Time after which a check counts as failed.', {
    default: 10_000,
    range: durationRange(checkTimes.timeout),
  }),
  failureThreshold: integer('Failed checks in a row that make a cluster UNHEALTHY.', { default: 1, range: [1, 100] }),
  successThreshold: integer('Good checks in a row that make a cluster HEALTHY.', { default: 1, range: [1, 100] }),
  serverErrorThreshold: integer(
    'Queries and follow-ups in a row, answered 5xx or not at all, that eject a cluster; 0 for never. A connection that fails ejects it immediately.',
    { default: 5, range: [0, 10_000] },
  ),
  baseEjectionTime: duration(
    'Time for which a cluster is UNHEALTHY at its first ejection for failed queries; each further one takes twice as long.',
    { default: 10_000, range: [100, 3_600_000] },
  ),
  maxEjectionTime: duration(
    'Longest ejection. A cluster that is not ejected for as long after its return starts with monitor.baseEjectionTime again.',
    { default: 300_000, range: [100, 86_400_000] },
  ),
  maxEjectionPercent: integer(
    'Most active clusters of a routing group that are ejected for failed queries at a time, in percent. Below 100 the last cluster that takes new queries stays.',
    { default: 50, range: [0, 100] },
  ),
  retries: integer('How often a check that was answered 502, 503 or 504 is repeated at once.', {
    default: 0,
    range: [0, 100],
  }),
  queryTimeout: duration('Time for the query of a JDBC check.', { default: 10_000, range: [10, 600_000] }),
  explicitPrepare: flag('Prepared statements by PREPARE, for old clusters (JDBC checks).', {
    default: false,
    withoutEffect: 'the JDBC check uses no prepared statement',
  }),
  metricsEndpoint: text('Path of METRICS checks.', { default: '/metrics', format: 'plainPath' }),
  runningQueriesMetricName: text(
    'Metric that counts running queries (METRICS checks); `{product}` is the product name in lower case.',
    { default: ofProduct('execution_name_QueryManager_RunningQueries'), format: 'name' },
  ),
  queuedQueriesMetricName: text('Metric that counts queued queries (METRICS checks); `{product}` as above.', {
    default: ofProduct('execution_name_QueryManager_QueuedQueries'),
    format: 'name',
  }),
  metricMinimumValues: mapOf(
    'Least values of metrics of a healthy cluster, inclusive (METRICS checks).',
    decimal('Least value, inclusive.', { required: true, isBound: true }),
    { default: { [ofProduct('metadata_name_DiscoveryNodeManager_ActiveNodeCount')]: 1 } },
  ),
  metricMaximumValues: mapOf(
    'Greatest values of metrics of a healthy cluster, inclusive (METRICS checks).',
    decimal('Greatest value, inclusive.', { required: true, isBound: true }),
  ),
  clusterMetricsRegistryRefreshPeriod: duration('Time after which metrics of clusters followed the registry.', {
    default: 30_000,
    aliases: ['backendMetricsRegistryRefreshPeriod'],
    withoutEffect: 'metrics of clusters follow the registry at once',
  }),
});

/** `clusterStatsConfiguration` (docs/health.md#types-of-checks). */
export const clusterStatsConfiguration = section('Kind of health checks.', {
  monitorType: choice('How health is found out.', monitorTypes, {
    default: DEFAULT_MONITOR_TYPE,
    ordinals: numberedMonitorTypes,
  }),
});

/** `backendState`: credentials of health checks (docs/health.md#credentials). */
export const backendState = optionalSection('Credentials and manner of health checks, the same for all clusters.', {
  username: text('User of health checks; needed by METRICS, JDBC, JMX and UI_API.', { required: true }),
  password: text('Password of health checks.', { default: '', secret: true }),
  allowedHosts: listOf(
    'Hosts that the password is sent to, and no others: `trino.example` on any port, `trino.example:8443`, `*.trino.svc`. Unset: to all clusters where source is not kubernetes; there, over verified TLS and for the configured type of checks only.',
    each('hostPattern'),
    { default: null },
  ),
  ssl: flag('TLS of JDBC checks.', { default: false, withoutEffect: "the scheme of the cluster's URL decides" }),
  xForwardedProtoHeader: flag('Whether checks send X-Forwarded-Proto: https (UI_API, JMX, METRICS).', {
    aliases: ['xforwardedProtoHeader'],
    default: false,
  }),
});

/** `logging`: what the log holds and in which form. */
export const logging = section(
  'The log: JSON lines on standard output, written up to 15 ms after the event (fatal ones at once). A reader that stalls does not stop the gateway: 64 MB of lines wait, later ones are lost, and one says how many.',
  {
    level: choice('Least level that is logged.', ['trace', 'debug', 'info', 'warn', 'error', 'fatal'], {
      default: 'info',
    }),
    queryText: flag('Whether the line of a query holds its text; otherwise it is logged at debug only.', {
      default: false,
    }),
  },
);
