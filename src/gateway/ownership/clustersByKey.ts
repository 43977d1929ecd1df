import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';

/** Clusters come and go; a key that was forgotten is quickly made again. */
const MAX_KEYS = 10_000;

/** Keys of clusters and clusters of keys, each worked out once. */
export class ClustersByKey {
  readonly #table: { readonly current: RoutingTable };
  readonly #keyOf: (cluster: ClusterEntry) => string;
  readonly #keys = new Map<string, string>();
  #byKey: ReadonlyMap<string, ClusterEntry> = new Map();
  /** Version of the table that `#byKey` is made from. */
  #version = -1;

  /** @param keyOf the key of a registered cluster, by `remembered` */
  constructor(table: { readonly current: RoutingTable }, keyOf: (cluster: ClusterEntry) => string) {
    this.#table = table;
    this.#keyOf = keyOf;
  }

  /** The key of what a text names. @param make works it out where it is not known */
  remembered(text: string, make: (text: string) => string): string {
    let key = this.#keys.get(text);
    if (key === undefined) {
      key = make(text);
      if (this.#keys.size >= MAX_KEYS) this.#keys.clear();
      this.#keys.set(text, key);
    }
    return key;
  }

  /** The registered cluster that has the key; null for none. */
  clusterOf(key: string): ClusterEntry | null {
    const { current } = this.#table;
    if (current.version !== this.#version) {
      this.#byKey = new Map([...current.clusters.values()].map((cluster) => [this.#keyOf(cluster), cluster]));
      this.#version = current.version;
    }
    return this.#byKey.get(key) ?? null;
  }
}
