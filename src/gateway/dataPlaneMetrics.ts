import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { RefusalReason } from '../routing/refusal.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { LookupSource } from './stickiness.ts';
import type { Upstreams } from './upstreams.ts';

/** Kinds of proxied requests, a label of the metrics. */
export type RequestKind = 'submission' | 'follow_up' | 'query' | 'ui' | 'other';

/** Why a cluster did not answer, a label of the metrics. */
export type ClusterErrorType = 'connect' | 'reset' | 'timeout' | 'protocol';

const methods = ['GET', 'POST', 'DELETE', 'PUT', 'HEAD'];

/** Metrics of the data plane. Label sets are made once, so that a request costs two additions. */
export class DataPlaneMetrics {
  readonly #requests: Counter<'kind' | 'method' | 'status'>;
  readonly #requestChildren = new Map<string, Counter.Internal>();
  readonly #duration: Histogram<'kind'>;
  readonly #durationChildren = new Map<RequestKind, Histogram.Internal<'kind'>>();
  readonly #statements: Counter;
  readonly #refusals: Counter<'reason'>;
  readonly #retries: Counter<'cluster'>;
  readonly #errors: Counter<'cluster' | 'type'>;
  readonly #lookups: Counter<'source'>;
  #memoryLookups = 0;

  constructor(registry: Registry, table: { readonly current: RoutingTable }, upstreams: Upstreams) {
    const registers = [registry];
    this.#requests = new Counter({
      name: 'engine_gateway_requests_total',
      help: 'Proxied requests by kind, method and class of the status answered (0xx: the client went away first).',
      labelNames: ['kind', 'method', 'status'],
      registers,
    });
    this.#duration = new Histogram({
      name: 'engine_gateway_request_duration_seconds',
      help: 'Time from the head of a proxied request to the end of its answer.',
      labelNames: ['kind'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    });
    this.#statements = new Counter({
      name: 'engine_gateway_statement_submissions_total',
      help: 'Queries submitted (POST on a statement path).',
      registers,
    });
    this.#refusals = new Counter({
      name: 'engine_gateway_refusals_total',
      help: 'Requests that the gateway refused itself, by reason.',
      labelNames: ['reason'],
      registers,
    });
    this.#retries = new Counter({
      name: 'engine_gateway_submission_retries_total',
      help: 'Submissions repeated elsewhere after this cluster failed them.',
      labelNames: ['cluster'],
      registers,
    });
    this.#errors = new Counter({
      name: 'engine_gateway_cluster_errors_total',
      help: 'Proxied requests that a cluster did not answer properly.',
      labelNames: ['cluster', 'type'],
      registers,
    });
    const lookups = new Counter({
      name: 'engine_gateway_query_lookups_total',
      help: 'Lookups of the cluster that owns a query, by where it was found.',
      labelNames: ['source'],
      registers,
      collect: () => {
        lookups.inc({ source: 'memory' }, this.#memoryLookups);
        this.#memoryLookups = 0;
      },
    });
    this.#lookups = lookups;
    const inFlight = new Gauge({
      name: 'engine_gateway_cluster_requests_in_flight',
      help: 'Requests on their way to a cluster.',
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

  /** @param status status answered; 0 when the client went away before one was */
  request(kind: RequestKind, method: string, status: number, seconds: number): void {
    const key = `${kind}${method}${(status / 100) | 0}`;
    let child = this.#requestChildren.get(key);
    if (child === undefined) {
      child = this.#requests.labels({
        kind,
        method: methods.includes(method) ? method : 'other',
        status: `${(status / 100) | 0}xx`,
      });
      // Methods are the client's to choose: only known ones may take a place.
      if (methods.includes(method)) this.#requestChildren.set(key, child);
    }
    child.inc();
    let duration = this.#durationChildren.get(kind);
    if (duration === undefined) {
      duration = this.#duration.labels({ kind });
      this.#durationChildren.set(kind, duration);
    }
    duration.observe(seconds);
  }

  submission(): void {
    this.#statements.inc();
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
    if (source === 'memory') this.#memoryLookups++;
    else this.#lookups.inc({ source });
  }
}
