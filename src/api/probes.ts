import { totalmem } from 'node:os';
import { collectDefaultMetrics, Gauge, type Metric, Registry, type RegistryContentType } from 'prom-client';
import { Type } from 'typebox';
import type { ClusterHealth } from '../model/registryCluster.ts';
import { Turns } from '../model/turns.ts';
import type { RoutingTableHolder } from '../routing/routingTable.ts';
import { type ClusterEntry, isAvailable, type RoutingTable } from '../routing/routingTable.ts';
import type { ApiContext, ComponentState } from './apiContext.ts';
import { routes } from './routes.ts';
import { content, objectOf } from './schemas.ts';

const Verbose = Type.Object({
  verbose: Type.Optional(Type.String({ description: 'Given at all: reports the state of every component.' })),
});
const PLAIN = 'text/plain; charset=utf-8';
const text = (description: string) => content(description, Type.String(), 'text/plain');

/**
 * Liveness and readiness (docs/rest-api.md#probes), under the gateway's own path and, for Kubernetes' habit, at the
 * root.
 */
export function healthRoutes(api: ApiContext): void {
  const { names, table, readiness } = api;
  const route = routes(api, 'probes');
  for (const prefix of [names.gatewayPath, '']) {
    route('GET', `${prefix}/livez`, {
      summary: 'Liveness',
      responses: { 200: text('ok: the process runs.') },
      handle: ({ reply }) => reply.type(PLAIN).send('ok'),
    });

    route('GET', `${prefix}/readyz`, {
      summary: 'Readiness',
      description:
        'Never unready because a database, an API server or a cluster is unavailable; verbose reports what is.',
      query: Verbose,
      responses: { 200: text('ok: takes requests.'), 503: text('Not yet; the text says what is missing.') },
      handle: async ({ reply, query }) => {
        const missing = readiness.notReadyBecause();
        reply.code(missing === null ? 200 : 503).type(PLAIN);
        if (query.verbose === undefined) {
          return reply.send(missing === null ? 'ok' : `${names.product} Gateway is still initializing`);
        }
        const states = [...(await readiness.components()), clusterState(table.current)];
        const lines = states.map(({ name, ok, message }) => `[${ok ? '+' : '-'}] ${name}: ${message}`);
        return reply.send(`${[...lines, missing === null ? 'ready' : `not ready: ${missing}`].join('\n')}\n`);
      },
    });
  }
}

/** Counts healthy active clusters, with the reasons for others. */
function clusterState(table: RoutingTable): ComponentState {
  const active = [...table.clusters.values()].filter((cluster) => cluster.active);
  const away = active.filter((cluster) => !isAvailable(cluster));
  const reasons = away.map(({ name, health }) => `; ${name} is ${health.status} (${health.reason})`);
  return {
    name: 'clusters',
    ok: away.length === 0,
    message: `${active.length - away.length} of ${active.length} active clusters healthy${reasons.join('')}`,
  };
}

/** Path of the public keys of tokens for clusters. */
export const JWKS_PATH = '/.well-known/jwks.json';

const Jwks = objectOf(
  { description: 'Public keys.' },
  {
    keys: Type.Array(
      objectOf(
        { additionalProperties: true },
        { kid: Type.String({ description: 'Id of the key, as tokens name it.' }), kty: Type.String() },
      ),
      { description: 'Public keys (RFC 7517); the one that signs now is the first.' },
    ),
  },
);

/** The public keys of tokens that clusters get for users of client certificates (docs/client-certificates.md). */
export function jwksRoutes(api: ApiContext, published: NonNullable<ApiContext['publishedKeys']>): void {
  routes(api, 'probes')('GET', JWKS_PATH, {
    summary: 'Public keys of tokens for clusters',
    description: 'The keys that clusters verify tokens of users of client certificates with, as a JWKS.',
    returns: ['Public keys.', Jwks],
    options: { config: { role: 'public' } },
    handle: ({ reply }) => reply.header('cache-control', 'public, max-age=60').send(published()),
  });
}

const states: readonly ClusterHealth[] = ['PENDING', 'HEALTHY', 'UNHEALTHY'];
const openMetrics = Registry.OPENMETRICS_CONTENT_TYPE;
const Filter = Type.Object({
  'name[]': Type.Optional(
    Type.Union([Type.String(), Type.Array(Type.String())], { description: 'Only metrics of these names; repeatable.' }),
  ),
});

/** `/metrics`: Prometheus text, or OpenMetrics 1.0.0 where `Accept` asks for it (docs/metrics.md). */
export function metricsRoutes(api: ApiContext): void {
  const text = { schema: Type.String() };
  routes(api, 'probes')('GET', '/metrics', {
    summary: 'Metrics',
    query: Filter,
    responses: {
      200: {
        description: 'Metrics of the process, its API and its clusters.',
        content: { 'text/plain': text, 'application/openmetrics-text': text },
      },
    },
    handle: async ({ request, reply, query }) => {
      const open = (request.headers.accept ?? '')
        .split(',')
        .some((range) => /^\s*application\/openmetrics-text\b(?!.*;\s*q=0(\.0*)?\s*$)/i.test(range));
      const type = open ? openMetrics : Registry.PROMETHEUS_CONTENT_TYPE;
      const view = exposition(api.metrics, type, [query['name[]'] ?? []].flat());
      const exposed = await expositionText(view);
      return reply.header('Vary', 'Accept').type(view.contentType).send(exposed);
    },
  });
}

/**
 * A registry that shows the metrics in one of the two formats. It holds views with separate names, as prom-client
 * renames the counters themselves when it writes OpenMetrics.
 */
function exposition(
  metrics: Registry,
  contentType: RegistryContentType,
  names: readonly string[],
): Registry<RegistryContentType> {
  const view: Registry<RegistryContentType> = new Registry();
  view.setContentType(contentType);
  for (const metric of metrics.getMetricsAsArray()) {
    const { name } = metric;
    const matches = (requested: string) =>
      requested === name || requested.replace(/_(total|bucket|sum|count)$/, '') === name;
    if (names.length > 0 && !names.some(matches)) continue;
    view.registerMetric(Object.create(metric, { name: { value: name, writable: true, enumerable: true } }));
  }
  return view;
}

const VALUES_AT_ONCE = 1000;

/**
 * The text of a registry as `Registry.metrics` makes it, but in turns of the event loop: a gateway with thousands of
 * clusters has tens of thousands of values.
 */
async function expositionText(view: Registry<RegistryContentType>): Promise<string> {
  const isOpen = view.contentType === openMetrics;
  const turns = new Turns();
  const texts: string[] = [];
  for (const metric of view.getMetricsAsArray() as unknown as ReadableMetric[]) {
    if (isOpen && metric.type === 'counter') metric.name = metric.name.replace(/_total$/, '');
    const read = await (metric.getForPromString?.() ?? metric.get());
    const lines: string[] = [];
    for (let start = 0; start === 0 || start < read.values.length; start += VALUES_AT_ONCE) {
      const part = { ...read, values: read.values.slice(start, start + VALUES_AT_ONCE) };
      const text = await metricText({ ...part, get: () => Promise.resolve(part) }, view.contentType);
      // HELP and TYPE are written once.
      lines.push(start === 0 ? text : text.split('\n').slice(2).join('\n'));
      if (turns.isOver) await turns.next();
    }
    texts.push(lines.join('\n'));
  }
  return isOpen ? `${texts.join('\n')}\n# EOF\n` : `${texts.join('\n\n')}\n`;
}

const END = '\n# EOF';

async function metricText(metric: ReadableMetric, contentType: RegistryContentType): Promise<string> {
  const registry: Registry<RegistryContentType> = new Registry();
  registry.setContentType(contentType);
  registry.registerMetric(metric as unknown as Metric);
  const text = (await registry.metrics()).trimEnd();
  return text.endsWith(END) ? text.slice(0, -END.length) : text;
}

/** Used fields of a metric; only histograms and summaries have `getForPromString`, which prom-client does not type. */
interface ReadableMetric {
  name: string;
  readonly type: string;
  readonly get: () => Promise<ReadValues>;
  readonly getForPromString?: () => Promise<ReadValues>;
}

interface ReadValues {
  readonly name: string;
  readonly type: string;
  readonly values: readonly unknown[];
}

/** Registers what is known without asking other modules: process, build, and every cluster of the table at scrape time. */
export function registerMetrics(metrics: Registry, table: RoutingTableHolder, version: string): void {
  collectDefaultMetrics({ register: metrics });
  new Gauge({
    name: 'engine_gateway_build_info',
    help: 'Always 1; the label has the version.',
    labelNames: ['version'],
    registers: [metrics],
  }).set({ version }, 1);
  new Gauge({
    name: 'engine_gateway_memory_limit_bytes',
    help: 'Memory that the process may use, by its cgroup, in bytes; absent without a limit.',
    registers: [metrics],
    collect() {
      const limit = process.constrainedMemory();
      // Without a limit, cgroup v1 has the largest number that there is.
      if (limit > 0 && limit < totalmem()) this.set(limit);
      else this.remove();
    },
  });
  const gauge = (name: string, help: string, labels: readonly string[], values: (cluster: ClusterEntry) => Values) =>
    new Gauge({
      name: `engine_gateway_cluster_${name}`,
      help,
      labelNames: ['cluster', ...labels],
      registers: [metrics],
      collect() {
        this.reset();
        for (const cluster of table.current.clusters.values()) {
          for (const [value, more] of values(cluster)) {
            if (value !== null) this.set({ cluster: cluster.name, ...more }, value);
          }
        }
      },
    });
  gauge(
    'status',
    '1 for the status of the last health check (PENDING, HEALTHY, UNHEALTHY), 0 for the others.',
    ['routing_group', 'status'],
    ({ routingGroup, health }) =>
      states.map((status) => [health.status === status ? 1 : 0, { routing_group: routingGroup, status }]),
  );
  gauge(
    'active',
    '1 when the cluster is active, 0 when it is deactivated.',
    ['routing_group'],
    ({ active, routingGroup }) => [[active ? 1 : 0, { routing_group: routingGroup }]],
  );
  gauge(
    'queries',
    'Queries of the cluster by state (queued, running) as the last health check counted them; absent where the check counts none.',
    ['state'],
    ({ health }) => [
      [health.queued, { state: 'queued' }],
      [health.running, { state: 'running' }],
    ],
  );
  gauge(
    'last_check_timestamp_seconds',
    'Time of the last health check of the cluster, seconds since 1970; absent before the first.',
    [],
    ({ health }) => [[health.checkedAt === null ? null : health.checkedAt / 1_000, {}]],
  );
  gauge(
    'workers',
    'Worker nodes of the cluster at the last health check; absent where the check counts none.',
    [],
    ({ health }) => [[health.workers, {}]],
  );
}

/** Values of a metric of a cluster with their labels; null: absent. */
type Values = readonly (readonly [value: number | null, labels: Readonly<Record<string, string>>])[];
