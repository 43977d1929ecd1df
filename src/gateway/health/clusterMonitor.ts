import type { Logger } from 'pino';
import { parseDuration } from '../../config/units.ts';
import type { HealthCheck } from '../../kinds/engineCluster/spec.ts';
import type { Clock, Random } from '../../model/clock.ts';
import type { MonitorType } from '../../model/monitorType.ts';
import type { ClusterEntry, HealthVerdict } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import { type CredentialSources, findCredentials } from './checkCredentials.ts';
import type { CheckResult, HealthCheckKinds } from './healthCheck.ts';
import { nextVerdict, noStreak, type Streak } from './verdict.ts';

/** Settings of all health checks, where a cluster has none of its own; times in milliseconds. */
export interface MonitorSettings {
  readonly type: MonitorType;
  /** `monitor.taskDelay` */
  readonly interval: number;
  readonly timeout: number;
  readonly failureThreshold: number;
  readonly successThreshold: number;
  /** `monitor.serverErrorThreshold`: real requests in a row that fail; 0 for never. */
  readonly serverErrorThreshold: number;
}

/** What the monitor of a cluster works with. */
export interface ClusterMonitorDependencies {
  readonly table: RoutingTableHolder;
  readonly kinds: HealthCheckKinds;
  readonly credentials: CredentialSources;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: Random;
}

/** Receives what a monitor measured, for metrics. */
export interface MonitorListener {
  onCheck(health: CheckResult['health'], seconds: number): void;
  onRemoval(cause: 'connection' | 'server_errors'): void;
}

/** A cluster that real requests found failing, or that is starting, is looked at again after this. */
const SOON_MS = 1_000;
const STARTING_MS = 5_000;
const JITTER = 0.1;

/** The timer of one cluster: checks, thresholds, and what real requests find (docs/health.md). */
export class ClusterMonitor {
  readonly proxyTo: string;
  readonly #cluster: string;
  readonly #healthCheck: HealthCheck | null;
  readonly #settings: EffectiveSettings;
  readonly #configuredType: MonitorType;
  readonly #dependencies: ClusterMonitorDependencies;
  readonly #listener: MonitorListener;
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #streak: Streak = noStreak;
  /** Time until the next check while a request found the cluster unavailable; null otherwise. */
  #soon: number | null = null;
  /** Grows when requests take the cluster out: a check begun before says nothing any more. */
  #era = 0;
  /** How often requests took it out in a row without one of them going well in between. */
  #openings = 0;
  #checks = 0;

  constructor(
    dependencies: ClusterMonitorDependencies,
    settings: MonitorSettings,
    cluster: ClusterEntry,
    listener: MonitorListener,
  ) {
    this.#dependencies = dependencies;
    this.#settings = settingsOf(cluster.healthCheck, settings, dependencies.kinds);
    this.#configuredType = settings.type;
    this.#cluster = cluster.name;
    this.proxyTo = cluster.proxyTo;
    this.#healthCheck = cluster.healthCheck;
    this.#listener = listener;
  }

  /** Whether the monitor is still right for the cluster. */
  fits(cluster: ClusterEntry): boolean {
    if (cluster.proxyTo !== this.proxyTo) return false;
    // Nearly always the same object; the texts are compared for one that was read again.
    return (
      cluster.healthCheck === this.#healthCheck ||
      JSON.stringify(cluster.healthCheck) === JSON.stringify(this.#healthCheck)
    );
  }

  /** @param delay milliseconds until the first check */
  start(delay: number): void {
    this.#schedule(delay);
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

  /** A real request could not connect: UNHEALTHY at once. */
  connectionFailed(reason: string): void {
    this.#takeOut(`a request could not connect: ${reason}`, 'connection', SOON_MS);
  }

  /**
   * A real request was answered 5xx, or not at all.
   * @param inARow failures since the last good answer; after the threshold the cluster is out, and a check that finds it
   *   healthy puts it on probation: the first failure takes it out again, for twice the time, the first good answer ends it
   */
  serverFailed(reason: string, inARow: number): void {
    const { serverErrorThreshold, interval } = this.#settings;
    if (serverErrorThreshold === 0 || inARow < serverErrorThreshold) return;
    if (inARow === serverErrorThreshold) this.#openings = 0;
    const wait = Math.min(interval, SOON_MS * 2 ** Math.min(this.#openings, 20));
    const text = `${inARow} requests in a row failed, the last one: ${reason}`;
    if (this.#takeOut(text, 'server_errors', wait)) this.#openings++;
  }

  /** Whether the cluster was taken out now. */
  #takeOut(reason: string, cause: Parameters<MonitorListener['onRemoval']>[0], wait: number): boolean {
    const health = this.#health();
    if (health === undefined || health.status !== 'HEALTHY' || this.#settings.type === 'NOOP') return false;
    this.#streak = noStreak;
    this.#era++;
    this.#soon = wait;
    this.#listener.onRemoval(cause);
    this.#publish({ ...health, status: 'UNHEALTHY', reason });
    this.#schedule(wait);
    return true;
  }

  async #check(): Promise<void> {
    const { clock } = this.#dependencies;
    const era = this.#era;
    const askedAt = clock.monotonic();
    const result = await this.#ask();
    if (this.#stopped.signal.aborted) return;
    this.#listener.onCheck(result.health, (clock.monotonic() - askedAt) / 1_000);
    if (era !== this.#era) {
      this.#schedule(this.#soon ?? SOON_MS);
      return;
    }
    const before = this.#health();
    if (before === undefined) return;
    const time = { checkedAt: clock.now(), askedAt };
    const next = nextVerdict(before, this.#streak, result, this.#settings, time);
    this.#streak = next.streak;
    this.#publish(next.verdict);
    this.#schedule(this.#delay(next.verdict));
  }

  async #ask(): Promise<CheckResult> {
    const { kinds, credentials } = this.#dependencies;
    const { type, timeout, path } = this.#settings;
    const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(timeout)]);
    const target = { cluster: this.#cluster, proxyTo: this.proxyTo, path };
    const kind = kinds[type];
    const name = this.#cluster;
    if (!kind.needsUser) {
      credentials.report?.(name, null);
      return await kind.check(target, signal);
    }
    const entry = this.#dependencies.table.current.clusters.get(name);
    // What is known of another address says nothing about this one.
    const { origin = 'resource', tls = null } = entry?.proxyTo === this.proxyTo ? entry : {};
    const of = { name, origin, tls, proxyTo: this.proxyTo, healthCheck: this.#healthCheck };
    const stored = await findCredentials(credentials, { ...of, type, configuredType: this.#configuredType }, signal);
    if (stored.ok || stored.refusal !== null) credentials.report?.(name, stored.ok ? null : stored.refusal);
    if (stored.ok) return await kind.check(target, stored.credentials, signal);
    return { health: stored.lasting ? 'UNHEALTHY' : 'inconclusive', reason: stored.reason };
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
    // Clusters that were first checked together are not checked together for ever.
    return this.#checks++ === 0 ? interval * (0.5 + this.#dependencies.random() / 2) : interval;
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
    table.setHealth(this.#cluster, this.proxyTo, verdict);
  }

  #health(): HealthVerdict | undefined {
    return this.#dependencies.table.current.clusters.get(this.#cluster)?.health;
  }

  #schedule(delay: number): void {
    if (this.#stopped.signal.aborted) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const jittered = delay * (1 + JITTER * (2 * this.#dependencies.random() - 1));
    this.#timer = setTimeout(() => void this.check(), jittered).unref();
  }
}

interface EffectiveSettings extends MonitorSettings {
  readonly path: string | null;
}

/** The settings of a cluster: its own, and the gateway's for what it leaves out. */
function settingsOf(
  healthCheck: HealthCheck | null,
  defaults: MonitorSettings,
  kinds: HealthCheckKinds,
): EffectiveSettings {
  const own: HealthCheck = healthCheck ?? {};
  const type = own.type ?? defaults.type;
  const kind = kinds[type];
  const timeout = kind.needsUser ? (kind.timeout?.() ?? defaults.timeout) : defaults.timeout;
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
