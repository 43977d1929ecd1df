import { clusterUrlProblem } from '../../model/clusterUrl.ts';
import type { Problem } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { clusterSpecProblems } from '../engineCluster/validation.ts';
import { withServiceNames } from './discoveredCluster.ts';
import {
  EMPTY_SELECTOR,
  EngineClusterDiscoverySpec,
  GROUP_MISSING,
  LABEL_OR_ANNOTATION,
  NO_SERVICE_NAME,
  VALUES_MISMATCH,
} from './spec.ts';

const checkSpec = compileCheck(EngineClusterDiscoverySpec, 'spec');

/** Stands for any Service: names of Services are labels of DNS. */
const sampleService = { namespace: 'n', name: 's' };

export function discoveryProblems(spec: unknown): readonly Problem[] {
  const checked = checkSpec(spec);
  const problems = checked.ok ? [] : checked.problems.map(described);
  if (!isRecord(spec)) return problems;
  problems.push(...selectorProblems(spec.selector));
  if (isRecord(spec.template)) problems.push(...templateProblems(spec.template, checked.ok));
  return problems;
}

/** Of two forms of a field only one is named otherwise. */
function described(problem: Problem): Problem {
  if (problem.field !== 'spec.port') return problem;
  return { field: 'spec.port', message: 'must be the name of a port, such as http, or a number from 1 to 65535' };
}

function selectorProblems(selector: unknown): readonly Problem[] {
  if (!isRecord(selector)) return [];
  const labels = isRecord(selector.matchLabels) ? Object.entries(selector.matchLabels) : [];
  const expressions = Array.isArray(selector.matchExpressions) ? selector.matchExpressions : [];
  if (labels.length === 0 && expressions.length === 0) return [{ field: 'spec.selector', message: EMPTY_SELECTOR }];
  const badKeys = labels.flatMap(([key]) =>
    /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(key)
      ? []
      : [{ field: 'spec.selector.matchLabels', message: `has ${JSON.stringify(key)}, which is no key of a label` }],
  );
  const badValues = expressions.flatMap((each, index): Problem[] => {
    if (!isRecord(each)) return [];
    const takesValues = each.operator === 'In' || each.operator === 'NotIn';
    const hasValues = Array.isArray(each.values) && each.values.length > 0;
    return takesValues === hasValues
      ? []
      : [{ field: `spec.selector.matchExpressions[${index}]`, message: VALUES_MISMATCH }];
  });
  return [...badKeys, ...badValues];
}

function templateProblems(template: Readonly<Record<string, unknown>>, isFormed: boolean): readonly Problem[] {
  const problems: Problem[] = [];
  if (template.routingGroup === undefined && template.routingGroupFrom === undefined) {
    problems.push({ field: 'spec.template.routingGroup', message: `is missing: ${GROUP_MISSING}` });
  }
  const from = template.routingGroupFrom;
  if (isRecord(from) && (from.label === undefined) === (from.annotation === undefined)) {
    problems.push({ field: 'spec.template.routingGroupFrom', message: LABEL_OR_ANNOTATION });
  }
  if (typeof template.name === 'string' && !template.name.includes('{service}')) {
    problems.push({ field: 'spec.template.name', message: NO_SERVICE_NAME });
  }
  if (!isFormed) return problems;
  if (typeof template.externalUrl === 'string') {
    const problem = clusterUrlProblem(withServiceNames(template.externalUrl, sampleService));
    if (problem !== null) problems.push({ field: 'spec.template.externalUrl', message: problem });
  }
  // Of a cluster that it would make: bounds of durations, certificates.
  const { healthCheck, tls } = template;
  const cluster = {
    proxyTo: 'https://s.n.svc',
    routingGroup: 'g',
    ...(healthCheck === undefined ? {} : { healthCheck }),
    ...(tls === undefined ? {} : { tls }),
  };
  for (const { field, message } of clusterSpecProblems(cluster)) {
    problems.push({ field: field.replace(/^spec\./, 'spec.template.'), message });
  }
  return problems;
}
