import type { Logger } from 'pino';
import { Counter, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import type { OwnershipConflict } from './queryOwner.ts';

/** Milliseconds between two warnings about the same clusters. */
const WARN_AGAIN_AFTER = 60_000;
/** Pairs of clusters that have a series and a warning of their own. */
const MAX_PAIRS = 1_000;

/** Reports clusters that response with query ids of others: a metric, and a warning a minute for each pair. */
export class OwnershipReport {
  readonly #conflicts: Counter<'cluster' | 'owner'>;
  readonly #logger: Logger;
  readonly #clock: Clock;
  /** When each pair was last warned of, monotonic milliseconds. */
  readonly #warned = new Map<string, number>();

  constructor(registry: Registry, logger: Logger, clock: Clock) {
    this.#conflicts = new Counter({
      name: 'engine_gateway_ownership_conflicts_total',
      help: 'Answers of a cluster with a query id that another cluster owns; owner is empty where it claimed too many suffixes.',
      labelNames: ['cluster', 'owner'],
      registers: [registry],
    });
    this.#logger = logger;
    this.#clock = clock;
  }

  /**
   * Notes a conflict.
   * @param cluster registry name of the cluster that responded
   */
  conflict(cluster: string, queryId: string, conflict: OwnershipConflict): void {
    const owner = conflict.kind === 'owned' ? conflict.owner.cluster : '';
    const pair = JSON.stringify([cluster, owner]);
    // Names are those of resources, which come and go.
    const isKnown = this.#warned.has(pair) || this.#warned.size < MAX_PAIRS;
    const key = isKnown ? pair : '';
    this.#conflicts.inc(isKnown ? { cluster, owner } : { cluster: 'other', owner: 'other' });
    const now = this.#clock.monotonic();
    if (now < (this.#warned.get(key) ?? Number.NEGATIVE_INFINITY) + WARN_AGAIN_AFTER) return;
    this.#warned.set(key, now);
    if (conflict.kind === 'owned') {
      this.#logger.warn(
        { cluster, owner, queryId },
        `cluster "${cluster}" responded with a query id of cluster "${owner}", which keeps it; response rejected`,
      );
    } else {
      this.#logger.warn(
        { cluster, queryId },
        `cluster "${cluster}" responded with query ids of too many coordinators; response rejected`,
      );
    }
  }
}
