import { conditionsAt } from '../../model/condition.ts';
import { ready, stalled } from '../acceptance.ts';
import type { References } from '../groupReferences.ts';
import { observedGeneration, pausedCondition } from '../paused.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import type { DiscoveryOutcome } from './discoveryProgram.ts';
import { discoveredState } from './discoveryReport.ts';

const pending: References = { status: 'Unknown', reason: 'Pending', message: 'the Services have not been read yet' };

/** The status of a discovery. Pure. */
export function discoveryStatus(outcome: DiscoveryOutcome, { stored }: Pick<StatusView, 'stored'>): StatusDraft {
  const generation = observedGeneration(outcome);
  const condition = conditionsAt(generation);
  const { acceptance, report, paused } = outcome;
  const references = report?.references ?? pending;
  const discovered = report === null ? pending : discoveredState(report);
  return {
    observedGeneration: generation,
    fields:
      report === null
        ? {}
        : { services: report.services, clusters: report.clusters, conflicts: report.conflicts.length },
    conditions: [
      condition('Accepted', acceptance.status, acceptance.reason, acceptance.message),
      ...(acceptance.status === 'True'
        ? [
            condition('ResolvedRefs', references.status, references.reason, references.message),
            condition('Discovered', discovered.status, discovered.reason, discovered.message),
          ]
        : []),
      condition('Ready', ...ready(acceptance, stored)),
      ...stalled(acceptance, condition),
      ...(paused ? [pausedCondition(outcome)] : []),
    ],
  };
}
