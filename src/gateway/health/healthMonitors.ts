import type { Logger } from 'pino';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { parseDuration } from '../../config/units.ts';
import type { HealthCheck } from '../../kinds/engineCluster/spec.ts';
import type { Clock, Random } from '../../model/clock.ts';
import { durationText } from '../../model/durationText.ts';
import { type MonitorType, monitorChoices } from '../../model/monitorType.ts';
import type { RoutingTableHolder } from '../../routing/routingTable.ts';
import { type ClusterEntry, type HealthVerdict, takesNewQueries } from '../../routing/routingTable.ts';
import { type CheckResult, type CredentialSources, findCredentials, type HealthCheckKinds } from './healthCheck.ts';

/** Consecutive results, for the thresholds. */
export interface Streak {
  readonly good: number;
  readonly bad: number;
}

export const noStreak: Streak = { good: 0, bad: 0 };

/**
 * The verdict after a check. PENDING counts immediately, as a starting cluster must not get queries; the other two
 * after as many consecutive results as the threshold. Inconclusive results only change the reason. Counts stay while
 * failed checks wait for their threshold.
 * @param checkedAt wall clock of its end
 * @param requestedAt monotonic time of its start: its counts include earlier queries
 */
function nextVerdict(
  before: HealthVerdict,
  streak: Streak,
  result: CheckResult,
  thresholds: { readonly failureThreshold: number; readonly successThreshold: number },
  checkedAt: number,
  requestedAt: number,
): { readonly verdict: HealthVerdict; readonly streak: Streak } {
  const { health } = result;
  if (health === 'inconclusive') {
    const reason = `${result.reason}; the last verdict stays`;
    return { verdict: { ...before, reason, checkedAt }, streak };
  }
  const next: Streak =
    health === 'HEALTHY'
      ? { good: streak.good + 1, bad: 0 }
      : health === 'UNHEALTHY'
        ? { good: 0, bad: streak.bad + 1 }
        : noStreak;
  const reached =
    health === 'PENDING' ||
    (health === 'HEALTHY' ? next.good >= thresholds.successThreshold : next.bad >= thresholds.failureThreshold);
  const waits =
    health === 'HEALTHY'
      ? `${next.good} of ${thresholds.successThreshold} good checks`
      : `${next.bad} of ${thresholds.failureThreshold} failed checks`;
  const reason = reached || before.status === health ? result.reason : `${result.reason} (${waits})`;
  if (!reached && before.status === 'HEALTHY') return { streak: next, verdict: { ...before, reason, checkedAt } };
  return {
    streak: next,
    verdict: {
      status: reached ? health : before.status,
      reason,
      checkedAt,
      queued: result.queued ?? null,
      running: result.running ?? null,
      workers: result.workers ?? null,
      queuedByUser: result.queuedByUser ?? null,
      countsAsOf: result.queued === undefined && result.running === undefined ? null : requestedAt,
      version: result.version ?? before.version,
      coordinatorId: result.coordinatorId ?? before.coordinatorId,
    },
  };
}

/** Default settings of health checks; times in milliseconds. */
export type MonitorSettings = Omit<GatewayConfig['monitor'], 'taskDelay'> & {
  readonly type: MonitorType;
  /** `monitor.taskDelay` */
  readonly interval: number;
};

export interface ClusterMonitorDependencies {
  readonly table: RoutingTableHolder;
  readonly kinds: HealthCheckKinds;
  readonly credentials: CredentialSources;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: ReturnType<typeof monitorMetrics>;
}

/** Ejections of a cluster, reset after it has received new queries for `maxEjectionTime` without another one. */
interface Ejections {
  readonly count: number;
  readonly since: number;
  readonly reason: string;
  /** Duration of the last one, milliseconds; the trial after it has the same duration. */
  readonly time: number;
  readonly ejectedAt: number;
  /** Monotonic time of its return, or null. */
  readonly returnedAt: number | null;
}

/** Delay of the next check after failed requests, or while a cluster starts. */
const SOON_MS = 1_000;
const STARTING_MS = 5_000;
const JITTER = 0.1;

/** Monitor of one cluster: checks, thresholds, and results of real requests (docs/health.md). */
export class ClusterMonitor {
  readonly proxyTo: string;
  readonly #cluster: string;
  readonly #healthCheck: HealthCheck | null;
  readonly #settings: EffectiveSettings;
  readonly #configuredType: MonitorType;
  readonly #dependencies: ClusterMonitorDependencies;
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #streak: Streak = noStreak;
  /** Delay of the next check after a request found the cluster unavailable; null otherwise. */
  #soon: number | null = null;
  /** Incremented when requests make the cluster UNHEALTHY: invalidates checks that began before. */
  #era = 0;
  /** Null: no recent ejections. */
  #ejections: Ejections | null = null;
  #checks = 0;

  constructor(dependencies: ClusterMonitorDependencies, settings: MonitorSettings, cluster: ClusterEntry) {
    this.#dependencies = dependencies;
    this.#settings = settingsOf(cluster.healthCheck, settings, dependencies.kinds);
    this.#configuredType = settings.type;
    this.#cluster = cluster.name;
    this.proxyTo = cluster.proxyTo;
    this.#healthCheck = cluster.healthCheck;
  }

  fits(cluster: ClusterEntry): boolean {
    if (cluster.proxyTo !== this.proxyTo) return false;
    // Nearly always the same object; texts are compared after a new read.
    return (
      cluster.healthCheck === this.#healthCheck ||
      JSON.stringify(cluster.healthCheck) === JSON.stringify(this.#healthCheck)
    );
  }

  stop(): void {
    this.#stopped.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Checks once; waits for a running check. */
  check(): Promise<void> {
    this.#running ??= this.#check().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Records a failed connection of a real request: UNHEALTHY until a successful check. */
  connectionFailed(reason: string): void {
    this.#eject(`a request could not connect: ${reason}`, 'connection', SOON_MS);
  }

  /**
   * Records a response 5xx, or no response, of a real request.
   * @param inARow failures since the last success: at the threshold the cluster is ejected. After its return the first
   * failure ejects it again; after a success the threshold applies again
   */
  serverFailed(reason: string, inARow: number): void {
    const { serverErrorThreshold, baseEjectionTime } = this.#settings;
    if (serverErrorThreshold === 0 || inARow < serverErrorThreshold) return;
    this.#eject(`${inARow} requests in a row failed, the last one: ${reason}`, 'server_errors', baseEjectionTime);
  }

  /** @param base milliseconds of a first ejection */
  #eject(failure: string, cause: 'connection' | 'server_errors', base: number): void {
    const { clock, metrics } = this.#dependencies;
    const health = this.#health();
    if (health === undefined || health.status !== 'HEALTHY' || this.#settings.type === 'NOOP') return;
    if (cause === 'server_errors' && !this.#mayEject()) {
      metrics.preventions.inc({ cluster: this.#cluster });
      return;
    }
    const now = clock.monotonic();
    const { count, since } = this.#currentEjections(now) ?? { count: 0, since: clock.now() };
    const time = Math.min(this.#settings.maxEjectionTime, base * 2 ** Math.min(count, 20));
    const reason = cause === 'connection' ? failure : `${failure}; ejected for ${durationText(time)}`;
    this.#ejections = { count: count + 1, since, reason, time, ejectedAt: now, returnedAt: null };
    this.#streak = noStreak;
    this.#era++;
    this.#soon = SOON_MS;
    metrics.ejections.inc({ cluster: this.#cluster, cause });
    this.#publish({ ...health, status: 'UNHEALTHY', reason });
    this.schedule(this.#ejectionDelay(now) ?? SOON_MS);
  }

  /** True if its group may lose one more cluster (docs/health.md#ejection). */
  #mayEject(): boolean {
    const { maxEjectionPercent } = this.#settings;
    const { clusters, groups } = this.#dependencies.table.current;
    const members = groups.get(clusters.get(this.#cluster)?.routingGroup ?? '') ?? [];
    let active = 0;
    let ejected = 0;
    let eligible = 0;
    for (const member of members) {
      if (member.active) active++;
      if (member.health.ejection === 'ejected') ejected++;
      if (takesNewQueries(member)) eligible++;
    }
    return (ejected + 1) * 100 <= maxEjectionPercent * active && (eligible > 1 || maxEjectionPercent === 100);
  }

  /** The current ejections; null after a long time of success. */
  #currentEjections(now: number): Ejections | null {
    const returnedAt = this.#ejections?.returnedAt ?? null;
    if (returnedAt !== null && now - returnedAt >= this.#settings.maxEjectionTime) this.#ejections = null;
    return this.#ejections;
  }

  #ejectionAt(now: number): 'ejected' | 'trial' | null {
    const ejections = this.#currentEjections(now);
    if (ejections === null) return null;
    const { returnedAt, ejectedAt, time } = ejections;
    if (now - (returnedAt ?? ejectedAt) >= time) return null;
    return returnedAt === null ? 'ejected' : 'trial';
  }

  /** Milliseconds until the next check of a cluster that is ejected or on trial; null for others. */
  #ejectionDelay(now: number): number | null {
    if (this.#ejections === null || this.#ejectionAt(now) === null) return null;
    const { returnedAt, ejectedAt, time } = this.#ejections;
    // Not before the end, regardless of the jitter.
    const left = ((returnedAt ?? ejectedAt) + time - now) / (1 - JITTER);
    return Math.min(this.#settings.interval, left);
  }

  async #check(): Promise<void> {
    const { clock, metrics } = this.#dependencies;
    const era = this.#era;
    const requestedAt = clock.monotonic();
    const result = await this.#ask();
    if (this.#stopped.signal.aborted) return;
    metrics.checks.inc({ cluster: this.#cluster, found: result.health.toLowerCase() });
    metrics.duration.observe((clock.monotonic() - requestedAt) / 1_000);
    if (era !== this.#era) {
      this.schedule(this.#soon ?? SOON_MS);
      return;
    }
    const before = this.#health();
    if (before === undefined) return;
    const next = nextVerdict(before, this.#streak, result, this.#settings, clock.now(), requestedAt);
    this.#streak = next.streak;
    const verdict = this.#withEjection(next.verdict, result.health);
    this.#publish(verdict);
    this.schedule(this.#ejectionDelay(clock.monotonic()) ?? this.#delay(verdict));
  }

  /** The verdict of a check; never HEALTHY while the cluster is ejected. */
  #withEjection(verdict: HealthVerdict, found: CheckResult['health']): HealthVerdict {
    // A starting cluster is a new process.
    if (found === 'PENDING') this.#ejections = null;
    const now = this.#dependencies.clock.monotonic();
    const ejections = this.#currentEjections(now);
    if (ejections === null || ejections.returnedAt !== null || verdict.status !== 'HEALTHY') return verdict;
    if (this.#ejectionAt(now) !== null) return { ...verdict, status: 'UNHEALTHY', reason: ejections.reason };
    this.#ejections = { ...ejections, returnedAt: now };
    return verdict;
  }

  async #ask(): Promise<CheckResult> {
    const { kinds, credentials } = this.#dependencies;
    const { type, timeout, path } = this.#settings;
    const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(timeout)]);
    const target = { cluster: this.#cluster, proxyTo: this.proxyTo, path };
    const kind = kinds[type];
    const name = this.#cluster;
    if (!kind.needsUser) {
      credentials.report(name, null);
      return await kind.check(target, signal);
    }
    const entry = this.#dependencies.table.current.clusters.get(name);
    // State of another address does not apply.
    const { origin = 'resource', tls = null } = entry?.proxyTo === this.proxyTo ? entry : {};
    const of = { name, origin, tls, proxyTo: this.proxyTo, healthCheck: this.#healthCheck };
    const access = await findCredentials(credentials, { ...of, type, configuredType: this.#configuredType }, signal);
    return 'health' in access ? access : await kind.check(target, access, signal);
  }

  #delay(verdict: HealthVerdict): number {
    const { interval } = this.#settings;
    if (verdict.status === 'HEALTHY') this.#soon = null;
    if (this.#soon !== null) {
      const delay = this.#soon;
      this.#soon = delay * 2 >= interval ? null : delay * 2;
      return Math.min(delay, interval);
    }
    if (verdict.status === 'PENDING') return Math.min(interval, STARTING_MS);
    // Adds jitter, so that clusters that were first checked together drift apart.
    return this.#checks++ === 0 ? interval * (0.5 + this.#dependencies.random() / 2) : interval;
  }

  #publish(verdict: HealthVerdict): void {
    const { table, logger, clock } = this.#dependencies;
    const before = this.#health();
    if (before !== undefined && before.status !== verdict.status) {
      logger.info(
        { cluster: this.#cluster, from: before.status, to: verdict.status, reason: verdict.reason },
        'cluster health changed',
      );
    }
    const ejection = this.#ejectionAt(clock.monotonic());
    const flappingSince = this.#ejections !== null && this.#ejections.count > 1 ? this.#ejections.since : null;
    table.setHealth(this.#cluster, this.proxyTo, { ...verdict, ejection, flappingSince });
  }

  #health(): HealthVerdict | undefined {
    return this.#dependencies.table.current.clusters.get(this.#cluster)?.health;
  }

  /** Checks after this many milliseconds, in place of a check that is scheduled. */
  schedule(delay: number): void {
    if (this.#stopped.signal.aborted) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const jittered = delay * (1 + JITTER * (2 * this.#dependencies.random() - 1));
    this.#timer = setTimeout(() => void this.check(), jittered).unref();
  }
}

type EffectiveSettings = MonitorSettings & { readonly path: string | null };

/** Merges a cluster's settings with the defaults. */
function settingsOf(
  healthCheck: HealthCheck | null,
  defaults: MonitorSettings,
  kinds: HealthCheckKinds,
): EffectiveSettings {
  const own: HealthCheck = healthCheck ?? {};
  const type = own.type === undefined ? defaults.type : monitorChoices[own.type];
  const kind = kinds[type];
  const timeout = kind.needsUser ? (kind.timeout ?? defaults.timeout) : defaults.timeout;
  return {
    ...defaults,
    type,
    interval: milliseconds(own.interval, defaults.interval),
    timeout: milliseconds(own.timeout, timeout),
    failureThreshold: own.failureThreshold ?? defaults.failureThreshold,
    successThreshold: own.successThreshold ?? defaults.successThreshold,
    path: own.path ?? null,
  };
}

function milliseconds(text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise;
  const parsed = parseDuration(text);
  // The schema of clusters has bounds; a timer of 0 ms would be a busy loop in any case.
  return 'value' in parsed ? Math.max(10, parsed.value) : otherwise;
}

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
    for (const cause of ['connection', 'server_errors']) metrics.ejections.remove({ cluster, cause });
    metrics.preventions.remove({ cluster });
  }
}

function monitorMetrics(registry: Registry) {
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
    ejections: new Counter({
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
