import type { Random } from '../../model/clock.ts';
import { type CountedSubmission, LocalLoad } from '../localLoad.ts';
import type { ClusterEntry } from '../routingTable.ts';
import type { PickRequest, Strategy, StrategyDependencies } from './strategy.ts';
import { pickByWeight } from './weightedRandom.ts';

/**
 * The cluster with the fewest of this user's queued queries, then of all queued, then of running queries; ties at random
 * by weight (docs/compatibility.md#the-query-count-router).
 */
export class LeastLoaded implements Strategy {
  readonly #random: Random;
  readonly #local: LocalLoad;

  constructor({ random, monotonic }: StrategyDependencies) {
    this.#random = random;
    this.#local = new LocalLoad(monotonic);
  }

  pick(candidates: readonly ClusterEntry[], { user }: PickRequest): ClusterEntry {
    if (candidates.length === 1) return candidates[0] as ClusterEntry;
    const published = average(candidates);
    let best: ClusterEntry[] = [];
    let least: ClusterLoadEstimate | null = null;
    for (const candidate of candidates) {
      const load = estimate(candidate, user, this.#local, published);
      const order = least === null ? -1 : compareLoads(load, least);
      if (order < 0) {
        best = [candidate];
        least = load;
      } else if (order === 0) best.push(candidate);
    }
    return pickByWeight(best, this.#random);
  }

  countSubmission({ name }: ClusterEntry, { user }: Pick<PickRequest, 'user'>): CountedSubmission {
    return this.#local.countSubmission(name, user);
  }

  retain(registered: { has(cluster: string): boolean }): void {
    this.#local.retain(registered);
  }
}

/** Queries on a cluster, as far as this process knows. */
interface ClusterLoadEstimate {
  /** Queued queries of the user who asks. */
  readonly own: number;
  readonly queued: number;
  readonly running: number;
}

/**
 * The load of a cluster: what its statistics say, and each query that this process sent since, once, where the next
 * statistics would most likely show it: in the user's own queue where there is one, and in the cluster's; among the
 * running queries where nothing waits.
 */
function estimate(
  { name, health }: ClusterEntry,
  user: string | null,
  local: LocalLoad,
  otherwise: { readonly queued: number; readonly running: number },
): ClusterLoadEstimate {
  const submissions = local.since(name, health.countsAsOf, user);
  const queued = health.queued ?? otherwise.queued;
  const running = health.running ?? otherwise.running;
  const own = user === null ? 0 : (health.queuedByUser?.get(user) ?? 0);
  return {
    own: own > 0 ? own + submissions.own : 0,
    queued: queued > 0 ? queued + submissions.all : 0,
    running: queued > 0 ? running : running + submissions.all,
  };
}

/** What stands in for clusters whose checks count nothing: neither shunned for ever nor flooded. Zeros where none counts. */
function average(candidates: readonly ClusterEntry[]): { readonly queued: number; readonly running: number } {
  let counted = 0;
  let queued = 0;
  let running = 0;
  for (const { health } of candidates) {
    if (health.queued === null || health.running === null) continue;
    counted++;
    queued += health.queued;
    running += health.running;
  }
  return counted === 0 ? { queued: 0, running: 0 } : { queued: queued / counted, running: running / counted };
}

function compareLoads(a: ClusterLoadEstimate, b: ClusterLoadEstimate): number {
  return a.own - b.own || a.queued - b.queued || a.running - b.running;
}
