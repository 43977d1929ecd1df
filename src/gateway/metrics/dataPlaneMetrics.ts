import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { RefusalReason } from '../../routing/refusal.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { LookupSource } from '../ownership/stickiness.ts';
import type { ClusterErrorType } from '../upstreams/clusterError.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import { ClusterDurations } from './clusterDurations.ts';
import { LocalCounter, type Tally } from './localCounter.ts';

export type RequestKind = 'submission' | 'follow_up' | 'query' | 'ui' | 'other';

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
  readonly #kinds = new Map<RequestKind, KindCounts>();
  readonly #submissions: Tally;
  readonly #refusals: Counter<'reason'>;
  readonly #retries: Counter<'cluster'>;
  readonly #errors: Counter<'cluster' | 'type'>;
  readonly #lookups: LocalCounter<'source'>;
  readonly #sources = new Map<LookupSource, Tally>();

  constructor(registry: Registry, table: { readonly current: RoutingTable }, upstreams: Upstreams) {
    const registers = [registry];
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
    this.#submissions = new LocalCounter({
      name: 'engine_gateway_statement_submissions_total',
      help: 'Queries submitted (POST on a statement path).',
      registers,
    }).tally({});
    this.#refusals = new Counter({
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
          inFlight.set({ cluster: cluster.name }, upstreams.peek(cluster.proxyTo)?.inFlight ?? 0);
        }
      },
    });
  }

  /**
   * @param status response status; 0 if the client disconnected before
   * @param cluster registry name of the responding cluster; null: the gateway itself, or no response
   */
  request(kind: RequestKind, method: string, status: number, seconds: number, cluster: string | null): void {
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

  submission(): void {
    this.#submissions.count += 1;
  }

  refusal(reason: RefusalReason): void {
    this.#refusals.inc({ reason });
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
