import { createHmac } from 'node:crypto';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import { ClustersByKey } from '../ownership/clustersByKey.ts';

/** Whose cookies a browser holds: a name alone is not enough, as somebody else may register it again. */
export interface ClusterIdentity {
  readonly name: string;
  /** uid of the resource that registered the cluster; left out where it has none. */
  readonly uid?: string | undefined;
}

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
  readonly #clusters: ClustersByKey;

  /** @param secret the same on all replicas */
  constructor(secret: string, table: { readonly current: RoutingTable }) {
    this.#secret = secret;
    this.#clusters = new ClustersByKey(table, (cluster) => this.keyOf(cluster));
  }

  /** The key of a cluster, registered or not. */
  keyOf({ name, uid }: ClusterIdentity): string {
    return this.#clusters.remembered(JSON.stringify([name, uid ?? null]), (text) => {
      const digest = createHmac('sha256', this.#secret).update(`cluster of a cookie ${text}`).digest('base64url');
      return digest.slice(0, KEY_LENGTH);
    });
  }

  /** The registered cluster that has the key; null for none. */
  clusterOf(key: string): ClusterEntry | null {
    return this.#clusters.clusterOf(key);
  }
}
