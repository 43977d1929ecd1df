import { createHash, hash } from 'node:crypto';
import type { ClusterEntry } from './routingTable.ts';

/**
 * Picks the same cluster for the same text, on every replica and in any order of the candidates; only texts of a
 * removed cluster move (rendezvous hashing).
 */
export function pickByHash(candidates: readonly ClusterEntry[], text: string): ClusterEntry {
  const scored = candidates.map((cluster) => ({
    cluster,
    score: createHash('sha256').update(`${text} ${cluster.name}`).digest('hex'),
  }));
  return scored.reduce((best, one) => (one.score > best.score ? one : best)).cluster;
}

/** Exclusive upper bound of hash values. */
const RANGE = 2 ** 48;

/**
 * Score of a cluster for a text: the greatest wins (weighted rendezvous hashing). Equal on every replica; each cluster
 * has the greatest score for a share of texts in proportion to its weight, and an added or removed cluster moves no
 * text between two others.
 */
export function weightedScore({ name }: ClusterEntry, text: string, weight: number): number {
  if (weight <= 0) return 0;
  const value = hash('sha256', `${text} ${name}`, 'buffer').readUIntBE(0, 6);
  return weight / -Math.log((value + 0.5) / RANGE);
}
