import { engineSizeBytes } from '../engineUnits.ts';

/** Number of a percentage such as `80%`; null if invalid. */
export function percentage(text: string): number | null {
  const [, number] = /^(\d{1,3}(?:\.\d+)?)%$/.exec(text) ?? [];
  return number === undefined ? null : Number(number);
}

/** Returns the mistake in a `softMemoryLimit`, or null. */
export function memoryLimitProblem(text: string): string | null {
  const percents = percentage(text);
  if (percents !== null) return percents <= 100 ? null : 'must be at most 100%';
  if (engineSizeBytes(text) !== null) return null;
  return 'must be a percentage such as 80% or a size such as 5GB (B, kB, MB, GB, TB, PB)';
}
