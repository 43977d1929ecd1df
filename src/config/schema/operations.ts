import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { ENGINE_CLUSTER_DISCOVERY } from '../../kinds/engineClusterDiscovery/spec.ts';
import { ROUTING_RULE } from '../../kinds/routingRule/spec.ts';
import { DEFAULT_MONITOR_TYPE, monitorTypes, numberedMonitorTypes } from '../../model/monitorType.ts';
import { clusterHeaderChoices } from '../../model/names.ts';
import {
  choice,
  decimal,
  duration,
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
export const protocol = section(
  {
    productName: text({
      description:
        'Product name in headers, paths, cookies and rule objects: `Engine` gives X-Engine-User, `Trino` X-Trino-User. Where it is left out, rules and database of Trino Gateway make it `Trino`.',
      default: 'Engine',
      format: 'productName',
    }),
    clusterHeaders: choice(clusterHeaderChoices, {
      description:
        'Names of the headers of the engine protocol in requests to clusters: `Engine` is X-Engine-User, `Trino` X-Trino-User, `Both` each header under both names. Unset, `Trino` with the product name `Trino`, else `Both`. Clients may use either name.',
      default: null,
    }),
  },
  { description: 'Names on the wire.' },
);

/** `resources`: where clusters and rules are declared (docs/resources.md). */
export const resources = section(
  {
    source: choice(['kubernetes', 'directory', 'database'], {
      description: 'Where resources live: the Kubernetes API server, a directory of manifests, or the database alone.',
      default: 'database',
    }),
    directory: text({
      description: 'Directory of manifests, where source is directory.',
      default: null,
      format: 'path',
    }),
    namespace: text({
      description: "Namespace that is watched; unset, the pod's own (`default` outside a cluster); `*` for all.",
      default: null,
    }),
    namespaces: listOf(text({ description: 'Namespace.', format: 'name' }), {
      description:
        'Namespaces whose resources are read, in place of `namespace`; empty, that one. The first is that of resources that name none.',
      default: [],
    }),
    trustedNamespaces: listOf(text({ description: 'Namespace, or `*`.', format: 'name' }), {
      description: `Namespaces, beside the gateway's own, that may declare rules and resource groups and name clusters freely where several are read; \`*\` for all. Names of other clusters begin with their namespace.`,
      default: [],
    }),
    class: text({
      description:
        'Class of the gateway: it has the resources whose `spec.gatewayClassName` is this one, and no others; unset, those that name none.',
      default: null,
      format: 'gatewayClass',
    }),
    labelSelector: text({
      description:
        'Labels of the resources that the gateway has, as `kubectl get --selector` takes them, such as `team=etl,!legacy`; unset, any.',
      default: null,
      format: 'labelSelector',
    }),
    leaseName: text({
      description:
        'Lease by which the replicas of this gateway elect their leader, where source is kubernetes; unset, `engine-gateway`, with a class `engine-gateway-CLASS`. Two gateways in one namespace need one each.',
      default: null,
      format: 'leaseName',
    }),
    kubeconfig: text({
      description: 'Kubeconfig file; unset, the service account of the pod, else the usual kubeconfig.',
      default: null,
      format: 'path',
    }),
    unmanagedRows: choice(['serve', 'ignore'], {
      description: 'Whether clusters that are only rows of the database, left by a gateway before, take requests.',
      default: 'serve',
    }),
    apiWrites: choice(['enabled', 'activation-only', 'off'], {
      description: 'What REST and user interface may change.',
      default: 'enabled',
    }),
    writeNamespace: text({
      description: 'Namespace of clusters that are created by REST while all namespaces are watched.',
      default: null,
    }),
    allowedServiceNamespaces: listOf(text({ description: 'Namespace.', format: 'name' }), {
      description: "Namespaces beside the resource's own that serviceRef may point to.",
      default: [],
    }),
    discovery: section(
      {
        namespaces: listOf(text({ description: 'Namespace, or `*`.', format: 'name' }), {
          description: `Namespaces, beside its own, in which an ${ENGINE_CLUSTER_DISCOVERY} may look for Services; \`*\` for all. The gateway's account must be allowed to list and watch Services there.`,
          default: [],
        }),
      },
      { description: 'Clusters that are made of Services (docs/discovery.md).' },
    ),
    allowedAddresses: listOf(text({ description: 'Address or network.', format: 'cidr' }), {
      description:
        'Addresses and networks (CIDR) that clusters may have although they are refused otherwise: link-local ones, metadata services of clouds and, where source is kubernetes, loopback.',
      default: [],
    }),
    massDeletion: section(
      {
        enabled: flag({
          description:
            'Whether resources of a kind stay routed where the source loses more than half of them within a minute, until that is confirmed.',
          default: true,
        }),
        minimum: integer({
          description: 'Losses of fewer resources of a kind are believed.',
          default: 4,
          minimum: 1,
          maximum: 1_000_000,
        }),
        confirmAfter: duration({
          description: 'Time after which such a loss is believed; `0s`: never without a confirmation.',
          default: 3_600_000,
          minimum: 0,
          maximum: 30 * 86_400_000,
        }),
      },
      {
        description:
          'A source that loses most of its resources at once (docs/reliability.md, A source that loses most of its resources).',
      },
    ),
    groups: mapOf(
      section(
        {
          join: listOf(text({ description: 'Namespace, or `*`.', format: 'name' }), {
            description:
              'Namespaces whose clusters may belong to the routing group of this name; unset for all. The entry `*` is for groups without one.',
            default: null,
          }),
          route: listOf(text({ description: 'Namespace, or `*`.', format: 'name' }), {
            description: 'Namespaces whose rules may route to that group; unset for all.',
            default: null,
          }),
          deny: listOf(text({ description: 'Namespace, or `*`.', format: 'name' }), {
            description: 'Namespaces whose deny rules may refuse queries to that group; unset for all.',
            default: null,
          }),
        },
        { description: 'Rights to one routing group.' },
      ),
      {
        description: 'Routing groups that are bound to namespaces, by name; a group without an entry is open to all.',
        default: {},
      },
    ),
  },
  { description: `Where ${ENGINE_CLUSTER} and ${ROUTING_RULE} resources come from.` },
);

/** `server`: listeners and limits (docs/serving.md). */
export const server = section(
  {
    address: text({
      description:
        'Address that is listened on; `localhost` stands for 127.0.0.1 and ::1, and is the default where authentication is not configured.',
      default: '0.0.0.0',
      format: 'host',
    }),
    allowedHosts: listOf(text({ description: 'Host name, `*.example.com` or `*`.', format: 'hostNamePattern' }), {
      description:
        'Names in `Host` that are answered while no login is required, beside addresses, localhost and `server.address`; other names are answered 421. `*`: any name, which lets pages of other sites call by DNS rebinding.',
      default: [],
    }),
    adminPort: integer({
      description:
        'Port of a listener of its own for API and user interface, where no query is taken; unset, they share the one of the proxy.',
      default: null,
      minimum: 0,
      maximum: 65535,
    }),
    adminHosts: listOf(text({ description: 'Host name, with a port or without.', format: 'authority' }), {
      description:
        'Host names, with a port or without, at which API and user interface are served; no query is taken there, and all other host names serve queries alone. Empty, they share every host name.',
      default: [],
    }),
    enginePages: choice(['proxy', 'redirect', 'off'], {
      description:
        "How engines' web pages (`/ui`) are served: `proxy` serves them, `redirect` leads browsers to the cluster's externalUrl, `off` refuses them. Unset, `proxy`; `redirect` where resources.source is kubernetes and server.adminHosts is empty.",
      default: null,
    }),
    trustedProxies: listOf(text({ description: 'Address or network.', format: 'cidr' }), {
      description: 'Addresses and networks (CIDR) of proxies whose X-Forwarded-* and Forwarded are believed.',
      default: [],
    }),
    clientCertificates: choice(['request', 'require'], {
      description:
        'Whether connections over TLS are asked for a client certificate, or cannot be made without a verified one. Unset, `request` where certificates name users (requestAnalyzerConfig), else `require` where `http-server.https.truststore.path` is set, else neither.',
      default: null,
    }),
    clientCertificateHeader: text({
      description:
        'Header in which server.trustedProxies pass the certificate of a client on that they have verified, e.g. `X-Forwarded-Client-Cert`. They must overwrite what clients send under this name. Unset, no header is believed.',
      default: null,
      format: 'headerName',
    }),
    drainDelay: duration({
      description:
        'Time at a clean stop between not ready and the end of listening, in which all is served and answers end their connections, so that load balancers and clients take note.',
      default: 0,
      minimum: 0,
      maximum: 600_000,
    }),
    drainTimeout: duration({
      description: 'Time that running answers get to finish at a clean stop.',
      default: 30_000,
      minimum: 0,
      maximum: 3_600_000,
    }),
    maxBodySize: size({
      description: 'Largest body of a proxied request; more is answered 413.',
      default: 100 * 1024 ** 2,
      minimum: 1024,
    }),
    maxApiBodySize: size({
      description: 'Largest body of a REST call; more is answered 413.',
      default: 1024 ** 2,
      minimum: 1024,
      maximum: 1024 ** 3,
    }),
    requestMemory: size({
      description:
        'Bytes of request bodies that are buffered, all together; a body beyond it is answered 503. Unset, an eighth of the memory limit of the process, 16MB to 512MB.',
      default: null,
      minimum: 8 * 1024 ** 2,
    }),
    maxHeaderLines: integer({
      description: 'Most header lines of a request; more are answered 431.',
      default: 10_000,
      minimum: 100,
      maximum: 50_000,
    }),
    http2: flag({
      description:
        'Whether clients over TLS may speak HTTP/2. `false`: HTTP/1.1 alone, over which one header line may have more than 64 kB.',
      default: true,
    }),
    maxHttp2Connections: integer({
      description:
        'Client connections over HTTP/2 open at once, on all listeners together; further clients over TLS are offered HTTP/1.1 alone. Unset, one for each MB of the request memory, at least 32.',
      default: null,
      minimum: 1,
      maximum: 1_000_000,
    }),
    maxConnections: integer({
      description: 'Client connections open at once on one listener; further ones are closed.',
      default: 20_000,
      minimum: 1,
      maximum: 1_000_000,
    }),
    headersTimeout: duration({
      description: "Time for a client to send a request's head.",
      default: 60_000,
      minimum: 100,
      maximum: 3_600_000,
    }),
    requestTimeout: duration({
      description: 'Time for a client to send a whole request.',
      default: 300_000,
      minimum: 100,
      maximum: 86_400_000,
    }),
  },
  { description: 'Listeners and their limits; the port is serverConfig `http-server.http.port`.' },
);

/** `{product}` stands for the product's name in lower case (`derived.ts`). */
const ofProduct = (name: string) => `{product}_${name}`;

/** `monitor`: health checks (docs/health.md). */
export const monitor = section(
  {
    taskDelay: duration({
      description: 'Time between two checks of a cluster.',
      default: 60_000,
      minimum: 100,
      maximum: 86_400_000,
    }),
    timeout: duration({
      description: 'Time after which a check counts as failed.',
      default: 10_000,
      minimum: 10,
      maximum: 600_000,
    }),
    failureThreshold: integer({
      description: 'Failed checks in a row that make a cluster UNHEALTHY.',
      default: 1,
      minimum: 1,
      maximum: 100,
    }),
    successThreshold: integer({
      description: 'Good checks in a row that make a cluster HEALTHY.',
      default: 1,
      minimum: 1,
      maximum: 100,
    }),
    serverErrorThreshold: integer({
      description:
        'Queries and follow-ups in a row, answered 5xx or not at all, that eject a cluster; 0 for never. A connection that fails ejects it immediately.',
      default: 5,
      minimum: 0,
      maximum: 10_000,
    }),
    baseEjectionTime: duration({
      description:
        'Time for which a cluster is UNHEALTHY at its first ejection for failed queries; each further one takes twice as long.',
      default: 10_000,
      minimum: 100,
      maximum: 3_600_000,
    }),
    maxEjectionTime: duration({
      description:
        'Longest ejection. A cluster that is not ejected for as long after its return starts with monitor.baseEjectionTime again.',
      default: 300_000,
      minimum: 100,
      maximum: 86_400_000,
    }),
    maxEjectionPercent: integer({
      description:
        'Most active clusters of a routing group that are ejected for failed queries at a time, in percent. Below 100 the last cluster that takes new queries stays.',
      default: 50,
      minimum: 0,
      maximum: 100,
    }),
    retries: integer({
      description: 'How often a check that was answered 502, 503 or 504 is repeated at once.',
      default: 0,
      minimum: 0,
      maximum: 100,
    }),
    queryTimeout: duration({
      description: 'Time for the query of a JDBC check.',
      default: 10_000,
      minimum: 10,
      maximum: 600_000,
    }),
    explicitPrepare: flag({
      description: 'Prepared statements by PREPARE, for old clusters (JDBC checks).',
      default: false,
      withoutEffect: 'the JDBC check uses no prepared statement',
    }),
    metricsEndpoint: text({
      description: 'Path of METRICS checks.',
      default: '/metrics',
      format: 'plainPath',
    }),
    runningQueriesMetricName: text({
      description:
        'Metric that counts running queries (METRICS checks); `{product}` is the product name in lower case.',
      default: ofProduct('execution_name_QueryManager_RunningQueries'),
      format: 'name',
    }),
    queuedQueriesMetricName: text({
      description: 'Metric that counts queued queries (METRICS checks); `{product}` as above.',
      default: ofProduct('execution_name_QueryManager_QueuedQueries'),
      format: 'name',
    }),
    metricMinimumValues: mapOf(decimal({ description: 'Least value, inclusive.', isBound: true }), {
      description: 'Least values of metrics of a healthy cluster, inclusive (METRICS checks).',
      default: { [ofProduct('metadata_name_DiscoveryNodeManager_ActiveNodeCount')]: 1 },
    }),
    metricMaximumValues: mapOf(decimal({ description: 'Greatest value, inclusive.', isBound: true }), {
      description: 'Greatest values of metrics of a healthy cluster, inclusive (METRICS checks).',
      default: {},
    }),
    clusterMetricsRegistryRefreshPeriod: duration({
      description: 'Time after which metrics of clusters followed the registry.',
      default: 30_000,
      aliases: ['backendMetricsRegistryRefreshPeriod'],
      withoutEffect: 'metrics of clusters follow the registry at once',
    }),
  },
  { description: 'Health checks of clusters; a cluster may differ by its healthCheck.' },
);

/** `clusterStatsConfiguration` (docs/health.md#types-of-checks). */
export const clusterStatsConfiguration = section(
  {
    monitorType: choice(monitorTypes, {
      description: 'How health is found out.',
      default: DEFAULT_MONITOR_TYPE,
      ordinals: numberedMonitorTypes,
    }),
  },
  { description: 'Kind of health checks.' },
);

/** `backendState`: credentials of health checks (docs/health.md#credentials). */
export const backendState = optionalSection(
  {
    username: text({ description: 'User of health checks; needed by METRICS, JDBC, JMX and UI_API.' }),
    password: text({ description: 'Password of health checks.', default: '', secret: true }),
    allowedHosts: listOf(text({ description: 'Host pattern.', format: 'hostPattern' }), {
      description:
        'Hosts that the password is sent to, and no others: `trino.example` on any port, `trino.example:8443`, `*.trino.svc`. Unset: to all clusters where source is not kubernetes; there, over verified TLS and for the configured type of checks only.',
      default: null,
    }),
    ssl: flag({
      description: 'TLS of JDBC checks.',
      default: false,
      withoutEffect: "the scheme of the cluster's URL decides",
    }),
    xForwardedProtoHeader: flag({
      description: 'Whether checks send X-Forwarded-Proto: https (UI_API, JMX, METRICS).',
      aliases: ['xforwardedProtoHeader'],
      default: false,
    }),
  },
  {
    description: 'Credentials and manner of health checks, the same for all clusters.',
  },
);

/** `logging`: what the log holds and in which form. */
export const logging = section(
  {
    level: choice(['trace', 'debug', 'info', 'warn', 'error', 'fatal'], {
      description: 'Least level that is logged.',
      default: 'info',
    }),
    queryText: flag({
      description: 'Whether the line of a query holds its text; otherwise it is logged at debug only.',
      default: false,
    }),
  },
  {
    description:
      'The log: JSON lines on standard output, written up to 15 ms after the event (fatal ones at once). A reader that stalls does not stop the gateway: 64 MB of lines wait, later ones are lost, and one says how many.',
  },
);
