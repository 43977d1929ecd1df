import { Counter, type Registry } from 'prom-client';

export function ruleFailureCounter(registry: Registry): (rule: string, origin: 'file' | 'resource') => void {
  const failures = new Counter({
    name: 'engine_gateway_rule_failures_total',
    help: 'Evaluations of a routing rule that failed, by rule and its origin: file or resource.',
    labelNames: ['rule', 'origin'],
    registers: [registry],
  });
  return (rule, origin) => failures.inc({ rule, origin });
}
