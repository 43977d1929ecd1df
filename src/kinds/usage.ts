import type { AdmissionCount } from '../routing/admissionCounts.ts';

/** Counts as fields of a status: without those that are not known. */
export function usageFields(count: AdmissionCount | null): Readonly<Record<string, number>> {
  if (count === null) return {};
  const { running, waiting, refused } = count;
  return { ...(running === null ? null : { running }), waiting, refused };
}
