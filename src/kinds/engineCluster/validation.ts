import { certificatesProblem } from '../../model/certificates.ts';
import { clusterUrlProblem } from '../../model/clusterUrl.ts';
import { durationProblem } from '../../model/durationField.ts';
import type { Problem } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { checkDurationBounds, EngineClusterSpec } from './spec.ts';

const checkSpec = compileCheck(EngineClusterSpec, 'spec');

export function clusterSpecProblems(spec: unknown): readonly Problem[] {
  const checked = checkSpec(spec);
  const problems = checked.ok ? [] : [...checked.problems];
  if (!isRecord(spec)) return problems;
  const hasUrl = spec.proxyTo !== undefined;
  if (hasUrl === (spec.serviceRef !== undefined)) {
    const message = 'exactly one of proxyTo and serviceRef must be set';
    problems.push({ field: hasUrl ? 'spec.serviceRef' : 'spec.proxyTo', message });
  }
  for (const field of ['proxyTo', 'externalUrl'] as const) {
    const path = `spec.${field}`;
    if (typeof spec[field] !== 'string') continue;
    const problem = clusterUrlProblem(spec[field]);
    if (problem === null) continue;
    const already = problems.findIndex((candidate) => candidate.field === path);
    if (already >= 0) problems.splice(already, 1);
    problems.push({ field: path, message: problem });
  }
  problems.push(...durationProblems(spec.healthCheck));
  if (checked.ok && isRecord(spec.tls) && typeof spec.tls.caBundle === 'string') {
    const message = certificatesProblem(spec.tls.caBundle);
    if (message !== null) problems.push({ field: 'spec.tls.caBundle', message });
  }
  return problems;
}

const durationFields = ['interval', 'timeout'] as const;

/** Durations that match the schema's pattern but exceed their bounds. */
function durationProblems(check: unknown): readonly Problem[] {
  if (!isRecord(check)) return [];
  return durationFields.flatMap((field) => {
    const message = durationProblem(field, check[field], checkDurationBounds[field]);
    return message === null ? [] : [{ field: `spec.healthCheck.${field}`, message }];
  });
}
