import type { Logger } from 'pino';
import {
  type CredentialsFinding,
  DataPlaneFindings,
  type ForwardedHeadersFinding,
  keysOfCluster,
} from '../../kinds/dataPlaneFindings.ts';
import type { ProgramSettings } from '../../kinds/kindProgram.ts';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { Clock, Random } from '../../model/clock.ts';
import { keyText, keyTextOf, type Resource, type ResourceKey } from '../../model/resource.ts';
import { type AdmissionCounts, noCounts } from '../../routing/admissionCounts.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { Store } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { ResourceSource } from '../sources/source.ts';
import { resourceOfStored } from '../sources/storedResource.ts';
import type { DeletionGuardSettings, HeldDeletions, OtherLosses } from './deletionGuard.ts';
import type { ExternalChanges } from './externalChanges.ts';
import type { GroupApplier } from './groupApplier.ts';
import type { OperatorMetrics } from './metrics.ts';
import { Reconciler, type Transition } from './reconciler.ts';
import { ResourceWriter } from './resourceWriter.ts';
import { RoutingState } from './routingState.ts';
import { ServedResources } from './servedResources.ts';
import { type DatabaseView, RowWatch } from './unmanagedRows.ts';
import { WorkQueue } from './workQueue.ts';

/** A refresh is followed by a pause of twice its time, at most this long, so that a large one leaves time for everything else. */
const MAX_PAUSE_MS = 250;
/** How long a call of the REST API waits for the row of its resource, in milliseconds. */
const STORED_TIMEOUT_MS = 2_000;

/** Options of a controller; `rulesFileChanged` states when what outcomes depend on changed. Times in milliseconds. */
export interface ControllerOptions extends ProgramSettings {
  readonly kinds: KindRegistry;
  readonly source: ResourceSource;
  readonly store: Pick<Store, 'resources' | 'backends'>;
  readonly table: RoutingTableHolder;
  readonly leadership: Leadership;
  /** Leadership for statuses, if it differs; the controller starts and stops both. */
  readonly statusLeadership?: Leadership | undefined;
  /** `resources.unmanagedRows`. */
  readonly unmanagedRows: 'serve' | 'ignore';
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: OperatorMetrics;
  readonly onTransition: (transition: Transition) => void;
  /** `resources.massDeletion`. */
  readonly deletionGuard: DeletionGuardSettings;
  readonly changes: ExternalChanges;
  /** Called when annotations of a resource were removed as their effect had ended, with the resource as it was. */
  readonly onEnded?: (before: Resource) => void;
  /** Called after each refresh of the table: resources may have changed. Must not throw. */
  readonly onRefresh?: () => void;
  /** Losses of what resources are made of, which are confirmed with those of resources. */
  readonly otherLosses?: OtherLosses | undefined;
  /** Usage of limits, for statuses; default: not counted. */
  readonly admissionCounts?: AdmissionCounts;
  /** Writer of resource groups; default: none. The controller starts and stops it. */
  readonly effects?: GroupApplier;
  readonly statusIntervalMs?: number;
  readonly rowPollMs?: number;
  /** A source that turns out empty although the database remembers resources is believed after this time: 5,000. */
  readonly confirmEmptyMs?: number;
  /** Time that `start` waits for the source and for the database: 5,000 each. */
  readonly startTimeoutMs?: number;
}

/**
 * The operator: keeps routing table, database and statuses as the resources say. It watches all that they depend on, and
 * has the table refreshed and keys reconciled when something changes. Every replica keeps its own table; the leader
 * writes the database's copy of the resources, and statuses.
 */
export class Controller {
  readonly #options: ControllerOptions;
  readonly #state: RoutingState;
  readonly #queue: WorkQueue;
  readonly #rows: RowWatch;
  readonly #resources: ServedResources;
  readonly #writer: ResourceWriter;
  readonly #findings = new DataPlaneFindings();
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

  constructor(options: ControllerOptions) {
    this.#options = options;
    const { source, leadership, clock, metrics } = options;
    this.#resources = new ServedResources(options, () => this.scheduleRefresh());
    this.#state = new RoutingState(options);
    this.#writer = new ResourceWriter(
      options,
      () => (this.#resources.fromSource ? this.#state.outcomes : null),
      (key) => this.#queue.add(key),
    );
    const reconciler = new Reconciler(options, this.#resources, this.#state, this.#writer, this.#findings);
    this.#queue = new WorkQueue((key) => reconciler.reconcile(key), metrics, clock, options.random, options.logger);
    this.#rows = new RowWatch(
      options,
      (view) => this.#sawDatabase(view),
      () => this.#enqueueAll(),
    );
    metrics.observe({
      source,
      queue: this.#queue,
      leadership,
      clock,
      resources: this.#resources,
      otherLosses: options.otherLosses ?? null,
      databaseIsAvailable: () => !this.#rows.away,
      rules: () => this.#state.compiled,
    });
  }

  /**
   * Loads the database's copy of the resources, serves it, then reads the source and follows it. Resolves when a
   * snapshot is loaded, from either; continues trying where one of them is unavailable.
   */
  async start(): Promise<void> {
    const { source, leadership, statusLeadership, table, services } = this.#options;
    const timeoutMs = this.#options.startTimeoutMs ?? 5_000;
    await this.#rows.start(timeoutMs);
    this.#refresh();
    this.#stops.push(
      source.watch((key, part) => {
        // A status that another wrote, such as a leader that was paused and comes late, is put right.
        if (part === 'status') this.#enqueueKeys([keyText(key)]);
        else this.scheduleRefresh();
      }),
      source.onState(() => this.scheduleRefresh()),
      leadership.onChange(() => {
        this.#enqueueAll();
        this.#options.effects?.look();
      }),
      statusLeadership?.onChange(() => this.#enqueueAll()) ?? (() => undefined),
      services.onChange(() => this.scheduleRefresh()),
      (this.#options.admissionCounts ?? noCounts).onChange(() => this.#enqueueLimits()),
      table.onChange((after, before) => {
        for (const [name, entry] of after.clusters) {
          if (before.clusters.get(name)?.health === entry.health) continue;
          this.#enqueueKeys(keysOfCluster(this.#state.outcomes, name));
        }
      }),
    );
    await source.start(timeoutMs);
    this.#refresh();
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

  get databaseAway(): boolean {
    return this.#rows.away;
  }

  /** Mistakes of the rules file and reports on all rules as last compiled; null before the first time. */
  get compiledRules() {
    return this.#state.compiled;
  }

  /** To be called when the rules file was read again. */
  rulesFileChanged(): void {
    this.scheduleRefresh();
  }

  /** Notes what a response of a cluster showed (condition `ForwardedHeaders`). */
  reportForwardedHeaders(cluster: string, finding: ForwardedHeadersFinding): void {
    this.#enqueueKeys(this.#findings.noteForwardedHeaders(cluster, finding, this.#state.outcomes));
  }

  /** Notes why credentials of health checks are not sent to a cluster (condition `HealthCredentials`); null: nothing is wrong. */
  reportHealthCredentials(cluster: string, finding: CredentialsFinding | null): void {
    this.#enqueueKeys(this.#findings.noteCredentials(cluster, finding, this.#state.outcomes));
  }

  /** Notes that the rule of a resource failed for a request (condition `Failing`, until the rule is changed). */
  reportRuleFailure(rule: string, message: string): void {
    this.#enqueueKeys(this.#findings.noteRuleFailure(rule, message, this.#state.outcomes));
  }

  /** Has the table follow the source soon; many calls become one refresh. */
  scheduleRefresh(): void {
    if (this.#planned !== null) return;
    const waitMs = this.#notBefore - this.#options.clock.monotonic();
    this.#planned = waitMs > 1 ? setTimeout(() => this.#refresh(), waitMs) : setImmediate(() => this.#refresh());
  }

  /** Has the table follow the source now: a REST write is in it when this returns. */
  refreshNow(): void {
    this.#refresh();
  }

  /** Losses of most resources of a kind that are routed until they are confirmed. */
  get heldDeletions(): readonly HeldDeletions[] {
    return [...this.#resources.loss, ...(this.#options.otherLosses?.losses ?? [])];
  }

  /** Takes all such losses for meant, on every replica. Rejects with EG_DATABASE_UNAVAILABLE, by which the others hear of it. */
  async confirmDeletions(): Promise<void> {
    await this.#options.store.resources.confirmDeletions();
    this.#believeLosses();
    this.#refresh();
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
    this.#rows.changed();
    this.#state.dropRow(name);
    this.#refresh();
  }

  /**
   * Switches a row that no resource stands for, in database and table; false where it is missing. Rejects with
   * EG_DATABASE_UNAVAILABLE.
   */
  async switchRow(name: string, active: boolean): Promise<boolean> {
    if (!(await this.#options.store.backends.setActive(name, active))) return false;
    this.#rows.changed();
    this.#state.switchRow(name, active);
    this.#refresh();
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

  #clearPlanned(): void {
    clearImmediate(this.#planned as NodeJS.Immediate);
    clearTimeout(this.#planned as NodeJS.Timeout);
    this.#planned = null;
  }

  #refresh(): void {
    this.#clearPlanned();
    const { clock } = this.#options;
    const begin = clock.monotonic();
    const changed = this.#state.refresh(this.#resources.lists());
    const end = clock.monotonic();
    this.#notBefore = end + Math.min(MAX_PAUSE_MS, 2 * (end - begin));
    this.#options.metrics.refreshes.inc();
    this.#options.onRefresh?.();
    this.#enqueueKeys(changed);
    if (changed.length > 0) this.#writer.request();
    if (this.#resources.fromSource && !this.#wasFromSource) {
      this.#wasFromSource = true;
      this.#enqueueAll();
      this.#options.effects?.look();
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
    this.#state.setRows(this.#options.unmanagedRows === 'serve' ? view.unmanaged : []);
    this.#writer.noteRows(view.rows);
    this.#enqueueKeys(this.#options.changes.over);
    this.scheduleRefresh();
  }

  #enqueueAll(): void {
    if (!this.#options.leadership.isLeader) return;
    this.#writer.request();
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
