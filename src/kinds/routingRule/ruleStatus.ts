import { type ConditionStatus, conditionsAt } from '../../model/condition.ts';
import type { RuleVerdict } from '../../rules/ruleCompiler.ts';
import { pausedMessage } from '../paused.ts';
import type { StatusDraft, Stored } from '../status.ts';
import { type RuleOutcome, routesTo } from './ruleOutcome.ts';

/**
 * Last step of a reconcile of a rule: what to say about it. Pure.
 * @param failing how it failed last for a request; null when it has not
 */
export function ruleStatus(outcome: RuleOutcome, stored: Stored, failing: string | null = null): StatusDraft {
  const { generation } = outcome.resource.metadata;
  const { verdict, references } = outcome;
  const condition = conditionsAt(generation);
  const truth = (value: boolean): ConditionStatus => (value ? 'True' : 'False');
  const stalled = verdict !== null && !verdict.accepted && verdict.acceptedReason !== 'NameConflict';
  return {
    observedGeneration: generation,
    fields: { routesTo: routesTo(outcome.resource) },
    conditions: [
      verdict === null
        ? condition('Accepted', 'Unknown', 'Pending', 'the rule has not been compiled yet')
        : condition('Accepted', truth(verdict.accepted), verdict.acceptedReason, verdict.message),
      condition('ResolvedRefs', references.status, references.reason, references.message),
      verdict === null
        ? condition('Programmed', 'Unknown', 'Pending', 'the rule has not been compiled yet')
        : condition('Programmed', truth(verdict.programmed), verdict.programmedReason, verdict.programmedMessage),
      condition('Ready', ...ready(verdict, stored)),
      ...(failing === null ? [] : [condition('Failing', 'True', 'EvaluationError', failing)]),
      ...(stalled ? [condition('Stalled', 'True', verdict.acceptedReason, verdict.message)] : []),
      ...(outcome.paused ? [condition('Paused', 'True', 'PausedByAnnotation', pausedMessage)] : []),
    ],
  };
}

function ready(
  verdict: RuleVerdict | null,
  stored: Stored,
): readonly [status: ConditionStatus, reason: string, message: string] {
  if (verdict === null) return ['Unknown', 'Pending', 'the rule has not been compiled yet'];
  if (!verdict.accepted) return ['False', verdict.acceptedReason, verdict.message];
  // A suspended rule is in its desired state.
  if (!verdict.programmed && verdict.programmedReason !== 'Suspended') {
    return ['False', verdict.programmedReason, verdict.programmedMessage];
  }
  if (!stored.stored) return ['False', 'NotStored', stored.reason];
  return ['True', 'Ready', 'accepted, in the routing table and in the database'];
}
