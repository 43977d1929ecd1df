import { isRecord } from '../../model/record.ts';
import { PATTERN_MARK } from '../../rules/textMatcher.ts';
import { groupFindings } from '../groupFindings.ts';
import type { CheckedManifest, ManifestFinding } from '../manifestFinding.ts';

/** What is to be said of a QueryLimit beside the mistakes of its spec. */
export function limitFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const groups = isRecord(spec.match) && Array.isArray(spec.match.routingGroups) ? spec.match.routingGroups : [];
  const findings = groups.flatMap((group, index) =>
    typeof group === 'string' && group.startsWith(PATTERN_MARK)
      ? []
      : groupFindings(group, `spec.match.routingGroups[${index}]`),
  );
  if (
    spec.maxQueued !== undefined &&
    spec.maxQueued !== 0 &&
    spec.maxRunning === undefined &&
    spec.rate === undefined
  ) {
    const message =
      'spec.maxQueued: alone it bounds only how many wait for limits of clusters and groups; set maxRunning or rate to make queries wait here';
    findings.push({ severity: 'warning', message, at: 'spec.maxQueued' });
  }
  return findings;
}
