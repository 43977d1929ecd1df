import type { Logger } from 'pino';
import { LEASE_MS, type LeasedSlots } from '../../admission/leasedSlots.ts';
import type { AcquiredSlots, SlotDemand } from '../../admission/slotLedger.ts';
import { adoptSlots } from '../../admission/takeover.ts';
import type { Clock } from '../../model/clock.ts';
import type { SlotQueryRepository } from '../../store/slotQueryRepository.ts';
import { clusterCounter } from './limitDemands.ts';
import type { RunningSlots } from './runningSlots.ts';

export interface DeadReplicasDependencies {
  readonly replica: string;
  readonly repository: Pick<SlotQueryRepository, 'dead' | 'takeOver'>;
  readonly running: Pick<RunningSlots, 'expectRows' | 'takeOver' | 'isShared'>;
  readonly ledger: Pick<LeasedSlots, 'takeOver'>;
  /** The current demand of a counter; null if no limit has it. */
  readonly demandOf: (key: string) => SlotDemand | null;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

export const DEAD_POLL_MS = 5_000;
/**
 * Time after the end of its lease until a replica's queries are adopted: by then the others have recorded the queries
 * that clients follow.
 */
export const GRACE_MS = 5_000;
/**
 * Minimum time of database access of this replica before a takeover: clients have polled their queries, and it has
 * recorded them.
 */
export const CONTACT_MS = 12_000;
/** After a longer time without a response of the database, this replica counts as paused: it served no client. */
export const PAUSE_MS = 8_000;

/**
 * Adopts the counts of dead replicas (docs/architecture.md#slots): their queries continue, and use slots until they
 * end. Only one replica adopts them.
 */
export class DeadReplicas {
  readonly #dependencies: DeadReplicasDependencies;
  #next = 0;
  #contactSince: number | null = null;
  /** Monotonic time, or null. */
  #lastContact: number | null = null;

  constructor(dependencies: DeadReplicasDependencies) {
    this.#dependencies = dependencies;
  }

  /** Milliseconds to the next sweep; infinite without limits. */
  get dueIn(): number {
    const { running, clock } = this.#dependencies;
    return running.isShared ? Math.max(0, this.#next - clock.monotonic()) : Number.POSITIVE_INFINITY;
  }

  /** True if this replica was paused: others may have adopted its queries. */
  get wasPaused(): boolean {
    return this.#lastContact !== null && this.#dependencies.clock.monotonic() - this.#lastContact > PAUSE_MS;
  }

  noteFailure(): void {
    this.#contactSince = null;
  }

  /** Counts slots of queries that run in any case, by the keys of their counters. */
  readonly take = (keys: readonly string[]): AcquiredSlots => {
    const { ledger, demandOf } = this.#dependencies;
    // A counter of a deleted or unknown limit admits no query until the limit is known.
    return ledger.takeOver(keys.map((key) => demandOf(key) ?? { key, limit: 0 }));
  };

  /** Adopts the queries of dead replicas. Not during a heartbeat. Rejects while the database is unavailable. */
  async poll(): Promise<void> {
    const { replica, repository, running, clock, logger } = this.#dependencies;
    this.#next = clock.monotonic() + DEAD_POLL_MS;
    const dead = await repository.dead(replica, GRACE_MS);
    if (!this.#hasContact()) return;
    for (const one of dead) {
      running.expectRows();
      const estate = await repository.takeOver({
        dead: one,
        successor: replica,
        graceMs: GRACE_MS,
        leaseMs: LEASE_MS,
        decide: (left) => adoptSlots(left, isOf),
      });
      if (estate === null || estate.queries.length === 0) continue;
      running.takeOver(estate.queries, this.take, estate.mark);
      logger.info({ from: one, queries: estate.queries.length }, 'adopted queries of expired replica');
    }
  }

  #hasContact(): boolean {
    const now = this.#dependencies.clock.monotonic();
    if (this.#contactSince === null || this.wasPaused) this.#contactSince = now;
    this.#lastContact = now;
    return now - this.#contactSince >= CONTACT_MS;
  }
}

/** Groups and limits may count queries of any cluster. */
function isOf(cluster: string, key: string): boolean {
  return !key.startsWith('cluster:') || key === clusterCounter(cluster);
}
