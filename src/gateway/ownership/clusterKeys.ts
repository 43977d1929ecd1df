import { isHeader } from '../../model/rawHeaders.ts';
import { clusterKey } from '../../routing/clusterKey.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { DataPlaneContext } from '../dataPlaneContext.ts';

/** Clusters come and go; a key that was forgotten is quickly made again. */
const MAX_NAMES = 10_000;
const PREFIX_HEADER = 'X-Forwarded-Prefix';
const PREFIX_KEY = PREFIX_HEADER.toLowerCase();

/** Keys of clusters and clusters of keys, each worked out once (`routing.prefixSticky`, cookies of the handshake). */
export class ClusterKeys {
  readonly #table: { readonly current: RoutingTable };
  readonly #byName = new Map<string, string>();
  #byKey: ReadonlyMap<string, ClusterEntry> = new Map();
  /** Version of the table that `#byKey` is made from. */
  #version = -1;

  constructor(table: { readonly current: RoutingTable }) {
    this.#table = table;
  }

  /** The key of a cluster, registered or not. */
  keyOf(name: string): string {
    let key = this.#byName.get(name);
    if (key === undefined) {
      key = clusterKey(name);
      if (this.#byName.size >= MAX_NAMES) this.#byName.clear();
      this.#byName.set(name, key);
    }
    return key;
  }

  /** The registered cluster that has the key; null for none. */
  clusterOf(key: string): ClusterEntry | null {
    const { current } = this.#table;
    if (current.version !== this.#version) {
      this.#byKey = new Map([...current.clusters.values()].map((cluster) => [this.keyOf(cluster.name), cluster]));
      this.#version = current.version;
    }
    return this.#byKey.get(key) ?? null;
  }

  /**
   * Header lines with the key of the cluster that they go to, which puts it into the URLs of its answer. A prefix that
   * a trusted proxy before the gateway has told stays in front.
   * @param lines names and values in turn
   */
  withPrefix(lines: readonly string[], cluster: string): string[] {
    const kept: string[] = [];
    let outer = '';
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      const value = lines[index + 1] as string;
      if (isHeader(name, PREFIX_KEY)) outer = value;
      else kept.push(name, value);
    }
    kept.push(PREFIX_HEADER, `${outer.replace(/\/+$/, '')}/${this.keyOf(cluster)}`);
    return kept;
  }
}

/**
 * The headers of a request on a statement path as they go to a cluster: with `routing.prefixSticky` they tell it its key.
 * @param cluster registry name; "" where it is not known
 */
export function tellingPrefix(
  { prefixes, settings }: Pick<DataPlaneContext, 'prefixes' | 'settings'>,
  headers: readonly string[],
  cluster: string,
): readonly string[] {
  if (prefixes === null || cluster === '' || !settings().forwardedHeadersEnabled) return headers;
  return prefixes.withPrefix(headers, cluster);
}
