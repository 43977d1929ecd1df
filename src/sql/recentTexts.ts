/** Number of remembered texts: two per set. A power of two. */
const SLOTS = 16_384;
/** Longer texts are hashed by this many of their characters. */
const HASHED = 4_096;

/**
 * Recently added texts, by hash. Distinguishes repeated texts from texts that occur once and would fill a cache without
 * a hit. False positives are rare; the oldest text of a set is evicted.
 */
export class RecentTexts {
  readonly #hashes = new Int32Array(SLOTS);

  /** Returns true if the text was added recently, and adds it. */
  isRepeat(text: string): boolean {
    const hash = hashOf(text);
    const hashes = this.#hashes;
    const slot = hash & (SLOTS - 2);
    if (hashes[slot] === hash) return true;
    const newest = hashes[slot] as number;
    hashes[slot] = hash;
    const isSecond = hashes[slot + 1] === hash;
    hashes[slot + 1] = newest;
    return isSecond;
  }
}

/** FNV-1a over UTF-16 units, mixed so that each bit affects the low bits. Never 0, which marks an empty slot. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5 ^ text.length;
  const step = text.length <= HASHED ? 1 : Math.ceil(text.length / HASHED);
  for (let at = 0; at < text.length; at += step) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash ^= hash >>> 15;
  return hash === 0 ? 1 : hash;
}
