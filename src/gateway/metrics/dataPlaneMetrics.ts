import { Counter, type CounterConfiguration, Gauge, Histogram, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import type { RefusalReason } from '../../routing/refusal.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { RequestKind } from '../../routing/statementProtocol.ts';
import type { LookupSource } from '../ownership/stickiness.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { ClusterErrorType, Upstreams } from '../upstreams/upstreams.ts';

export interface Tally {
  count: number;
}

/**
 * A counter of prom-client that is only updated at a scrape: an update per request would look up and check the labels
 * each time.
 */
export class LocalCounter<T extends string> {
  readonly #counter: Counter<T>;
  readonly #tallies: { readonly tally: Tally; readonly child: Counter.Internal }[] = [];

  constructor(configuration: Omit<CounterConfiguration<T>, 'collect'>) {
    this.#counter = new Counter({ ...configuration, collect: () => this.#update() });
  }

  /**
   * Returns the count of a label set, which its holder increments; the label set is exported from the next scrape on.
   */
  tally(labels: Partial<Record<T, string>>): Tally {
    const tally: Tally = { count: 0 };
    this.#tallies.push({ tally, child: this.#counter.labels(labels) });
    return tally;
  }

  #update(): void {
    for (const { tally, child } of this.#tallies) {
      child.inc(tally.count);
      tally.count = 0;
    }
  }
}

/** Maximum number of clusters, and of routing groups of further clusters, with separate durations. */
const MAX_CLUSTERS = 200;
const MAX_GROUPS = 100;

type Label = 'cluster' | 'routing_group' | 'kind';

interface Series {
  readonly routingGroup: string;
  readonly labels: { readonly cluster: string; readonly routing_group: string };
  readonly submission: Histogram.Internal<Label>;
  readonly followUp: Histogram.Internal<Label>;
}

/**
 * Times of submissions and follow-ups by cluster and routing group. A registry may have thousands of clusters, and each
 * series costs Prometheus memory: the first 200 clusters have separate series, further ones share those of their group
 * (`cluster` is empty), and those of groups after the first 100 share one. Removed clusters free their series.
 */
export class ClusterDurations {
  readonly #table: { readonly current: RoutingTable };
  readonly #histogram: Histogram<Label>;
  readonly #series = new Map<string, Series>();
  readonly #shared = new Map<string, Series>();

  constructor(registry: Registry, table: { readonly current: RoutingTable }) {
    this.#table = table;
    this.#histogram = new Histogram({
      name: 'engine_gateway_cluster_request_duration_seconds',
      help: 'Time from the head of a submission or follow-up (kind) to the end of its answer by its cluster, in seconds. The first 200 clusters have series of their own; cluster is empty for further ones, and so is routing_group after 100 groups of these.',
      labelNames: ['cluster', 'routing_group', 'kind'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers: [registry],
      collect: () => this.#forgetLeft(),
    });
  }

  /** @param cluster registry name of the responding cluster; clusters outside of the routing table are not counted */
  observe(cluster: string, kind: 'submission' | 'follow_up', seconds: number): void {
    const entry = this.#table.current.clusters.get(cluster);
    if (entry === undefined) return;
    let series = this.#series.get(cluster);
    if (series?.routingGroup !== entry.routingGroup) {
      if (series !== undefined) this.#forget(cluster, series);
      series = this.#seriesOf(cluster, entry.routingGroup);
    }
    (kind === 'submission' ? series.submission : series.followUp).observe(seconds);
  }

  #seriesOf(cluster: string, routingGroup: string): Series {
    const isOwn = this.#series.size < MAX_CLUSTERS;
    const isNamed = isOwn || this.#shared.has(routingGroup) || this.#shared.size < MAX_GROUPS;
    const labels = { cluster: isOwn ? cluster : '', routing_group: isNamed ? routingGroup : '' };
    const [all, key] = isOwn ? [this.#series, cluster] : [this.#shared, labels.routing_group];
    let series = all.get(key);
    if (series === undefined) {
      const submission = this.#histogram.labels({ ...labels, kind: 'submission' });
      const followUp = this.#histogram.labels({ ...labels, kind: 'follow_up' });
      series = { routingGroup, labels, submission, followUp };
      all.set(key, series);
    }
    return series;
  }

  #forgetLeft(): void {
    const { clusters } = this.#table.current;
    for (const [cluster, series] of this.#series) {
      if (clusters.get(cluster)?.routingGroup !== series.routingGroup) this.#forget(cluster, series);
    }
  }

  #forget(cluster: string, { labels }: Series): void {
    this.#series.delete(cluster);
    for (const kind of ['submission', 'follow_up']) this.#histogram.remove({ ...labels, kind });
  }
}

const methods = ['GET', 'POST', 'DELETE', 'PUT', 'HEAD'];

interface KindCounts {
  readonly duration: Histogram.Internal<'kind'>;
  readonly requests: Map<string, (Tally | undefined)[]>;
}

/** Metrics of the data plane. Counts per request are plain numbers: an addition costs nanoseconds. */
export class DataPlaneMetrics {
  readonly #requests: LocalCounter<'kind' | 'method' | 'status'>;
  readonly #duration: Histogram<'kind'>;
  readonly #clusterDurations: ClusterDurations;
  readonly #clock: Clock;
  readonly #kinds = new Map<RequestKind, KindCounts>();
  /** Submissions, rejected ones among them. */
  readonly submissions: Tally;
  readonly #rejections: Counter<'reason'>;
  readonly #retries: Counter<'cluster'>;
  readonly #errors: Counter<'cluster' | 'type'>;
  readonly #lookups: LocalCounter<'source'>;
  readonly #sources = new Map<LookupSource, Tally>();

  constructor(registry: Registry, table: { readonly current: RoutingTable }, upstreams: Upstreams, clock: Clock) {
    const registers = [registry];
    this.#clock = clock;
    this.#requests = new LocalCounter({
      name: 'engine_gateway_requests_total',
      help: 'Proxied requests by kind, method and class of the status answered (0xx: the client went away first).',
      labelNames: ['kind', 'method', 'status'],
      registers,
    });
    this.#duration = new Histogram({
      name: 'engine_gateway_request_duration_seconds',
      help: 'Time from the head of a proxied request to the end of its answer, in seconds.',
      labelNames: ['kind'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    });
    this.#clusterDurations = new ClusterDurations(registry, table);
    this.submissions = new LocalCounter({
      name: 'engine_gateway_statement_submissions_total',
      help: 'Queries submitted (POST on a statement path).',
      registers,
    }).tally({});
    this.#rejections = new Counter({
      name: 'engine_gateway_refusals_total',
      help: 'Requests that the gateway refused itself, by reason (docs/routing.md#refusals).',
      labelNames: ['reason'],
      registers,
    });
    this.#retries = new Counter({
      name: 'engine_gateway_submission_retries_total',
      help: 'Submissions sent to another cluster after this one failed them.',
      labelNames: ['cluster'],
      registers,
    });
    this.#errors = new Counter({
      name: 'engine_gateway_cluster_errors_total',
      help: 'Proxied requests that a cluster did not answer properly, by type: connect, reset, timeout or protocol.',
      labelNames: ['cluster', 'type'],
      registers,
    });
    this.#lookups = new LocalCounter({
      name: 'engine_gateway_query_lookups_total',
      help: 'Lookups of the cluster that owns a query, by where it was found: prefix, memory, coordinator, query, history or asked; else missed, unknown or undecided.',
      labelNames: ['source'],
      registers,
    });
    // The usual source has a series from the start.
    this.#sources.set('memory', this.#lookups.tally({ source: 'memory' }));
    const inFlight = new Gauge({
      name: 'engine_gateway_cluster_requests_in_flight',
      help: 'Requests sent to a cluster and not yet answered in full.',
      labelNames: ['cluster'],
      registers,
      collect: () => {
        inFlight.reset();
        for (const cluster of table.current.clusters.values()) {
          inFlight.set({ cluster: cluster.name }, upstreams.byProxyTo.get(cluster.proxyTo)?.inFlight ?? 0);
        }
      },
    });
  }

  /**
   * Notes the end of a request for metrics and trace; only the first time counts.
   * @param status of the client's response; 0 when the client went away
   * @param clusterStatus of the cluster's response; 0 for none
   * @param cluster registry name of the cluster that responded; null for none
   */
  noteEnd(proxied: ProxiedRequest, status: number, clusterStatus: number, cluster: string | null): void {
    if (proxied.ended) return;
    proxied.ended = true;
    proxied.trace?.end(status, clusterStatus);
    const { kind, method } = proxied;
    const seconds = (this.#clock.monotonic() - proxied.startedAt) / 1000;
    let counts = this.#kinds.get(kind);
    if (counts === undefined) {
      counts = { duration: this.#duration.labels(kind), requests: new Map() };
      this.#kinds.set(kind, counts);
    }
    counts.duration.observe(seconds);
    if (cluster !== null && (kind === 'submission' || kind === 'follow_up')) {
      this.#clusterDurations.observe(cluster, kind, seconds);
    }
    // Clients choose methods: only known ones get a series.
    const label = methods.includes(method) ? method : 'other';
    let ofMethod = counts.requests.get(label);
    if (ofMethod === undefined) {
      ofMethod = [];
      counts.requests.set(label, ofMethod);
    }
    const statusClass = (status / 100) | 0;
    ofMethod[statusClass] ??= this.#requests.tally({ kind, method: label, status: `${statusClass}xx` });
    ofMethod[statusClass].count += 1;
  }

  countRejection(reason: RefusalReason): void {
    this.#rejections.inc({ reason });
  }

  retry(cluster: string): void {
    this.#retries.inc({ cluster });
  }

  clusterError(cluster: string, type: ClusterErrorType): void {
    this.#errors.inc({ cluster, type });
  }

  lookup(source: LookupSource): void {
    let tally = this.#sources.get(source);
    if (tally === undefined) {
      tally = this.#lookups.tally({ source });
      this.#sources.set(source, tally);
    }
    tally.count += 1;
  }
}

export function ruleFailureCounter(registry: Registry): (rule: string, origin: 'file' | 'resource') => void {
  const failures = new Counter({
    name: 'engine_gateway_rule_failures_total',
    help: 'Evaluations of a routing rule that failed, by rule and its origin: file or resource.',
    labelNames: ['rule', 'origin'],
    registers: [registry],
  });
  return (rule, origin) => failures.inc({ rule, origin });
}

/** Counts queries that several tenants would decide. */
export function tenantConflictCounter(registry: Registry): Counter {
  return new Counter({
    name: 'engine_gateway_tenant_conflicts_total',
    help: 'Requests that spec.decides of several EngineTenants matched, so that none of them decided.',
    registers: [registry],
  });
}
