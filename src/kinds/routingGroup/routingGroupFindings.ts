import { groupFindings } from '../groupFindings.ts';
import type { CheckedManifest, ManifestFinding } from '../manifestFinding.ts';
import { groupProblems } from './validation.ts';

/** What is to be said of a RoutingGroup beside the mistakes of its spec. */
export function routingGroupFindings({ name, spec }: CheckedManifest): readonly ManifestFinding[] {
  const own = typeof spec.name === 'string' ? spec.name : name;
  const fallbacks = Array.isArray(spec.fallbacks) ? spec.fallbacks : [];
  const findings: ManifestFinding[] = [
    // What needs the name of the resource is no mistake of the spec alone.
    ...beyond(groupProblems(spec, own), groupProblems(spec)),
    ...groupFindings(own, 'spec.name').filter(({ severity }) => severity === 'warning'),
    ...fallbacks
      .flatMap((fallback, index) => groupFindings(fallback, `spec.fallbacks[${index}]`))
      .filter(({ severity }) => severity === 'warning'),
  ];
  if (spec.fallbackWhen === 'full' && fallbacks.length === 0) {
    const message = 'spec.fallbackWhen: has no effect without fallbacks; name the groups that serve instead';
    findings.push({ severity: 'warning', message, at: 'spec.fallbackWhen' });
  }
  return findings;
}

function beyond(all: ReturnType<typeof groupProblems>, present: ReturnType<typeof groupProblems>): ManifestFinding[] {
  const texts = new Set(present.map(({ field, message }) => `${field} ${message}`));
  return all
    .filter(({ field, message }) => !texts.has(`${field} ${message}`))
    .map(({ field, message }) => ({ severity: 'problem', message: `${field} ${message}`, at: field }));
}
