/**
 * Limits of an LRU cache (lru-cache) whose memory grows with its entries: with `max` it is allocated at once, 24
 * bytes an entry and more, which is much for caches that hold something only where their feature is used.
 */
export function growingTo(entries: number): { readonly maxSize: number; readonly sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
