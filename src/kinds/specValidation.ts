import { certificatesProblem } from '../model/certificates.ts';
import { clusterUrlProblem } from '../model/clusterUrl.ts';
import type { Problem } from '../model/errors.ts';
import type { Kind } from '../model/resource.ts';
import { compileCheck } from '../model/validation.ts';
import { EngineClusterSpec } from './engineCluster/spec.ts';
import { RoutingRuleSpec } from './routingRule/spec.ts';

const checkCluster = compileCheck(EngineClusterSpec, 'spec');
const checkRule = compileCheck(RoutingRuleSpec, 'spec');

/**
 * Says what is wrong with the spec of a resource: what the CRD's schema and its CEL rules say, for sources that have
 * no API server in front of them. Empty when it is fine. Expressions of rules are compiled elsewhere.
 */
export function specProblems(kind: Kind, spec: unknown): readonly Problem[] {
  return kind === 'EngineCluster' ? clusterProblems(spec) : ruleProblems(spec);
}

/** The spec as an EngineCluster's, or its problems. */
export function engineClusterSpec(
  spec: unknown,
):
  | { readonly ok: true; readonly spec: EngineClusterSpec }
  | { readonly ok: false; readonly problems: readonly Problem[] } {
  const problems = clusterProblems(spec);
  return problems.length === 0 ? { ok: true, spec: spec as EngineClusterSpec } : { ok: false, problems };
}

function clusterProblems(spec: unknown): readonly Problem[] {
  const checked = checkCluster(spec);
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
  if (checked.ok && isRecord(spec.tls) && typeof spec.tls.caBundle === 'string') {
    const message = certificatesProblem(spec.tls.caBundle);
    if (message !== null) problems.push({ field: 'spec.tls.caBundle', message });
  }
  return problems;
}

function ruleProblems(spec: unknown): readonly Problem[] {
  const checked = checkRule(spec);
  const problems = checked.ok ? [] : [...checked.problems];
  if (!isRecord(spec)) return problems;
  const ways = ['actions', 'routeTo', 'deny'].filter((field) => spec[field] !== undefined);
  if (ways.length !== 1) {
    problems.push({
      field: ways[1] === undefined ? 'spec.actions' : `spec.${ways[1]}`,
      message: 'exactly one of actions, routeTo and deny must be set',
    });
  }
  if (isRecord(spec.routeTo) && (spec.routeTo.routingGroup === undefined) === (spec.routeTo.cluster === undefined)) {
    problems.push({ field: 'spec.routeTo', message: 'must name exactly one of routingGroup and cluster' });
  }
  return problems;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Problems as one sentence: `spec.proxyTo is required; spec.weight must be >= 0`. */
export function problemText(problems: readonly Problem[]): string {
  return problems.map(({ field, message }) => (field === '' ? message : `${field} ${message}`)).join('; ');
}
