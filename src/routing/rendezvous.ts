import { createHash, hash } from 'node:crypto';
import type { ClusterEntry } from './routingTable.ts';

/**
 * The same one for the same text, on every replica and in any order of the candidates; only texts of a removed cluster
 * move to another one (rendezvous hashing).
 */
export function pickByHash(candidates: readonly ClusterEntry[], text: string): ClusterEntry {
  const scored = candidates.map((cluster) => ({
    cluster,
    score: createHash('sha256').update(`${text} ${cluster.name}`).digest('hex'),
  }));
  return scored.reduce((best, one) => (one.score > best.score ? one : best)).cluster;
}

/** Hash values are numbers below this. */
const RANGE = 2 ** 48;

/**
 * How much a cluster is to be preferred for a text: the larger, the more (weighted rendezvous hashing). The same on every
 * replica; of many texts each cluster has the largest score for a share that is in proportion to its weight, and a
 * cluster that comes or goes moves no text between two others.
 */
export function weightedScore({ name }: ClusterEntry, text: string, weight: number): number {
  if (weight <= 0) return 0;
  const value = hash('sha256', `${text} ${name}`, 'buffer').readUIntBE(0, 6);
  return weight / -Math.log((value + 0.5) / RANGE);
}
