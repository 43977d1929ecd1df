import { type ConditionStatus, conditionsAt } from '../../model/condition.ts';
import type { RuleReport } from '../../rules/ruleCompiler.ts';
import { observedGeneration, pausedCondition } from '../paused.ts';
import type { StatusDraft, Stored } from '../status.ts';
import { type RuleOutcome, routesTo } from './ruleOutcome.ts';

/**
 * Last step of a reconcile of a rule: what to say about it. Pure.
 * @param failing how it failed last for a request; null when it has not
 */
export function ruleStatus(outcome: RuleOutcome, stored: Stored, failing: string | null = null): StatusDraft {
  const generation = observedGeneration(outcome);
  const { report, references } = outcome;
  const condition = conditionsAt(generation);
  const truth = (value: boolean): ConditionStatus => (value ? 'True' : 'False');
  const stalled = report !== null && !report.accepted;
  return {
    observedGeneration: generation,
    fields: { routesTo: routesTo(outcome.resource) },
    conditions: [
      report === null
        ? condition('Accepted', 'Unknown', 'Pending', 'the rule has not been compiled yet')
        : condition('Accepted', truth(report.accepted), report.acceptedReason, report.message),
      condition('ResolvedRefs', references.status, references.reason, references.message),
      report === null
        ? condition('Programmed', 'Unknown', 'Pending', 'the rule has not been compiled yet')
        : condition('Programmed', truth(report.programmed), report.programmedReason, report.programmedMessage),
      condition('Ready', ...ready(report, stored)),
      ...(failing === null ? [] : [condition('Failing', 'True', 'EvaluationError', failing)]),
      ...(stalled ? [condition('Stalled', 'True', report.acceptedReason, report.message)] : []),
      ...(outcome.paused ? [pausedCondition(outcome)] : []),
    ],
  };
}

function ready(
  report: RuleReport | null,
  stored: Stored,
): readonly [status: ConditionStatus, reason: string, message: string] {
  if (report === null) return ['Unknown', 'Pending', 'the rule has not been compiled yet'];
  if (!report.accepted) return ['False', report.acceptedReason, report.message];
  // A suspended rule is in its desired state.
  if (!report.programmed && report.programmedReason !== 'Suspended') {
    return ['False', report.programmedReason, report.programmedMessage];
  }
  if (!stored.stored) return ['False', 'NotStored', stored.reason];
  return ['True', 'Ready', 'accepted, in the routing table and in the database'];
}
