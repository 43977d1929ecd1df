import { type ConfigField, decimal, duration, flag, integer, section, size, text } from '../fields.ts';

/** HTTP clients of the gateway: toward clusters, for health checks, toward the external rules service. */
export type HttpClient = 'proxy' | 'monitor' | 'router';

type Prefixed<C extends HttpClient, F> = { [K in keyof F & string as `${C}.http-client.${K}`]: F[K] };

function clientKeys<C extends HttpClient>(client: C, toward: string) {
  const fields = {
    'connect-timeout': duration(`Time to connect ${toward}.`, { default: 5000, range: [1, 600_000] }),
    // A rules service that hangs holds up every query, so its limit is far below the reference's five minutes.
    'request-timeout': duration(
      `Time for a whole request ${toward}.${client === 'monitor' ? ' Stands for monitor.timeout where that is not given.' : ''}`,
      {
        range: [1, 1_728_000_000],
        ...(client === 'monitor' ? {} : { default: client === 'router' ? 10_000 : 300_000 }),
      },
    ) as ConfigField<C extends 'monitor' ? number | null : number>,
    'idle-timeout': duration(`Time without any byte after which a request ${toward} fails.`, {
      aliases: [`${client}.http-client.read-timeout`],
      default: 60_000,
      range: [1, 1_728_000_000],
    }),
    'max-connections-per-server': integer(`Connections kept open to one address ${toward}; further requests wait.`, {
      default: 1000,
      range: [1, 100_000],
    }),
    'max-requests-queued-per-destination': integer(
      `Requests that may wait for a connection to one address ${toward}.`,
      { default: 1024, range: [0, 1_000_000] },
    ),
    'max-response-content-length': size(
      `Largest response body ${toward} that is read whole${client === 'router' ? '; never more than 1MB' : ''}.`,
      {
        default: 16 * 1024 ** 2,
        range: [1],
        aliases: [`${client}.http-client.max-content-length`],
        ...(client === 'proxy' ? { withoutEffect: 'responses are streamed, of any size' } : {}),
      },
    ),
    'https.hostname-verification': flag(`Whether a certificate must name its host (connections ${toward}).`, {
      default: true,
    }),
    'key-store-path': text(
      `Client certificate (connections ${toward}): chain and private key in one PEM file, in a folder as tls.crt and tls.key, or a key store in PKCS#12.`,
      { format: 'path' },
    ),
    'key-store-password': text('Password of that file.', { secret: true }),
    'trust-store-path': text(
      `PEM file of trusted certificate authorities (connections ${toward}), instead of those that Node.js knows.`,
      { format: 'path' },
    ),
    'trust-store-password': text('Password of the trust store.', {
      secret: true,
      withoutEffect: 'certificates of authorities are not secret',
    }),
    'http-proxy': text(`HTTP proxy of connections ${toward}, as host:port.`, {
      withoutEffect: 'connections go straight to their address',
    }),
  };
  return Object.fromEntries(
    Object.entries(fields).map(([key, schema]) => [`${client}.http-client.${key}`, schema]),
  ) as unknown as Prefixed<C, typeof fields>;
}

/** Properties of the reference's server and its libraries that mean nothing here; an existing file may hold them. */
const serverProperties = `
  bootstrap.quiet secrets-plugins-dir pool node.ip node.annotations node.prefer-ipv6-address node.environment
  node.id node.pool node.location node.data-dir node.internal-address node.internal-address-source
  node.external-address node.bind-ip node.annotation-file node.binary-spec node.config-spec discovery.uri
  service-inventory.uri service-inventory.update-interval jmx.rmiregistry.port jmx.rmiserver.port jmx.enabled
  log.levels-file log.path log.format log.max-size log.max-total-size log.max-history log.compression
  log.enable-console log.console-format log.queue-size log.annotation-file log.output-file
  openmetrics.jmx-object-names metrics.jmx-object-names otel.tracing.baggage.allowed-keys
  otel.tracing.baggage.max-value-length otel.tracing.max-attribute-value-length otel.exporter.interval
  otel.exporter.max-export-batch-size otel.exporter.log.max-export-batch-size otel.exporter.log.max-queue-size
  otel.exporter.log.schedule-delay otel.exporter.span.max-export-batch-size otel.exporter.span.max-queue-size
  otel.exporter.span.schedule-delay otel.exporter.tls.client-certificate-path
  otel.exporter.tls.client-certificate-pem otel.exporter.tls.client-key-path otel.exporter.tls.client-key-pem
  otel.exporter.tls.client-key-password otel.exporter.tls.trusted-certificates-path
  otel.exporter.tls.trusted-certificates-pem http-server.accept-queue-size http-server.http.accept-queue-size
  http-server.https.accept-queue-size http-server.max-direct-memory http-server.max-heap-memory
  http-server.notify-remote-async-errors http-server.output-buffer-size http-server.track-memory-allocations
  http-server.http.acceptor-threads http-server.http.selector-threads http-server.https.acceptor-threads
  http-server.https.selector-threads http-server.threads.min http-server.threads.max
  http-server.threads.max-idle-time http-server.virtual-threads.enabled http-server.compression.enabled
  http-server.log.enabled http-server.log.path http-server.log.max-size http-server.log.max-history
  http-server.log.queue-size http-server.log.compression.enabled http-server.log.compression
  http-server.log.immediate-flush http-server.http2.session-receive-window-size
  http-server.http2.stream-receive-window-size http-server.http2.input-buffer-size
  http-server.http2.stream-idle-timeout http-server.show-stack-trace http-server.legacy-uri-compliance.enabled
  http-server.admin.enabled http-server.admin.threads.min http-server.admin.threads.max
  http-server.https.ssl-session-timeout http-server.https.ssl-session-cache-size
  http-server.https.secure-random-algorithm http-server.https.included-cipher http-server.https.excluded-cipher
  http-server.https.automatic-shared-secret
`
  .trim()
  .split(/\s+/);

const clientProperties = `
  http2.enabled http2.session-receive-window-size http2.stream-receive-window-size http2.input-buffer-size
  http2.idle-timeout keep-alive-interval max-connections destination-idle-timeout http-proxy.user
  http-proxy.password http-proxy.secure https.automatic-shared-secret max-direct-memory max-heap-memory
  max-request-header-size max-response-header-size track-memory-allocations request-buffer-size
  response-buffer-size socks-proxy secure-random-algorithm https.included-cipher https.excluded-cipher
  authentication.enabled authentication.krb5.service-principal-pattern authentication.krb5.principal
  authentication.krb5.remote-service-name authentication.krb5.name-type selector-count record-request-complete
  use-blocking-connect max-threads min-threads timeout-threads timeout-concurrency follow-redirects log.enabled
  log.path log.max-size log.max-history log.queue-size log.buffer-size log.flush-interval log.compression.enabled
  tcp-keep-alive-idle-time strict-event-ordering use-virtual-threads
`
  .trim()
  .split(/\s+/);

const clients: readonly HttpClient[] = ['proxy', 'monitor', 'router'];
const elsewhere: Readonly<Record<string, string>> = {
  'http-server.https.keystore.type': 'the form of the file is recognised: PEM or PKCS#12',
  'http-server.https.truststore.type': 'the file is PEM',
  'otel.exporter.protocol': 'traces are sent as OTLP over HTTP in JSON, which collectors take at port 4318',
  'tracing.exporter.protocol': 'traces are sent as OTLP over HTTP in JSON, which collectors take at port 4318',
  'http-server.stop-timeout': 'server.drainTimeout says how long a clean stop waits',
  'http-server.admin.port': 'server.adminPort gives API and user interface a listener of their own',
};

/** Keys of the HTTP client that the reference's service discovery has; it is missing here. */
const discoveryKeys = [
  ...clientProperties,
  ...Object.entries(clientKeys('proxy', '')).flatMap(([key, schema]) =>
    [key, ...(schema.aliases ?? [])].map((name) => name.replace('proxy.http-client.', '')),
  ),
];

/** `serverConfig`: one flat map of dotted names (docs/compatibility.md#configuration). */
export const serverConfig = section(
  'Server properties under their dotted names, each one key of this map.',
  {
    'http-server.http.enabled': flag('Whether clear-text HTTP is served.', { default: true }),
    'http-server.http.port': integer('Port of API and proxied traffic; 0 takes any free one.', {
      default: 8080,
      range: [0, 65535],
    }),
    'http-server.https.enabled': flag('Whether HTTPS is served, with HTTP/2 for clients that ask for it (ALPN).', {
      default: false,
    }),
    'http-server.https.port': integer('Port of HTTPS.', { default: 8443, range: [0, 65535] }),
    'http-server.https.keystore.path': text(
      'Certificate shown to clients: chain and private key in one PEM file, in a folder as `tls.crt` and `tls.key`, or a key store in PKCS#12. Followed while running.',
      { format: 'path' },
    ),
    'http-server.https.keystore.key': text('Password of the key store.', { secret: true }),
    'http-server.https.keymanager.password': text(
      'Password of the private key, where it is another than that of the key store.',
      { secret: true },
    ),
    'http-server.https.truststore.path': text(
      'PEM file of certificate authorities; set, clients must show a certificate of one of them.',
      { format: 'path' },
    ),
    'http-server.https.truststore.key': text('Password of the trust store.', {
      secret: true,
      withoutEffect: 'certificates of authorities are not secret',
    }),
    'http-server.https.ssl-context.refresh-time': duration(
      'Time between two looks at certificate files, toward clients and toward clusters.',
      { default: 10_000, range: [100, 86_400_000] },
    ),
    'http-server.process-forwarded': flag(
      'Whether every peer is believed when it sends X-Forwarded-* and Forwarded; otherwise only server.trustedProxies are.',
      { default: false, words: { accept: true, reject: false, ignore: false } },
    ),
    'http-server.max-request-header-size': size(
      'Largest request head (request line and headers); more is answered 431. Over HTTP/2 at most 144kB.',
      { default: 128 * 1024, range: [1024, 16 * 1024 ** 2] },
    ),
    'http-server.max-response-header-size': size(
      "Largest head of a cluster's answer (status line and headers); more is an error in the protocol.",
      { default: 2 * 1024 ** 2, range: [1024, 16 * 1024 ** 2] },
    ),
    'http-server.http2.max-concurrent-streams': integer('Requests that may run at once on one HTTP/2 connection.', {
      default: 250,
      range: [1, 100_000],
    }),
    'http-server.net.max-idle-time': duration(
      'Time after which a client connection is closed that is idle, or takes nothing of its answer.',
      { default: 200_000, range: [1000, 86_400_000] },
    ),
    'tracing.enabled': flag('Whether traces of proxied requests are sent (OpenTelemetry).', { default: false }),
    'tracing.sampling-ratio': decimal(
      'Share of requests that are traced, where the client does not say it by its `traceparent`.',
      { aliases: ['otel.tracing.sampling-ratio'], default: 1, range: [0, 1] },
    ),
    'otel.exporter.endpoint': text(
      'URL that traces are sent to (OTLP over HTTP in JSON); without a path, `/v1/traces` is added.',
      { default: 'http://localhost:4318', aliases: ['tracing.exporter.endpoint'], format: 'url' },
    ),
    ...clientKeys('proxy', 'to a cluster'),
    ...clientKeys('monitor', 'of a health check'),
    ...clientKeys('router', 'to the external rules service'),
  },
  {
    ignored: {
      ...Object.fromEntries(serverProperties.map((key) => [key, 'it has no meaning in this server'])),
      ...Object.fromEntries(
        clients.flatMap((client) =>
          clientProperties.map((key) => [`${client}.http-client.${key}`, 'it has no meaning in this HTTP client']),
        ),
      ),
      ...Object.fromEntries(
        discoveryKeys.map((key) => [`discovery.http-client.${key}`, 'there is no service discovery here']),
      ),
      ...elsewhere,
    },
  },
);
