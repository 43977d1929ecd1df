import type { Logger } from 'pino';
import type { TakenSlots } from '../../admission/slotLedger.ts';
import type { Clock } from '../../model/clock.ts';
import { isSameEngine, type RoutingTable } from '../../routing/routingTable.ts';
import type {
  EndedQueryRepository,
  RunningQueryRepository,
  SlotQuery,
  SlotQueryRepository,
} from '../../store/store.ts';

/** What slots of running queries are watched with. */
export interface RunningSlotsDependencies {
  /** Name of this replica. */
  readonly replica: string;
  readonly table: { readonly current: RoutingTable };
  readonly endedQueries: Pick<EndedQueryRepository, 'put' | 'since'>;
  readonly runningQueries: Pick<RunningQueryRepository, 'lastSeen'>;
  readonly slotQueries: Pick<SlotQueryRepository, 'put' | 'remove' | 'ofReplica'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Engines give up a query that nobody asked about for so long. */
export const ABANDONED_AFTER_MS = 300_000;
/** The database may have the time of a client's last request so much late: `RunningQueries` renews it each minute. */
export const LATE_RENEWAL_MS = 70_000;
/** Time between two looks at queries that may be lost. */
export const SWEEP_INTERVAL_MS = 10_000;
/** Ends that are kept for other replicas while the database is unavailable. */
const MAX_ENDED = 10_000;
/** Queries that are known at a time: more than engines run. */
const MAX_QUERIES = 100_000;
/** Age at which a query that uses slots is noted for other replicas: short ones are over by then, and cost no statement. */
export const NOTE_AFTER_MS = 500;
/**
 * A lease is not renewed while a query is not noted that is older than this: an heir takes only queries for those of a dead replica
 * that began shortly before its last beat.
 */
export const LATE_NOTE_MS = 3_000;
/** The same for others, which are noted only so that they are not taken for queries of dead replicas. */
const NOTE_OTHERS_AFTER_MS = 2_000;
/** Queries that are noted at a time. */
const MAX_NOTED = 2_000;

interface Running {
  readonly cluster: string;
  readonly taken: readonly TakenSlots[];
  /** Monotonic milliseconds. */
  readonly since: number;
  lastSeen: number;
  /** The database has a row of it, or may have. */
  isNoted: boolean;
}

/**
 * Slots of queries that clusters run, until the queries end: with their last page or their cancellation, on whatever replica, when
 * nobody asks about them for five minutes, or with their coordinator. Those that run for some seconds are noted in the
 * database, so that another replica goes on counting them when this one is dead.
 */
export class RunningSlots {
  readonly #dependencies: RunningSlotsDependencies;
  readonly #running = new Map<string, Running>();
  /** Queries that are not noted, oldest first: those with slots, and others. */
  readonly #fresh = new Set<string>();
  readonly #freshOthers = new Set<string>();
  /**
   * Queries that are over and noted, with what they hold until their rows are deleted: an heir of this replica counts a row or
   * the query that has the slot next, never neither.
   */
  readonly #surplus = new Map<string, readonly TakenSlots[]>();
  /** Ends of queries whose slots another replica may hold. */
  readonly #ended = new Set<string>();
  /** How many queries hold slots. */
  #holding = 0;
  /** Whether the database may have rows of this replica. */
  #hasRows = false;
  #isShared = false;
  #mark: number | null = null;
  #nextSweep = 0;
  #isSuperseded: (queryId: string) => boolean = () => false;
  #onForeignEnd: () => void = () => {};
  #onGone: () => void = () => {};

  constructor(dependencies: RunningSlotsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Queries that hold slots here. */
  get size(): number {
    return this.#holding;
  }

  /** Whether any limit is declared here. */
  get isShared(): boolean {
    return this.#isShared;
  }

  /** Whether anything is to be said to other replicas, or to be heard from them. */
  get isWatching(): boolean {
    return this.#ended.size > 0 || this.#surplus.size > 0 || this.#holding > 0;
  }

  /** @param isShared whether any limit is declared, so that other replicas may hold slots of queries that end here */
  share(isShared: boolean): void {
    this.#isShared = isShared;
    if (!isShared) this.#ended.clear();
  }

  /** @param isSuperseded whether the coordinator of a query was replaced by a new one */
  watchCoordinators(isSuperseded: (queryId: string) => boolean): void {
    this.#isSuperseded = isSuperseded;
  }

  /** Calls the listener when a query ends here whose slots another replica may hold: `say` is to be called. */
  onForeignEnd(listener: () => void): void {
    this.#onForeignEnd = listener;
  }

  /** Calls the listener when a query is over that is noted: the sooner its row goes, the sooner its slots are free. */
  onGone(listener: () => void): void {
    this.#onGone = listener;
  }

  /** Holds slots until the query ends. */
  bind(queryId: string, cluster: string, taken: readonly TakenSlots[]): void {
    const entry = this.#running.get(queryId);
    this.#set(queryId, cluster, entry === undefined ? taken : [...entry.taken, ...taken], entry?.isNoted ?? false);
  }

  /**
   * A client asked about a query, which goes on.
   * @param isNew whether this is the answer to its submission: it runs on this replica's account
   */
  noteActivity(queryId: string, cluster: string, isNew: boolean): void {
    const running = this.#running.get(queryId);
    if (running !== undefined) running.lastSeen = this.#dependencies.clock.now();
    else if (isNew && this.#isShared) this.#set(queryId, cluster, [], false);
  }

  /** A query is over, as the answer of a cluster says. */
  noteEnd(queryId: string, cluster: string): void {
    const running = this.#running.get(queryId);
    if (running === undefined) {
      if (!this.#isShared || this.#ended.size >= MAX_ENDED) return;
      this.#ended.add(queryId);
      this.#onForeignEnd();
    } else if (isSameEngine(this.#dependencies.table.current, running.cluster, cluster)) this.#end(queryId);
  }

  /** The database may have rows of this replica from now on that it does not know: it is about to take queries over. */
  expectRows(): void {
    this.#hasRows = true;
  }

  /**
   * Counts queries of a replica that is dead.
   * @param take counts slots that are used in any case
   * @param mark of `EndedQueryRepository`, from which on their ends are to be heard; null: as before
   */
  inherit(queries: readonly SlotQuery[], take: (keys: readonly string[]) => TakenSlots, mark: number | null): void {
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

  /** Says which queries ended here. Rejects while the database is unavailable: `exchange` says it again. */
  async say(): Promise<void> {
    if (this.#ended.size === 0) return;
    const ended = [...this.#ended];
    await this.#dependencies.endedQueries.put(ended);
    for (const queryId of ended) this.#ended.delete(queryId);
  }

  /** Says which queries ended here and which go on, and hears which ended elsewhere. Never rejects. */
  async exchange(): Promise<void> {
    const { endedQueries, clock, logger } = this.#dependencies;
    try {
      await this.#forgetGone();
      await this.say();
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
      logger.debug({ reason: error instanceof Error ? error.message : String(error) }, 'ends of queries wait');
    }
  }

  /** Notes queries that should have been noted by now; before leases are renewed. Rejects while the database is unavailable. */
  async noteLate(): Promise<void> {
    // Each turn notes some of them, the oldest first, or rejects.
    while (this.isLate) await this.#note(NOTE_AFTER_MS, NOTE_OTHERS_AFTER_MS);
  }

  /** Whether a query should have been noted by now. */
  get isLate(): boolean {
    const [oldest] = this.#fresh;
    if (oldest === undefined) return false;
    const since = this.#running.get(oldest)?.since ?? 0;
    return since <= this.#dependencies.clock.monotonic() - LATE_NOTE_MS;
  }

  /** Notes all that runs, before this replica ends. Rejects while the database is unavailable. */
  async handOver(): Promise<void> {
    await this.#forgetGone();
    while (this.#fresh.size + this.#freshOthers.size > 0) await this.#note(0, 0);
  }

  /**
   * Compares what is counted here with the database, after that was unavailable, or this replica was paused: others may
   * have taken queries over, and this one may have without knowing. Rejects while the database is unavailable.
   * @param take counts slots that are used in any case
   */
  async reconcile(take: (keys: readonly string[]) => TakenSlots): Promise<void> {
    const { slotQueries, replica, clock } = this.#dependencies;
    // While nothing could be written, or nothing ran here, other replicas may have answered clients without a trace of it.
    for (const running of this.#running.values()) running.lastSeen = clock.now();
    if (!this.#hasRows) return;
    const rows = await slotQueries.ofReplica(replica);
    const own = new Set(rows.map(({ queryId }) => queryId));
    for (const [queryId, { isNoted }] of this.#running) {
      if (isNoted && !own.has(queryId)) for (const taken of this.#forget(queryId)?.taken ?? []) taken.release();
    }
    this.inherit(
      rows.filter(({ queryId }) => !this.#surplus.has(queryId)),
      take,
      null,
    );
  }

  /** Deletes rows of queries that are over. Another replica that has taken one over hears of its end. */
  async #forgetGone(): Promise<void> {
    if (this.#surplus.size === 0) return;
    const { slotQueries, endedQueries, replica } = this.#dependencies;
    const rows = [...this.#surplus.keys()];
    if ((await slotQueries.remove(replica, rows)) < rows.length) await endedQueries.put(rows);
    for (const queryId of rows) {
      const taken = this.#surplus.get(queryId) ?? [];
      this.#surplus.delete(queryId);
      for (const one of taken) one.release();
    }
  }

  /** Notes queries that have run for some time, milliseconds. */
  async #note(after: number, othersAfter: number): Promise<void> {
    const { slotQueries, clock, replica } = this.#dependencies;
    const now = clock.monotonic();
    const ids = [...this.#aged(this.#fresh, now - after), ...this.#aged(this.#freshOthers, now - othersAfter)];
    if (ids.length === 0) return;
    const queries: SlotQuery[] = [];
    for (const queryId of ids) {
      const running = this.#running.get(queryId) as Running;
      // From here on it may have a row, whatever becomes of the statement.
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

  /** Gives back what queries hold that no answer will say the end of. */
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

  #set(queryId: string, cluster: string, taken: readonly TakenSlots[], isNoted: boolean): void {
    const { clock } = this.#dependencies;
    const entry = this.#running.get(queryId);
    if (entry === undefined && this.#running.size >= MAX_QUERIES) {
      const [oldest] = this.#running.keys();
      if (oldest !== undefined) this.#end(oldest);
    }
    if (taken.length > 0 && (entry?.taken.length ?? 0) === 0) this.#holding += 1;
    this.#running.set(queryId, {
      cluster,
      taken,
      since: entry?.since ?? clock.monotonic(),
      lastSeen: clock.now(),
      isNoted,
    });
    if (isNoted) return;
    if (taken.length === 0) this.#freshOthers.add(queryId);
    else {
      this.#freshOthers.delete(queryId);
      this.#fresh.add(queryId);
    }
  }

  #end(queryId: string): void {
    const running = this.#forget(queryId);
    if (running === undefined) return;
    if (running.isNoted) {
      this.#surplus.set(queryId, running.taken);
      this.#onGone();
    } else for (const taken of running.taken) taken.release();
  }

  #forget(queryId: string): Running | undefined {
    const running = this.#running.get(queryId);
    if (running === undefined) return undefined;
    this.#running.delete(queryId);
    this.#fresh.delete(queryId);
    this.#freshOthers.delete(queryId);
    if (running.taken.length > 0) this.#holding -= 1;
    return running;
  }
}

/** Counters of a query's slots; not those of tokens, which are not given back. */
function keysOf({ taken }: Running): readonly string[] {
  return taken.flatMap((one) => one.keys.filter((key) => !key.startsWith('rate:')));
}
