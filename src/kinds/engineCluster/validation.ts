import { certificatesProblem } from '../../model/certificates.ts';
import { clusterUrlProblem } from '../../model/clusterUrl.ts';
import type { Problem } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { portProblem } from '../fields/spec.ts';
import { specCheck } from '../resourceKind.ts';
import { EngineClusterSpec } from './spec.ts';

const checkSpec = specCheck(EngineClusterSpec, function* ({ tls }) {
  const message = tls?.caBundle === undefined ? null : certificatesProblem(tls.caBundle);
  if (message !== null) yield { field: 'spec.tls.caBundle', message };
});

export function clusterSpecProblems(spec: unknown): readonly Problem[] {
  const ofUrls = new Map<string, Problem>();
  for (const name of ['proxyTo', 'externalUrl']) {
    const text = isRecord(spec) ? spec[name] : undefined;
    const message = typeof text === 'string' ? clusterUrlProblem(text) : null;
    if (message !== null) ofUrls.set(`spec.${name}`, { field: `spec.${name}`, message });
  }
  const problems = checkSpec(spec).filter(({ field }) => !ofUrls.has(field));
  return [...problems.map((each) => portProblem(each, 'spec.serviceRef.port')), ...ofUrls.values()];
}
