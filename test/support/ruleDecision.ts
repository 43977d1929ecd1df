import { noTrace, type RuleDecision } from '../../src/rules/decision.ts';

/** A decision of rules that decided nothing but this. */
export function decided(more: Partial<RuleDecision>): RuleDecision {
  return {
    routingGroup: null,
    cluster: null,
    rule: null,
    denied: null,
    rejected: null,
    onUnavailable: 'fallback',
    useHeader: false,
    trace: noTrace,
    ...more,
  };
}
