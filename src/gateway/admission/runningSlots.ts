import type { Logger } from 'pino';
import type { AcquiredSlots } from '../../admission/slotLedger.ts';
import type { Clock } from '../../model/clock.ts';
import { isSameEngine, type RoutingTable } from '../../routing/routingTable.ts';
import type { EndedQueryRepository } from '../../store/endedQueryRepository.ts';
import type { RunningQueryRepository } from '../../store/runningQueryRepository.ts';
import type { SlotQueryRepository } from '../../store/slotQueryRepository.ts';
import type { SlotQuery } from '../../store/store.ts';

export interface RunningSlotsDependencies {
  readonly replica: string;
  readonly table: { readonly current: RoutingTable };
  readonly endedQueries: Pick<EndedQueryRepository, 'put' | 'since'>;
  readonly runningQueries: Pick<RunningQueryRepository, 'lastSeen'>;
  readonly slotQueries: Pick<SlotQueryRepository, 'put' | 'remove' | 'ofReplica'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Engines abandon a query without a poll for this time. */
export const ABANDONED_AFTER_MS = 300_000;
/**
 * The database may have the time of a client's last request with this delay: `RunningQueries` renews it each minute.
 */
export const LATE_RENEWAL_MS = 70_000;
export const SWEEP_INTERVAL_MS = 10_000;
/** Maximum number of ends kept for other replicas while the database is unavailable. */
const MAX_ENDED = 10_000;
/** Maximum number of known queries: more than engines run. */
const MAX_QUERIES = 100_000;
/**
 * Age at which a query with slots is recorded for other replicas: short ones are over by then, and cost no statement.
 */
export const NOTE_AFTER_MS = 500;
/**
 * The lease is not renewed while an older query is unrecorded: a successor only attributes queries to a dead replica
 * that began shortly before its last heartbeat.
 */
export const LATE_NOTE_MS = 3_000;
/** Like NOTE_AFTER_MS for other queries, which are only recorded so that they are not attributed to dead replicas. */
const NOTE_OTHERS_AFTER_MS = 2_000;
const MAX_NOTED = 2_000;

interface Running {
  readonly cluster: string;
  readonly slots: readonly AcquiredSlots[];
  /** Monotonic milliseconds. */
  readonly since: number;
  lastSeen: number;
  isNoted: boolean;
}

/**
 * Slots of running queries until their end: the last page or a cancellation at any replica, five minutes without a
 * poll, or the loss of their coordinator. Queries that run for some seconds are recorded in the database, so that
 * another replica continues counting them if this one dies.
 */
export class RunningSlots {
  readonly #dependencies: RunningSlotsDependencies;
  readonly #running = new Map<string, Running>();
  /** Unrecorded queries, oldest first: those with slots, and others. */
  readonly #fresh = new Set<string>();
  readonly #freshOthers = new Set<string>();
  /**
   * Ended recorded queries, with their slots until their rows are deleted: a successor of this replica counts a row or
   * the query that has the slot next, never neither.
   */
  readonly #surplus = new Map<string, readonly AcquiredSlots[]>();
  readonly #ended = new Set<string>();
  #holding = 0;
  #hasRows = false;
  #isShared = false;
  #mark: number | null = null;
  #nextSweep = 0;
  #isSuperseded: (queryId: string) => boolean = () => false;
  #onExternalEnd: () => void = () => {};
  #onGone: () => void = () => {};

  constructor(dependencies: RunningSlotsDependencies) {
    this.#dependencies = dependencies;
  }

  get size(): number {
    return this.#holding;
  }

  get isShared(): boolean {
    return this.#isShared;
  }

  /** True if other replicas need or have information. */
  get isWatching(): boolean {
    return this.#ended.size > 0 || this.#surplus.size > 0 || this.#holding > 0;
  }

  /** @param isShared true if any limit is declared, so that other replicas may have slots of queries that end here */
  share(isShared: boolean): void {
    this.#isShared = isShared;
    if (!isShared) this.#ended.clear();
  }

  /** @param isSuperseded true if the coordinator of a query was replaced by a new one */
  watchCoordinators(isSuperseded: (queryId: string) => boolean): void {
    this.#isSuperseded = isSuperseded;
  }

  /** Calls the listener when a query ends here with slots that another replica may have: call `say` then. */
  onExternalEnd(listener: () => void): void {
    this.#onExternalEnd = listener;
  }

  /** Calls the listener when a recorded query ends: its slots are free when its row is deleted. */
  onGone(listener: () => void): void {
    this.#onGone = listener;
  }

  bind(queryId: string, cluster: string, slots: readonly AcquiredSlots[]): void {
    const entry = this.#running.get(queryId);
    this.#set(queryId, cluster, entry === undefined ? slots : [...entry.slots, ...slots], entry?.isNoted ?? false);
  }

  /**
   * Records a poll of a running query.
   * @param isNew true for the response to its submission: this replica counts it
   */
  noteActivity(queryId: string, cluster: string, isNew: boolean): void {
    const running = this.#running.get(queryId);
    if (running !== undefined) running.lastSeen = this.#dependencies.clock.now();
    else if (isNew && this.#isShared) this.#set(queryId, cluster, [], false);
  }

  /** Records the end of a query from a cluster's response. */
  noteEnd(queryId: string, cluster: string): void {
    const running = this.#running.get(queryId);
    if (running === undefined) {
      if (!this.#isShared || this.#ended.size >= MAX_ENDED) return;
      this.#ended.add(queryId);
      this.#onExternalEnd();
    } else if (isSameEngine(this.#dependencies.table.current, running.cluster, cluster)) this.#end(queryId);
  }

  /** Expects unknown rows of this replica in the database: it is about to adopt queries. */
  expectRows(): void {
    this.#hasRows = true;
  }

  /**
   * Adopts queries of a dead replica.
   * @param take counts slots regardless of limits
   * @param mark position of `EndedQueryRepository` from which their ends are read; null: unchanged
   */
  takeOver(queries: readonly SlotQuery[], take: (keys: readonly string[]) => AcquiredSlots, mark: number | null): void {
    if (queries.length === 0) return;
    this.#mark ??= mark;
    for (const { queryId, cluster, keys } of queries) {
      const entry = this.#running.get(queryId);
      if (entry !== undefined) {
        entry.isNoted = true;
        this.#fresh.delete(queryId);
        this.#freshOthers.delete(queryId);
      } else if (this.#ended.has(queryId)) {
        this.#surplus.set(queryId, [take(keys)]);
        this.#onGone();
      } else this.#set(queryId, cluster, keys.length === 0 ? [] : [take(keys)], true);
    }
  }

  /** Publishes the queries that ended here. Rejects while the database is unavailable: `exchange` retries. */
  async publish(): Promise<void> {
    if (this.#ended.size === 0) return;
    const ended = [...this.#ended];
    await this.#dependencies.endedQueries.put(ended);
    for (const queryId of ended) this.#ended.delete(queryId);
  }

  /** Publishes the queries that ended here and that continue, and reads ends at other replicas. Never rejects. */
  async exchange(): Promise<void> {
    const { endedQueries, clock, logger } = this.#dependencies;
    try {
      await this.#forgetGone();
      await this.publish();
      await this.#note(NOTE_AFTER_MS, NOTE_OTHERS_AFTER_MS);
      if (this.#running.size === 0) {
        this.#mark = null;
        return;
      }
      const { queryIds, mark } = await endedQueries.since(this.#mark);
      this.#mark = mark;
      for (const queryId of queryIds) this.#end(queryId);
      if (clock.monotonic() >= this.#nextSweep) {
        this.#nextSweep = clock.monotonic() + SWEEP_INTERVAL_MS;
        await this.#sweep();
      }
      await this.#forgetGone();
    } catch (error) {
      logger.debug({ reason: error instanceof Error ? error.message : String(error) }, 'ends of queries deferred');
    }
  }

  /** Records overdue queries, before leases are renewed. Rejects while the database is unavailable. */
  async noteLate(): Promise<void> {
    // Each turn records some of them, oldest first, or rejects.
    while (this.isLate) await this.#note(NOTE_AFTER_MS, NOTE_OTHERS_AFTER_MS);
  }

  /** True if an unrecorded query is overdue. */
  get isLate(): boolean {
    const [oldest] = this.#fresh;
    if (oldest === undefined) return false;
    const since = this.#running.get(oldest)?.since ?? 0;
    return since <= this.#dependencies.clock.monotonic() - LATE_NOTE_MS;
  }

  /** Records all running queries before this replica ends. Rejects while the database is unavailable. */
  async handOver(): Promise<void> {
    await this.#forgetGone();
    while (this.#fresh.size + this.#freshOthers.size > 0) await this.#note(0, 0);
  }

  /**
   * Compares local counts with the database after it was unavailable or this replica was paused: others may have
   * adopted queries, and this one may have without knowing. Rejects while the database is unavailable.
   * @param take counts slots regardless of limits
   */
  async reconcile(take: (keys: readonly string[]) => AcquiredSlots): Promise<void> {
    const { slotQueries, replica, clock } = this.#dependencies;
    // While writes were impossible or nothing ran here, other replicas may have responded to clients without a record.
    for (const running of this.#running.values()) running.lastSeen = clock.now();
    if (!this.#hasRows) return;
    const rows = await slotQueries.ofReplica(replica);
    const own = new Set(rows.map(({ queryId }) => queryId));
    for (const [queryId, { isNoted }] of this.#running) {
      if (isNoted && !own.has(queryId)) for (const slots of this.#forget(queryId)?.slots ?? []) slots.release();
    }
    this.takeOver(
      rows.filter(({ queryId }) => !this.#surplus.has(queryId)),
      take,
      null,
    );
  }

  /** Deletes rows of ended queries. Another replica that has adopted one is notified of its end. */
  async #forgetGone(): Promise<void> {
    if (this.#surplus.size === 0) return;
    const { slotQueries, endedQueries, replica } = this.#dependencies;
    const rows = [...this.#surplus.keys()];
    if ((await slotQueries.remove(replica, rows)) < rows.length) await endedQueries.put(rows);
    for (const queryId of rows) {
      const slots = this.#surplus.get(queryId) ?? [];
      this.#surplus.delete(queryId);
      for (const one of slots) one.release();
    }
  }

  /** Records queries that have run for some time, milliseconds. */
  async #note(after: number, othersAfter: number): Promise<void> {
    const { slotQueries, clock, replica } = this.#dependencies;
    const now = clock.monotonic();
    const ids = [...this.#aged(this.#fresh, now - after), ...this.#aged(this.#freshOthers, now - othersAfter)];
    if (ids.length === 0) return;
    const queries: SlotQuery[] = [];
    for (const queryId of ids) {
      const running = this.#running.get(queryId) as Running;
      // From here on it may have a row, regardless of the statement's result.
      running.isNoted = true;
      queries.push({ queryId, cluster: running.cluster, keys: keysOf(running) });
    }
    this.#hasRows = true;
    try {
      await slotQueries.put(replica, queries);
      for (const queryId of ids) {
        this.#fresh.delete(queryId);
        this.#freshOthers.delete(queryId);
      }
    } catch (error) {
      for (const queryId of ids) {
        const running = this.#running.get(queryId);
        if (running !== undefined) running.isNoted = false;
      }
      throw error;
    }
  }

  #aged(fresh: ReadonlySet<string>, until: number): readonly string[] {
    const ids: string[] = [];
    for (const queryId of fresh) {
      if (ids.length >= MAX_NOTED || (this.#running.get(queryId)?.since ?? 0) > until) break;
      ids.push(queryId);
    }
    return ids;
  }

  /** Releases slots of queries without an observed end. */
  async #sweep(): Promise<void> {
    const { table, runningQueries, clock } = this.#dependencies;
    const since = clock.now() - ABANDONED_AFTER_MS;
    const silent: string[] = [];
    for (const [queryId, { cluster, lastSeen }] of this.#running) {
      if (this.#isSuperseded(queryId) || !table.current.clusters.has(cluster)) this.#end(queryId);
      else if (lastSeen < since) silent.push(queryId);
    }
    if (silent.length === 0) return;
    const times = await runningQueries.lastSeen(silent);
    for (const queryId of silent) if ((times.get(queryId) ?? 0) < since - LATE_RENEWAL_MS) this.#end(queryId);
  }

  #set(queryId: string, cluster: string, slots: readonly AcquiredSlots[], isNoted: boolean): void {
    const { clock } = this.#dependencies;
    const entry = this.#running.get(queryId);
    if (entry === undefined && this.#running.size >= MAX_QUERIES) {
      const [oldest] = this.#running.keys();
      if (oldest !== undefined) this.#end(oldest);
    }
    if (slots.length > 0 && (entry?.slots.length ?? 0) === 0) this.#holding += 1;
    this.#running.set(queryId, {
      cluster,
      slots,
      since: entry?.since ?? clock.monotonic(),
      lastSeen: clock.now(),
      isNoted,
    });
    if (isNoted) return;
    if (slots.length === 0) this.#freshOthers.add(queryId);
    else {
      this.#freshOthers.delete(queryId);
      this.#fresh.add(queryId);
    }
  }

  #end(queryId: string): void {
    const running = this.#forget(queryId);
    if (running === undefined) return;
    if (running.isNoted) {
      this.#surplus.set(queryId, running.slots);
      this.#onGone();
    } else for (const slots of running.slots) slots.release();
  }

  #forget(queryId: string): Running | undefined {
    const running = this.#running.get(queryId);
    if (running === undefined) return undefined;
    this.#running.delete(queryId);
    this.#fresh.delete(queryId);
    this.#freshOthers.delete(queryId);
    if (running.slots.length > 0) this.#holding -= 1;
    return running;
  }
}

/** Counters of a query's slots, without tokens, which are not released. */
function keysOf({ slots }: Running): readonly string[] {
  return slots.flatMap((one) => one.keys.filter((key) => !key.startsWith('rate:')));
}
