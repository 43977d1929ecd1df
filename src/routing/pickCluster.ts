import { createHash } from 'node:crypto';
import type { Random } from '../model/clock.ts';
import type { LocalLoad } from './localLoad.ts';
import type { ClusterEntry } from './routingTable.ts';

/** How a cluster of a group is chosen (`routing.strategy`, `routing.groups.{name}.strategy`). */
export type Strategy = 'weightedRandom' | 'leastLoaded';

/** Picks one of the clusters that may take a request; there is at least one. */
export type PickCluster = (candidates: readonly ClusterEntry[], group: string) => ClusterEntry;

/** One of them at random by weight; equal weights make it uniform. */
export function pickByWeight(candidates: readonly ClusterEntry[], random: Random): ClusterEntry {
  const last = candidates.at(-1) as ClusterEntry;
  if (candidates.length === 1) return last;
  let total = 0;
  for (const { weight } of candidates) total += weight;
  // A group whose weights are all 0 is still a group: uniform then.
  let rest = random() * (total === 0 ? candidates.length : total);
  for (const candidate of candidates) {
    rest -= total === 0 ? 1 : candidate.weight;
    if (rest < 0) return candidate;
  }
  return last;
}

/**
 * The same one for the same text, whoever asks and in whatever order they come; only what went to a cluster that is gone
 * goes elsewhere (rendezvous hashing).
 */
export function pickByHash(candidates: readonly ClusterEntry[], text: string): ClusterEntry {
  const scored = candidates.map((cluster) => ({
    cluster,
    score: createHash('sha256').update(`${text} ${cluster.name}`).digest('hex'),
  }));
  return scored.reduce((best, one) => (one.score > best.score ? one : best)).cluster;
}

/** Queries on a cluster, as far as this process knows. */
export interface ClusterLoadEstimate {
  /** Queued queries of the user who asks. */
  readonly own: number;
  readonly queued: number;
  readonly running: number;
}

/**
 * The one with the fewest of this user's queued queries, then of all queued, then of running queries; ties at random by
 * weight (docs/compatibility.md#the-query-count-router).
 */
export function pickLeastLoaded(
  candidates: readonly ClusterEntry[],
  user: string | null,
  local: LocalLoad,
  random: Random,
): ClusterEntry {
  if (candidates.length === 1) return candidates[0] as ClusterEntry;
  const published = average(candidates);
  let best: ClusterEntry[] = [];
  let least: ClusterLoadEstimate | null = null;
  for (const candidate of candidates) {
    const load = estimate(candidate, user, local, published);
    const order = least === null ? -1 : compareLoads(load, least);
    if (order < 0) {
      best = [candidate];
      least = load;
    } else if (order === 0) best.push(candidate);
  }
  return pickByWeight(best, random);
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
  const sent = local.since(name, health.countsAsOf, user);
  const queued = health.queued ?? otherwise.queued;
  const running = health.running ?? otherwise.running;
  const own = user === null ? 0 : (health.queuedByUser?.get(user) ?? 0);
  return {
    own: own > 0 ? own + sent.own : 0,
    queued: queued > 0 ? queued + sent.all : 0,
    running: queued > 0 ? running : running + sent.all,
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
