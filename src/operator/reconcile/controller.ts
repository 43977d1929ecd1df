import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import {
  type CredentialsFinding,
  type Findings,
  type ForwardedHeadersFinding,
  keysOfCluster,
  noteFinding,
  type ResourceOutcome,
  type StatusDraft,
} from '../../kinds/outcome.ts';
import type { KindRegistry, ProgramSettings } from '../../kinds/resourceKind.ts';
import type { Clock, Random } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import {
  type Condition,
  conditionsAt,
  type Kind,
  keyOfText,
  keyText,
  keyTextOf,
  mergeConditions,
  type Resource,
  type ResourceKey,
  type ResourceStatus,
} from '../../model/resource.ts';
import type { ReplayProgress } from '../../replay/replayJobs.ts';
import type { RolloutState } from '../../rollout/rolloutState.ts';
import { type AdmissionCounts, noCounts } from '../../routing/admissionCounts.ts';
import type { RoutingTableHolder } from '../../routing/routingTable.ts';
import type { Store } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import { annotate, FencedWrite, type ResourceSource, resourceOfStored, VersionConflict } from '../sources/source.ts';
import type { GroupApplier } from './groupApplier.ts';
import type { OperatorMetrics } from './metrics.ts';
import { ResourceWriter, type StoredState } from './resourceWriter.ts';
import { RoutingState } from './routingState.ts';
import { type DeletionGuardSettings, type DeletionHold, type OtherLosses, ServedResources } from './servedResources.ts';
import { type DatabaseView, type ExternalChangeReport, RowWatch } from './unmanagedRows.ts';
import { WorkQueue } from './workQueue.ts';

/** A refresh is followed by a pause of twice its time, at most this long, so that a large one leaves time for everything else. */
const MAX_PAUSE_MS = 250;
/** How long a call of the REST API waits for the row of its resource, in milliseconds. */
const STORED_TIMEOUT_MS = 2_000;

/** A transition of a condition that was written, for events. */
export interface Transition {
  readonly resource: Resource;
  readonly condition: Condition;
  readonly before: Condition | null;
}

/** Fields of a status that change by themselves. */
type Counts = Partial<Record<'runningQueries' | 'queuedQueries' | 'rejectedQueries', unknown>>;
/** A status that differs in nothing else is written after six times the interval of others: at most every 30 s. */
const COUNT_INTERVALS = 6;

/** Conditions of the gateway that are only there at times; all others that no draft has belong to another user. */
const TRANSIENT_TYPES =
  /^(Conflicting|DeletionsHeld|Discovered|Drift|Failing|HealthCredentials|ResolvedRefs|SharedURL|Stalled|Suspended)$/;

/** Options of a controller; call `scheduleRefresh` when the rules file changed. */
export interface ControllerOptions extends ProgramSettings {
  readonly kinds: KindRegistry;
  readonly store: Pick<Store, 'resources' | 'backends'>;
  readonly table: RoutingTableHolder;
  /** `resources.unmanagedRows`. */
  readonly unmanagedRows: 'serve' | 'ignore';
  /** `resources.massDeletion`. */
  readonly deletionGuard: DeletionGuardSettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/** Parts of the operator that a controller works with. It starts and stops source, leaderships and effects. */
export interface ControllerParts {
  readonly source: ResourceSource;
  readonly leadership: Leadership;
  /** Leadership for statuses, if it differs. */
  readonly statusLeadership?: Leadership | undefined;
  readonly metrics: OperatorMetrics;
  readonly findings: Findings;
  readonly onExternalChange: ExternalChangeReport;
  /** Writer of resource groups; default: none. */
  readonly effects?: GroupApplier;
  /** Losses of what resources are made of, which are confirmed with those of resources. */
  readonly otherLosses?: OtherLosses | undefined;
}

interface ControllerListeners {
  /** Called with each transition of a condition that was written. */
  readonly onTransition?: ((transition: Transition) => void) | undefined;
  /** Called when annotations of a resource were removed as their effect had ended. */
  readonly onEnded?: (before: Resource, after: Resource) => void;
  /** Usage of limits, for statuses; default: not counted. */
  readonly admissionCounts?: AdmissionCounts;
}

/** Times in milliseconds. */
interface ControllerTimes {
  readonly statusIntervalMs?: number;
  readonly rowPollMs?: number;
  /** Time between two transactions of the leader: 1,000. */
  readonly writeIntervalMs?: number;
  /** A source that turns out empty although the database remembers resources is believed after this time: 5,000. */
  readonly confirmEmptyMs?: number;
  /** Time that `start` waits for the source and for the database: 5,000 each. */
  readonly startTimeoutMs?: number;
}

/** What the parts of a controller share. */
export type ControllerContext = ControllerOptions & ControllerParts & ControllerListeners & ControllerTimes;

/**
 * The operator: keeps routing table, database and statuses as the resources say. It watches all that they depend on, and
 * has the table refreshed and keys reconciled when something changes. Every replica keeps its own table; the leader
 * writes the database's copy of the resources, and statuses.
 */
export class Controller {
  readonly #options: ControllerContext;
  readonly #state: RoutingState;
  readonly #queue: WorkQueue;
  readonly #rows: RowWatch;
  readonly #resources: ServedResources;
  readonly #writer: ResourceWriter;
  readonly #findings: Findings;
  readonly #refreshListeners = new Set<(changed: readonly string[]) => void>();
  #planned: NodeJS.Timeout | NodeJS.Immediate | null = null;
  /** Monotonic milliseconds before which no planned refresh begins. */
  #notBefore = 0;
  readonly #stops: (() => unknown)[] = [];
  #wasFromSource = false;
  #restored = false;
  #loaded = false;
  /** Confirmations of losses at the last poll at the database; null before the first. */
  #confirmations: number | null = null;
  #heldKinds = '';
  #isForgiving = false;

  constructor(options: ControllerContext) {
    this.#options = options;
    this.#findings = options.findings;
    this.#resources = new ServedResources(options, () => this.scheduleRefresh());
    this.#state = new RoutingState(options);
    this.#writer = new ResourceWriter(
      options,
      () => (this.#resources.fromSource ? this.#state.outcomes : null),
      (key) => this.#queue.add(key),
    );
    this.#queue = new WorkQueue((key) => this.#reconcile(key), options);
    this.#rows = new RowWatch(options, (view) => this.#sawDatabase(view));
    options.metrics.observe(options, this.#queue, this.#resources, this.#state, this.#rows);
  }

  /**
   * Loads the database's copy of the resources, serves it, then reads the source and follows it. Resolves when a
   * snapshot is loaded, from either; continues trying where one of them is unavailable.
   */
  async start(): Promise<void> {
    const { source, leadership, statusLeadership, table, services } = this.#options;
    const timeoutMs = this.#options.startTimeoutMs ?? 5_000;
    await this.#rows.start(timeoutMs);
    this.refreshNow();
    this.#stops.push(
      source.watch((key, part) => {
        // A status that another wrote, such as a leader that was paused and comes late, is put right.
        if (part === 'status') this.#enqueueKeys([keyText(key)]);
        else this.scheduleRefresh();
      }),
      source.onState(() => this.scheduleRefresh()),
      leadership.onChange(() => {
        this.#enqueueAll();
        this.#options.effects?.compare();
      }),
      statusLeadership?.onChange(() => this.#enqueueAll()) ?? (() => undefined),
      services.onChange(() => this.scheduleRefresh()),
      (this.#options.admissionCounts ?? noCounts).onChange(() => this.#enqueueLimits()),
      table.onChange((after, before) => {
        let isEligibilityChanged = after.clusters.size !== before.clusters.size;
        for (const [name, entry] of after.clusters) {
          const last = before.clusters.get(name);
          if (last === entry) continue;
          isEligibilityChanged ||= last?.routingGroup !== entry.routingGroup;
          isEligibilityChanged ||= last?.active !== entry.active || last.health.status !== entry.health.status;
          if (last?.health === entry.health) continue;
          this.#enqueueKeys(keysOfCluster(this.#state, name));
        }
        if (isEligibilityChanged) this.#enqueueLimits();
      }),
    );
    await source.start(timeoutMs);
    this.refreshNow();
    await statusLeadership?.start();
    await leadership.start();
    this.#options.effects?.start((key) => this.#enqueueKeys([keyText(key)]));
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop();
    this.#clearPlanned();
    this.#resources.stop();
    await this.#options.effects?.stop();
    await this.#writer.stop();
    await this.#queue.stop();
    await this.#rows.stop();
    await this.#options.source.stop();
    await this.#options.statusLeadership?.stop();
    await this.#options.leadership.stop();
  }

  /** Current outcomes of all resources, by `keyText`. */
  get outcomes(): ReadonlyMap<string, ResourceOutcome> {
    return this.#state.outcomes;
  }

  /** Outcomes of a kind: the same list while they are the same objects. */
  outcomesOf(kind: Kind): readonly ResourceOutcome[] {
    return this.#state.of(kind);
  }

  /**
   * True if the table holds what there is: clusters of the database's copy or of the source; or none, where both were
   * read. A database that is being migrated may have clusters of Trino Gateway. Once true it stays so.
   */
  get isLoaded(): boolean {
    if (this.#loaded) return true;
    const { source, table, unmanagedRows } = this.#options;
    const { synced } = source.state();
    const isBothRead = synced && (this.#restored || unmanagedRows === 'ignore');
    this.#loaded = isBothRead || ((synced || this.#restored) && table.current.clusters.size > 0);
    return this.#loaded;
  }

  /** True if the outcomes are those of the source's resources, rather than of the database's copy. */
  get isFromSource(): boolean {
    return this.#resources.fromSource;
  }

  /** Namespaces of the resources that have a registry name. @param plural of their kind */
  namespacesOf(plural: string, name: string): readonly string[] {
    const kind = this.#options.kinds.all.find((each) => each.plural === plural)?.kind;
    const outcomes = [...this.outcomes.values()].filter(
      ({ key, registryName }) => key.kind === kind && registryName === name,
    );
    return outcomes.map(({ key }) => key.namespace);
  }

  /** Rights of namespaces. */
  get tenancy() {
    return this.#state.tenancy;
  }

  /** The reason that a resource would not be accepted if it were declared now, as its status states it; null: none is known. */
  rejection(resource: Resource): string | null {
    const isOwn = this.isFromSource && this.#options.source.selects(resource);
    const rejection = isOwn ? this.#state.rejection(resource) : undefined;
    return rejection === undefined ? null : `${rejection.reason}: ${rejection.message}`;
  }

  /** Mistakes of the rules file and reports on all rules as last compiled; null before the first time. */
  get compiledRules() {
    return this.#state.compiled;
  }

  /** Notes what a response of a cluster showed (condition `ForwardedHeaders`). */
  reportForwardedHeaders(cluster: string, finding: ForwardedHeadersFinding): void {
    this.#enqueueKeys(noteFinding(this.#findings.forwardedHeaders, cluster, finding, this.#state));
  }

  /** Notes why credentials of health checks are not sent to a cluster (condition `HealthCredentials`); null: nothing is wrong. */
  reportHealthCredentials(cluster: string, finding: CredentialsFinding | null): void {
    this.#enqueueKeys(noteFinding(this.#findings.credentials, cluster, finding, this.#state));
  }

  /** Notes that the rule of a resource failed for a request (condition `Failing`, until the rule is changed). */
  reportRuleFailure(rule: string, message: string): void {
    this.#enqueueKeys(this.#findings.noteRuleFailure(rule, message, this.#state));
  }

  /** Notes the state of a rollout. @param key as `keyText` has it */
  reportRollout(key: string, rollout: RolloutState): void {
    this.#findings.note(key, { rollout });
    this.#enqueueKeys([key]);
  }

  /** Notes the progress of a replay. @param key as `keyText` has it */
  reportReplay(key: string, replay: ReplayProgress): void {
    this.#findings.note(key, { replay });
    this.#enqueueKeys([key]);
  }

  /** Notes that several tenants match a query (condition `Conflicting`, until the tenant is changed). */
  reportTenantConflict(tenants: readonly string[]): void {
    this.#enqueueKeys(this.#findings.noteTenantConflict(tenants, this.#state));
  }

  /** Registers a listener for refreshes of the table, with the keys of resources that changed. Must not throw. */
  onRefresh(listener: (changed: readonly string[]) => void): void {
    this.#refreshListeners.add(listener);
  }

  /** Has the table follow the source soon; many calls become one refresh. */
  scheduleRefresh(): void {
    if (this.#planned !== null) return;
    const waitMs = this.#notBefore - this.#options.clock.monotonic();
    this.#planned = waitMs > 1 ? setTimeout(() => this.refreshNow(), waitMs) : setImmediate(() => this.refreshNow());
  }

  /** Losses of most resources of a kind that are routed until they are confirmed. */
  get heldDeletions(): readonly DeletionHold[] {
    return [...this.#resources.loss, ...(this.#options.otherLosses?.losses ?? [])];
  }

  /** Takes all such losses for meant, on every replica. Rejects with EG_DATABASE_UNAVAILABLE, by which the others hear of it. */
  async confirmDeletions(): Promise<void> {
    await this.#options.store.resources.confirmDeletions();
    this.#believeLosses();
    this.refreshNow();
  }

  #believeLosses(): void {
    this.#resources.confirmDeletions();
    this.#options.otherLosses?.confirm();
  }

  /** Notes that a resource is about to be deleted by REST, which is no loss; the response takes that back. */
  expectDeletion(key: ResourceKey): () => void {
    return this.#resources.expectDeletion(key);
  }

  /** Has the table follow a deletion by REST now, also of a row that the deleted resource had adopted. */
  clusterDeleted(name: string): void {
    this.#rows.isStale = true;
    this.#state.rows = this.#state.rows.filter((row) => row.name !== name);
    this.refreshNow();
  }

  /**
   * Switches a row that no resource stands for, in database and table; false where it is missing. Rejects with
   * EG_DATABASE_UNAVAILABLE.
   */
  async switchRow(name: string, active: boolean): Promise<boolean> {
    if (!(await this.#options.store.backends.setActive(name, active))) return false;
    this.#rows.isStale = true;
    this.#state.rows = this.#state.rows.map((row) => (row.name === name ? { ...row, active } : row));
    this.refreshNow();
    return true;
  }

  /** Deletes a row that no resource stands for, in database and table. Rejects with EG_DATABASE_UNAVAILABLE. */
  async deleteRow(name: string): Promise<void> {
    await this.#options.store.backends.remove(name);
    this.clusterDeleted(name);
  }

  /**
   * Resolves when the database has a resource that was written by REST as it is, or has deleted it; `pending` after 2 s, and while
   * the database is unavailable: the leader writes it later.
   */
  whenStored(resource: Resource): Promise<'stored' | 'pending'> {
    const isGone = !this.#state.outcomes.has(keyTextOf(resource));
    return this.#writer.whenStored(resource, isGone, STORED_TIMEOUT_MS);
  }

  /**
   * The leader's work on the resource of a key (`keyText`), or on its absence: has the database and the status state what it means. Does
   * nothing before the source has been read. Rejects when it is to be tried again.
   * @returns milliseconds after which it is due again; 0: when something changes
   */
  async #reconcile(key: string): Promise<number> {
    const { leadership, effects } = this.#options;
    if (!leadership.isLeader || !this.#resources.fromSource) return 0;
    const outcome = this.#state.outcomes.get(key);
    if (outcome === undefined) {
      await this.#reconcileAbsence(key);
      await this.#writeTerminating(key);
      return 0;
    }
    const stored = await this.#writer.whenTried(key, outcome);
    // It changed meanwhile.
    if (stored === 'pending') return 1;
    const { fence } = leadership;
    const applied = fence !== null && effects?.kind === outcome.key.kind ? effects.apply(outcome, fence) : null;
    const [application] = await Promise.allSettled([applied]);
    const dueMs = await this.#writeStatus(key, outcome, this.#draft(key, outcome, stored));
    await this.#removeEnded(outcome);
    if (application.status === 'rejected') throw application.reason;
    if (stored === 'failed')
      throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database does not have the resource');
    return dueMs;
  }

  async #reconcileAbsence(key: string): Promise<void> {
    const { source, store, leadership, effects, onExternalChange } = this.#options;
    this.#writer.request([key]);
    const { fence } = leadership;
    if (fence === null) return;
    if (source.name === 'database') {
      // A call that deletes a resource deletes what is stored, too; of a cluster, another program may have deleted the row.
      const deleted = await store.resources.removeWithoutRow(keyOfText(key), fence);
      if (deleted !== null) {
        const resource = resourceOfStored(deleted);
        onExternalChange({ resource, cluster: deleted.registryName, outcome: 'adopted', fields: [] });
      }
    }
    if (effects?.kind === keyOfText(key).kind) await effects.remove(keyOfText(key), fence);
    this.#findings.forget(key);
  }

  /** Has the status of a resource that a finalizer still holds state that it is deleted. */
  async #writeTerminating(key: string): Promise<void> {
    const resource = this.#options.source.get(keyOfText(key));
    if (resource === null || resource.metadata.deletionTimestamp === undefined) return;
    const { generation } = resource.metadata;
    const message = 'the resource is deleted and has no effect; it goes when its finalizers are removed';
    const ready = conditionsAt(generation)('Ready', 'False', 'Terminating', message);
    const draft = { observedGeneration: generation, fields: {}, conditions: [ready] };
    await this.#writeStatus(key, { key: keyOfText(key), resource }, draft);
    this.#findings.forget(key);
  }

  #draft(key: string, outcome: ResourceOutcome, state: StoredState): StatusDraft {
    const { kinds, clock, admissionCounts: counts = noCounts, table } = this.#options;
    const isStored = state === 'stored';
    const reason = isStored ? '' : 'the database is not available; the change follows when it is back';
    const stored = { stored: isStored, reason };
    const { kind, namespace } = outcome.key;
    const view = { stored, table: table.current, findings: this.#findings, counts };
    const draft = kinds.of(kind).status(outcome, view);
    const conditions = [...draft.conditions];
    const drift = this.#findings.drift(key, outcome.resource.metadata.generation, clock.monotonic());
    if (drift !== null) conditions.push(drift);
    const loss = this.#resources.heldOf(kind).find((each) => each.namespace === namespace);
    if (loss !== undefined) {
      const message = `${loss.held} ${kind} resources are gone from the source at once and stay routed; confirm with POST /api/heldDeletions/confirm, or declare them again`;
      conditions.push(conditionsAt(draft.observedGeneration)('DeletionsHeld', 'True', 'MassDeletion', message));
    }
    return { ...draft, conditions };
  }

  /** Writes a status that differs from what it is, at most once in 5 s, or 30 s if only counts differ. @returns milliseconds after which it may be written; 0: nothing is left */
  async #writeStatus(
    key: string,
    outcome: Pick<ResourceOutcome, 'key' | 'resource'>,
    draft: StatusDraft,
  ): Promise<number> {
    const { source, clock, metrics, leadership, statusLeadership: leader = leadership } = this.#options;
    const { statusIntervalMs = 5_000 } = this.#options;
    const { uid } = outcome.resource.metadata;
    const resource = source.get(outcome.key);
    if (!leader.isLeader || resource === null || resource.metadata.uid !== uid) return 0;
    const status = changedStatus(resource, draft, clock.now());
    if (status === null) return 0;
    const { written: last } = this.#findings.of(key);
    const isCount = isDeepStrictEqual(withoutCounts(status), withoutCounts(resource.status));
    const intervalMs = statusIntervalMs * (isCount ? COUNT_INTERVALS : 1);
    const waitMs = last?.uid === uid ? last.at + intervalMs - clock.monotonic() : 0;
    if (waitMs > 0) return waitMs;
    const { fence } = leader;
    try {
      await source.patchStatus(outcome.key, uid, status, fence);
    } catch (error) {
      if (error instanceof FencedWrite && fence !== null) leader.noteFenced(fence);
      // Changed or deleted meanwhile: what the source brings is looked at again.
      if (error instanceof VersionConflict || error instanceof FencedWrite) return 0;
      metrics.statusWrite(false);
      throw error;
    }
    this.#findings.note(key, { written: { uid, at: clock.monotonic() } });
    metrics.statusWrite(true);
    this.#noteConditions(resource, status.conditions ?? []);
    return 0;
  }

  #noteConditions(resource: Resource, conditions: readonly Condition[]): void {
    const messages = new Set<string>();
    for (const condition of conditions) {
      // A rule that is not accepted is not programmed either.
      const isRepeated = messages.has(condition.message) || condition.reason === 'NotAccepted';
      this.#noteCondition(resource, condition, isRepeated);
      if (condition.status === 'False' || condition.type === 'Stalled') messages.add(condition.message);
    }
  }

  /** @param isRepeated true if another condition states the same mistake: one mistake is one event */
  #noteCondition(resource: Resource, condition: Condition, isRepeated: boolean): void {
    const before = resource.status?.conditions?.find(({ type }) => type === condition.type) ?? null;
    const isOfSameReason = before?.status === condition.status && before.reason === condition.reason;
    // Each drift counts by itself: its message states what was changed, and when it was noticed.
    if (isOfSameReason && (condition.type !== 'Drift' || before.message === condition.message)) return;
    const { metrics, logger, onTransition } = this.#options;
    metrics.statusTransitions.inc();
    if (isRepeated) return;
    onTransition?.({ resource, condition, before });
    const { type, status, reason, message } = condition;
    if (type === 'Accepted' && status === 'False')
      logger.warn({ resource: keyTextOf(resource), reason }, `not accepted: ${message}`);
  }

  /**
   * Takes away annotations without effect (an override, as `spec.active` changed after it): otherwise they would be effective again
   * with a later change. Where the source cannot be written that is left to its owner.
   */
  async #removeEnded(outcome: ResourceOutcome): Promise<void> {
    const { kinds, source, logger, onEnded } = this.#options;
    const { key, resource } = outcome;
    const names = kinds.of(key.kind).endedAnnotations(outcome);
    if (names.length === 0) return;
    const annotations = Object.fromEntries(names.map((name) => [name, null]));
    try {
      onEnded?.(resource, await annotate(source, key, annotations, resource.metadata.resourceVersion));
    } catch (error) {
      // The resource changed again: its next reconcile looks again.
      if (error instanceof VersionConflict) return;
      if (!(error instanceof GatewayError) || error.code === 'EG_SOURCE_UNAVAILABLE') throw error;
      logger.warn({ key, annotations: names, err: error }, 'failed to remove annotations without effect');
    }
  }

  #clearPlanned(): void {
    clearImmediate(this.#planned as NodeJS.Immediate);
    clearTimeout(this.#planned as NodeJS.Timeout);
    this.#planned = null;
  }

  /** Has the table follow the source now: a REST write is in it when this returns. */
  refreshNow(): void {
    this.#clearPlanned();
    const { clock } = this.#options;
    const begin = clock.monotonic();
    const served = (kind: Kind) => this.#state.of(kind).map(({ resource }) => resource);
    const changed = this.#state.refresh(this.#resources.lists(served));
    const end = clock.monotonic();
    this.#notBefore = end + Math.min(MAX_PAUSE_MS, 2 * (end - begin));
    this.#options.metrics.refreshes.inc();
    for (const listener of this.#refreshListeners) listener(changed);
    this.#enqueueKeys(changed);
    if (changed.length > 0) this.#writer.request(changed);
    if (this.#resources.fromSource && !this.#wasFromSource) {
      this.#wasFromSource = true;
      this.#enqueueAll();
      this.#options.effects?.compare();
    }
    if (this.#resources.isSuspicious) this.#forgiveDeletions();
    const heldKinds = this.#resources.loss.map(({ kind }) => kind).join();
    if (heldKinds === this.#heldKinds) return;
    this.#heldKinds = heldKinds;
    this.#enqueueAll();
  }

  /** Deletions by REST through another replica are no losses; the database knows of them. */
  #forgiveDeletions(): void {
    if (this.#isForgiving || (this.#resources.loss.length === 0 && !this.#resources.isSuspicious)) return;
    this.#isForgiving = true;
    const askedAt = this.#options.clock.monotonic();
    const forgive = (uids: readonly string[]): void => {
      this.#isForgiving = false;
      this.#resources.forgive(new Set(uids), askedAt);
      this.scheduleRefresh();
    };
    // Without a response it is a loss; the next poll at the database asks again.
    this.#options.store.resources.deletedByApi().then(forgive, () => forgive([]));
  }

  #sawDatabase(view: DatabaseView): void {
    if (this.#confirmations !== null && view.confirmations > this.#confirmations) this.#believeLosses();
    this.#confirmations = view.confirmations;
    this.#forgiveDeletions();
    if (view.stored !== null) {
      this.#restored = true;
      const { source } = this.#options;
      // Active state of a gateway of another class is ignored.
      const stored = view.stored.filter((row) => source.selects(resourceOfStored(row)));
      source.restore(stored);
      this.#state.restore(stored, view.rows);
      this.#resources.restore(stored);
    }
    this.#state.rows = this.#options.unmanagedRows === 'serve' ? view.unmanaged : [];
    this.#writer.noteRows(view.rows);
    this.#enqueueKeys(this.#findings.endDrifts(this.#options.clock.monotonic()));
    this.scheduleRefresh();
    if (view.hasReturned) this.#enqueueAll();
  }

  #enqueueAll(): void {
    if (!this.#options.leadership.isLeader) return;
    this.#writer.request(null);
    this.#enqueueKeys(this.#state.outcomes.keys());
  }

  #enqueueLimits(): void {
    for (const [key, outcome] of this.#state.outcomes) {
      if (this.#options.kinds.of(outcome.key.kind).hasCounts) this.#enqueueKeys([key]);
    }
  }

  #enqueueKeys(keys: Iterable<string>): void {
    if (!this.#options.leadership.isLeader) return;
    for (const key of keys) this.#queue.add(key);
  }
}

/** The status of a resource with a draft; null if it is as it was. */
function changedStatus(resource: Resource, draft: StatusDraft, now: number): ResourceStatus | null {
  const existing = resource.status?.conditions ?? [];
  const types = new Set(draft.conditions.map(({ type }) => type));
  const status: ResourceStatus = {
    ...draft.fields,
    observedGeneration: draft.observedGeneration,
    conditions: mergeConditions(
      existing.filter(({ type }) => types.has(type)),
      draft.conditions,
      // RFC 3339 without fractions, as Kubernetes writes times.
      `${new Date(now).toISOString().slice(0, 19)}Z`,
    ),
  };
  // Conditions of others belong to them: no write of ours would take them away.
  const own = existing.filter(({ type }) => types.has(type) || TRANSIENT_TYPES.test(type));
  return isDeepStrictEqual(ordered(status), ordered({ ...resource.status, conditions: own })) ? null : status;
}

function withoutCounts(status: ResourceStatus & Counts = {}): unknown {
  const { runningQueries: _running, queuedQueries: _queued, rejectedQueries: _rejected, ...others } = status;
  return ordered(others);
}

function ordered(status: ResourceStatus): unknown {
  const conditions = [...(status.conditions ?? [])].sort((x, y) => (x.type < y.type ? -1 : 1));
  return { ...status, conditions };
}
