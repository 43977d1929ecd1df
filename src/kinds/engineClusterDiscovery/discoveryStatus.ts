import { conditionsAt } from '../../model/condition.ts';
import { ready, stalled } from '../acceptance.ts';
import type { References } from '../groupReferences.ts';
import { observedGeneration, pausedCondition } from '../paused.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import type { DiscoveryOutcome } from './discoveryProgram.ts';
import type { DiscoveryFinding, DiscoveryReport } from './discoveryReport.ts';

const pending: References = { status: 'Unknown', reason: 'Pending', message: 'the Services have not been read yet' };

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

/** Findings that a condition names. */
const LISTED = 5;

/** `a/x (…), b/y (…)`: the first of them. */
function findingsText(findings: readonly DiscoveryFinding[]): string {
  const listed = findings.slice(0, LISTED).map(({ service, message }) => `${service}: ${message}`);
  const more = findings.length - listed.length;
  return `${listed.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

/** Condition `Discovered`, without its generation: whether every Service that matches is a cluster. */
function discoveredState(report: DiscoveryReport): References {
  const { services, clusters, conflicts, refusals, held, failure } = report;
  const count = `${services} Service${services === 1 ? '' : 's'}, ${clusters} cluster${clusters === 1 ? '' : 's'}`;
  if (failure !== null) return { status: 'False', reason: 'WriteFailed', message: `${count}; ${failure}` };
  if (held > 0) {
    const message = `${count}; ${held} Services are gone at once, and their clusters stay; confirm with POST /api/heldDeletions/confirm, or create the Services again`;
    return { status: 'False', reason: 'DeletionsHeld', message };
  }
  if (conflicts.length > 0) {
    const message = `${count}; names that are not this discovery's: ${findingsText(conflicts)}`;
    return { status: 'False', reason: 'NameConflict', message };
  }
  if (refusals.length > 0) {
    const message = `${count}; Services that become no clusters: ${findingsText(refusals)}`;
    return { status: 'False', reason: refusals[0]?.reason ?? 'Refused', message };
  }
  const isComplete = clusters === services;
  if (!isComplete) return { status: 'Unknown', reason: 'Pending', message: `${count}; clusters are being written` };
  return { status: 'True', reason: 'Discovered', message: count };
}
