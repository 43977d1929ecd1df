import type { Logger } from 'pino';
import { LEASE_MS, type LeasedSlots } from '../../admission/leasedSlots.ts';
import type { SlotDemand, TakenSlots } from '../../admission/slotLedger.ts';
import { takeOver } from '../../admission/takeover.ts';
import type { Clock } from '../../model/clock.ts';
import type { SlotQueryRepository } from '../../store/store.ts';
import { clusterKey } from './limitDemands.ts';
import type { RunningSlots } from './runningSlots.ts';

/** What dead replicas are looked for with. */
export interface DeadReplicasDependencies {
  readonly replica: string;
  readonly repository: Pick<SlotQueryRepository, 'dead' | 'takeOver'>;
  readonly running: Pick<RunningSlots, 'expectRows' | 'inherit' | 'isShared'>;
  readonly ledger: Pick<LeasedSlots, 'inherit'>;
  /** The present demand of a counter; null where no limit has it. */
  readonly demandOf: (key: string) => SlotDemand | null;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

/** Time between two looks. */
export const LOOK_MS = 5_000;
/** So long after its lease a replica is taken over: the others have written down by then which queries clients follow. */
export const GRACE_MS = 5_000;
/** So long this replica must have had the database: clients have asked it for their queries, and it has written that down. */
export const CONTACT_MS = 12_000;
/** Longer without an answer of the database: it was paused, and served no client. */
export const PAUSE_MS = 8_000;

/**
 * Takes over what dead replicas counted (docs/architecture.md#slots): their queries go on, and use slots until they end. One
 * replica alone gets them.
 */
export class DeadReplicas {
  readonly #dependencies: DeadReplicasDependencies;
  #next = 0;
  #contactSince: number | null = null;
  /** Monotonic time; null: none yet. */
  #lastContact: number | null = null;

  constructor(dependencies: DeadReplicasDependencies) {
    this.#dependencies = dependencies;
  }

  /** Time to the next look, milliseconds; infinite while there are no limits. */
  get dueIn(): number {
    const { running, clock } = this.#dependencies;
    return running.isShared ? Math.max(0, this.#next - clock.monotonic()) : Number.POSITIVE_INFINITY;
  }

  /** Whether this replica was paused: others may have taken its queries over. */
  get wasPaused(): boolean {
    return this.#lastContact !== null && this.#dependencies.clock.monotonic() - this.#lastContact > PAUSE_MS;
  }

  /** The database failed. */
  noteFailure(): void {
    this.#contactSince = null;
  }

  /** Counts slots of queries that run in any case, by the keys of their counters. */
  readonly take = (keys: readonly string[]): TakenSlots => {
    const { ledger, demandOf } = this.#dependencies;
    // A limit that is gone, or that this replica has yet to learn of, lets nobody in by this counter until it is known.
    return ledger.inherit(keys.map((key) => demandOf(key) ?? { key, limit: 0 }));
  };

  /** Takes over what dead replicas left. Not while a beat is under way. Rejects while the database is unavailable. */
  async look(): Promise<void> {
    const { replica, repository, running, clock, logger } = this.#dependencies;
    this.#next = clock.monotonic() + LOOK_MS;
    const dead = await repository.dead(replica, GRACE_MS);
    if (!this.#hasContact()) return;
    for (const one of dead) {
      running.expectRows();
      const estate = await repository.takeOver({
        dead: one,
        heir: replica,
        graceMs: GRACE_MS,
        leaseMs: LEASE_MS,
        decide: (left) => takeOver(left, isOf),
      });
      if (estate === null || estate.queries.length === 0) continue;
      running.inherit(estate.queries, this.take, estate.mark);
      logger.info({ from: one, queries: estate.queries.length }, 'queries of a dead replica are counted here now');
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
  return !key.startsWith('cluster:') || key === clusterKey(cluster);
}
