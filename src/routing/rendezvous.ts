import { createHash } from 'node:crypto';
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
