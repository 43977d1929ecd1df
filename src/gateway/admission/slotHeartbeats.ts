import type { Logger } from 'pino';
import { type LeasedSlots, SHORT_HEARTBEAT_MS } from '../../admission/leasedSlots.ts';
import type { Clock } from '../../model/clock.ts';
import type { SlotQueryRepository } from '../../store/slotQueryRepository.ts';
import type { SlotRepository } from '../../store/slotRepository.ts';
import { type DeadReplicas, GRACE_MS } from './deadReplicas.ts';
import type { RunningSlots } from './runningSlots.ts';

export interface SlotHeartbeatsDependencies {
  readonly replica: string;
  readonly ledger: LeasedSlots;
  readonly running: Pick<
    RunningSlots,
    | 'isWatching'
    | 'exchange'
    | 'noteLate'
    | 'isLate'
    | 'publish'
    | 'handOver'
    | 'reconcile'
    | 'onGone'
    | 'onExternalEnd'
  >;
  readonly deadReplicas: DeadReplicas;
  readonly repository: Pick<SlotRepository, 'exchange' | 'waitingElsewhere'>;
  readonly slotQueries: Pick<SlotQueryRepository, 'leave'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

/** Delay until the end of a query with slots of another replica is published, to batch several. */
const SAY_MS = 30;
/**
 * Polling interval for ends at other replicas, while slots are scarce here. Together with `SAY_MS` it is the idle time
 * of a slot whose query ends at another replica: for queries of 100 ms it determines the throughput.
 */
const HEAR_MS = 50;
/** Polling interval for waiters at other replicas, while this replica has all free slots of a counter. */
const LAST_SLOTS_MS = 100;
/** Delay until the row of an ended query is deleted, which frees its slots: batches several. */
const GONE_MS = 20;
/** Retry delay after the database failed. */
const FAILED_MS = 500;

/** Runs the heartbeats of the ledger against the database, sequentially (docs/architecture.md#slots). */
export class SlotHeartbeats {
  readonly #dependencies: SlotHeartbeatsDependencies;
  #timer: NodeJS.Timeout | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  #beating: Promise<void> | null = null;
  #nextQuestion = 0;
  /** Time of the next publication of ends, or null. */
  #publishAt: number | null = null;
  #isStopped = false;
  #isFailing = false;
  /** True if another replica may count queries of this one, or this one may have to count more than it knows. */
  #isUncertain = false;

  constructor(dependencies: SlotHeartbeatsDependencies) {
    this.#dependencies = dependencies;
    dependencies.ledger.onDue(() => this.wake());
    dependencies.running.onExternalEnd(() => {
      if (this.#publishAt !== null) return;
      this.#publishAt = dependencies.clock.monotonic() + SAY_MS;
      this.wake();
    });
    dependencies.running.onGone(() => {
      this.#nextQuestion = Math.min(this.#nextQuestion, dependencies.clock.monotonic() + GONE_MS);
      this.wake();
    });
  }

  /** True if the last heartbeat failed: no replica can acquire more slots. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Schedules the next heartbeat after a change. */
  wake(): void {
    if (this.#isStopped || this.#beating !== null) return;
    const { ledger, running, deadReplicas } = this.#dependencies;
    const mayHear = ledger.holdsUnused || running.isWatching;
    const soonest = Math.min(
      ledger.dueIn ?? Number.POSITIVE_INFINITY,
      deadReplicas.dueIn,
      mayHear ? this.#questionIn() : Number.POSITIVE_INFINITY,
      this.#publishAt === null ? Number.POSITIVE_INFINITY : this.#in(this.#publishAt),
    );
    if (soonest === Number.POSITIVE_INFINITY) return;
    const delay = this.#isFailing ? Math.max(FAILED_MS, soonest) : soonest;
    const at = this.#dependencies.clock.monotonic() + delay;
    if (this.#timer !== null) {
      if (this.#timerAt <= at) return;
      clearTimeout(this.#timer);
    }
    this.#timerAt = at;
    this.#timer = setTimeout(() => this.#run(), delay).unref();
  }

  /** Releases unused slots in a last heartbeat, and lets another replica count the continuing queries. */
  async stop(): Promise<void> {
    const { replica, ledger, running, slotQueries, logger } = this.#dependencies;
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#beating;
    ledger.retire();
    if (this.#isFailing) return;
    await this.#beat();
    try {
      await running.handOver();
      await slotQueries.leave(replica, GRACE_MS);
    } catch (error) {
      logger.warn({ err: error }, 'failed to hand over queries; other replicas adopt them when the lease expires');
    }
  }

  #questionIn(): number {
    return this.#in(this.#nextQuestion);
  }

  #in(at: number): number {
    return Math.max(0, at - this.#dependencies.clock.monotonic());
  }

  #run(): void {
    this.#timer = null;
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#beating = this.#beat().finally(() => {
      this.#beating = null;
      this.wake();
    });
  }

  async #beat(): Promise<void> {
    const { replica, ledger, running, deadReplicas, repository, logger } = this.#dependencies;
    try {
      if (this.#isUncertain || deadReplicas.wasPaused) await running.reconcile(deadReplicas.take);
      this.#isUncertain = false;
      if (this.#publishAt !== null && this.#in(this.#publishAt) === 0) {
        this.#publishAt = null;
        await running.publish();
      }
      if (this.#questionIn() === 0) {
        const pause = ledger.isScarce ? HEAR_MS : ledger.holdsAllUnused ? LAST_SLOTS_MS : SHORT_HEARTBEAT_MS;
        this.#nextQuestion = this.#dependencies.clock.monotonic() + pause;
        if (running.isWatching) await running.exchange();
        if (ledger.holdsUnused) ledger.noteWaitingElsewhere(await repository.waitingElsewhere(replica));
      }
      if (deadReplicas.dueIn === 0) {
        // Not covered by heartbeats: queries without slots, and ends that other replicas wait for.
        if (!running.isWatching) await running.exchange();
        await deadReplicas.poll();
      }
      await running.noteLate();
      for (let heartbeat = ledger.begin(); heartbeat !== null; heartbeat = ledger.begin()) {
        const { keys, decide, commit, fail } = heartbeat;
        try {
          await repository.exchange(replica, keys, (...rows) => {
            // The process was paused since they were recorded: the lease must not be renewed before they are.
            if (running.isLate) throw new Error('queries that use slots are to be noted first');
            return decide(...rows);
          });
        } catch (error) {
          fail();
          throw error;
        }
        commit();
        if (ledger.takeLostRow()) this.#isUncertain = true;
      }
      if (this.#isFailing) logger.info('slots shared with other replicas again');
      this.#isFailing = false;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!this.#isFailing) logger.warn({ reason }, 'slots not shared with other replicas');
      this.#isFailing = true;
      this.#isUncertain = true;
      deadReplicas.noteFailure();
    }
  }
}
