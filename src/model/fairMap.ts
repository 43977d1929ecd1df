/**
 * A bounded map with entries in groups. A full group evicts its own oldest entries; a full map evicts the oldest
 * entries of its largest group. So a client that fills one group never displaces the entries of the others.
 */
export class FairMap<Key, Value> {
  readonly #max: number;
  readonly #maxPerGroup: number;
  readonly #entries = new Map<Key, { readonly group: string; readonly value: Value }>();
  readonly #groups = new Map<string, Set<Key>>();

  /** @param max bound in entries */
  constructor(max: number, maxPerGroup: number = max) {
    this.#max = max;
    this.#maxPerGroup = maxPerGroup;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Entries in insertion order. */
  *entries(): IterableIterator<readonly [Key, Value]> {
    for (const [key, { value }] of this.#entries) yield [key, value];
  }

  *values(): IterableIterator<Value> {
    for (const { value } of this.#entries.values()) yield value;
  }

  /** Sets an entry, which becomes the newest of its group. */
  set(key: Key, group: string, value: Value): void {
    this.delete(key);
    let members = this.#groups.get(group);
    if (members !== undefined && members.size >= this.#maxPerGroup) this.#dropOldest(group, members, this.#maxPerGroup);
    if (this.#entries.size >= this.#max) {
      const [largest, its] = this.#largest();
      this.#dropOldest(largest, its, this.#max);
    }
    members = this.#groups.get(group);
    if (members === undefined) {
      members = new Set();
      this.#groups.set(group, members);
    }
    members.add(key);
    this.#entries.set(key, { group, value });
  }

  delete(key: Key): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    const members = this.#groups.get(entry.group);
    members?.delete(key);
    if (members?.size === 0) this.#groups.delete(entry.group);
  }

  #largest(): readonly [string, Set<Key>] {
    let largest: readonly [string, Set<Key>] = ['', new Set()];
    for (const one of this.#groups) if (one[1].size > largest[1].size) largest = one;
    return largest;
  }

  /**
   * Evicts several entries of a large group at a time: a Set keeps the slots of deleted entries until it is rebuilt,
   * and a search for its first entry scans all of them.
   */
  #dropOldest(group: string, members: Set<Key>, bound: number): void {
    let left = Math.min(members.size, 1 + (bound >> 7));
    for (const key of members) {
      members.delete(key);
      this.#entries.delete(key);
      if (--left === 0) break;
    }
    if (members.size === 0) this.#groups.delete(group);
  }
}
