import { isHeader } from '../../model/rawHeaders.ts';
import { clusterKey } from '../../routing/clusterKey.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import { ClustersByKey } from './clustersByKey.ts';

const PREFIX_HEADER = 'X-Forwarded-Prefix';
const PREFIX_KEY = PREFIX_HEADER.toLowerCase();

/** Keys of clusters and clusters of keys, each worked out once (`routing.prefixSticky`, cookies of the handshake). */
export class ClusterKeys {
  readonly #clusters: ClustersByKey;

  constructor(table: { readonly current: RoutingTable }) {
    this.#clusters = new ClustersByKey(table, ({ name }) => this.keyOf(name));
  }

  /** The key of a cluster, registered or not. */
  keyOf(name: string): string {
    return this.#clusters.remembered(name, clusterKey);
  }

  /** The registered cluster that has the key; null for none. */
  clusterOf(key: string): ClusterEntry | null {
    return this.#clusters.clusterOf(key);
  }

  /**
   * Header lines with the key of the cluster that they go to, which puts it into the URLs of its answer. A prefix that
   * a trusted proxy before the gateway has set stays in front.
   * @param lines names and values in turn
   */
  withPrefix(lines: readonly string[], cluster: string): string[] {
    const rest: string[] = [];
    let outer = '';
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      const value = lines[index + 1] as string;
      if (isHeader(name, PREFIX_KEY)) outer = value;
      else rest.push(name, value);
    }
    rest.push(PREFIX_HEADER, `${outer.replace(/\/+$/, '')}/${this.keyOf(cluster)}`);
    return rest;
  }
}
