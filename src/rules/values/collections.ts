import { type Evaluation, EvaluationError, SHORT_TEXT } from '../evaluation.ts';
import { hashOf, isOwnKey, JavaObject, type Key, Mutable, type Value, valueKey } from './value.ts';

/** Allowed changes of a list: all; only setting elements (`Arrays.asList`); none (`List.of`). */
export type ListAccess = 'open' | 'fixed' | 'immutable';

/** `java.util.List`: literals, ArrayList, LinkedList, Vector, ArrayDeque, `List.of`, `Arrays.asList`. */
export class JavaList extends Mutable {
  readonly kind: 'list' | 'stack' | 'queue';
  items: Value[];
  readonly access: ListAccess;

  /** @param kind `stack` for java.util.Stack; `queue` for a PriorityQueue, whose items are a heap */
  constructor(items: Value[], access: ListAccess = 'open', kind: JavaList['kind'] = 'list') {
    super();
    this.kind = kind;
    this.items = items;
    this.access = access;
  }

  get size(): number {
    return this.items.length;
  }

  override snapshot(): () => void {
    const items = this.items.slice();
    return () => {
      this.items = items;
    };
  }
}

/** An object with elements that do not change. */
abstract class Elements extends JavaObject {
  readonly items: readonly Value[];

  constructor(items: readonly Value[]) {
    super();
    this.items = items;
  }
}

export class JavaArray extends Elements {
  readonly kind = 'array';
}

/** A view such as `map.values()`: a collection that is neither list nor set. */
export class JavaCollection extends Elements {
  readonly kind = 'collection';
}

/** A stream: only operations without functions. */
export class JavaStream extends Elements {
  readonly kind = 'stream';
}

/** Iteration order of sets and maps: HashMap, LinkedHashMap or TreeMap. */
export type Ordering = 'hash' | 'insertion' | 'sorted';

export class JavaEntry extends JavaObject {
  readonly kind = 'entry';
  readonly key: Value;
  readonly value: Value;

  constructor(key: Value, value: Value) {
    super();
    this.key = key;
    this.value = value;
  }
}

/** Natural order, for `sorted` collections; set by the operators, which import this module. */
export type Compare = (a: Value, b: Value, e: Evaluation) => number;

/** `java.util.Map`: HashMap, LinkedHashMap, TreeMap, Hashtable, `Map.of`. Iterates in Java's order. */
export class JavaMap extends Mutable {
  readonly kind = 'map';
  readonly ordering: Ordering;
  readonly immutable: boolean;
  #entries: Map<Key, JavaEntry> | null = null;
  /** Buckets of Java's table, which determine the order of iteration; grows, never shrinks. */
  #buckets = 16;

  constructor(ordering: Ordering = 'hash', immutable = false) {
    super();
    this.ordering = ordering;
    this.immutable = immutable;
  }

  /** Created at first use: most maps of a request stay empty. */
  get entries(): Map<Key, JavaEntry> {
    this.#entries ??= new Map();
    return this.#entries;
  }

  get size(): number {
    return this.#entries === null ? 0 : this.#entries.size;
  }

  get(key: Value, e: Evaluation): Value | undefined {
    return this.#entries?.get(shortKey(key) ?? valueKey(key, e))?.value;
  }

  /** Sets a key without a check: callers check `immutable`. */
  put(key: Value, value: Value, e: Evaluation): Value | undefined {
    const id = shortKey(key) ?? valueKey(key, e);
    const before = this.entries.get(id);
    const buckets = this.#buckets;
    e.willChangeOnly(this, () => {
      if (before === undefined) this.entries.delete(id);
      else this.entries.set(id, before);
      this.#buckets = buckets;
    });
    return this.#set(id, before, key, value, e);
  }

  fill(key: Value, value: Value, e: Evaluation): Value | undefined {
    e.text(UNITS_A_LOOKUP);
    const id = valueKey(key, e);
    return this.#set(id, this.entries.get(id), key, value, e);
  }

  #set(id: Key, before: JavaEntry | undefined, key: Value, value: Value, e: Evaluation): Value | undefined {
    if (before === undefined) {
      e.reserveElements(this.entries.size + 1, 1, MAP_WEIGHT);
      if (this.entries.size + 1 > this.#buckets * 0.75) this.#buckets *= 2;
    }
    // The first key object stays, as in Java.
    this.entries.set(id, new JavaEntry(before === undefined ? key : before.key, value));
    return before?.value;
  }

  delete(key: Value, e: Evaluation): Value | undefined {
    const id = valueKey(key, e);
    const before = this.entries.get(id);
    if (before === undefined) return undefined;
    e.willChange(this);
    this.entries.delete(id);
    return before.value;
  }

  clear(e: Evaluation): void {
    e.willChange(this);
    this.#entries = null;
  }

  ordered(e: Evaluation, compare: Compare): JavaEntry[] {
    e.step(this.size);
    const entries = [...this.entries.values()];
    return inOrder(this.ordering, entries, (entry) => entry.key, this.#buckets, e, compare);
  }

  override snapshot(): () => void {
    const entries = new Map(this.entries);
    const buckets = this.#buckets;
    return () => {
      this.#entries = entries;
      this.#buckets = buckets;
    };
  }
}

/** `java.util.Set`: HashSet, LinkedHashSet, TreeSet, `Set.of`. Iterates in Java's order. */
export class JavaSet extends Mutable {
  readonly kind = 'set';
  readonly ordering: Ordering;
  readonly immutable: boolean;
  elements = new Map<Key, Value>();
  #buckets: number;

  /** @param expected number of elements passed to the constructor, as Java sizes its table by it */
  constructor(ordering: Ordering = 'hash', immutable = false, expected = 0) {
    super();
    this.ordering = ordering;
    this.immutable = immutable;
    this.#buckets = 16;
    while (this.#buckets < Math.trunc(expected / 0.75) + 1) this.#buckets *= 2;
  }

  get size(): number {
    return this.elements.size;
  }

  has(value: Value, e: Evaluation): boolean {
    return this.elements.has(shortKey(value) ?? valueKey(value, e));
  }

  add(value: Value, e: Evaluation): boolean {
    if (this.has(value, e)) return false;
    e.willChange(this);
    return this.fill(value, e);
  }

  fill(value: Value, e: Evaluation): boolean {
    e.text(UNITS_A_LOOKUP);
    const id = valueKey(value, e);
    if (this.elements.has(id)) return false;
    e.reserveElements(this.elements.size + 1, 1, SET_WEIGHT);
    if (this.elements.size + 1 > this.#buckets * 0.75) this.#buckets *= 2;
    this.elements.set(id, value);
    return true;
  }

  delete(value: Value, e: Evaluation): boolean {
    const id = valueKey(value, e);
    if (!this.elements.has(id)) return false;
    e.willChange(this);
    return this.elements.delete(id);
  }

  clear(e: Evaluation): void {
    e.willChange(this);
    this.elements = new Map();
  }

  ordered(e: Evaluation, compare: Compare): Value[] {
    e.step(this.size);
    const values = [...this.elements.values()];
    return inOrder(this.ordering, values, (value) => value, this.#buckets, e, compare);
  }

  override snapshot(): () => void {
    const elements = new Map(this.elements);
    const buckets = this.#buckets;
    return () => {
      this.elements = elements;
      this.#buckets = buckets;
    };
  }
}

export class JavaIterator extends JavaObject {
  readonly kind: 'iterator' | 'enumeration';
  readonly items: readonly Value[];
  #next = 0;

  constructor(kind: 'iterator' | 'enumeration', items: readonly Value[]) {
    super();
    this.kind = kind;
    this.items = items;
  }

  hasNext(): boolean {
    return this.#next < this.items.length;
  }

  next(): Value {
    if (!this.hasNext()) throw new EvaluationError('there is no next element');
    const value = this.items[this.#next] ?? null;
    this.#next += 1;
    return value;
  }

  /** Consumes and returns the remaining elements. */
  rest(): readonly Value[] {
    const rest = this.items.slice(this.#next);
    this.#next = this.items.length;
    return rest;
  }
}

/** Memory of a set's element and a map's entry, in elements of a list. */
const SET_WEIGHT = 3;
const MAP_WEIGHT = 4;

/** Cost of looking up an element, in characters that are read. */
const UNITS_A_LOOKUP = 256;

/** The key of a short text, the most frequent value; undefined for others. */
function shortKey(value: Value): string | undefined {
  return typeof value === 'string' && value.length <= SHORT_TEXT && isOwnKey(value) ? value : undefined;
}

/** Sorts in place. Stable; if the budget ends, the items stay unchanged. */
export function sortItems<T>(items: T[], compare: (a: T, b: T, e: Evaluation) => number, e: Evaluation): T[] {
  return items.sort((a, b) => {
    e.comparison();
    return compare(a, b, e);
  });
}

function inOrder<T>(
  ordering: Ordering,
  items: T[],
  keyOfItem: (item: T) => Value,
  buckets: number,
  e: Evaluation,
  compare: Compare,
): T[] {
  if (ordering === 'insertion' || items.length < 2) return items;
  if (ordering === 'sorted') return sortItems(items, (a, b) => compare(keyOfItem(a), keyOfItem(b), e), e);
  // Java's table: the bucket is the mixed hash modulo its size; within a bucket the order of insertion.
  const bucketOf = items.map((item) => {
    const hash = hashOf(keyOfItem(item), e);
    return (hash ^ (hash >>> 16)) & (buckets - 1);
  });
  return byBucket(items, bucketOf, buckets);
}

/** Tables larger than this many times their items are sorted: a scan of their buckets would cost more. */
const SPARSE = 64;

function byBucket<T>(items: readonly T[], bucketOf: readonly number[], buckets: number): T[] {
  if (buckets > items.length * SPARSE) {
    const placed = items.map((item, index) => ({ item, bucket: bucketOf[index] as number }));
    return placed.sort((a, b) => a.bucket - b.bucket).map(({ item }) => item);
  }
  // Counting sort: computes the start of each bucket, then places every item.
  const next = new Uint32Array(buckets + 1);
  for (const bucket of bucketOf) next[bucket + 1] = (next[bucket + 1] as number) + 1;
  for (let bucket = 0; bucket < buckets; bucket += 1)
    next[bucket + 1] = (next[bucket + 1] as number) + (next[bucket] as number);
  const ordered = items.slice();
  items.forEach((item, index) => {
    const bucket = bucketOf[index] as number;
    const place = next[bucket] as number;
    next[bucket] = place + 1;
    ordered[place] = item;
  });
  return ordered;
}

/** The elements of any iterable value; null for other values. */
export function elementsOf(value: Value, e: Evaluation, compare: Compare): readonly Value[] | null {
  if (value instanceof JavaList || value instanceof JavaArray || value instanceof JavaCollection) return value.items;
  if (value instanceof JavaSet) return value.ordered(e, compare);
  return null;
}
