/** Buckets of a doubling: a duration is known by its bucket within 4.5 %. */
const PER_DOUBLING = 8;

/**
 * The bucket of a duration, by which percentiles are counted in SQL (docs/rest-api.md#statistics): 0 below a millisecond, from 1 on
 * eight for each doubling.
 * @param milliseconds null: not known
 */
export function durationBucket(milliseconds: number | null): number | null {
  if (milliseconds === null) return null;
  return milliseconds < 1 ? 0 : 1 + Math.floor(Math.log2(milliseconds) * PER_DOUBLING);
}

/** The duration that stands for a bucket, whole milliseconds. */
export function bucketDuration(bucket: number): number {
  return bucket < 1 ? 0 : Math.round(2 ** ((bucket - 0.5) / PER_DOUBLING));
}

/**
 * The duration, milliseconds, that a share of all stays within; null if they are missing.
 * @param buckets how many durations are in each bucket
 */
export function durationPercentiles(buckets: ReadonlyMap<number, number>): (share: number) => number | null {
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  const total = sorted.reduce((sum, [, count]) => sum + count, 0);
  return (share) => {
    let sum = 0;
    for (const [bucket, count] of sorted) {
      sum += count;
      if (count > 0 && sum >= share * total) return bucketDuration(bucket);
    }
    return null;
  };
}

/** Adds to the count of a bucket, or of anything else. */
export function addCount<Key>(counts: Map<Key, number>, key: Key, count: number): void {
  counts.set(key, (counts.get(key) ?? 0) + count);
}
