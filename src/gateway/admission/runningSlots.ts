import type { Logger } from 'pino';
import type { TakenSlots } from '../../admission/slotLedger.ts';
import type { Clock } from '../../model/clock.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { EndedQueryRepository, RunningQueryRepository } from '../../store/store.ts';

/** What slots of running queries are watched with. */
export interface RunningSlotsDependencies {
  readonly table: { readonly current: RoutingTable };
  readonly endedQueries: Pick<EndedQueryRepository, 'put' | 'since'>;
  readonly runningQueries: Pick<RunningQueryRepository, 'lastSeen'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Engines give up a query that nobody asked about for so long. */
const ABANDONED_AFTER_MS = 300_000;
/** Time between two looks at queries that may be lost. */
const SWEEP_INTERVAL_MS = 10_000;
/** Ends that are kept for other replicas while the database is unavailable. */
const MAX_ENDED = 10_000;
/** Queries that hold slots: more than engines run. */
const MAX_QUERIES = 100_000;

interface Running {
  readonly cluster: string;
  readonly taken: readonly TakenSlots[];
  lastSeen: number;
}

/**
 * Slots of queries that clusters run, until the queries end: with their last page or their cancellation, on whatever replica, when
 * nobody asks about them for five minutes, or with their coordinator.
 */
export class RunningSlots {
  readonly #dependencies: RunningSlotsDependencies;
  readonly #running = new Map<string, Running>();
  /** Ends of queries whose slots another replica may hold. */
  readonly #ended = new Set<string>();
  #isShared = false;
  #mark: number | null = null;
  #nextSweep = 0;
  #isSuperseded: (queryId: string) => boolean = () => false;
  #onForeignEnd: () => void = () => {};

  constructor(dependencies: RunningSlotsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Queries that hold slots here. */
  get size(): number {
    return this.#running.size;
  }

  /** Whether anything is to be said to other replicas, or to be heard from them. */
  get isWatching(): boolean {
    return this.#ended.size > 0 || this.#running.size > 0;
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

  /** Holds slots until the query ends. */
  bind(queryId: string, cluster: string, taken: readonly TakenSlots[]): void {
    const entry = this.#running.get(queryId);
    if (entry === undefined && this.#running.size >= MAX_QUERIES) {
      const [oldest] = this.#running.keys();
      if (oldest !== undefined) this.#end(oldest);
    }
    const all = entry === undefined ? taken : [...entry.taken, ...taken];
    this.#running.set(queryId, { cluster, taken: all, lastSeen: this.#dependencies.clock.now() });
  }

  /** A client asked about a query, which goes on. */
  noteActivity(queryId: string): void {
    const running = this.#running.get(queryId);
    if (running !== undefined) running.lastSeen = this.#dependencies.clock.now();
  }

  /** A query is over, as the answer of a cluster says. */
  noteEnd(queryId: string, cluster: string): void {
    const running = this.#running.get(queryId);
    if (running === undefined) {
      if (!this.#isShared || this.#ended.size >= MAX_ENDED) return;
      this.#ended.add(queryId);
      this.#onForeignEnd();
    } else if (running.cluster === cluster) this.#end(queryId);
  }

  /** Says which queries ended here. Rejects while the database is unavailable: `exchange` says it again. */
  async say(): Promise<void> {
    if (this.#ended.size === 0) return;
    const ended = [...this.#ended];
    await this.#dependencies.endedQueries.put(ended);
    for (const queryId of ended) this.#ended.delete(queryId);
  }

  /** Says which queries ended here, and hears which ended elsewhere. Never rejects. */
  async exchange(): Promise<void> {
    const { endedQueries, clock, logger } = this.#dependencies;
    try {
      await this.say();
      if (this.#running.size === 0) {
        this.#mark = null;
        return;
      }
      const { queryIds, mark } = await endedQueries.since(this.#mark);
      this.#mark = mark;
      for (const queryId of queryIds) this.#end(queryId);
      if (clock.monotonic() < this.#nextSweep) return;
      this.#nextSweep = clock.monotonic() + SWEEP_INTERVAL_MS;
      await this.#sweep();
    } catch (error) {
      logger.debug({ reason: error instanceof Error ? error.message : String(error) }, 'ends of queries wait');
    }
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
    for (const queryId of silent) if ((times.get(queryId) ?? 0) < since) this.#end(queryId);
  }

  #end(queryId: string): void {
    const running = this.#running.get(queryId);
    if (running === undefined) return;
    this.#running.delete(queryId);
    for (const taken of running.taken) taken.release();
  }
}
