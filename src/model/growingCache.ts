/**
 * Limits of an LRU cache (lru-cache) of so many entries whose memory grows with them: with `max` it is taken at once, 24
 * bytes an entry and more, which is much for caches that hold something only where their feature is used.
 */
export function growingTo(entries: number): { readonly maxSize: number; readonly sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: () => 1 };
}
