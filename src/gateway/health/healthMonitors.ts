import { Counter, Histogram, type Registry } from 'prom-client';
import type { HealthVerdict } from '../../routing/routingTable.ts';
import { ClusterMonitor, type ClusterMonitorDependencies, type MonitorSettings } from './clusterMonitor.ts';

type Metrics = ClusterMonitorDependencies['metrics'];

/** First checks are spread over this many milliseconds per cluster, with a total maximum. */
const SPREAD_MS = 4;
const MAX_SPREAD_MS = 2_000;

/** Checks the health of every registered cluster, active or not, each with a separate timer (docs/health.md). */
export class HealthMonitors {
  readonly #dependencies: ClusterMonitorDependencies;
  readonly #settings: MonitorSettings;
  readonly #monitors = new Map<string, ClusterMonitor>();
  #removeListener: (() => void) | null = null;

  constructor(
    dependencies: Omit<ClusterMonitorDependencies, 'metrics'> & { readonly registry: Registry },
    settings: MonitorSettings,
  ) {
    this.#dependencies = { ...dependencies, metrics: monitorMetrics(dependencies.registry) };
    this.#settings = settings;
  }

  /** Starts checking, and follows changes of clusters. */
  start(): void {
    this.#removeListener = this.#dependencies.table.onChange(() => this.#follow());
    this.#follow();
  }

  stop(): void {
    this.#removeListener?.();
    this.#removeListener = null;
    for (const monitor of this.#monitors.values()) monitor.stop();
    this.#monitors.clear();
  }

  /**
   * Records a failed connection of a real request: the cluster is UNHEALTHY immediately, regardless of the threshold,
   * and checked again soon (docs/health.md#what-real-requests-find). Clusters without checks (NOOP) stay HEALTHY.
   */
  connectionFailed(cluster: string, proxyTo: string, reason: string): void {
    this.#at(cluster, proxyTo)?.connectionFailed(reason);
  }

  /**
   * Records a response 5xx of a real request, or a connection that broke before. At the threshold of consecutive
   * failures the cluster is ejected (docs/health.md#ejection). Clusters without checks (NOOP) stay HEALTHY.
   */
  serverFailed(cluster: string, proxyTo: string, reason: string, inARow: number): void {
    this.#at(cluster, proxyTo)?.serverFailed(reason, inARow);
  }

  /** Checks a cluster now; resolves with its verdict, or null if it is not registered. */
  async checkNow(cluster: string): Promise<HealthVerdict | null> {
    const monitor = this.#monitors.get(cluster);
    if (monitor === undefined) return null;
    await monitor.check();
    return this.#dependencies.table.current.clusters.get(cluster)?.health ?? null;
  }

  #at(cluster: string, proxyTo: string): ClusterMonitor | undefined {
    const monitor = this.#monitors.get(cluster);
    return monitor?.proxyTo === proxyTo ? monitor : undefined;
  }

  #follow(): void {
    const { clusters } = this.#dependencies.table.current;
    for (const [name, monitor] of this.#monitors) {
      const cluster = clusters.get(name);
      if (cluster !== undefined && monitor.fits(cluster)) continue;
      monitor.stop();
      this.#monitors.delete(name);
      if (cluster === undefined) this.#forget(name);
    }
    const fresh = [...clusters.values()].filter(({ name }) => !this.#monitors.has(name));
    const spread = Math.min(MAX_SPREAD_MS, fresh.length * SPREAD_MS);
    for (const cluster of fresh) {
      const monitor = new ClusterMonitor(this.#dependencies, this.#settings, cluster);
      this.#monitors.set(cluster.name, monitor);
      monitor.schedule(this.#dependencies.random() * spread);
    }
  }

  #forget(cluster: string): void {
    const { credentials, metrics } = this.#dependencies;
    credentials.report(cluster, null);
    for (const result of ['healthy', 'unhealthy', 'pending', 'inconclusive'])
      metrics.checks.remove({ cluster, found: result });
    for (const cause of ['connection', 'server_errors']) metrics.takenOut.remove({ cluster, cause });
    metrics.preventions.remove({ cluster });
  }
}

function monitorMetrics(registry: Registry): Metrics {
  const registers = [registry];
  return {
    checks: new Counter({
      name: 'engine_gateway_health_checks_total',
      help: 'Health checks of a cluster by what they found: healthy, pending or unhealthy.',
      labelNames: ['cluster', 'found'],
      registers,
    }),
    duration: new Histogram({
      name: 'engine_gateway_health_check_duration_seconds',
      help: 'Time of health checks in seconds, of all clusters together.',
      buckets: [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    takenOut: new Counter({
      name: 'engine_gateway_cluster_taken_out_total',
      help: 'How often real requests took a cluster out, by cause: connection (connections that failed) or server_errors (answers 5xx in a row).',
      labelNames: ['cluster', 'cause'],
      registers,
    }),
    preventions: new Counter({
      name: 'engine_gateway_cluster_ejections_prevented_total',
      help: 'Failed requests of a cluster that would have taken it out, if not too many clusters of its group were out (monitor.maxEjectionPercent).',
      labelNames: ['cluster'],
      registers,
    }),
  };
}
