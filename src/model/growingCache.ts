/**
 * Limits of an LRU cache (lru-cache) that allocates on demand: with `max` it allocates 24 bytes or more per entry
 * immediately, which is wasteful for caches of optional features.
 */
export function growingTo(entries: number): { readonly maxSize: number; readonly sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
