import type { CheckedManifest, ManifestFinding } from '../manifestFinding.ts';
import { groupsProblems, groupsWarnings } from './validation.ts';

/** What is to be said of a ResourceGroupConfiguration beside the mistakes of its spec. */
export function groupsFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  if (groupsProblems(spec).length > 0) return [];
  return groupsWarnings(spec, true).map(({ field, message }) => ({
    severity: 'warning',
    message: `${field} ${message}`,
    at: field,
  }));
}
