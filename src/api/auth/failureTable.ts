import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { growingTo } from '../../model/growingCache.ts';

/**
 * A bounded table of what failed, by key. Entries that matter (heavy) and others (light) push out their own kind only: a
 * flood of keys that failed once does not make the table forget one that is being guessed at.
 */
export class FailureTable<T extends object> {
  readonly #light: LRUCache<string, T>;
  readonly #heavy: LRUCache<string, T>;

  /** @param capacity most entries of each kind */
  constructor(capacity: number) {
    this.#light = new LRUCache(growingTo(capacity));
    this.#heavy = new LRUCache(growingTo(capacity));
  }

  get(key: string): T | undefined {
    return this.#heavy.get(key) ?? this.#light.get(key);
  }

  set(key: string, entry: T, isHeavy: boolean): void {
    (isHeavy ? this.#light : this.#heavy).delete(key);
    (isHeavy ? this.#heavy : this.#light).set(key, entry);
  }

  delete(key: string): void {
    this.#light.delete(key);
    this.#heavy.delete(key);
  }
}

/** A key of fixed length for parts that a client chooses. */
export function keyOfParts(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22);
}
