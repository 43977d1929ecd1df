const units: readonly (readonly [milliseconds: number, unit: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1_000, 's'],
];

/** A duration as Trino Gateway writes it in messages: two decimals of the largest unit that fits, `2.00m`. */
export function durationText(milliseconds: number): string {
  for (const [size, unit] of units) {
    if (milliseconds >= size) return `${(milliseconds / size).toFixed(2)}${unit}`;
  }
  return `${milliseconds.toFixed(2)}ms`;
}
