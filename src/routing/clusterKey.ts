import { createHash } from 'node:crypto';
import type { RequestTarget } from './proxiedPaths.ts';

/** `k` and this many hexadecimal digits. */
const DIGITS = 16;
const SEGMENT_END = DIGITS + 2;
export const CLUSTER_KEY_FORM = `k[0-9a-f]{${DIGITS}}`;
const keyForm = new RegExp(`^${CLUSTER_KEY_FORM}$`);

/**
 * Opaque key of a cluster: in URLs of spooled results and in cookies of the OAuth2 handshake. A hash of the
 * registry name, so that every replica computes the same one. It hides the name from other users, but it is not a
 * secret.
 */
export function clusterKey(name: string): string {
  return `k${createHash('sha256').update(`cluster ${name}`).digest('hex').slice(0, DIGITS)}`;
}

/** A request target whose path begins with a cluster's key. */
export interface PrefixedTarget {
  readonly key: string;
  readonly target: RequestTarget;
}

/** Splits a target into the key and the rest; null if its first segment does not have the form of a key. */
export function splitClusterKey(target: RequestTarget): PrefixedTarget | null {
  const { path, query } = target;
  // "k" and the slash after the segment: other paths cost at most two comparisons.
  if (path.charCodeAt(1) !== 107 || path.charCodeAt(SEGMENT_END) !== 47) return null;
  const key = path.slice(1, SEGMENT_END);
  return keyForm.test(key) ? { key, target: { path: path.slice(SEGMENT_END), query } } : null;
}
