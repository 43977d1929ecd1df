import { isHeader } from '../../model/http.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import { clusterKey } from '../../routing/statementProtocol.ts';

const PREFIX_HEADER = 'X-Forwarded-Prefix';
const PREFIX_KEY = PREFIX_HEADER.toLowerCase();
/** Clusters come and go; a key that was forgotten is quickly computed again. */
const MAX_KEYS = 10_000;

/** Keys of clusters and clusters of keys: in URLs of spooled segments and in cookies of the handshake. */
export class ClusterKeys {
  readonly #table: { readonly current: RoutingTable };
  readonly #keys = new Map<string, string>();
  #byKey: ReadonlyMap<string, ClusterEntry> = new Map();
  /** Version of the table that `#byKey` is made from. */
  #version = -1;

  constructor(table: { readonly current: RoutingTable }) {
    this.#table = table;
  }

  keyOf(name: string): string {
    let key = this.#keys.get(name);
    if (key === undefined) {
      key = clusterKey(name);
      if (this.#keys.size >= MAX_KEYS) this.#keys.clear();
      this.#keys.set(name, key);
    }
    return key;
  }

  /** The registered cluster that has the key, or null. */
  clusterOf(key: string): ClusterEntry | null {
    const { current } = this.#table;
    if (current.version !== this.#version) {
      this.#byKey = new Map([...current.clusters.values()].map((cluster) => [this.keyOf(cluster.name), cluster]));
      this.#version = current.version;
    }
    return this.#byKey.get(key) ?? null;
  }

  /** True if the routing group of a cluster has several clusters, so that its URLs need its key. */
  isOneOfSeveral(name: string): boolean {
    const { clusters, groups } = this.#table.current;
    return (groups.get(clusters.get(name)?.routingGroup ?? '')?.length ?? 0) > 1;
  }

  /**
   * Header lines with the key of the cluster that they go to, which puts it into the URLs of its response. A prefix that
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
