import type { Logger } from 'pino';
import { Counter, type Registry } from 'prom-client';
import { parseDuration } from '../config/units.ts';
import type { Clock, Random } from '../model/clock.ts';
import type { HealthCheck, MonitorType } from '../model/engineCluster.ts';
import type { ClusterEntry, HealthVerdict } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import { type CheckResult, type HealthCheckKinds, nextVerdict, noStreak, type Streak } from './healthCheck.ts';

/** Settings of all health checks, where a cluster has none of its own; times in milliseconds. */
export interface MonitorSettings {
  readonly type: MonitorType;
  /** `monitor.taskDelay` */
  readonly interval: number;
  readonly timeout: number;
  readonly failureThreshold: number;
  readonly successThreshold: number;
}

/** What the monitors work with. */
export interface HealthMonitorDependencies {
  readonly table: RoutingTableHolder;
  readonly kinds: HealthCheckKinds;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
}

/** A cluster taken out because a request could not connect, or that is starting, is looked at again after this. */
const SOON_MS = 1_000;
const STARTING_MS = 5_000;
const JITTER = 0.1;

/** Checks the health of every registered cluster, active or not, each on a timer of its own (contract.md §5). */
export class HealthMonitors {
  readonly #dependencies: HealthMonitorDependencies;
  #settings: MonitorSettings;
  readonly #monitors = new Map<string, ClusterMonitor>();
  readonly #checks: Counter<'cluster' | 'found'>;
  #removeListener: (() => void) | null = null;

  constructor(dependencies: HealthMonitorDependencies, settings: MonitorSettings) {
    this.#dependencies = dependencies;
    this.#settings = settings;
    this.#checks = new Counter({
      name: 'engine_gateway_health_checks_total',
      help: 'Health checks of a cluster by what they found.',
      labelNames: ['cluster', 'found'],
      registers: [dependencies.registry],
    });
  }

  /** Starts checking, and follows clusters that come, change and go. */
  start(): void {
    this.#removeListener = this.#dependencies.table.onChange(() => this.#follow());
    this.#follow();
  }

  /** Stops all checks. */
  stop(): void {
    this.#removeListener?.();
    this.#removeListener = null;
    for (const monitor of this.#monitors.values()) monitor.stop();
    this.#monitors.clear();
  }

  /** Takes changed settings: every cluster is checked anew. */
  configure(settings: MonitorSettings): void {
    this.#settings = settings;
    for (const monitor of this.#monitors.values()) monitor.stop();
    this.#monitors.clear();
    if (this.#removeListener !== null) this.#follow();
  }

  /**
   * A real request could not connect: the cluster is UNHEALTHY at once, whatever the threshold (design.md: health), and
   * checked again soon. Clusters that are not checked (NOOP) stay HEALTHY.
   */
  connectionFailed(cluster: string, baseUrl: string, reason: string): void {
    const monitor = this.#monitors.get(cluster);
    if (monitor?.baseUrl === baseUrl) monitor.connectionFailed(reason);
  }

  /** Checks a cluster now; resolves with its verdict, or null when it is not registered. */
  async checkNow(cluster: string): Promise<HealthVerdict | null> {
    const monitor = this.#monitors.get(cluster);
    if (monitor === undefined) return null;
    await monitor.check();
    return this.#dependencies.table.current.clusters.get(cluster)?.health ?? null;
  }

  #follow(): void {
    const { clusters } = this.#dependencies.table.current;
    for (const [name, monitor] of this.#monitors) {
      const cluster = clusters.get(name);
      if (cluster !== undefined && monitor.fits(cluster)) continue;
      monitor.stop();
      this.#monitors.delete(name);
      if (cluster === undefined) for (const found of founds) this.#checks.remove({ cluster: name, found });
    }
    for (const cluster of clusters.values()) {
      if (this.#monitors.has(cluster.name)) continue;
      const monitor = new ClusterMonitor(this.#dependencies, settingsOf(cluster, this.#settings), cluster, (result) =>
        this.#checks.inc({ cluster: cluster.name, found: result.found.toLowerCase() }),
      );
      this.#monitors.set(cluster.name, monitor);
      monitor.start();
    }
  }
}

const founds = ['healthy', 'unhealthy', 'pending', 'inconclusive'];

interface EffectiveSettings extends MonitorSettings {
  readonly path: string | null;
}

/** The settings of a cluster: its own, and the gateway's for what it leaves out. */
function settingsOf(cluster: ClusterEntry, defaults: MonitorSettings): EffectiveSettings {
  const own: HealthCheck = cluster.healthCheck ?? {};
  return {
    type: own.type ?? defaults.type,
    interval: milliseconds(own.interval, defaults.interval),
    timeout: milliseconds(own.timeout, defaults.timeout),
    failureThreshold: own.failureThreshold ?? defaults.failureThreshold,
    successThreshold: own.successThreshold ?? defaults.successThreshold,
    path: own.path ?? null,
  };
}

function milliseconds(text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const parsed = parseDuration(text);
  // A timer of 0 ms would be a busy loop; the schema of clusters lets "0s" through.
  return 'value' in parsed ? Math.max(10, parsed.value) : otherwise;
}

class ClusterMonitor {
  readonly baseUrl: string;
  readonly #cluster: string;
  readonly #own: string;
  readonly #settings: EffectiveSettings;
  readonly #dependencies: HealthMonitorDependencies;
  readonly #count: (result: CheckResult) => void;
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #streak: Streak = noStreak;
  /** Time until the next check while a request found the cluster away; null otherwise. */
  #soon: number | null = null;

  constructor(
    dependencies: HealthMonitorDependencies,
    settings: EffectiveSettings,
    cluster: ClusterEntry,
    count: (result: CheckResult) => void,
  ) {
    this.#dependencies = dependencies;
    this.#settings = settings;
    this.#cluster = cluster.name;
    this.baseUrl = cluster.proxyTo;
    this.#own = JSON.stringify(cluster.healthCheck);
    this.#count = count;
  }

  /** Whether the monitor is still right for the cluster. */
  fits(cluster: ClusterEntry): boolean {
    return cluster.proxyTo === this.baseUrl && JSON.stringify(cluster.healthCheck) === this.#own;
  }

  start(): void {
    this.#schedule(0);
  }

  stop(): void {
    this.#stopped.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Checks once; a check that is running already is waited for. */
  check(): Promise<void> {
    this.#running ??= this.#check().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  connectionFailed(reason: string): void {
    const health = this.#health();
    if (health === undefined || health.status !== 'HEALTHY' || this.#settings.type === 'NOOP') return;
    this.#streak = noStreak;
    this.#soon = SOON_MS;
    this.#publish({ ...health, status: 'UNHEALTHY', reason: `a request could not connect: ${reason}` });
    this.#schedule(SOON_MS);
  }

  async #check(): Promise<void> {
    const { kinds, clock } = this.#dependencies;
    const { type, timeout, path } = this.#settings;
    const kind = kinds[type];
    const askedAt = clock.monotonic();
    const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(timeout)]);
    const result: CheckResult =
      kind === undefined
        ? { found: 'inconclusive', reason: `health checks of type ${type} are not available` }
        : await kind.check({ cluster: this.#cluster, baseUrl: this.baseUrl, path }, signal);
    if (this.#stopped.signal.aborted) return;
    this.#count(result);
    const before = this.#health();
    if (before === undefined) return;
    const next = nextVerdict(before, this.#streak, result, this.#settings, clock.now(), askedAt);
    this.#streak = next.streak;
    this.#publish(next.verdict);
    this.#schedule(this.#delay(next.verdict));
  }

  #delay(verdict: HealthVerdict): number {
    const { interval } = this.#settings;
    if (verdict.status === 'HEALTHY') this.#soon = null;
    if (this.#soon !== null) {
      const delay = this.#soon;
      this.#soon = delay * 2 >= interval ? null : delay * 2;
      return Math.min(delay, interval);
    }
    return verdict.status === 'PENDING' ? Math.min(interval, STARTING_MS) : interval;
  }

  #publish(verdict: HealthVerdict): void {
    const { table, logger } = this.#dependencies;
    const before = this.#health();
    if (before !== undefined && before.status !== verdict.status) {
      logger.info(
        { cluster: this.#cluster, from: before.status, to: verdict.status, reason: verdict.reason },
        'cluster health changed',
      );
    }
    table.setHealth(this.#cluster, this.baseUrl, verdict);
  }

  #health(): HealthVerdict | undefined {
    return this.#dependencies.table.current.clusters.get(this.#cluster)?.health;
  }

  #schedule(delay: number): void {
    if (this.#stopped.signal.aborted) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    // Clusters that were registered together are not asked together for ever.
    const jittered = delay * (1 + JITTER * (2 * this.#dependencies.random() - 1));
    this.#timer = setTimeout(() => void this.check(), jittered).unref();
  }
}
