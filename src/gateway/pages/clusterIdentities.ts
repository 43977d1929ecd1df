import { createHmac } from 'node:crypto';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';

/** Whose cookies a browser holds: a name alone is not enough, as somebody else may register it again. */
export interface ClusterIdentity {
  readonly name: string;
  /** uid of the resource that registered the cluster; left out where it has none. */
  readonly uid?: string | undefined;
}

/** Clusters come and go; a key that was forgotten is quickly made again. */
const MAX_KEYS = 10_000;
/** Characters of base64url: 96 bits. */
const KEY_LENGTH = 16;
/** The form of a key, for regular expressions. */
export const IDENTITY_FORM = `[\\w-]{${KEY_LENGTH}}`;

/**
 * Keys by which cookies name clusters (docs/routing.md#engines-web-pages). They follow from the registration and the
 * secret of all replicas: every replica makes the same ones, and nobody else can work out those of a cluster.
 */
export class ClusterIdentities {
  readonly #secret: string;
  readonly #table: { readonly current: RoutingTable };
  readonly #keys = new Map<string, string>();
  #byKey: ReadonlyMap<string, ClusterEntry> = new Map();
  /** Version of the table that `#byKey` is made from. */
  #version = -1;

  /** @param secret the same on all replicas */
  constructor(secret: string, table: { readonly current: RoutingTable }) {
    this.#secret = secret;
    this.#table = table;
  }

  /** The key of a cluster, registered or not. */
  keyOf({ name, uid }: ClusterIdentity): string {
    const text = JSON.stringify([name, uid ?? null]);
    let key = this.#keys.get(text);
    if (key === undefined) {
      const digest = createHmac('sha256', this.#secret).update(`cluster of a cookie ${text}`).digest('base64url');
      key = digest.slice(0, KEY_LENGTH);
      if (this.#keys.size >= MAX_KEYS) this.#keys.clear();
      this.#keys.set(text, key);
    }
    return key;
  }

  /** The registered cluster that has the key; null for none. */
  clusterOf(key: string): ClusterEntry | null {
    const { current } = this.#table;
    if (current.version !== this.#version) {
      this.#byKey = new Map([...current.clusters.values()].map((cluster) => [this.keyOf(cluster), cluster]));
      this.#version = current.version;
    }
    return this.#byKey.get(key) ?? null;
  }
}
