import type { Logger } from 'pino';
import type { Clock, Random } from '../model/clock.ts';
import { GatewayError } from '../model/errors.ts';
import { type Kind, keyText, type Resource, type ResourceKey } from '../model/resource.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { RuleCompiler, RulesFile } from '../rules/ruleCompiler.ts';
import type { Store } from '../store/store.ts';
import type { Leadership } from './leadership.ts';
import type { OperatorMetrics } from './metrics.ts';
import { clusterStatus, type ForwardedHeadersFinding, type Stored } from './reconcile/clusterStatus.ts';
import { noServices, type ServiceLookup } from './reconcile/dereference.ts';
import { findDrift } from './reconcile/drift.ts';
import { endOverride } from './reconcile/overrideEnd.ts';
import { project, unproject } from './reconcile/projection.ts';
import { ruleStatus } from './reconcile/ruleStatus.ts';
import { type Outcome, type ResourceLists, RoutingState, resourceOfOutcome } from './routingState.ts';
import type { ResourceSource } from './source.ts';
import { StatusWriter, type Transition } from './statusWriter.ts';
import { resourceOfStored, sameStored } from './storedResource.ts';
import { type DatabaseView, RowWatch } from './unmanagedRows.ts';
import { WorkQueue } from './workQueue.ts';

/** Options of a controller. Times in milliseconds. */
export interface ControllerOptions {
  readonly source: ResourceSource;
  readonly store: Pick<Store, 'resources' | 'backends'>;
  readonly table: RoutingTableHolder;
  readonly compiler: RuleCompiler;
  /** The rules file as it was last read; null when none is configured. `rulesFileChanged` says when it changed. */
  readonly rulesFile: () => RulesFile | null;
  readonly leadership: Leadership;
  readonly services?: ServiceLookup;
  readonly allowedServiceNamespaces: () => readonly string[];
  /** `routing.defaultRoutingGroup`, as it is now; `rulesFileChanged` says when it changed. */
  readonly defaultRoutingGroup: () => string;
  /** `resources.unmanagedRows`. */
  readonly unmanagedRows: 'serve' | 'ignore';
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: OperatorMetrics;
  readonly onTransition?: (transition: Transition) => void;
  readonly workers?: number;
  readonly statusIntervalMs?: number;
  readonly rowPollMs?: number;
  /** A source that turns out empty although the database remembers resources is believed after this time: 5,000. */
  readonly confirmEmptyMs?: number;
  /** How long `start` waits for the source and for the database: 5,000 each. */
  readonly startTimeoutMs?: number;
}

/** How a projection that was asked for ended. */
export type ProjectionOutcome = 'stored' | 'pending';

/**
 * The operator: keeps routing table, database and statuses as the resources say. Every replica keeps its own table;
 * the leader writes everything that no REST write projected.
 */
export class Controller {
  readonly #options: ControllerOptions;
  readonly #state: RoutingState;
  readonly #queue: WorkQueue;
  readonly #statuses: StatusWriter;
  readonly #rows: RowWatch;
  /** By `keyText`: the last failure of a rule at evaluation, and the generation that failed. */
  readonly #ruleFailures = new Map<string, { readonly generation: number; readonly message: string }>();
  readonly #forwardedHeaders = new Map<string, ForwardedHeadersFinding>();
  /** By `keyText`: the version that the database has, as far as this process knows. */
  readonly #storedVersions = new Map<string, string>();
  readonly #stops: (() => unknown)[] = [];
  /** The database's copy of the resources, served until the source has been read. */
  #provisional: ResourceLists | null = null;
  #emptySince: number | null = null;
  #refreshing: NodeJS.Timeout | NodeJS.Immediate | null = null;
  /** Monotonic milliseconds before which no refresh begins: a large one leaves time for everything else. */
  #refreshNotBefore = 0;
  /** Outcomes that the database has, as far as this process knows. */
  readonly #projected = new Map<string, Outcome>();
  #view: DatabaseView | null = null;
  #emptyTimer: NodeJS.Timeout | undefined;
  #wasSynced = false;
  #restored = false;

  constructor(options: ControllerOptions) {
    this.#options = options;
    const { source, logger } = options;
    this.#state = new RoutingState({
      table: options.table,
      compiler: options.compiler,
      rulesFile: options.rulesFile,
      services: options.services ?? noServices,
      allowedServiceNamespaces: options.allowedServiceNamespaces,
      defaultRoutingGroup: options.defaultRoutingGroup,
    });
    this.#statuses = new StatusWriter({
      source,
      leadership: options.leadership,
      clock: options.clock,
      logger,
      ...(options.statusIntervalMs === undefined ? {} : { intervalMs: options.statusIntervalMs }),
      onTransition: (transition) => {
        options.metrics.statusTransitions.inc();
        options.onTransition?.(transition);
      },
    });
    this.#queue = new WorkQueue({
      work: (key) => this.#reconcile(key),
      workers: options.workers ?? 8,
      logger,
      random: options.random,
    });
    this.#rows = new RowWatch({
      store: options.store,
      source: source.name,
      clock: options.clock,
      logger,
      onView: (view) => this.#sawDatabase(view),
      onReturn: () => this.#enqueueAll(),
      ...(options.rowPollMs === undefined ? {} : { pollMs: options.rowPollMs }),
    });
    options.metrics.observe({ source, queue: this.#queue, leadership: options.leadership, clock: options.clock });
  }

  /**
   * Loads the database's copy of the resources, serves it, then reads the source and follows it. Resolves when a
   * snapshot is loaded, from either; goes on trying where one of them is away.
   */
  async start(): Promise<void> {
    const { source, leadership, table, services } = this.#options;
    const timeoutMs = this.#options.startTimeoutMs ?? 5_000;
    await this.#rows.start(timeoutMs);
    this.#refresh();
    this.#stops.push(
      source.watch((key, part) => {
        // A status that another wrote, such as a leader that was paused and comes late, is put right.
        if (part === 'status') this.#enqueue(keyText(key));
        else this.scheduleRefresh();
      }),
      source.onState(() => this.scheduleRefresh()),
      leadership.onChange(() => this.#enqueueAll()),
      (services ?? noServices).onChange(() => this.scheduleRefresh()),
      table.onChange((after, before) => {
        for (const [name, entry] of after.clusters) {
          if (before.clusters.get(name)?.health !== entry.health) this.#enqueueCluster(name);
        }
      }),
    );
    await source.start(timeoutMs);
    this.#refresh();
    await leadership.start();
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop();
    clearImmediate(this.#refreshing as NodeJS.Immediate);
    clearTimeout(this.#refreshing as NodeJS.Timeout);
    clearTimeout(this.#emptyTimer);
    await this.#queue.stop();
    await this.#statuses.stop();
    await this.#rows.stop();
    await this.#options.source.stop();
    await this.#options.leadership.stop();
  }

  /** What every resource means now, by `keyText`. */
  get outcomes(): ReadonlyMap<string, Outcome> {
    return this.#state.outcomes;
  }

  /** Whether the database could not be read at the last look. */
  get databaseAway(): boolean {
    return this.#rows.away;
  }

  /** Mistakes of the rules file and verdicts of all rules as last compiled; null before the first time. */
  get compiledRules() {
    return this.#state.compiled;
  }

  /** To be called when the rules file was read anew, or a setting that rules depend on changed. */
  rulesFileChanged(): void {
    this.#state.recompile();
    this.scheduleRefresh();
  }

  /** Notes what the data plane saw of a cluster (condition `ForwardedHeaders`); null forgets it. */
  reportForwardedHeaders(cluster: string, finding: ForwardedHeadersFinding | null): void {
    const before = this.#forwardedHeaders.get(cluster);
    if (before?.ok === finding?.ok && before?.message === finding?.message) return;
    if (finding === null) this.#forwardedHeaders.delete(cluster);
    else this.#forwardedHeaders.set(cluster, finding);
    this.#enqueueCluster(cluster);
  }

  /** Notes that the rule of a resource failed for a request (condition `Failing`, until the rule is changed). */
  reportRuleFailure(rule: string, message: string): void {
    for (const [key, outcome] of this.#state.outcomes) {
      if (outcome.kind !== 'RoutingRule' || outcome.rule.registryName !== rule) continue;
      const { generation } = outcome.rule.resource.metadata;
      const before = this.#ruleFailures.get(key);
      if (before?.generation === generation && before.message === message) continue;
      this.#ruleFailures.set(key, { generation, message });
      this.#queue.add(key);
    }
  }

  /** Has the table follow the source soon; many calls become one refresh. */
  scheduleRefresh(): void {
    if (this.#refreshing !== null) return;
    const refresh = (): void => {
      this.#refreshing = null;
      this.#refresh();
    };
    const waitMs = this.#refreshNotBefore - this.#options.clock.monotonic();
    this.#refreshing = waitMs > 1 ? setTimeout(refresh, waitMs) : setImmediate(refresh);
  }

  /** Has the table follow the source now: a REST write is in it when this returns. */
  refreshNow(): void {
    this.#refresh();
  }

  /**
   * Projects a resource, or its absence, for a REST write: without a fence, on leader and follower alike. `pending`
   * when the database is away or too slow; the leader catches up then.
   */
  async projectNow(key: ResourceKey, timeoutMs: number): Promise<ProjectionOutcome> {
    const text = keyText(key);
    const { store, source } = this.#options;
    const outcome = this.#state.outcomes.get(text);
    const work =
      outcome === undefined ? unproject(store, key, source.name, null) : project(store, outcome, source.name, null);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), timeoutMs);
    });
    try {
      const result = await Promise.race([work, late]);
      if (result !== 'late') {
        if (outcome !== undefined && result !== 'stale') this.#noteProjected(text, outcome);
        return 'stored';
      }
      this.#options.logger.warn({ key: text }, 'the database did not take the change in time; it follows later');
    } catch (error) {
      if (!isDatabaseAway(error)) throw error;
    } finally {
      clearTimeout(timer);
      // A loss that comes after the answer was given is the leader's to mend.
      work.catch(() => undefined);
    }
    this.#queue.add(text);
    return 'pending';
  }

  #refresh(): void {
    const started = this.#options.clock.monotonic();
    const changed = this.#state.refresh(this.#resources());
    const ended = this.#options.clock.monotonic();
    this.#refreshNotBefore = ended + Math.min(250, 2 * (ended - started));
    this.#options.metrics.refreshes.inc();
    for (const key of changed) this.#queue.add(key);
    const { synced } = this.#options.source.state();
    if (synced && this.#provisional === null && !this.#wasSynced) {
      this.#wasSynced = true;
      this.#enqueueAll();
    }
  }

  /** The source's resources, or the database's copy while the source has not been read. */
  #resources(): ResourceLists {
    const { source, clock } = this.#options;
    const lists: ResourceLists = { clusters: source.list('EngineCluster'), rules: source.list('RoutingRule') };
    if (this.#provisional === null) return lists;
    if (!source.state().synced) return this.#provisional;
    const remembered = this.#provisional.clusters.length + this.#provisional.rules.length;
    if (lists.clusters.length + lists.rules.length === 0 && remembered > 0) {
      // Everything gone while we were away is likelier a source that is not what it should be.
      const confirmMs = this.#options.confirmEmptyMs ?? 5_000;
      this.#emptySince ??= clock.monotonic();
      const waitMs = this.#emptySince + confirmMs - clock.monotonic();
      if (waitMs > 0) {
        clearTimeout(this.#emptyTimer);
        this.#emptyTimer = setTimeout(() => this.scheduleRefresh(), waitMs);
        return this.#provisional;
      }
    }
    this.#provisional = null;
    return lists;
  }

  #sawDatabase(view: DatabaseView): void {
    if (!this.#restored) {
      this.#restored = true;
      this.#options.source.restore(view.stored);
      this.#state.restore(view.stored, view.rows);
      if (!this.#options.source.state().synced) {
        const resources = view.stored.map(resourceOfStored);
        const ofKind = (kind: Kind): readonly Resource[] => resources.filter((resource) => resource.kind === kind);
        this.#provisional = { clusters: ofKind('EngineCluster'), rules: ofKind('RoutingRule') };
      }
    }
    this.#state.setRows(this.#options.unmanagedRows === 'serve' ? view.unmanaged : []);
    // Kept for the lead, which may come soon; as leader there is no later use for it.
    if (this.#options.leadership.isLeader) this.#view = null;
    else if (view.complete) this.#view = view;
    this.#findDrift(view);
    this.scheduleRefresh();
  }

  /** Compares the database with what it should have; as leader, puts right what differs, whoever changed it. */
  #findDrift(view: DatabaseView): void {
    const { leadership, source } = this.#options;
    if (!source.state().synced || this.#provisional !== null) return;
    const { same, differs } = findDrift(view, this.#state.outcomes, source.name);
    for (const [key, outcome] of same) this.#noteProjected(key, outcome);
    for (const key of differs) this.#projected.delete(key);
    if (leadership.isLeader) for (const key of differs) this.#queue.add(key);
  }

  #enqueue(key: string): void {
    if (this.#options.leadership.isLeader && this.#state.outcomes.has(key)) this.#queue.add(key);
  }

  #enqueueAll(): void {
    if (!this.#options.leadership.isLeader) return;
    if (this.#view !== null) this.#findDrift(this.#view);
    this.#view = null;
    for (const key of this.#state.outcomes.keys()) this.#queue.add(key);
  }

  #enqueueCluster(registryName: string): void {
    for (const [key, outcome] of this.#state.outcomes) {
      if (outcome.kind === 'EngineCluster' && outcome.cluster.registryName === registryName) this.#queue.add(key);
    }
  }

  async #reconcile(key: string): Promise<void> {
    const { leadership, source, metrics } = this.#options;
    if (!leadership.isLeader || this.#provisional !== null || !source.state().synced) return;
    metrics.reconciles.inc();
    const outcome = this.#state.outcomes.get(key);
    if (outcome === undefined) {
      this.#ruleFailures.delete(key);
      this.#statuses.forget(key);
      this.#storedVersions.delete(key);
      this.#projected.delete(key);
      await this.#apply(key, null);
      return;
    }
    let failure: unknown = null;
    try {
      if (this.#projected.get(key) !== outcome) await this.#apply(key, outcome);
    } catch (error) {
      failure = error;
    }
    this.#offerStatus(key, outcome, failure);
    if (outcome.kind === 'EngineCluster' && outcome.cluster.override.kind === 'ended') {
      await endOverride(source, outcome.cluster.resource, this.#options.logger);
    }
    if (failure !== null) {
      metrics.reconcileErrors.inc();
      throw failure;
    }
  }

  async #apply(key: string, outcome: Outcome | null): Promise<void> {
    const { store, source, leadership, logger } = this.#options;
    const { fence } = leadership;
    // A lead without a fence is one whom the database has not confirmed: it is away, and there is nothing to write to.
    if (fence === null)
      throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database has not confirmed the lead yet');
    const [kind, namespace, name] = key.split('/') as [Kind, string, string];
    const result =
      outcome === null
        ? await unproject(store, { kind, namespace, name }, source.name, fence)
        : await project(store, outcome, source.name, fence);
    if (result === 'fenced') {
      leadership.fenced(fence);
      return;
    }
    if (outcome === null) return;
    if (result !== 'stale') {
      this.#noteProjected(key, outcome);
      return;
    }
    // Another replica may have projected the same at a later version.
    const stored = await store.resources.get({ kind, namespace, name });
    if (stored !== null && sameStored(stored, resourceOfOutcome(outcome), source.name)) {
      this.#noteProjected(key, outcome);
      return;
    }
    this.#storedVersions.delete(key);
    if (source.renewVersion({ kind, namespace, name })) return;
    logger.warn({ key }, 'the database has a newer version of the resource than its source');
  }

  #noteProjected(key: string, outcome: Outcome): void {
    const { uid, generation } = resourceOfOutcome(outcome).metadata;
    this.#projected.set(key, outcome);
    this.#storedVersions.set(key, `${uid}/${generation}`);
  }

  #offerStatus(key: string, outcome: Outcome, failure: unknown): void {
    const resource = resourceOfOutcome(outcome);
    const { uid, generation } = resource.metadata;
    const stored: Stored =
      this.#storedVersions.get(key) === `${uid}/${generation}`
        ? { stored: true, reason: '' }
        : {
            stored: false,
            reason:
              failure === null
                ? 'the database has a newer version of the resource than its source; change the resource again'
                : 'the database is not available; the change follows when it is back',
          };
    if (outcome.kind === 'RoutingRule') {
      const failure = this.#ruleFailures.get(key);
      const failing = failure?.generation === generation ? failure.message : null;
      this.#statuses.offer(resource, ruleStatus(outcome.rule, stored, failing));
    } else {
      const { registryName, routable } = outcome.cluster;
      const entry = routable === null ? null : (this.#options.table.current.clusters.get(registryName) ?? null);
      const finding = this.#forwardedHeaders.get(registryName) ?? null;
      this.#statuses.offer(resource, clusterStatus(outcome.cluster, entry, stored, finding));
    }
  }
}

/** Whether an error says that the database is away. */
function isDatabaseAway(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'EG_DATABASE_UNAVAILABLE';
}
