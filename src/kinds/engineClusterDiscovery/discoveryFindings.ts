import { isRecord } from '../../model/record.ts';
import { groupFindings } from '../groupFindings.ts';
import type { CheckedManifest, ManifestFinding } from '../manifestFinding.ts';

/** What is to be said of an EngineClusterDiscovery beside the mistakes of its spec. */
export function discoveryFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const group = isRecord(spec.template) ? spec.template.routingGroup : undefined;
  return groupFindings(group, 'spec.template.routingGroup');
}
